//! The live screen on the real kernel under a known load: what it shows is what the kernel says, a key keeps a snapshot that
//! verifies, and nothing is left behind. Needs root; fails, not skips, without tracefs.

#![allow(clippy::unwrap_used)]

mod pty_support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use portable_pty::CommandBuilder;
use pty_support::Session;

const CPU: usize = 0;

/// A thread of this process that spins on one CPU.
struct Busy {
    stop: Arc<AtomicBool>,
    tid: i32,
}

impl Busy {
    fn start() -> Busy {
        let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let (theirs, told) = (Arc::clone(&stop), Arc::clone(&tid));
        std::thread::Builder::new()
            .name("dc-busy".into())
            .spawn(move || {
                let mut cpus = CpuSet::new();
                cpus.set(CPU).unwrap();
                sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
                told.store(nix::unistd::gettid().as_raw(), Ordering::SeqCst);
                while !theirs.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        while tid.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        Busy { stop, tid: tid.load(Ordering::SeqCst) }
    }

    /// Time it has run, ns: the first field of schedstat.
    fn ran(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.tid)).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// RUN % in the row of a thread: the first figure with a point.
fn run_percent(screen: &str, tid: i32) -> Option<f64> {
    let tid = tid.to_string();
    let row = screen.lines().find(|l| l.split_whitespace().next() == Some(&tid))?;
    row.split_whitespace().filter(|t| t.contains('.')).find_map(|t| t.parse().ok())
}

#[test]
fn the_busy_thread_its_cpu_and_its_share_are_on_screen_and_right() {
    let dir = tempfile::tempdir().unwrap();
    let instance = format!("dashcam-test-{}-live", std::process::id());
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dashcam"));
    command.arg("--dir");
    command.arg(dir.path());
    command.args(["--instance", &instance, "live"]);
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.env("HOME", "/nonexistent");
    let mut s = Session::start(command, 40, 120);
    let busy = Busy::start();
    s.sees("● REC");
    s.keys("/dc-busy\r");
    s.wait("the busy thread's row", |screen| run_percent(&screen.contents(), busy.tid).is_some());

    // The screen is a little behind, and what else the machine does may begin or end meanwhile; then the next ten seconds,
    // the length of the window, tell.
    std::thread::sleep(Duration::from_secs(2));
    let mut told = Vec::new();
    let agree = (0..6).any(|_| {
        let (begin, ran) = (std::time::Instant::now(), busy.ran());
        std::thread::sleep(Duration::from_secs(10));
        let shown = s.text();
        let real = (busy.ran() - ran) as f64 * 100.0 / begin.elapsed().as_nanos() as f64;
        let shown = run_percent(&shown, busy.tid);
        told.push((shown, real));
        shown.is_some_and(|shown| (shown - real).abs() < 10.0)
    });
    assert!(agree, "% on screen, and by the kernel's own account: {told:?}\n{}", s.text());

    s.keys("\r");
    s.sees(&format!("CPU {CPU}"));
    s.sees("run-queue latency");
    s.keys("\x1b");
    s.sees("Threads");
    s.keys("s");
    s.sees("kept /");
    let text = s.text();
    let path = text.lines().find_map(|l| l.trim().strip_prefix("kept ")).unwrap().trim().to_string();
    let verified = Command::new(env!("CARGO_BIN_EXE_dashcam")).args(["verify", &path]).output().unwrap();
    assert!(verified.status.success(), "{path}: {}", String::from_utf8_lossy(&verified.stderr));

    // A mark that somebody else sets is listed long before the segment that has it ends.
    let mut mark = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    mark.arg("--dir").arg(dir.path()).args(["--instance", &instance, "mark", "set by another"]);
    assert!(mark.status().unwrap().success());
    s.keys("\x1bOS");
    s.wait("the mark in the list", |screen| {
        let text = screen.contents();
        let marks = text.split("Snapshots and marks").nth(1);
        marks.is_some_and(|marks| marks.contains("set by another") && marks.contains("1 mark"))
    });

    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();
    assert!(!Path::new("/sys/kernel/tracing/instances").join(&instance).exists(), "the instance is left behind");
}
