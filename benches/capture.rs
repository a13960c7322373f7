//! What recording costs, beside `perf record -z` in the same run: `cargo bench --bench capture` (root, perf, hackbench).
//!
//! Both record sched_switch and sched_waking of all CPUs while the same load runs, so both see the same events. Printed:
//! CPU of all recorder threads per million events, bytes per event on disk, loss, memory; then an idle stretch with the
//! default configuration, snapshots under load, and 64 made-up CPUs with a million events a second.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/recorder_support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dashcam::recorder::control::{self, Request};
use serde_json::Value;

const SCHED_ONLY: &str = "[capture]\nevents = [\"sched/sched_switch\", \"sched/sched_waking\"]\nblocked = \"off\"\n\
                          [counters]\ninterval = \"0s\"\n";

struct Recorder {
    dir: tempfile::TempDir,
    child: Child,
}

impl Recorder {
    fn start(config: &str) -> Recorder {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(dir.path().join("config.toml"), config).unwrap();
        let child = Self::command(dir.path()).arg("record").stderr(Stdio::null()).spawn().unwrap();
        while !dir.path().join("dashcam.pid").exists() {
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_secs(1));
        Recorder { dir, child }
    }

    fn command(dir: &Path) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.arg("--dir").arg(dir).arg("--config").arg(dir.join("config.toml"));
        c.arg("--instance").arg(format!("dashcam-test-bench-{}", std::process::id()));
        c
    }

    fn status(&self) -> Value {
        let out = Self::command(self.dir.path()).args(["status", "--json"]).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap()
    }

    /// Events, own CPU in seconds, bytes of all segments: since the recorder began.
    fn numbers(&self) -> (f64, f64, f64) {
        // What was recorded so far gets into the file first.
        sleep(Duration::from_millis(1200));
        let s = self.status();
        let files = fs::read_dir(self.dir.path().join("segments")).unwrap();
        let bytes: u64 = files.map(|f| f.unwrap().metadata().map_or(0, |m| m.len())).sum();
        (s["events"].as_f64().unwrap(), s["own_cpu_ns"].as_f64().unwrap() / 1e9, bytes as f64)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = Self::command(self.dir.path()).arg("stop").output();
        let _ = self.child.wait();
    }
}

/// A load in a process group of its own: `perf bench` forks, and its child would wait for ever for a killed parent.
struct Load(Child);

impl Load {
    fn start(command: &[&str]) -> Load {
        let mut c = Command::new(command[0]);
        Load(c.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap())
    }

    fn ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(self.0.id() as i32), nix::sys::signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// The default configuration under a load for a minute.
fn minute(name: &str, command: &[&str]) {
    let recorder = Recorder::start("");
    let before = recorder.numbers();
    let begin = Instant::now();
    let mut load = Load::start(command);
    while begin.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(200));
        if load.ended() {
            load = Load::start(command);
        }
    }
    drop(load);
    let after = recorder.numbers();
    let status = recorder.status();
    println!(
        "{name} for 60 s, default configuration: {:.2} M events, lost {}, {:.1} % of one CPU, memory {} MiB",
        (after.0 - before.0) / 1e6,
        status["lost"],
        (after.1 - before.1) / begin.elapsed().as_secs_f64() * 100.0,
        status["own_rss"].as_u64().unwrap() >> 20
    );
}

/// CPU that a child used, itself and what it waited for, s.
fn cpu_of(child: Child) -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: the pid is a child of ours that nobody has waited for; both pointers are valid.
    unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn beside_perf(name: &str, load: &[&str], seconds: u64) {
    let recorder = Recorder::start(SCHED_ONLY);
    let before = recorder.numbers();
    let data = recorder.dir.path().join("perf.data");
    let perf = Command::new("perf")
        .args(["record", "-q", "-z", "-a", "-e", "sched:sched_switch,sched:sched_waking", "-o"])
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(500));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        Command::new(load[0]).args(&load[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(perf.id() as i32), nix::sys::signal::Signal::SIGINT).unwrap();
    let perf_cpu = cpu_of(perf);
    let after = recorder.numbers();
    let events = after.0 - before.0;
    let stats = Command::new("perf").args(["report", "--stats", "-i"]).arg(&data).output().unwrap();
    let stats = String::from_utf8_lossy(&stats.stdout).into_owned();
    let samples =
        stats.lines().find_map(|l| l.trim().strip_prefix("SAMPLE events:")?.split_whitespace().next()?.parse().ok());
    let samples: f64 = samples.unwrap_or(events);
    let perf_bytes = fs::metadata(&data).unwrap().len() as f64;
    let status = recorder.status();
    let (ours, theirs) = ((after.1 - before.1) / events * 1e6, perf_cpu / samples * 1e6);
    let (our_bytes, their_bytes) = ((after.2 - before.2) / events, perf_bytes / samples);
    println!("{name}: {:.2} M events here, {:.2} M with perf", events / 1e6, samples / 1e6);
    println!("  CPU per million events   dashcam {ours:.3} s   perf {theirs:.3} s   ratio {:.2}", ours / theirs);
    println!(
        "  bytes per event          dashcam {our_bytes:.2}   perf {their_bytes:.2}   ratio {:.2}",
        our_bytes / their_bytes
    );
    // Where the kernel leaves switches out, a row stands in for each, and costs as much as one.
    println!(
        "  memory {} MiB, lost {}, not traced by the kernel {:.1} % of switches",
        status["own_rss"].as_u64().unwrap() >> 20,
        status["lost"],
        status["untraced_switches"].as_f64().unwrap() / events * 200.0
    );
}

