//! Per-CPU cells of fixed width: who used most of each, queue depth, interrupts, events. What makes lanes cheap to draw.
//!
//! Exact busy time comes from the interval lists; cells only hold what cannot be had from two look-ups. Two widths
//! are kept ([`FINE`], [`COARSE`]), aligned to the clock, so that a lane over hours reads few of them. Knows
//! nothing of threads' names or states.

use std::collections::VecDeque;

/// Width of a fine cell, ns as a power of two (16.8 ms).
pub const FINE: u32 = 24;
/// Width of a coarse cell, ns as a power of two (0.54 s).
pub const COARSE: u32 = 29;

/// Nobody, or not known.
pub const NOBODY: u32 = u32::MAX;

/// What happened on one CPU within one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Who (a key of the caller's choice) had most of the busy time: exact when one had more than half of it.
    pub top: u32,
    /// By how much it leads, ns.
    lead: u32,
    /// Most threads ready at once.
    pub ready_max: u32,
    /// Events written.
    pub events: u32,
    /// Ready threads × ns.
    pub ready_ns: u64,
    /// Time in interrupts, ns.
    pub irq_ns: u32,
}

const EMPTY: Cell = Cell { top: NOBODY, lead: 0, ready_max: 0, events: 0, ready_ns: 0, irq_ns: 0 };

impl Default for Cell {
    fn default() -> Self {
        EMPTY
    }
}

impl Cell {
    /// One vote by time (Boyer and Moore's majority rule, weighted).
    fn vote(&mut self, who: u32, ns: u32) {
        if self.top == who {
            self.lead = self.lead.saturating_add(ns);
        } else if self.lead >= ns {
            self.lead -= ns;
        } else {
            self.top = who;
            self.lead = ns - self.lead;
        }
    }

    /// Joins the cell that follows.
    pub fn merge(&mut self, next: &Cell) {
        if next.top != NOBODY {
            self.vote(next.top, next.lead);
        }
        self.ready_max = self.ready_max.max(next.ready_max);
        self.events = self.events.saturating_add(next.events);
        self.ready_ns += next.ready_ns;
        self.irq_ns = self.irq_ns.saturating_add(next.irq_ns);
    }
}

#[derive(Debug, Clone, Default)]
struct Level {
    /// Number of the first cell kept.
    first: u64,
    cells: VecDeque<Cell>,
}

/// Cells kept per level at most: 9 minutes of fine ones, 5 hours of coarse ones, 1.3 MB each.
const MAX_CELLS: u64 = 1 << 15;

/// A jump of the clock over more cells than this (suspend, damage, a CPU that said nothing for long) starts a level
/// afresh, and no stretch fills more: so memory follows events, not what their times claim.
const MAX_STEP: u64 = 1 << 12;

impl Level {
    fn at(&mut self, index: u64) -> Option<&mut Cell> {
        if self.cells.is_empty() {
            self.first = index;
        }
        if index < self.first {
            return None;
        }
        let mut offset = index - self.first;
        if offset >= self.cells.len() as u64 + MAX_STEP {
            self.cells.clear();
            self.first = index;
            offset = 0;
        }
        if offset >= self.cells.len() as u64 {
            self.cells.resize(offset as usize + 1, EMPTY);
            while self.cells.len() as u64 > MAX_CELLS {
                self.cells.pop_front();
                self.first += 1;
            }
            offset = index - self.first;
        }
        self.cells.get_mut(offset as usize)
    }

    fn get(&self, index: u64) -> Option<&Cell> {
        self.cells.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }
}

/// The cells of one CPU.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    fine: Level,
    coarse: Level,
    /// The fine cell being filled and its number: most news concern it, so the levels are touched once a cell.
    now: Cell,
    index: u64,
    depth: u32,
    depth_since: u64,
    irq_depth: u32,
    irq_since: u64,
    irq_seen: bool,
}

impl Cells {
    /// A non-idle thread (by key) ran from `start` to `end`.
    #[inline]
    pub fn ran(&mut self, start: u64, end: u64, who: u32) {
        self.each(start, end, |cell, ns| cell.vote(who, ns as u32));
    }

    /// An event was written.
    #[inline]
    pub fn event(&mut self, ts: u64) {
        self.change(ts >> FINE, |cell| cell.events = cell.events.saturating_add(1));
    }

    /// From `ts` on, `depth` threads are ready.
    #[inline]
    pub fn queue(&mut self, ts: u64, depth: u32) {
        let (since, was) = (self.depth_since.min(ts), self.depth);
        if was > 0 && ts > since {
            self.each(since, ts, |cell, ns| {
                cell.ready_ns += ns * u64::from(was);
                cell.ready_max = cell.ready_max.max(was);
            });
        }
        // An instant's peak counts for the cell it falls in.
        if depth > was {
            self.change(ts >> FINE, |cell| cell.ready_max = cell.ready_max.max(depth));
        }
        self.depth = depth;
        self.depth_since = ts;
    }

    /// An interrupt handler (hard or soft) began; they nest.
    pub fn irq_entry(&mut self, ts: u64) {
        self.irq_seen = true;
        if self.irq_depth == 0 {
            self.irq_since = ts;
        }
        self.irq_depth = self.irq_depth.saturating_add(1);
    }

