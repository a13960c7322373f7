//! What an operator waits for: the list of a day, and a snapshot. `cargo bench --bench store`.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use dashcam::sched::event::ClockSnapshot;
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::catalog::Catalog;
use dashcam::store::footer::{BootId, CpuLane, Summary, SummaryCell, Totals, WorstWait};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::snapshot::{Request, plan};
use dashcam::store::writer::SegmentWriter;
use std::hint::black_box;

const S: u64 = 1_000_000_000;
const BOOT: BootId = BootId([1; 16]);
const CPUS: u32 = 16;

/// A segment of 120 frames of `bytes` incompressible bytes each, with a footer as 16 CPUs give.
fn record(store: &Store, minute: u64, frame: &[u8]) {
    let start = (minute + 1) * 60 * S;
    let clock = ClockSnapshot { boot: start, mono: start, real: start + (1 << 60), tai: 0, zone_offset_minutes: None };
    let mut writer = SegmentWriter::create(store, clock.real).unwrap();
    for i in 0..120 {
        let complete_through = start + (i + 1) * S / 2;
        let span = Some((complete_through - S / 2, complete_through - 1));
        let events = (0..CPUS).map(|cpu| (cpu, 1000 + u64::from(cpu))).collect();
        let facts = FrameFacts { kind: FrameKind::Data, span, complete_through, events, loss: Vec::new() };
        writer.write_frame(frame, frame.len(), facts).unwrap();
    }
    let cell = SummaryCell { busy: Some(0.42), ready: 2, blocked: 1, worst_wait: 4_100_000, ..SummaryCell::default() };
    let lanes = (0..CPUS).map(|cpu| CpuLane { cpu, cells: vec![cell; 60] }).collect();
    let worst_wait = Some(WorstWait { dur: 4_100_000, at: start, tid: 48213, name: b"pt_loader:0".to_vec() });
    let totals = Totals { boot: BOOT, start, end: start + 60 * S, clock, cpus: CPUS, worst_wait, ..Totals::default() };
    writer.finish(totals, Summary { start, step: S, lanes, marks: Vec::new() }).unwrap();
}

fn noise(len: usize) -> Vec<u8> {
    let mut x = 88_172_645_463_325_252u64;
    let raw: Vec<u8> = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    })
    .take(len)
    .collect();
    let mut frame = Vec::new();
    FrameCompressor::new(1).unwrap().compress(&raw, &mut frame).unwrap();
    frame
}

fn day(c: &mut Criterion) {
    // fsync costs nothing in memory, and opening is measured from the page cache either way.
    let memory = std::path::Path::new("/dev/shm");
    let tmp = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let frame = noise(100);
    (0..1440).for_each(|minute| record(&store, minute, &frame));
    c.bench_function("open a day: totals of 1,440 footers", |b| {
        b.iter(|| {
            let catalog = Catalog::open(&store).unwrap();
            assert_eq!(catalog.segments().iter().filter(|s| s.totals.is_some()).count(), 1440);
        });
    });
    let mut catalog = Catalog::open(&store).unwrap();
    c.bench_function("refresh a day that did not change", |b| b.iter(|| catalog.refresh().unwrap()));
    c.bench_function("draw a day: 1,440 summaries of 16 CPUs", |b| {
        b.iter(|| (0..1440).for_each(|i| drop(black_box(catalog.summary(i).unwrap()))));
    });
}

fn snapshot(c: &mut Criterion) {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let frame = noise(100_000); // 12 MB a minute: some 100,000 events a second
    (0..10).for_each(|minute| record(&store, minute, &frame));
    let window = Window { from: 3 * 60 * S + 7, to: 8 * 60 * S + 7 };
    c.bench_function("snapshot of 5 minutes, 60 MB, on disk", |b| {
        b.iter_batched(
            || {
                for old in store.snapshots().unwrap() {
                    std::fs::remove_file(old.path).unwrap();
                }
            },
            |()| {
                let catalog = Catalog::open(&store).unwrap();
                let (reason, detail, label) = ("key".to_owned(), String::new(), "bench".to_owned());
                let request = Request { boot: BOOT, window, reason, detail, label, requested_at: window.to };
                plan(&catalog, None, request).unwrap().prepare(&store, b"", 3).unwrap().publish().unwrap()
            },
            criterion::BatchSize::PerIteration,
        );
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = day, snapshot
}
criterion_main!(benches);
