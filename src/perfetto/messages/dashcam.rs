//! Our extension: `TracePacket` field 1500. Its numbers are part of the segment format and never change meaning.

use prost::Message;

/// Everything dashcam says that Perfetto has no field for. One packet holds any part of it.
#[derive(Clone, PartialEq, Message)]
pub struct DashcamPacket {
    /// Strings of the enclosing packet hold `\xNN` for bytes that are not UTF-8; undo it to get the name.
    #[prost(bool, tag = "1")]
    pub escaped_names: bool,
    /// Watermark: all events of all CPUs before this instant (ns, boot) stand before this packet.
    #[prost(uint64, optional, tag = "2")]
    pub complete_through: Option<u64>,
    /// State block: the instant it describes, ns on the boot clock.
    #[prost(uint64, optional, tag = "3")]
    pub state_ts: Option<u64>,
    /// State block: who runs where.
    #[prost(message, repeated, tag = "4")]
    pub cpu_states: Vec<CpuState>,
    /// State block: what each thread does.
    #[prost(message, repeated, tag = "5")]
    pub thread_states: Vec<ThreadState>,
    /// What procfs says of processes beyond Perfetto's process tree.
    #[prost(message, repeated, tag = "6")]
    pub processes: Vec<ProcessExtra>,
    /// What procfs says of threads beyond Perfetto's process tree.
    #[prost(message, repeated, tag = "7")]
    pub threads: Vec<ThreadExtra>,
    /// CPU topology.
    #[prost(message, repeated, tag = "8")]
    pub topology: Vec<CpuTopology>,
    /// Spans without any recording.
    #[prost(message, repeated, tag = "9")]
    pub gaps: Vec<Gap>,
    /// Events the kernel or we dropped. Those of a bundle's CPU stand in the bundle's own packet.
    #[prost(message, repeated, tag = "10")]
    pub losses: Vec<LossRecord>,
    /// Thread ids of the recorder.
    #[prost(int32, repeated, tag = "11")]
    pub own_threads: Vec<i32>,
    /// Recorder, configuration, snapshot reason …
    #[prost(message, repeated, tag = "12")]
    pub metadata: Vec<KeyValue>,
    /// Counter samples.
    #[prost(message, repeated, tag = "13")]
    pub counters: Vec<CounterSample>,
    /// The data was sampled from procfs this many times a second; there are no events.
    #[prost(uint32, optional, tag = "14")]
    pub sampled_hz: Option<u32>,
    /// CPUs that came or went.
    #[prost(message, repeated, tag = "15")]
    pub cpu_online: Vec<CpuOnline>,
    /// Input that could not be read.
    #[prost(message, repeated, tag = "16")]
    pub damage: Vec<DamageRecord>,
    /// Node name of the host.
    #[prost(bytes = "vec", optional, tag = "17")]
    pub host: Option<Vec<u8>>,
    /// CLOCK_TAI of the enclosing clock snapshot, ns; Perfetto has no number for that clock.
    #[prost(uint64, optional, tag = "18")]
    pub tai: Option<u64>,
    /// Local time minus UTC when the enclosing clock snapshot was taken, minutes.
    #[prost(sint32, optional, tag = "19")]
    pub zone_offset_minutes: Option<i32>,
    /// Kernel stacks of threads that blocked, each distinct one once in a frame.
    #[prost(message, repeated, tag = "20")]
    pub stacks: Vec<StackRecord>,
    /// At the end of a segment: packets with every event and fact of the segment that tells of the begin, the name or the
    /// end of threads and processes, once more. For `decode::lives`; whoever reads the whole segment passes over it.
    #[prost(bytes = "vec", optional, tag = "21")]
    pub lives: Option<Vec<u8>>,
    /// Rows of the bundle's compact switches that are no events: each stands for a switch from idle that the kernel made and
    /// did not trace, at the time when the thread that came was seen to run. The first counts from the first row, each
    /// other one from the one before.
    #[prost(uint32, repeated, tag = "22")]
    pub stand_ins: Vec<u32>,
}

