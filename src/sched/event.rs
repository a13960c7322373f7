//! What the recorder saw, decoded: scheduling events and the facts that travel with them.
//!
//! These are the words that `perfetto::decode` speaks and that [`super::fold`] understands. All of them are
//! plain values: names are [`NameId`]s of the one [`crate::names::NameTable`] the decoder fills, thread ids are kernel tids (which
//! the kernel reuses; lives of threads are told apart in `sched::threads`).

use super::state::TaskState;
use crate::names::NameId;

/// A kernel thread id. 0 is a CPU's idle thread ("swapper").
pub type Tid = i32;

/// One event on one CPU at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Nanoseconds on CLOCK_BOOTTIME.
    pub ts: u64,
    /// The CPU whose ring buffer held it (for wake-ups: the waker's CPU).
    pub cpu: u32,
    /// Who was running when it was written, if the record says (compact wakings do not: then the fold knows).
    pub emitter: Option<Tid>,
    /// `common_flags` of the record: bit 3 hardirq, bit 4 softirq (`IRQ_CONTEXT`), others see `trace_flag_type`.
    pub flags: u8,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// TRACE_FLAG_HARDIRQ | TRACE_FLAG_SOFTIRQ (include/linux/trace_events.h): written from interrupt context.
    pub const IRQ_CONTEXT: u8 = 0x08 | 0x10;

    /// True if the record was written from hard or soft interrupt context.
    pub fn in_interrupt(&self) -> bool {
        self.flags & Self::IRQ_CONTEXT != 0
    }
}

/// What happened. Variants the scheduler model does not use still carry what the screens and tables show.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum EventKind {
    /// sched_switch.
    Switch(Switch),
    /// sched_waking: `tid` is being woken by the running thread (or an interrupt).
    Waking(Wake),
    /// sched_wakeup: the woken thread is on a run queue.
    Wakeup(Wake),
    /// sched_wakeup_new: a new thread's first wake-up.
    WakeupNew(Wake),
    /// sched_migrate_task.
    Migrate { tid: Tid, from_cpu: u32, to_cpu: u32 },
    /// task_newtask; `emitter` is the creating thread. `clone_flags` & 0x10000 (CLONE_THREAD): same process.
    NewTask { tid: Tid, comm: NameId, clone_flags: u64 },
    /// task_rename.
    Rename { tid: Tid, comm: NameId },
    /// sched_process_exec; `old_tid` differs when a non-leader thread execs.
    Exec { tid: Tid, old_tid: Tid, filename: NameId },
    /// sched_process_exit.
    Exit { tid: Tid },
    /// sched_process_free: the tid can be reused from here on.
    Free { tid: Tid },
    /// Which function a thread that went to D state blocked in (sched_blocked_reason). `function` may be EMPTY.
    BlockedReason { tid: Tid, io_wait: bool, function: NameId },
    /// irq_handler_entry.
    IrqEntry { irq: i32, name: NameId },
    /// irq_handler_exit.
    IrqExit { irq: i32 },
    /// softirq_entry (vec: 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9 RCU).
    SoftirqEntry { vec: u32 },
    /// softirq_exit.
    SoftirqExit { vec: u32 },
    /// block_rq_insert / issue / complete.
    Block(BlockRequest),
    /// cpu_frequency, kHz.
    Frequency { cpu: u32, khz: u32 },
    /// cpu_idle; `state` is u32::MAX on leaving idle.
    Idle { cpu: u32, state: u32 },
    /// ftrace/print (trace_marker); the text, trailing newline cut.
    Print { text: NameId },
    /// Any other event by name; its fields are in the packet only.
    Other { name: NameId },
}

/// sched_switch on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Who left; `None` when the compact encoding does not tell (first on this CPU in the file or after a loss).
    pub prev_tid: Option<Tid>,
    /// Kernel priority of who left (0–99 RT, 100–139 CFS); `None` when the record does not tell.
    pub prev_prio: Option<i32>,
    /// In which state it left, canonical.
    pub prev_state: TaskState,
    /// The same as the kernel wrote it.
    pub prev_state_raw: i64,
    /// Who came.
    pub next_tid: Tid,
    /// Its kernel priority.
    pub next_prio: i32,
    /// Its name at that moment.
    pub next_comm: NameId,
}

/// A wake-up of `tid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// Who is woken.
    pub tid: Tid,
    /// Its kernel priority.
    pub prio: i32,
    /// Its name.
    pub comm: NameId,
    /// The CPU chosen for it so far; a target, not where it will run.
    pub target_cpu: u32,
}

/// A block-layer request at one of its stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    /// Which stage.
    pub stage: BlockStage,
    /// dev_t as the event has it (kernel encoding: major << 20 | minor).
    pub dev: u64,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Flags such as "WS".
    pub rwbs: NameId,
    /// errno of a completion, 0 otherwise.
    pub error: i32,
}

/// Stage of a block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStage {
    /// Queued in the I/O scheduler.
    Insert,
    /// Given to the driver.
    Issue,
    /// Done.
    Complete,
}

