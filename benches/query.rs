//! From a segment on disk to the first row of an answer.
//!
//! `cargo bench --bench query`. The events are real (hackbench on two busy CPUs), repeated in time until there are enough
//! of them, and written as a segment: zstd frames of whole packets with watermarks and a footer.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/hackbench_support/mod.rs"]
mod hackbench_support;
#[path = "../tests/machine_support/mod.rs"]
mod machine_support;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dashcam::feed::{self, Lives};
use dashcam::query::engine::Rows;
use dashcam::query::load::{Kept, Loaded, Request, load};
use dashcam::query::rehearsal::rehearse;
use dashcam::query::{Columns, Engine, Keep};
use dashcam::sched::event::Event;
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use rusqlite::types::ValueRef;

/// Events of a frame: what 256 KiB of packets hold.
const FRAME: usize = 28_000;
const EVENTS: usize = 2_000_000;

/// Writes a segment of about [`EVENTS`] events; says how many it has and what time it covers.
fn segment(dir: &Path) -> (PathBuf, usize, Window) {
    let (once, names) = hackbench_support::events();
    let span = once.last().unwrap().ts - once[0].ts + 1000;
    let repeats = EVENTS.div_ceil(once.len());
    let mut all: Vec<Event> = Vec::with_capacity(repeats * once.len());
    for n in 0..repeats as u64 {
        all.extend(once.iter().map(|e| Event { ts: e.ts + n * span, ..*e }));
    }
    let window = Window { from: all[0].ts, to: all.last().unwrap().ts + 1 };
    let path = hackbench_support::segment(&Store::create(dir).unwrap(), &all, &names, window, FRAME);
    (path, all.len(), window)
}

fn read(path: &Path, window: Option<Window>, kept: Kept) -> Loaded {
    let request = Request { paths: vec![path.to_owned()], window, kept, ..Request::default() };
    let survey = feed::survey(&request.paths).unwrap();
    load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap()
}

const GROUP: &str = "SELECT utid, SUM(dur) FROM sched GROUP BY utid";

/// Ends the answer after its first row.
struct First;

impl Rows for First {
    fn begin(&mut self, _: &[String]) -> std::io::Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &[ValueRef<'_>]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
    fn end(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// As `dashcam query` does it: what the statement needs, the file, the first row.
fn first_row(path: &Path) {
    let kept = rehearse(GROUP).unwrap().kept;
    let mut engine = Engine::open(Arc::new(read(path, None, kept).columns)).unwrap();
    assert!(engine.run(GROUP, &mut First).unwrap_err().is_broken_pipe());
}

fn all_rows(path: &Path) -> usize {
    let kept = rehearse(GROUP).unwrap().kept;
    let mut engine = Engine::open(Arc::new(read(path, None, kept).columns)).unwrap();
    engine.answer(GROUP, None).unwrap().rows.len()
}

fn query(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let (path, events, window) = segment(dir.path());
    let states = Kept::states(Keep::Nothing);
    let loaded = read(&path, None, states);
    assert_eq!(loaded.events, events as u64);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let per_event = |columns: &Columns| columns.bytes() as f64 / events as f64;
    let running = read(&path, None, rehearse(GROUP).unwrap().kept).columns;
    println!(
        "{events} events, {:.2} bytes an event on disk, {:.1} in memory, {:.1} for sched alone; {} slices",
        bytes as f64 / events as f64,
        per_event(&loaded.columns),
        per_event(&running),
        running.sched.len(),
    );
    drop(running);
    let mut group = c.benchmark_group("query");
    group.sample_size(10).throughput(Throughput::Elements(events as u64));
    group.bench_function("file to columns", |b| b.iter(|| black_box(read(&path, None, states).events)));
    group.bench_function("file to first row of GROUP BY utid", |b| b.iter(|| first_row(&path)));
    group.bench_function("file to last row of GROUP BY utid", |b| b.iter(|| black_box(all_rows(&path))));
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
            let mut engine = Engine::open(Arc::new(read(&path, Some(part), states).columns)).unwrap();
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

/// A day of segments, and what one thread did within a tenth of a second of it: as `dashcam query` does it.
fn a_day(c: &mut Criterion) {
    use machine_support::{BEGIN, MS, S, Story, record};
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Story { segments: 1440, segment: 60 * S, pace: 50 * MS, seed: 1, silent: 0 });
    let paths = vec![dir.path().to_owned()];
    let at = BEGIN + 43_230 * S;
    let sql = format!("SELECT ts, dur, cpu FROM sched WHERE utid = 3 AND ts BETWEEN {at} AND {}", at + 100 * MS);
    let ask = || {
        let needs = rehearse(&sql).unwrap();
        let survey = feed::survey(&paths).unwrap();
        let lives = Lives::read(&paths).unwrap();
        let (kept, lives, rows) = (needs.kept, lives.as_ref(), needs.rows.as_ref());
        let request = Request { paths: paths.clone(), window: None, kept, lives, rows };
        let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
        let (frames, lives) = (loaded.frames, lives.map_or(0, |l| l.threads.len()));
        let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
        (engine.answer(&sql, None).unwrap().rows.len(), frames, lives)
    };
    let (rows, (read, all), lives) = ask();
    println!("{rows} rows from {read} of {all} frames of a day with {lives} lives");
    let mut group = c.benchmark_group("query a day");
    group.sample_size(10);
    group.bench_function("one thread, a tenth of a second", |b| b.iter(|| black_box(ask().0)));
    group.finish();
}

criterion_group!(benches, query, a_day);
criterion_main!(benches);
