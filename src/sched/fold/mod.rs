//! Folds time-ordered events into intervals: the one place where thread states are defined.
//!
//! [`Folder`] eats [`Item`]s in time order (see [`super::order`]) and tells a [`Sink`] of intervals and wake-ups.
//! It keeps only what is open now, never history, and never pairs two events across a loss. The rules, which
//! are those of Perfetto's `sched` and `thread_state` tables except where said:
//!
//! * **Switch**: who leaves ends *running*; if it left in R or R+ it is *pushed off* (Linux counts both as
//!   involuntary), else *blocked* in the state it left in. Who comes ends whatever it was and is *running*.
//! * **First switch of a CPU**: a record that does not say who left (compact, first in a file) only tells who
//!   runs; no slice is made of it, as in Perfetto. Wake-ups before it whose waker is not recorded are dropped too.
//! * **Wake-up** of a blocked (or never seen) thread ends that and makes it *runnable*. Of a pushed-off thread: no effect
//!   (Perfetto splits an R+ stretch there; it waits for the CPU all the same). Of a runnable one: it ran and slept, but its
//!   switches were not traced, since the kernel's `try_to_wake_up` writes `sched_waking` for sleeping threads only. How long
//!   it waited is unknown; it waits anew. (Perfetto lets the first wait run on.)
//! * **Wake-up of a thread that still runs** (it is about to sleep, or changes its mind): remembered. If it then
//!   leaves in R without the preempt bit within [`WAKE_RACE_NS`], it was woken, not pushed off (kernels before
//!   5.18). If it leaves in a sleeping state and runs again without any other wake-up, that wake-up was the one:
//!   it was *runnable* since it left, never asleep. (Perfetto calls that stretch sleeping.)
//! * **A switch that was not traced** (a kernel can leave some out): seen when another thread leaves a CPU, or wakes
//!   somebody there, than came last. Who ran is then known up to the last event before, who runs now from this one on,
//!   and the time between is unknown.
//! * **Loss** on a CPU: what ran there and every wait of threads last seen there ends at the last known instant
//!   with `end_known == false`; the CPU is unknown until it tells again. A sleep that no wake-up ended while
//!   a loss was anywhere is marked the same way.
//! * **Gap**: the same for all CPUs.
//! * **State blocks** fill in what is unknown and change nothing that is known.
//! * **The same thread on two CPUs** (clock skew at a migration): the earlier stretch ends where the later begins.

mod blocks;
mod change;
mod events;
#[cfg(test)]
mod tests;

use super::event::{Event, Item, Loss, ThreadNow, Tid};
use super::order::MAX_TIME;
use super::state::TaskState;
use super::threads::{IDLE, Threads};
use crate::names::{NameId, NameTable};

/// One life of a thread, as in Perfetto; dense from 0 (0 is the idle thread of all CPUs). Kernel tids are reused, utids never.
pub type Utid = u32;
/// One life of a process.
pub type Upid = u32;

/// How long before leaving the CPU in R a wake-up still explains that R (see the module): the kernel's window is the
/// few microseconds between two reads of the state in `__schedule`, stretched by interrupts.
pub const WAKE_RACE_NS: u64 = 50_000;

/// One stretch of a thread in one state: a row of Perfetto's `thread_state`.
///
/// Row numbers are given in the order in which intervals *open* (so by `start`), the interval itself is
/// handed over when it *closes*. That lets a sink keep a table in time order without sorting. (Only the first
/// intervals of a state block may start before their predecessors.) The idle thread has rows too, one per CPU
/// and stretch; Perfetto has those in `sched` only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Row number, dense from 0 in opening order.
    pub row: u32,
    /// Whose.
    pub utid: Utid,
    /// ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// ns on CLOCK_BOOTTIME; `None`: had not ended when the data, or the thread's life, did.
    pub end: Option<u64>,
    /// False when the interval was cut by a loss or gap: `end` is then the last instant it is known to have lasted
    /// (Perfetto leaves `dur = -1` where it notices).
    pub end_known: bool,
    /// What it was doing. Never `Unknown`: unknown time has no interval.
    pub state: ThreadNow,
    /// Pushed off or blocked: the state it left the CPU in, as the kernel told (R or R+, S, D, …).
    pub left: TaskState,
    /// Running: on this CPU. Runnable/preempted: the target CPU or the one it was pushed off. Blocked: where it blocked.
    pub cpu: Option<u32>,
    /// Running: its priority.
    pub prio: Option<i32>,
    /// Running: number of its row among the running intervals alone (Perfetto's `sched.id`), dense in opening order.
    pub slice: Option<u32>,
    /// Running: in which state it left the CPU; `None` while unknown or unfinished.
    pub end_state: Option<TaskState>,
    /// Runnable: the thread that woke it, and that thread's running row.
    pub waker: Option<(Utid, Option<u32>)>,
    /// Runnable: woken from interrupt context; the waker is then only whoever was running, not to blame.
    pub from_interrupt: Option<bool>,
    /// Preempted: who was put on the CPU in its place when it was pushed off.
    pub preemptor: Option<Utid>,
    /// Blocked: whether the kernel counted it as waiting for I/O.
    pub io_wait: Option<bool>,
    /// Blocked: the kernel function it blocked in (EMPTY = not known).
    pub function: NameId,
}

