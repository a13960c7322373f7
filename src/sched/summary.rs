//! The answers the model gives, as plain data: what screens and reports show, already counted.
//!
//! A [`super::model::Model`] makes these for a window; faces draw them and add no arithmetic of their own. All
//! durations are nanoseconds. An `Option` that is `None` means *not known* (loss, gap, before valid-from,
//! sampled source) and must be shown as such, never as zero.

use std::sync::Arc;

use super::event::{ThreadNow, Tid};
use super::fold::{Upid, Utid};
use super::state::TaskState;
use crate::names::NameId;

pub use super::times::StateTimes;
pub use super::window::Window;

/// Run-queue latency (ready → running) of the waits that *ended* in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencyStats {
    /// Number of waits.
    pub count: u64,
    /// Median, exact (nearest rank: the smallest wait that at least half of all do not exceed).
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest, exact.
    pub max: u64,
    /// When the longest began, ns on CLOCK_BOOTTIME.
    pub max_at: u64,
    /// Sum of all.
    pub total: u64,
}

/// One cell of a CPU lane.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OccupancyCell {
    /// CPU occupancy 0..=1 of the known part of the cell; `None`: nothing known (gap, loss, before valid-from, offline).
    pub busy: Option<f32>,
    /// Process that used most of the busy time.
    pub top: Option<Upid>,
    /// Most threads ready at once on this CPU's queue.
    pub ready_max: u16,
    /// Events were lost within the cell.
    pub loss: bool,
    /// Share of the cell spent in interrupts, when recorded.
    pub irq: Option<f32>,
}

/// What a stretch amounts to, all CPUs and threads together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StretchFigures {
    /// CPU occupancy 0..=1 of what is known.
    pub busy: Option<f32>,
    /// Most threads ready at once within a second; `None`: not known, as where the data was sampled.
    pub ready: Option<u32>,
    /// Longest wait for a CPU that ended in it, ns, and whose.
    pub worst: Option<(u64, Utid)>,
}

/// One CPU of the overview.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuRow {
    /// CPU id (ids can be sparse).
    pub cpu: u32,
    /// False when offline at the window's end.
    pub online: bool,
    /// NUMA node.
    pub node: u32,
    /// Occupancy over the window.
    pub busy: Option<f64>,
    /// Cells, oldest first.
    pub cells: Vec<OccupancyCell>,
    /// Threads ready on it at the window's end.
    pub ready_now: u32,
    /// Who runs at the window's end (utid 0 = idle) and since when.
    pub running: Option<(Utid, u64)>,
    /// Events per second it wrote over the window.
    pub events_per_s: f64,
    /// Events lost on it in the window; `Some(None)`: some, number unknown.
    pub lost: Option<Option<u64>>,
}

/// One row of the thread table (or of a group of threads).
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Which life; for a group: of its busiest member.
    pub utid: Utid,
    /// Kernel id.
    pub tid: Tid,
    /// Process id, if known.
    pub pid: Option<Tid>,
    /// Thread name now.
    pub name: NameId,
    /// Process name (EMPTY if not known).
    pub process: NameId,
    /// Cgroup path (EMPTY if not known).
    pub cgroup: NameId,
    /// Command line, one name an argument (empty if none).
    pub cmdline: Arc<[NameId]>,
    /// Its process, if known.
    pub upid: Option<Upid>,
    /// How many threads the row stands for (1 without grouping).
    pub members: u32,
    /// State at the window's end.
    pub now: ThreadNow,
    /// CPU it runs on or last ran on.
    pub cpu: Option<u32>,
    /// Times over the window.
    pub times: StateTimes,
    /// The same in equal cells, oldest first.
    pub bar: Vec<StateTimes>,
    /// Run-queue latency over the window, wake-ups and preemptions together.
    pub latency: LatencyStats,
    /// Switches out with a sleeping state (Linux: voluntary).
    pub voluntary: u64,
    /// Switches out while still runnable (R and R+; Linux: non-voluntary).
    pub involuntary: u64,
    /// Times it began to run on another CPU than before.
    pub migrations: u64,
    /// Who ran most on its CPU while it was ready, and the share of that waiting time 0..=1; `None`: nobody but the idle
    /// thread, or it hardly waited (less than 0.5 % of the window).
    pub ran_instead: Option<Instead>,
    /// Who woke it last; `None` within: an interrupt.
    pub last_waker: Option<Option<Utid>>,
    /// Function of its longest D state in the window.
    pub blocked_function: NameId,
    /// Longest single stretch in D in the window.
    pub blocked_max: u64,
    /// One of the recorder's own threads.
    pub own: bool,
    /// Values that need wake-ups and switches are unknown (sampled source).
    pub sampled: bool,
}

