//! Thread states in columns, 32 bytes a row, in the order in which they open.
//!
//! Every interval of the fold is one row at the place of its row number; a running one is what `sched` lists too.
//! Decides nothing about states: it keeps what `sched::fold` says.

use super::column::Column;
use super::columns::{NONE, SchedRows, UNFINISHED};
use crate::names::NameId;
use crate::sched::event::ThreadNow;
use crate::sched::fold::{Interval, Utid};
use crate::sched::state::TaskState;

const NO_CPU: u16 = u16::MAX;
const NO_STATE: u16 = u16::MAX;
const NO_PRIO: i16 = i16::MIN;

/// What a row of `thread_state` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No interval was delivered for this row number.
    Absent,
    /// On a CPU.
    Running,
    /// Ready after a wake-up.
    Runnable,
    /// Ready since it was pushed off.
    Preempted,
    /// Not ready.
    Blocked,
    /// Nothing known.
    Unknown,
}

/// Bits of [`States::flags`].
const END_UNKNOWN: u8 = 1;
const IO_KNOWN: u8 = 2;
const IO_WAIT: u8 = 4;
const IRQ_KNOWN: u8 = 8;
const IRQ: u8 = 16;

/// log2 of the rows in a block.
const BLOCK_BITS: u32 = 12;
/// Rows in a block.
const BLOCK: usize = 1 << BLOCK_BITS;

/// Columns of some thousand rows. One allocation and one look-up for all columns of a row.
#[derive(Debug)]
struct Block {
    ts: [u64; BLOCK],
    dur: [i64; BLOCK],
    utid: [u32; BLOCK],
    /// Running: its number in `sched`. Runnable: waker. Preempted: preemptor. Blocked: function name.
    a: [u32; BLOCK],
    /// Running: priority (high half) and end state (low half). Runnable: the waker's row. Preempted and blocked: the
    /// state it left the CPU in.
    b: [u32; BLOCK],
    cpu: [u16; BLOCK],
    kind: [Kind; BLOCK],
    flags: [u8; BLOCK],
}

impl Block {
    /// What rows that were never delivered hold.
    const EMPTY: Block = Block {
        ts: [0; BLOCK],
        dur: [UNFINISHED; BLOCK],
        utid: [NONE; BLOCK],
        a: [NONE; BLOCK],
        b: [NONE; BLOCK],
        cpu: [NO_CPU; BLOCK],
        kind: [Kind::Absent; BLOCK],
        flags: [0; BLOCK],
    };
}

/// All intervals of all threads, in opening order. What `a` and `b` mean depends on the [`Kind`] of the row.
#[derive(Debug, Default)]
pub struct States {
    blocks: Vec<Box<Block>>,
    len: u32,
}

impl States {
    /// Number of rows.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begin, ns on CLOCK_BOOTTIME.
    #[inline]
    pub fn ts(&self, row: u32) -> u64 {
        self.of(row, 0, |b, n| b.ts[n])
    }

    /// Length in ns, [`UNFINISHED`] for what had not ended.
    #[inline]
    pub fn dur(&self, row: u32) -> i64 {
        self.of(row, UNFINISHED, |b, n| b.dur[n])
    }

    /// Whose.
    #[inline]
    pub fn utid(&self, row: u32) -> Utid {
        self.of(row, NONE, |b, n| b.utid[n])
    }

    /// What it is.
    #[inline]
    pub fn kind(&self, row: u32) -> Kind {
        self.of(row, Kind::Absent, |b, n| b.kind[n])
    }

    /// Running: on this CPU; ready: target or where it was pushed off; blocked: where it blocked.
    #[inline]
    pub fn cpu(&self, row: u32) -> Option<u32> {
        let cpu = self.of(row, NO_CPU, |b, n| b.cpu[n]);
        (cpu != NO_CPU).then_some(u32::from(cpu))
    }

    /// False when a loss cut it: its length is then only what is known.
    pub fn end_known(&self, row: u32) -> bool {
        self.of(row, 0, |b, n| b.flags[n]) & END_UNKNOWN == 0
    }

    /// Running: its number among the running rows (`sched.id`).
    pub fn slice(&self, row: u32) -> Option<u32> {
        self.when(row, Kind::Running, self.of(row, NONE, |b, n| b.a[n]))
    }

    /// Running: in which state it left.
    #[inline]
    pub fn end_state(&self, row: u32) -> Option<TaskState> {
        let state = self.of(row, NONE, |b, n| b.b[n]) as u16;
        (state != NO_STATE).then_some(TaskState(state))
    }

    /// Running: its kernel priority.
    pub fn prio(&self, row: u32) -> Option<i32> {
        let prio = (self.of(row, NONE, |b, n| b.b[n]) >> 16) as u16 as i16;
        (prio != NO_PRIO).then_some(i32::from(prio))
    }

    /// Runnable: who woke it.
    pub fn waker(&self, row: u32) -> Option<Utid> {
        self.when(row, Kind::Runnable, self.of(row, NONE, |b, n| b.a[n]))
    }

    /// Runnable: the row its waker was running in.
    pub fn waker_row(&self, row: u32) -> Option<u32> {
        self.when(row, Kind::Runnable, self.of(row, NONE, |b, n| b.b[n]))
    }

