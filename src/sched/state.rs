//! Task states: one canonical set, and the raw `prev_state` layouts of the kernels that wrote them.

/// What a thread was when it left the CPU (`prev_state` of sched_switch), in one layout for all kernels.
///
/// A set of flags, since kernels report combinations (`D|K`). No flag at all is runnable ("R").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct TaskState(pub u16);

impl TaskState {
    /// Still runnable, gave the CPU up itself (yield) or was switched out without the preempt bit: "R".
    pub const RUNNABLE: TaskState = TaskState(0);
    /// Interruptible sleep: "S".
    pub const SLEEPING: TaskState = TaskState(1);
    /// Uninterruptible sleep: "D".
    pub const UNINTERRUPTIBLE: TaskState = TaskState(1 << 1);
    /// Stopped by a signal: "T".
    pub const STOPPED: TaskState = TaskState(1 << 2);
    /// Stopped by a tracer: "t".
    pub const TRACED: TaskState = TaskState(1 << 3);
    /// Dead: "X".
    pub const DEAD: TaskState = TaskState(1 << 4);
    /// Zombie: "Z".
    pub const ZOMBIE: TaskState = TaskState(1 << 5);
    /// Parked kernel thread: "P".
    pub const PARKED: TaskState = TaskState(1 << 6);
    /// Idle kernel thread: "I".
    pub const IDLE: TaskState = TaskState(1 << 7);
    /// Wakes for fatal signals only (with D): "K".
    pub const WAKE_KILL: TaskState = TaskState(1 << 8);
    /// Being woken: "W".
    pub const WAKING: TaskState = TaskState(1 << 9);
    /// Does not count to the load (with D): "N".
    pub const NO_LOAD: TaskState = TaskState(1 << 10);
    /// Raw bits were set that the layout does not know; the raw value is kept beside it in the event.
    pub const UNKNOWN: TaskState = TaskState(1 << 14);
    /// Preempted: "R+".
    pub const PREEMPTED: TaskState = TaskState(1 << 15);

    /// True when every flag of `other` is set here.
    pub fn contains(self, other: TaskState) -> bool {
        self.0 & other.0 == other.0
    }
}
