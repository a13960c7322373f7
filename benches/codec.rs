//! What an event costs to encode, compress and decode, and how many bytes it takes; the aims stand in ARCHITECTURE.md.
//!
//! The stream is like hackbench on two CPUs: 160 threads in a few groups, one wake-up for nearly every switch,
//! distances between events spread as they were measured there.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::BundleBuilder;
use dashcam::sched::event::Item;
use std::hint::black_box;

const EVENTS: usize = 100_000;
/// Events in a bundle: about what 500 ms hold at 20,000 events a second and CPU.
const BUNDLE: usize = 8_000;
const FRAME: usize = 256 << 10;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// Nanoseconds to the next event of the same kind: deciles measured under hackbench, evenly filled between.
    fn distance(&mut self) -> u64 {
        const DECILES: [u64; 11] = [800, 2354, 2785, 3497, 4288, 5330, 7444, 9167, 13_155, 42_400, 90_000];
        let i = self.below(10) as usize;
        DECILES[i] + self.below(DECILES[i + 1] - DECILES[i])
    }
}

enum Row {
    Switch { ts: u64, state: i64, tid: i32, comm: [u8; 16] },
    Waking { ts: u64, tid: i32, cpu: i32, comm: [u8; 16], flags: u8 },
}

/// The rows of one CPU.
fn rows() -> Vec<Row> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut comms = [[0u8; 16]; 3];
    for (comm, text) in comms.iter_mut().zip(["hackbench", "swapper/0", "kworker/0:1"]) {
        comm[..text.len()].copy_from_slice(text.as_bytes());
    }
    let mut ts = 2_318_968_193_031;
    let mut out = Vec::with_capacity(EVENTS);
    let mut woken = 14_000;
    while out.len() < EVENTS {
        ts += random.distance() / 2;
        let comm = if random.below(40) == 0 { comms[1 + random.below(2) as usize] } else { comms[0] };
        if random.below(100) < 47 {
            woken = 14_000 + random.below(160) as i32;
            let flags = if random.below(50) == 0 { 16 } else { 0 };
            out.push(Row::Waking { ts, tid: woken, cpu: random.below(2) as i32, comm, flags });
        } else {
            // Threads run more or less in the order in which they were woken.
            let tid = if random.below(3) > 0 { woken } else { 14_000 + random.below(160) as i32 };
            out.push(Row::Switch { ts, state: [1, 1, 1, 1, 0x100, 0][random.below(6) as usize], tid, comm });
        }
    }
    out
}

fn encode(rows: &[Row], builder: &mut BundleBuilder, out: &mut Vec<u8>) {
    for row in rows {
        match row {
            Row::Switch { ts, state, tid, comm } => builder.switch(*ts, *state, *tid, 120, comm),
            Row::Waking { ts, tid, cpu, comm, flags } => builder.waking(*ts, *tid, *cpu, 120, comm, *flags),
        }
        if builder.len() >= BUNDLE {
            builder.finish(0, None, out);
        }
    }
    builder.finish(0, None, out);
}

fn compress(plain: &[u8], compressor: &mut zstd::bulk::Compressor<'_>) -> usize {
    plain.chunks(FRAME).map(|frame| compressor.compress(frame).map_or(0, |z| z.len())).sum()
}

fn codec(c: &mut Criterion) {
    let rows = rows();
    let mut plain = Vec::new();
    let mut builder = BundleBuilder::new();
    encode(&rows, &mut builder, &mut plain);
    let mut compressor = zstd::bulk::Compressor::new(3).expect("zstd has level 3");
    let compressed = compress(&plain, &mut compressor);
    let per_event = |bytes: usize| bytes as f64 / rows.len() as f64;
    println!("bytes an event: plain {:.3}, zstd level 3 {:.3}", per_event(plain.len()), per_event(compressed));

    let mut group = c.benchmark_group("codec");
    group.throughput(Throughput::Elements(rows.len() as u64));
    let mut out = Vec::new();
    group.bench_function("encode", |b| {
        b.iter(|| {
            out.clear();
            encode(&rows, &mut builder, &mut out);
            black_box(out.len())
        });
    });
    group.bench_function("encode and zstd level 3", |b| {
        b.iter(|| {
            out.clear();
            encode(&rows, &mut builder, &mut out);
            black_box(compress(&out, &mut compressor))
        });
    });
    group.bench_function("decode", |b| {
        let mut names = NameTable::new();
        b.iter(|| {
            let mut sum = 0u64;
            let mut count = |item: Item| {
                if let Item::Event(event) = item {
                    sum = sum.wrapping_add(event.ts);
                }
            };
            Decoder::new().decode(&plain, &mut names, &mut count).expect("what was encoded decodes");
            black_box(sum)
        });
    });
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
