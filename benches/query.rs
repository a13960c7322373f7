//! From a segment on disk to the first row of an answer.
//!
//! `cargo bench --bench query`. The events are real (hackbench on two busy CPUs), repeated in time until there are enough
//! of them, and written as a segment: zstd frames of whole packets with watermarks and a footer.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dashcam::feed;
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::query::load::{Loaded, Request, load};
use dashcam::query::{Engine, Keep};
use dashcam::sched::event::{ClockSnapshot, Event, EventKind, Item};
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::footer::{BootId, Summary, Totals};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::probe::identity;
use dashcam::store::writer::SegmentWriter;

const TRACE: &[u8] = include_bytes!("../tests/fixtures/perfetto/hackbench.pftrace.zst");
/// Events of a frame: what 256 KiB of packets hold.
const FRAME: usize = 28_000;
const EVENTS: usize = 2_000_000;

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

/// Writes a segment of about [`EVENTS`] events; says how many it has and what time it covers.
fn segment(dir: &Path) -> (PathBuf, usize, Window) {
    let (once, names) = events();
    let span = once.last().unwrap().ts - once[0].ts + 1000;
    let repeats = EVENTS.div_ceil(once.len());
    let mut all: Vec<Event> = Vec::with_capacity(repeats * once.len());
    for n in 0..repeats as u64 {
        all.extend(once.iter().map(|e| Event { ts: e.ts + n * span, ..*e }));
    }
    let window = Window { from: all[0].ts, to: all.last().unwrap().ts + 1 };
    let clock = |boot| ClockSnapshot {
        boot,
        mono: boot,
        real: 1_700_000_000_000_000_000 + boot,
        tai: 0,
        zone_offset_minutes: None,
    };
    let boot = BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb");
    let mut writer = SegmentWriter::create(&Store::create(dir).unwrap(), clock(window.from).real).unwrap();
    let mut compressor = FrameCompressor::new(3).unwrap();
    let mut put = |packets: &[u8], facts: FrameFacts| {
        let mut frame = Vec::new();
        compressor.compress(packets, &mut frame).unwrap();
        writer.write_frame(&frame, packets.len(), facts).unwrap();
    };
    let mut head = Vec::new();
    packets::clocks(&clock(window.from), &mut head);
    identity(boot, "bench", window.from, &mut head);
    put(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
    let comm = |id| {
        let mut out = [0u8; 16];
        let bytes = names.bytes(id);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    };
    let mut builder = BundleBuilder::new();
    for (n, chunk) in all.chunks(FRAME).enumerate() {
        let mut data = Vec::new();
        let mut counts = Vec::new();
        for cpu in 0..2 {
            let mut count = 0;
            for e in chunk.iter().filter(|e| e.cpu == cpu) {
                count += 1;
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
            counts.push((cpu, count));
        }
        let through = all.get((n + 1) * FRAME).map_or(window.to, |e| e.ts);
        packets::complete_through(through, &mut data);
        let span = Some((chunk[0].ts, chunk.last().unwrap().ts));
        put(&data, FrameFacts { span, complete_through: through, events: counts, ..FrameFacts::default() });
    }
    let totals = Totals {
        boot,
        start: window.from,
        end: window.to,
        clock: clock(window.from),
        clock_end: clock(window.to),
        ..Totals::default()
    };
    (writer.finish(totals, Summary::default()).unwrap().path, all.len(), window)
}

fn read(path: &Path, window: Option<Window>) -> Loaded {
    let request = Request { paths: vec![path.to_owned()], window, keep: Keep::Nothing };
    let survey = feed::survey(&request.paths).unwrap();
    load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn query(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let (path, events, window) = segment(dir.path());
    let loaded = read(&path, None);
    assert_eq!(loaded.events, events as u64);
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!(
        "{events} events, {:.2} bytes an event on disk, {:.1} in memory",
        bytes as f64 / events as f64,
        loaded.columns.bytes() as f64 / events as f64
    );
    let mut group = c.benchmark_group("query");
    group.sample_size(10).throughput(Throughput::Elements(events as u64));
    group.bench_function("file to columns", |b| b.iter(|| black_box(read(&path, None).events)));
    const GROUP: &str = "SELECT utid, SUM(dur) FROM sched GROUP BY utid";
    group.bench_function("file to GROUP BY utid", |b| {
        b.iter(|| {
            let mut engine = Engine::open(Arc::new(read(&path, None).columns)).unwrap();
            black_box(engine.answer(GROUP, None).unwrap().rows.len())
        });
    });
    let columns = Arc::new(loaded.columns);
    group.bench_function("GROUP BY utid, loaded", |b| {
        b.iter(|| {
            let mut engine = Engine::open(Arc::clone(&columns)).unwrap();
            black_box(engine.answer(GROUP, None).unwrap().rows.len())
        });
    });
    group.finish();
    let mut group = c.benchmark_group("query a part");
    group.sample_size(20);
    let middle = window.from + (window.to - window.from) / 2;
    let part = Window { from: middle, to: middle + (window.to - window.from) / 100 };
    group.bench_function("1 % of the file, one thread", |b| {
        b.iter(|| {
            let mut engine = Engine::open(Arc::new(read(&path, Some(part)).columns)).unwrap();
            let sql = format!(
                "SELECT count(*), sum(dur) FROM sched WHERE utid = 3 AND ts BETWEEN {} AND {}",
                part.from, part.to
            );
            black_box(engine.answer(&sql, None).unwrap().rows.len())
        });
    });
    let mut engine = Engine::open(columns).unwrap();
    let sql =
        format!("SELECT count(*), sum(dur) FROM sched WHERE utid = 3 AND ts BETWEEN {} AND {}", part.from, part.to);
    group.bench_function("the same, loaded", |b| b.iter(|| black_box(engine.answer(&sql, None).unwrap().rows.len())));
    group.finish();
}

criterion_group!(benches, query);
criterion_main!(benches);
