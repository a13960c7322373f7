#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::*;
use crate::perfetto::encode::{BundleBuilder, packets};
use crate::sched::event::{ClockSnapshot, EventKind, Item, Loss};
use crate::store::Store;
use crate::store::footer::{BootId, Summary, Totals};
use crate::store::frame::FrameCompressor;
use crate::store::index::{FrameFacts, FrameKind};
use crate::store::probe::identity;
use crate::store::writer::SegmentWriter;

const MS: u64 = 1_000_000;

/// Keeps what it is given.
#[derive(Default)]
struct Kept {
    marks: Vec<u64>,
    threads: Vec<i32>,
    gaps: Vec<(u64, u64)>,
    states: usize,
    losses: Vec<Loss>,
    ended: bool,
}

impl Consumer for Kept {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Event(e) if matches!(e.kind, EventKind::Print { .. }) => self.marks.push(e.ts),
            Item::Thread(t) => self.threads.push(t.tid),
            Item::Gap { from, to } => self.gaps.push((*from, *to)),
            Item::CpuState { .. } => self.states += 1,
            Item::Loss(loss) => self.losses.push(*loss),
            _ => {}
        }
    }
    fn end(&mut self) {
        self.ended = true;
    }
}

fn boot() -> BootId {
    BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb")
}

fn clock(ts: u64) -> ClockSnapshot {
    ClockSnapshot { boot: ts, mono: ts, real: 1_000_000_000_000_000_000 + ts, tai: 0, zone_offset_minutes: Some(0) }
}

fn thread(ts: u64, tid: i32, out: &mut Vec<u8>) {
    let thread = packets::Thread { tid, pid: tid, name: b"t".to_vec(), start: None };
    packets::process_tree(ts, &[], &[thread], out);
}

/// A segment from `start` on with `frames` frames of 500 ms; each begins with a fact about thread 100 + i and has one
/// mark on CPU 1 and an earlier one on CPU 0, which stands behind it.
fn grow(store: &Store, start: u64, frames: u64) -> SegmentWriter {
    let mut writer = SegmentWriter::create(store, clock(start).real).unwrap();
    let mut squeeze = FrameCompressor::new(3).unwrap();
    let mut put = |packets: &[u8], facts: FrameFacts| {
        let mut frame = Vec::new();
        squeeze.compress(packets, &mut frame).unwrap();
        writer.write_frame(&frame, packets.len(), facts).unwrap();
    };
    let mut head = Vec::new();
    packets::clocks(&clock(start), &mut head);
    identity(boot(), "test", start, &mut head);
    packets::state(start, &[packets::CpuNow { cpu: 0, tid: 1, prio: 120, since: start }], &[], &mut head);
    put(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
    for i in 0..frames {
        let (from, to) = (start + i * 500 * MS, start + (i + 1) * 500 * MS);
        let mut data = Vec::new();
        thread(from, 100 + i as i32, &mut data);
        for (cpu, ts) in [(1, from + 20 * MS), (0, from + 10 * MS)] {
            let mut bundle = BundleBuilder::new();
            bundle.print(ts, 1, 0, b"mark\n");
            bundle.finish(cpu, None, &mut data);
        }
        packets::complete_through(to, &mut data);
        let span = Some((from + 10 * MS, from + 20 * MS));
        put(&data, FrameFacts { span, complete_through: to, events: vec![(0, 1), (1, 1)], ..FrameFacts::default() });
    }
    writer
}

fn finish(mut writer: SegmentWriter, start: u64, frames: u64) -> PathBuf {
    let end = start + frames * 500 * MS;
    let totals = Totals { boot: boot(), start, end, clock: clock(start), clock_end: clock(end), ..Totals::default() };
    writer.finish(totals, Summary::default()).unwrap().path
}

fn all(paths: &[PathBuf], window: Option<Window>) -> (Kept, Loaded) {
    let mut kept = Kept::default();
    let loaded = load(paths, window, &mut kept, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(kept.ended);
    (kept, loaded)
}

fn store(dir: &Path) -> Store {
    let store = Store::create(dir).unwrap();
    finish(grow(&store, 1000 * MS, 4), 1000 * MS, 4);
    finish(grow(&store, 3000 * MS, 2), 3000 * MS, 2);
    store
}

#[test]
fn a_store_is_loaded_whole_and_in_time_order() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let (kept, loaded) = all(&[dir.path().to_owned()], None);
    assert_eq!(kept.marks.len(), 12);
    assert!(kept.marks.is_sorted(), "events of different CPUs are merged: {:?}", kept.marks);
    assert_eq!(loaded.events, 12);
    assert_eq!(loaded.window, Some(Window { from: 1010 * MS, to: 4000 * MS }));
    assert_eq!(loaded.clocks.to_real(3000 * MS), clock(3000 * MS).real);
    assert_eq!((kept.gaps, loaded.damage, loaded.complete), (vec![], vec![], true));
}

#[test]
fn case_85_a_window_takes_its_frames_and_the_facts_before_it() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let (kept, loaded) = all(&[dir.path().to_owned()], Some(Window { from: 2100 * MS, to: 2600 * MS }));
    assert_eq!(kept.marks, [2010, 2020, 2510, 2520].map(|ms| ms * MS));
    assert_eq!(kept.threads, [100, 101, 102, 103], "facts of the frames before are not lost");
    assert_eq!(kept.states, 0, "a state block that is over a second old says nothing about the window");
    assert_eq!(loaded.events, 4);
    for (from, to, marks) in [(2500, 2501, 2), (2499, 2501, 4), (2999, 3001, 4), (3000, 3001, 2)] {
        let (kept, _) = all(&[dir.path().to_owned()], Some(Window { from: from * MS, to: to * MS }));
        assert_eq!(kept.marks.len(), marks, "{from}..{to}");
    }
}

