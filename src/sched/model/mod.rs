//! What screens and reports ask: keeps the intervals of a stretch of time and answers questions about windows of it.
//!
//! A [`Model`] is a [`Consumer`]: the feed pushes items in time order, the model folds them and keeps what closes in
//! lists per thread and per CPU, pruned at the front ([`Model::prune_before`], [`Limits`]). Answers are plain data
//! ([`super::summary`]) and count what is still open up to the latest instant told. All times are ns on CLOCK_BOOTTIME;
//! windows are half open. Never reads a file or a clock, never formats anything.

mod chain;
mod chunks;
mod detail;
mod instead;
mod kept;
mod lists;
mod markers;
mod overview;
mod piece;
mod search;
mod stretch;
#[cfg(test)]
mod tests;
mod timeline;
mod waits;

pub use search::{Hit, SearchFor, glob};

use super::event::{CpuFact, EventKind, Item, Loss, ThreadNow, Tid};
use super::fold::{Consumer, Folder, Utid};
use super::order::{MAX_CPUS, MAX_TIME};
use super::summary::Window;
use super::threads::Threads;
use crate::names::NameId;
use kept::Kept;
use lists::Slice;
use piece::{NONE, OPEN, Piece};
use std::collections::VecDeque;

/// How much a model keeps. Whichever bound is reached first forgets the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Intervals kept, all threads together; one takes about 40 bytes, and a running one 44 more.
    pub intervals: usize,
    /// Time kept, ns.
    pub time: u64,
}

impl Default for Limits {
    /// 24 million intervals (about 1 GiB) and no limit on time.
    fn default() -> Self {
        Limits { intervals: 24_000_000, time: u64::MAX }
    }
}

/// Losses, gaps, stacks and markers kept; the oldest go first.
const MAX_NOTES: usize = 1 << 20;

/// How long a CPU may be idle beside a thread that is ready for it before the wait is doubted, ns: two ticks at 100 Hz.
const LEFT_IDLE: u64 = 20_000_000;

/// See the module.
#[derive(Debug)]
pub struct Model {
    folder: Folder,
    kept: Kept,
    limits: Limits,
    /// Where the lists begin, after pruning.
    from: u64,
    losses: VecDeque<Loss>,
    gaps: VecDeque<Window>,
    prints: VecDeque<markers::Print>,
    /// Kernel stacks by time: when, who, which functions.
    stacks: VecDeque<(u64, Tid, NameId)>,
    topology: Vec<CpuFact>,
    next_check: usize,
}

impl Default for Model {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Consumer for Model {
    fn item(&mut self, item: &Item) {
        self.push(item);
    }

    fn end(&mut self) {
        self.finish();
    }
}

impl Model {
    /// Knows nothing yet.
    pub fn new(limits: Limits) -> Self {
        Model {
            folder: Folder::new(),
            kept: Kept::default(),
            limits,
            from: 0,
            losses: VecDeque::new(),
            gaps: VecDeque::new(),
            prints: VecDeque::new(),
            stacks: VecDeque::new(),
            topology: Vec::new(),
            next_check: limits.intervals.min(1 << 16),
        }
    }

    /// Takes the next item in time order.
    pub fn push(&mut self, item: &Item) {
        self.folder.push(item, &mut self.kept);
        match item {
            Item::Event(event) => match &event.kind {
                EventKind::Print { text } => {
                    let utid = match event.emitter {
                        Some(tid) => self.folder.threads().utid_of(tid),
                        None => self.folder.running(event.cpu).map(|r| r.0),
                    };
                    self.prints.push_back(markers::Print { ts: event.ts, utid, text: *text });
                }
                EventKind::NewTask { tid, .. } => self.learn_owner(*tid),
                _ => {}
            },
            Item::Process(fact) => self.learn_owner(fact.pid),
            Item::Thread(fact) => self.learn_owner(fact.tid),
            Item::Loss(loss) if loss.cpu < MAX_CPUS => {
                let (from, to) = (loss.from.min(MAX_TIME), loss.to.min(MAX_TIME));
                self.losses.push_back(Loss { from, to, ..*loss });
                self.kept.cells_mut(loss.cpu).forget();
            }
            // A CPU that only a state block speaks of (nothing was switched there) has a lane like any other.
            Item::CpuState { cpu, .. } | Item::CpuOnline { cpu, .. } if *cpu < MAX_CPUS => self.kept.know_cpu(*cpu),
            Item::Gap { from, to } => {
                self.gaps.push_back(Window { from: (*from).min(MAX_TIME), to: (*to).min(MAX_TIME) });
            }
            Item::Stack { ts, tid, functions } => {
                let ts = (*ts).min(MAX_TIME);
                // Each frame brings its own, so that they come nearly in order.
                let at = self.stacks.partition_point(|s| s.0 <= ts);
                self.stacks.insert(at, (ts, *tid, *functions));
            }
            Item::Cpu(fact) => match self.topology.iter().position(|c| c.cpu == fact.cpu) {
                Some(at) => self.topology[at] = *fact,
                None if self.topology.len() < MAX_CPUS as usize => self.topology.push(*fact),
                None => {}
            },
            _ => {}
        }
        if self.kept.intervals >= self.next_check {
            self.keep_within_limits();
        }
    }

