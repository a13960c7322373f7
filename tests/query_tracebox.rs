//! `dashcam query` on a trace that Perfetto's own tracebox recorded gives the rows that its trace_processor gives.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::decode::stream::decode_stream;
use dashcam::query::facts::Facts;
use dashcam::query::output::{Format, printer};
use dashcam::query::{Builder, Columns, Engine, Keep};
use dashcam::sched::fold::{Consumer, Folding};
use dashcam::sched::order::TimeOrder;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perfetto").join(name)
}

fn load(keep: Keep) -> Columns {
    let mut names = NameTable::new();
    let mut folding = Folding::new(Builder::new(keep));
    let mut order = TimeOrder::default();
    let file = File::open(fixture("training-like.pftrace.zst")).unwrap();
    decode_stream(file, &mut Decoder::new(), &mut names, &mut |item| order.push(item, &mut |i| folding.item(i)))
        .unwrap();
    order.flush(&mut |i| folding.item(i));
    folding.end();
    let facts = Facts::of_lives(folding.folder.threads(), &mut names, u64::MAX);
    folding.sink.finish(names, facts, None)
}

fn engine() -> Engine {
    Engine::open(Arc::new(load(Keep::Nothing))).unwrap()
}

/// What the real query path prints as CSV.
fn csv(engine: &mut Engine, sql: &str) -> Vec<String> {
    let mut out = Vec::new();
    engine.run(sql, &mut *printer(Format::Csv, &mut out)).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

fn expected(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixture("expected").join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn assert_same(mut ours: Vec<String>, mut theirs: Vec<String>) {
    assert_eq!(ours.remove(0), theirs.remove(0), "header");
    ours.sort();
    theirs.sort();
    let missing: Vec<&String> = theirs.iter().filter(|r| ours.binary_search(r).is_err()).take(10).collect();
    let extra: Vec<&String> = ours.iter().filter(|r| theirs.binary_search(r).is_err()).take(10).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:#?}\nextra {extra:#?}");
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn sched_is_the_same() {
    let sql = "SELECT s.ts, s.dur, s.cpu, t.tid, s.end_state, s.priority FROM sched s JOIN thread t USING (utid)";
    assert_same(csv(&mut engine(), sql), expected("sched.csv"));
}

#[test]
fn thread_is_the_same() {
    let sql = "SELECT t.tid, t.name, p.pid, p.name AS process_name FROM thread t LEFT JOIN process p USING (upid)";
    assert_same(csv(&mut engine(), sql), expected("thread.csv"));
}

#[test]
fn slice_is_the_same() {
    let sql = "SELECT s.ts, s.dur, s.depth, s.name, t.tid FROM slice s JOIN thread_track k ON k.id = s.track_id \
               JOIN thread t USING (utid)";
    assert_same(csv(&mut engine(), sql), expected("slice.csv"));
}

#[test]
fn stats_of_loss_are_the_same() {
    let sql = "SELECT name, idx, severity, value FROM stats WHERE severity = 'data_loss' AND value > 0";
    assert_same(csv(&mut engine(), sql), expected("stats.csv"));
}

#[test]
fn top_running_is_the_same() {
    let sql = "SELECT t.name, printf('%.6f', SUM(s.dur) / 1e6) AS running_ms, COUNT(*) AS slices \
               FROM sched s JOIN thread t USING (utid) WHERE t.tid != 0 GROUP BY utid \
               ORDER BY SUM(s.dur) DESC LIMIT 20";
    // Perfetto prints the sum as a number; printf makes it text, hence the quotes.
    let ours = csv(&mut engine(), sql).into_iter().map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        if cells[1] == "\"running_ms\"" { row } else { [cells[0], cells[1].trim_matches('"'), cells[2]].join(",") }
    });
    assert_same(ours.collect(), expected("top_running.csv"));
}

/// A row of `thread_state.csv`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    tid: i64,
    ts: i64,
    dur: i64,
    state: String,
    rest: Vec<String>,
}

