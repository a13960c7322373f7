//! Snapshots and marks, from footers alone.

use super::{Listing, Summaries, brief_of, path_text};
use crate::names::printable;
use crate::sched::summary::Window;
use crate::store::catalog::Entry;
use crate::store::footer::{SnapshotNote, Totals};
use crate::tui::deeds::{KeptView, MarkRow, SnapshotRow};
use crate::units::show;

/// Snapshots, newest first, and marks, the plain ones first.
pub fn kept(listing: &Listing<'_>, summaries: &mut Summaries) -> KeptView {
    let mut snapshots: Vec<SnapshotRow> =
        listing.snapshots.iter().filter_map(|e| Some(snapshot_row(e, e.totals.as_ref()?))).collect();
    snapshots.sort_by_key(|s| std::cmp::Reverse(s.taken_real));
    let mut view = KeptView { snapshots, single: listing.single, ..KeptView::default() };
    for entry in listing.segments {
        if entry.is_growing() {
            view.growing = entry.totals.as_ref().map(|t| t.start);
        }
        let Some(totals) = entry.totals.as_ref().filter(|t| t.marks > 0) else { continue };
        let brief = brief_of(summaries, entry, totals);
        view.marked = view.marked.saturating_add(totals.marks);
        view.marks_cut |= totals.marks > brief.held;
        view.marks.extend_from_slice(&brief.marks);
    }
    put_in_order(&mut view.marks);
    view
}

/// The plain ones, then the others, each newest first.
pub fn put_in_order(marks: &mut [MarkRow]) {
    marks.sort_by_key(|m| (!m.plain, std::cmp::Reverse(m.at_real)));
}

fn snapshot_row(entry: &Entry, totals: &Totals) -> SnapshotRow {
    let note = totals.snapshot.as_ref();
    let text = |t: &str| printable(t.as_bytes());
    let reason = note.map_or(String::new(), |n| match n.detail.is_empty() {
        true => text(&n.reason),
        false => format!("{}: {}", text(&n.reason), text(&n.detail)),
    });
    SnapshotRow {
        path: path_text(&entry.path),
        label: note.map_or(String::new(), |n| text(&n.label)).into(),
        reason: reason.into(),
        taken_real: totals.real_of(note.map_or(totals.end, |n| n.requested_at)),
        from_real: totals.real_of(totals.start),
        length: totals.end.saturating_sub(totals.start),
        bytes: entry.bytes,
        loss: !totals.loss.is_none(),
        gaps: note.is_some_and(|n| n.holes.iter().any(|h| inner(h, n))) || !totals.gaps.is_empty(),
        shorter: note.map_or(String::new(), shorter).into(),
    }
}

/// The newest data may wait this long for its frame: a snapshot is not called shorter for want of it.
const FRAME: u64 = 1_000_000_000;

/// A hole with data on both sides of it; the others only make the snapshot shorter.
fn inner(hole: &Window, note: &SnapshotNote) -> bool {
    hole.from > note.real.from && hole.to < note.real.to
}

/// In which way a snapshot is shorter than asked for, and why; empty when it is not.
fn shorter(note: &SnapshotNote) -> String {
    let asked = show::span_words(note.asked.len());
    let missing = |ns: u64| ns > FRAME;
    let (before, after) = (note.real.from.saturating_sub(note.asked.from), note.asked.to.saturating_sub(note.real.to));
    match (missing(before), missing(after)) {
        (false, false) => String::new(),
        (true, false) => format!("{asked} asked: nothing older was there"),
        (false, true) => format!("{asked} asked: nothing newer was there"),
        (true, true) => format!("{asked} asked: nothing older nor newer was there"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_had_no_room_are_told_of_and_plain_ones_come_first() {
        // Ten seconds of a training run that marks thousands of slices.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.pftrace.zst");
        let entry = Entry::of_file(std::path::Path::new(path)).unwrap();
        let held = entry.summary().unwrap().unwrap().marks.len();
        let total = entry.totals.as_ref().unwrap().marks;
        let mut summaries = Summaries::default();
        let view = kept(&Listing { segments: &[entry], ..Listing::default() }, &mut summaries);
        assert!((held as u64) < total && view.marks.len() <= held, "{held} of {total}");
        assert_eq!((view.marked, view.marks_cut, view.growing), (total, true, None));
        assert!(view.marks.is_sorted_by_key(|m| (!m.plain, std::cmp::Reverse(m.at_real))));
    }

    #[test]
    fn a_snapshot_that_is_only_shorter_is_no_snapshot_with_gaps() {
        const S: u64 = 1_000_000_000;
        let w = |from: u64, to: u64| Window { from: from * S, to: to * S };
        let note = |asked, real, holes: &[Window]| SnapshotNote {
            reason: "key".into(),
            detail: String::new(),
            label: String::new(),
            requested_at: 0,
            asked,
            real,
            holes: holes.to_vec(),
        };
        let cut = note(w(100, 400), w(340, 401), &[w(100, 340)]);
        assert_eq!(shorter(&cut), "5 m asked: nothing older was there");
        assert!(!cut.holes.iter().any(|h| inner(h, &cut)));
        let torn = note(w(100, 400), w(99, 400), &[w(200, 210)]);
        assert_eq!(shorter(&torn), "");
        assert!(torn.holes.iter().any(|h| inner(h, &torn)));
        let early = SnapshotNote { asked: Window { from: 0, to: 400 * S + S / 2 }, ..note(w(0, 0), w(0, 400), &[]) };
        assert_eq!(shorter(&early), "", "the newest data waits for its frame");
        assert_eq!(shorter(&note(w(100, 160), w(100, 150), &[])), "1 m asked: nothing newer was there");
    }
}
