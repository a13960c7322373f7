//! The store over hours, in columns, from footers alone.
//!
//! A segment's summary (one cell per second and CPU) is read once and kept as one small cell per second; a day is 86,400 of
//! them. Never reads a frame of events.

mod kept;

pub use kept::{kept, put_in_order};

use super::deeds::{MarkRow, SegmentRow, StoreColumn, StoreView};
use crate::names::printable;
use crate::sched::marks::{self, Marker};
use crate::sched::summary::Window;
use crate::store::catalog::Entry;
use crate::store::footer::{BootId, Summary, Totals};
use rustc_hash::FxHashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is listed: a store's, or that of files opened by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing<'a> {
    /// In the order of recording.
    pub segments: &'a [Entry],
    /// What was kept.
    pub snapshots: &'a [Entry],
    /// Stretches between the segments that were not recorded.
    pub gaps: usize,
    /// Files opened by name.
    pub single: bool,
}

impl Listing<'_> {
    /// The boot of the newest segment.
    fn newest_boot(&self) -> Option<BootId> {
        self.segments.iter().rev().find_map(|e| e.totals.as_ref()).map(|t| t.boot)
    }
}

/// One second of all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Second {
    /// ns since 1970.
    real: u64,
    busy: Option<f32>,
    /// Most threads at once.
    ready: u32,
    blocked: u32,
    worst: u64,
    loss: bool,
}

/// What is kept of a segment's summary.
#[derive(Debug, Clone, Default)]
struct Brief {
    /// Length of a cell, ns.
    step: u64,
    seconds: Vec<Second>,
    /// Those that have a name.
    marks: Vec<MarkRow>,
    /// How many the footer holds, named or not.
    held: u64,
}

impl Brief {
    /// Most threads ready at once.
    fn ready(&self) -> Option<u32> {
        self.seconds.iter().filter(|s| s.busy.is_some()).map(|s| s.ready).max()
    }
}

/// Summaries read so far, by file.
#[derive(Debug, Default)]
pub struct Summaries {
    read: FxHashMap<PathBuf, Brief>,
}

/// The range (ns since 1970; `None`: all) in so many columns.
pub fn view(listing: &Listing<'_>, summaries: &mut Summaries, range: Option<(u64, u64)>, columns: usize) -> StoreView {
    let placed = || listing.segments.iter().filter_map(|e| Some((e, e.totals.as_ref()?)));
    let unplaced = listing.segments.iter().filter(|e| listing.single && e.totals.is_none());
    let unplaced: Vec<Box<str>> = unplaced.map(|e| path_text(&e.path)).collect();
    forget_deleted(summaries, listing);
    let all = placed().map(|(e, t)| real_window(e, t)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let Some(all) = all else { return StoreView { single: listing.single, unplaced, ..StoreView::default() } };
    let (from, to) = range.unwrap_or(all);
    let mut out = StoreView {
        from_real: from,
        to_real: to.max(from + 1),
        all_real: all,
        columns: vec![StoreColumn::default(); columns.max(1)],
        gaps: u32::try_from(listing.gaps).unwrap_or(u32::MAX),
        bytes: listing.segments.iter().map(|e| e.bytes).sum(),
        single: listing.single,
        unplaced,
        ..StoreView::default()
    };
    let boot = listing.newest_boot();
    let mut sums = vec![Sum::default(); out.columns.len()];
    for (entry, totals) in placed() {
        let (begin, end) = real_window(entry, totals);
        if end <= from || begin >= to {
            continue;
        }
        let brief = brief_of(summaries, entry, totals);
        out.segments.push(SegmentRow { ready: brief.ready(), ..segment_row(entry, totals, boot) });
        for second in &brief.seconds {
            for at in columns_of(&out, second.real, brief.step) {
                sums[at].add(second);
            }
        }
        if brief.seconds.is_empty() {
            for at in columns_of(&out, begin, end - begin) {
                out.columns[at].pending = true;
            }
        }
        for mark in &brief.marks {
            if let Some(at) = column_of(&out, mark.at_real) {
                out.columns[at].mark = true;
            }
        }
        note_worst(&mut out, totals);
    }
    for (column, sum) in out.columns.iter_mut().zip(&sums) {
        sum.fill(column);
    }
    note_outside(&mut out);
    note_snapshots(listing, &mut out);
    out
}

/// Sums of the seconds of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    seconds: u32,
    known: u32,
    busy: f32,
    ready: u32,
    blocked: u32,
    worst: u64,
    loss: bool,
}

