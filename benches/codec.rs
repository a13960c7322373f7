//! What an event costs to encode, compress and decode, and how many bytes it takes.
//!
//! The events are real: `hackbench -p -T -g 5` on two busy CPUs, with kernel workers and compilers beside it, out
//! of `tests/fixtures/perfetto/hackbench.pftrace.zst`.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::BundleBuilder;
use dashcam::sched::event::{EventKind, Item};
use std::hint::black_box;

const TRACE: &[u8] = include_bytes!("../tests/fixtures/perfetto/hackbench.pftrace.zst");
/// Events of one CPU in one bundle: what a frame of 256 KiB holds of each of two CPUs.
const BUNDLE: usize = 14_000;
const FRAME: usize = 256 << 10;

enum Row {
    Switch { ts: u64, state: i64, tid: i32, prio: i32, comm: [u8; 16] },
    Waking { ts: u64, tid: i32, cpu: i32, prio: i32, comm: [u8; 16], flags: u8 },
}

/// The rows of each CPU, as the ring buffers had them.
fn rows() -> Vec<Vec<Row>> {
    let plain = zstd::stream::decode_all(TRACE).expect("the fixture is whole");
    let (mut names, mut items) = (NameTable::new(), Vec::new());
    Decoder::new().decode(&plain, &mut names, &mut |item| items.push(item)).expect("the fixture decodes");
    let comm = |id| {
        let mut out = [0u8; 16];
        let bytes = names.bytes(id);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    };
    let mut cpus: Vec<Vec<Row>> = vec![Vec::new(), Vec::new()];
    for item in items {
        let Item::Event(event) = item else { continue };
        let row = match event.kind {
            EventKind::Switch(s) => Row::Switch {
                ts: event.ts,
                state: s.prev_state_raw,
                tid: s.next_tid,
                prio: s.next_prio,
                comm: comm(s.next_comm),
            },
            EventKind::Waking(w) => Row::Waking {
                ts: event.ts,
                tid: w.tid,
                cpu: w.target_cpu as i32,
                prio: w.prio,
                comm: comm(w.comm),
                flags: event.flags,
            },
            _ => continue,
        };
        cpus[event.cpu as usize].push(row);
    }
    cpus
}

fn encode(cpus: &[Vec<Row>], builder: &mut BundleBuilder, out: &mut Vec<u8>) {
    for (cpu, rows) in cpus.iter().enumerate() {
        for bundle in rows.chunks(BUNDLE) {
            for row in bundle {
                match row {
                    Row::Switch { ts, state, tid, prio, comm } => builder.switch(*ts, *state, *tid, *prio, comm),
                    Row::Waking { ts, tid, cpu, prio, comm, flags } => {
                        builder.waking(*ts, *tid, *cpu, *prio, comm, *flags);
                    }
                }
            }
            builder.finish(cpu as u32, None, out);
        }
    }
}

fn compress(plain: &[u8], compressor: &mut zstd::bulk::Compressor<'_>) -> usize {
    plain.chunks(FRAME).map(|frame| compressor.compress(frame).map_or(0, |z| z.len())).sum()
}

fn codec(c: &mut Criterion) {
    let rows = rows();
    let events: usize = rows.iter().map(Vec::len).sum();
    let mut plain = Vec::new();
    let mut builder = BundleBuilder::new();
    encode(&rows, &mut builder, &mut plain);
    let mut compressor = zstd::bulk::Compressor::new(3).expect("zstd has level 3");
    let compressed = compress(&plain, &mut compressor);
    let per_event = |bytes: usize| bytes as f64 / events as f64;
    println!("bytes an event: plain {:.3}, zstd level 3 {:.3}", per_event(plain.len()), per_event(compressed));

    let mut group = c.benchmark_group("codec");
    group.throughput(Throughput::Elements(events as u64));
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