impl Interval {
    fn new(row: u32, utid: Utid, start: u64, state: ThreadNow) -> Self {
        Interval {
            row,
            utid,
            start,
            end: None,
            end_known: true,
            state,
            left: TaskState::RUNNABLE,
            cpu: None,
            prio: None,
            slice: None,
            end_state: None,
            waker: None,
            from_interrupt: None,
            preemptor: None,
            io_wait: None,
            function: NameId::EMPTY,
        }
    }
}

/// Receives what the fold finds. All methods default to nothing, so a sink takes what it needs.
pub trait Sink {
    /// An interval closed (or the data, or the thread's life, ended: `end == None`).
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }
    /// Wake-up of `wakee` at `ts`; `waker` is `None` from interrupt context.
    fn wake(&mut self, ts: u64, waker: Option<Utid>, wakee: Utid, target_cpu: u32) {
        let _ = (ts, waker, wakee, target_cpu);
    }
    /// Every event, in time order, once it is folded; `emitter` is the life that wrote it, as recorded or since it ran on
    /// that CPU, if known.
    fn event(&mut self, event: &Event, emitter: Option<Utid>) {
        let _ = (event, emitter);
    }
    /// Everything else the trace says (facts, clocks, losses, gaps, metadata), in the order it is met.
    fn fact(&mut self, item: &Item) {
        let _ = item;
    }
    /// Thread `utid` (kernel id `tid`) is seen for the first time, at `ts` (0: before any event).
    fn new_thread(&mut self, ts: u64, utid: Utid, tid: Tid) {
        let _ = (ts, utid, tid);
    }
    /// From `ts` on, `depth` threads are ready on this CPU's queue (target CPU of the wake-up, following migrations).
    fn queue(&mut self, ts: u64, cpu: u32, depth: u32) {
        let _ = (ts, cpu, depth);
    }
    /// From `ts` on, `depth` threads that last ran on this CPU are in D.
    fn uninterruptible(&mut self, ts: u64, cpu: u32, depth: u32) {
        let _ = (ts, cpu, depth);
    }
    /// Function and I/O wait of a blocked interval that was handed over before they were told.
    fn late_reason(&mut self, utid: Utid, row: u32, io_wait: bool, function: NameId) {
        let _ = (utid, row, io_wait, function);
    }
}

/// A sink that wants nothing.
impl Sink for () {}

/// Takes a trace item by item in time order: what the feed pushes into.
pub trait Consumer {
    /// The next item in time order.
    fn item(&mut self, item: &Item);
    /// Between items: `names` has every name that the items so far refer to.
    fn checkpoint(&mut self, names: &NameTable) {
        let _ = names;
    }
    /// True, between checkpoints, if nothing that may still come is wanted: who reads may then end early.
    fn has_enough(&self) -> bool {
        false
    }
    /// The data ends here.
    fn end(&mut self) {}
}

/// A [`Folder`] and the [`Sink`] it tells: the plain way to consume a trace.
#[derive(Debug, Default)]
pub struct Folding<S> {
    /// The fold; has the lives of threads once the data ended.
    pub folder: Folder,
    /// What it tells.
    pub sink: S,
}

impl<S: Sink> Folding<S> {
    /// A fresh fold into `sink`.
    pub fn new(sink: S) -> Self {
        Folding { folder: Folder::new(), sink }
    }
}

impl<S: Sink> Consumer for Folding<S> {
    fn item(&mut self, item: &Item) {
        self.folder.push(item, &mut self.sink);
    }

