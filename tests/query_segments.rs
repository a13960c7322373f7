//! Segments of ours through the real query path: one recording in one file or in three gives the same rows.
#![allow(clippy::unwrap_used)]

mod hackbench_support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dashcam::feed;
use dashcam::query::load::{Request, load};
use dashcam::query::{Engine, Keep};
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use hackbench_support::{events, segment};

/// Events of a frame.
const FRAME: usize = 5000;

/// The rows of `sched` and `thread_state`, named by tid: utids are numbered by what is met first.
fn rows(paths: &[PathBuf], window: Option<Window>) -> Vec<String> {
    let request = Request { paths: paths.to_vec(), window, keep: Keep::Nothing };
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