/// A kernel stack, and which threads blocked with it and when.
#[derive(Clone, PartialEq, Message)]
pub struct StackRecord {
    /// Its functions, innermost first, a newline between two.
    #[prost(bytes = "vec", tag = "1")]
    pub functions: Vec<u8>,
    /// Who blocked.
    #[prost(int32, repeated, tag = "2")]
    pub tids: Vec<i32>,
    /// When each of them did, ns on the boot clock: the first as it is, the others as the difference to the one before.
    #[prost(sint64, repeated, tag = "3")]
    pub times: Vec<i64>,
}

/// Who runs on a CPU.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuState {
    /// The CPU.
    #[prost(uint32, tag = "1")]
    pub cpu: u32,
    /// Who runs; 0 = idle.
    #[prost(int32, tag = "2")]
    pub tid: i32,
    /// Its kernel priority.
    #[prost(int32, tag = "3")]
    pub prio: i32,
    /// Since when, ns on the boot clock.
    #[prost(uint64, tag = "4")]
    pub since: u64,
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ThreadState {
    /// The thread.
    #[prost(int32, tag = "1")]
    pub tid: i32,
    /// 0 unknown, 1 running, 2 runnable, 3 preempted, 4 blocked.
    #[prost(uint32, tag = "2")]
    pub state: u32,
    /// Blocked: the canonical flags (`sched::state::TaskState`).
    #[prost(uint32, tag = "3")]
    pub flags: u32,
    /// Since when, ns on the boot clock.
    #[prost(uint64, optional, tag = "4")]
    pub since: Option<u64>,
    /// On, or last on, this CPU.
    #[prost(uint32, optional, tag = "5")]
    pub cpu: Option<u32>,
}

/// A process, beyond what `ProcessTree.Process` has.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessExtra {
    /// The process.
    #[prost(int32, tag = "1")]
    pub pid: i32,
    /// Name of its leader.
    #[prost(bytes = "vec", tag = "2")]
    pub name: Vec<u8>,
    /// Path of its cgroup.
    #[prost(bytes = "vec", tag = "3")]
    pub cgroup: Vec<u8>,
}

/// A thread, beyond what `ProcessTree.Thread` has.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ThreadExtra {
    /// The thread.
    #[prost(int32, tag = "1")]
    pub tid: i32,
    /// Start, ns on the boot clock.
    #[prost(uint64, optional, tag = "2")]
    pub start: Option<u64>,
}

/// Where a CPU sits.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuTopology {
    /// The CPU.
    #[prost(uint32, tag = "1")]
    pub cpu: u32,
    /// NUMA node.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    /// Socket.
    #[prost(uint32, tag = "3")]
    pub package: u32,
    /// Core within the socket.
    #[prost(uint32, tag = "4")]
    pub core: u32,
    /// Online at that moment.
    #[prost(bool, tag = "5")]
    pub online: bool,
}

/// No recording between two instants, ns on the boot clock.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Gap {
    /// Start.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// End.
    #[prost(uint64, tag = "2")]
    pub to: u64,
}

/// Dropped events of one CPU.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LossRecord {
    /// The CPU.
    #[prost(uint32, tag = "1")]
    pub cpu: u32,
    /// Nothing is missing before this instant (ns, boot); 0 = not known.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// Nothing is missing from this instant on.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// How many; unset = the kernel did not say.
    #[prost(uint64, optional, tag = "4")]
    pub count: Option<u64>,
}

/// Anything about the trace itself.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// What.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its value, as text.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// One sample of a counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterSample {
    /// ns on the boot clock.
    #[prost(uint64, tag = "1")]
    pub ts: u64,
    /// Which counter.
    #[prost(bytes = "vec", tag = "2")]
    pub name: Vec<u8>,
    /// Of which CPU, if of one.
    #[prost(uint32, optional, tag = "3")]
    pub cpu: Option<u32>,
    /// Its value.
    #[prost(double, tag = "4")]
    pub value: f64,
}

/// A CPU came or went.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuOnline {
    /// ns on the boot clock.
    #[prost(uint64, tag = "1")]
    pub ts: u64,
    /// The CPU.
    #[prost(uint32, tag = "2")]
    pub cpu: u32,
    /// Came (or its recording began).
    #[prost(bool, tag = "3")]
    pub online: bool,
}

/// Input that could not be read.
#[derive(Clone, PartialEq, Message)]
pub struct DamageRecord {
    /// Of which CPU, if of one.
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    /// What, in words.
    #[prost(bytes = "vec", tag = "2")]
    pub what: Vec<u8>,
}
