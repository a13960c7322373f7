//! How fast events become intervals and intervals become answers.
//!
//! `cargo bench --bench fold`. The stream is synthetic: 8 CPUs, 400 threads that run, sleep and push each other off, as a
//! busy host does; switch and waking only. Nothing here needs root or a kernel.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dashcam::names::{NameId, NameTable};
use dashcam::sched::event::{Event, EventKind, Item, Switch, Wake};
use dashcam::sched::findings::Thresholds;
use dashcam::sched::fold::Folder;
use dashcam::sched::model::{Limits, Model};
use dashcam::sched::order::TimeOrder;
use dashcam::sched::state::TaskState;
use dashcam::sched::summary::{TrackId, Window};
use std::hint::black_box;

const CPUS: u32 = 8;
const THREADS: i32 = 400;

/// A stream in time order; `step` ns between events on average.
fn stream(events: usize, step: u64) -> Vec<Item> {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut running = [0i32; CPUS as usize];
    let mut asleep: Vec<i32> = (1..=THREADS).map(|i| 1000 + 3 * i).collect();
    let mut ready: Vec<i32> = Vec::new();
    let mut ts = 1_000_000_000;
    let mut items = Vec::with_capacity(events);
    while items.len() < events {
        ts += 1 + next(2 * step);
        let cpu = next(u64::from(CPUS)) as u32;
        let on = &mut running[cpu as usize];
        let wake = !asleep.is_empty() && (ready.is_empty() || next(2) == 0);
        let kind = if wake {
            let tid = asleep.swap_remove(next(asleep.len() as u64) as usize);
            ready.push(tid);
            EventKind::Waking(Wake { tid, prio: 120, comm: NameId(tid as u32), target_cpu: cpu })
        } else {
            let to = if ready.is_empty() { 0 } else { ready.swap_remove(next(ready.len() as u64) as usize) };
            if to == *on {
                continue;
            }
            let state = match (*on, next(8)) {
                (0, _) => TaskState::RUNNABLE,
                (_, 0) => TaskState::PREEMPTED,
                (_, 1) => TaskState::UNINTERRUPTIBLE,
                _ => TaskState::SLEEPING,
            };
            let from = std::mem::replace(on, to);
            match state {
                _ if from == 0 => {}
                TaskState::PREEMPTED => ready.push(from),
                _ => asleep.push(from),
            }
            EventKind::Switch(Switch {
                prev_tid: Some(from),
                prev_prio: None,
                prev_state: state,
                prev_state_raw: 1,
                next_tid: to,
                next_prio: 120,
                next_comm: NameId(to as u32),
            })
        };
        items.push(Item::Event(Event { ts, cpu, emitter: None, flags: 0, kind }));
    }
    items
}

fn folding(c: &mut Criterion) {
    let items = stream(2_000_000, 500);
    let mut group = c.benchmark_group("fold");
    group.sample_size(10).throughput(Throughput::Elements(items.len() as u64));
    group.bench_function("fold 2 M events", |b| {
        b.iter(|| {
            let mut folder = Folder::new();
            items.iter().for_each(|i| folder.push(i, &mut ()));
            folder.finish(&mut ());
            folder.stats().events
        });
    });
    group.bench_function("fold 2 M events into a model", |b| {
        b.iter_batched(
            || (),
            |()| {
                let mut model = Model::new(Limits::default());
                items.iter().for_each(|i| model.push(i));
                model.finish();
                model
            },
            BatchSize::PerIteration,
        );
    });
    // As a recorder writes: 1,000 events of each CPU in turn, then a watermark.
    let mut shuffled = Vec::with_capacity(items.len());
    for chunk in items.chunks(8_000) {
        for cpu in 0..CPUS {
            shuffled.extend(chunk.iter().filter(|i| matches!(i, Item::Event(e) if e.cpu == cpu)).cloned());
        }
        let Some(Item::Event(last)) = chunk.last() else { continue };
        shuffled.push(Item::CompleteThrough { ts: last.ts });
    }
    group.bench_function("order 2 M events", |b| {
        b.iter_batched(
            || shuffled.clone(),
            |items| {
                let mut order = TimeOrder::default();
                let mut n = 0u64;
                for item in items {
                    order.push(item, &mut |i| n += u64::from(matches!(black_box(i), Item::Event(_))));
                }
                order.flush(&mut |_| n += 1);
                n
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn answers(c: &mut Criterion) {
    // 10 M events are about 5 M running slices, over 50 s.
    let mut model = Model::new(Limits::default());
    stream(10_000_000, 5_000).iter().for_each(|i| model.push(i));
    model.finish();
    let names = NameTable::new();
    let all = model.bounds().unwrap();
    let second = Window { from: all.from + all.len() / 2, to: all.from + all.len() / 2 + 1_000_000_000 };
    let thresholds = Thresholds::default();
    let mut tracks: Vec<TrackId> = (0..CPUS).map(TrackId::Cpu).collect();
    tracks.extend((1..53).map(TrackId::Thread));
    let mut group = c.benchmark_group("answers");
    group.sample_size(10);
    for (what, window) in [("all 5 M slices", all), ("1 s of 5 M slices", second)] {
        group.bench_function(format!("overview, {what}"), |b| {
            b.iter(|| model.overview(window, 60, 20, &thresholds).threads.len());
        });
        group.bench_function(format!("lanes, {what}"), |b| {
            b.iter(|| model.lanes(window, 120).len());
        });
        group.bench_function(format!("time line of 60 tracks, {what}"), |b| {
            b.iter(|| model.timeline(window, 200, &tracks, &names).len());
        });
        group.bench_function(format!("one thread, {what}"), |b| {
            b.iter(|| model.thread(7, window, 100).unwrap().row.times.running);
        });
    }
    group.finish();
}

criterion_group!(benches, folding, answers);
criterion_main!(benches);
