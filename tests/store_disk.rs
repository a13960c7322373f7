//! Disks that fill up and files that cannot be deleted (CASES 62, 63, 64).
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::store::catalog::Catalog;
use dashcam::store::index::FrameFacts;
use dashcam::store::reader::SegmentReader;
use dashcam::store::retention::{Clocks, Limits, Reason, sweep};
use dashcam::store::snapshot::{Request, plan};
use dashcam::store::writer::SegmentWriter;
use dashcam::store::{Store, StoreError, layout};
use std::fs;
use std::path::Path;
use store_support::{BOOT, MIN, Plan, REAL, S, record_row};

/// A real file system of 1 MiB in a private folder; unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags = nix::mount::MsFlags::MS_NOSUID | nix::mount::MsFlags::MS_NODEV;
        nix::mount::mount(Some("tmpfs"), dir.path(), Some("tmpfs"), flags, Some("size=1m"))
            .expect("mounting a tmpfs needs root");
        Tmpfs(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Bytes that no compressor makes smaller, as a frame.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let raw: Vec<u8> = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    })
    .take(len)
    .collect();
    let mut out = Vec::new();
    dashcam::store::frame::FrameCompressor::new(1).unwrap().compress(&raw, &mut out).unwrap();
    out
}

/// Writes 64 KiB frames until the disk is full; returns how many were kept.
fn fill(writer: &mut SegmentWriter) -> usize {
    for n in 0.. {
        match writer.write_frame(&noise(65_536, n), 65_536, FrameFacts::default()) {
            Ok(()) => {}
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return n as usize;
            }
        }
    }
    unreachable!("the disk has 1 MiB")
}

#[test]
fn case_62_a_real_full_disk_mid_segment_and_space_that_returns() {
    let disk = Tmpfs::mount();
    let store = Store::create(disk.path()).unwrap();
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0u8; 300 << 10]).unwrap();
    let plan = Plan { frames: 2, ..Plan::default() };
    let mut writer = plan.begin(&store);
    let kept = fill(&mut writer);
    assert!((5..16).contains(&kept), "{kept} frames of 64 KiB in what 1 MiB leaves");
    let whole = writer.bytes();
    assert_eq!(fs::metadata(writer.path()).unwrap().len(), whole, "cut back to the last good frame");
    assert!(matches!(
        writer.write_frame(&noise(65_536, 99), 65_536, FrameFacts::default()),
        Err(StoreError::NoSpace { .. })
    ));
    let reader = SegmentReader::open(writer.path()).unwrap();
    assert_eq!(
        (reader.damage(), reader.frames().len()),
        (None, 3 + kept),
        "what is there is whole while the disk is full"
    );
    fs::remove_file(&ballast).unwrap();
    writer.write_frame(&noise(65_536, 100), 65_536, FrameFacts::default()).unwrap();
    let done = writer.finish(plan.totals(), plan.summary()).unwrap();
    let reader = SegmentReader::open(&done.path).unwrap();
    assert_eq!((reader.damage(), reader.frames().len()), (None, 4 + kept), "and goes on in the same segment");
}

#[test]
fn case_63_a_disk_that_is_full_at_start_and_frees_up_two_segments_later() {
    let disk = Tmpfs::mount();
    let store = Store::create(disk.path()).unwrap();
    let ballast = disk.path().join("ballast");
    let mut full = 2 << 20;
    while full > 0 && fs::write(&ballast, vec![1u8; full]).is_err() {
        full -= 4096;
    }
    // Two segments in a row keep nothing and cost no number twice.
    for _ in 0..2 {
        let mut writer = SegmentWriter::create(&store, REAL).unwrap();
        assert!(writer.write_frame(&noise(8192, 1), 8192, FrameFacts::default()).unwrap_err().is_full());
        writer.discard();
    }
    assert!(store.segments().unwrap().is_empty());
    fs::remove_file(&ballast).unwrap();
    let done = Plan { frames: 2, ..Plan::default() }.record(&store);
    assert!(done.sequence >= 1);
    assert_eq!(Catalog::open(&store).unwrap().segments().len(), 1);
}

#[test]
fn case_62_a_snapshot_that_does_not_fit_leaves_nothing_behind() {
    let disk = Tmpfs::mount();
    let store = Store::create(disk.path()).unwrap();
    let plan_ = Plan { frames: 2, ..Plan::default() };
    let mut writer = plan_.begin(&store);
    for n in 0..9 {
        let facts = FrameFacts { complete_through: plan_.end() + n + 1, ..FrameFacts::default() };
        writer.write_frame(&noise(65_536, n), 65_536, facts).unwrap();
    }
    writer.finish(plan_.totals(), plan_.summary()).unwrap();
    let window = dashcam::sched::summary::Window { from: plan_.start, to: plan_.end() + 100 };
    let (reason, detail, label) = ("key".to_owned(), String::new(), String::new());
    let request = Request { boot: BOOT, window, reason, detail, label, requested_at: plan_.end() };
    let planned = plan(&Catalog::open(&store).unwrap(), None, request).unwrap();
    let error = planned.write(&store, &plan_.head(), 3).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(fs::read_dir(store.snapshots_dir()).unwrap().count(), 0);
}

