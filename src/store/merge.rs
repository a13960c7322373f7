//! Totals and summary of a snapshot from those of the segments it was copied from.
//!
//! Pure arithmetic on what footers say. A number that covered more than the window is only taken where it
//! can be cut to it; else it is not known.

use super::footer::{CpuLane, Foremost, Summary, SummaryCell, Totals, WorstWait};
use crate::sched::summary::Window;
use std::collections::BTreeMap;

/// Merges parts (oldest first), each with what its copied frames cover, into one file that covers `window`. Events, loss and
/// sequence follow from the index and are the writer's.
pub(super) fn merge(parts: &[(&Totals, &Summary, Window)], window: Window) -> (Totals, Summary) {
    let summary = summaries(parts, window);
    let Some(((first, ..), (last, ..))) = parts.first().zip(parts.last()) else { return Default::default() };
    let within = |ts: u64| window.from <= ts && ts < window.to;
    let mut totals = Totals {
        boot: first.boot,
        host: last.host.clone(),
        recorder: last.recorder.clone(),
        start: window.from,
        end: window.to,
        valid_from: first.valid_from.clamp(window.from, window.to),
        clock: first.clock,
        clock_end: if last.clock_end.boot > 0 { last.clock_end } else { last.clock },
        cpus: parts.iter().map(|p| p.0.cpus).max().unwrap_or(0),
        worst_wait: worst_wait(parts, &summary, window),
        sampled_hz: parts.iter().find_map(|p| p.0.sampled_hz),
        ..Totals::default()
    };
    (totals.busy, totals.busiest) = summary.occupancy(window.to);
    totals.marks = parts.iter().map(|(t, s, w)| marks(t, s, *w)).sum();
    totals.gaps = parts.iter().flat_map(|p| &p.0.gaps).filter(|g| within(g.from) || within(g.to)).copied().collect();
    totals.gaps.extend(parts.windows(2).map(|p| Window { from: p[0].2.to, to: p[1].2.from }).filter(|g| g.from < g.to));
    totals.gaps.sort_by_key(|g| g.from);
    (totals, summary)
}

/// All marks of a part that is taken whole; of one that is cut, those whose time is kept.
fn marks(totals: &Totals, summary: &Summary, window: Window) -> u64 {
    if window.from <= totals.start && totals.end <= window.to {
        return totals.marks;
    }
    summary.marks.iter().filter(|m| window.from <= m.ts && m.ts < window.to).count() as u64
}

/// The longest wait that began in the window. Where a part's own longest lies outside, its cells tell a length but not who: tid −1.
fn worst_wait(parts: &[(&Totals, &Summary, Window)], summary: &Summary, window: Window) -> Option<WorstWait> {
    let named = parts.iter().filter_map(|p| p.0.worst_wait.as_ref());
    let named = named.filter(|w| window.from <= w.at && w.at < window.to).max_by_key(|w| w.dur);
    let cells = summary.lanes.iter().flat_map(|l| l.cells.iter().enumerate());
    let (at, dur) = cells.map(|(i, c)| (i as u64, c.worst_wait)).max_by_key(|c| c.1).unwrap_or((0, 0));
    match named {
        Some(named) if named.dur >= dur => Some(named.clone()),
        _ if dur == 0 => named.cloned(),
        _ => Some(WorstWait {
            dur,
            at: summary.start.saturating_add(at.saturating_mul(summary.step)),
            tid: -1,
            name: Vec::new(),
        }),
    }
}

/// Cells of all parts on the grid of the first; cells that the window does not touch stay out, time without cells is unknown.
fn summaries(parts: &[(&Totals, &Summary, Window)], window: Window) -> Summary {
    let mut out = Summary::default();
    let mut lanes: BTreeMap<u32, Vec<SummaryCell>> = BTreeMap::new();
    let mut room = MOST_CELLS;
    let mut marks = Foremost::default();
    let within = |ts: u64| window.from <= ts && ts < window.to;
    for (_, summary, _) in parts.iter().filter(|p| p.1.step > 0) {
        if out.step == 0 {
            out.step = summary.step;
            out.start = summary.start + window.from.saturating_sub(summary.start) / summary.step * summary.step;
        }
        if summary.step != out.step {
            continue; // another recorder's grid: its time stays unknown
        }
        for lane in &summary.lanes {
            let cells = lanes.entry(lane.cpu).or_default();
            merge_lane(cells, &mut room, (out.start, out.step), &lane.cells, summary.start, window);
        }
        summary.marks.iter().filter(|m| within(m.ts)).for_each(|m| marks.offer(m.ts, &m.text));
    }
    out.lanes = lanes.into_iter().map(|(cpu, cells)| CpuLane { cpu, cells }).collect();
    // A lane that ends early goes on unknown; what is set aside stays in proportion to what was read.
    let longest = out.lanes.iter().map(|l| l.cells.len()).max().unwrap_or(0);
    if longest.saturating_mul(out.lanes.len()) <= MOST_CELLS {
        out.lanes.iter_mut().for_each(|l| l.cells.resize(longest, SummaryCell::default()));
    }
    out.marks = marks.take();
    out
}

/// Most cells of all lanes together (an hour of 1,024 CPUs): a hostile footer must not make us set memory aside.
const MOST_CELLS: usize = 1 << 22;

