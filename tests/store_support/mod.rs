//! Makes stores of known content: real packets, real files, no kernel.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used)]

use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::sched::event::ClockSnapshot;
use dashcam::store::Store;
use dashcam::store::footer::{BootId, CpuLane, Summary, SummaryCell, Totals, WorstWait};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::probe;
use dashcam::store::writer::{Finished, SegmentWriter};

pub const S: u64 = 1_000_000_000;
pub const MIN: u64 = 60 * S;
pub const BOOT: BootId = BootId([0xB0; 16]);
/// 2026-11-30 11:55:00 UTC.
pub const REAL: u64 = 1_796_039_700 * S;

/// One segment to be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub boot: BootId,
    /// First instant, boot clock.
    pub start: u64,
    /// Wall clock then.
    pub real: u64,
    /// Frames of data.
    pub frames: u64,
    /// Time that each covers.
    pub step: u64,
    /// Switches per frame, spread evenly from the frame's first nanosecond, on CPU 0 and 1 in turn.
    pub events: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { boot: BOOT, start: 1000 * S, real: REAL, frames: 120, step: S / 2, events: 10 }
    }
}

impl Plan {
    pub fn end(&self) -> u64 {
        self.start + self.frames * self.step
    }

    pub fn clock(&self, boot: u64) -> ClockSnapshot {
        ClockSnapshot { boot, mono: boot, real: self.real + (boot - self.start), tai: 0, zone_offset_minutes: Some(0) }
    }

    pub fn totals(&self) -> Totals {
        Totals {
            boot: self.boot,
            host: b"test".to_vec(),
            recorder: "0.1.0".to_owned(),
            start: self.start,
            end: self.end(),
            valid_from: self.start,
            clock: self.clock(self.start),
            clock_end: self.clock(self.end()),
            cpus: 2,
            busy: Some(0.5),
            worst_wait: Some(WorstWait { dur: 1000, at: self.start + 1, tid: 7, name: b"w".to_vec() }),
            ..Totals::default()
        }
    }

    pub fn summary(&self) -> Summary {
        let cell = SummaryCell { busy: Some(0.5), ready: 1, worst_wait: 1000, ..SummaryCell::default() };
        let cells = vec![cell; (self.frames * self.step).div_ceil(S) as usize];
        let lanes = (0..2).map(|cpu| CpuLane { cpu, cells: cells.clone() }).collect();
        Summary { start: self.start, step: S, lanes, marks: Vec::new() }
    }

    pub fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        probe::identity(self.boot, "0.1.0", self.start, &mut out);
        packets::clocks(&self.clock(self.start), &mut out);
        out
    }

    /// Time stamps of data frame `i`.
    pub fn times(&self, i: u64) -> impl Iterator<Item = u64> + use<> {
        let (from, step, events) = (self.start + i * self.step, self.step, self.events);
        (0..events).map(move |n| from + n * step / events)
    }

    /// Packets and facts of data frame `i`.
    pub fn data(&self, i: u64) -> (Vec<u8>, FrameFacts) {
        let mut out = Vec::new();
        let mut counts = Vec::new();
        for cpu in 0..2u32 {
            let mut bundle = BundleBuilder::new();
            for ts in self.times(i).skip(cpu as usize).step_by(2) {
                bundle.switch(ts, 1, 100 + cpu as i32, 120, b"worker\0\0\0\0\0\0\0\0\0\0");
            }
            if !bundle.is_empty() {
                counts.push((cpu, bundle.len() as u64));
                bundle.finish(cpu, None, &mut out);
            }
        }
        let complete_through = self.start + (i + 1) * self.step;
        packets::complete_through(complete_through, &mut out);
        let span = self.times(i).min().zip(self.times(i).max());
        (out, FrameFacts { kind: FrameKind::Data, span, complete_through, events: counts, loss: Vec::new() })
    }

    /// A writer with head and `frames` data frames, not finished.
    pub fn begin(&self, store: &Store) -> SegmentWriter {
        let mut writer = SegmentWriter::create(store, self.real).unwrap();
        write(&mut writer, &self.head(), FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
        for i in 0..self.frames {
            let (packets, facts) = self.data(i);
            write(&mut writer, &packets, facts);
        }
        writer
    }

    /// A finished segment: head, data, tail, footer.
    pub fn record(&self, store: &Store) -> Finished {
        let mut writer = self.begin(store);
        let mut tail = Vec::new();
        packets::clocks(&self.clock(self.end()), &mut tail);
        write(&mut writer, &tail, FrameFacts { kind: FrameKind::Tail, ..FrameFacts::default() });
        writer.finish(self.totals(), self.summary()).unwrap()
    }

    /// The segment that follows without a hole.
    pub fn next(&self) -> Plan {
        Plan { start: self.end(), real: self.real + self.frames * self.step, ..*self }
    }
}

pub fn write(writer: &mut SegmentWriter, packets: &[u8], facts: FrameFacts) {
    let mut frame = Vec::new();
    FrameCompressor::new(3).unwrap().compress(packets, &mut frame).unwrap();
    writer.write_frame(&frame, packets.len(), facts).unwrap();
}

/// Segments one after another.
pub fn record_row(store: &Store, first: Plan, count: usize) -> Vec<Plan> {
    let plans: Vec<Plan> = std::iter::successors(Some(first), |p| Some(p.next())).take(count).collect();
    plans.iter().for_each(|p| {
        p.record(store);
    });
    plans
}

/// Every event time in a decompressed stream of packets, as the decoder sees it, in file order.
pub fn event_times(packets: &[u8]) -> Vec<u64> {
    let mut times = Vec::new();
    let mut names = dashcam::names::NameTable::new();
    let mut sink = |item| {
        if let dashcam::sched::event::Item::Event(e) = item {
            times.push(e.ts);
        }
    };
    dashcam::perfetto::decode::Decoder::new().decode(packets, &mut names, &mut sink).unwrap();
    times
}
