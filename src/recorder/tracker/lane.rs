//! One CPU's part of the tracker: who runs there, how many wait there, and the cells of the summary.

use crate::perfetto::encode::packets::CpuNow;
use crate::sched::event::Tid;
use crate::store::footer::{CpuLane, SummaryCell};

/// Length of a cell of the summary, ns.
pub(super) const STEP: u64 = 1_000_000_000;
/// Cells kept at most: a segment that could not be cut for an hour is summarised up to there.
const MAX_CELLS: usize = 3600;

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub id: u32,
    /// It is known who runs; `tid`, `prio` and `since` say so.
    pub known: bool,
    pub tid: Tid,
    pub prio: i32,
    pub since: u64,
    /// Threads ready to run here, and in D that left here.
    pub ready: u32,
    pub blocked: u32,
    /// Begin of the first cell.
    start: u64,
    /// Up to where busy and known time are booked.
    booked: u64,
    cells: Vec<Cell>,
    /// The last cell looked at, and the time it covers: nearly every event falls into it.
    at: usize,
    from: u64,
    until: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    busy: u64,
    known: u64,
    ready: u32,
    blocked: u32,
    pub worst: u64,
    pub lost: u64,
    pub lost_unknown: bool,
}

impl Lane {
    pub fn new(id: u32, start: u64) -> Lane {
        Lane { id, start, booked: start, ..Lane::default() }
    }

    pub fn now(&self) -> Option<CpuNow> {
        self.known.then_some(CpuNow { cpu: self.id, tid: self.tid, prio: self.prio, since: self.since })
    }

    /// The cells so far.
    pub fn shown(&self) -> CpuLane {
        CpuLane { cpu: self.id, cells: self.cells.iter().map(|c| c.shown()).collect() }
    }

    /// Begins a new row of cells.
    pub fn begin(&mut self, start: u64) {
        self.cells.clear();
        (self.start, self.booked, self.from, self.until) = (start, start, 0, 0);
    }

    /// Nothing is known from the last event to `to`.
    pub fn forget(&mut self, to: u64) {
        (self.known, self.ready, self.blocked) = (false, 0, 0);
        self.booked = self.booked.max(to);
    }

    /// Who ran since the last event is not known, nor who runs now.
    pub fn leave_out(&mut self, ts: u64) {
        self.known = false;
        self.booked = self.booked.max(ts);
    }

    /// One more thread is ready here; gives back how many are.
    #[inline]
    pub fn add_ready(&mut self, ts: u64) -> u32 {
        self.ready += 1;
        let ready = self.ready;
        let cell = self.cell(ts);
        cell.ready = cell.ready.max(ready);
        ready
    }

    pub fn add_blocked(&mut self, ts: u64) {
        self.blocked += 1;
        let blocked = self.blocked;
        let cell = self.cell(ts);
        cell.blocked = cell.blocked.max(blocked);
    }

    /// Books the time since the last event of this CPU.
    #[inline]
    pub fn book(&mut self, ts: u64) {
        if ts <= self.booked {
            return;
        }
        if self.booked >= self.from && ts <= self.until {
            let spent = if self.known { ts - self.booked } else { 0 };
            let cell = &mut self.cells[self.at];
            cell.known += spent;
            cell.busy += if self.tid != 0 { spent } else { 0 };
            self.booked = ts;
            return;
        }
        self.book_over_cells(ts);
    }

    /// The same over the borders of cells.
    #[cold]
    fn book_over_cells(&mut self, ts: u64) {
        let (mut from, busy, known) = (self.booked, self.tid != 0, self.known);
        while known && from < ts {
            let until = ts.min(self.start + ((from - self.start) / STEP + 1) * STEP);
            let cell = self.cell(from);
            cell.known += until - from;
            cell.busy += if busy { until - from } else { 0 };
            from = until;
        }
        self.booked = ts;
    }

    #[inline]
    pub fn cell(&mut self, ts: u64) -> &mut Cell {
        if ts < self.from || ts >= self.until {
            self.turn_to(ts);
        }
        &mut self.cells[self.at]
    }

    /// Makes the cell of `ts` the one that is looked at.
    #[cold]
    fn turn_to(&mut self, ts: u64) {
        let at = ((ts.saturating_sub(self.start) / STEP) as usize).min(MAX_CELLS - 1);
        if self.cells.len() <= at {
            // What stays ready or blocked over a border counts in the new cell too.
            let carried = Cell { ready: self.ready, blocked: self.blocked, ..Cell::default() };
            self.cells.resize(at + 1, carried);
        }
        self.at = at;
        self.from = self.start + at as u64 * STEP;
        // The last cell takes everything that comes after it.
        self.until = if at == MAX_CELLS - 1 { u64::MAX } else { self.from + STEP };
    }
}

impl Cell {
    fn shown(self) -> SummaryCell {
        let mut cell = SummaryCell {
            busy: (self.known > 0).then(|| (self.busy as f64 / self.known as f64) as f32),
            ready: self.ready,
            blocked: self.blocked,
            worst_wait: self.worst,
            ..SummaryCell::default()
        };
        if self.lost > 0 {
            cell.loss.add(Some(self.lost));
        }
        if self.lost_unknown {
            cell.loss.add(None);
        }
        cell
    }
}
