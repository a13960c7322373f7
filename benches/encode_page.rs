//! Ring-buffer pages → packets, tracker included: ns per event on synthetic pages of two threads that wake each other over
//! two CPUs, as `perf bench sched pipe` does; as a kernel traces it, and as one does that leaves out the switches from
//! one CPU's idle thread. Compression and disk are not in it.
//!
//! `cargo bench --bench encode_page`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dashcam::kernel::events::{EventTable, TracedEvent};
use dashcam::kernel::format::EventFormat;
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::stats::CpuStats;
use dashcam::kernel::testing::{Kernel, PageWriter, SwitchRecord, WakingRecord};
use dashcam::recorder::blocked::Stacks;
use dashcam::recorder::encoder::{Encoder, EncoderParts, Page};
use dashcam::recorder::plan::Plan;
use dashcam::sched::state::StateLayout;

/// Turns of the two threads.
const TURNS: u64 = 20_000;

/// The pages of one CPU.
struct Lane {
    cpu: u32,
    writer: PageWriter,
    pages: Vec<Page>,
}

impl Lane {
    fn new(cpu: u32) -> Lane {
        Lane { cpu, writer: PageWriter::new(PageLayout::of_size(16 << 10), 0), pages: Vec::new() }
    }

    fn write(&mut self, ts: u64, record: &[u8]) {
        if !self.writer.data(ts, record) {
            let fresh = PageWriter::new(PageLayout::of_size(16 << 10), ts);
            let full = std::mem::replace(&mut self.writer, fresh);
            self.pages.push(Page { cpu: self.cpu, bytes: full.finish(), stats: None });
            assert!(self.writer.data(ts, record));
        }
    }
}

struct Workload {
    parts: fn() -> EncoderParts,
    pages: Vec<Page>,
    end: u64,
    events: u64,
}

fn formats() -> [EventFormat; 2] {
    [Kernel::V6_18.sched_switch(), Kernel::V6_18.sched_waking()].map(|text| EventFormat::parse(text).unwrap())
}

fn parts() -> EncoderParts {
    let mut table = EventTable::new();
    for format in formats() {
        table.insert(TracedEvent { group: "sched".into(), format });
    }
    EncoderParts {
        layout: PageLayout::of_size(16 << 10),
        plan: Plan::new(&table),
        states: StateLayout::SINCE_4_14.into(),
        stacks: Stacks::default(),
        hints: crossbeam_channel::bounded(16).0,
    }
}

/// `traced`: whether switches from CPU 1's idle thread are there.
fn ping_pong(traced: bool) -> Workload {
    let [switch, waking] = formats();
    let idle = |cpu: u32| if cpu == 0 { &b"swapper/0"[..] } else { b"swapper/1" };
    let name = &b"sched-pipe"[..];
    let mut lanes = [Lane::new(0), Lane::new(1)];
    let (mut ts, mut events) = (1_000_000_000, 0);
    for turn in 0..TURNS {
        let (me, other) = ((turn % 2) as u32, ((turn + 1) % 2) as u32);
        let (tid, target) = (1000 + me as i32, 1000 + other as i32);
        let lane = &mut lanes[me as usize];
        // Not a fixed rhythm: what the lengths of numbers are nobody can foresee.
        let step = 700 + (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54);
        let change = |prev_pid, prev_state, next_pid, prev_comm, next_comm| {
            let prio = 120;
            SwitchRecord { prev_comm, prev_pid, prev_prio: prio, prev_state, next_comm, next_pid, next_prio: prio }
                .encode(&switch)
        };
        if traced || me == 0 {
            lane.write(ts, &change(0, 0, tid, idle(me), name));
            events += 1;
        }
        let wake = WakingRecord { waker: tid, comm: name, pid: target, prio: 120, target_cpu: other as i32 };
        lane.write(ts + step, &wake.encode(&waking));
        lane.write(ts + 2 * step, &change(tid, 1, 0, name, idle(me)));
        events += 2;
        ts += 3 * step;
    }
    let mut pages = Vec::new();
    for mut lane in lanes {
        pages.append(&mut lane.pages);
        pages.push(Page { cpu: lane.cpu, bytes: lane.writer.finish(), stats: None });
    }
    Workload { parts, pages, end: ts, events }
}

impl Workload {
    fn ready(&self) -> Encoder {
        let cpus = [(0, CpuStats::default()), (1, CpuStats::default())];
        let mut encoder = Encoder::new((self.parts)(), &cpus, 0);
        for page in &self.pages {
            encoder.add_page(Page { cpu: page.cpu, bytes: page.bytes.clone(), stats: None });
        }
        encoder
    }

    /// Bytes of packets.
    fn encode(&self, encoder: &mut Encoder) -> usize {
        let (mut reached, mut raw, mut bytes) = (0, Vec::new(), 0);
        while reached < self.end {
            reached = encoder.run(reached, self.end);
            encoder.close_frame(reached, &mut raw);
            bytes += raw.len();
        }
        bytes
    }
}

fn encode_pages(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode pages");
    for (what, traced) in [("all switches traced", true), ("switches from one idle thread left out", false)] {
        let workload = ping_pong(traced);
        let mut encoder = workload.ready();
        let bytes = workload.encode(&mut encoder);
        assert_eq!(encoder.counts().events, workload.events);
        println!("{what}: {:.2} bytes an event before compression", bytes as f64 / workload.events as f64);
        group.throughput(Throughput::Elements(workload.events));
        group.bench_function(what, |b| {
            let run = |mut encoder: Encoder| {
                black_box(workload.encode(&mut encoder));
                encoder
            };
            b.iter_batched(|| workload.ready(), run, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, encode_pages);
criterion_main!(benches);