#[test]
fn a_hole_between_segments_is_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    finish(grow(&store, 9000 * MS, 1), 9000 * MS, 1);
    let (kept, _) = all(&[dir.path().to_owned()], None);
    assert_eq!(kept.gaps, [(4000 * MS, 9000 * MS)]);
}

#[test]
fn case_51_97_any_part_alone_and_cat_give_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let files: Vec<PathBuf> = store.segments().unwrap().into_iter().map(|f| f.path).collect();
    let joined = dir.path().join("joined.pftrace.zst");
    let bytes: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
    std::fs::write(&joined, &bytes).unwrap();
    // The same packets, uncompressed, are a foreign trace.
    let plain = dir.path().join("plain.pftrace");
    std::fs::write(&plain, zstd::decode_all(&bytes[..]).unwrap()).unwrap();
    let whole = all(&[dir.path().to_owned()], None).0.marks;
    assert_eq!(all(&[joined], None).0.marks, whole);
    assert_eq!(all(&[plain], None).0.marks, whole);
    assert_eq!(all(&files[1..], None).0.marks, whole[8..]);
}

#[test]
fn case_68_a_growing_segment_is_read_to_its_last_whole_frame_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let growing = grow(&store, 4000 * MS, 2);
    let mut file = std::fs::OpenOptions::new().append(true).open(growing.path()).unwrap();
    let half = &std::fs::read(growing.path()).unwrap()[..40];
    io::Write::write_all(&mut file, half).unwrap();
    let (kept, loaded) = all(&[dir.path().to_owned()], Some(Window { from: 4100 * MS, to: u64::MAX }));
    assert_eq!(kept.marks, [4010, 4020, 4510, 4520].map(|ms| ms * MS));
    assert_eq!(loaded.damage.len(), 1, "the half frame is told: {:?}", loaded.damage);
    let mut kept = Kept::default();
    let mut tail = Tail::open(dir.path(), 700 * MS).unwrap();
    // One call takes a bounded time, so there may be several.
    let mut reached = tail.advance(&mut kept).unwrap();
    while !reached.caught_up {
        reached = tail.advance(&mut kept).unwrap();
    }
    assert_eq!(kept.marks, [4010, 4020, 4510, 4520].map(|ms| ms * MS));
    assert_eq!(reached.through, 5000 * MS);
    drop(growing);
    // A recorder that died is followed by another: the hole between is a gap.
    finish(grow(&store, 6000 * MS, 1), 6000 * MS, 1);
    while !tail.advance(&mut kept).unwrap().caught_up {}
    assert_eq!(kept.marks.len(), 6);
    assert_eq!(kept.gaps, [(5000 * MS, 6000 * MS)]);
}

#[test]
fn a_damaged_frame_in_the_growing_segment_is_a_gap_for_those_who_follow_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let growing = grow(&store, 1000 * MS, 4);
    let mut bytes = std::fs::read(growing.path()).unwrap();
    // The second of four frames: 1500 to 2000 ms.
    let frame = &growing.frames()[2];
    bytes[(frame.offset + frame.compressed) as usize - 2] ^= 0xff;
    std::fs::write(growing.path(), &bytes).unwrap();
    let mut kept = Kept::default();
    let mut tail = Tail::open(dir.path(), u64::MAX).unwrap();
    while !tail.advance(&mut kept).unwrap().caught_up {}
    assert_eq!(kept.marks, [1010, 1020, 2010, 2020, 2510, 2520].map(|ms| ms * MS), "the frames around it are there");
    assert_eq!(kept.gaps, [(1500 * MS, 2010 * MS)], "to the first thing known after it");
    let told = tail.damage();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(&format!("damaged at byte {}: ", frame.offset)), "{told:?}");
    assert!(told[0].contains("000001.pftrace.zst"), "{told:?}");
    // What is added behind it is followed.
    finish(growing, 1000 * MS, 4);
    grow(&store, 3000 * MS, 1);
    while !tail.advance(&mut kept).unwrap().caught_up {}
    assert_eq!((kept.marks.len(), kept.gaps.len()), (8, 1));
}