/// Everything the first screen shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overview {
    /// The window all numbers are about.
    pub window: Option<Window>,
    /// First instant at which all CPUs are covered.
    pub valid_from: u64,
    /// CPUs by id.
    pub cpus: Vec<CpuRow>,
    /// Threads that did anything or are known, unsorted.
    pub threads: Vec<ThreadRow>,
    /// Findings, most important first.
    pub findings: Vec<Finding>,
    /// Events per second over the window.
    pub events_per_s: f64,
    /// Loss within the window.
    pub losses: Vec<super::event::Loss>,
    /// Gaps within the window.
    pub gaps: Vec<Window>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Likely a cause of trouble.
    Warning,
}

/// One thing a detector found, with its numbers; the faces put it in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// What and how much.
    pub kind: FindingKind,
    /// The stretch that shows it best (a jump target).
    pub at: Window,
}

/// Who ran most on a thread's CPU while it was ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Instead {
    /// Who.
    pub utid: Utid,
    /// Share of the waiting time, 0..=1.
    pub share: f64,
    /// Reckoned from who ran at some instants, for it waited beside very many stretches.
    pub estimated: bool,
}

/// What a detector found.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum FindingKind {
    /// A thread was ready but not running for more than the threshold share of the window.
    Starving { utid: Utid, share: f64, latency: LatencyStats, instead: Option<Instead> },
    /// One thread used almost all of a CPU while others were ready there.
    Monopolised { cpu: u32, utid: Utid, share: f64, ready_ns: u64 },
    /// Pushed off unusually often.
    PushedOff { utid: Utid, per_s: f64, by: Option<(Utid, f64)> },
    /// In D for longer than the threshold.
    LongBlocked { utid: Utid, longest: u64, count: u64, function: NameId },
    /// A CPU was idle while a thread was ready elsewhere: for so long within the thread's longest waits.
    IdleWhileReady { cpu: u32, idle_ns: u64, utid: Utid, ready_cpu: u32 },
    /// Events were lost.
    Lost { cpu: u32, count: Option<u64>, ns: u64 },
}

/// A thread and its share of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Who; `None`: an interrupt (or a timer).
    pub utid: Option<Utid>,
    /// 0..=1 of the total.
    pub share: f64,
    /// ns or count behind it.
    pub amount: u64,
}

/// Everything the thread screen shows.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadDetail {
    /// The same numbers as the row in the table.
    pub row: ThreadRow,
    /// Priority when last seen.
    pub prio: Option<i32>,
    /// Run-queue latency after wake-ups only.
    pub wakeup: LatencyStats,
    /// Waits after being pushed off only.
    pub preemption: LatencyStats,
    /// log2 histogram of run-queue latency: entry i counts waits of [2^i, 2^(i+1)) ns; second value: of those after being pushed off.
    pub histogram: Vec<(u64, u64)>,
    /// Who ran on its CPU while it was ready, by time.
    pub ran_instead: Vec<Share>,
    /// Who woke it, by count.
    pub woken_by: Vec<Share>,
    /// Whom it woke, by count.
    pub wakes: Vec<Share>,
    /// Functions it blocked in: name, total ns, count, longest ns.
    pub blocked: Vec<(NameId, u64, u64, u64)>,
    /// Longest waits, worst first.
    pub worst: Vec<Wait>,
    /// Stretches of the window that were not recorded.
    pub gaps: Vec<Window>,
}

/// One wait of a thread: ready (after a wake-up or pushed off) or blocked.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// Who waited.
    pub utid: Utid,
    /// Kind.
    pub state: ThreadNow,
    /// Begin, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// Length; `None`: not over.
    pub dur: Option<u64>,
    /// CPU (target or pushed off).
    pub cpu: Option<u32>,
    /// Who woke it at the begin (ready) or the end (blocked); inner `None`: interrupt.
    pub waker: Option<Option<Utid>>,
    /// Who pushed it off.
    pub preemptor: Option<Utid>,
    /// Blocked function.
    pub function: NameId,
    /// Who ran on that CPU meanwhile, with ns each (idle = utid 0), who ran longest first.
    pub meanwhile: Vec<(Utid, u64)>,
}

/// One run of equal content on a track of the time line, in order, not overlapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Begin, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// End; `None`: goes on.
    pub end: Option<u64>,
    /// Whose.
    pub utid: Utid,
    /// State (CPU tracks: always Running).
    pub state: ThreadNow,
    /// How it left the CPU.
    pub end_state: Option<TaskState>,
    /// Function it blocked in.
    pub function: NameId,
    /// The row this is, for selection; `u32::MAX` for a bundle of spans too short to draw one by one.
    pub row: u32,
}

/// A track of the time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackId {
    /// What one CPU ran.
    Cpu(u32),
    /// What one thread did.
    Thread(Utid),
    /// Markers of one thread.
    Marks(Utid),
}

