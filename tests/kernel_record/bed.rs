//! A recorder under test, and loads beside it.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ROOT;
use crate::seen::{Seen, load};

/// Held by tests that make much load, or that much load of others would make long.
static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    // A test that failed while it held it is over all the same.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store in a folder of its own, recorded through an instance of its own.
pub struct Bed {
    dir: tempfile::TempDir,
    pub instance: String,
}

impl Bed {
    pub fn new(name: &str) -> Bed {
        assert!(Path::new(ROOT).join("instances").is_dir(), "these tests need root and tracefs at {ROOT}");
        let instance = format!("dashcam-test-{}-{name}", std::process::id());
        Bed { dir: tempfile::tempdir().unwrap(), instance }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn command(&self) -> Command {
        self.told(Command::new(env!("CARGO_BIN_EXE_dashcam")))
    }

    fn told(&self, mut c: Command) -> Command {
        c.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_DIR").env_remove("DASHCAM_LOG");
        c.arg("--dir").arg(self.path()).arg("--instance").arg(&self.instance);
        c
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn start(&self) -> Running {
        self.start_with(&[])
    }

    pub fn start_with(&self, args: &[&str]) -> Running {
        self.started(self.command().arg("record").args(args))
    }

    /// Starts it ahead of what else this machine does. Only for the one claim that is about a second of time: on a machine
    /// that does not let the recorder run for a second, nobody writes what that second was.
    pub fn start_ahead(&self) -> Running {
        let mut c = Command::new("nice");
        c.args(["-n", "-15", env!("CARGO_BIN_EXE_dashcam")]);
        self.started(self.told(c).arg("record"))
    }

    fn started(&self, command: &mut Command) -> Running {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running { child };
        let end = Instant::now() + Duration::from_secs(60);
        while !self.path().join("dashcam.pid").exists() {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("the recorder ended: {status} {}", running.stderr());
            }
            assert!(Instant::now() < end, "the recorder does not get ready");
            thread::sleep(Duration::from_millis(5));
        }
        running
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["status", "--json"])).unwrap()
    }

    pub fn instance_dir(&self) -> PathBuf {
        Path::new(ROOT).join("instances").join(&self.instance)
    }

    pub fn load(&self) -> Seen {
        load(&[self.path().to_owned()])
    }

    pub fn snapshots(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.path().join("snapshots")).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Only there when a test failed half-way.
        let _ = fs::remove_dir(self.instance_dir());
    }
}

pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// TERM, and what it had said.
    pub fn stop(mut self) -> String {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        let said = self.stderr();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

/// A load in a process group of its own, that ends with its owner.
pub struct Killed(Child);

impl Killed {
    /// Two processes that wake each other through pipes, started by the command `before`.
    pub fn pipe(before: &[&str]) -> Killed {
        let words = [before, &["perf", "bench", "sched", "pipe", "-l", "1000000000"]].concat();
        let mut command = Command::new(words[0]);
        Killed(command.args(&words[1..]).stdout(Stdio::null()).process_group(0).spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|s| s.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