    /// Preempted: who came in its place.
    pub fn preemptor(&self, row: u32) -> Option<Utid> {
        self.when(row, Kind::Preempted, self.of(row, NONE, |b, n| b.a[n]))
    }

    /// Blocked or preempted: in which state it left the CPU.
    #[inline]
    pub fn left(&self, row: u32) -> Option<TaskState> {
        matches!(self.of(row, Kind::Absent, |b, n| b.kind[n]), Kind::Blocked | Kind::Preempted)
            .then(|| TaskState(self.of(row, NONE, |b, n| b.b[n]) as u16))
    }

    /// Blocked: in which function (EMPTY if not known).
    pub fn function(&self, row: u32) -> NameId {
        self.when(row, Kind::Blocked, self.of(row, NONE, |b, n| b.a[n])).map_or(NameId::EMPTY, NameId)
    }

    /// Blocked: whether the kernel counted it as waiting for I/O.
    pub fn io_wait(&self, row: u32) -> Option<bool> {
        let flags = self.of(row, 0, |b, n| b.flags[n]);
        (flags & IO_KNOWN != 0).then_some(flags & IO_WAIT != 0)
    }

    /// Runnable: whether it was woken from an interrupt.
    pub fn from_interrupt(&self, row: u32) -> Option<bool> {
        let flags = self.of(row, 0, |b, n| b.flags[n]);
        (flags & IRQ_KNOWN != 0).then_some(flags & IRQ != 0)
    }

    #[inline]
    fn when(&self, row: u32, kind: Kind, value: u32) -> Option<u32> {
        (self.of(row, Kind::Absent, |b, n| b.kind[n]) == kind && value != NONE).then_some(value)
    }

    /// Lets the processor fetch the length of `row`, which is read soon. Only a hint.
    #[inline]
    pub fn fetch(&self, row: u32) {
        #[cfg(target_arch = "x86_64")]
        if let Some(block) = self.blocks.get((row >> BLOCK_BITS) as usize) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let n = row as usize & (BLOCK - 1);
            // SAFETY: a prefetch has no effect but on the cache; the address is that of a live value.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>((&raw const block.dur[n]).cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = row;
    }

