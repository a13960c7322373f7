//! The numbers of `sched` are those of `perf sched timehist` for the same events: perf records two processes that wake each
//! other, its own events go through the tables, and every run and the sum of all runs have to be what perf says.
//! Needs root and perf; fails, not skips, without them.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use dashcam::names::{NameId, NameTable};
use dashcam::query::facts::Facts;
use dashcam::query::{Builder, Engine, Keep};
use dashcam::sched::event::{Event, EventKind, Item, Switch};
use dashcam::sched::fold::{Consumer, Folding};
use dashcam::sched::state::TaskState;
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