impl Sum {
    fn add(&mut self, s: &Second) {
        self.seconds += 1;
        self.loss |= s.loss;
        if let Some(busy) = s.busy {
            self.known += 1;
            self.busy += busy;
            self.ready = self.ready.max(s.ready);
            self.blocked = self.blocked.max(s.blocked);
            self.worst = self.worst.max(s.worst);
        }
    }

    fn fill(&self, column: &mut StoreColumn) {
        column.loss = self.loss;
        if self.known > 0 {
            let n = self.known as f32;
            column.busy = Some(self.busy / n);
            column.ready = Some(self.ready);
            column.blocked = Some(self.blocked);
            column.worst = Some(self.worst);
        }
    }
}

fn column_of(view: &StoreView, real: u64) -> Option<usize> {
    if !(view.from_real..view.to_real).contains(&real) {
        return None;
    }
    let span = u128::from(view.to_real - view.from_real);
    Some((u128::from(real - view.from_real) * view.columns.len() as u128 / span) as usize)
}

/// The columns that a cell of `step` ns touches: one, or several when the columns are finer.
fn columns_of(view: &StoreView, real: u64, step: u64) -> std::ops::Range<usize> {
    let (from, to) = (real.max(view.from_real), real.saturating_add(step.max(1)).min(view.to_real));
    if from >= to {
        return 0..0;
    }
    let first = column_of(view, from).unwrap_or(0);
    let last = column_of(view, to - 1).unwrap_or(first);
    // Where columns are wider than cells a cell counts once, where it begins.
    let columns = view.columns.len() as u64;
    if (view.to_real - view.from_real) / columns.max(1) >= step { first..first + 1 } else { first..last + 1 }
}

/// Begin and end on the wall clock. A growing segment reaches as far as its file was written.
fn real_window(entry: &Entry, totals: &Totals) -> (u64, u64) {
    let from = totals.real_of(totals.start);
    let to = if entry.is_growing() || totals.end <= totals.start {
        written(&entry.path).unwrap_or(from)
    } else {
        totals.real_of(totals.end)
    };
    (from, to.max(from + 1))
}

/// When a file was last written, ns since 1970.
fn written(path: &Path) -> Option<u64> {
    let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn brief_of<'s>(summaries: &'s mut Summaries, entry: &Entry, totals: &Totals) -> &'s Brief {
    if !summaries.read.contains_key(&entry.path) || entry.is_growing() {
        // A segment without a footer has no summary yet; its columns stay empty until it has.
        let summary = entry.summary().ok().flatten();
        let brief = summary.map(|s| brief(&s, totals)).unwrap_or_default();
        summaries.read.insert(entry.path.clone(), brief);
    }
    // Just put there if it was missing.
    summaries.read.entry(entry.path.clone()).or_default()
}

fn brief(summary: &Summary, totals: &Totals) -> Brief {
    let n = summary.lanes.iter().map(|l| l.cells.len()).max().unwrap_or(0);
    let mut out = Brief { step: summary.step, ..Brief::default() };
    for i in 0..n {
        let start = summary.start.saturating_add(summary.step.saturating_mul(i as u64));
        let mut second = Second { real: totals.real_of(start), ..Second::default() };
        let mut known = 0;
        let mut busy = 0.0;
        for cell in summary.lanes.iter().filter_map(|l| l.cells.get(i)) {
            if let Some(b) = cell.busy {
                known += 1;
                busy += b;
            }
            second.ready = second.ready.saturating_add(cell.ready);
            second.blocked = second.blocked.saturating_add(cell.blocked);
            second.worst = second.worst.max(cell.worst_wait);
            second.loss |= !cell.loss.is_none();
        }
        second.busy = (known > 0).then(|| busy / known as f32);
        out.seconds.push(second);
    }
    out.held = summary.marks.len() as u64;
    out.marks.extend(summary.marks.iter().filter_map(|m| mark_row(totals.real_of(m.ts), &m.text)));
    out
}

