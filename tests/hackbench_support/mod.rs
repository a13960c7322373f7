//! Real events (hackbench on two busy CPUs), and segments of ours made of them: for tests and benchmarks.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::sched::event::{ClockSnapshot, Event, EventKind, Item};
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::footer::{BootId, Summary, Totals};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind, LossCount};
use dashcam::store::probe::identity;
use dashcam::store::writer::SegmentWriter;

const TRACE: &[u8] = include_bytes!("../fixtures/perfetto/hackbench.pftrace.zst");

/// Switches and wake-ups of two busy CPUs, by time.
pub fn events() -> (Vec<Event>, NameTable) {
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

fn clock(boot: u64) -> ClockSnapshot {
    ClockSnapshot { boot, mono: boot, real: 1_700_000_000_000_000_000 + boot, tai: 0, zone_offset_minutes: None }
}

/// What the footer says was lost, in the first frame on CPU 0; the packets themselves do not say it.
pub const LOSS: LossCount = LossCount { known: 7, unknown: true };

/// Writes `events` as one segment of `store`, which covers `window`, `frame` of them a frame.
pub fn segment(store: &Store, events: &[Event], names: &NameTable, window: Window, frame: usize) -> PathBuf {
    let boot = BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb");
    let mut writer = SegmentWriter::create(store, clock(window.from).real).unwrap();
    let mut compressor = FrameCompressor::new(3).unwrap();
    let mut put = |packets: &[u8], facts: FrameFacts| {
        let mut frame = Vec::new();
        compressor.compress(packets, &mut frame).unwrap();
        writer.write_frame(&frame, packets.len(), facts).unwrap();
    };
    let mut head = Vec::new();
    packets::clocks(&clock(window.from), &mut head);
    identity(boot, "test", window.from, &mut head);
    put(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
    let comm = |id| {
        let mut out = [0u8; 16];
        let bytes = names.bytes(id);
        out[..bytes.len()].copy_from_slice(bytes);
        out
    };
    let mut builder = BundleBuilder::new();
    let chunks: Vec<&[Event]> = events.chunks(frame).collect();
    for (n, chunk) in chunks.iter().enumerate() {
        let mut data = Vec::new();
        let mut counts = Vec::new();
        for cpu in 0..2 {
            let of_cpu: Vec<&Event> = chunk.iter().filter(|e| e.cpu == cpu).collect();
            for e in &of_cpu {
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
            counts.push((cpu, of_cpu.len() as u64));
        }
        let through = chunks.get(n + 1).map_or(window.to, |c| c[0].ts);
        packets::complete_through(through, &mut data);
        let span = Some((chunk[0].ts, chunk.last().unwrap().ts));
        let loss = if n == 0 { vec![(0, LOSS)] } else { Vec::new() };
        put(&data, FrameFacts { span, complete_through: through, events: counts, loss, ..FrameFacts::default() });
    }
    let (from, to) = (window.from, window.to);
    let totals = Totals { boot, start: from, end: to, clock: clock(from), clock_end: clock(to), ..Totals::default() };
    writer.finish(totals, Summary::default()).unwrap().path
}
