//! Walking ring-buffer pages: ns per event on synthetic pages of switch and waking records, 68 and 40 bytes.
//!
//! `cargo bench --bench decode_page`. `walk` is the cursor alone; `fields` also reads what compact_sched needs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dashcam::kernel::format::{EventFormat, Field, Number};
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::records::{Cursor, Step};
use dashcam::kernel::testing::{Kernel, PageWriter, SwitchRecord, WakingRecord};

struct Page {
    layout: PageLayout,
    bytes: Vec<u8>,
    events: u64,
}

/// A full page: a waking, then a switch, 700 ns apart, as on a busy CPU.
fn page(size: usize, switch: &EventFormat, waking: &EventFormat) -> Page {
    let layout = PageLayout::of_size(size);
    let mut writer = PageWriter::new(layout, 1_000_000_000);
    let mut events = 0;
    loop {
        let pid = 1000 + (events % 8) as i32;
        let ts = writer.ts() + 700;
        let record = if events % 2 == 0 {
            WakingRecord { waker: pid, comm: b"hackbench", pid: pid + 1, prio: 120, target_cpu: 1 }.encode(waking)
        } else {
            let (prev_comm, next_comm) = (&b"hackbench"[..], &b"kworker/0:1"[..]);
            SwitchRecord {
                prev_comm,
                prev_pid: pid,
                prev_prio: 120,
                prev_state: 1,
                next_comm,
                next_pid: pid + 1,
                next_prio: 120,
            }
            .encode(switch)
        };
        if !writer.data(ts, &record) {
            return Page { layout, bytes: writer.finish(), events };
        }
        events += 1;
    }
}

fn walk(page: &Page) -> u64 {
    let mut cursor = Cursor::open(&page.layout, &page.bytes).unwrap();
    let mut sum = 0_u64;
    while let Step::Record(record) = cursor.next_before(&page.bytes, u64::MAX) {
        sum = sum.wrapping_add(record.ts ^ u64::from(record.id()));
    }
    sum
}

/// The places that compact_sched needs: three numbers and a name of each of the two events.
struct Places {
    switch: u16,
    numbers: [[Number; 3]; 2],
    names: [Field; 2],
}

impl Places {
    fn of(switch: &EventFormat, waking: &EventFormat) -> Places {
        let number = |format: &EventFormat, name| format.field(name).and_then(Field::number).unwrap();
        Places {
            switch: switch.id,
            numbers: [
                ["prev_state", "next_pid", "next_prio"].map(|name| number(switch, name)),
                ["pid", "prio", "target_cpu"].map(|name| number(waking, name)),
            ],
            names: [switch.field("next_comm").unwrap().clone(), waking.field("comm").unwrap().clone()],
        }
    }
}

fn fields(page: &Page, places: &Places) -> u64 {
    let mut cursor = Cursor::open(&page.layout, &page.bytes).unwrap();
    let mut sum = 0_u64;
    while let Step::Record(record) = cursor.next_before(&page.bytes, u64::MAX) {
        let which = usize::from(record.id() != places.switch);
        sum = sum.wrapping_add(record.ts);
        for number in &places.numbers[which] {
            sum = sum.wrapping_add(number.u64(record.data).unwrap_or(0));
        }
        sum = sum.wrapping_add(places.names[which].string(record.data).map_or(0, |name| name.len() as u64));
    }
    sum
}

fn decode_page(c: &mut Criterion) {
    let switch = EventFormat::parse(Kernel::V6_18.sched_switch()).unwrap();
    let waking = EventFormat::parse(Kernel::V6_18.sched_waking()).unwrap();
    let places = Places::of(&switch, &waking);
    let mut group = c.benchmark_group("decode_page");
    for size in [4096, 65536] {
        let page = page(size, &switch, &waking);
        group.throughput(Throughput::Elements(page.events));
        group.bench_function(BenchmarkId::new("walk", size), |b| b.iter(|| walk(black_box(&page))));
        group.bench_function(BenchmarkId::new("fields", size), |b| b.iter(|| fields(black_box(&page), &places)));
    }
    group.finish();
}

criterion_group!(benches, decode_page);
criterion_main!(benches);
