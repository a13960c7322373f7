//! Recording without ftrace, through the command line, as a user without any rights: on any Linux. Run by root, the tests
//! become that user themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::recorder::clock::boot_now;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;

/// The user that owns nothing, on every Linux.
const NOBODY: u32 = 65_534;
const DEADLINE: Duration = Duration::from_secs(60);

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A home of its own, and a copy of the program where that user can reach it.
struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Bed {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a file this one has open for writing stays so in whatever child another test forks meanwhile,
        // and cannot be run (ETXTBSY).
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_dashcam")).arg(dir.path().join("dashcam")).status();
        assert!(copied.unwrap().success());
        for name in ["home", "run"] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Bed { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("home/.local/state/dashcam")
    }

    fn env(&self) -> [(&'static str, PathBuf); 2] {
        [("HOME", self.path("home")), ("XDG_RUNTIME_DIR", self.path("run"))]
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(self.path("dashcam"));
        c.env_clear().envs(self.env()).env("PATH", "/usr/bin:/bin").current_dir("/").args(args);
        if is_root() {
            c.uid(NOBODY).gid(NOBODY);
        }
        c
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn rows(&self, sql: &str) -> Vec<Value> {
        self.rows_of(&self.store(), sql)
    }

    fn rows_of(&self, path: &Path, sql: &str) -> Vec<Value> {
        let lines = self.ok(&["query", "--format", "json", sql, path.to_str().unwrap()]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(&self, args: &[&str]) -> Running {
        let mut command = self.command(&["record"]);
        let child = command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running(child);
        let end = Instant::now() + DEADLINE;
        while !self.path("run/dashcam/dashcam.pid").exists() {
            if let Some(status) = running.0.try_wait().unwrap() {
                panic!("the recorder ended: {status} {}", running.said());
            }
            assert!(Instant::now() < end, "the recorder does not get ready");
            thread::sleep(Duration::from_millis(5));
        }
        running
    }
}

struct Running(Child);

impl Running {
    fn said(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits for its end; gives what it said.
    fn ended(&mut self) -> String {
        let said = self.said();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that spins.
fn spinner() -> Running {
    Running(Command::new("/bin/sh").args(["-c", "while :; do :; done"]).stderr(Stdio::piped()).spawn().unwrap())
}

/// Run and wait sums of a process, ns, as the kernel counts them.
fn schedstat(pid: u32) -> [u64; 2] {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let mut words = text.split_whitespace().map(|w| w.parse().unwrap());
    [words.next().unwrap(), words.next().unwrap()]
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_user_without_rights_records_and_the_shares_are_the_kernels_own() {
    let (bed, spinner) = (Bed::new(), spinner());
    let pid = spinner.0.id();
    let mut recorder = bed.record(&[]);
    // On a busy machine it takes seconds to get ready; then the first looks find everybody.
    let end = Instant::now() + DEADLINE;
    while bed.run(&["status"]).status.code() != Some(0) {
        assert!(Instant::now() < end, "the recorder does not get ready");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(500));
    // Several stretches: a machine that stands still for a moment keeps the sampler from looking, and what it did not see
    // it does not claim.
    let stretches: Vec<_> = (0..5)
        .map(|_| {
            let (from, before) = (boot_now(), schedstat(pid));
            thread::sleep(Duration::from_millis(1600));
            (from, boot_now(), (schedstat(pid)[0] - before[0]) as f64)
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(bed.run(&["stop"]).status.code(), Some(0));
    let said = recorder.ended();
    assert!(said.contains("sampling /proc at 20 Hz instead of tracing: "), "{said}");

    let mut off: Vec<f64> = Vec::new();
    for (from, to, kernel) in stretches {
        // A stretch that was not over when the recording ended has the length −1; a spinner's last one can be seconds.
        let ran = format!(
            "select sum(min(ended, {to}) - max(ts, {from})) as ran from
             (select ts, iif(dur < 0, {to}, ts + dur) as ended, utid from sched) join thread using (utid)
             where tid = {pid} and ts < {to} and ended > {from}"
        );
        let ran = bed.rows(&ran)[0]["ran"].as_f64().unwrap_or(0.0);
        let span = (to - from) as f64;
        assert!(kernel / span > 0.01, "it ran");
        off.push((ran - kernel) / span);
    }
    off.sort_by(f64::total_cmp);
    assert!(off[2].abs() < 0.04, "off by these shares of the time: {off:.4?}; {said}");
    assert!(off[4] < 0.08, "never more than the kernel says: {off:.4?}");
    // Names, and what cannot be known.
    let who = bed.rows(&format!(
        "select thread.name as t, process.cmdline as c from thread join process using (upid) where tid = {pid}"
    ));
    assert_eq!((who[0]["t"].as_str(), who[0]["c"].as_str().map(|c| c.contains("while"))), (Some("sh"), Some(true)));
    let made_up = "select count(*) as n from thread_state where waker_utid is not null or state = 'R+'";
    assert_eq!(bed.rows(made_up)[0]["n"], 0);
    assert!(bed.ok(&["report", "latency"]).contains("not known: the data was sampled"));
    let verified = bed.ok(&["verify"]);
    assert!(verified.lines().count() >= 1 && verified.lines().all(|l| l.contains(": whole;")), "{verified}");
    let listed: Value = serde_json::from_str(bed.ok(&["segments", "--json"]).lines().next().unwrap()).unwrap();
    assert!(listed.to_string().contains("\"sampled_hz\":"), "{listed}");
}

#[test]
fn status_marks_rotation_snapshots_and_signals_work_as_with_ftrace() {
    let bed = Bed::new();
    let mut recorder = bed.record(&[]);
    let status: Value = serde_json::from_str(&bed.ok(&["status", "--json"])).unwrap();
    let hz = status["sampled_hz"].as_u64().unwrap();
    assert_eq!(
        (status["source"].as_str(), status["instance"].as_str()),
        (Some(&*format!("proc, sampled {hz} Hz")), Some(""))
    );
    let warning = status["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with(&format!("sampled {hz} Hz: ")), "{warning}");
    thread::sleep(Duration::from_secs(1));
    bed.ok(&["mark", "step 7"]);
    let segments = || files(&bed.store().join("segments")).len();
    let before = segments();
    bed.ok(&["rotate"]);
    assert!(segments() > before, "one more, or two if a minute ended meanwhile");
    bed.ok(&["mark", "step 8"]);
    thread::sleep(Duration::from_secs(1));
    let path = bed.ok(&["snapshot", "--label", "why"]);
    assert!(bed.ok(&["verify", path.trim()]).contains(": whole;"));
    let pid = i32::try_from(recorder.0.id()).unwrap();
    // SAFETY: kill has no memory effects; the process is our own child, not yet waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    recorder.ended();
    let marks = bed.rows("select name from slice order by ts");
    let marks: Vec<&str> = marks.iter().filter_map(|m| m["name"].as_str()).collect();
    assert_eq!(marks, ["step 7", "step 8"]);
    for path in ["home/.local/state/dashcam", "run/dashcam"] {
        assert!(!bed.path(path).join("dashcam.pid").exists());
    }
    assert!(files(&bed.store().join("segments")).iter().all(|f| !f.ends_with(".part")));
}

#[test]
fn a_snapshot_that_cannot_be_delivered_is_not_taken_or_is_named() {
    let bed = Bed::new();
    let _recorder = bed.record(&[]);
    let snapshots = || files(&bed.store().join("snapshots"));
    let home = bed.path("home");
    let refused = |output: &str, why: &str| {
        let out = bed.run(&["snapshot", "--last", "1s", "-o", output]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(1) && said.contains(why), "{output}: {said}");
        said
    };
    refused("/nonexistent/x", "cannot write /nonexistent/x: there is no folder /nonexistent; make it, or name another");
    refused("/x.pftrace.zst", "cannot write /x.pftrace.zst: its folder takes no files from you");
    refused(home.to_str().unwrap(), "is a folder: name a file in it");
    assert_eq!(snapshots(), [""; 0], "none was asked for");
    // What fails only while it is copied is kept, and named.
    let said = refused("/dev/full", "but cannot be copied to /dev/full: ");
    let kept = snapshots();
    let path = bed.store().join("snapshots").join(&kept[0]);
    assert!(
        kept.len() == 1 && said.contains(&format!("the snapshot is kept as {}, ", path.display())),
        "{said} {kept:?}"
    );
    let output = home.join("x.pftrace.zst");
    let told = bed.ok(&["snapshot", "--last", "1s", "--label", " p99. ", "-o", output.to_str().unwrap()]);
    assert_eq!((told.trim(), snapshots()), (output.to_str().unwrap(), kept), "moved, not copied");
    let label = bed.rows_of(&output, "select label from snapshot");
    assert_eq!(label[0]["label"], "p99.");
    let path = bed.ok(&["snapshot", "--last", "1s", "--label", " p99. "]);
    assert!(path.trim().ends_with("-p99.pftrace.zst"), "{path}");
    // What grows meanwhile is whole.
    let verified = bed.ok(&["verify"]);
    assert!(verified.lines().any(|l| l.contains(": whole; ") && l.ends_with("; still growing")), "{verified}");
}

#[test]
fn a_store_that_is_closed_to_this_user_is_told_with_who_may_and_the_mend() {
    let bed = Bed::new();
    let closed = bed.path("closed");
    fs::create_dir_all(closed.join("segments")).unwrap();
    let segment = closed.join("segments/20261130T115500Z-000042.pftrace.zst");
    fs::write(&segment, b"frames").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let who = format!(": permission denied: {} is for ", closed.display());
    for path in [&closed, &segment] {
        let path = path.to_str().unwrap();
        for args in [
            &["segments", path][..],
            &["verify", path],
            &["query", "SELECT count(*) FROM sched", path],
            &["report", "cpu", path],
            &["export", "--format", "text", path],
            &["browse", path],
        ] {
            let out = bed.run(args);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            let mend = said.trim_end().ends_with(" alone: use sudo, or have it given to a group of yours");
            assert!(out.status.code() == Some(1) && said.contains(&who) && mend, "{args:?}: {said}");
        }
    }
    let out = bed.run(&["--dir", closed.to_str().unwrap(), "status"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let mend = "is not open to this user: use sudo, or have it opened to a group of yours (control.group)";
    assert!(out.status.code() == Some(1) && said.contains(mend), "{said}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn insisting_on_ftrace_says_why_not_and_how_to_get_it() {
    let bed = Bed::new();
    let out = bed.run(&["record", "--source", "ftrace", "--for", "1s"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.lines().filter(|l| l.starts_with("dashcam: ")).count() == 1, "{said}");
    let out = bed.run(&["record", "--source", "perf"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("use auto, ftrace or proc"));
}

#[test]
fn the_first_command_shows_a_live_screen_with_its_banner() {
    let bed = Bed::new();
    let pty = native_pty_system().openpty(PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 }).unwrap();
    // A terminal's program cannot be told another user: a command that changes it is between.
    let mut command = if is_root() {
        let mut c = CommandBuilder::new("setpriv");
        c.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        c.arg(bed.path("dashcam"));
        c
    } else {
        CommandBuilder::new(bed.path("dashcam"))
    };
    command.env_clear();
    command.env("PATH", "/usr/bin:/bin");
    command.env("TERM", "xterm-256color");
    command.env("LC_ALL", "C.UTF-8");
    bed.env().into_iter().for_each(|(key, value)| command.env(key, value));
    command.cwd("/");
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let screen = Arc::new(Mutex::new(vt100::Parser::new(40, 120, 0)));
    let (mut reader, parser) = (pty.master.try_clone_reader().unwrap(), screen.clone());
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = reader.read(&mut bytes) {
            parser.lock().unwrap().process(&bytes[..n]);
        }
    });
    let sees = |what: &[&str]| {
        let end = Instant::now() + DEADLINE;
        loop {
            let text = screen.lock().unwrap().screen().contents();
            if what.iter().all(|w| text.contains(w)) {
                return;
            }
            assert!(Instant::now() < end, "never saw {what:?}:\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    sees(&["● SAMPLE", "! sampled ", " Hz: ", "states/s", "dashcam · dc-sampler"]);
    let mut writer = pty.master.take_writer().unwrap();
    writer.write_all(b"s").unwrap();
    sees(&["kept ", "-key.pftrace.zst"]);
    writer.write_all(b"q").unwrap();
    let end = Instant::now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(bed.ok(&["verify"]).lines().all(|l| l.contains(": whole;")));
}
