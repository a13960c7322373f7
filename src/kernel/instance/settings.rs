//! How an instance is to be set up, and for what machine. Plain values; [`super`] acts on them.

use std::fs;
use std::path::PathBuf;

use crate::kernel::topology::parse_cpu_list;

/// A clock that `trace_clock` offers and that is of use across CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceClock {
    /// CLOCK_BOOTTIME: counts suspend. The one to have.
    Boot,
    /// CLOCK_MONOTONIC: stands still in suspend.
    Mono,
    /// The scheduler's clock made monotonic over CPUs; no relation to any POSIX clock.
    Global,
}

impl TraceClock {
    /// As `trace_clock` spells it.
    pub fn name(self) -> &'static str {
        match self {
            TraceClock::Boot => "boot",
            TraceClock::Mono => "mono",
            TraceClock::Global => "global",
        }
    }
}

/// For which sleeps the kernel stack is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Blocked {
    /// Uninterruptible ones (D).
    #[default]
    Uninterruptible,
    /// Uninterruptible and interruptible ones (D and S): costs more.
    All,
    /// None.
    Off,
}

/// How to set up the instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name below `instances/`; begins with `dashcam`, since a left-over of that name is removed.
    pub name: String,
    /// Where tracefs is; found by type when `None`.
    pub tracefs: Option<PathBuf>,
    /// Clocks in order of preference.
    pub clocks: Vec<TraceClock>,
    /// Categories and `group/name`.
    pub events: Vec<String>,
    /// Ring buffer bytes of all CPUs together.
    pub buffer_total: u64,
    /// Largest share of RAM for it, 0 to 1.
    pub buffer_ram_share: f64,
    /// Bytes of one sub-buffer where the kernel lets choose (6.8 and later).
    pub sub_buffer: u64,
    /// Fill mark, percent, at which `cpu_reader::wait` returns early.
    pub wake_percent: u8,
    /// Kernel stacks of sleepers.
    pub blocked: Blocked,
    /// Have the top level's `trace_marker` text copied here, if `ftrace/print` is among the events.
    pub copy_trace_marker: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            name: "dashcam".to_owned(),
            tracefs: None,
            clocks: vec![TraceClock::Boot, TraceClock::Mono, TraceClock::Global],
            events: ["sched", "freq", "io", "mark"].map(str::to_owned).to_vec(),
            buffer_total: 64 << 20,
            buffer_ram_share: 0.02,
            sub_buffer: 64 << 10,
            wake_percent: 50,
            blocked: Blocked::Uninterruptible,
            copy_trace_marker: true,
        }
    }
}

/// Every instance of ours is named so; any other is someone else's and is left alone.
pub const NAME_PREFIX: &str = "dashcam";

/// The machine, as far as the ring buffer's size depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of RAM.
    pub ram: u64,
    /// Ids of the CPUs that are online.
    pub online: Vec<u32>,
    /// `uname -r`.
    pub release: String,
}

impl Machine {
    /// This machine.
    pub fn read() -> Machine {
        let ram = nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total());
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| parse_cpu_list(&text).ok()).unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Machine { ram, online, release }
    }
}