/// Everything a trace says, in the order the packets stand.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum Item {
    /// An event. Events of one CPU are in time order; those of different CPUs are not (see `sched::order`).
    Event(Event),
    /// Events are missing on this CPU.
    Loss(Loss),
    /// All events before `ts` of all CPUs stand before this item: a watermark for merging by time.
    CompleteThrough { ts: u64 },
    /// A process known at this point (process tree of the head or a later addition).
    Process(ProcessFact),
    /// A thread known at this point.
    Thread(ThreadFact),
    /// Who runs on a CPU and since when, as the recorder knew it (state block).
    CpuState { ts: u64, cpu: u32, tid: Tid, prio: i32, since: u64 },
    /// What a thread was doing at `ts` (state block); `since` is `None` if not known.
    ThreadState { ts: u64, tid: Tid, state: ThreadNow, since: Option<u64>, cpu: Option<u32> },
    /// Several clocks read at one instant.
    Clock(ClockSnapshot),
    /// The host.
    System(SystemFact),
    /// CPU topology.
    Cpu(CpuFact),
    /// A CPU went on- or offline, or recording of it began.
    CpuOnline { ts: u64, cpu: u32, online: bool },
    /// No recording at all between these instants (suspend, recorder stopped).
    Gap { from: u64, to: u64 },
    /// The tid is one of the recorder's own threads.
    OwnThread { tid: Tid },
    /// A counter sample (memory, PSI, …).
    Counter { ts: u64, name: NameId, cpu: Option<u32>, value: f64 },
    /// Anything said about the trace itself (recorder version, config, snapshot reason), key and value.
    Metadata { key: NameId, value: NameId },
    /// Data came from sampling procfs, not from events: waits, wakers and preemptors are unknown.
    Sampled { hz: u32 },
    /// With which kernel stack a thread blocked: its functions in one text, innermost first, a newline between two. Comes
    /// at some time after the switch it belongs to.
    Stack { ts: u64, tid: Tid, functions: NameId },
    /// Part of the input could not be read.
    Damage { cpu: Option<u32>, what: NameId },
}

/// Events the kernel dropped on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The CPU.
    pub cpu: u32,
    /// Last instant before which nothing is missing (0 = not known).
    pub from: u64,
    /// First instant from which nothing is missing.
    pub to: u64,
    /// How many events; `None` when the kernel only says "some".
    pub count: Option<u64>,
}

/// A process as procfs or events told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessFact {
    /// Process id.
    pub pid: Tid,
    /// Parent's process id.
    pub ppid: Option<Tid>,
    /// Command line, arguments as separate names (empty for kernel threads).
    pub cmdline: Vec<NameId>,
    /// Name: comm of the leader.
    pub name: NameId,
    /// Owner.
    pub uid: Option<u32>,
    /// Path of its cgroup.
    pub cgroup: NameId,
    /// Start, ns on CLOCK_BOOTTIME.
    pub start: Option<u64>,
    /// A kernel thread.
    pub kernel: bool,
    /// When procfs said so, ns on CLOCK_BOOTTIME; 0 = at the head of the file.
    pub ts: u64,
}

/// A thread as procfs or events told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadFact {
    /// Thread id.
    pub tid: Tid,
    /// Its process.
    pub pid: Tid,
    /// Its name at that time.
    pub name: NameId,
    /// Start, ns on CLOCK_BOOTTIME, if known.
    pub start: Option<u64>,
    /// When procfs said so, ns on CLOCK_BOOTTIME; 0 = at the head of the file.
    pub ts: u64,
}

/// What a thread is doing at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadNow {
    /// On a CPU.
    Running,
    /// Ready but not running after a wake-up.
    Runnable,
    /// Ready but not running since it was pushed off the CPU.
    Preempted,
    /// Off the CPU, not ready; in this state.
    Blocked(TaskState),
    /// Nothing known (before the first event, after a loss).
    Unknown,
}

impl ThreadNow {
    /// Ready but not running: after a wake-up or pushed off.
    pub fn is_ready(self) -> bool {
        matches!(self, ThreadNow::Runnable | ThreadNow::Preempted)
    }

    /// In D. An idle kernel thread sleeps with D's flag too (TASK_IDLE, "I") but waits for nothing that matters.
    pub fn is_uninterruptible(self) -> bool {
        matches!(self, ThreadNow::Blocked(s) if s.contains(TaskState::UNINTERRUPTIBLE) && !s.contains(TaskState::IDLE))
    }
}

/// Several clocks at one instant, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockSnapshot {
    /// CLOCK_BOOTTIME.
    pub boot: u64,
    /// CLOCK_MONOTONIC.
    pub mono: u64,
    /// CLOCK_REALTIME since 1970, UTC.
    pub real: u64,
    /// CLOCK_TAI.
    pub tai: u64,
    /// Local time minus UTC when it was taken, minutes.
    pub zone_offset_minutes: Option<i32>,
}

/// The host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemFact {
    /// Node name.
    pub host: NameId,
    /// Kernel release, e.g. "6.18.44".
    pub release: NameId,
    /// Kernel version string.
    pub version: NameId,
    /// Machine, e.g. "x86_64".
    pub machine: NameId,
    /// Number of CPUs.
    pub cpus: u32,
    /// Bytes of RAM.
    pub ram: u64,
}

/// Where a CPU sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuFact {
    /// CPU id.
    pub cpu: u32,
    /// NUMA node.
    pub node: u32,
    /// Socket.
    pub package: u32,
    /// Core within the socket.
    pub core: u32,
    /// Online when it was written.
    pub online: bool,
}
