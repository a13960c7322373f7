//! How a recorder says it is doing: the answer to `status`, in one shape for socket, screen and script.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One recorder at one instant. Times are ns on CLOCK_BOOTTIME unless the name says otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its store.
    pub store: PathBuf,
    /// Where scheduling comes from, in words: `ftrace`, or `proc, sampled 20 Hz`.
    pub source: String,
    /// Looks at procfs per second; `None`: events are recorded.
    pub sampled_hz: Option<u32>,
    /// Its tracefs instance; empty when procfs is sampled.
    pub instance: String,
    /// The clock events are stamped with (`boot`, `mono` or `global`).
    pub clock: String,
    /// When this was written.
    pub now: u64,
    /// When it began.
    pub started: u64,
    /// The segment being written; `None` while it cannot write.
    pub segment: Option<OpenSegment>,
    /// Events written since it began.
    pub events: u64,
    /// Events per second over the last seconds.
    pub events_per_s: f64,
    /// Events lost since it began, CPU by CPU; only CPUs that lost any.
    pub lost: Vec<CpuLoss>,
    /// Switches that the kernel must have made but left out of the trace, since the recording began.
    pub untraced_switches: u64,
    /// Share of one CPU that the recorder itself uses, over the last seconds (0.01 = 1 %).
    pub own_cpu: f64,
    /// CPU time the recorder has used since it began, ns.
    pub own_cpu_ns: u64,
    /// Its resident memory, bytes.
    pub own_rss: u64,
    /// Its threads.
    pub own_tids: Vec<i32>,
    /// Ring buffer per CPU, KiB.
    pub buffer_kb: u64,
    /// What is on disk.
    pub kept: Kept,
    /// Snapshots taken since it began.
    pub snapshots: u64,
    /// Path of the last one.
    pub last_snapshot: Option<PathBuf>,
    /// What the operator should know, in words (disk full, clock refused, …); empty when all is well.
    pub warnings: Vec<String>,
}

/// The segment being written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenSegment {
    /// Its file.
    pub path: PathBuf,
    /// Its number.
    pub sequence: u64,
    /// Its begin.
    pub from: u64,
    /// When it will be cut.
    pub until: u64,
    /// Bytes so far.
    pub bytes: u64,
}

/// Loss on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuLoss {
    /// The CPU.
    pub cpu: u32,
    /// Events known to be lost.
    pub count: u64,
    /// True when there was also loss of unknown size.
    pub unknown: bool,
}

/// What is on disk and how far back it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Finished segments.
    pub segments: u64,
    /// Their bytes, the open one included.
    pub bytes: u64,
    /// The cap on bytes.
    pub max_bytes: u64,
    /// Begin of the oldest, ns since 1970 UTC.
    pub oldest_unix: Option<u64>,
    /// How far back the store will reach at the present rate once the caps bind, seconds.
    pub forecast_s: f64,
    /// Free bytes on its file system.
    pub free: u64,
}

impl Status {
    /// Events known to be lost on all CPUs, and whether there was also loss of unknown size.
    pub fn lost_total(&self) -> (u64, bool) {
        self.lost.iter().fold((0, false), |(n, u), l| (n + l.count, u || l.unknown))
    }
}