    /// First row that begins at `ts` or later.
    pub fn first_at(&self, ts: u64) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.ts(mid) < ts { low = mid + 1 } else { high = mid }
        }
        low
    }

    pub(super) fn put(&mut self, row: u32, i: &Interval) {
        let mut flags = if i.end_known { 0 } else { END_UNKNOWN };
        flags |= i.io_wait.map_or(0, |io| IO_KNOWN | if io { IO_WAIT } else { 0 });
        flags |= i.from_interrupt.map_or(0, |irq| IRQ_KNOWN | if irq { IRQ } else { 0 });
        let (kind, a, b) = match i.state {
            ThreadNow::Running => {
                let prio = i.prio.and_then(|p| i16::try_from(p).ok()).unwrap_or(NO_PRIO) as u16;
                let end = i.end_state.map_or(NO_STATE, |s| s.0);
                (Kind::Running, i.slice.unwrap_or(NONE), u32::from(prio) << 16 | u32::from(end))
            }
            ThreadNow::Runnable => {
                let (waker, row) = i.waker.map_or((NONE, NONE), |(utid, row)| (utid, row.unwrap_or(NONE)));
                (Kind::Runnable, waker, row)
            }
            ThreadNow::Preempted => (Kind::Preempted, i.preemptor.unwrap_or(NONE), u32::from(i.left.0)),
            ThreadNow::Blocked(state) => {
                (Kind::Blocked, if i.function.is_empty() { NONE } else { i.function.0 }, u32::from(state.0))
            }
            ThreadNow::Unknown => (Kind::Unknown, NONE, NONE),
        };
        let (block, n) = self.slot(row);
        block.ts[n] = i.start;
        block.dur[n] = i.end.map_or(UNFINISHED, |end| end.saturating_sub(i.start) as i64);
        block.utid[n] = i.utid;
        block.cpu[n] = i.cpu.and_then(|c| u16::try_from(c).ok()).unwrap_or(NO_CPU);
        block.kind[n] = kind;
        block.flags[n] = flags;
        block.a[n] = a;
        block.b[n] = b;
    }

    /// A reason that was told after its interval was handed over.
    pub(super) fn set_reason(&mut self, row: u32, io_wait: bool, function: NameId) {
        if self.kind(row) == Kind::Blocked {
            let (block, n) = self.slot(row);
            block.flags[n] = block.flags[n] & !IO_WAIT | IO_KNOWN | if io_wait { IO_WAIT } else { 0 };
            block.a[n] = if function.is_empty() { NONE } else { function.0 };
        }
    }

    /// Gives every thread, waker and preemptor its number by `utids`, which has one for each that was given so far.
    pub(super) fn renumber_threads(&mut self, utids: &[Utid]) {
        let new = |utid: u32| utids.get(utid as usize).copied().unwrap_or(utid);
        for block in &mut self.blocks {
            block.utid.iter_mut().for_each(|utid| *utid = new(*utid));
            for (kind, a) in block.kind.iter().zip(&mut block.a) {
                if matches!(kind, Kind::Runnable | Kind::Preempted) {
                    *a = new(*a);
                }
            }
        }
    }

    /// Puts the few rows that begin before their predecessors (those of a state block) into place, and gives rows
    /// that were never delivered the time of the row before: from here on time never falls. True if rows moved.
    pub(super) fn settle(&mut self) -> bool {
        let (mut highest, mut disordered) = (0, 0);
        for row in 0..self.len() {
            if self.of(row, Kind::Absent, |b, n| b.kind[n]) == Kind::Absent {
                let (block, n) = self.slot(row);
                block.ts[n] = highest;
            }
            let ts = self.of(row, 0, |b, n| b.ts[n]);
            if ts < highest {
                disordered = row + 1;
            }
            highest = highest.max(ts);
        }
        let mut moved: Vec<(u32, u32)> = Vec::new();
        for (from, to) in self.disordered(disordered) {
            let mut order: Vec<u32> = (from..to).collect();
            order.sort_by_key(|row| self.of(*row, 0, |b, n| b.ts[n]));
            moved.extend(order.iter().zip(from..to).map(|(old, new)| (*old, new)));
            self.permute(&order, from);
        }
        if moved.is_empty() {
            return false;
        }
        moved.sort_unstable();
        for row in 0..self.len() {
            let waker = self.of(row, NONE, |b, n| b.b[n]);
            if self.of(row, Kind::Absent, |b, n| b.kind[n]) == Kind::Runnable
                && let Ok(n) = moved.binary_search_by_key(&waker, |m| m.0)
            {
                let (block, at) = self.slot(row);
                block.b[at] = moved[n].1;
            }
        }
        true
    }

    /// The stretches of rows before `end` that sorting would change, apart from each other.
    fn disordered(&self, end: u32) -> Vec<(u32, u32)> {
        let mut highest: Vec<u64> = Vec::with_capacity(end as usize);
        let mut out: Vec<(u32, u32)> = Vec::new();
        for row in 0..end {
            let (ts, so_far) = (self.of(row, 0, |b, n| b.ts[n]), highest.last().copied().unwrap_or(0));
            highest.push(so_far.max(ts));
            if ts < so_far {
                // It belongs before the first row that begins later.
                let mut from = highest.partition_point(|h| *h <= ts) as u32;
                while let Some(last) = out.pop_if(|last| from < last.1) {
                    from = from.min(last.0);
                }
                out.push((from, row + 1));
            }
        }
        out
    }

    /// Rows `order[0]`, `order[1]`, … go to `from`, `from + 1`, ….
    fn permute(&mut self, order: &[u32], from: u32) {
        let rows: Vec<Row> = order.iter().map(|row| self.take(*row)).collect();
        for (row, r) in (from..).zip(rows) {
            let (block, n) = self.slot(row);
            (block.ts[n], block.dur[n], block.utid[n], block.cpu[n]) = (r.ts, r.dur, r.utid, r.cpu);
            (block.kind[n], block.flags[n], block.a[n], block.b[n]) = (r.kind, r.flags, r.a, r.b);
        }
    }

    fn take(&mut self, row: u32) -> Row {
        let (b, n) = self.slot(row);
        Row {
            ts: b.ts[n],
            dur: b.dur[n],
            utid: b.utid[n],
            cpu: b.cpu[n],
            kind: b.kind[n],
            flags: b.flags[n],
            a: b.a[n],
            b: b.b[n],
        }
    }

    /// The place of `row`, made if need be.
    #[inline]
    fn slot(&mut self, row: u32) -> (&mut Block, usize) {
        let at = (row >> BLOCK_BITS) as usize;
        while at >= self.blocks.len() {
            self.blocks.push(Box::new(Block::EMPTY));
        }
        self.len = self.len.max(row + 1);
        (&mut self.blocks[at], row as usize & (BLOCK - 1))
    }

    /// One value of `row`, or `fill` if there is no such row.
    #[inline]
    fn of<T>(&self, row: u32, fill: T, value: impl Fn(&Block, usize) -> T) -> T {
        match self.blocks.get((row >> BLOCK_BITS) as usize) {
            Some(block) => value(block, row as usize & (BLOCK - 1)),
            None => fill,
        }
    }

    /// The running rows in row order, numbering them anew.
    pub(super) fn renumber_slices(&mut self, sched: &mut SchedRows) {
        let mut next = 0;
        let mut rows = Column::new(NONE);
        for row in 0..self.len() {
            if self.of(row, Kind::Absent, |b, n| b.kind[n]) == Kind::Running
                && self.of(row, NONE, |b, n| b.a[n]) != NONE
            {
                let (block, n) = self.slot(row);
                block.a[n] = next;
                rows.push(row);
                next += 1;
            }
        }
        *sched = SchedRows::Listed(rows);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }
}

/// All columns of one row, on its way to another place.
struct Row {
    ts: u64,
    dur: i64,
    utid: u32,
    cpu: u16,
    kind: Kind,
    flags: u8,
    a: u32,
    b: u32,
}
