//! What a recorder is asked, by command and by signal; and who may not ask.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::recorder::clock::boot_now;

use crate::bed::{Bed, Killed, alone};
use crate::kernel_says::KernelText;
use crate::known::Life;
use crate::load_support::spin;
use crate::seen::{Seen, load, so_far};

#[test]
fn a_snapshot_under_load_disturbs_nothing() {
    let _alone = alone();
    let bed = Bed::new("snapshot");
    let recorder = bed.start();
    let end = Instant::now() + Duration::from_secs(60);
    // Names are read beside the capture path, when there is time.
    while so_far(&[bed.path().to_owned()]).map_or(0, |(seen, _)| seen.processes.len()) <= 5 {
        assert!(Instant::now() < end, "there are no names");
        thread::sleep(Duration::from_millis(100));
    }
    let text = KernelText::start(&[]);
    let life = Life::start(|| {
        for _ in 0..300 {
            spin(Duration::from_micros(500));
            thread::sleep(Duration::from_millis(5));
        }
    });
    let load = Killed::pipe(&[]);
    // The load runs once much is recorded; then its window fills.
    let begun = |events: u64| bed.status()["events"].as_u64().unwrap() > events;
    let end = Instant::now() + Duration::from_secs(60);
    while !begun(20_000) {
        assert!(Instant::now() < end, "there is no load");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(800));
    let before = boot_now();
    let path = PathBuf::from(bed.ok(&["snapshot", "--last", "1500ms", "--label", "p99 über\u{1b}/../x"]).trim());
    let (tid, kernel) = life.lived();
    drop(load);
    let traced = text.stop();
    recorder.stop();
    let seen = bed.load();
    assert_eq!((seen.losses.len(), seen.gaps), (0, 0));
    let did = seen.threads[&tid];
    assert_eq!((did.voluntary, did.involuntary), traced[&tid], "not a switch is missing around it");
    // Some kernels leave switches out of any trace, so that they count more.
    assert!(did.voluntary <= kernel.voluntary && did.involuntary <= kernel.involuntary, "{did:?} {kernel:?}");
    assert_eq!(path.parent().unwrap(), bed.path().join("snapshots"));
    let kept = load_snapshot(&path, before);
    // The 1,500 ms end when the recorder hears of it, which is later by what starting a process takes here.
    let from = kept.switches.iter().map(|s| s.1).min().unwrap();
    assert!(from < before - 100_000_000, "it reaches back {} ms", before.saturating_sub(from) / 1_000_000);
    let of_then = |seen: &Seen| seen.switches.iter().filter(|s| s.1 >= from && s.1 < before).count();
    assert_eq!(of_then(&kept), of_then(&seen), "the snapshot holds all of its window");
    assert!(of_then(&kept) > 100);
    assert!(kept.processes.len() > 5, "it has names of its own");
}

fn load_snapshot(path: &Path, before: u64) -> Seen {
    let kept = load(&[path.to_owned()]);
    assert!(kept.through >= before, "everything up to the request is in it");
    kept
}

