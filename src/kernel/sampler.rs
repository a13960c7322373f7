//! What procfs tells without ftrace: run and wait sums of every thread, several times a second.
//!
//! For machines where tracing cannot be had (containers, no rights, lockdown). The sums of `schedstat` are exact, so
//! shares over a second are; when within an interval a thread ran, whom it waited for and who woke it is not known and
//! is never made up. [`Layout`] turns rounds into the domain's words. Nothing here knows a clock: each round is told what
//! time it is.
//!
//! The cost is kept down in two ways. One file per thread stays open and is read in place. And a thread that did not run
//! cannot have changed its state, so only those whose sums moved, or that are ready, are asked for more; a thread
//! quiet for long is asked every fourth round.

mod layout;

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::sys::resource::{Resource, getrlimit};
use rustc_hash::FxHashMap;

pub use layout::Layout;

use super::procfs::{Proc, ReadError, Schedstat, parse};
use crate::sched::event::Tid;

/// Rounds between two looks for new threads.
const DISCOVER_EVERY: u64 = 10;
/// Rounds without a change after which a thread counts as quiet, and how often it is then read.
const QUIET_AFTER: u32 = 8;
const QUIET_EVERY: u64 = 4;
/// Files this process keeps for other purposes.
const OTHER_FILES: u64 = 256;

/// One thread in one round: only those that ran, waited, changed or are new are told of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadSample {
    /// Thread id.
    pub tid: Tid,
    /// Its process.
    pub pid: Tid,
    /// CPU it runs on or last ran on.
    pub cpu: Option<u32>,
    /// State letter at the round's end.
    pub state: u8,
    /// Kernel priority.
    pub prio: i32,
    /// Time on a CPU since it was last read, ns.
    pub run_ns: u64,
    /// Time ready but not running since it was last read, ns; 0 where the kernel keeps no schedstat.
    pub wait_ns: u64,
    /// For one in D state: the kernel function it waits in, if this user may know.
    pub wchan: Vec<u8>,
    /// First seen in this round.
    pub new: bool,
    /// What it is called, if that is news.
    pub named: Option<Named>,
}

/// What a thread is called, and which life of its id it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// As trace events have it: at most 15 bytes.
    pub name: Vec<u8>,
    /// Start on CLOCK_BOOTTIME, ns, exact to a clock tick.
    pub start: u64,
}

/// One CPU in one round, exact to a clock tick (10 ms): a hint beside the threads' sums, not a measure of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSample {
    /// Its id; a CPU that is not listed is offline.
    pub cpu: u32,
    /// Not idle, ns.
    pub busy_ns: u64,
    /// Idle while a thread of its waited for I/O, ns.
    pub iowait_ns: u64,
    /// In interrupts, ns.
    pub irq_ns: u64,
}

/// What happened between two rounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Round {
    /// When the round before was, ns on CLOCK_BOOTTIME.
    pub from: u64,
    /// When this one is.
    pub to: u64,
    /// Threads with anything to tell, by tid.
    pub threads: Vec<ThreadSample>,
    /// Threads that ended.
    pub gone: Vec<Tid>,
    /// CPUs that are online, by id.
    pub cpus: Vec<CpuSample>,
    /// Waits are known (the kernel keeps schedstat).
    pub exact: bool,
}

#[derive(Debug, Default)]
struct Known {
    pid: Tid,
    /// Kept open while there is room in RLIMIT_NOFILE.
    file: Option<File>,
    sums: Schedstat,
    name: Vec<u8>,
    state: u8,
    quiet: u32,
    /// Waiting already told of while the kernel had not yet booked it.
    wait_told: u64,
    seen: u64,
}

/// Reads procfs round by round.
#[derive(Debug)]
pub struct Sampler {
    proc: Proc,
    threads: FxHashMap<Tid, Known>,
    /// CPU times of the round before: id, and busy, iowait, irq in ticks.
    cpus: Vec<(u32, [u64; 3])>,
    round: u64,
    last: u64,
    exact: bool,
    open: u64,
    max_open: u64,
    /// The thread that looks: it meets itself running, and sleeps as soon as it has looked.
    own: Tid,
}