fn idle() {
    let recorder = Recorder::start("");
    sleep(Duration::from_secs(3));
    let before = recorder.numbers();
    let begin = Instant::now();
    sleep(Duration::from_secs(20));
    let after = recorder.numbers();
    let share = (after.1 - before.1) / begin.elapsed().as_secs_f64();
    let rate = (after.0 - before.0) / begin.elapsed().as_secs_f64();
    println!("default configuration, {rate:.0} events/s: {:.2} % of one CPU", share * 100.0);
}

/// The calling thread goes first, what it starts does not: it looks at the clock when something has happened, not when a busy
/// machine lets it.
fn watch_closely() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is a sched_param, alive for the call; 0 is the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const param) };
    assert_eq!(set, 0);
}

fn snapshots(name: &str, load: &[&str]) {
    watch_closely();
    let recorder = Recorder::start("");
    let load = Load::start(load);
    sleep(Duration::from_secs(20));
    let dir = recorder.dir.path();
    let timed = |take: &dyn Fn()| {
        let times: Vec<f64> = (0..10)
            .map(|_| {
                let begin = Instant::now();
                take();
                let took = begin.elapsed().as_secs_f64() * 1e3;
                sleep(Duration::from_millis(1100));
                took
            })
            .collect();
        times
    };
    let command = timed(&|| {
        let out = Recorder::command(dir).args(["snapshot", "--last", "5m"]).output().unwrap();
        assert!(out.status.success());
    });
    let asked = timed(&|| {
        let request = Request::Snapshot { last_ns: None, label: None, why: "command".into() };
        control::ask(&dir.join("control.sock"), &request, Duration::from_secs(60)).unwrap();
    });
    drop(load);
    println!("snapshot of everything so far under {name}, from request to path: {asked:.0?} ms");
    // A process that begins waits for a CPU before it can be in haste.
    println!("  by the command, from its start: {command:.0?} ms; lost {}", recorder.status()["lost"]);
}

fn many_cpus() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let used = || {
        let u = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        seconds(u.user_time()) + seconds(u.system_time())
    };
    let load = support::Load {
        cpus: 64,
        pairs_per_second: 1_000_000 / 64 / 2,
        time: Duration::from_secs(10),
        segment: Duration::from_secs(60),
        refuses_after: None,
    };
    // Making the pages costs CPU too: what one short recording costs above the time is taken off.
    let before = used();
    let none = support::record(dir.path(), support::Load { time: Duration::from_millis(1), ..load });
    let base = used() - before;
    let before = used();
    let made = support::record(dir.path(), load);
    let events = 2.0 * (made.pairs - none.pairs) as f64;
    println!(
        "64 CPUs, 1 M events/s: {:.3} s of CPU per million events (pages made within)",
        (used() - before - base) / events * 1e6
    );
}

fn main() {
    assert!(nix::unistd::geteuid().is_root(), "recording needs root");
    let pipe = ["perf", "bench", "sched", "pipe", "-l", "100000000"];
    let hackbench = ["hackbench", "-g", "8", "-l", "100000000"];
    let parts: [(&str, &dyn Fn()); 9] = [
        ("pipe", &|| beside_perf("sched pipe", &["perf", "bench", "sched", "pipe", "-l", "500000"], 10)),
        ("hackbench", &|| beside_perf("hackbench -g 8", &["hackbench", "-g", "8", "-l", "1000"], 10)),
        ("messaging", &|| {
            beside_perf("sched messaging", &["perf", "bench", "sched", "messaging", "-p", "-t", "-g", "8"], 10);
        }),
        ("minute-hackbench", &|| minute("hackbench -g 8", &hackbench)),
        ("minute-pipe", &|| minute("sched pipe", &pipe)),
        ("idle", &idle),
        ("snapshot-pipe", &|| snapshots("sched pipe", &pipe)),
        ("snapshot-hackbench", &|| snapshots("hackbench -g 8", &hackbench)),
        ("many-cpus", &many_cpus),
    ];
    // `cargo bench --bench capture -- idle pipe`: just these.
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|a| a == name) {
            part();
        }
    }
}
