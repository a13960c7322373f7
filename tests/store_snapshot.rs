//! Snapshots: exactly the window, whole or absent, never outside their folder (CASE 70).
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::sched::summary::Window;
use dashcam::store::catalog::Catalog;
use dashcam::store::footer::{BootId, Ending};
use dashcam::store::index::FrameKind;
use dashcam::store::probe::PacketProbe;
use dashcam::store::reader::SegmentReader;
use dashcam::store::recover::{Outcome, recover};
use dashcam::store::snapshot::{Request, Taken, plan};
use dashcam::store::verify::verify;
use dashcam::store::{Store, StoreError};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use store_support::{BOOT, MIN, Plan, REAL, S, event_times, record_row};

fn store() -> (tempfile::TempDir, Store) {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    (tmp, store)
}

fn request(from: u64, to: u64, label: &str) -> Request {
    Request {
        boot: BOOT,
        window: Window { from, to },
        reason: "command".to_owned(),
        detail: String::new(),
        label: label.to_owned(),
        requested_at: to,
    }
}

/// Takes a snapshot from disk with the first source's head.
fn take(store: &Store, request: Request) -> Result<Taken, StoreError> {
    let plan = plan(&Catalog::open(store)?, None, request)?;
    let clocks = plan.clocks().expect("each segment knows its clocks");
    assert!(clocks.boot <= plan.window().from, "a fresh head's clocks are older than all that is copied");
    let head = plan.first_head()?;
    plan.write(store, &head, 3)
}

fn plain_events(taken: &Taken) -> Vec<u64> {
    event_times(&zstd::stream::decode_all(File::open(&taken.file.path).unwrap()).unwrap())
}

#[test]
fn case_70_five_minutes_of_twenty_segments_frame_accurate() {
    let (_tmp, store) = store();
    let plans = record_row(&store, Plan::default(), 20);
    let (from, to) = (plans[10].start + 7 * S + 123, plans[15].start + 7 * S + 123);
    let taken = take(&store, request(from, to, "five minutes")).unwrap();
    // Frames are 500 ms: the window grows to their borders and no further.
    let real = Window { from: plans[10].start + 7 * S, to: plans[15].start + 7 * S + S / 2 };
    let note = taken.totals.snapshot.clone().unwrap();
    assert_eq!((note.asked, note.real, note.holes), (Window { from, to }, real, vec![]));
    let mut expected: Vec<u64> = plans.iter().flat_map(|p| (0..p.frames).flat_map(|i| p.times(i))).collect();
    expected.retain(|t| real.from <= *t && *t < real.to);
    let mut kept = plain_events(&taken);
    kept.sort_unstable();
    assert_eq!(kept, expected);
    assert_eq!(taken.totals.events, expected.len() as u64);
    // The footer says the same, and finds its own frames.
    let reader = SegmentReader::open(&taken.file.path).unwrap();
    assert_eq!(reader.totals(), &taken.totals);
    assert_eq!((reader.totals().start, reader.totals().end), (real.from, real.to));
    assert_eq!(reader.totals().real_of(real.from), REAL + 10 * MIN + 7 * S);
    assert_eq!(reader.parts()[0].summary.lanes[0].cells.len(), 301, "5 minutes and the second that is cut");
    assert_eq!(reader.frames()[0].facts.kind, FrameKind::Head);
    assert!(verify(&taken.file.path, &mut |_, _| {}).unwrap().is_whole());
    let name = taken.file.path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name, "20261130T120507Z-000021-five_minutes.pftrace.zst");
    assert_eq!(fs::metadata(&taken.file.path).unwrap().permissions().mode() & 0o777 & !0o640, 0);
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!((catalog.segments().len(), catalog.snapshots().len()), (20, 1), "segments stay as they are");
}