impl Sampler {
    /// Begins at `now` (ns on CLOCK_BOOTTIME): the first round will tell what happened from here on.
    ///
    /// # Errors
    /// When procfs cannot be listed.
    pub fn new(proc: Proc, now: u64) -> Result<Self, ReadError> {
        let exact = proc.schedstat_of_self();
        let max_open = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft.saturating_sub(OTHER_FILES));
        let mut sampler = Sampler {
            proc,
            threads: FxHashMap::default(),
            cpus: Vec::new(),
            round: 0,
            last: now,
            exact,
            open: 0,
            max_open,
            own: 0,
        };
        sampler.cpu_samples();
        sampler.discover(&mut Round::default(), true)?;
        Ok(sampler)
    }

    /// Reads everything there is to read; `now` is ns on CLOCK_BOOTTIME.
    ///
    /// # Errors
    /// When procfs cannot be listed. A thread that ended or hides is no error.
    pub fn round(&mut self, now: u64) -> Result<Round, ReadError> {
        self.round += 1;
        self.own = nix::unistd::gettid().as_raw();
        let mut round = Round { from: self.last, to: now.max(self.last), exact: self.exact, ..Round::default() };
        self.last = round.to;
        round.cpus = self.cpu_samples();
        if self.round.is_multiple_of(DISCOVER_EVERY) {
            self.discover(&mut round, false)?;
        }
        let mut due: Vec<Tid> = Vec::with_capacity(self.threads.len());
        for (tid, known) in &self.threads {
            let turn = self.round.wrapping_add(*tid as u64).is_multiple_of(QUIET_EVERY);
            if known.quiet < QUIET_AFTER || turn {
                due.push(*tid);
            }
        }
        due.sort_unstable();
        for tid in due {
            self.read(tid, &mut round);
        }
        for tid in &round.gone {
            self.forget(*tid);
        }
        Ok(round)
    }

    /// Number of threads known.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    fn forget(&mut self, tid: Tid) {
        if let Some(known) = self.threads.remove(&tid)
            && known.file.is_some()
        {
            self.open -= 1;
        }
    }

    /// Finds threads that came and went. A new one's sums count from 0: all it did, it did since the last look.
    fn discover(&mut self, round: &mut Round, first: bool) -> Result<(), ReadError> {
        for pid in self.proc.pids()? {
            let Ok(tids) = self.proc.tids(pid) else { continue };
            for tid in tids {
                // The same id under another process is another thread.
                let same = self.threads.get(&tid).is_some_and(|k| k.pid == pid);
                if !same {
                    self.forget(tid);
                    let mut known = Known { pid, ..Known::default() };
                    if first {
                        known.sums = self.sums(&mut known, tid).unwrap_or_default();
                    }
                    self.threads.insert(tid, known);
                }
                if let Some(known) = self.threads.get_mut(&tid) {
                    known.seen = self.round;
                }
            }
        }
        let now = self.round;
        round.gone.extend(self.threads.iter().filter(|(_, k)| k.seen != now).map(|(tid, _)| *tid));
        round.gone.sort_unstable();
        Ok(())
    }

    /// The sums of a thread: schedstat's, or where there is none, its clock ticks.
    fn sums(&mut self, known: &mut Known, tid: Tid) -> Result<Schedstat, ReadError> {
        if !self.exact {
            let stat = self.proc.task_stat(known.pid, tid)?;
            let ticks = stat.utime_ticks.saturating_add(stat.stime_ticks);
            return Ok(Schedstat { run_ns: self.proc.ticks_ns(ticks), ..Schedstat::default() });
        }
        if known.file.is_none() && self.open < self.max_open {
            let path = self.proc.root().join(format!("{}/task/{tid}/schedstat", known.pid));
            known.file = File::open(path).ok();
            self.open += u64::from(known.file.is_some());
        }
        let Some(file) = &known.file else { return self.proc.schedstat(known.pid, tid) };
        let mut text = [0u8; 96];
        // A dead thread's file reads ESRCH (or nothing), as its folder would.
        let len = file.read_at(&mut text, 0).map_err(|_| ReadError::Gone)?;
        parse::schedstat(&text[..len]).map_err(|_| ReadError::Gone)
    }

    fn read(&mut self, tid: Tid, round: &mut Round) {
        let Some(mut known) = self.threads.remove(&tid) else { return };
        let read = self.sums(&mut known, tid);
        let told = read.and_then(|sums| self.tell(tid, &mut known, sums, round.to - round.from));
        self.threads.insert(tid, known);
        match told {
            Ok(sample) => round.threads.extend(sample),
            Err(ReadError::Gone) if !round.gone.contains(&tid) => round.gone.push(tid),
            Err(_) => {}
        }
    }

    /// What is to be told of one thread; nothing if it slept all the while.
    fn tell(&self, tid: Tid, known: &mut Known, sums: Schedstat, len: u64) -> Result<Option<ThreadSample>, ReadError> {
        let run_ns = sums.run_ns.saturating_sub(known.sums.run_ns);
        let waited = sums.wait_ns.saturating_sub(known.sums.wait_ns);
        let moved = run_ns > 0 || waited > 0 || sums.slices != known.sums.slices;
        let new = known.state == 0;
        known.sums = sums;
        // One that did not run is as it was: asleep, or ready all the while.
        if !moved && !new && known.state != b'R' {
            known.quiet = known.quiet.saturating_add(1);
            return Ok(None);
        }
        let mut stat = self.proc.task_stat(known.pid, tid)?;
        if tid == self.own {
            stat.state = b'S';
        }
        let mut wait_ns = waited.saturating_sub(known.wait_told);
        known.wait_told = known.wait_told.saturating_sub(waited);
        // The kernel books a wait when it ends; one that goes on is told of now and not again when it is booked.
        if self.exact && stat.state == b'R' && run_ns == 0 && waited == 0 {
            wait_ns = len;
            known.wait_told = known.wait_told.saturating_add(len);
        }
        let changed = known.state != stat.state;
        known.state = stat.state;
        known.quiet = if moved || stat.state == b'R' { 0 } else { known.quiet.saturating_add(1) };
        let name = stat.event_name();
        let named = (new || known.name != name)
            .then(|| Named { name: name.to_vec(), start: self.proc.ticks_ns(stat.start_ticks) });
        if let Some(named) = &named {
            known.name.clone_from(&named.name);
        }
        if !moved && !changed && wait_ns == 0 && named.is_none() {
            return Ok(None);
        }
        let wchan = if stat.state == b'D' { self.proc.wchan(known.pid, tid).unwrap_or_default() } else { Vec::new() };
        Ok(Some(ThreadSample {
            tid,
            pid: known.pid,
            cpu: stat.cpu,
            state: stat.state,
            prio: stat.prio,
            run_ns,
            wait_ns,
            wchan,
            new,
            named,
        }))
    }

    /// What each online CPU did since the last call.
    fn cpu_samples(&mut self) -> Vec<CpuSample> {
        let text = self.proc.cpu_lines().unwrap_or_default();
        let now = cpu_times(&text);
        let before = |cpu: u32| self.cpus.iter().find(|(id, _)| *id == cpu).map_or([0; 3], |(_, t)| *t);
        let samples = now
            .iter()
            .map(|(cpu, t)| {
                let b = before(*cpu);
                let ns = |i: usize| self.proc.ticks_ns(t[i].saturating_sub(b[i]));
                CpuSample { cpu: *cpu, busy_ns: ns(0), iowait_ns: ns(1), irq_ns: ns(2) }
            })
            .collect();
        self.cpus = now;
        samples
    }
}

/// `cpu0 148909 83 14731 142377 697 0 125 1590 0 0`: user nice system idle iowait irq softirq steal, in ticks
/// (proc_stat(5)); as busy, iowait, irq.
fn cpu_times(text: &str) -> Vec<(u32, [u64; 3])> {
    let line = |l: &str| {
        let mut words = l.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let t: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let at = |i: usize| t.get(i).copied().unwrap_or(0);
        let irq = at(5).saturating_add(at(6));
        let busy = [0, 1, 2, 7].into_iter().fold(irq, |sum, i| sum.saturating_add(at(i)));
        (t.len() >= 5).then_some((cpu, [busy, at(4), irq]))
    };
    // The line "cpu " of all CPUs together has no id and drops out.
    text.lines().take_while(|l| l.starts_with("cpu")).filter(|l| !l.starts_with("cpu ")).filter_map(line).collect()
}

#[cfg(test)]
mod tests;
