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
//! * **Wake-up** of a blocked (or never seen) thread ends that and makes it *runnable*. Of a runnable or pushed-off
//!   thread: no effect (Perfetto splits an R+ stretch there; it waits for the CPU all the same).
//! * **Wake-up of a thread that still runs** (it is about to sleep, or changes its mind): remembered. If it then
//!   leaves in R without the preempt bit within [`WAKE_RACE_NS`], it was woken, not pushed off (kernels before
//!   5.18). If it leaves in a sleeping state and runs again without any other wake-up, that wake-up was the one:
//!   it was *runnable* since it left, never asleep. (Perfetto calls that stretch sleeping.)
//! * **Loss** on a CPU: what ran there and every wait of threads last seen there ends at the last known instant
//!   with `end_known == false`; the CPU is unknown until it tells again. A sleep that no wake-up ended while
//!   a loss was anywhere is marked the same way.
//! * **Gap**: the same for all CPUs.
//! * **State blocks** fill in what is unknown and change nothing that is known.
//! * **The same thread on two CPUs** (clock skew at a migration): the earlier stretch ends where the later begins.

use super::event::{Event, EventKind, Item, Loss, Switch, ThreadNow, Tid, Wake};
use super::order::MAX_CPUS;
use super::state::TaskState;
use super::threads::{IDLE, Threads};
use crate::names::NameId;

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
    /// Thread `utid` (kernel id `tid`) is seen for the first time.
    fn new_thread(&mut self, utid: Utid, tid: Tid) {
        let _ = (utid, tid);
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
    /// Switches whose leaving thread was not the one that ran there, without a recorded loss.
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
    last_ts: u64,
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
            self.event(event, sink);
            return;
        }
        self.fact(item, sink);
        sink.fact(item);
    }

    fn fact(&mut self, item: &Item, sink: &mut impl Sink) {
        match item {
            Item::Event(_) => {}
            Item::Loss(loss) => self.loss(loss, sink),
            Item::CompleteThrough { ts } => self.now = self.now.max(*ts),
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
            Item::CpuState { ts, cpu, tid, prio, since } => self.cpu_state(*ts, *cpu, *tid, *prio, *since, sink),
            Item::ThreadState { ts, tid, state, since, cpu } => {
                self.thread_state(*ts, *tid, *state, *since, *cpu, sink);
            }
            Item::CpuOnline { ts, cpu, online } => self.cpu_online(*ts, *cpu, *online, sink),
            Item::Gap { from, to } => self.gap(*from, *to, sink),
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
            | Item::Damage { .. } => {}
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

    fn event(&mut self, event: &Event, sink: &mut impl Sink) {
        if event.cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.stats.events += 1;
        self.now = self.now.max(event.ts);
        self.first_ts.get_or_insert(event.ts);
        let cpu = self.cpu_mut(event.cpu);
        cpu.covered_since.get_or_insert(event.ts);
        let ran = cpu.running;
        match &event.kind {
            EventKind::Switch(switch) => self.switch(event, switch, sink),
            EventKind::Waking(wake) => self.waking(event, wake, sink),
            EventKind::Wakeup(wake) | EventKind::WakeupNew(wake) => self.wakeup(event, wake, sink),
            EventKind::Migrate { tid, to_cpu, .. } => self.migrate(event.ts, *tid, *to_cpu, sink),
            EventKind::NewTask { tid, comm, clone_flags } => {
                let creator = self.emitter(event);
                let (utid, replaced) = self.threads.new_task(event.ts, *tid, *comm, *clone_flags, creator);
                if let Some(old) = replaced {
                    self.forget(old, sink);
                }
                self.announce(sink);
                if utid != IDLE {
                    let wake = self.pending_wake(event, creator);
                    self.become_ready(event.ts, utid, wake, None, sink);
                }
            }
            EventKind::Rename { tid, comm } => {
                self.threads.rename(event.ts, *tid, *comm);
                self.announce(sink);
            }
            EventKind::Exec { tid, old_tid, .. } => {
                if let Some(old) = self.threads.exec(event.ts, *tid, *old_tid) {
                    self.forget(old, sink);
                }
            }
            EventKind::Exit { tid } => self.threads.exit(*tid),
            EventKind::Free { tid } => {
                if let Some(utid) = self.threads.free(event.ts, *tid) {
                    self.forget(utid, sink);
                }
            }
            EventKind::BlockedReason { tid, io_wait, function } => {
                self.blocked_reason(*tid, *io_wait, *function, sink);
            }
            EventKind::IrqEntry { .. }
            | EventKind::IrqExit { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::SoftirqExit { .. }
            | EventKind::Block(_)
            | EventKind::Frequency { .. }
            | EventKind::Idle { .. }
            | EventKind::Print { .. }
            | EventKind::Other { .. } => {}
        }
        self.cpus[event.cpu as usize].last_ts = event.ts;
        sink.event(event, event.emitter.map_or(ran, |tid| self.threads.utid_of(tid)));
    }

    fn switch(&mut self, event: &Event, switch: &Switch, sink: &mut impl Sink) {
        let (ts, cpu) = (event.ts, event.cpu);
        let next = self.threads.seen(ts, switch.next_tid, switch.next_comm);
        let ran = self.cpus[cpu as usize].running;
        let prev = match switch.prev_tid {
            Some(tid) => Some(self.threads.ensure(tid)),
            None => ran,
        };
        self.announce(sink);
        let Some(prev) = prev else {
            self.stats.skipped_switches += 1;
            let now = &mut self.cpus[cpu as usize];
            now.running = Some(next);
            now.prio = Some(switch.next_prio);
            return;
        };
        if let Some(ran) = ran
            && ran != prev
        {
            self.stats.mismatched += 1;
            let last = self.cpus[cpu as usize].last_ts;
            self.stop_running(cpu, ran, last, None, false, sink);
        }
        self.leave(ts, cpu, prev, next, switch.prev_state, sink);
        self.enter(ts, cpu, next, switch.next_prio, sink);
    }

    /// `prev` leaves `cpu` in `state`.
    fn leave(&mut self, ts: u64, cpu: u32, prev: Utid, next: Utid, state: TaskState, sink: &mut impl Sink) {
        if prev == IDLE {
            self.stop_running(cpu, prev, ts, Some(state), true, sink);
            return;
        }
        let live = &self.live[prev as usize];
        match live.open {
            Some(open) if open.state == ThreadNow::Running => {
                if open.cpu != Some(cpu) {
                    // It was seen on another CPU meanwhile (clock skew): that later news stands.
                    return;
                }
                self.stop_running(cpu, prev, ts, Some(state), true, sink);
            }
            // It cannot have left without having run: its switch-in is missing.
            Some(open) => self.close(prev, open.start, false, sink),
            None => {}
        }
        let pushed_off = state.is_runnable() || state.contains(TaskState::PREEMPTED);
        let row = self.take_row();
        let mut interval = Interval::new(row, prev, ts, ThreadNow::Blocked(state));
        interval.cpu = Some(cpu);
        interval.left = state;
        let live = &mut self.live[prev as usize];
        live.last_cpu = Some(cpu);
        if pushed_off {
            let raced = live
                .pending
                .filter(|w| !state.contains(TaskState::PREEMPTED) && ts.saturating_sub(w.ts) <= WAKE_RACE_NS);
            live.pending = None;
            interval.state = ThreadNow::Preempted;
            interval.preemptor = (next != IDLE && next != prev).then_some(next);
            if let Some(wake) = raced {
                become_woken(&mut interval, wake);
            }
            live.open = Some(interval);
            self.enqueue(ts, prev, cpu, sink);
        } else {
            live.last_blocked = Some(row);
            live.open = Some(interval);
            if interval.state.is_uninterruptible() {
                self.enter_d(ts, prev, cpu, sink);
            }
        }
    }

    /// `next` begins to run on `cpu`.
    fn enter(&mut self, ts: u64, cpu: u32, next: Utid, prio: i32, sink: &mut impl Sink) {
        if next != IDLE {
            self.settle(ts, next);
            self.close_any(ts, next, sink);
        }
        let mut interval = Interval::new(self.take_row(), next, ts, ThreadNow::Running);
        interval.cpu = Some(cpu);
        interval.prio = Some(prio);
        interval.slice = Some(self.next_slice);
        self.next_slice = self.next_slice.wrapping_add(1);
        let now = &mut self.cpus[cpu as usize];
        now.running = Some(next);
        now.prio = Some(prio);
        if next == IDLE {
            now.idle = Some(interval);
            return;
        }
        let live = &mut self.live[next as usize];
        live.pending = None;
        live.last_blocked = None;
        live.last_cpu = Some(cpu);
        live.open = Some(interval);
    }

    /// A sleep that no wake-up ended: either the wake-up that came while the thread still ran was the one, or it
    /// was lost.
    fn settle(&mut self, ts: u64, utid: Utid) {
        let loss = self.last_loss;
        let live = &mut self.live[utid as usize];
        let Some(open) = live.open.as_mut().filter(|i| matches!(i.state, ThreadNow::Blocked(_))) else { return };
        if let Some(wake) = live.pending {
            become_woken(open, wake);
        } else if loss >= open.start && loss > 0 && ts >= loss {
            open.end_known = false;
        }
    }

    fn waking(&mut self, event: &Event, wake: &Wake, sink: &mut impl Sink) {
        let emitter = self.emitter(event);
        let now = &self.cpus[event.cpu as usize];
        if emitter.is_none() && now.unknown_until == 0 {
            self.stats.skipped_wakings += 1;
            return;
        }
        let utid = self.threads.seen(event.ts, wake.tid, wake.comm);
        self.announce(sink);
        if utid == IDLE {
            return;
        }
        let pending = self.pending_wake(event, emitter);
        sink.wake(event.ts, emitter.filter(|_| !pending.from_interrupt), utid, wake.target_cpu);
        let live = &mut self.live[utid as usize];
        match live.open.map(|i| i.state) {
            None | Some(ThreadNow::Blocked(_) | ThreadNow::Unknown) => {
                self.become_ready(event.ts, utid, pending, Some(wake.target_cpu), sink);
            }
            Some(ThreadNow::Running) => live.pending = Some(pending),
            Some(ThreadNow::Runnable | ThreadNow::Preempted) => {}
        }
    }

    /// `sched_wakeup` adds nothing where `sched_waking` was recorded. Where it was not, it tells when the thread
    /// became ready, but not by whom: it may be written on the target CPU.
    fn wakeup(&mut self, event: &Event, wake: &Wake, sink: &mut impl Sink) {
        let utid = self.threads.seen(event.ts, wake.tid, wake.comm);
        self.announce(sink);
        if utid == IDLE {
            return;
        }
        match self.live[utid as usize].open.map(|i| i.state) {
            None | Some(ThreadNow::Blocked(_) | ThreadNow::Unknown) => {
                let new = matches!(event.kind, EventKind::WakeupNew(_));
                let emitter = if new { self.emitter(event) } else { None };
                let pending = self.pending_wake(event, emitter);
                self.become_ready(event.ts, utid, pending, Some(wake.target_cpu), sink);
            }
            Some(ThreadNow::Runnable) => self.requeue(event.ts, utid, wake.target_cpu, sink),
            Some(ThreadNow::Running | ThreadNow::Preempted) => {}
        }
    }

    fn become_ready(&mut self, ts: u64, utid: Utid, wake: PendingWake, target: Option<u32>, sink: &mut impl Sink) {
        self.close_any(ts, utid, sink);
        let mut interval = Interval::new(self.take_row(), utid, ts, ThreadNow::Runnable);
        interval.waker = wake.waker;
        interval.from_interrupt = Some(wake.from_interrupt);
        interval.cpu = target.filter(|&c| c < MAX_CPUS);
        let live = &mut self.live[utid as usize];
        live.pending = None;
        live.open = Some(interval);
        if let Some(cpu) = interval.cpu {
            live.last_cpu = Some(cpu);
            self.enqueue(ts, utid, cpu, sink);
        }
    }

    fn migrate(&mut self, ts: u64, tid: Tid, to_cpu: u32, sink: &mut impl Sink) {
        if to_cpu >= MAX_CPUS {
            return;
        }
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if utid != IDLE {
            self.requeue(ts, utid, to_cpu, sink);
        }
    }

    /// A ready thread moves to another CPU's queue; its wait keeps the CPU it was sent to first.
    fn requeue(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        let live = &self.live[utid as usize];
        let ready = live.open.is_some_and(|i| i.state.is_ready());
        if cpu < MAX_CPUS && ready && live.queued != Some(cpu) {
            self.dequeue(ts, utid, sink);
            self.enqueue(ts, utid, cpu, sink);
            if let Some(open) = &mut self.live[utid as usize].open {
                open.cpu.get_or_insert(cpu);
            }
        }
    }

    fn blocked_reason(&mut self, tid: Tid, io_wait: bool, function: NameId, sink: &mut impl Sink) {
        let Some(utid) = self.threads.utid_of(tid).filter(|&u| u != IDLE) else { return };
        let Some(live) = self.live.get_mut(utid as usize) else { return };
        match &mut live.open {
            Some(open) if matches!(open.state, ThreadNow::Blocked(_)) => {
                open.io_wait = Some(io_wait);
                open.function = function;
            }
            _ => {
                if let Some(row) = live.last_blocked {
                    sink.late_reason(utid, row, io_wait, function);
                }
            }
        }
    }

    fn loss(&mut self, loss: &Loss, sink: &mut impl Sink) {
        if loss.cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        let now = *self.cpu_mut(loss.cpu);
        let known = if loss.from > 0 { loss.from } else { now.last_ts };
        self.forget_cpu(loss.cpu, known, loss.to, sink);
        self.last_loss = self.last_loss.max(loss.to).max(known);
    }

    fn gap(&mut self, from: u64, to: u64, sink: &mut impl Sink) {
        for cpu in 0..self.cpus.len() as u32 {
            self.forget_cpu(cpu, from, to, sink);
        }
        for utid in 1..self.live.len() as u32 {
            self.close_at_loss(utid, from, sink);
        }
        self.last_loss = self.last_loss.max(to);
        self.now = self.now.max(to);
    }

    /// From `known` to `until` nothing is known of `cpu`, nor of the threads last seen there.
    fn forget_cpu(&mut self, cpu: u32, known: u64, until: u64, sink: &mut impl Sink) {
        if let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, known, None, false, sink);
        }
        for utid in 1..self.live.len() as u32 {
            let live = &self.live[utid as usize];
            let elsewhere = live.open.is_some_and(|i| i.state == ThreadNow::Running);
            if live.last_cpu == Some(cpu) && !elsewhere {
                self.close_at_loss(utid, known, sink);
            }
        }
        let now = &mut self.cpus[cpu as usize];
        now.running = None;
        now.prio = None;
        now.unknown_until = now.unknown_until.max(until).max(1);
    }

    fn cpu_state(&mut self, ts: u64, cpu: u32, tid: Tid, prio: i32, since: u64, sink: &mut impl Sink) {
        if cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.now = self.now.max(ts);
        let now = *self.cpu_mut(cpu);
        let start = since.min(ts).max(now.unknown_until);
        self.cpus[cpu as usize].covered_since.get_or_insert(if since > 0 { start } else { ts });
        self.first_ts.get_or_insert(ts);
        if self.sampled {
            self.sample_cpu(ts, cpu, tid, prio, sink);
            return;
        }
        if now.running.is_some() || start > ts {
            return;
        }
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if utid != IDLE && self.live[utid as usize].open.is_some_and(|i| i.state == ThreadNow::Running) {
            return;
        }
        self.enter(if since > 0 { start } else { ts }, cpu, utid, prio, sink);
    }

    fn sample_cpu(&mut self, ts: u64, cpu: u32, tid: Tid, prio: i32, sink: &mut impl Sink) {
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if self.cpus[cpu as usize].running == Some(utid) {
            return;
        }
        if let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, ts, None, true, sink);
        }
        self.enter(ts, cpu, utid, prio, sink);
    }

    fn thread_state(
        &mut self,
        ts: u64,
        tid: Tid,
        state: ThreadNow,
        since: Option<u64>,
        cpu: Option<u32>,
        sink: &mut impl Sink,
    ) {
        self.now = self.now.max(ts);
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        let told_elsewhere = matches!(state, ThreadNow::Running | ThreadNow::Unknown);
        let open = self.live[utid as usize].open;
        if utid == IDLE || told_elsewhere && !self.sampled {
            return;
        }
        let cpu = cpu.filter(|&c| c < MAX_CPUS);
        match open {
            Some(open) if self.sampled && open.state != state => match open.cpu {
                Some(cpu) if open.state == ThreadNow::Running => self.stop_running(cpu, utid, ts, None, true, sink),
                _ => self.close(utid, ts, true, sink),
            },
            Some(_) => return,
            None => {}
        }
        if told_elsewhere {
            return;
        }
        let floor = cpu.and_then(|c| self.cpus.get(c as usize)).map_or(0, |c| c.unknown_until);
        let start = if open.is_some() { ts } else { since.unwrap_or(ts).max(floor).min(ts) };
        let mut interval = Interval::new(self.take_row(), utid, start, state);
        interval.cpu = cpu;
        if let ThreadNow::Blocked(left) = state {
            interval.left = left;
        }
        let live = &mut self.live[utid as usize];
        live.open = Some(interval);
        live.last_cpu = cpu.or(live.last_cpu);
        match cpu {
            Some(cpu) if state.is_ready() => self.enqueue(start, utid, cpu, sink),
            Some(cpu) if state.is_uninterruptible() => self.enter_d(start, utid, cpu, sink),
            _ => {}
        }
    }

    fn cpu_online(&mut self, ts: u64, cpu: u32, online: bool, sink: &mut impl Sink) {
        if cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.now = self.now.max(ts);
        let now = self.cpu_mut(cpu);
        now.offline = !online;
        now.covered_since.get_or_insert(ts);
        if !online && let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, ts, None, true, sink);
        }
    }

    /// Who wrote the event: as recorded, else who runs there.
    fn emitter(&mut self, event: &Event) -> Option<Utid> {
        match event.emitter {
            Some(0) => Some(IDLE),
            Some(tid) => Some(self.threads.ensure(tid)),
            None => self.cpus[event.cpu as usize].running,
        }
    }

    fn pending_wake(&self, event: &Event, waker: Option<Utid>) -> PendingWake {
        let row = |utid: Utid| {
            let open = self.live.get(utid as usize)?.open?;
            (open.state == ThreadNow::Running).then_some(open.row)
        };
        PendingWake { ts: event.ts, waker: waker.map(|u| (u, row(u))), from_interrupt: event.in_interrupt() }
    }

    /// Ends the running stretch of `utid` on `cpu`; `cpu` runs nobody known until told.
    fn stop_running(
        &mut self,
        cpu: u32,
        utid: Utid,
        end: u64,
        state: Option<TaskState>,
        end_known: bool,
        sink: &mut impl Sink,
    ) {
        let now = &mut self.cpus[cpu as usize];
        now.running = None;
        now.prio = None;
        let slot = if utid == IDLE { &mut now.idle } else { &mut self.live[utid as usize].open };
        if let Some(mut open) = slot.take_if(|i| i.state == ThreadNow::Running && i.cpu == Some(cpu)) {
            open.end = Some(end.max(open.start));
            open.end_known = end_known;
            open.end_state = state;
            sink.interval(&open);
        }
    }

    fn close(&mut self, utid: Utid, end: u64, end_known: bool, sink: &mut impl Sink) {
        self.dequeue(end, utid, sink);
        if let Some(mut open) = self.live[utid as usize].open.take() {
            open.end = Some(end.max(open.start));
            open.end_known &= end_known;
            sink.interval(&open);
        }
    }

    fn close_any(&mut self, ts: u64, utid: Utid, sink: &mut impl Sink) {
        match self.live[utid as usize].open {
            Some(open) if open.state == ThreadNow::Running => {
                if let Some(cpu) = open.cpu {
                    self.stop_running(cpu, utid, ts, None, true, sink);
                }
            }
            Some(_) => self.close(utid, ts, true, sink),
            None => {}
        }
    }

    fn close_at_loss(&mut self, utid: Utid, known: u64, sink: &mut impl Sink) {
        self.live[utid as usize].pending = None;
        self.live[utid as usize].last_blocked = None;
        self.close(utid, known, false, sink);
    }

    /// A life is over: its open interval (Z or X, mostly) never ends.
    fn forget(&mut self, utid: Utid, sink: &mut impl Sink) {
        if utid == IDLE || utid as usize >= self.live.len() {
            return;
        }
        self.dequeue(self.now, utid, sink);
        if let Some(open) = self.live[utid as usize].open.take() {
            if let (ThreadNow::Running, Some(cpu)) = (open.state, open.cpu) {
                self.cpus[cpu as usize].running = None;
            }
            sink.interval(&open);
        }
        self.live[utid as usize] = Live::default();
    }

    fn enqueue(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        self.live[utid as usize].queued = Some(cpu);
        let now = self.cpu_mut(cpu);
        now.ready += 1;
        let depth = now.ready;
        sink.queue(ts, cpu, depth);
    }

    fn enter_d(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        self.live[utid as usize].in_d = Some(cpu);
        let now = self.cpu_mut(cpu);
        now.in_d += 1;
        let depth = now.in_d;
        sink.uninterruptible(ts, cpu, depth);
    }

    /// The thread is ready, or in D, no longer.
    fn dequeue(&mut self, ts: u64, utid: Utid, sink: &mut impl Sink) {
        let live = &mut self.live[utid as usize];
        if let Some(cpu) = live.queued.take() {
            let now = self.cpu_mut(cpu);
            now.ready = now.ready.saturating_sub(1);
            let depth = now.ready;
            sink.queue(ts, cpu, depth);
        } else if let Some(cpu) = live.in_d.take() {
            let now = self.cpu_mut(cpu);
            now.in_d = now.in_d.saturating_sub(1);
            let depth = now.in_d;
            sink.uninterruptible(ts, cpu, depth);
        }
    }

    /// Tells the sink of lives that began, and makes room for them.
    #[inline]
    fn announce(&mut self, sink: &mut impl Sink) {
        if self.live.len() < self.threads.len() {
            self.announce_new(sink);
        }
    }

    #[cold]
    fn announce_new(&mut self, sink: &mut impl Sink) {
        let known = self.live.len();
        self.live.resize_with(self.threads.len(), Live::default);
        for utid in known..self.live.len() {
            let utid = utid as Utid;
            if let Some(life) = self.threads.get(utid) {
                sink.new_thread(utid, life.tid);
            }
        }
    }

    fn cpu_mut(&mut self, cpu: u32) -> &mut CpuNow {
        let cpu = cpu.min(MAX_CPUS) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, CpuNow::default);
        }
        &mut self.cpus[cpu]
    }

    fn take_row(&mut self) -> u32 {
        let row = self.next_row;
        self.next_row = self.next_row.wrapping_add(1);
        row
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