#[test]
fn a_tail_across_a_rotation_sees_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let mut kept = Kept::default();
    let mut tail = Tail::open(dir.path(), 0).unwrap();
    while !tail.advance(&mut kept).unwrap().caught_up {} // an empty store is waited for
    let first = grow(&store, 1000 * MS, 4);
    while !tail.advance(&mut kept).unwrap().caught_up {}
    assert_eq!(kept.marks.len(), 8);
    finish(first, 1000 * MS, 4);
    grow(&store, 3000 * MS, 2);
    while !tail.advance(&mut kept).unwrap().caught_up {}
    assert_eq!((kept.marks.len(), kept.gaps.len()), (12, 0));
}

#[test]
fn what_cannot_be_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut kept = Kept::default();
    let mut quiet = |_| ControlFlow::Continue(());
    let missing = load(&[dir.path().join("none")], None, &mut kept, &mut quiet).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
    Store::create(dir.path()).unwrap();
    let empty = load(&[dir.path().to_owned()], None, &mut kept, &mut quiet).unwrap_err();
    assert!(matches!(empty, FeedError::Nothing(_)));
    assert!(matches!(survey(&[dir.path().to_owned()]), Err(FeedError::Nothing(_))));
}

#[test]
fn a_load_can_be_ended_early() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let mut kept = Kept::default();
    let loaded = load(&[dir.path().to_owned()], None, &mut kept, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(!loaded.complete && kept.ended);
}

#[test]
fn a_damaged_frame_is_a_gap_and_a_file_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let file = store.segments().unwrap()[0].path.clone();
    let mut bytes = std::fs::read(&file).unwrap();
    let frames = crate::store::reader::SegmentReader::open(&file).unwrap().frames().to_vec();
    // The second and the third of four frames: 1500 to 2500 ms.
    for frame in &frames[2..4] {
        bytes[(frame.offset + frame.compressed) as usize - 2] ^= 0xff;
    }
    std::fs::write(&file, bytes).unwrap();
    let (kept, loaded) = all(&[dir.path().to_owned()], None);
    assert_eq!(kept.marks, [1010, 1020, 2510, 2520, 3010, 3020, 3510, 3520].map(|ms| ms * MS));
    assert_eq!(kept.gaps, [(1500 * MS, 2510 * MS)], "to the first thing known after it");
    let place = frames[2].offset;
    assert!(loaded.damage[0].contains(&format!("damaged at byte {place}: ")), "{:?}", loaded.damage);
    assert!(loaded.damage[0].ends_with(", and 1 more place in it"), "{:?}", loaded.damage);
    assert_eq!(loaded.damage.len(), 1);
}

