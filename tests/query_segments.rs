//! Segments of ours through the real query path: one recording in one file or in three gives the same rows.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dashcam::feed;
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::query::load::{Request, load};
use dashcam::query::{Engine, Keep};
use dashcam::sched::event::{ClockSnapshot, Event, EventKind, Item};
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::footer::{BootId, Summary, Totals};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::probe::identity;
use dashcam::store::writer::SegmentWriter;

const TRACE: &[u8] = include_bytes!("fixtures/perfetto/hackbench.pftrace.zst");

fn events() -> (Vec<Event>, NameTable) {
    let plain = zstd::stream::decode_all(TRACE).unwrap();
    let (mut names, mut events) = (NameTable::new(), Vec::new());
    let mut keep = |item: Item| {
        if let Item::Event(e) = item
            && matches!(e.kind, EventKind::Switch(_) | EventKind::Waking(_))
        {
            events.push(e);
        }
    };
    Decoder::new().decode(&plain, &mut names, &mut keep).unwrap();
    events.sort_by_key(|e| e.ts);
    (events, names)
}

fn clock(boot: u64) -> ClockSnapshot {
    ClockSnapshot { boot, mono: boot, real: 1_700_000_000_000_000_000 + boot, tai: 0, zone_offset_minutes: None }
}

/// Writes `events` as one segment of `store`, which covers `window`.
fn segment(store: &Store, events: &[Event], names: &NameTable, window: Window) -> PathBuf {
    let boot = BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb");
    let mut writer = SegmentWriter::create(store, clock(window.from).real).unwrap();
    let mut compressor = FrameCompressor::new(3).unwrap();
    let mut put = |packets: &[u8], facts: FrameFacts| {
        let mut frame = Vec::new();
        compressor.compress(packets, &mut frame).unwrap();
        writer.write_frame(&frame, packets.len(), facts).unwrap();
    };
    let mut head = Vec::new();
    packets::clocks(&clock(window.from), &mut head);
    identity(boot, "test", window.from, &mut head);
    put(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
    let comm = |id| {
        let mut out = [0u8; 16];
        let bytes = names.bytes(id);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    };
    let mut builder = BundleBuilder::new();
    let chunks: Vec<&[Event]> = events.chunks(5000).collect();
    for (n, chunk) in chunks.iter().enumerate() {
        let mut data = Vec::new();
        let mut counts = Vec::new();
        for cpu in 0..2 {
            let of_cpu: Vec<&Event> = chunk.iter().filter(|e| e.cpu == cpu).collect();
            for e in &of_cpu {
                match e.kind {
                    EventKind::Switch(s) => {
                        builder.switch(e.ts, s.prev_state_raw, s.next_tid, s.next_prio, &comm(s.next_comm));
                    }
                    EventKind::Waking(w) => {
                        builder.waking(e.ts, w.tid, w.target_cpu as i32, w.prio, &comm(w.comm), e.flags);
                    }
                    _ => {}
                }
            }
            builder.finish(cpu, None, &mut data);
            counts.push((cpu, of_cpu.len() as u64));
        }
        let through = chunks.get(n + 1).map_or(window.to, |c| c[0].ts);
        packets::complete_through(through, &mut data);
        let span = Some((chunk[0].ts, chunk.last().unwrap().ts));
        put(&data, FrameFacts { span, complete_through: through, events: counts, ..FrameFacts::default() });
    }
    let (from, to) = (window.from, window.to);
    let totals = Totals { boot, start: from, end: to, clock: clock(from), clock_end: clock(to), ..Totals::default() };
    writer.finish(totals, Summary::default()).unwrap().path
}

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
    let one = segment(&Store::create(&dir.path().join("one")).unwrap(), &events, &names, whole);
    let three = Store::create(&dir.path().join("three")).unwrap();
    let third = events.len() / 3;
    let cuts = [0, third, 2 * third, events.len()];
    let mut files = Vec::new();
    for n in 0..3 {
        let from = if n == 0 { whole.from } else { events[cuts[n]].ts };
        let to = events.get(cuts[n + 1]).map_or(whole.to, |e| e.ts);
        files.push(segment(&three, &events[cuts[n]..cuts[n + 1]], &names, Window { from, to }));
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
    let file = segment(&Store::create(dir.path()).unwrap(), &events, &names, whole);
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
