//! What the model keeps of each thread and CPU: lists of closed intervals in 32 bytes each, prunable at the front.

use super::super::event::{Event, EventKind, ThreadNow};
use super::super::fold::{Interval, Sink, Upid, Utid};
use super::super::occupancy::{Cells, NOBODY};
use super::super::order::MAX_CPUS;
use super::super::state::TaskState;
use super::super::summary::{StateTimes, Window};
use super::super::threads::Threads;
use crate::names::NameId;
use std::collections::VecDeque;

pub(super) const NONE: u32 = u32::MAX;
const NO_CPU: u16 = u16::MAX;
/// `end` of what never ended.
pub(super) const OPEN: u64 = u64::MAX;

/// The kind of state; with `state` it makes a [`ThreadNow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Running,
    Runnable,
    Preempted,
    Blocked,
}

/// An [`Interval`] in 32 bytes: what only one kind has shares a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub start: u64,
    /// [`OPEN`]: had not ended.
    pub end: u64,
    pub row: u32,
    /// Runnable: waker. Preempted: preemptor. Blocked: function. Else [`NONE`].
    other: u32,
    /// Running: end state ([`NONE_STATE`]: none). Else the state it left in.
    state: TaskState,
    cpu: u16,
    pub kind: Kind,
    flags: u8,
    prio: i16,
}

const NONE_STATE: TaskState = TaskState(u16::MAX);
const END_UNKNOWN: u8 = 1;
const FROM_INTERRUPT: u8 = 2;
const IO_WAIT: u8 = 4;
const IO_WAIT_TOLD: u8 = 8;
const HAS_PRIO: u8 = 16;

impl Piece {
    pub fn of(i: &Interval) -> Piece {
        let (kind, other) = match i.state {
            ThreadNow::Running => (Kind::Running, NONE),
            ThreadNow::Runnable => (Kind::Runnable, i.waker.map_or(NONE, |w| w.0)),
            ThreadNow::Preempted => (Kind::Preempted, i.preemptor.unwrap_or(NONE)),
            ThreadNow::Blocked(_) | ThreadNow::Unknown => (Kind::Blocked, i.function.0),
        };
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        Piece {
            start: i.start,
            end: i.end.unwrap_or(OPEN),
            row: i.row,
            other,
            state: if kind == Kind::Running { i.end_state.unwrap_or(NONE_STATE) } else { i.left },
            cpu: i.cpu.and_then(|c| u16::try_from(c).ok()).unwrap_or(NO_CPU),
            kind,
            flags: flag(!i.end_known, END_UNKNOWN)
                | flag(i.from_interrupt == Some(true), FROM_INTERRUPT)
                | flag(i.io_wait == Some(true), IO_WAIT)
                | flag(i.io_wait.is_some(), IO_WAIT_TOLD)
                | flag(i.prio.is_some(), HAS_PRIO),
            prio: i.prio.map_or(0, |p| p.clamp(i16::MIN.into(), i16::MAX.into()) as i16),
        }
    }

    pub fn now(&self) -> ThreadNow {
        match self.kind {
            Kind::Running => ThreadNow::Running,
            Kind::Runnable => ThreadNow::Runnable,
            Kind::Preempted => ThreadNow::Preempted,
            Kind::Blocked => ThreadNow::Blocked(self.state),
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.kind, Kind::Runnable | Kind::Preempted)
    }

    /// In D, and not merely an idle kernel thread.
    pub fn is_uninterruptible(&self) -> bool {
        self.kind == Kind::Blocked
            && self.state.contains(TaskState::UNINTERRUPTIBLE)
            && !self.state.contains(TaskState::IDLE)
    }

    pub fn is_open(&self) -> bool {
        self.end == OPEN
    }

    pub fn end_known(&self) -> bool {
        self.flags & END_UNKNOWN == 0
    }

    pub fn cpu(&self) -> Option<u32> {
        (self.cpu != NO_CPU).then_some(u32::from(self.cpu))
    }

    pub fn prio(&self) -> Option<i32> {
        (self.flags & HAS_PRIO != 0).then_some(i32::from(self.prio))
    }

    pub fn end_state(&self) -> Option<TaskState> {
        (self.kind == Kind::Running && self.state != NONE_STATE).then_some(self.state)
    }

    /// Who woke it: `None` not known (or not runnable), `Some(None)` an interrupt.
    pub fn waker(&self) -> Option<Option<Utid>> {
        match self.kind {
            Kind::Runnable if self.flags & FROM_INTERRUPT != 0 => Some(None),
            Kind::Runnable if self.other != NONE => Some(Some(self.other)),
            _ => None,
        }
    }

    pub fn preemptor(&self) -> Option<Utid> {
        (self.kind == Kind::Preempted && self.other != NONE).then_some(self.other)
    }