    /// The data ends: what is open stays open for good.
    pub fn finish(&mut self) {
        self.kept.edge = self.folder.latest();
        self.folder.finish(&mut self.kept);
    }

    /// Forgets what ended before `ts`. What reaches over it stays whole.
    pub fn prune_before(&mut self, ts: u64) {
        self.from = self.from.max(ts);
        self.kept.prune_before(ts, self.folder.threads());
        let drop = self.prints.partition_point(|p| p.ts < ts);
        self.prints.drain(..drop);
        let drop = self.stacks.partition_point(|s| s.0 < ts);
        self.stacks.drain(..drop);
        self.losses.retain(|l| l.to.max(l.from) >= ts);
        self.gaps.retain(|g| g.to > ts);
    }

    /// Lives of threads and processes.
    pub fn threads(&self) -> &Threads {
        self.folder.threads()
    }

    /// The fold behind the model: what everything is doing now.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// procfs was sampled: sums are exact, but what happened when within a look is not known.
    pub fn sampled(&self) -> bool {
        self.folder.sampled()
    }

    /// CPUs with their place, as far as told.
    pub fn topology(&self) -> &[CpuFact] {
        &self.topology
    }

    /// CPU ids, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.folder.cpus().chain(self.topology.iter().map(|c| c.cpu)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// What the model holds: from the first instant kept to the latest told; `None`: nothing yet.
    pub fn bounds(&self) -> Option<Window> {
        let from = self.folder.first()?.max(self.from);
        Some(Window { from, to: self.edge().max(from) })
    }

    /// First instant at which all CPUs are covered; numbers about earlier time are incomplete.
    pub fn valid_from(&self) -> u64 {
        self.folder.valid_from()
    }

    /// Losses that touch the window, in the order they were met.
    pub fn losses(&self, window: Window) -> Vec<Loss> {
        let touches = |l: &&Loss| l.from.min(l.to) < window.to && l.to.max(l.from) >= window.from;
        self.losses.iter().filter(touches).copied().collect()
    }

    /// Stretches within the window in which nothing was recorded.
    pub fn gaps(&self, window: Window) -> Vec<Window> {
        self.gaps.iter().filter(|g| g.from < window.to && g.to > window.from).copied().collect()
    }

    /// Intervals kept.
    pub fn len(&self) -> usize {
        self.kept.intervals
    }

    /// True before the first interval closed.
    pub fn is_empty(&self) -> bool {
        self.kept.intervals == 0
    }

    /// The latest instant anything is known of.
    fn edge(&self) -> u64 {
        self.folder.latest()
    }

    /// Until when an interval lasted, as far as is known: open ones to the end of the life or of the data.
    fn end_of(&self, utid: Utid, piece: &Piece) -> u64 {
        self.ended(utid, piece).unwrap_or(self.edge()).max(piece.start)
    }

    /// When it ended, be it with the thread's life: what a dead thread is in (Z or X) never ends by itself.
    fn ended(&self, utid: Utid, piece: &Piece) -> Option<u64> {
        if piece.end != OPEN {
            return Some(piece.end);
        }
        self.threads().get(utid)?.end.map(|end| end.max(piece.start))
    }

    /// How much of the window the thread lived, as far as is known, ns.
    fn lived(&self, utid: Utid, window: Window) -> u64 {
        let life = self.threads().get(utid);
        let (start, end) = (life.and_then(|l| l.start), life.and_then(|l| l.end));
        window.overlap(start.unwrap_or(0), end.unwrap_or(u64::MAX))
    }

    /// What a thread has been doing up to now; `None` when that is not known.
    ///
    /// Where the kernel is known to leave switches out, a thread that is said to wait for a CPU may long have run and
    /// slept: when that CPU idled for [`LEFT_IDLE`] meanwhile, nothing is said. (With whole traces it stands: a cgroup that
    /// has used up its CPU quota waits beside an idle CPU.)
    fn open_piece(&self, utid: Utid) -> Option<Piece> {
        let open = Piece::of(&self.folder.open(utid)?);
        let doubtful = open.is_ready() && self.folder.stats().mismatched > 0 && {
            let meanwhile = Window { from: open.start, to: self.edge().max(open.start) };
            open.cpu().is_some_and(|cpu| self.idle_ns(cpu, meanwhile) >= LEFT_IDLE)
        };
        (!doubtful).then_some(open)
    }