#[test]
fn the_growing_segment_is_taken_as_its_writer_knows_it() {
    let (_tmp, store) = store();
    let plans = record_row(&store, Plan::default(), 2);
    let now = Plan { frames: 20, ..plans[1].next() };
    let mut writer = now.begin(&store);
    let catalog = Catalog::open(&store).unwrap();
    let wanted = request(plans[1].start + 30 * S, now.end() + 5 * S, "x");
    let growing = writer.growing(now.totals(), now.summary());
    let planned = plan(&catalog, Some(growing), wanted.clone()).unwrap();
    assert_eq!(planned.window(), Window { from: plans[1].start + 30 * S, to: now.end() });
    assert_eq!(planned.note().holes, [Window { from: now.end(), to: now.end() + 5 * S }]);
    // The segment is finished, renamed and deleted before the copy: the plan holds it open.
    let done = writer.finish(now.totals(), now.summary()).unwrap();
    fs::remove_file(done.path).unwrap();
    let taken = planned.write(&store, &now.head(), 3).unwrap();
    assert_eq!(plain_events(&taken).len(), (60 + 20) * 10);
    // Without a recorder the left file is scanned and gives the same events.
    let tmp = tempfile::tempdir().unwrap();
    let other = Store::create(tmp.path()).unwrap();
    record_row(&other, Plan::default(), 2);
    drop(now.begin(&other));
    assert_eq!(plain_events(&take(&other, wanted).unwrap()), plain_events(&taken));
}

#[test]
fn a_segment_renamed_between_asking_and_opening_is_found_under_its_new_name() {
    let (_tmp, store) = store();
    let now = Plan { frames: 20, ..Plan::default() };
    let mut writer = now.begin(&store);
    let growing = writer.growing(now.totals(), now.summary());
    writer.finish(now.totals(), now.summary()).unwrap();
    let catalog = Catalog::open(&store).unwrap();
    let planned = plan(&catalog, Some(growing), request(now.start, now.end(), "x")).unwrap();
    let taken = planned.write(&store, &now.head(), 3).unwrap();
    assert_eq!(plain_events(&taken).len(), 200, "once, not twice");
}

#[test]
fn holes_between_segments_are_in_the_metadata() {
    let (_tmp, store) = store();
    let first = Plan::default();
    let later = Plan { start: first.end() + 2 * MIN, ..first };
    first.record(&store);
    later.record(&store);
    let taken = take(&store, request(first.start - 10 * S, later.end(), "x")).unwrap();
    let hole = Window { from: first.end(), to: later.start };
    let note = taken.totals.snapshot.clone().unwrap();
    assert_eq!(note.holes, [Window { from: first.start - 10 * S, to: first.start }, hole]);
    assert_eq!(taken.totals.gaps, [hole]);
}

