//! Our numbers are perf's. For the same events: perf records two processes that wake each other, its own events go through
//! the tables, and every run and the sum of all runs have to be what `perf sched timehist` says. For the same time: dashcam
//! and perf record side by side, and totals of `sched`, `thread_state` and `report latency` have to be those of
//! `perf sched timehist` and `perf sched latency`. Needs root and perf; fails, not skips, without them.
#![allow(clippy::unwrap_used)]

mod load_support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dashcam::names::{NameId, NameTable};
use dashcam::query::facts::Facts;
use dashcam::query::{Builder, Engine, Keep};
use dashcam::sched::event::{Event, EventKind, Item, Switch};
use dashcam::sched::fold::{Consumer, Folding};
use dashcam::sched::state::TaskState;
use load_support::{NeverIdle, Running, named, pin, spin};
use rusqlite::types::Value;

/// What perf prints of its data.
fn perf(args: &[&str], data: &Path) -> String {
    let out = Command::new("perf").args(args).arg("-i").arg(data).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Digits and a point as a number in units of the last digit, of which there must be `digits`.
fn number(text: &str, digits: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    (part.len() == digits).then_some(())?;
    Some(whole.parse::<u64>().ok()? * 10u64.pow(digits as u32) + part.parse::<u64>().ok()?)
}

/// `[000] 15400.192773073: sched:sched_switch: prev_comm=… prev_pid=18 … ==> next_comm=… next_pid=6015 next_prio=98`
fn switch(line: &str) -> Option<Event> {
    let (cpu, rest) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let fields = rest.trim_start().strip_prefix("sched:sched_switch: ")?;
    // Names may hold anything: the last of each key is the field.
    let field = |key: &str| fields.rsplit_once(key)?.1.split(' ').next();
    let prev_tid: i32 = field(" prev_pid=")?.parse().ok()?;
    let prev_state = match field(" prev_state=")?.chars().next()? {
        'R' => TaskState::PREEMPTED,
        'D' => TaskState::UNINTERRUPTIBLE,
        _ => TaskState::SLEEPING,
    };
    let (next_tid, next_prio) = (field(" next_pid=")?.parse().ok()?, field(" next_prio=")?.trim().parse().ok()?);
    let (prev, prio, next_comm) = (Some(prev_tid), None, NameId::EMPTY);
    let kind = EventKind::Switch(Switch {
        prev_tid: prev,
        prev_prio: prio,
        prev_state,
        prev_state_raw: 0,
        next_tid,
        next_prio,
        next_comm,
    });
    Some(Event { ts: number(time, 9)?, cpu: cpu.parse().ok()?, emitter: prev, flags: 0, kind })
}

/// End and length of every run of each thread, µs, as timehist prints them:
/// `15401.139812 [0000]  sched-pipe[6013/6012]      0.151      0.000      1.445`
fn timehist(text: &str) -> BTreeMap<i64, BTreeMap<u64, u64>> {
    let mut runs: BTreeMap<i64, BTreeMap<u64, u64>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, .., run] = words[..] else { continue };
        let (Some(end), Some(run)) = (number(time, 6), number(run, 3)) else { continue };
        let Some(ids) = line.rsplit_once(']').and_then(|(l, _)| l.rsplit_once('[')) else { continue };
        let Ok(tid) = ids.1.split('/').next().unwrap().parse() else { continue };
        runs.entry(tid).or_default().insert(end, run);
    }
    runs
}