#[test]
fn case_71_fifty_requests_around_a_rotation_share_two_snapshots() {
    let bed = Bed::new("burst");
    let recorder = bed.start();
    thread::sleep(Duration::from_millis(600));
    let began = Instant::now();
    let callers: Vec<_> = (0..50)
        .map(|i| {
            if i == 25 {
                bed.ok(&["rotate"]);
            }
            bed.command().args(["snapshot", "--last", "1s"]).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut paths: Vec<String> = Vec::new();
    let mut asking = Duration::ZERO;
    for caller in callers {
        let out = caller.wait_with_output().unwrap();
        assert!(out.status.success());
        paths.push(String::from_utf8(out.stdout).unwrap().trim().to_owned());
        asking = began.elapsed();
    }
    assert_eq!(paths.len(), 50);
    paths.sort();
    paths.dedup();
    // One at once and one for all who come while the recorder rests, a second; where starting fifty callers takes longer,
    // one more for each further second.
    let most = 2 + usize::try_from(asking.as_secs()).unwrap();
    assert!((1..=most).contains(&paths.len()), "{asking:?}: {paths:?}");
    assert_eq!(bed.snapshots().len(), paths.len());
    assert!(paths.iter().all(|p| load(&[p.into()]).switches.len() > 10));
    recorder.stop();
    assert_eq!(bed.load().gaps, 0);
}

#[test]
fn case_79_a_second_recorder_is_refused_and_names_the_first() {
    let bed = Bed::new("second");
    let recorder = bed.start();
    let out = bed.run(&["record", "--for", "1s"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains(&format!("pid {}", recorder.pid())) && said.contains("--dir"), "{said}");
    // The same instance from another store, too.
    let other = tempfile::tempdir().unwrap();
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = c.arg("--dir").arg(other.path()).args(["--instance", &bed.instance, "record", "--for", "1s"]).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains(&recorder.pid().to_string()), "{said}");
    // Another store and another instance work beside it.
    let beside = Bed::new("beside");
    beside.start().stop();
    recorder.stop();
}

#[test]
fn signals_ask_and_never_kill() {
    use nix::sys::signal::Signal;
    let bed = Bed::new("signals");
    let config = bed.path().join("config.toml");
    // A whole hour, so that no minute ends meanwhile; an hour may.
    let hour = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 3600;
    let first_hour = hour();
    fs::write(&config, "[snapshot]\nlast = \"1s\"\n[store]\nsegment = \"1 h\"\n").unwrap();
    let mut recorder = bed.start_with(&["--config", config.to_str().unwrap()]);
    thread::sleep(Duration::from_millis(600));
    recorder.signal(Signal::SIGUSR1);
    recorder.signal(Signal::SIGUSR2);
    // What can take effect at once does, what cannot is named.
    let changed = "[snapshot]\nlast = \"2s\"\n[store]\nsegment = \"30 m\"\nkeep_bytes = \"1 GiB\"\n\
        [capture]\nblocked = \"off\"\n[log]\nlevel = \"warn\"\n[control]\nmode = \"0600\"\n";
    fs::write(&config, changed).unwrap();
    recorder.signal(Signal::SIGHUP);
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let end = Instant::now() + Duration::from_secs(30);
        while !done(&bed.status()) {
            assert!(Instant::now() < end, "{what}: {}", bed.status());
            thread::sleep(Duration::from_millis(20));
        }
    };
    until("keep_bytes", &|s| s["kept"]["max_bytes"] == 1u64 << 30);
    let waiting = "in effect at the next start: log.level, store.segment, capture.blocked";
    until("what waits", &|s| s["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().ends_with(waiting)));
    let mode = fs::metadata(bed.path().join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    until("the snapshot", &|s| s["snapshots"] == 1);
    assert_eq!(bed.snapshots().len(), 1);
    fs::write(&config, "[snapshot]\nlats = \"2s\"\n").unwrap();
    recorder.signal(Signal::SIGHUP);
    until("the mistake", &|s| s["warnings"].to_string().contains("lats"));
    assert!(recorder.child.try_wait().unwrap().is_none(), "a mistake in the configuration does not end it");
    bed.ok(&["mark", "step 812"]);
    bed.ok(&["stop"]);
    assert!(!bed.instance_dir().exists(), "stop returns when everything is as before");
    assert!(recorder.child.wait().unwrap().success());
    let said = recorder.stderr();
    assert!(said.contains("last") && said.contains("lats"), "the mistake is told: {said}");
    assert!(said.contains(waiting), "{said}");
    let seen = bed.load();
    let mark = format!("I|{}|step 812", recorder.pid());
    assert!(seen.marks.contains(&mark), "{:?}", seen.marks);
    let segments = fs::read_dir(bed.path().join("segments")).unwrap().count();
    let most = 2 + usize::try_from(hour() - first_hour).unwrap();
    assert!((2..=most).contains(&segments), "USR2 cut one in two: {segments}");
    assert_eq!(seen.gaps, 0);
}

#[test]
fn case_80_usr1_from_the_first_instant_on_never_kills() {
    // The earliest a program can take a signal over is when its loader is done: from then on USR1 is harmless.
    let caught = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).map(|m| m.trim().to_owned());
        mask.and_then(|m| u64::from_str_radix(&m, 16).ok()).is_some_and(|m| m & (1 << (libc::SIGUSR1 - 1)) != 0)
    };
    let mut hit = 0;
    for round in 0..500u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dashcam"))
            .args(["completions", "bash"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !caught(child.id()) && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis([0, 1, 5, 20][round as usize % 4]) / 4);
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        hit += usize::from(nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).is_ok());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "round {round}: {status}");
    }
    assert!(hit > 100, "most of them were still alive: {hit}");
}

#[test]
fn trace_writes_one_file_that_anybody_reads() {
    let bed = Bed::new("trace");
    let out = bed.path().join("out.pftrace");
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let run = c.args(["trace", "-t", "700ms", "-o"]).arg(&out).args(["sched", "idle"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let seen = load(std::slice::from_ref(&out));
    assert!(seen.switches.len() > 10);
    assert_eq!(fs::read(&out).unwrap()[0], 0x0a, "plain packets, as the name says");
    let left: Vec<_> = fs::read_dir(bed.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["out.pftrace"]);
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let wrong = c.args(["trace", "-t", "1s", "-o"]).arg(&out).arg("shed").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
