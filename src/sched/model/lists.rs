//! The lists of intervals of one thread and of stretches of one CPU, prunable at the front, with sums that make
//! questions about long windows cheap.

use super::super::fold::{Interval, Utid};
use super::super::summary::{StateTimes, Window};
use super::chunks::Chunks;
use super::piece::{Kind, Piece};
use std::collections::VecDeque;
use std::ops::Range;

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
    pub pieces: Chunks<Piece>,
    /// Number of the first piece kept, counted since the thread began.
    first: u64,
    /// One per full block that reaches into `pieces`.
    blocks: VecDeque<Block>,
    /// After the last full block.
    sums: Sums,
    /// Lengths of waits for the CPU whose begin and end are known, in full blocks, ns.
    waits: Chunks<u64>,
    first_wait: u64,
    /// Where it ran last, in full blocks.
    last_cpu: Option<Option<u32>>,
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
    #[inline]
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
        if (self.first + self.pieces.len() as u64).is_multiple_of(BLOCK) {
            self.seal();
        }
    }

    /// The pieces of an index range block by block, with the time ready of those that are whole and touch neither end of it
    /// (the first and the last piece of a window may reach beyond it).
    pub fn blocks(&self, first: usize, behind: usize) -> impl Iterator<Item = (Range<usize>, Option<u64>)> + '_ {
        let mut at = first;
        std::iter::from_fn(move || {
            let number = self.first + at as u64;
            let to = (((number / BLOCK + 1) * BLOCK - self.first) as usize).min(behind);
            let block = at..to;
            let nth = (number / BLOCK - self.first / BLOCK) as usize;
            let whole = at > first && to < behind && block.len() as u64 == BLOCK;
            let before = |nth: usize| self.blocks.get(nth).map_or(&self.sums, |b| &b.before).times.ready();
            at = to;
            (!block.is_empty()).then(|| (block, whole.then(|| before(nth + 1).saturating_sub(before(nth)))))
        })
    }

    /// Sums up the block that is now full. Where its beginning was forgotten meanwhile its sums are too small, but then
    /// it can never be in the middle of a window, and only differences are ever used.
    fn seal(&mut self) {
        let mut block = Block { before: self.sums, ..Block::default() };
        let from = self.pieces.len().saturating_sub(BLOCK as usize);
        for (piece, at) in self.pieces.range(from..).zip(from..).filter(|(p, _)| !p.is_open()) {
            let ns = piece.end - piece.start;
            self.sums.times.add(piece.now(), ns);
            match piece.kind {
                Kind::Running => {
                    self.sums.voluntary += u64::from(piece.left_voluntarily() == Some(true));
                    self.sums.involuntary += u64::from(piece.left_voluntarily() == Some(false));
                    self.sums.migrations += u64::from(self.last_cpu.is_some_and(|cpu| cpu != piece.cpu()));
                    self.last_cpu = Some(piece.cpu());
                }
                Kind::Blocked if piece.is_uninterruptible() && ns > block.worst_block.0 => {
                    block.worst_block = (ns, self.first + at as u64);
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
        self.blocks.push_back(block);
    }

    /// Forgets the first `n`.
    pub fn forget(&mut self, n: usize) {
        self.pieces.forget(n);
        self.first += n as u64;
        let blocks = (self.first / BLOCK).saturating_sub(self.first_block(n)).min(self.blocks.len() as u64);
        self.blocks.drain(..blocks as usize);
        let waits = self.blocks.front().map_or(self.sums.waits, |b| b.before.waits).saturating_sub(self.first_wait);
        self.waits.forget(waits as usize);
        self.first_wait += waits;
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
        let before = |block: usize| self.blocks.get(block).map_or(self.sums, |b| b.before);
        let (low, high) = (before(b), before(e));
        let mut middle = Middle {
            from: (begin * BLOCK - self.first) as usize,
            to: (end * BLOCK - self.first) as usize,
            sums: high.since(&low),
            waits: ((low.waits - self.first_wait) as usize, (high.waits - self.first_wait) as usize),
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
                absent: t.absent - b.absent,
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
    pub slices: Chunks<Slice>,
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
pub(super) fn gallop<T>(list: &Chunks<T>, from: usize, before: impl Fn(&T) -> bool) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_what_halving_finds() {
        let mut list: Chunks<u32> = Chunks::default();
        (0..100).for_each(|i| list.push_back(i / 3));
        for from in 0..101 {
            for value in 0..40 {
                let expected = list.partition_point(|&v| v < value).max(from);
                assert_eq!(gallop(&list, from, |&v| v < value), expected, "{from} {value}");
            }
        }
    }
}