/// In the stretch that is skipped a process is born, with a thread, and another tid changes hands.
#[test]
fn case_48_who_was_born_before_the_window_is_known_in_it() {
    use crate::perfetto::encode::{EventEncoder, FieldFormat, FieldKind};
    let field = |name: &str, offset, size, kind| FieldFormat { name: name.into(), offset, size, signed: true, kind };
    let fields = [
        field("pid", 0, 4, FieldKind::Integer),
        field("comm", 4, 16, FieldKind::Text),
        field("clone_flags", 24, 8, FieldKind::Integer),
    ];
    let born = EventEncoder::new("task", "task_newtask", &fields);
    let freed = EventEncoder::new("sched", "sched_process_free", &fields[..2]);
    let record = |tid: i32, name: &str, flags: u64| {
        let mut data = vec![0; 32];
        data[..4].copy_from_slice(&tid.to_le_bytes());
        data[4..4 + name.len()].copy_from_slice(name.as_bytes());
        data[24..].copy_from_slice(&flags.to_le_bytes());
        data
    };
    // (at, by, tid, name, clone flags): 70 forks 200, 200 makes its thread 201, and 71 ends and comes again as 70's child.
    let mut events = BundleBuilder::new();
    events.event(10 * MS, 70, 0, &born, &record(200, "train", 0));
    events.event(20 * MS, 200, 0, &born, &record(201, "loader", 0x0001_0000));
    events.event(30 * MS, 70, 0, &freed, &record(71, "old", 0));
    events.event(40 * MS, 70, 0, &born, &record(71, "new", 0));
    let mut frame = Vec::new();
    events.finish(0, None, &mut frame);
    let lived = frame.clone();
    packets::complete_through(500 * MS, &mut frame);

    for finished in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let mut writer = SegmentWriter::create(&store, clock(0).real).unwrap();
        let mut squeeze = FrameCompressor::new(3).unwrap();
        let mut put = |packets: &[u8], kind, complete_through| {
            let mut bytes = Vec::new();
            squeeze.compress(packets, &mut bytes).unwrap();
            writer
                .write_frame(&bytes, packets.len(), FrameFacts { kind, complete_through, ..FrameFacts::default() })
                .unwrap();
        };
        let mut head = Vec::new();
        identity(boot(), "test", 1, &mut head);
        packets::clocks(&clock(1), &mut head);
        let old = |tid| packets::Thread { tid, pid: tid, name: b"old".to_vec(), start: Some(0) };
        let process = |pid| packets::Process { pid, name: b"old".to_vec(), start: Some(0), ..Default::default() };
        packets::process_tree(1, &[process(70), process(71)], &[old(70), old(71)], &mut head);
        put(&head, FrameKind::Head, 0);
        put(&frame, FrameKind::Data, 500 * MS);
        for n in 2..4 {
            let mut quiet = Vec::new();
            packets::complete_through(n * 500 * MS, &mut quiet);
            put(&quiet, FrameKind::Data, n * 500 * MS);
        }
        let mut tail = Vec::new();
        packets::lives(lived.clone(), &mut tail);
        if finished {
            put(&tail, FrameKind::Tail, 0);
            let totals = Totals { boot: boot(), start: 1, end: 1500 * MS, clock: clock(1), ..Totals::default() };
            writer.finish(totals, Summary::default()).unwrap();
        }
        let mut folding = crate::sched::fold::Folding::new(());
        let window = Window { from: 1200 * MS, to: 1400 * MS };
        let loaded =
            load(&[dir.path().to_owned()], Some(window), &mut folding, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((loaded.events, loaded.damage), (0, vec![]), "the events themselves are not told");
        let threads = folding.folder.threads();
        let who = |tid| {
            let life = threads.get(threads.utid_of(tid).unwrap()).unwrap();
            let owner = threads.process(life.upid.unwrap()).unwrap();
            (loaded.names.text(life.name()), owner.pid, life.start.unwrap())
        };
        assert_eq!(who(70), ("old".into(), 70, 0), "finished: {finished}");
        assert_eq!(who(200), ("train".into(), 200, 10 * MS));
        assert_eq!(who(201), ("loader".into(), 200, 20 * MS));
        assert_eq!(who(71), ("new".into(), 71, 40 * MS));
        assert_eq!(threads.process(threads.upid_of(200).unwrap()).unwrap().parent, threads.upid_of(70));
    }
}

#[test]
fn packets_that_do_not_read_to_their_end_are_told_and_are_a_loss() {
    // Three switches, of which the column of who came has two.
    let bundle = |ts: u64| {
        let mut b = BundleBuilder::new();
        for i in 0..3 {
            b.switch(ts + i, 0, 7 + i as i32, 120, b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        }
        let mut out = Vec::new();
        b.finish(0, None, &mut out);
        out
    };
    let whole = bundle(1000);
    // The column of next_pid: field 3 of compact_sched, three bytes.
    let at = whole.windows(5).position(|w| w == [3 << 3 | 2, 3, 7, 8, 9]).unwrap();
    let mut torn = whole.clone();
    torn[at..at + 5].copy_from_slice(&[3 << 3 | 2, 3, 7, 8, 0x80]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("torn.pftrace");
    std::fs::write(&path, [whole, torn, bundle(3000)].concat()).unwrap();
    let mut kept = Kept::default();
    let loaded = load(&[path], None, &mut kept, &mut |_| ControlFlow::Continue(())).unwrap();
    let [damage] = &loaded.damage[..] else { panic!("{:?}", loaded.damage) };
    assert!(damage.starts_with("packet at byte "), "{damage}");
    assert!(matches!(kept.losses[..], [Loss { cpu: 0, to: 3000, count: None, .. }]), "{:?}", kept.losses);
}

#[test]
fn events_at_times_that_no_machine_reaches_are_left_out_and_counted() {
    use crate::perfetto::encode::FullWaking;
    let wake = FullWaking { comm: b"x", pid: 8, prio: 120, target_cpu: 0 };
    let mut bundle = BundleBuilder::new();
    for ts in [1000 * MS, 1010 * MS, u64::MAX, 1 << 60] {
        bundle.full_waking(ts, 7, 0, &wake);
    }
    let mut packets = Vec::new();
    bundle.finish(0, None, &mut packets);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("odd.pftrace");
    std::fs::write(&file, packets).unwrap();
    let (_, loaded) = all(&[file], None);
    assert_eq!((loaded.events, loaded.window), (2, Some(Window { from: 1000 * MS, to: 1010 * MS })));
    assert_eq!(loaded.damage, ["2 events left out, at times after 36 years of uptime"]);
}
