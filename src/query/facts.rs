//! The small tables: lives of threads and processes, CPUs, clocks, losses, segments, and what the trace says of itself.
//!
//! Plain values, filled once when a window has been loaded. Bytes of names stay bytes: making them safe for a
//! terminal is the output's job.

use crate::names::NameId;
use crate::sched::event::{ClockSnapshot, CpuFact, Loss, Tid};
use crate::sched::fold::{Upid, Utid};
use crate::sched::summary::Window;

/// One life of a thread; its place in the list is its `utid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thread {
    /// Kernel thread id.
    pub tid: Tid,
    /// Its process, if known.
    pub upid: Option<Upid>,
    /// Last name in the window.
    pub name: NameId,
    /// When it was made, ns on CLOCK_BOOTTIME, if the data says.
    pub start: Option<u64>,
    /// When it was gone, ns on CLOCK_BOOTTIME, if the data says.
    pub end: Option<u64>,
    /// Whether it is its process's main thread; `None` if the process is not known.
    pub main: Option<bool>,
    /// One of the recorder's own threads.
    pub own: bool,
}

/// One life of a process; its place in the list is its `upid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// Kernel process id.
    pub pid: Tid,
    /// Name: that of the main thread or of the command.
    pub name: NameId,
    /// When it was made, ns on CLOCK_BOOTTIME, if the data says.
    pub start: Option<u64>,
    /// When it was gone.
    pub end: Option<u64>,
    /// Its parent, if that is known.
    pub parent: Option<Upid>,
    /// Owner.
    pub uid: Option<u32>,
    /// Arguments, joined with spaces (EMPTY for none).
    pub cmdline: NameId,
    /// Cgroup path (EMPTY if not known).
    pub cgroup: NameId,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Path as it was found.
    pub path: String,
    /// Sequence number, when the name has one.
    pub sequence: Option<u64>,
    /// Time covered, ns on CLOCK_BOOTTIME.
    pub window: Option<Window>,
    /// Begin on CLOCK_REALTIME, ns since 1970.
    pub start_utc: Option<u64>,
    /// Size on disk, bytes.
    pub bytes: u64,
    /// Events, when known.
    pub events: Option<u64>,
    /// Events lost; inner `None`: some, number unknown.
    pub lost: Option<Option<u64>>,
    /// For a snapshot: its label or reason.
    pub snapshot: Option<String>,
    /// Finished (footer present).
    pub whole: bool,
}

/// One key and value about the trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// Key, in Perfetto's words where it has one (`system_release`, `trace_uuid`, …).
    pub name: String,
    /// A number.
    pub int: Option<i64>,
    /// Or bytes of text.
    pub text: Option<Vec<u8>>,
}

/// Everything about the loaded data that is not a row per event.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// By utid.
    pub threads: Vec<Thread>,
    /// By upid.
    pub processes: Vec<Process>,
    /// Topology, by what was told.
    pub cpus: Vec<CpuFact>,
    /// Clock snapshots, in the order met.
    pub clocks: Vec<ClockSnapshot>,
    /// What the kernel dropped.
    pub losses: Vec<Loss>,
    /// Stretches without any recording.
    pub gaps: Vec<Window>,
    /// Parts that could not be read: CPU and what.
    pub damage: Vec<(Option<u32>, String)>,
    /// Key and value about the trace.
    pub metadata: Vec<Meta>,
    /// Files read.
    pub segments: Vec<Segment>,
    /// Sampling rate when the data comes from sampling procfs.
    pub sampled_hz: Option<u32>,
    /// First instant at which all CPUs are covered; 0 if not known.
    pub valid_from: u64,
}

impl Facts {
    /// Offset to add to a CLOCK_BOOTTIME instant for CLOCK_REALTIME, from the last clock snapshot at or before it.
    pub fn realtime(&self, boot: u64) -> Option<i64> {
        let clock = self.clock_at(boot, |c| c.real != 0)?;
        Some((clock.real as i64).wrapping_add(boot as i64).wrapping_sub(clock.boot as i64))
    }

    /// CLOCK_MONOTONIC for a CLOCK_BOOTTIME instant.
    pub fn monotonic(&self, boot: u64) -> Option<i64> {
        let clock = self.clock_at(boot, |c| c.mono != 0)?;
        Some((clock.mono as i64).wrapping_add(boot as i64).wrapping_sub(clock.boot as i64))
    }

    fn clock_at(&self, boot: u64, has: impl Fn(&ClockSnapshot) -> bool) -> Option<&ClockSnapshot> {
        let known = || self.clocks.iter().filter(|c| has(c));
        known().filter(|c| c.boot <= boot).max_by_key(|c| c.boot).or_else(|| known().min_by_key(|c| c.boot))
    }

    /// The process of a thread.
    pub fn process_of(&self, utid: Utid) -> Option<&Process> {
        self.processes.get(self.threads.get(utid as usize)?.upid? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realtime_follows_the_snapshot_before_the_instant() {
        let clock = |boot, real| ClockSnapshot { boot, real, ..ClockSnapshot::default() };
        // The wall clock steps back by 50 between the snapshots.
        let facts = Facts { clocks: vec![clock(1000, 5000), clock(2000, 5950)], ..Facts::default() };
        assert_eq!(facts.realtime(1500), Some(5500));
        assert_eq!(facts.realtime(2100), Some(6050));
        assert_eq!(facts.realtime(900), Some(4900), "before the first: the first");
        assert_eq!(facts.monotonic(900), None, "never read");
    }
}