fn states(rows: &[String]) -> Vec<State> {
    let cell = |text: &str| text.trim_matches('"').to_owned();
    let read = |row: &String| {
        let c: Vec<String> = row.split(',').map(cell).collect();
        let number = |n: usize| c[n].parse().unwrap();
        let rest = [2, 5, 6, 7].map(|n| c[n].clone()).to_vec();
        State { tid: number(3), ts: number(0), dur: number(1), state: c[4].clone(), rest }
    };
    let mut out: Vec<State> = rows.iter().skip(1).map(read).collect();
    out.sort();
    out
}

/// Where we differ, and why (see `sched::fold`):
///
/// * *Race*: a wake-up that came while the thread still ran was its last before it ran again. Perfetto says the
///   stretch between was spent in the state it left in (S, or R without waker); it was never asleep: R with its waker.
/// * *Split*: a wake-up of a thread that was pushed off changes nothing for it. Perfetto ends its R+ there and
///   begins an R with a waker; we keep one R+.
/// * *Woken again*: the kernel writes `sched_waking` for a thread that sleeps only, so one that was woken and is woken
///   again without a switch between has run and slept unseen (the machine that recorded this left switches to and
///   from idle out). Perfetto lets the first wait run on over both; we say nothing of its length and begin anew.
#[test]
fn thread_state_is_the_same_but_for_stated_differences() {
    let sql = "SELECT s.ts, s.dur, s.cpu, t.tid, s.state, s.io_wait, w.tid AS waker_tid, s.irq_context \
               FROM thread_state s JOIN thread t USING (utid) LEFT JOIN thread w ON w.utid = s.waker_utid";
    let (ours, theirs) = (states(&csv(&mut engine(), sql)), states(&expected("thread_state.csv")));
    let only_theirs: Vec<&State> = theirs.iter().filter(|s| ours.binary_search(s).is_err()).collect();
    let only_ours: Vec<&State> = ours.iter().filter(|s| theirs.binary_search(s).is_err()).collect();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut at = 0;
    let mut owns = only_ours.iter();
    while let Some(own) = owns.next() {
        let their = only_theirs[at];
        assert_eq!((own.tid, own.ts), (their.tid, their.ts), "{own:?} {their:?}");
        let woken = own.state == "R" && own.rest[2] != "[NULL]";
        if woken
            && own.dur == their.dur
            && ["R", "S", "D", "I"].contains(&their.state.as_str())
            && their.rest[2] == "[NULL]"
        {
            *kinds.entry("race").or_default() += 1;
            at += 1;
            continue;
        }
        if own.state == "R" && own.dur == 0 {
            assert_eq!(own.rest, their.rest, "the same waker as theirs: {own:?}");
            let mut last = owns.next().unwrap();
            while last.dur == 0 {
                last = owns.next().unwrap();
            }
            assert_eq!((last.tid, last.state.as_str(), their.state.as_str()), (own.tid, "R", "R"), "{own:?}");
            let end = |s: &State| (s.dur >= 0).then(|| s.ts + s.dur);
            assert_eq!(end(last), end(their), "both end where it runs: {last:?} {their:?}");
            *kinds.entry("woken again").or_default() += 1;
            at += 1;
            continue;
        }
        let second = only_theirs[at + 1];
        assert_eq!((own.state.as_str(), their.state.as_str(), second.state.as_str()), ("R+", "R+", "R"), "{own:?}");
        assert_eq!((second.tid, second.ts), (own.tid, their.ts + their.dur));
        assert_eq!(own.dur, if second.dur < 0 { -1 } else { their.dur + second.dur });
        *kinds.entry("split").or_default() += 1;
        at += 2;
    }
    assert_eq!(at, only_theirs.len(), "{:?}", &only_theirs[at..]);
    assert_eq!(theirs.len(), 7328);
    assert_eq!(kinds, BTreeMap::from([("race", 10), ("split", 2), ("woken again", 31)]));
}
