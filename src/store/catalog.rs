//! Finds segments and snapshots by time, from names and footers alone.
//!
//! One store can hold several boots; instants on CLOCK_BOOTTIME are only comparable within one, so every
//! lookup names the boot or uses the wall clock. Footers of finished files never change and are read once. Reads
//! no frame but the head of a growing segment.

use super::error::StoreError;
use super::footer::{BootId, Footer, Summary, Totals};
use super::index::{self, FrameEntry};
use super::layout::{Store, StoredFile};
use super::name::SegmentName;
use super::probe::PacketProbe;
use super::reader::{self, SegmentReader};
use super::scan;
use crate::sched::summary::Window;
use crate::time::ClockMap;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Segments of a recorder that runs on touch one another; a shorter hole than this is its own rounding.
const TOUCHING: u64 = 1_000_000;

/// A file as the catalog knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where.
    pub path: PathBuf,
    /// What its name says.
    pub name: SegmentName,
    /// Length, bytes.
    pub bytes: u64,
    /// From the footer; of a finished file without one, from a scan; of a growing one, from its head, with `end` 0.
    /// `None`: none of these can be read.
    pub totals: Option<Totals>,
    /// What is wrong with it.
    pub problem: Option<String>,
    modified: Option<SystemTime>,
}

impl Entry {
    /// Still growing (or left by a dead recorder).
    pub fn is_growing(&self) -> bool {
        self.name.part
    }

    /// Nothing of it can be read as a segment.
    pub fn is_unreadable(&self) -> bool {
        self.totals.is_none() && self.problem.is_some()
    }

    /// When its name says that it begins, ns since 1970; `None`: it has another name than segments have.
    pub fn named_start(&self) -> Option<u64> {
        (self.name.sequence > 0).then_some(self.name.start)
    }

    /// Any single file, wherever it lies and whatever its name.
    pub fn of_file(path: &Path) -> Result<Self, StoreError> {
        let meta = fs::metadata(path).map_err(|e| StoreError::io("open", path, e))?;
        let text = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let part = text.ends_with(".part");
        let foreign = SegmentName { start: 0, sequence: 0, label: None, part };
        let name = SegmentName::parse(text).unwrap_or(foreign);
        Ok(read_entry(StoredFile { path: path.to_owned(), name }, meta.len(), meta.modified().ok()))
    }

    /// Summary, for drawing; `None` when it has no footer. Read from the file at every call.
    pub fn summary(&self) -> Result<Option<Summary>, StoreError> {
        reader::read_summary(&self.path)
    }

    fn boot(&self) -> Option<BootId> {
        self.totals.as_ref().map(|t| t.boot)
    }
}

/// A stretch without any segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Index of the segment after which it begins.
    pub after: usize,
    /// Last instant recorded: boot and ns of its CLOCK_BOOTTIME.
    pub from: (BootId, u64),
    /// First instant recorded again; another boot when the machine was restarted.
    pub to: (BootId, u64),
    /// The same on the wall clock, ns since 1970.
    pub real: Window,
}

/// The part of one segment that a window needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Index into [`Catalog::segments`].
    pub segment: usize,
    /// Its file.
    pub path: PathBuf,
    /// Its index.
    pub footer: Footer,
    /// Frames that cover the window; heads not included.
    pub frames: Range<usize>,
}

/// What a store holds.
#[derive(Debug, Clone)]
pub struct Catalog {
    store: Store,
    segments: Vec<Entry>,
    snapshots: Vec<Entry>,
}

impl Catalog {
    /// Lists the store and reads the totals of every footer.
    pub fn open(store: &Store) -> Result<Self, StoreError> {
        let mut catalog = Catalog { store: store.clone(), segments: Vec::new(), snapshots: Vec::new() };
        catalog.refresh()?;
        Ok(catalog)
    }

    /// Brings the list up to date; reads only what is new or growing.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        self.segments = refreshed(std::mem::take(&mut self.segments), self.store.segments()?);
        // A snapshot is there when it is whole, and not before.
        let whole = self.store.snapshots()?.into_iter().filter(|f| !f.name.part).collect();
        self.snapshots = refreshed(std::mem::take(&mut self.snapshots), whole);
        Ok(())
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Segments by sequence number, which is the order in which they were recorded.
    pub fn segments(&self) -> &[Entry] {
        &self.segments
    }

    /// Snapshots by sequence number.
    pub fn snapshots(&self) -> &[Entry] {
        &self.snapshots
    }

    /// The boot of the newest segment.
    pub fn newest_boot(&self) -> Option<BootId> {
        self.segments.iter().rev().find_map(Entry::boot)
    }

    /// Summary of a segment, as [`Entry::summary`].
    pub fn summary(&self, segment: usize) -> Result<Option<Summary>, StoreError> {
        self.segments.get(segment).map_or(Ok(None), Entry::summary)
    }

