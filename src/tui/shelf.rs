//! What the keeper lists from: the catalog of a store, or the files that were opened by name.
//!
//! Footers are read once and kept; nothing here reads a frame of events, but of a file whose footer is missing.

use super::deeds::{KeptView, StoreView};
use super::keeper::Recorder;
use super::stored::{self, Listing};
use crate::store::Store;
use crate::store::catalog::{self, Catalog, Entry};
use std::path::PathBuf;

/// Opened when first needed.
#[derive(Debug, Default)]
pub struct Shelf {
    catalog: Option<Catalog>,
    files: Option<Files>,
    summaries: stored::Summaries,
}

/// Files opened by name, with those of stores among them, in the order of recording.
#[derive(Debug, Default)]
struct Files {
    entries: Vec<Entry>,
    /// Those that were kept as snapshots, here or in a store among what was opened.
    snapshots: Vec<Entry>,
}

impl Shelf {
    /// The range (ns since 1970; `None`: all) in so many columns.
    pub fn view(
        &mut self,
        recorder: &dyn Recorder,
        range: Option<(u64, u64)>,
        columns: usize,
    ) -> Result<Box<StoreView>, String> {
        self.refresh(recorder)?;
        let Shelf { catalog, files, summaries } = self;
        Ok(Box::new(stored::view(&listing(catalog, files), summaries, range, columns)))
    }

    /// Snapshots and marks.
    pub fn kept(&mut self, recorder: &dyn Recorder) -> Result<Box<KeptView>, String> {
        self.refresh(recorder)?;
        let Shelf { catalog, files, summaries } = self;
        Ok(Box::new(stored::kept(&listing(catalog, files), summaries)))
    }

    fn refresh(&mut self, recorder: &dyn Recorder) -> Result<(), String> {
        match (recorder.store(), &mut self.catalog) {
            // Files that were named do not grow while they are looked at: they are read once.
            (None, _) if self.files.is_some() => {}
            (None, _) => self.files = Some(Files::open(recorder.files())?),
            (Some(_), Some(catalog)) => catalog.refresh().map_err(|e| e.to_string())?,
            (Some(path), none) => {
                let store = Store::open(&path).map_err(|e| e.to_string())?;
                *none = Some(Catalog::open(&store).map_err(|e| e.to_string())?);
            }
        }
        Ok(())
    }
}

fn listing<'a>(catalog: &'a Option<Catalog>, files: &'a Option<Files>) -> Listing<'a> {
    match (catalog, files) {
        (Some(catalog), _) => Listing {
            segments: catalog.segments(),
            snapshots: catalog.snapshots(),
            gaps: catalog.holes().len(),
            single: false,
        },
        (None, Some(files)) => Listing {
            segments: &files.entries,
            snapshots: &files.snapshots,
            gaps: catalog::holes(&files.entries).len(),
            single: true,
        },
        (None, None) => Listing::default(),
    }
}

impl Files {
    fn open(paths: &[PathBuf]) -> Result<Files, String> {
        let mut files = Files::default();
        for path in paths {
            if path.is_dir() {
                let store = Store::open(path).map_err(|e| e.to_string())?;
                let catalog = Catalog::open(&store).map_err(|e| e.to_string())?;
                files.entries.extend_from_slice(catalog.segments());
                files.snapshots.extend_from_slice(catalog.snapshots());
            } else {
                let entry = Entry::of_file(path).map_err(|e| e.to_string())?;
                if entry.totals.as_ref().is_some_and(|t| t.snapshot.is_some()) {
                    files.snapshots.push(entry.clone());
                }
                files.entries.push(entry);
            }
        }
        files.entries.sort_by_key(|e| e.totals.as_ref().map(|t| t.real_of(t.start)));
        Ok(files)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sched::summary::Window;
    use crate::tui::deeds::RecorderView;

    struct Named(Vec<PathBuf>);

    impl Recorder for Named {
        fn view(&mut self) -> RecorderView {
            RecorderView::default()
        }
        fn snapshot(&mut self, _: Option<u64>, _: &str) -> Result<String, String> {
            Err("no".into())
        }
        fn keep(&mut self, _: Window, _: &str) -> Result<String, String> {
            Err("no".into())
        }
        fn mark(&mut self, _: &str) -> Result<(), String> {
            Err("no".into())
        }
        fn store(&self) -> Option<PathBuf> {
            None
        }
        fn files(&self) -> &[PathBuf] {
            &self.0
        }
    }

    #[test]
    fn a_file_opened_by_name_is_listed_as_its_own_entry() {
        let demo = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.pftrace.zst"));
        let named = Named(vec![demo]);
        let mut shelf = Shelf::default();
        let view = shelf.view(&named, None, 100).unwrap();
        assert!(view.single && view.unplaced.is_empty());
        let [row] = &view.segments[..] else { panic!("{:?}", view.segments) };
        assert!(row.window.is_some() && !row.growing);
        assert_eq!((row.length / 1_000_000_000, row.events / 1000), (10, 21));
        assert!(view.columns.iter().all(|c| c.busy.is_some() && !c.loss));
        let kept = shelf.kept(&named).unwrap();
        assert!(kept.single && kept.snapshots.is_empty() && !kept.marks.is_empty());
    }

    #[test]
    fn a_file_without_a_footer_is_named_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join("foreign.pftrace");
        std::fs::write(&foreign, b"not one of ours").unwrap();
        let view = Shelf::default().view(&Named(vec![foreign.clone()]), None, 100).unwrap();
        assert_eq!((view.single, view.segments.len()), (true, 0));
        assert_eq!(view.unplaced, [foreign.to_str().unwrap().into()]);
    }
}