    pub fn function(&self) -> NameId {
        if self.kind == Kind::Blocked { NameId(self.other) } else { NameId::EMPTY }
    }

    pub fn io_wait(&self) -> Option<bool> {
        (self.flags & IO_WAIT_TOLD != 0).then_some(self.flags & IO_WAIT != 0)
    }

    /// Running: whether it left in a sleeping state (Linux: a voluntary switch), as far as known.
    pub fn left_voluntarily(&self) -> Option<bool> {
        self.end_state().map(|s| !s.is_runnable() && !s.contains(TaskState::PREEMPTED))
    }

    pub fn set_reason(&mut self, io_wait: bool, function: NameId) {
        self.other = function.0;
        self.flags = (self.flags & !IO_WAIT) | IO_WAIT_TOLD | if io_wait { IO_WAIT } else { 0 };
    }
}

/// One stretch of a CPU: who ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slice {
    pub start: u64,
    pub end: u64,
    /// Busy time of this CPU before it, ns since the list began: makes busy time of any range two look-ups.
    pub busy_before: u64,
    /// Known time before it, likewise.
    pub known_before: u64,
    pub utid: Utid,
    pub row: u32,
}

/// Closed intervals of one thread, in time order, with sums every [`BLOCK`] of them: a window over thousands reads the
/// sums, and only its edges one by one.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadList {
    pub pieces: VecDeque<Piece>,
    /// Number of the first piece kept, counted since the thread began.
    first: u64,
    /// One per block begun, for the blocks that reach into `pieces`.
    blocks: VecDeque<Block>,
    sums: Sums,
    /// Lengths of waits for the CPU whose begin and end are known, ns.
    waits: VecDeque<u64>,
    first_wait: u64,
    /// Where it ran last.
    last_cpu: Option<u16>,
}

/// Pieces of a block.
pub(super) const BLOCK: u64 = if cfg!(test) { 4 } else { 64 };

/// Everything a row counts, up to some piece.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub times: StateTimes,
    pub voluntary: u64,
    pub involuntary: u64,
    pub migrations: u64,
    waits: u64,
}

/// The sums before a block, and what is greatest within it.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    before: Sums,
    worst_wait: (u64, u64),
    worst_block: (u64, u64),
}

/// What whole blocks in the middle of a window hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Middle {
    /// Indices into `pieces` that are summed up here.
    pub from: usize,
    pub to: usize,
    pub sums: Sums,
    /// Range of the waits.
    waits: (usize, usize),
    /// Longest wait for the CPU: ns, begin.
    pub worst_wait: (u64, u64),
    /// Longest D: ns, index of the piece.
    pub worst_block: Option<(u64, usize)>,
}

impl ThreadList {
    /// Adds what closed last.
    pub fn push(&mut self, piece: Piece) {
        let number = self.first + self.pieces.len() as u64;
        if number.is_multiple_of(BLOCK) || self.blocks.is_empty() {
            self.blocks.push_back(Block { before: self.sums, ..Block::default() });
        }
        if let (false, Some(block)) = (piece.is_open(), self.blocks.back_mut()) {
            let ns = piece.end - piece.start;
            self.sums.times.add(piece.now(), ns);
            match piece.kind {
                Kind::Running => {
                    self.sums.voluntary += u64::from(piece.left_voluntarily() == Some(true));
                    self.sums.involuntary += u64::from(piece.left_voluntarily() == Some(false));
                    self.sums.migrations += u64::from(self.last_cpu.is_some_and(|cpu| cpu != piece.cpu));
                }
                Kind::Blocked if piece.is_uninterruptible() && ns > block.worst_block.0 => {
                    block.worst_block = (ns, number);
                }
                Kind::Runnable | Kind::Preempted if piece.end_known() => {
                    self.sums.waits += 1;
                    self.waits.push_back(ns);
                    if ns > block.worst_wait.0 {
                        block.worst_wait = (ns, piece.start);
                    }
                }
                _ => {}
            }
        }
        if piece.kind == Kind::Running {
            self.last_cpu = Some(piece.cpu);
        }
        self.pieces.push_back(piece);
    }

    /// Forgets the first `n`.
    pub fn forget(&mut self, n: usize) {
        self.pieces.drain(..n);
        self.first += n as u64;
        let blocks = (self.first / BLOCK).saturating_sub(self.first_block(n)).min(self.blocks.len() as u64);
        self.blocks.drain(..blocks as usize);
        let waits = self.blocks.front().map_or(self.sums.waits, |b| b.before.waits).saturating_sub(self.first_wait);
        self.waits.drain(..(waits as usize).min(self.waits.len()));
        self.first_wait += waits;
        if self.pieces.capacity() > 4 * self.pieces.len() + 64 {
            self.pieces.shrink_to(self.pieces.len() * 2);
            self.waits.shrink_to(self.waits.len() * 2);
        }
    }