    /// What a segment answers for. A growing one has no end yet (`u64::MAX`), unless the recorder died and a newer one
    /// follows in the same boot.
    pub fn window(&self, segment: usize) -> Option<Window> {
        let entry = self.segments.get(segment)?;
        let totals = entry.totals.as_ref()?;
        let next =
            || self.segments[segment + 1..].iter().filter_map(|s| s.totals.as_ref()).find(|t| t.boot == totals.boot);
        let to = if entry.is_growing() { next().map_or(u64::MAX, |t| t.start) } else { totals.end };
        Some(Window { from: totals.start, to })
    }

    /// The segment that answers for an instant.
    pub fn segment_at(&self, boot: BootId, ts: u64) -> Option<usize> {
        self.overlapping(boot, Window { from: ts, to: ts.saturating_add(1) }).next()
    }

    /// Segments that answer for a part of the window, oldest first.
    pub fn overlapping(&self, boot: BootId, window: Window) -> impl Iterator<Item = usize> + '_ {
        let hit = move |w: Window| w.from < window.to && w.to > window.from;
        let of_boot = move |&i: &usize| self.segments[i].boot() == Some(boot) && self.window(i).is_some_and(hit);
        (0..self.segments.len()).filter(of_boot)
    }

    /// Segment and frame (an index into its footer's frames) that cover an instant.
    pub fn frame_at(&self, boot: BootId, ts: u64) -> Result<Option<(usize, usize)>, StoreError> {
        let Some(segment) = self.segment_at(boot, ts) else { return Ok(None) };
        let footer = self.footer(segment)?;
        Ok(index::frame_at(&footer.frames, footer.totals.start, ts).map(|frame| (segment, frame)))
    }

    /// Exactly what has to be read for a window: segments and their frames, oldest first.
    pub fn pieces(&self, boot: BootId, window: Window) -> Result<Vec<Piece>, StoreError> {
        self.pieces_but(boot, window, None)
    }

    /// The same without the segment numbered `not`.
    pub(super) fn pieces_but(&self, boot: BootId, window: Window, not: Option<u64>) -> Result<Vec<Piece>, StoreError> {
        let mut pieces = Vec::new();
        let wanted = |&i: &usize| Some(self.segments[i].name.sequence) != not;
        for segment in self.overlapping(boot, window).filter(wanted) {
            // A late event of the window's end may stand in the next segment's first frame; the frames' own spans
            // tell, but that segment does not overlap. Recorders close a segment only when it is complete.
            let footer = match self.footer(segment) {
                Ok(footer) => footer,
                // Deleted by retention since the listing.
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let frames = index::frames_in(&footer.frames, footer.totals.start, window);
            if !frames.is_empty() {
                pieces.push(Piece { segment, path: self.segments[segment].path.clone(), footer, frames });
            }
        }
        Ok(pieces)
    }

    /// The whole footer of a segment; of one without, what a scan of its frames tells.
    pub fn footer(&self, segment: usize) -> Result<Footer, StoreError> {
        let path = &self.segments[segment].path;
        if let Some(footer) = reader::read_footer(path)? {
            return Ok(footer);
        }
        let reader = SegmentReader::open(path)?;
        let (totals, summary) = (reader.totals().clone(), reader.parts()[0].summary.clone());
        Ok(Footer { frames: reader.frames().to_vec(), summary, totals })
    }

    /// Boot and wall clock of every boot in the store, tied together by the segments' clocks.
    pub fn clock_maps(&self) -> BTreeMap<BootId, ClockMap> {
        let mut maps: BTreeMap<BootId, ClockMap> = BTreeMap::new();
        for totals in self.segments.iter().chain(&self.snapshots).filter_map(|s| s.totals.as_ref()) {
            let map = maps.entry(totals.boot).or_default();
            totals.clock_pairs().for_each(|pair| map.add(pair));
        }
        maps
    }

    /// Every recorded instant at which the wall clock read `real` (ns since 1970), newest first: several where it was set
    /// back, none in holes.
    pub fn at_wall(&self, real: u64) -> Vec<(BootId, u64)> {
        let maps = self.clock_maps();
        let mut found: Vec<(usize, BootId, u64)> = Vec::new();
        for (&boot, map) in maps.iter().filter(|(_, m)| !m.is_empty()) {
            let instants = map.to_boot(real).into_iter();
            found.extend(instants.filter_map(|ts| Some((self.segment_at(boot, ts)?, boot, ts))));
        }
        found.sort_by_key(|&(segment, _, ts)| std::cmp::Reverse((segment, ts)));
        found.into_iter().map(|(_, boot, ts)| (boot, ts)).collect()
    }

    /// Stretches without recording between neighbouring segments.
    pub fn holes(&self) -> Vec<Hole> {
        holes(&self.segments)
    }
}

