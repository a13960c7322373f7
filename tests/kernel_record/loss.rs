//! What is lost is told: events of a full ring buffer, the last second before a SIGKILL, what a full disk did not take.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::feed;
use dashcam::recorder::clock::boot_now;
use dashcam::sched::event::ThreadNow;
use dashcam::sched::fold::{Folding, Interval, Sink};
use dashcam::store::Store;
use dashcam::store::reader::read_footer;
use dashcam::store::verify::verify;

use crate::bed::{Bed, Killed, Running, alone};
use crate::seen::{Seen, load};
use crate::{ROOT, S};

/// Runs of threads on CPUs.
#[derive(Default)]
struct Runs(Vec<(u32, u64, u64)>);

impl Sink for Runs {
    fn interval(&mut self, i: &Interval) {
        if let (ThreadNow::Running, Some(cpu), Some(end)) = (i.state, i.cpu, i.end) {
            self.0.push((cpu, i.start, end));
        }
    }
}

#[test]
fn loss_is_counted_and_shown_everywhere() {
    let _alone = alone();
    let bed = Bed::new("loss");
    let config = bed.path().join("config.toml");
    // A whole hour, so that the loss is in one segment unless an hour ends.
    fs::write(&config, "[capture]\nbuffer_total = \"1 MiB\"\n[store]\nsegment = \"1 h\"\n").unwrap();
    let recorder = bed.start_with(&["--config", config.to_str().unwrap()]);
    // Two loads, so that more than one CPU loses something where there is more than one.
    let online = thread::available_parallelism().unwrap().get();
    let pinned = |cpu: usize| Killed::pipe(&["taskset", "-c", &cpu.to_string()]);
    let mut loads: Vec<_> = BTreeSet::from([0, online - 1]).into_iter().map(pinned).collect();
    thread::sleep(Duration::from_millis(600));
    recorder.signal(nix::sys::signal::Signal::SIGSTOP);
    thread::sleep(Duration::from_secs(3));
    recorder.signal(nix::sys::signal::Signal::SIGCONT);
    loads.clear();
    // Counters of the last cycle are in the status once the events behind them are.
    let quiet = Instant::now() + Duration::from_secs(30);
    let counts = |status: &serde_json::Value| -> BTreeMap<u64, u64> {
        let cpus = status["lost"].as_array().unwrap().iter();
        cpus.map(|l| (l["cpu"].as_u64().unwrap(), l["count"].as_u64().unwrap())).collect()
    };
    let status = loop {
        let status = bed.status();
        if counts(&status).values().sum::<u64>() > 1000 {
            break status;
        }
        assert!(Instant::now() < quiet, "no loss is told: {status}");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(bed.ok(&["status"]).contains("LOST"));
    recorder.stop();
    let seen = bed.load();
    let mut told: BTreeMap<u64, u64> = BTreeMap::new();
    for loss in &seen.losses {
        assert!(loss.from <= loss.to, "{loss:?}");
        *told.entry(loss.cpu.into()).or_default() += loss.count.unwrap_or(0);
    }
    for (cpu, count) in counts(&status) {
        assert!(told[&cpu] >= count, "CPU {cpu}: {} in the segment, {count} in the status before", told[&cpu]);
    }
    // The same sum in every place that tells one.
    let all: u64 = told.values().sum();
    let sum = |text: &str, kind: Option<&str>| -> u64 {
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let wanted = lines.filter(|l| kind.is_none_or(|k| l["kind"] == k));
        wanted.map(|l| l["lost"].as_u64().unwrap_or_else(|| panic!("{l}"))).sum()
    };
    assert_eq!(sum(&bed.ok(&["segments", "--json"]), Some("segment")), all);
    assert_eq!(sum(&bed.ok(&["verify", "--json"]), None), all);
    // Nothing is said to have run through a loss.
    let mut runs = Folding::new(Runs::default());
    feed::load(&[bed.path().to_owned()], None, &mut runs, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(runs.sink.0.len() > 1000);
    for loss in seen.losses.iter().filter(|l| l.from < l.to) {
        let through = runs.sink.0.iter().find(|r| r.0 == loss.cpu && r.1 < loss.from && r.2 > loss.to);
        assert_eq!(through, None, "through {loss:?}");
    }
}

/// Controls of the top level, and the instances there are.
fn tracefs_now() -> (BTreeMap<String, String>, Vec<String>) {
    let files = ["tracing_on", "trace_clock", "buffer_size_kb", "trace_options", "set_event", "current_tracer"];
    let read = |f: &&str| (f.to_string(), fs::read_to_string(Path::new(ROOT).join(f)).unwrap());
    let instances = fs::read_dir(Path::new(ROOT).join("instances")).unwrap();
    let names = instances.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    // Other tests run beside this one.
    let mut foreign: Vec<String> = names.filter(|n| !n.starts_with("dashcam")).collect();
    foreign.sort();
    (files.iter().map(read).collect(), foreign)
}

#[test]
fn case_65_82_killed_fifty_times_it_loses_at_most_a_second_and_cleans_up() {
    let _alone = alone();
    let bed = Bed::new("kill");
    let store = Store::create(bed.path()).unwrap();
    let before = tracefs_now();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    for round in 0..50 {
        let mut recorder = bed.start_ahead();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let lived = Duration::from_millis(if round % 10 == 0 { 1500 } else { seed % 400 });
        thread::sleep(lived);
        recorder.child.kill().unwrap();
        let killed = boot_now();
        recorder.child.wait().unwrap();
        fs::remove_file(bed.path().join("dashcam.pid")).unwrap();
        // The start before finished what was left then, beside the recording if that took long; what is left now opens, too.
        let mut files = store.segments().unwrap();
        let last = files.pop().filter(|f| f.name.part);
        for file in files.iter().filter(|f| !f.name.part) {
            assert!(read_footer(&file.path).unwrap().is_some(), "{file:?}");
        }
        let mut seen = Seen::default();
        // Without: killed before the head of a segment was out.
        if let Some(last) = last {
            match feed::load(&[last.path], None, &mut seen, &mut |_| ControlFlow::Continue(())) {
                Ok(loaded) => assert!(loaded.damage.len() <= 1, "only the end of the file: {:?}", loaded.damage),
                Err(e) => assert!(lived < Duration::from_secs(1), "{e}"),
            }
        }
        if lived > Duration::from_secs(1) {
            assert!(seen.through + S >= killed, "{} ns are missing", killed - seen.through);
        }
        assert!(bed.instance_dir().exists(), "SIGKILL leaves the instance behind");
    }
    let last = bed.start();
    let end = Instant::now() + Duration::from_secs(120);
    while store.segments().unwrap().iter().filter(|f| f.name.part).count() > 1 {
        assert!(Instant::now() < end, "left-overs are not finished");
        thread::sleep(Duration::from_millis(50));
    }
    let said = last.stop();
    assert!(said.contains("finished a segment that a dead recorder left") || said.contains("left-over"), "{said}");
    assert!(!bed.instance_dir().exists());
    assert_eq!(tracefs_now(), before);
    let files = store.segments().unwrap();
    assert!(files.len() > 10 && files.iter().all(|f| !f.name.part), "{files:?}");
    for file in files {
        let verified = verify(&file.path, &mut |_, _| {}).unwrap();
        assert!(verified.is_whole(), "{verified:?}");
    }
}

#[test]
fn case_62_63_a_full_disk_is_told_and_recording_resumes() {
    let _alone = alone();
    let mount = tempfile::tempdir().unwrap();
    let target = mount.path().to_str().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", target]).status().unwrap();
    assert!(mounted.success());
    let result = std::panic::catch_unwind(|| full_disk(mount.path()));
    assert!(Command::new("umount").arg(target).status().unwrap().success());
    result.unwrap();
}

fn full_disk(disk: &Path) {
    let bed = Bed::new("full");
    let store = disk.join("store");
    let dashcam = |args: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.arg("--dir").arg(&store).arg("--instance").arg(&bed.instance).args(args);
        c
    };
    let mut recorder = Running { child: dashcam(&["record"]).stderr(Stdio::piped()).spawn().unwrap() };
    while !store.join("dashcam.pid").exists() {
        assert!(recorder.child.try_wait().unwrap().is_none(), "{}", recorder.stderr());
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(600));
    let ballast = disk.join("ballast");
    let status = || -> serde_json::Value {
        serde_json::from_slice(&dashcam(&["status", "--json"]).output().unwrap().stdout).unwrap()
    };
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !done(&status()) {
            assert!(Instant::now() < end, "{what}: {}", status());
            thread::sleep(Duration::from_millis(100));
        }
    };
    // dd stops when the disk is full.
    let _ =
        Command::new("dd").args(["if=/dev/zero", "bs=4k"]).arg(format!("of={}", ballast.display())).output().unwrap();
    let noise = || drop(Command::new("perf").args(["bench", "sched", "pipe", "-l", "30000"]).output().unwrap());
    noise();
    until("the full disk is told", &|s| s["warnings"].to_string().contains("no space"));
    // Frame after frame: each tells of the loss of those before it, and is lost with that.
    noise();
    thread::sleep(Duration::from_millis(1200));
    noise();
    fs::remove_file(&ballast).unwrap();
    noise();
    until("recording resumes by itself", &|s| {
        !s["warnings"].to_string().contains("no space") && !s["segment"].is_null()
    });
    thread::sleep(Duration::from_millis(1200));
    let counted = status()["lost"].as_array().unwrap().iter().map(|l| l["count"].as_u64().unwrap()).sum::<u64>();
    recorder.stop();
    let seen = load(&[store]);
    assert!(counted > 30_000, "{counted}");
    assert_eq!(seen.losses.iter().filter_map(|l| l.count).sum::<u64>(), counted, "all of it is in the files");
    assert!(seen.switches.len() > 100);
}
