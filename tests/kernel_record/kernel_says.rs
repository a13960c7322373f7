//! What the kernel itself says: what it counted, what was taken from it, and what it traced.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ROOT;
use crate::known::gettid;
use crate::load_support::cpus;

/// CPU time and context switches of a thread, as the kernel counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub run_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Counted {
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Of `/proc/PID` or `/proc/PID/task/TID`: `schedstat` and `status`. A zombie has them, too.
pub fn counted(dir: &Path) -> Counted {
    let schedstat = fs::read_to_string(dir.join("schedstat")).unwrap();
    let status = fs::read_to_string(dir.join("status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().parse().unwrap()
    };
    let run_ns = schedstat.split(' ').next().unwrap().parse().unwrap();
    Counted { run_ns, voluntary: field("voluntary_ctxt_switches"), involuntary: field("nonvoluntary_ctxt_switches") }
}

/// What the hypervisor took from all CPUs since the boot, ns.
fn stolen_since_boot() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.lines().next().unwrap().split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * TICK
}

/// USER_HZ, in which `/proc/stat` counts, is 100 everywhere.
const TICK: u64 = 10_000_000;

/// Time that the hypervisor takes from this machine's CPUs. schedstat leaves it out (PARAVIRT_TIME_ACCOUNTING), switches
/// cannot see it, whoever records them.
pub struct Stolen(u64);

impl Stolen {
    pub fn start() -> Stolen {
        Stolen(stolen_since_boot())
    }

    /// The most that was taken since, ns, from all CPUs together.
    pub fn at_most(&self) -> u64 {
        match stolen_since_boot() {
            0 => 0,
            // What is left of a tick is not told; and each CPU tells at its next tick, 10 ms at the latest.
            now => now - self.0 + TICK * (1 + cpus().len() as u64),
        }
    }
}

/// A second tracefs instance, read as the text that the kernel itself prints: what was traced, whatever we make of it.
pub struct KernelText(PathBuf);

impl KernelText {
    /// Traces what the threads of the calling test leave their CPUs for: its thread has its name, and those it starts
    /// inherit that. And what threads called `also` do.
    pub fn start(also: &[&str]) -> KernelText {
        let comm = fs::read_to_string("/proc/thread-self/comm").unwrap();
        let names = [comm.trim_end()].into_iter().chain(also.iter().copied());
        let filter: Vec<String> = names.map(|n| format!("prev_comm == \"{n}\"")).collect();
        let name = format!("dashcam-text-{}-{}", std::process::id(), gettid());
        let dir = Path::new(ROOT).join("instances").join(name);
        fs::create_dir(&dir).unwrap();
        let text = KernelText(dir);
        for (file, value) in [
            ("buffer_size_kb", "4096"),
            ("events/sched/sched_switch/filter", &filter.join(" || ")),
            ("events/sched/sched_switch/enable", "1"),
            ("tracing_on", "1"),
        ] {
            fs::write(text.0.join(file), value).unwrap();
        }
        text
    }

    /// (voluntary, involuntary) switches out of each thread.
    pub fn stop(self) -> BTreeMap<i32, (u64, u64)> {
        fs::write(self.0.join("tracing_on"), "0").unwrap();
        let mut out: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        for line in String::from_utf8_lossy(&fs::read(self.0.join("trace")).unwrap()).lines() {
            let Some((_, rest)) = line.split_once(" prev_pid=") else { continue };
            let Some((pid, rest)) = rest.split_once(' ') else { continue };
            let Some((_, state)) = rest.split_once(" prev_state=") else { continue };
            let counts = out.entry(pid.parse().unwrap()).or_default();
            if state.starts_with('R') { counts.1 += 1 } else { counts.0 += 1 }
        }
        out
    }
}

impl Drop for KernelText {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}
