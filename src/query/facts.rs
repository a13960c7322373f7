//! The small tables: lives of threads and processes, CPUs, clocks, losses, segments, and what the trace says of itself.
//!
//! Plain values, filled once when a window has been loaded. Bytes of names stay bytes: making them safe for a
//! terminal is the output's job.

use crate::names::{NameId, NameTable};
use crate::sched::event::{ClockSnapshot, CpuFact, Loss, Tid};
use crate::sched::fold::{Upid, Utid};
use crate::sched::summary::Window;
use crate::sched::threads::{IDLE, Threads};
use crate::store::footer::SnapshotNote;
use crate::store::index::LossCount;

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
    /// It was not met in the time asked for.
    pub unmet: bool,
}

/// One life of a process; its place in the list is its `upid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// Kernel process id.
    pub pid: Tid,
    /// Name, as on the screens: that of the main thread, else of the command, without its folder.
    pub name: NameId,
    /// The command as it was called, which Perfetto takes for the name (EMPTY if not known).
    pub command: NameId,
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
    /// None of its threads was met in the time asked for.
    pub unmet: bool,
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
    /// Events in it and events lost, if its footer says.
    pub counts: Option<(u64, LossCount)>,
    /// It is a snapshot.
    pub snapshot: bool,
    /// Label in its name.
    pub label: Option<String>,
    /// Why a snapshot was kept, and what was asked for.
    pub note: Option<SnapshotNote>,
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
    pub damage: Vec<String>,
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
    /// The lives of threads and processes as the fold told them apart; the main thread of a kernel process is named like the
    /// process, kworkers without the work they are at, which changes all the time.
    ///
    /// Threads have the names they had at `until`, ns on CLOCK_BOOTTIME.
    pub fn of_lives(threads: &Threads, names: &mut NameTable, until: u64) -> Facts {
        let mut facts = Facts::default();
        for (upid, life) in threads.processes() {
            let words: Vec<&[u8]> = life.cmdline.iter().map(|w| names.bytes(*w)).collect();
            let (joined, command) = (words.join(&b' '), words.first().map(|w| base_name(w).to_vec()));
            let shown = threads.process_name(upid);
            let name = match command {
                _ if upid == 0 => NameId::EMPTY,
                _ if life.kernel && !life.name.is_empty() => {
                    let name = without_work(names.bytes(life.name)).to_vec();
                    names.intern(&name)
                }
                Some(command) if shown.is_empty() => names.intern(&command),
                _ => shown,
            };
            facts.processes.push(Process {
                pid: life.pid,
                name,
                command: life.cmdline.first().copied().filter(|_| !life.kernel).unwrap_or_default(),
                start: life.start,
                end: life.end,
                parent: life.parent,
                uid: life.uid,
                cmdline: names.intern(&joined),
                cgroup: life.cgroup,
                unmet: false,
            });
        }
        for (utid, life) in threads.iter() {
            let process = life.upid.and_then(|upid| threads.process(upid));
            let main = process.map(|p| p.pid == life.tid);
            let name = match (life.upid, process) {
                _ if utid == IDLE => names.intern(b"swapper"),
                (Some(upid), Some(p)) if p.kernel && main == Some(true) => facts.processes[upid as usize].name,
                _ => life.name_at(until),
            };
            facts.threads.push(Thread {
                tid: life.tid,
                upid: life.upid,
                name,
                start: life.start,
                end: life.end,
                main,
                own: life.own,
                unmet: false,
            });
        }
        facts
    }

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

/// What follows the last slash.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

/// procfs adds what a kworker works at: `kworker/0:1-events`, or `+` while it does (wq_worker_comm in kernel/workqueue.c).
fn without_work(name: &[u8]) -> &[u8] {
    match name.iter().position(|b| matches!(b, b'-' | b'+')) {
        Some(n) if name.starts_with(b"kworker/") => &name[..n],
        _ => name,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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

    #[test]
    fn a_process_has_the_name_it_was_called_by() {
        use crate::query::engine::Engine;
        use crate::sched::event::ProcessFact;
        use rusqlite::types::Value;
        let (mut names, mut threads) = (NameTable::new(), Threads::new());
        let mut fact = |pid: Tid, words: &[&str], name: &str, kernel: bool| {
            let cmdline = words.iter().map(|w| names.intern(w.as_bytes())).collect();
            let name = names.intern(name.as_bytes());
            threads.process_fact(&ProcessFact { pid, cmdline, name, kernel, ..ProcessFact::default() });
        };
        fact(7, &["/usr/bin/python3", "train.py"], "train.py", false);
        fact(8, &[], "kworker/0:1-events", true);
        fact(9, &[], "gone", false);
        fact(10, &["/usr/bin/sleep", "1"], "", false);
        let facts = Facts::of_lives(&threads, &mut names, u64::MAX);
        let shown: Vec<&[u8]> = facts.processes[1..].iter().map(|p| names.bytes(p.name)).collect();
        assert_eq!(shown, [&b"train.py"[..], b"kworker/0:1", b"gone", b"sleep"], "reports name it as the screens do");
        let mut columns = crate::query::Columns::default();
        (columns.names, columns.facts) = (names, facts);
        let mut engine = Engine::open(std::sync::Arc::new(columns)).unwrap();
        let rows = engine.answer("SELECT name, cmdline FROM process WHERE pid > 0", None).unwrap().rows;
        let text = |t: &str| Value::Text(t.into());
        let expected = [
            vec![text("/usr/bin/python3"), text("/usr/bin/python3 train.py")],
            vec![text("kworker/0:1"), Value::Null],
            vec![text("gone"), Value::Null],
            vec![text("/usr/bin/sleep"), text("/usr/bin/sleep 1")],
        ];
        assert_eq!(rows, expected);
    }
}