    /// An interrupt handler ended.
    pub fn irq_exit(&mut self, ts: u64) {
        self.irq_seen = true;
        if self.irq_depth == 0 {
            return;
        }
        self.irq_depth -= 1;
        if self.irq_depth == 0 {
            let since = self.irq_since.min(ts);
            self.each(since, ts, |cell, ns| cell.irq_ns = cell.irq_ns.saturating_add(ns as u32));
        }
    }

    /// What is pending across a loss is not known.
    pub fn forget(&mut self) {
        self.irq_depth = 0;
    }

    /// Interrupts were recorded on this CPU.
    pub fn irq_recorded(&self) -> bool {
        self.irq_seen
    }

    /// All cells that begin in `from..to` together (the one that holds `from` at least), and the time they cover.
    /// `now` closes what is still pending.
    pub fn sum(&self, from: u64, to: u64, now: u64) -> (Cell, u64) {
        let (level, shift) = if to.saturating_sub(from) >= 8 << COARSE || from >> FINE < self.fine.first {
            (&self.coarse, COARSE)
        } else {
            (&self.fine, FINE)
        };
        let first = from >> shift;
        let last = (to.saturating_sub(1) >> shift).max(first);
        let first_kept = first.max(level.first);
        let last_kept = last.min(level.first + level.cells.len() as u64);
        let mut sum = EMPTY;
        for index in first_kept..=last_kept.max(first_kept) {
            if let Some(cell) = level.get(index) {
                sum.merge(cell);
            }
        }
        if (first..=last).contains(&(self.index >> (shift - FINE))) {
            sum.merge(&self.now);
        }
        let covered = (last - first + 1) << shift;
        let (start, end) = (first << shift, (last + 1) << shift);
        if self.depth > 0 && self.depth_since < end && now > start {
            sum.ready_max = sum.ready_max.max(self.depth);
            let ns = now.min(end).saturating_sub(self.depth_since.max(start));
            sum.ready_ns += ns * u64::from(self.depth);
        }
        (sum, covered)
    }

    /// Forgets what is before `ts`.
    pub fn prune_before(&mut self, ts: u64) {
        for (level, shift) in [(&mut self.fine, FINE), (&mut self.coarse, COARSE)] {
            let drop = (ts >> shift).saturating_sub(level.first).min(level.cells.len() as u64);
            level.cells.drain(..drop as usize);
            level.first += drop;
        }
    }

    #[inline]
    fn each(&mut self, start: u64, end: u64, add: impl Fn(&mut Cell, u64)) {
        let mut at = start.max((end >> FINE).saturating_sub(MAX_STEP) << FINE);
        while at < end {
            let index = at >> FINE;
            let stop = end.min((index + 1) << FINE);
            self.change(index, |cell| add(cell, stop - at));
            at = stop;
        }
    }

    #[inline]
    fn change(&mut self, index: u64, change: impl Fn(&mut Cell)) {
        if index < self.index {
            self.change_past(index, change);
            return;
        }
        if index > self.index {
            self.turn_to(index);
        }
        change(&mut self.now);
    }

    #[cold]
    fn turn_to(&mut self, index: u64) {
        let done = std::mem::take(&mut self.now);
        if done != EMPTY {
            self.change_past(self.index, |cell| cell.merge(&done));
        }
        self.index = index;
    }

    fn change_past(&mut self, index: u64, change: impl Fn(&mut Cell)) {
        for (level, shift) in [(&mut self.fine, 0), (&mut self.coarse, COARSE - FINE)] {
            if let Some(cell) = level.at(index >> shift) {
                change(cell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: u64 = 1 << FINE;

    #[test]
    fn the_majority_wins_whatever_the_order() {
        let mut cells = Cells::default();
        cells.ran(0, 1000, 7);
        cells.ran(1000, 3000, 8);
        cells.ran(3000, 3500, 9);
        assert_eq!(cells.sum(0, CELL, CELL).0.top, 8);
    }

    #[test]
    fn queue_depth_is_split_over_cells() {
        let mut cells = Cells::default();
        cells.queue(CELL - 100, 2);
        cells.queue(CELL + 50, 3);
        cells.queue(CELL + 50, 0);
        let (first, covered) = cells.sum(0, CELL, 2 * CELL);
        assert_eq!((first.ready_ns, first.ready_max, covered), (200, 2, CELL));
        let second = cells.sum(CELL, 2 * CELL, 2 * CELL).0;
        assert_eq!((second.ready_ns, second.ready_max), (100, 3), "three for no time at all still is the peak");
    }

    #[test]
    fn interrupts_nest_and_a_loss_breaks_them() {
        let mut cells = Cells::default();
        cells.irq_entry(100);
        cells.irq_entry(120);
        cells.irq_exit(130);
        cells.irq_exit(150);
        cells.irq_entry(200);
        cells.forget();
        cells.irq_exit(900);
        assert_eq!(cells.sum(0, CELL, CELL).0.irq_ns, 50);
    }

    #[test]
    fn pruning_and_jumps_of_the_clock_stay_bounded() {
        let mut cells = Cells::default();
        cells.event(5);
        cells.event(100 * CELL);
        cells.prune_before(99 * CELL);
        assert_eq!(cells.sum(0, CELL, CELL).0.events, 0);
        assert_eq!(cells.sum(100 * CELL, 101 * CELL, 101 * CELL).0.events, 1);
        let far = 1 << 60;
        cells.event(far);
        cells.event(far + CELL);
        assert_eq!(cells.sum(far, far + 1, far).0.events, 1);
        cells.ran(0, far, 3);
        assert!(cells.fine.cells.len() <= MAX_CELLS as usize);
    }
}
