//! From files to columns: the feed with a [`Builder`] at its end.

use std::path::PathBuf;

use super::builder::{Builder, Keep};
use super::columns::Columns;
use super::facts::{Facts, Segment};
use crate::feed::{self, FeedError, OnProgress, SourceFile, Survey};
use crate::sched::event::Item;
use crate::sched::fold::{Consumer, Folding};
use crate::sched::model::Model;
use crate::sched::summary::Window;
use crate::store::name::SegmentName;
use crate::time::ClockMap;

/// What to load.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Stores, segments, snapshots, Perfetto traces.
    pub paths: Vec<PathBuf>,
    /// The time asked for; `None`: all.
    pub window: Option<Window>,
    /// What of it to keep.
    pub kept: Kept,
}

/// What is kept of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Which raw events.
    pub events: Keep,
    /// Of the states only running, which is what `sched` shows: half the memory.
    pub only_running: bool,
}

impl Kept {
    /// Everything there is.
    pub const ALL: Kept = Kept { events: Keep::Everything, only_running: false };

    /// All states, and raw events as `events` says.
    pub fn states(events: Keep) -> Kept {
        Kept { events, only_running: false }
    }
}

/// Columns, and what went wrong without ending it.
#[derive(Debug)]
pub struct Loaded {
    /// The columns.
    pub columns: Columns,
    /// Boot clock ↔ wall clock.
    pub clocks: ClockMap,
    /// What could not be read, in words.
    pub damage: Vec<String>,
    /// Events read, those a little outside of the window included.
    pub events: u64,
    /// zstd frames read, of all there are in the files.
    pub frames: (u64, u64),
    /// False if the load was stopped early.
    pub complete: bool,
}

/// Loads what `request` names; `survey` is what the feed says of the same paths.
///
/// # Errors
/// Nothing is there, or it cannot be opened. Damage inside files is told in the result instead.
pub fn load(request: &Request, survey: &Survey, progress: OnProgress<'_>) -> Result<Loaded, FeedError> {
    load_beside(request, survey, None, progress)
}

/// The same, and the model of the screens gets what the columns get.
///
/// # Errors
/// As [`load`].
pub fn load_beside(
    request: &Request,
    survey: &Survey,
    model: Option<&mut Model>,
    progress: OnProgress<'_>,
) -> Result<Loaded, FeedError> {
    let builder = Builder::new(request.kept.events);
    let folding = Folding::new(if request.kept.only_running { builder.only_running() } else { builder });
    let mut both = Both { folding, model };
    let loaded = feed::load(&request.paths, request.window, &mut both, progress)?;
    let folding = both.folding;
    let mut names = loaded.names;
    let mut facts = Facts::of_lives(folding.folder.threads(), &mut names);
    facts.valid_from = folding.folder.valid_from();
    facts.damage.extend(loaded.damage.iter().map(|text| (None, text.clone())));
    facts.segments = files(survey, &loaded.clocks);
    let columns = folding.sink.finish(names, facts, request.window);
    let (clocks, events, frames) = (loaded.clocks, loaded.events, loaded.frames);
    Ok(Loaded { columns, clocks, damage: loaded.damage, events, frames, complete: loaded.complete })
}

/// Columns, and a model beside them.
struct Both<'a> {
    folding: Folding<Builder>,
    model: Option<&'a mut Model>,
}

impl Consumer for Both<'_> {
    #[inline]
    fn item(&mut self, item: &Item) {
        self.folding.item(item);
        if let Some(model) = &mut self.model {
            model.item(item);
        }
    }

    fn end(&mut self) {
        self.folding.end();
        if let Some(model) = &mut self.model {
            model.end();
        }
    }
}

/// The rows of `segment` and `snapshot`.
fn files(survey: &Survey, clocks: &ClockMap) -> Vec<Segment> {
    let real = |boot| (!clocks.is_empty()).then(|| clocks.to_real(boot));
    let row = |file: &SourceFile| {
        let name = file.path.file_name().and_then(|n| SegmentName::parse(n.to_str()?));
        Segment {
            path: crate::names::printable(file.path.as_os_str().as_encoded_bytes()),
            sequence: name.as_ref().map(|n| n.sequence),
            start_utc: file.window.and_then(|w| real(w.from)).or(name.as_ref().map(|n| n.start)),
            window: file.window,
            bytes: file.bytes,
            counts: file.counts,
            whole: name.as_ref().is_none_or(|n| !n.part),
            snapshot: file.note.is_some() || name.as_ref().is_some_and(|n| n.label.is_some()),
            label: name.and_then(|n| n.label),
            note: file.note.clone(),
        }
    };
    // A snapshot that is named itself stands in the store's list too when both are named.
    let kept = survey.snapshots.iter().filter(|s| survey.files.iter().all(|f| f.path != s.path));
    survey.files.iter().chain(kept).map(row).collect()
}