#[test]
fn runs_and_their_sums_are_those_of_perf_sched_timehist() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let status = Command::new("perf")
        .args(["sched", "record", "-m", "16M", "-o"])
        .arg(&data)
        .args(["perf", "bench", "sched", "pipe", "-l", "3000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "perf sched record needs root and perf");

    let mut events: Vec<Event> =
        perf(&["script", "--ns", "-F", "cpu,time,event,trace"], &data).lines().filter_map(switch).collect();
    events.sort_by_key(|e| e.ts);
    let mut folding = Folding::new(Builder::new(Keep::Nothing));
    events.iter().for_each(|e| folding.item(&Item::Event(*e)));
    folding.end();
    let mut names = NameTable::new();
    let facts = Facts::of_lives(folding.folder.threads(), &mut names, u64::MAX);
    let mut engine = Engine::open(Arc::new(folding.sink.finish(names, facts, None))).unwrap();
    let sql = "SELECT tid, ts + dur, dur FROM sched JOIN thread USING (utid) WHERE dur >= 0 AND tid != 0";
    let mut ours: BTreeMap<i64, BTreeMap<u64, u64>> = BTreeMap::new();
    for row in engine.answer(sql, None).unwrap().rows {
        let [Value::Integer(tid), Value::Integer(end), Value::Integer(dur)] = row[..] else { panic!("{row:?}") };
        ours.entry(tid).or_default().insert(end as u64 / 1000, dur as u64);
    }

    // Some virtual machines' kernels leave switches out (all those from idle on one CPU): what a thread did there the two
    // tools guess, or do not guess, each in its own way. Compared are runs of which both ends were traced.
    let mut came: BTreeMap<u32, i32> = BTreeMap::new();
    let mut traced: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
    for event in &events {
        let EventKind::Switch(s) = event.kind else { continue };
        let left = s.prev_tid.unwrap();
        if came.insert(event.cpu, s.next_tid) == Some(left) {
            traced.entry(left.into()).or_default().insert(event.ts / 1000);
        }
    }

    let theirs = timehist(&perf(&["sched", "timehist"], &data));
    // The two ends of the pipe: each sleeps and runs thousands of times, all of it while perf records.
    let busy: Vec<_> = theirs.iter().filter(|(tid, runs)| **tid != 0 && runs.len() > 1000).collect();
    assert!(busy.len() >= 2, "{:?}", theirs.iter().map(|(tid, runs)| (tid, runs.len())).collect::<Vec<_>>());
    let mut compared = 0;
    for (tid, runs) in busy {
        let Some(traced) = traced.get(tid) else { continue };
        let near = |end: u64| end - 1..=end + 1;
        let runs: Vec<_> = runs.iter().filter(|(end, _)| near(**end).any(|at| traced.contains(&at))).collect();
        let own = ours.get(tid).unwrap_or_else(|| panic!("thread {tid} has no run: {:?}", ours.keys()));
        // perf prints whole µs, each of end and run rounded for itself.
        let same: Vec<(u64, u64)> = runs
            .iter()
            .filter_map(|(end, run)| {
                let dur = near(**end).filter_map(|at| own.get(&at)).find(|d| (*d / 1000).abs_diff(**run) <= 1)?;
                Some((*dur, **run))
            })
            .collect();
        assert!(
            same.len() * 100 >= runs.len() * 99,
            "thread {tid}: {} of {} runs are the same",
            same.len(),
            runs.len()
        );
        let (ours, perfs) = (same.iter().map(|r| r.0).sum::<u64>() / 1000, same.iter().map(|r| r.1).sum::<u64>());
        assert!(ours.abs_diff(perfs) <= same.len() as u64, "thread {tid}: {ours} µs here, {perfs} with perf");
        compared += same.len();
    }
    assert!(compared > 100, "only {compared} runs were traced at both ends");
}

fn wait_for(what: &str, there: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !there() {
        assert!(Instant::now() < end, "{what} does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Threads that wake each other and threads that push each other off, while no CPU is ever idle: some virtual machines'
/// kernels leave out switches of their idle threads, in every trace.
fn load() {
    let never_idle = NeverIdle::start("ask-last");
    let ((mut hear, mut say), (mut hear_back, mut say_back)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let mut byte = [0];
    let pair = [
        named("ask-ping", move || {
            (0..1500).for_each(|_| {
                say.write_all(&[1]).unwrap();
                hear_back.read_exact(&mut byte).unwrap();
            })
        }),
        named("ask-pong", move || {
            (0..1500).for_each(|_| {
                hear.read_exact(&mut byte).unwrap();
                say_back.write_all(&[1]).unwrap();
            })
        }),
    ];
    let push = [0, 1].map(|_| {
        named("ask-push", || {
            pin(0);
            spin(Duration::from_millis(500));
        })
    });
    pair.into_iter().chain(push).for_each(|t| t.join().unwrap());
    drop(never_idle);
}

/// Records `load` with dashcam into `dir/store` and with perf into `dir/perf.data`; both begin before it and end after it.
fn side_by_side(dir: &Path) -> (PathBuf, PathBuf) {
    let (store, data, started) = (dir.join("store"), dir.join("perf.data"), dir.join("started"));
    let instance = format!("dashcam-test-{}-ask", std::process::id());
    let dashcam = |args: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_DIR").env_remove("DASHCAM_LOG");
        c.arg("--dir")
            .arg(&store)
            .args(["--instance", &instance])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        c
    };
    let mut recorder = Running(dashcam(&["record"]).spawn().unwrap());
    wait_for("dashcam", || store.join("dashcam.pid").exists());
    let mut perf = Command::new("perf");
    // Ends when its standard input does.
    perf.args(["sched", "record", "-k", "monotonic", "-m", "16M", "-o"])
        .arg(&data)
        .args(["sh", "-c", "touch \"$0\"; cat"])
        .arg(&started);
    let mut perf = Running(perf.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for("perf", || started.exists());
    load();
    drop(perf.0.stdin.take());
    assert!(perf.0.wait().unwrap().success(), "perf sched record needs root and perf");
    assert!(dashcam(&["stop"]).status().unwrap().success());
    assert!(recorder.0.wait().unwrap().success());
    (store, data)
}

/// `  ask-ping:6013 |  15.821 ms |  1146 | avg:   0.004 ms | max:   0.682 ms | max start: …`, by tid: switches, ns of all
/// delays as far as the digits go, and the longest.
fn perf_latency(text: &str) -> BTreeMap<i64, (u64, u64, u64)> {
    let mut out = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [task, _, switches, average, longest, ..] = cells[..] else { continue };
        let ms = |cell: &str| number(cell.split_whitespace().nth(1)?, 3).map(|us| us * 1000);
        let (Some(tid), Ok(switches)) = (task.rsplit_once(':').and_then(|t| t.1.parse().ok()), switches.parse()) else {
            continue;
        };
        let (Some(average), Some(longest)) = (ms(average), ms(longest)) else { continue };
        out.insert(tid, (switches, average * switches, longest));
    }
    out
}

fn query(store: &Path, sql: &str) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = command.arg("--dir").arg(store).args(["query", "--format", "json", sql]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Equal but for one in ten: what a kernel leaves out of traces the two tools each guess, or do not, in their own way.
fn about(ours: u64, theirs: u64, slack: u64) -> bool {
    ours.abs_diff(theirs) <= slack + ours.max(theirs) / 10
}

#[test]
fn totals_of_a_recording_are_those_that_perf_has_of_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let (store, data) = side_by_side(dir.path());
    let number = |row: &serde_json::Map<String, serde_json::Value>, key: &str| row[key].as_u64().unwrap();
    let monotonic = "SELECT max(ts - clock_value) AS behind FROM clock_snapshot WHERE clock_name = 'MONOTONIC'";
    // It is read after the boot clock: whatever comes between makes it seem later.
    let behind = query(&store, monotonic)[0]["behind"].as_i64().unwrap();
    let runs = query(
        &store,
        "SELECT tid, ts + dur AS \"end\", dur FROM sched JOIN thread USING (utid) WHERE name GLOB 'ask-p*' AND dur >= 0",
    );
    let own = query(
        &store,
        "WITH ran AS (SELECT utid, sum(dur) AS ran FROM sched GROUP BY utid), \
         running AS (SELECT utid, sum(dur) AS ran FROM thread_state WHERE state = 'Running' GROUP BY utid), \
         waited AS (SELECT utid, count(*) AS waits, sum(dur) AS waited, max(dur) AS longest FROM thread_state \
                    WHERE state IN ('R', 'R+') AND dur > 0 GROUP BY utid) \
         SELECT tid, name, ran.ran, running.ran AS running, waits, waited, longest \
         FROM ran JOIN running USING (utid) JOIN waited USING (utid) JOIN thread USING (utid) WHERE name GLOB 'ask-p*'",
    );
    assert_eq!(own.len(), 4, "{own:?}");
    let theirs = timehist(&perf(&["sched", "timehist"], &data));
    let delays = perf_latency(&perf(&["sched", "latency", "-p"], &data));
    let report = Command::new(env!("CARGO_BIN_EXE_dashcam"))
        .args(["--dir", store.to_str().unwrap(), "report", "latency", "--thread", "ask-p*", "--json"])
        .output()
        .unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    for row in &own {
        let (number, name) = (|key: &str| number(row, key), row["name"].as_str().unwrap());
        let tid = row["tid"].as_i64().unwrap();
        assert_eq!(number("ran"), number("running"), "sched and thread_state: {row:?}");

        // Runs that end at the same time, as far as two tracers that look at the clock one after the other can say.
        let theirs = &theirs[&tid];
        let of_thread = runs.iter().filter(|r| r["tid"].as_i64() == Some(tid));
        let same: Vec<(u64, u64)> = of_thread
            .filter_map(|r| {
                let end = (r["end"].as_i64()? - behind) as u64 / 1000;
                let dur = r["dur"].as_u64()?;
                let run =
                    theirs.range(end - 10..=end + 10).map(|(_, run)| run).find(|run| run.abs_diff(dur / 1000) <= 10)?;
                Some((dur, *run * 1000))
            })
            .collect();
        assert!(theirs.len() > 10, "{row:?}: {theirs:?}");
        assert!(same.len() * 10 >= theirs.len() * 9, "{row:?}: {} of {} runs are the same", same.len(), theirs.len());
        let (ran, run) = (same.iter().map(|r| r.0).sum::<u64>(), same.iter().map(|r| r.1).sum::<u64>());
        assert!(ran.abs_diff(run) <= same.len() as u64 * 1000 + ran / 100, "{row:?}: {ran} ns here, {run} with perf");

        // perf leaves out a thread's first or last wait; of those that wake each other most waits after wake-ups.
        let (switches, delay, longest) = delays[&tid];
        assert!(longest <= number("longest") + number("longest") / 10 + 10_000, "{row:?}: {longest} ns with perf");
        if name == "ask-push" {
            assert!(about(number("waits"), switches, 2), "{row:?}: {switches} with perf");
            let slack = switches * 1000 + 2 * number("longest");
            assert!(about(number("waited"), delay, slack), "{row:?}: {delay} ns with perf");
        }

        let thread = format!("\"thread\":\"{name} [{tid}]\"");
        let line = report.lines().find(|l| l.contains(&thread)).unwrap_or_else(|| panic!("no {thread}: {report}"));
        let told: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for (key, column) in [("waits", "waits"), ("total_ns", "waited"), ("max_ns", "longest")] {
            assert_eq!(told[key], row[column], "{line} {row:?}");
        }
    }
}