fn clocks(now: u64) -> Clocks {
    Clocks { boot: BOOT, now, real_at_boot: REAL - 1000 * S }
}

#[test]
fn case_64_a_hundred_segments_by_size_with_one_that_cannot_be_deleted() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    // A folder under a segment's name cannot be unlinked, not even by root.
    let stuck = store.segments_dir().join("20261130T000000Z-000000.pftrace.zst");
    fs::create_dir(&stuck).unwrap();
    fs::write(stuck.join("x"), b"x").unwrap();
    let plans = record_row(&store, Plan { frames: 2, step: 30 * S, ..Plan::default() }, 100);
    let growing = plans[99].next().begin(&store);
    let snapshot = store.snapshots_dir().join("20261130T115500Z-000900-keep.pftrace.zst");
    fs::write(&snapshot, b"kept").unwrap();
    let mut catalog = Catalog::open(&store).unwrap();
    let before = store.disk_usage().unwrap();
    let each = layout::bytes_on_disk(&catalog.segments()[1].path);
    let limits = Limits { max_bytes: Some(before.segments + before.snapshots - 10 * each), ..Limits::default() };
    let done = sweep(&store, &mut catalog, &limits, &clocks(plans[99].end())).unwrap();
    assert_eq!(done.failed.len(), 1, "{:?}", done.failed);
    let gone: Vec<u64> = done.deleted.iter().map(|d| sequence(&d.0)).collect();
    assert_eq!(gone, (1..=10).collect::<Vec<_>>(), "the stuck one still counts, so the ten after it went");
    assert!(done.deleted.iter().all(|d| d.2 == Reason::Size && d.1 == each));
    // What is free on this disk changes with whatever else the machine does, so it is not compared.
    let now = store.disk_usage().unwrap();
    assert_eq!((done.usage.segments, done.usage.snapshots), (now.segments, now.snapshots));
    assert!(done.usage.segments + done.usage.snapshots <= limits.max_bytes.unwrap());
    // Nothing may be kept: the growing segment and the snapshot stay all the same.
    let nothing = Limits { max_bytes: Some(0), max_age: Some(0), min_free: Some(u64::MAX) };
    sweep(&store, &mut catalog, &nothing, &clocks(plans[99].end() + MIN)).unwrap();
    let left: Vec<_> = store.segments().unwrap().into_iter().map(|f| f.path).collect();
    assert_eq!(left, [stuck, growing.path().to_owned()]);
    assert!(snapshot.exists());
}

#[test]
fn case_64_age_is_measured_to_the_nanosecond_on_the_boot_clock() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let plans = record_row(&store, Plan { frames: 2, step: 30 * S, ..Plan::default() }, 5);
    let mut catalog = Catalog::open(&store).unwrap();
    let limits = Limits { max_age: Some(3 * MIN), ..Limits::default() };
    let none = sweep(&store, &mut catalog, &limits, &clocks(plans[0].end() + 3 * MIN)).unwrap();
    assert!(none.deleted.is_empty(), "exactly as old as allowed");
    let one = sweep(&store, &mut catalog, &limits, &clocks(plans[0].end() + 3 * MIN + 1)).unwrap();
    assert_eq!(one.deleted.iter().map(|d| (sequence(&d.0), d.2)).collect::<Vec<_>>(), [(1, Reason::Age)]);
    assert_eq!(catalog.segments().len(), 4, "the catalog knows");
}

#[test]
fn case_64_free_space_of_a_real_disk_is_kept() {
    let disk = Tmpfs::mount();
    let store = Store::create(disk.path()).unwrap();
    let plans = record_row(&store, Plan { frames: 2, step: 30 * S, ..Plan::default() }, 40);
    let mut catalog = Catalog::open(&store).unwrap();
    let free = store.disk_usage().unwrap().free;
    let limits = Limits { min_free: Some(free + 5 * 4096), ..Limits::default() };
    let done = sweep(&store, &mut catalog, &limits, &clocks(plans[39].end())).unwrap();
    assert_eq!(done.deleted.len(), 5, "each takes one page of the tmpfs");
    assert!(done.deleted.iter().all(|d| d.2 == Reason::Free));
    assert!(done.usage.free >= limits.min_free.unwrap());
}

fn sequence(path: &Path) -> u64 {
    dashcam::store::name::SegmentName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap().sequence
}