    fn end(&mut self) {
        self.folder.finish(&mut self.sink);
    }
}

/// Counts of what did not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldStats {
    /// Events folded.
    pub events: u64,
    /// Switches that were not traced, without a recorded loss: another thread left, or woke somebody, than ran there.
    pub mismatched: u64,
    /// First switches of a CPU that did not tell who left.
    pub skipped_switches: u64,
    /// Wake-ups dropped since who emitted them is unknown at the beginning of the data.
    pub skipped_wakings: u64,
    /// Items for CPU ids that cannot be.
    pub bad_cpu: u64,
}

#[derive(Debug, Clone, Copy)]
struct PendingWake {
    ts: u64,
    waker: Option<(Utid, Option<u32>)>,
    from_interrupt: bool,
}

/// What one thread is in now.
#[derive(Debug, Clone, Copy, Default)]
struct Live {
    open: Option<Interval>,
    pending: Option<PendingWake>,
    last_cpu: Option<u32>,
    /// Ready on this CPU's queue.
    queued: Option<u32>,
    /// In D, last ran on this CPU.
    in_d: Option<u32>,
    last_blocked: Option<u32>,
    /// End of its last interval: nothing told later may begin before.
    last_end: u64,
}

/// What one CPU is doing now.
#[derive(Debug, Clone, Copy, Default)]
struct CpuNow {
    /// Who runs; `None`: not known.
    running: Option<Utid>,
    prio: Option<i32>,
    /// Open stretch of the idle thread here.
    idle: Option<Interval>,
    covered_since: Option<u64>,
    /// A switch was seen here.
    switched: bool,
    last_ts: u64,
    /// End of its last stretch.
    last_end: u64,
    /// Before this instant the CPU is unknown (loss, gap): nothing may be said to begin earlier.
    unknown_until: u64,
    ready: u32,
    in_d: u32,
    offline: bool,
}

/// The fold; see the module.
#[derive(Debug, Default)]
pub struct Folder {
    threads: Threads,
    live: Vec<Live>,
    cpus: Vec<CpuNow>,
    next_row: u32,
    next_slice: u32,
    first_ts: Option<u64>,
    now: u64,
    /// End of the latest loss or gap anywhere.
    last_loss: u64,
    sampled: bool,
    stats: FoldStats,
}

impl Folder {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lives of threads and processes so far.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The latest instant anything was told of, ns on CLOCK_BOOTTIME.
    pub fn latest(&self) -> u64 {
        self.now
    }

    /// The first event's instant, ns on CLOCK_BOOTTIME.
    pub fn first(&self) -> Option<u64> {
        self.first_ts
    }

    /// First instant at which all CPUs seen so far are covered, ns on CLOCK_BOOTTIME.
    pub fn valid_from(&self) -> u64 {
        self.cpus.iter().filter_map(|c| c.covered_since).max().unwrap_or(0)
    }

    /// What did not fit together.
    pub fn stats(&self) -> FoldStats {
        self.stats
    }

    /// The source samples procfs: waits, wakers and preemptors are not known.
    pub fn sampled(&self) -> bool {
        self.sampled
    }

    /// What `utid` does now. The idle thread is `Unknown`: ask [`Folder::running`] per CPU.
    pub fn now(&self, utid: Utid) -> ThreadNow {
        self.open(utid).map_or(ThreadNow::Unknown, |i| i.state)
    }

    /// The open interval of `utid` (not of the idle thread), as far as is known now.
    pub fn open(&self, utid: Utid) -> Option<Interval> {
        let live = self.live.get(utid as usize)?;
        let mut interval = live.open?;
        if let Some(wake) = live.pending
            && matches!(interval.state, ThreadNow::Blocked(_))
            && interval.start.saturating_sub(wake.ts) <= WAKE_RACE_NS
        {
            become_woken(&mut interval, wake);
        }
        Some(interval)
    }