    /// Number of the first block kept, when `n` pieces were forgotten but their blocks were not yet.
    fn first_block(&self, n: usize) -> u64 {
        (self.first - n as u64) / BLOCK
    }

    /// Indices of those that overlap the window.
    pub fn range(&self, window: Window) -> (usize, usize) {
        let from = self.pieces.partition_point(|p| p.end <= window.from && p.start < window.from);
        let to = gallop(&self.pieces, from, |p| p.start < window.to);
        (from, to)
    }

    /// The whole blocks between the first and the last of `pieces[from..to]`, if there are any: all of their pieces
    /// began and ended within the window.
    pub fn middle(&self, from: usize, to: usize) -> Option<Middle> {
        let begin = (self.first + from as u64 + 1).div_ceil(BLOCK);
        let end = (self.first + to as u64).saturating_sub(1) / BLOCK;
        if end <= begin {
            return None;
        }
        let first_block = self.first / BLOCK;
        let (b, e) = ((begin - first_block) as usize, (end - first_block) as usize);
        let (low, high) = (self.blocks.get(b)?, self.blocks.get(e)?);
        let mut middle = Middle {
            from: (begin * BLOCK - self.first) as usize,
            to: (end * BLOCK - self.first) as usize,
            sums: high.before.since(&low.before),
            waits: ((low.before.waits - self.first_wait) as usize, (high.before.waits - self.first_wait) as usize),
            worst_wait: (0, 0),
            worst_block: None,
        };
        for block in self.blocks.range(b..e) {
            if block.worst_wait.0 > middle.worst_wait.0 {
                middle.worst_wait = block.worst_wait;
            }
            if block.worst_block.0 > middle.worst_block.map_or(0, |w| w.0) {
                middle.worst_block = Some((block.worst_block.0, (block.worst_block.1 - self.first) as usize));
            }
        }
        Some(middle)
    }

    /// The waits of the middle, ns.
    pub fn waits(&self, middle: &Middle) -> impl Iterator<Item = u64> + '_ {
        self.waits.range(middle.waits.0..middle.waits.1).copied()
    }

    /// Those that overlap the window (an empty one at an instant: that which holds it).
    pub fn within(&self, window: Window) -> impl DoubleEndedIterator<Item = &Piece> + Clone {
        let (from, to) = self.range(window);
        self.pieces.range(from..to)
    }

    /// Index of the first that ends after `ts`.
    pub fn index_at(&self, ts: u64) -> usize {
        self.pieces.partition_point(|p| p.end <= ts)
    }
}

impl Sums {
    fn since(&self, before: &Sums) -> Sums {
        let (t, b) = (&self.times, &before.times);
        Sums {
            times: StateTimes {
                running: t.running - b.running,
                runnable: t.runnable - b.runnable,
                preempted: t.preempted - b.preempted,
                sleeping: t.sleeping - b.sleeping,
                uninterruptible: t.uninterruptible - b.uninterruptible,
                other: t.other - b.other,
                unknown: t.unknown - b.unknown,
            },
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            migrations: self.migrations - before.migrations,
            waits: self.waits - before.waits,
        }
    }
}

/// Closed stretches of one CPU, in time order, not overlapping.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuList {
    pub slices: VecDeque<Slice>,
    busy: u64,
    known: u64,
}

impl CpuList {
    pub fn push(&mut self, i: &Interval, end: u64) {
        let start = i.start.max(self.slices.back().map_or(0, |s| s.end)).min(end);
        self.slices.push_back(Slice {
            start,
            end,
            busy_before: self.busy,
            known_before: self.known,
            utid: i.utid,
            row: i.row,
        });
        self.known += end - start;
        if i.utid != 0 {
            self.busy += end - start;
        }
    }

    pub fn within(&self, window: Window) -> impl DoubleEndedIterator<Item = &Slice> + Clone {
        let from = self.slices.partition_point(|s| s.end <= window.from);
        let to = self.slices.partition_point(|s| s.start < window.to);
        self.slices.range(from..to.max(from))
    }

    /// The stretch that holds `ts`.
    pub fn at(&self, ts: u64) -> Option<&Slice> {
        self.slices.get(self.slices.partition_point(|s| s.end <= ts)).filter(|s| s.start <= ts)
    }

    /// (busy, known) ns of `from..to` in closed stretches.
    pub fn busy_known(&self, window: Window) -> (u64, u64) {
        let (b0, k0) = self.until(window.from);
        let (b1, k1) = self.until(window.to);
        (b1.saturating_sub(b0), k1.saturating_sub(k0))
    }

