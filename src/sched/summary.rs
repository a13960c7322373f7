//! The answers the model gives, as plain data: what screens and reports show, already counted.
//!
//! A [`super::model::Model`] makes these for a window; faces draw them and add no arithmetic of their own. All
//! durations are nanoseconds. An `Option` that is `None` means *not known* (loss, gap, before valid-from,
//! sampled source) and must be shown as such, never as zero.

use super::event::{ThreadNow, Tid};
use super::fold::{Upid, Utid};
use super::state::TaskState;
use crate::names::NameId;

/// Half-open stretch of time `[from, to)`, ns on CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub from: u64,
    /// First instant after it.
    pub to: u64,
}

/// Time spent in each state within some window or cell; the sum is the window's length times the threads counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateTimes {
    /// On a CPU.
    pub running: u64,
    /// Ready after a wake-up, not running.
    pub runnable: u64,
    /// Ready since it was pushed off.
    pub preempted: u64,
    /// S and I.
    pub sleeping: u64,
    /// D.
    pub uninterruptible: u64,
    /// T, t, X, Z, P.
    pub other: u64,
    /// Not known (loss, gap, not yet seen).
    pub unknown: u64,
}

/// Run-queue latency (ready → running) of the waits that *ended* in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencyStats {
    /// Number of waits.
    pub count: u64,
    /// Median; exact to the histogram's 3 significant digits.
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
    /// Command line joined with spaces (EMPTY if none).
    pub cmdline: NameId,
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
    /// Who ran most on its CPU while it was ready, and the share of that waiting time 0..=1.
    pub ran_instead: Option<(Utid, f64)>,
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

/// What a detector found.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum FindingKind {
    /// A thread was ready but not running for more than the threshold share of the window.
    Starving { utid: Utid, share: f64, latency: LatencyStats, instead: Option<(Utid, f64)> },
    /// One thread used almost all of a CPU while others were ready there.
    Monopolised { cpu: u32, utid: Utid, share: f64, ready_ns: u64 },
    /// Pushed off unusually often.
    PushedOff { utid: Utid, per_s: f64, by: Option<(Utid, f64)> },
    /// In D for longer than the threshold.
    LongBlocked { utid: Utid, longest: u64, count: u64, function: NameId },
    /// A CPU was idle while a thread was ready elsewhere.
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
    /// Who ran on that CPU meanwhile, in time order, with ns each (idle = utid 0).
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