/// A mark by its name; `None` for what only ends or counts something.
pub fn mark_row(at_real: u64, text: &[u8]) -> Option<MarkRow> {
    let (name, plain) = match marks::parse(text) {
        Marker::Instant { name } => (name, true),
        Marker::Begin { name } | Marker::AsyncBegin { name, .. } => (name, false),
        Marker::End | Marker::AsyncEnd { .. } | Marker::Counter { .. } => return None,
    };
    Some(MarkRow { at_real, text: printable(name).into(), plain })
}

fn forget_deleted(summaries: &mut Summaries, listing: &Listing<'_>) {
    if summaries.read.len() > 2 * listing.segments.len() + 64 {
        summaries.read.retain(|path, _| listing.segments.iter().any(|e| e.path == *path));
    }
}

fn path_text(path: &Path) -> Box<str> {
    printable(path.as_os_str().as_bytes()).into()
}

fn segment_row(entry: &Entry, totals: &Totals, boot: Option<BootId>) -> SegmentRow {
    let (from, to) = real_window(entry, totals);
    let window = Window { from: totals.start, to: totals.start.saturating_add(to - from) };
    SegmentRow {
        path: path_text(&entry.path),
        from_real: from,
        length: to - from,
        window: (Some(totals.boot) == boot).then_some(window),
        bytes: entry.bytes,
        events: totals.events,
        busy: totals.busy,
        ready: None,
        worst: totals.worst_wait.as_ref().map(|w| (w.dur, worst_name(w))),
        lost: (!totals.loss.is_none()).then_some((!totals.loss.unknown).then_some(totals.loss.known)),
        growing: entry.is_growing(),
        snapshots: Vec::new(),
    }
}

fn note_worst(out: &mut StoreView, totals: &Totals) {
    if let Some(worst) = &totals.worst_wait
        && out.worst.as_ref().is_none_or(|(ns, ..)| worst.dur > *ns)
    {
        out.worst = Some((worst.dur, totals.real_of(worst.at), worst_name(worst)));
    }
}

/// Marks the columns before all segments and after them.
fn note_outside(out: &mut StoreView) {
    let (window, all) = (Window { from: out.from_real, to: out.to_real }, out.all_real);
    let n = out.columns.len();
    for (i, column) in out.columns.iter_mut().enumerate() {
        let cell = window.cell(i, n);
        column.outside = cell.to <= all.0 || cell.from >= all.1;
    }
}

/// Marks columns and segments that a snapshot covers.
fn note_snapshots(listing: &Listing<'_>, out: &mut StoreView) {
    for totals in listing.snapshots.iter().filter_map(|s| s.totals.as_ref()) {
        let (from, to) = (totals.real_of(totals.start), totals.real_of(totals.end));
        let span = out.to_real - out.from_real;
        let n = out.columns.len() as u64;
        for (i, column) in out.columns.iter_mut().enumerate() {
            let begin = out.from_real + (u128::from(span) * i as u128 / u128::from(n)) as u64;
            let end = out.from_real + (u128::from(span) * (i as u128 + 1) / u128::from(n)) as u64;
            column.snapshot |= begin < to && end > from;
        }
        let label = totals.snapshot.as_ref().map_or("", |s| &s.label);
        for row in &mut out.segments {
            if row.from_real < to && row.from_real.saturating_add(row.length.max(1)) > from {
                row.snapshots.push(printable(label.as_bytes()).into());
            }
        }
    }
}

