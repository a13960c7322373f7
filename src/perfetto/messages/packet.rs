//! `TracePacket` and what stands in it. Fields have the names of the public protos, which document them.
#![allow(missing_docs, reason = "the public protos document these fields")]

use super::DashcamPacket;
use prost::Message;

/// `TracePacket`, without the ftrace bundle.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// An encoded `SysStats`; see `perfetto::sys_stats`.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub sys_stats: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "33")]
    pub trace_config: Option<Vec<u8>>,
    #[prost(message, optional, tag = "34")]
    pub ftrace_stats: Option<FtraceStats>,
    #[prost(message, optional, tag = "45")]
    pub system_info: Option<SystemInfo>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "67")]
    pub cpu_info: Option<CpuInfo>,
    #[prost(message, optional, tag = "89")]
    pub trace_uuid: Option<TraceUuid>,
    #[prost(message, optional, tag = "1500")]
    pub dashcam: Option<DashcamPacket>,
}

/// `ProcessTree`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<ProcessTreeProcess>,
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<ProcessTreeThread>,
    #[prost(uint64, optional, tag = "3")]
    pub collection_end_timestamp: Option<u64>,
}

/// `ProcessTree.Process`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTreeProcess {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub ppid: Option<i32>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub cmdline: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "5")]
    pub uid: Option<i32>,
    #[prost(uint64, optional, tag = "7")]
    pub process_start_from_boot: Option<u64>,
    #[prost(bool, optional, tag = "8")]
    pub is_kthread: Option<bool>,
    #[prost(bool, optional, tag = "9")]
    pub cmdline_is_comm: Option<bool>,
}

/// `ProcessTree.Thread`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTreeThread {
    #[prost(int32, optional, tag = "1")]
    pub tid: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub name: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "3")]
    pub tgid: Option<i32>,
}

/// `ClockSnapshot`.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    pub primary_trace_clock: Option<i32>,
}

/// `ClockSnapshot.Clock`. `is_incremental` belongs to producer-defined clocks, which ftrace never uses.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub unit_multiplier_ns: Option<u64>,
}

/// `BuiltinClock` numbers (protos/perfetto/common/builtin_clock.proto).
pub mod clock_id {
    /// CLOCK_REALTIME.
    pub const REALTIME: u32 = 1;
    /// CLOCK_MONOTONIC.
    pub const MONOTONIC: u32 = 3;
    /// CLOCK_MONOTONIC_RAW.
    pub const MONOTONIC_RAW: u32 = 5;
    /// CLOCK_BOOTTIME.
    pub const BOOTTIME: u32 = 6;
}

/// `SystemInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub tracing_service_version: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    pub page_size: Option<u32>,
    #[prost(int32, optional, tag = "7")]
    pub timezone_off_mins: Option<i32>,
    #[prost(uint32, optional, tag = "8")]
    pub num_cpus: Option<u32>,
    #[prost(uint64, optional, tag = "16")]
    pub system_ram_bytes: Option<u64>,
}

/// `Utsname`; it has no node name.
#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub sysname: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub version: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub release: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub machine: Option<Vec<u8>>,
}

/// `CpuInfo`: one entry per CPU, in order of id.
#[derive(Clone, PartialEq, Message)]
pub struct CpuInfo {
    #[prost(message, repeated, tag = "1")]
    pub cpus: Vec<CpuInfoCpu>,
}

/// `CpuInfo.Cpu`.
#[derive(Clone, PartialEq, Message)]
pub struct CpuInfoCpu {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub processor: Option<Vec<u8>>,
    #[prost(uint32, repeated, packed = "false", tag = "2")]
    pub frequencies: Vec<u32>,
}

/// `FtraceStats`.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceStats {
    /// 1 = start of trace, 2 = end of trace.
    #[prost(int32, optional, tag = "1")]
    pub phase: Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub cpu_stats: Vec<FtraceCpuStats>,
}

/// `FtraceCpuStats`: what `per_cpu/cpuN/stats` says.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct FtraceCpuStats {
    #[prost(uint64, optional, tag = "1")]
    pub cpu: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub entries: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub overrun: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub commit_overrun: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub bytes_read: Option<u64>,
    #[prost(double, optional, tag = "6")]
    pub oldest_event_ts: Option<f64>,
    #[prost(double, optional, tag = "7")]
    pub now_ts: Option<f64>,
    #[prost(uint64, optional, tag = "8")]
    pub dropped_events: Option<u64>,
    #[prost(uint64, optional, tag = "9")]
    pub read_events: Option<u64>,
}

/// `TraceUuid`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct TraceUuid {
    #[prost(int64, optional, tag = "1")]
    pub msb: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub lsb: Option<i64>,
}