    fn until(&self, ts: u64) -> (u64, u64) {
        let at = self.slices.partition_point(|s| s.start < ts);
        let Some(last) = at.checked_sub(1).and_then(|i| self.slices.get(i)) else {
            return self.slices.front().map_or((0, 0), |s| (s.busy_before, s.known_before));
        };
        let part = ts.min(last.end) - last.start;
        (last.busy_before + if last.utid != 0 { part } else { 0 }, last.known_before + part)
    }
}

/// First index from `from` on for which `before` is false (it must hold for a prefix): doubling steps, then halving, so
/// that a near answer costs little however long the list is.
pub(super) fn gallop<T>(list: &VecDeque<T>, from: usize, before: impl Fn(&T) -> bool) -> usize {
    let holds = |i: usize| list.get(i).is_some_and(&before);
    let (mut low, mut step) = (from, 1);
    while holds(low + step - 1) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step - 1).min(list.len()).max(low);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// One CPU's list and cells.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuKept {
    pub list: CpuList,
    pub cells: Cells,
}

/// All lists; what the fold tells.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub threads: Vec<ThreadList>,
    pub cpus: Vec<CpuKept>,
    owners: Vec<Upid>,
    /// Closed intervals of all threads.
    pub intervals: usize,
    /// When the data ended; 0 while it goes on.
    pub edge: u64,
}

impl Kept {
    pub fn set_owner(&mut self, utid: Utid, upid: Option<Upid>) {
        if let Some(owner) = self.owners.get_mut(utid as usize) {
            *owner = upid.unwrap_or(NOBODY);
        }
    }

    pub fn cells_mut(&mut self, cpu: u32) -> &mut Cells {
        &mut self.cpu_mut(cpu).cells
    }

    fn cpu_mut(&mut self, cpu: u32) -> &mut CpuKept {
        let cpu = cpu.min(MAX_CPUS) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, CpuKept::default);
        }
        &mut self.cpus[cpu]
    }

    pub fn prune_before(&mut self, ts: u64, lives: &Threads) {
        for (thread, (_, life)) in self.threads.iter_mut().zip(lives.iter()) {
            let ended = life.end.is_some_and(|end| end <= ts);
            let drop = if ended { thread.pieces.len() } else { thread.pieces.partition_point(|p| p.end <= ts) };
            thread.forget(drop);
            self.intervals -= drop;
        }
        for cpu in &mut self.cpus {
            let drop = cpu.list.slices.partition_point(|s| s.end <= ts);
            cpu.list.slices.drain(..drop);
            cpu.cells.prune_before(ts);
        }
    }
}

impl Sink for Kept {
    fn interval(&mut self, i: &Interval) {
        if let (ThreadNow::Running, Some(cpu)) = (i.state, i.cpu) {
            let end = i.end.unwrap_or(self.edge).max(i.start);
            let owner = self.owners.get(i.utid as usize).copied().unwrap_or(NOBODY);
            let cpu = self.cpu_mut(cpu);
            cpu.list.push(i, end);
            if i.utid != 0 {
                cpu.cells.ran(i.start, end, owner);
            }
        }
        if i.utid != 0
            && let Some(thread) = self.threads.get_mut(i.utid as usize)
        {
            thread.push(Piece::of(i));
            self.intervals += 1;
        }
    }

    fn event(&mut self, event: &Event, _emitter: Option<Utid>) {
        let cells = self.cells_mut(event.cpu);
        cells.event(event.ts);
        match event.kind {
            EventKind::IrqEntry { .. } | EventKind::SoftirqEntry { .. } => cells.irq_entry(event.ts),
            EventKind::IrqExit { .. } | EventKind::SoftirqExit { .. } => cells.irq_exit(event.ts),
            _ => {}
        }
    }

    fn new_thread(&mut self, utid: Utid, _tid: i32) {
        let len = utid as usize + 1;
        if self.threads.len() < len {
            self.threads.resize_with(len, ThreadList::default);
            self.owners.resize(len, NOBODY);
        }
    }

    fn queue(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.cells_mut(cpu).queue(ts, depth);
    }

    fn late_reason(&mut self, utid: Utid, row: u32, io_wait: bool, function: NameId) {
        let Some(list) = self.threads.get_mut(utid as usize) else { return };
        // It belongs to one of the last few.
        if let Some(piece) = list.pieces.iter_mut().rev().take(4).find(|p| p.row == row && p.kind == Kind::Blocked) {
            piece.set_reason(io_wait, function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_what_halving_finds() {
        let list: VecDeque<u32> = (0..100).map(|i| i / 3).collect();
        for from in 0..101 {
            for value in 0..40 {
                let expected = list.partition_point(|&v| v < value).max(from);
                assert_eq!(gallop(&list, from, |&v| v < value), expected, "{from} {value}");
            }
        }
    }
}