/// Everything the CPU screen shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuDetail {
    /// The same numbers as its lane.
    pub row: CpuRow,
    /// Window of all numbers.
    pub window: Option<Window>,
    /// Who used it, by time, most first; the idle thread included.
    pub used_by: Vec<Share>,
    /// The last slices of the window, newest first.
    pub slices: Vec<Span>,
    /// Time in interrupts, ns, when recorded.
    pub irq_ns: Option<u64>,
    /// Threads ready on its queue, averaged over the window.
    pub ready_avg: f64,
    /// Switches in the window.
    pub switches: u64,
    /// Stretches of the window that were not recorded.
    pub gaps: Vec<Window>,
}

/// A slice or wait with all the model knows about it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanDetail {
    /// The span itself.
    pub span: Span,
    /// CPU it ran on, waited for, or blocked on.
    pub cpu: Option<u32>,
    /// Kernel priority, of a running slice.
    pub prio: Option<i32>,
    /// As a wait, when it is one.
    pub wait: Option<Wait>,
    /// Who ran on that CPU just before.
    pub before: Option<Utid>,
    /// Who came next on that CPU.
    pub next: Option<Utid>,
    /// Who woke the thread into this or, for a blocked one, out of it; inner `None`: an interrupt.
    pub waker: Option<Option<Utid>>,
    /// What the waker was doing then.
    pub waker_state: Option<ThreadNow>,
    /// Ready → running before this running slice, ns.
    pub latency: Option<u64>,
    /// The kernel counted it as waiting for I/O.
    pub io_wait: Option<bool>,
    /// The kernel stack it blocked with, when recorded: its functions in one text, innermost first, a newline between two.
    pub stack: NameId,
    /// False when a loss or gap cut it short.
    pub end_known: bool,
}

/// One link of a wait chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// How deep; 0 is the wait that was asked about.
    pub depth: u16,
    /// Who; `None`: an interrupt, a timer or I/O.
    pub utid: Option<Utid>,
    /// What it was doing.
    pub state: ThreadNow,
    /// When.
    pub window: Window,
    /// Share 0..=1 of the asked wait that this explains.
    pub share: f64,
    /// Who pushed it off, if it was.
    pub preemptor: Option<Utid>,
    /// Function it was blocked in.
    pub function: NameId,
}

/// What a thread spent its waiting on, over a range.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitedOn {
    /// All of its waiting in the range, ns: ready, pushed off, asleep and D.
    pub total: u64,
    /// Threads that at last released its sleeps, by the time slept (`None`: an interrupt, a timer or I/O).
    pub wakers: Vec<Share>,
    /// Functions it was blocked in: name, ns, count, longest.
    pub functions: Vec<(NameId, u64, u64, u64)>,
    /// Who pushed it off, by the time it then waited.
    pub preemptors: Vec<Share>,
    /// Who ran on its CPU while it was ready, by time.
    pub ran_instead: Vec<Share>,
    /// What the chains of its sleeps lead to: threads that ran, by the time that explains.
    pub roots: Vec<Share>,
}

/// A marker (atrace text written to trace_marker) as a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Begin, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// End; `None`: still open. Equal to `start` for plain text.
    pub end: Option<u64>,
    /// How many of the thread's marks it stands in.
    pub depth: u16,
    /// Who wrote it, if known.
    pub utid: Option<Utid>,
    /// Its name, as bytes.
    pub name: Box<[u8]>,
}

/// One CPU over one second of wall-free time: what a segment's footer keeps so that hours can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondSummary {
    /// Begin, ns on CLOCK_BOOTTIME, a whole number of seconds.
    pub start: u64,
    /// The CPU.
    pub cpu: u32,
    /// Time a non-idle thread ran, ns.
    pub busy_ns: u64,
    /// Time for which it is known who ran, ns (at most one second).
    pub known_ns: u64,
    /// Most threads ready on its queue at once.
    pub ready_max: u32,
    /// Ready threads × ns on its queue: divide by the second for the average.
    pub ready_ns: u64,
    /// Most threads in D at once that last ran on this CPU.
    pub blocked_max: u32,
    /// Threads in D × ns that last ran on this CPU.
    pub blocked_ns: u64,
    /// Longest wait for the CPU that ended here, ns.
    pub worst_wait: u64,
    /// Whose (kernel tid at that time).
    pub worst_tid: Tid,
    /// When that wait began, ns on CLOCK_BOOTTIME.
    pub worst_at: u64,
    /// Events written on this CPU.
    pub events: u32,
    /// Events lost, as far as the number is known.
    pub lost: u64,
    /// Events were lost, maybe of unknown number.
    pub loss: bool,
}