/// Stretches without recording between neighbours of a list, which is in the order of recording.
pub fn holes(segments: &[Entry]) -> Vec<Hole> {
    let known = || (0..segments.len()).filter_map(|i| Some((i, segments[i].totals.as_ref()?)));
    let mut holes = Vec::new();
    for ((after, left), (_, right)) in known().zip(known().skip(1)) {
        // Of a segment that a dead recorder left nobody knows the end before it is recovered.
        let end = if segments[after].is_growing() { left.start } else { left.end };
        let unknown = segments[after].is_growing() && left.boot == right.boot;
        if unknown || (left.boot == right.boot && right.start <= end.saturating_add(TOUCHING)) {
            continue;
        }
        let (from, to) = (left.real_of(end), right.real_of(right.start));
        let real = Window { from, to: to.max(from) };
        holes.push(Hole { after, from: (left.boot, end), to: (right.boot, right.start), real });
    }
    holes
}

/// Old entries are kept where the file is the same; both lists are in the order of the sequence numbers.
fn refreshed(old: Vec<Entry>, files: Vec<StoredFile>) -> Vec<Entry> {
    let mut old: BTreeMap<PathBuf, Entry> = old.into_iter().map(|e| (e.path.clone(), e)).collect();
    let mut entries = Vec::with_capacity(files.len());
    for file in files {
        // Deleted since the listing, or renamed (then it is back at the next refresh). A link that leads nowhere is told.
        let meta = fs::metadata(&file.path).or_else(|_| fs::symlink_metadata(&file.path));
        let Ok(meta) = meta else { continue };
        let (bytes, modified) = (meta.len(), meta.modified().ok());
        let entry = match old.remove(&file.path) {
            Some(mut entry) if entry.totals.is_some() && entry.is_growing() => {
                entry.bytes = bytes; // its head does not change
                entry
            }
            Some(entry) if (entry.bytes, entry.modified) == (bytes, modified) => entry,
            _ => read_entry(file, bytes, modified),
        };
        entries.push(entry);
    }
    entries
}

fn read_entry(file: StoredFile, bytes: u64, modified: Option<SystemTime>) -> Entry {
    let totals = if file.name.part { head_totals(&file) } else { reader::read_totals(&file.path) };
    let (totals, problem) = match totals {
        Err(e) => (None, Some(e.to_string())),
        Ok(None) if !file.name.part => scanned_totals(&file),
        Ok(totals) => (totals, None),
    };
    Entry { path: file.path, name: file.name, bytes, totals, problem, modified }
}

/// A finished name without a footer: something cut it. What is whole still counts.
fn scanned_totals(file: &StoredFile) -> (Option<Totals>, Option<String>) {
    match SegmentReader::open(&file.path) {
        Err(e) => (None, Some(e.to_string())),
        Ok(reader) => {
            let damage = reader.damage().map(|d| d.to_string());
            let totals = Totals { sequence: file.name.sequence, ..reader.totals().clone() };
            let (totals, problem) = match (totals.start, reader.bytes(), damage) {
                (0, 0, _) => (None, "the file is empty".to_owned()),
                (0, _, Some(damage)) => (None, damage),
                (0, _, None) => (None, "nothing in it says when it was recorded".to_owned()),
                (_, _, damage) => {
                    let damage = damage.map(|d| format!("; {d}")).unwrap_or_default();
                    (Some(totals), format!("it has no footer{damage}"))
                }
            };
            (totals, Some(problem))
        }
    }
}

/// What the head of a growing segment tells: boot, clocks, begin.
fn head_totals(file: &StoredFile) -> Result<Option<Totals>, StoreError> {
    let open = super::layout::open_recorded(&file.path).map_err(|e| StoreError::io("open", &file.path, e))?;
    let head = match super::frame::look(&open, 0, open.metadata().map_or(0, |m| m.len())) {
        Ok(super::frame::Found::Zstd { len, .. }) => len,
        _ => return Ok(None), // nothing whole yet
    };
    let scan = scan::scan(&open, &file.path, 0, head, &mut PacketProbe::default())?;
    let totals = Totals { sequence: file.name.sequence, end: 0, ..scan.footer.totals };
    Ok(Some(totals).filter(|t| t.start > 0))
}

/// Frames of an index with their offsets, for copying: the run of bytes that frames `range` take.
pub(super) fn byte_run(frames: &[FrameEntry], range: &Range<usize>) -> Option<Range<u64>> {
    let (first, last) = (frames.get(range.start)?, frames.get(range.end.checked_sub(1)?)?);
    Some(first.offset..last.offset + last.compressed)
}