    /// All open intervals, the idle thread's included (one per idle CPU).
    pub fn open_intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        let threads = (0..self.live.len() as u32).filter_map(|u| self.open(u));
        threads.chain(self.cpus.iter().filter_map(|c| c.idle))
    }

    /// The CPU `utid` was last seen on or sent to.
    pub fn last_cpu(&self, utid: Utid) -> Option<u32> {
        self.live.get(utid as usize)?.last_cpu
    }

    /// Who runs on `cpu`, since when (ns on CLOCK_BOOTTIME) and at which priority; `None`: not known.
    pub fn running(&self, cpu: u32) -> Option<(Utid, u64, Option<i32>)> {
        let now = self.cpus.get(cpu as usize)?;
        let utid = now.running?;
        let open = if utid == IDLE { now.idle } else { self.live.get(utid as usize)?.open };
        Some((utid, open.map_or(now.last_ts, |i| i.start), now.prio))
    }

    /// CPU ids seen so far, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.cpus).filter(|(_, c)| c.covered_since.is_some()).map(|(id, _)| id)
    }

    /// From when on `cpu` is covered, ns on CLOCK_BOOTTIME.
    pub fn covered_since(&self, cpu: u32) -> Option<u64> {
        self.cpus.get(cpu as usize)?.covered_since
    }

    /// False once the CPU was told to be offline.
    pub fn online(&self, cpu: u32) -> bool {
        self.cpus.get(cpu as usize).is_some_and(|c| !c.offline)
    }

    /// Threads ready on this CPU's queue now.
    pub fn ready(&self, cpu: u32) -> u32 {
        self.cpus.get(cpu as usize).map_or(0, |c| c.ready)
    }

    /// Takes the next item in time order.
    pub fn push(&mut self, item: &Item, sink: &mut impl Sink) {
        if let Item::Event(event) = item {
            if event.ts > MAX_TIME {
                self.event(&Event { ts: MAX_TIME, ..*event }, sink);
            } else {
                self.event(event, sink);
            }
            return;
        }
        self.fact(item, sink);
        sink.fact(item);
    }

    fn fact(&mut self, item: &Item, sink: &mut impl Sink) {
        match item {
            Item::Event(_) => {}
            Item::Loss(loss) => self.loss(loss, sink),
            Item::CompleteThrough { ts } => self.now = self.now.max((*ts).min(MAX_TIME)),
            Item::Process(fact) => {
                self.threads.process_fact(fact);
                self.announce(sink);
            }
            Item::Thread(fact) => {
                let (_, replaced) = self.threads.thread_fact(fact);
                if let Some(old) = replaced {
                    self.forget(old, sink);
                }
                self.announce(sink);
            }
            Item::CpuState { ts, cpu, tid, prio, since } => {
                self.cpu_state((*ts).min(MAX_TIME), *cpu, *tid, *prio, *since, sink);
            }
            Item::ThreadState { ts, tid, state, since, cpu } => {
                self.thread_state((*ts).min(MAX_TIME), *tid, *state, *since, *cpu, sink);
            }
            Item::CpuOnline { ts, cpu, online } => self.cpu_online((*ts).min(MAX_TIME), *cpu, *online, sink),
            Item::Gap { from, to } => self.gap((*from).min(MAX_TIME), (*to).min(MAX_TIME), sink),
            Item::OwnThread { tid } => {
                self.threads.own_thread(*tid);
                self.announce(sink);
            }
            Item::Sampled { .. } => self.sampled = true,
            Item::Clock(_)
            | Item::System(_)
            | Item::Cpu(_)
            | Item::Counter { .. }
            | Item::Metadata { .. }
            | Item::Stack { .. }
            | Item::Damage { cpu: None, .. } => {}
            // Part of this CPU's events could not be read: as good as lost.
            Item::Damage { cpu: Some(cpu), .. } => self.loss(&Loss { cpu: *cpu, from: 0, to: 0, count: None }, sink),
        }
    }

    /// The data ends: hands over what is open, in row order, with `end == None`.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let mut open: Vec<Interval> = self.open_intervals().collect();
        open.sort_unstable_by_key(|i| i.row);
        for interval in &open {
            sink.interval(interval);
        }
        for live in &mut self.live {
            live.open = None;
            live.pending = None;
        }
        for cpu in &mut self.cpus {
            cpu.idle = None;
            cpu.running = None;
        }
    }
}

/// The stretch was a wait for the CPU after `wake`, whatever state the thread left in.
fn become_woken(interval: &mut Interval, wake: PendingWake) {
    interval.state = ThreadNow::Runnable;
    interval.waker = wake.waker;
    interval.from_interrupt = Some(wake.from_interrupt);
    interval.preemptor = None;
    interval.io_wait = None;
    interval.function = NameId::EMPTY;
}
