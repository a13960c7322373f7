//! Segments of ours through the real query path: one recording in one file or in three gives the same rows.
#![allow(clippy::unwrap_used)]

mod hackbench_support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dashcam::feed;
use dashcam::query::load::{Kept, Request, load};
use dashcam::query::{Engine, Keep};
use dashcam::sched::event::EventKind;
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::catalog::Catalog;
use dashcam::store::footer::BootId;
use dashcam::store::snapshot;
use rusqlite::types::Value;

use hackbench_support::{LOSS, events, segment};

/// Events of a frame.
const FRAME: usize = 5000;

/// The rows of `sched` and `thread_state`, named by tid: utids are numbered by what is met first.
fn rows(paths: &[PathBuf], window: Option<Window>) -> Vec<String> {
    let request = Request { paths: paths.to_vec(), window, kept: Kept::states(Keep::Nothing), ..Request::default() };
    let survey = feed::survey(paths).unwrap();
    let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.damage, Vec::<String>::new());
    let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
    let sql = "SELECT 'sched' AS what, s.ts, s.dur, s.cpu, t.tid, s.end_state, s.priority, NULL, NULL \
               FROM sched s JOIN thread t USING (utid) \
               UNION ALL SELECT 'state', s.ts, s.dur, s.cpu, t.tid, s.state, NULL, w.tid, s.irq_context \
               FROM thread_state s JOIN thread t USING (utid) LEFT JOIN thread w ON w.utid = s.waker_utid ORDER BY 1, 2, 4, 5";
    engine.answer(sql, None).unwrap().rows.iter().map(|r| format!("{r:?}")).collect()
}

/// One recording as one segment, as three in a store, as three paths, and as `cat` of the three.
#[test]
fn case_97_three_segments_their_cat_and_one_give_the_same_rows() {
    let (events, names) = events();
    let whole = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    let dir = tempfile::tempdir().unwrap();
    let one = segment(&Store::create(&dir.path().join("one")).unwrap(), &events, &names, whole, FRAME);
    let three = Store::create(&dir.path().join("three")).unwrap();
    let third = events.len() / 3;
    let cuts = [0, third, 2 * third, events.len()];
    let mut files = Vec::new();
    for n in 0..3 {
        let from = if n == 0 { whole.from } else { events[cuts[n]].ts };
        let to = events.get(cuts[n + 1]).map_or(whole.to, |e| e.ts);
        files.push(segment(&three, &events[cuts[n]..cuts[n + 1]], &names, Window { from, to }, FRAME));
    }
    let joined = dir.path().join("joined.pftrace.zst");
    let bytes: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
    std::fs::write(&joined, bytes).unwrap();

    let expected = rows(&[one], None);
    assert!(expected.len() > events.len() / 2, "{} rows of {} events", expected.len(), events.len());
    for (what, paths) in [("store", vec![dir.path().join("three")]), ("paths", files), ("cat", vec![joined])] {
        let found = rows(&paths, None);
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(first.map(|n| (&found[n], &expected[n])), None, "{what}");
        assert_eq!(found.len(), expected.len(), "{what}");
    }
}

/// `sched` is the same whether the other states are kept or not.
#[test]
fn sched_alone_is_the_sched_of_all_states() {
    let (events, names) = events();
    let whole = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    let dir = tempfile::tempdir().unwrap();
    let file = segment(&Store::create(dir.path()).unwrap(), &events, &names, whole, FRAME);
    let answer = |kept: Kept, window: Option<Window>| {
        let request = Request { paths: vec![file.clone()], window, kept, ..Request::default() };
        let survey = feed::survey(&request.paths).unwrap();
        let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
        let sql = "SELECT id, ts, dur, cpu, utid, upid, end_state, priority FROM sched";
        let count = "SELECT utid, count(*), sum(dur) FROM sched GROUP BY utid";
        [engine.answer(sql, None).unwrap().rows, engine.answer(count, None).unwrap().rows]
    };
    let middle = Window { from: events[events.len() / 2].ts, to: events[events.len() / 2 + 2000].ts };
    for window in [None, Some(middle)] {
        let all = answer(Kept::ALL, window);
        assert!(all[0].len() > 500, "{}", all[0].len());
        assert_eq!(answer(Kept { events: Keep::Nothing, only_running: true }, window), all);
    }
}