    /// The intervals of a thread that overlap the window, the open one included, in time order.
    fn pieces(&self, utid: Utid, window: Window) -> impl Iterator<Item = Piece> + '_ {
        let closed = self.kept.threads.get(utid as usize).map(|t| t.within(window));
        let open = self.open_piece(utid).filter(|p| p.start < window.to);
        closed.into_iter().flatten().copied().chain(open)
    }

    /// The stretches of a CPU that overlap the window, the open one included, in time order.
    fn slices(&self, cpu: u32, window: Window) -> impl DoubleEndedIterator<Item = Slice> + '_ {
        let closed = self.kept.cpus.get(cpu as usize).map(|c| c.list.within(window));
        let open = self.open_slice(cpu).filter(|s| s.start < window.to && s.end > window.from);
        closed.into_iter().flatten().copied().chain(open)
    }

    fn open_slice(&self, cpu: u32) -> Option<Slice> {
        let (utid, start, _) = self.folder.running(cpu)?;
        let row = if utid == 0 { NONE } else { self.folder.open(utid)?.row };
        Some(Slice { start, end: self.edge().max(start), busy_before: 0, known_before: 0, utid, row })
    }

    /// (busy, known) ns of a CPU within the window.
    fn busy_known(&self, cpu: u32, window: Window) -> (u64, u64) {
        let (mut busy, mut known) = self.kept.cpus.get(cpu as usize).map_or((0, 0), |c| c.list.busy_known(window));
        if let Some(open) = self.open_slice(cpu) {
            let ns = window.overlap(open.start, open.end);
            known += ns;
            busy += if open.utid == 0 { 0 } else { ns };
        }
        (busy, known)
    }

    /// What a thread was doing at an instant.
    fn piece_at(&self, utid: Utid, ts: u64) -> Option<Piece> {
        let list = self.kept.threads.get(utid as usize)?;
        let closed = list.pieces.get(list.index_at(ts)).filter(|p| p.start <= ts).copied();
        closed.or_else(|| self.open_piece(utid).filter(|p| p.start <= ts))
    }

    /// What a thread was doing at an instant.
    pub fn state_at(&self, utid: Utid, ts: u64) -> ThreadNow {
        match self.piece_at(utid, ts) {
            Some(piece) if ts < self.end_of(utid, &piece) || piece.is_open() => piece.now(),
            _ => ThreadNow::Unknown,
        }
    }

    /// Who ran on a CPU at an instant (the idle thread is 0); `None`: not known.
    pub fn running_at(&self, cpu: u32, ts: u64) -> Option<Utid> {
        let closed = self.kept.cpus.get(cpu as usize).and_then(|c| c.list.at(ts)).map(|s| s.utid);
        closed.or_else(|| self.open_slice(cpu).filter(|s| s.start <= ts && ts <= s.end).map(|s| s.utid))
    }

    fn learn_owner(&mut self, tid: Tid) {
        let threads = self.folder.threads();
        if let Some(utid) = threads.utid_of(tid) {
            let upid = threads.get(utid).and_then(|t| t.upid);
            self.kept.set_owner(utid, upid);
        }
    }

    fn keep_within_limits(&mut self) {
        let edge = self.edge();
        if self.limits.time < u64::MAX && edge.saturating_sub(self.from) > self.limits.time + self.limits.time / 8 {
            self.prune_before(edge.saturating_sub(self.limits.time));
        }
        if self.kept.intervals > self.limits.intervals {
            // An eighth at a time, by time; a burst may need several rounds.
            let from = self.bounds().map_or(0, |b| b.from);
            let step = (edge.saturating_sub(from) / 8).max(1);
            let mut until = from;
            while self.kept.intervals > self.limits.intervals - self.limits.intervals / 8 && until < edge {
                until = until.saturating_add(step);
                self.prune_before(until);
            }
        }
        while self.prints.len() > MAX_NOTES {
            self.prints.pop_front();
        }
        while self.stacks.len() > MAX_NOTES {
            self.stacks.pop_front();
        }
        while self.gaps.len() > MAX_NOTES {
            self.gaps.pop_front();
        }
        while self.losses.len() > MAX_NOTES {
            self.losses.pop_front();
        }
        self.next_check = self.kept.intervals + (self.limits.intervals / 64).clamp(1, 1 << 16);
    }
}