/// Puts a lane's cells, the first of which begins at `start`, onto the grid, while there is `room` for more.
fn merge_lane(
    cells: &mut Vec<SummaryCell>,
    room: &mut usize,
    (grid, step): (u64, u64),
    lane: &[SummaryCell],
    start: u64,
    window: Window,
) {
    for (i, cell) in lane.iter().enumerate() {
        let at = start.saturating_add((i as u64).saturating_mul(step));
        // The nearest cell: segments begin at whole minutes on the wall clock, the boot clock may have drifted against it.
        let slot = (at.saturating_add(step / 2).saturating_sub(grid)) / step;
        if at.saturating_add(step) <= window.from || at >= window.to || at.saturating_add(step / 2) < grid {
            continue;
        }
        let Some(slot) = usize::try_from(slot).ok().filter(|&slot| slot < MOST_CELLS) else { break };
        if cells.len() <= slot {
            let Some(left) = room.checked_sub(slot + 1 - cells.len()) else { break };
            *room = left;
            cells.resize(slot + 1, SummaryCell::default());
        }
        cells[slot] = both(cells[slot], *cell);
    }
}

/// Two cells that fall on one: the last one's occupancy where known, the worse of the rest.
fn both(a: SummaryCell, b: SummaryCell) -> SummaryCell {
    let mut loss = a.loss;
    loss.merge(b.loss);
    SummaryCell {
        busy: b.busy.or(a.busy),
        ready: a.ready.max(b.ready),
        blocked: a.blocked.max(b.blocked),
        worst_wait: a.worst_wait.max(b.worst_wait),
        loss,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::footer::Mark;
    use super::*;

    const S: u64 = 1_000_000_000;

    fn cell(busy: f32, worst_wait: u64) -> SummaryCell {
        SummaryCell { busy: Some(busy), ready: 1, worst_wait, ..SummaryCell::default() }
    }

    /// A minute from `start` on CPU 0, occupancy 0.5 everywhere, its longest wait of `worst` in second `at`.
    fn minute(start: u64, worst: u64, at: u64) -> (Totals, Summary) {
        let mut cells = vec![cell(0.5, 10); 60];
        cells[at as usize].worst_wait = worst;
        let wait = WorstWait { dur: worst, at: start + at * S, tid: 7, name: b"w".to_vec() };
        let marks = vec![Mark { ts: start + 5 * S, text: b"m".to_vec() }];
        let totals = Totals { start, end: start + 60 * S, marks: 1, worst_wait: Some(wait), ..Totals::default() };
        (totals, Summary { start, step: S, lanes: vec![CpuLane { cpu: 0, cells }], marks })
    }

    #[test]
    fn cells_of_the_window_line_up_over_segments() {
        let (a, b) = (minute(0, 500, 3), minute(60 * S, 400, 10));
        let window = Window { from: 30 * S + S / 2, to: 75 * S };
        let parts = [
            (&a.0, &a.1, Window { from: window.from, to: 60 * S }),
            (&b.0, &b.1, Window { from: 60 * S, to: window.to }),
        ];
        let (totals, summary) = merge(&parts, window);
        assert_eq!((summary.start, summary.lanes[0].cells.len()), (30 * S, 45));
        assert_eq!((totals.busy, totals.busiest), (Some(0.5), Some((0, 0.5))));
        let wait = totals.worst_wait.unwrap();
        assert_eq!((wait.dur, wait.at, wait.tid), (400, 70 * S, 7), "the one of second 3 is outside");
        assert_eq!(totals.marks, 1, "the mark of second 5 is outside, that of second 65 inside");
    }

    #[test]
    fn a_longest_wait_outside_leaves_a_length_without_a_name() {
        let a = minute(0, 500, 3);
        let window = Window { from: 10 * S, to: 20 * S };
        let (totals, _) = merge(&[(&a.0, &a.1, window)], window);
        let wait = totals.worst_wait.unwrap();
        assert_eq!((wait.dur, wait.tid), (10, -1));
    }

    #[test]
    fn a_hole_between_segments_is_a_gap_with_unknown_cells() {
        let (a, b) = (minute(0, 5, 0), minute(120 * S, 5, 0));
        let window = Window { from: 0, to: 180 * S };
        let parts = [(&a.0, &a.1, Window { from: 0, to: 60 * S }), (&b.0, &b.1, Window { from: 120 * S, to: 180 * S })];
        let (totals, summary) = merge(&parts, window);
        assert_eq!(totals.gaps, [Window { from: 60 * S, to: 120 * S }]);
        assert_eq!(summary.lanes[0].cells.len(), 180);
        assert!(summary.lanes[0].cells[60..120].iter().all(|c| c.busy.is_none()));
        assert_eq!(totals.busy, Some(0.5), "unknown time does not count as idle");
    }

    #[test]
    fn a_hostile_grid_sets_no_memory_aside() {
        let (mut a, mut b) = (minute(0, 5, 0), minute(0, 5, 0));
        (a.1.step, b.1.step) = (1, 1);
        b.1.start = u64::MAX - 1;
        let window = Window { from: 0, to: u64::MAX };
        let (_, summary) = merge(&[(&a.0, &a.1, window), (&b.0, &b.1, window)], window);
        assert_eq!(summary.lanes[0].cells.len(), 60);
    }
}