/// What the footers say stands in the tables of files, and the snapshots of a store are listed with it.
#[test]
fn segments_and_snapshots_tell_what_their_footers_say() {
    let (events, names) = events();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let whole = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    segment(&store, &events, &names, whole, FRAME);
    let boot = BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb");
    let asked = Window { from: whole.from, to: whole.from + 1_000_000 };
    let request = snapshot::Request {
        boot,
        window: asked,
        reason: "trigger".into(),
        detail: "p99 = 9 ms".into(),
        label: "slow".into(),
        requested_at: whole.to,
    };
    let plan = snapshot::plan(&Catalog::open(&store).unwrap(), None, request).unwrap();
    let head = plan.first_head().unwrap();
    plan.write(&store, &head, 3).unwrap();
    let paths = vec![dir.path().to_owned()];
    let request = Request { paths, window: None, kept: Kept::default(), ..Request::default() };
    let survey = feed::survey(&request.paths).unwrap();
    let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.events, events.len() as u64, "a snapshot's events are those of its segments: not read twice");
    let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
    let mut ask = |sql: &str| format!("{:?}", engine.answer(sql, None).unwrap().rows);
    let row = format!(
        "[[Integer({}), Integer({}), Integer(1), Integer(1), Integer({})]]",
        events.len(),
        LOSS.known,
        whole.len()
    );
    assert_eq!(ask("SELECT events, lost, lost_unknown, whole, dur FROM segment"), row);
    assert_eq!(
        ask("SELECT label, reason, detail, asked_ts, asked_dur FROM snapshot"),
        format!(
            "[[Text(\"slow\"), Text(\"trigger\"), Text(\"p99 = 9 ms\"), Integer({}), Integer(1000000)]]",
            asked.from
        )
    );
}

/// A day of segments, asked for one thread within a moment: no frame of any other segment is read, and the answer is the
/// one that the whole day gives.
#[test]
fn a_filtered_window_of_a_day_reads_the_frames_it_needs() {
    let (events, names) = events();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    const SEGMENTS: usize = 24;
    let each = events.len() / SEGMENTS;
    for n in 0..SEGMENTS {
        let from = events[n * each].ts;
        let to = events.get((n + 1) * each).map_or(events[events.len() - 1].ts + 1, |e| e.ts);
        // Six frames of events and a head.
        segment(&store, &events[n * each..(n + 1) * each], &names, Window { from, to }, each.div_ceil(6));
    }
    let answer = |window: Option<Window>, tid: i64, ts: Window| {
        let request =
            Request { paths: vec![dir.path().to_owned()], window, kept: Kept::default(), ..Request::default() };
        let survey = feed::survey(&request.paths).unwrap();
        let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
        let frames = loaded.frames;
        let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
        let utid = engine.answer(&format!("SELECT utid FROM thread WHERE tid = {tid}"), None).unwrap().rows.remove(0);
        let Some(Value::Integer(utid)) = utid.first() else { panic!("{utid:?}") };
        let (from, to) = (ts.from, ts.to);
        let sql =
            format!("SELECT ts, dur, cpu, end_state FROM sched WHERE utid = {utid} AND ts BETWEEN {from} AND {to}");
        (frames, engine.answer(&sql, None).unwrap().rows)
    };
    // Within the fourth frame of the segment in the middle; the window that is loaded reaches a little over it.
    let at = 12 * each + each / 2 + each / 12;
    let asked = Window { from: events[at].ts, to: events[at + 40].ts };
    let window = Window { from: events[at - 100].ts, to: events[at + 140].ts };
    let tid = events[at..at + 40].iter().find_map(|e| match e.kind {
        EventKind::Switch(s) if s.next_tid != 0 => Some(i64::from(s.next_tid)),
        _ => None,
    });
    let (all, whole) = answer(None, tid.unwrap(), asked);
    assert_eq!(all, (7 * SEGMENTS as u64, 7 * SEGMENTS as u64));
    let (some, part) = answer(Some(window), tid.unwrap(), asked);
    assert!(some.0 <= 7 && some.1 == all.1, "of {} frames {} were read, those of one segment are 7", some.1, some.0);
    assert!(!whole.is_empty());
    assert_eq!(part, whole);
}

/// A window of the store shows exactly the rows of the whole that touch it, those that begin before it was loaded apart.
#[test]
fn a_window_shows_the_rows_that_touch_it() {
    let (events, names) = events();
    let whole = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    let dir = tempfile::tempdir().unwrap();
    let file = segment(&Store::create(dir.path()).unwrap(), &events, &names, whole, FRAME);
    let middle = Window { from: events[events.len() / 2].ts, to: events[events.len() / 2 + 200].ts };
    let all = rows(&[Path::new(&file).to_owned()], None);
    let part = rows(&[file], Some(middle));
    let running = |rows: &[String]| rows.iter().filter(|r| r.contains("\"sched\"")).cloned().collect::<Vec<_>>();
    let (all, part) = (running(&all), running(&part));
    assert!(part.len() > 50 && part.len() < 300, "{}", part.len());
    let known: std::collections::BTreeSet<&String> = all.iter().collect();
    // The last slice of each CPU may be cut where loading ends; all others are rows of the whole.
    let strange: Vec<&String> = part.iter().filter(|r| !known.contains(r)).collect();
    assert!(strange.len() <= 2, "{strange:#?}");
}
