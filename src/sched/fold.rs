//! Folds time-ordered events into intervals: the one place where thread states are defined.

use super::event::{Event, Item, ThreadNow, Tid};
use super::state::TaskState;
use crate::names::NameId;

/// One life of a thread, as in Perfetto; dense from 0 (0 is the idle thread of all CPUs). Kernel tids are reused, utids never.
pub type Utid = u32;
/// One life of a process.
pub type Upid = u32;

/// One stretch of a thread in one state: a row of Perfetto's `thread_state`.
///
/// Row numbers are given in the order in which intervals *open* (so by `start`), the interval itself is
/// handed over when it *closes*. That lets a sink keep a table in time order without sorting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Row number, dense from 0 in opening order.
    pub row: u32,
    /// Whose.
    pub utid: Utid,
    /// ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// ns on CLOCK_BOOTTIME; `None`: had not ended when the data did (or at a loss: see `end_known`).
    pub end: Option<u64>,
    /// False when the interval was cut by a loss or gap: `end` is then the last instant it is known to have lasted.
    pub end_known: bool,
    /// What it was doing.
    pub state: ThreadNow,
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
    /// Runnable/preempted: who was put on the CPU in its place when it was pushed off.
    pub preemptor: Option<Utid>,
    /// Blocked: whether the kernel counted it as waiting for I/O.
    pub io_wait: Option<bool>,
    /// Blocked: the kernel function it blocked in (EMPTY = not known).
    pub function: NameId,
}

/// Receives what the fold finds. All methods default to nothing, so a sink takes what it needs.
pub trait Sink {
    /// An interval closed (or the data ended: `end == None`).
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }
    /// Wake-up of `wakee` at `ts`; `waker` is `None` from interrupt context.
    fn wake(&mut self, ts: u64, waker: Option<Utid>, wakee: Utid, target_cpu: u32) {
        let _ = (ts, waker, wakee, target_cpu);
    }
    /// Every event, in time order, once it is folded; `emitter` is the life that was running on its CPU, if known.
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
}