fn worst_name(worst: &crate::store::footer::WorstWait) -> Box<str> {
    printable(&worst.name).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn view(seconds: u64, columns: usize) -> StoreView {
        let columns = vec![StoreColumn::default(); columns];
        StoreView { from_real: 0, to_real: seconds * 1_000_000_000, columns, ..StoreView::default() }
    }

    #[test]
    fn a_segment_names_every_snapshot_that_has_a_part_of_it() {
        const S: u64 = 1_000_000_000;
        let file = tempfile::NamedTempFile::new().unwrap();
        let entry = |from: u64, to: u64, label: &str| {
            let whole = Window { from: from * S, to: to * S };
            let note = crate::store::footer::SnapshotNote {
                reason: "key".into(),
                detail: String::new(),
                label: label.into(),
                requested_at: 0,
                asked: whole,
                real: whole,
                holes: Vec::new(),
            };
            let totals = Totals { start: whole.from, end: whole.to, snapshot: Some(note), ..Totals::default() };
            let mut entry = Entry::of_file(file.path()).unwrap();
            entry.totals = Some(totals);
            entry
        };
        let snapshots = [entry(0, 30, "signal"), entry(70, 90, "later"), entry(50, 65, "p99")];
        let listing = Listing { snapshots: &snapshots, ..Listing::default() };
        let mut v = view(120, 10);
        v.segments = vec![SegmentRow { from_real: 0, length: 60 * S, ..SegmentRow::default() }];
        note_snapshots(&listing, &mut v);
        assert_eq!(v.segments[0].snapshots, ["signal".into(), "p99".into()]);
    }

    #[test]
    fn columns_outside_of_all_segments_are_told_apart_from_gaps() {
        let mut v = view(10, 10);
        v.all_real = (2_500_000_000, 7_000_000_000);
        note_outside(&mut v);
        let outside: Vec<bool> = v.columns.iter().map(|c| c.outside).collect();
        assert_eq!(outside, [true, true, false, false, false, false, false, true, true, true]);
    }

    #[test]
    fn columns_have_the_mean_of_busy_and_the_most_of_the_rest() {
        let second = |busy, ready| Second { busy, ready, blocked: ready / 2, worst: 7, ..Second::default() };
        let seconds = vec![second(Some(1.0), 3), second(None, 9), second(Some(0.5), 1)];
        let mut sum = Sum::default();
        seconds.iter().for_each(|s| sum.add(s));
        let mut column = StoreColumn::default();
        sum.fill(&mut column);
        assert_eq!((column.busy, column.ready, column.blocked, column.worst), (Some(0.75), Some(3), Some(1), Some(7)));
        assert_eq!(Brief { seconds, ..Brief::default() }.ready(), Some(3));
        assert_eq!(Brief::default().ready(), None);
    }

    #[test]
    fn marks_are_called_by_their_name() {
        let row = |text: &[u8]| mark_row(5, text).map(|m| (m.text.to_string(), m.plain));
        assert_eq!(row(b"B|7|wait_batch"), Some(("wait_batch".into(), false)));
        assert_eq!(row(b"deploy 1.2"), Some(("deploy 1.2".into(), true)));
        assert_eq!(row(b"I|7|epoch 2"), Some(("epoch 2".into(), true)));
        assert_eq!((row(b"E|7"), row(b"C|7|steps|3")), (None, None));
    }

    #[test]
    fn a_second_fills_all_columns_it_covers_and_counts_once_in_wide_ones() {
        const S: u64 = 1_000_000_000;
        assert_eq!(columns_of(&view(10, 100), 2 * S, S), 20..30);
        assert_eq!(columns_of(&view(100, 10), 25 * S, S), 2..3);
        assert_eq!(columns_of(&view(10, 100), 10 * S, S), 0..0, "outside");
        assert_eq!(columns_of(&view(10, 7), 9 * S + S / 2, S), 6..7, "cut at the end");
    }
}
