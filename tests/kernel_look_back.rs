//! From now back into what is on disk, on a real recording: the live screen steps past what it has in memory and comes back
//! to now; `browse` jumps to a time, finds a thread, walks to who woke it, keeps a range, and leaves. Needs root and tracefs;
//! fails, not skips, without them.

#![allow(clippy::unwrap_used)]

mod pty_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use pty_support::{DEADLINE, Session};

/// A live screen has this much in memory when it begins: its window of 5 s and 5 s more.
const IN_MEMORY: Duration = Duration::from_secs(10);

/// A recorder that is stopped at the end, whatever happens.
struct Recorder {
    child: Child,
    dir: PathBuf,
    instance: String,
    config: PathBuf,
}

impl Recorder {
    fn start(dir: &Path) -> Recorder {
        let instance = format!("dashcam-test-{}-back", std::process::id());
        let config = dir.join("config.toml");
        // Segments of 5 s: several of them lie between then and now.
        fs::write(&config, "store.segment = \"5 s\"\nlive.window = \"5 s\"\ncounters.interval = \"0\"\n").unwrap();
        let dir = dir.join("store");
        let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        command.arg("--config").arg(&config).arg("--dir").arg(&dir);
        command.args(["--instance", &instance, "record"]).stdout(Stdio::null()).stderr(Stdio::null());
        let recorder = Recorder { child: command.spawn().unwrap(), dir, instance, config };
        let end = Instant::now() + DEADLINE;
        while !recorder.dir.join("dashcam.pid").exists() {
            assert!(Instant::now() < end, "the recorder does not get ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        recorder
    }

    fn screen(&self, args: &[&str]) -> Session {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dashcam"));
        command.arg("--config");
        command.arg(&self.config);
        command.arg("--dir");
        command.arg(&self.dir);
        command.args(["--instance", &self.instance]);
        command.args(args);
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("HOME", "/nonexistent");
        Session::start(command, 40, 120)
    }

    fn stop(mut self) -> PathBuf {
        nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(
            !Path::new("/sys/kernel/tracing/instances").join(&self.instance).exists(),
            "the instance is left behind"
        );
        self.dir.clone()
    }

    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|s| s.is_none()) {
            let _ = nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

/// Two threads that wake each other for a while, under these names.
fn ping_pong(names: [&str; 2], time: Duration) {
    let (to_b, from_a) = std::sync::mpsc::channel::<()>();
    let (to_a, from_b) = std::sync::mpsc::channel::<()>();
    let b = std::thread::Builder::new()
        .name(names[1].into())
        .spawn(move || while from_a.recv().is_ok() && to_a.send(()).is_ok() {});
    let a = std::thread::Builder::new().name(names[0].into()).spawn(move || {
        let end = Instant::now() + time;
        while Instant::now() < end && to_b.send(()).is_ok() && from_b.recv().is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    a.unwrap().join().unwrap();
    b.unwrap().join().unwrap();
}

#[test]
fn the_past_on_disk_is_reached_from_now_and_browsed() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(dir.path());
    // Names are learnt from switches; those of threads that end at once would be lost with them.
    let began = dashcam::recorder::clock::snapshot().real;
    ping_pong(["zig-ping", "zag-pong"], Duration::from_secs(3));
    // It must be further back than what the screen reads at its start, and lie in segments that are finished.
    std::thread::sleep(IN_MEMORY + Duration::from_secs(7));

    let mut s = recorder.screen(&["live"]);
    s.sees("● REC");
    s.sees("LIVE");
    s.keys("/zig-ping\r");
    s.sees("no thread matches the filter");
    s.keys(" ");
    s.sees("PAUSED");
    // One window back after the other, into the segments of that time.
    let end = Instant::now() + DEADLINE;
    // A row of the table, not the rule that names the filter.
    let listed = |text: &str| text.lines().any(|l| l.contains("zig-ping") && !l.contains("filter"));
    while !listed(&s.text()) {
        assert!(Instant::now() < end, "never came to the past; the screen is:\n{}", s.text());
        s.keys("[");
        std::thread::sleep(Duration::from_millis(700));
    }
    assert!(s.text().contains("PAST"), "{}", s.text());
    s.keys("L");
    s.sees("LIVE");
    s.sees("no thread matches the filter");
    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();

    let at = clock_text(began + 1_500_000_000);
    look_back(&recorder, &at);
    let store = recorder.stop();
    let kept: Vec<PathBuf> = fs::read_dir(store.join("snapshots")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let verified = Command::new(env!("CARGO_BIN_EXE_dashcam")).arg("verify").arg(&kept[0]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    // The range that was kept holds the threads it was kept for.
    let query = ["query", "--format", "csv", "SELECT DISTINCT name FROM thread WHERE name GLOB 'z?g-p*' ORDER BY name"];
    let names = Command::new(env!("CARGO_BIN_EXE_dashcam")).args(query).arg(&kept[0]).output().unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    assert!(names.contains("zig-ping") && names.contains("zag-pong"), "{names}");
}

/// UTC, as the grammar of times takes it.
fn clock_text(real: u64) -> String {
    let zone = dashcam::time::Zone::UTC;
    format!(
        "{}T{}Z",
        dashcam::time::day(real, &zone),
        dashcam::time::clock(real, &zone, dashcam::time::Digits::Seconds)
    )
}

/// Jumps to the time, finds the thread, walks to its waker, keeps a range, leaves.
fn look_back(recorder: &Recorder, at: &str) {
    let mut s = recorder.screen(&["browse"]);
    s.sees("Segments");
    s.keys(&format!("g{at}\r"));
    s.keys("\x1bOQ");
    s.keys(&format!("g{at}\r"));
    s.wait("the time", |screen| screen.contents().contains("PAST"));
    s.keys("/zig-ping\r");
    s.sees("zig-ping [");
    // A slice of zig-ping that somebody woke it for: the first may be the one in which it began.
    let end = Instant::now() + DEADLINE;
    while !s.text().contains("woken by zag-pong") {
        assert!(Instant::now() < end, "never came to a wait that zag-pong ended:\n{}", s.text());
        s.keys("n");
        std::thread::sleep(Duration::from_millis(300));
    }
    s.keys("W");
    s.wait("the waker", |screen| {
        screen
            .contents()
            .lines()
            .any(|l| l.starts_with("─ zag-pong [") || l.contains("CPU") && l.contains("ran zag-pong"))
    });
    s.keys("v");
    s.keys("]");
    s.keys("Kbad minute\r");
    s.sees("kept /");
    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();
}