#[test]
fn nothing_in_the_window_is_an_error_and_leaves_no_file() {
    let (_tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    for wanted in [
        request(0, first.start, "before"),
        request(first.end(), first.end() + S, "after"),
        Request { boot: BootId([9; 16]), ..request(first.start, first.end(), "another boot") },
    ] {
        assert!(matches!(take(&store, wanted), Err(StoreError::EmptyWindow { .. })));
    }
    assert_eq!(fs::read_dir(store.snapshots_dir()).unwrap().count(), 0);
}

#[test]
fn a_label_cannot_leave_the_folder() {
    let (tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    for label in ["../../out", "/abs", "a/b", "..", "\0", "x\n\u{1b}[2J", &"long ".repeat(100)] {
        let taken = take(&store, request(first.start, first.end(), label)).unwrap();
        assert_eq!(taken.file.path.parent(), Some(store.snapshots_dir().as_path()), "{label:?}");
        assert_eq!(taken.totals.snapshot.as_ref().unwrap().label, label, "the footer keeps the words as given");
    }
    let outside: Vec<_> = fs::read_dir(tmp.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(outside.len(), 3, "segments, snapshots, sequence: {outside:?}");
}

#[test]
fn nobody_sees_a_snapshot_before_it_is_on_the_disk() {
    let (_tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    let names = || fs::read_dir(store.snapshots_dir()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let prepare = || {
        let planned = plan(&Catalog::open(&store).unwrap(), None, request(first.start, first.end(), "x")).unwrap();
        planned.prepare(&store, &first.head(), 3).unwrap()
    };
    let prepared = prepare();
    assert!(names().all(|n| n.ends_with(".part")) && names().count() == 1);
    assert_eq!(Catalog::open(&store).unwrap().snapshots().len(), 0);
    let taken = prepared.publish().unwrap();
    assert_eq!(Catalog::open(&store).unwrap().snapshots().len(), 1);
    assert!(verify(&taken.file.path, &mut |_, _| {}).unwrap().is_whole());
    drop(prepare());
    assert_eq!(names().count(), 1, "one that was given up leaves nothing");
}

#[test]
fn a_snapshot_is_seen_whole_before_the_disk_has_it() {
    let (_tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    let planned = plan(&Catalog::open(&store).unwrap(), None, request(first.start, first.end(), "x")).unwrap();
    let (taken, still) = planned.prepare(&store, &first.head(), 3).unwrap().show().unwrap();
    assert_eq!(Catalog::open(&store).unwrap().snapshots().len(), 1);
    assert!(verify(&taken.file.path, &mut |_, _| {}).unwrap().is_whole());
    let none = recover(&store, &mut || Box::new(PacketProbe::new())).unwrap();
    assert!(none.is_empty(), "{none:?}");
    still.settle().unwrap();
    assert!(verify(&taken.file.path, &mut |_, _| {}).unwrap().is_whole());
}

/// What a file system may leave of a snapshot that was shown when the power went: nothing of it, a part, or zeros in it.
#[test]
fn a_snapshot_that_a_power_cut_tore_is_never_taken_for_whole() {
    let (_tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    let taken = take(&store, request(first.start, first.end(), "x")).unwrap();
    let (path, whole) = (taken.file.path.clone(), fs::read(&taken.file.path).unwrap());
    let frames = SegmentReader::open(&path).unwrap().frames().to_vec();
    let recovered = || recover(&store, &mut || Box::new(PacketProbe::new())).unwrap();
    let mut blocks: Vec<usize> = (0..whole.len()).step_by(4096).skip(1).collect();
    blocks.push(whole.len() - 1);
    for cut in blocks {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(!verify(&path, &mut |_, _| {}).unwrap().is_whole(), "cut at {cut}");
        let done = recovered();
        let left = frames.iter().filter(|f| f.offset + f.compressed <= cut as u64).count();
        match &done[0].outcome {
            Outcome::Finished { frames, totals, .. } => {
                assert_eq!((*frames, totals.ending), (left, Ending::Recovered), "cut at {cut}");
                assert!(verify(&path, &mut |_, _| {}).unwrap().is_whole(), "cut at {cut}");
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
    // Nothing of it: the name stands for nothing, and goes.
    fs::write(&path, b"").unwrap();
    assert!(!verify(&path, &mut |_, _| {}).unwrap().is_whole());
    assert!(matches!(recovered()[0].outcome, Outcome::Deleted { bytes: 0 }));
    assert!(!path.exists());
    // Zeros before its end: the frames behind them are whole, so it stays as it is.
    let middle = &frames[frames.len() / 2];
    let mut holed = whole.clone();
    holed[middle.offset as usize..(middle.offset + middle.compressed) as usize].fill(0);
    for end in [whole.len(), whole.len() - 1] {
        fs::write(&path, &holed[..end]).unwrap();
        assert!(!verify(&path, &mut |_, _| {}).unwrap().is_whole());
        let done = recovered();
        assert!(done.iter().all(|d| matches!(d.outcome, Outcome::Left(_))), "{done:?}");
        assert_eq!(fs::read(&path).unwrap(), &holed[..end], "not touched");
    }
}

#[test]
fn a_snapshot_to_a_file_of_ones_own() {
    let (tmp, store) = store();
    let first = Plan::default();
    first.record(&store);
    let path = tmp.path().join("mine.pftrace.zst");
    fs::write(&path, b"what stood here before").unwrap();
    let planned = plan(&Catalog::open(&store).unwrap(), None, request(first.start, first.end(), "x")).unwrap();
    let taken = planned.write_file(&path, &first.head(), 3).unwrap();
    assert_eq!(taken.file.path, path);
    assert_eq!(plain_events(&taken).len(), 1200);
    assert!(!tmp.path().join("mine.pftrace.zst.part").exists());
}

#[test]
fn a_source_that_lost_bytes_gives_an_error_and_no_half_snapshot() {
    let (_tmp, store) = store();
    let first = Plan::default();
    let done = first.record(&store);
    let planned = plan(&Catalog::open(&store).unwrap(), None, request(first.start, first.end(), "x")).unwrap();
    File::options().write(true).open(&done.path).unwrap().set_len(done.bytes / 2).unwrap();
    let error = planned.write(&store, &first.head(), 3).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(fs::read_dir(store.snapshots_dir()).unwrap().count(), 0);
}
