//! What a recorder is told to do. Filled from the configuration file by `config`; nothing here knows that file.

use std::path::PathBuf;
use std::time::Duration;

use crate::store::frame::USUAL_LEVEL;

/// Everything one recorder needs to know, besides where its files are (`Places`).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What is taken from the kernel.
    pub capture: Capture,
    /// What is kept on disk.
    pub store: StoreSettings,
    /// How much a snapshot keeps when the request does not say.
    pub snapshot_last: Duration,
    /// Counters read from procfs.
    pub counters: Counters,
    /// Conditions that take a snapshot by themselves.
    pub triggers: Vec<Trigger>,
    /// Who may ask for something on the control socket.
    pub control: Access,
}

/// Who may use the control socket: its owner, its group and its mode say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Permission bits.
    pub mode: u32,
    /// Name of the group; `None`: the process's own.
    pub group: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Access { mode: 0o660, group: None }
    }
}

/// What is taken from the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Capture {
    /// Where scheduling comes from.
    pub source: Source,
    /// Name of the tracefs instance.
    pub instance: String,
    /// Where tracefs is; `None`: find it.
    pub tracefs: Option<PathBuf>,
    /// Categories (`sched`, `freq`, …) and single events (`group/name`).
    pub events: Vec<String>,
    /// Ring buffers of all CPUs together, bytes.
    pub buffer_total: u64,
    /// The ring buffers may take at most this share of RAM, 0..=1.
    pub buffer_ram_share: f64,
    /// Which blocked threads get their kernel stack looked at.
    pub blocked: Blocked,
    /// Record what is written to the top level's `trace_marker` too, where the kernel can.
    pub copy_marker: bool,
    /// Keep the command lines of processes.
    pub command_lines: bool,
}

/// Where scheduling comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The kernel's ring buffers if they can be had, else procfs.
    #[default]
    Auto,
    /// The kernel's ring buffers: every event, exactly.
    Ftrace,
    /// procfs, looked at several times a second: for any user, without waits, wakers and preemptors.
    Proc,
}

/// Which blocked threads get their kernel stack looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Blocked {
    /// Those in uninterruptible sleep (D).
    #[default]
    Uninterruptible,
    /// Those in any sleep.
    All,
    /// None.
    Off,
}

/// What is kept on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreSettings {
    /// Length of a segment; cut at whole multiples of it on the wall clock.
    pub segment: Duration,
    /// zstd level.
    pub level: i32,
    /// How often the open segment is flushed to the disk itself; zero: only at its end.
    pub sync_interval: Duration,
    /// Segments older than this are deleted.
    pub max_age: Duration,
    /// The oldest segments are deleted to stay below this many bytes.
    pub max_bytes: u64,
    /// The oldest segments are deleted to keep this share of the file system free, 0..=1.
    pub min_free: f64,
}

/// Counters read from procfs at an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    /// How often; zero: never.
    pub interval: Duration,
    /// Which sources: `memory`, `psi`, `disk`, `load`, `cgroup`.
    pub sources: Vec<String>,
}

/// Takes a snapshot when a value stays above a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// The label of its snapshots.
    pub label: String,
    /// What is watched: a counter's name, `run_queue_latency` or `blocked` (both ns), `ready` (threads).
    pub value: String,
    /// Fires at or above this.
    pub above: f64,
    /// For how long it must hold.
    pub hold: Duration,
    /// Least time between two of its snapshots.
    pub cooldown: Duration,
    /// How much the snapshot keeps; `None`: as `snapshot_last`.
    pub last: Option<Duration>,
}

impl Default for Settings {
    /// What `configs/default.toml` says.
    fn default() -> Self {
        Settings {
            capture: Capture {
                source: Source::default(),
                instance: "dashcam".into(),
                tracefs: None,
                events: ["sched", "freq", "io", "mark"].map(String::from).into(),
                buffer_total: 64 << 20,
                buffer_ram_share: 0.02,
                blocked: Blocked::default(),
                copy_marker: true,
                command_lines: true,
            },
            store: StoreSettings {
                segment: Duration::from_secs(60),
                level: USUAL_LEVEL,
                sync_interval: Duration::from_secs(5),
                max_age: Duration::from_secs(24 * 3600),
                max_bytes: 4 << 30,
                min_free: 0.05,
            },
            snapshot_last: Duration::from_secs(300),
            counters: Counters {
                interval: Duration::from_secs(1),
                sources: ["memory", "psi", "disk", "load", "cgroup"].map(String::from).into(),
            },
            triggers: Vec::new(),
            control: Access::default(),
        }
    }
}
