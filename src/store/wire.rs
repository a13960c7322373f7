//! The footer's bytes: protobuf messages of columns, and their way to and from [`super::footer`]'s structs.
//!
//! Columns are packed varints: an index of 120 frames and a summary of 60 cells per CPU take a few KiB. Reading
//! trusts no length: columns that disagree are [`DamageKind::Footer`], and what is built is bounded by the bytes read.

use super::error::DamageKind;
use super::footer::{BootId, CpuLane, Ending, Mark, SnapshotNote, Summary, SummaryCell, Totals, WorstWait};
use super::frame::MAX_FRAMES;
use super::index::{FrameEntry, FrameFacts, FrameKind, LossCount};
use crate::sched::event::ClockSnapshot;
use crate::sched::summary::Window;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct IndexMsg {
    #[prost(uint64, repeated, tag = "1")]
    compressed: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    raw: Vec<u64>,
    /// 0 head, 1 data, 2 tail; a later minor version may add kinds: read as data.
    #[prost(uint32, repeated, tag = "3")]
    kind: Vec<u32>,
    /// Difference from the frame before, as are the next.
    #[prost(sint64, repeated, tag = "4")]
    complete_through: Vec<i64>,
    /// Earliest event, relative to the frame's own `complete_through`.
    #[prost(sint64, repeated, tag = "5")]
    first: Vec<i64>,
    /// Latest minus earliest event, plus 1; 0: no events.
    #[prost(uint64, repeated, tag = "6")]
    length: Vec<u64>,
    #[prost(uint32, repeated, tag = "7")]
    cpus: Vec<u32>,
    /// Frame by frame, one number for each of `cpus`.
    #[prost(uint64, repeated, tag = "8")]
    events: Vec<u64>,
    #[prost(message, repeated, tag = "9")]
    loss: Vec<FrameLossMsg>,
}

#[derive(Clone, PartialEq, Message)]
struct FrameLossMsg {
    #[prost(uint32, tag = "1")]
    frame: u32,
    #[prost(uint32, tag = "2")]
    cpu: u32,
    #[prost(uint64, tag = "3")]
    known: u64,
    #[prost(bool, tag = "4")]
    unknown: bool,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryMsg {
    #[prost(uint64, tag = "1")]
    start: u64,
    #[prost(uint64, tag = "2")]
    step: u64,
    #[prost(message, repeated, tag = "3")]
    lanes: Vec<LaneMsg>,
    #[prost(message, repeated, tag = "4")]
    marks: Vec<MarkMsg>,
}

#[derive(Clone, PartialEq, Message)]
struct LaneMsg {
    #[prost(uint32, tag = "1")]
    cpu: u32,
    /// Occupancy in 1/10,000, plus 1; 0: not known.
    #[prost(uint32, repeated, tag = "2")]
    busy: Vec<u32>,
    #[prost(uint32, repeated, tag = "3")]
    ready: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    blocked: Vec<u32>,
    #[prost(uint64, repeated, tag = "5")]
    worst_wait: Vec<u64>,
    /// Twice the known number, plus 1 when more were lost; empty when nothing was lost in any cell.
    #[prost(uint64, repeated, tag = "6")]
    loss: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct MarkMsg {
    #[prost(uint64, tag = "1")]
    ts: u64,
    #[prost(bytes = "vec", tag = "2")]
    text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TotalsMsg {
    #[prost(uint64, tag = "1")]
    sequence: u64,
    #[prost(bytes = "vec", tag = "2")]
    boot: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    host: Vec<u8>,
    #[prost(string, tag = "4")]
    recorder: String,
    #[prost(bool, tag = "5")]
    recovered: bool,
    #[prost(message, optional, tag = "6")]
    window: Option<WindowMsg>,
    #[prost(uint64, tag = "7")]
    valid_from: u64,
    #[prost(message, optional, tag = "8")]
    clock: Option<ClockMsg>,
    #[prost(message, optional, tag = "9")]
    clock_end: Option<ClockMsg>,
    #[prost(uint32, tag = "10")]
    cpus: u32,
    #[prost(uint64, tag = "11")]
    events: u64,
    #[prost(uint64, tag = "12")]
    lost: u64,
    #[prost(bool, tag = "13")]
    lost_unknown: bool,
    #[prost(float, optional, tag = "14")]
    busy: Option<f32>,
    #[prost(uint32, optional, tag = "15")]
    busiest_cpu: Option<u32>,
    #[prost(float, tag = "16")]
    busiest: f32,
    // 17 was a mean that recorders never wrote.
    #[prost(message, optional, tag = "18")]
    worst_wait: Option<WorstWaitMsg>,
    #[prost(uint64, tag = "19")]
    marks: u64,
    #[prost(message, repeated, tag = "20")]
    gaps: Vec<WindowMsg>,
    #[prost(uint32, optional, tag = "21")]
    sampled_hz: Option<u32>,
    #[prost(message, optional, tag = "22")]
    snapshot: Option<SnapshotMsg>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WindowMsg {
    #[prost(uint64, tag = "1")]
    from: u64,
    #[prost(uint64, tag = "2")]
    to: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ClockMsg {
    #[prost(uint64, tag = "1")]
    boot: u64,
    #[prost(uint64, tag = "2")]
    mono: u64,
    #[prost(uint64, tag = "3")]
    real: u64,
    #[prost(uint64, tag = "4")]
    tai: u64,
    #[prost(sint32, optional, tag = "5")]
    zone_offset_minutes: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct WorstWaitMsg {
    #[prost(uint64, tag = "1")]
    dur: u64,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(int32, tag = "3")]
    tid: i32,
    #[prost(bytes = "vec", tag = "4")]
    name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct SnapshotMsg {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    detail: String,
    #[prost(string, tag = "3")]
    label: String,
    #[prost(uint64, tag = "4")]
    requested_at: u64,
    #[prost(message, optional, tag = "5")]
    asked: Option<WindowMsg>,
    #[prost(message, optional, tag = "6")]
    real: Option<WindowMsg>,
    #[prost(message, repeated, tag = "7")]
    holes: Vec<WindowMsg>,
}

/// A message that prost cannot read is a damaged footer; it has no shorter name for that.
fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, DamageKind> {
    M::decode(bytes).map_err(|_| DamageKind::Footer)
}

pub(super) fn encode_index(frames: &[FrameEntry]) -> Vec<u8> {
    let mut cpus: Vec<u32> = frames.iter().flat_map(|f| f.facts.events.iter().map(|e| e.0)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut msg = IndexMsg { events: vec![0; cpus.len() * frames.len()], ..IndexMsg::default() };
    let mut before = 0u64;
    for (i, frame) in frames.iter().enumerate() {
        let facts = &frame.facts;
        msg.compressed.push(frame.compressed);
        msg.raw.push(frame.raw);
        msg.kind.push(match facts.kind {
            FrameKind::Head => 0,
            FrameKind::Data => 1,
            FrameKind::Tail => 2,
        });
        msg.complete_through.push(facts.complete_through.wrapping_sub(before).cast_signed());
        before = facts.complete_through;
        let (first, last) = facts.span.unwrap_or((before, before));
        msg.first.push(first.wrapping_sub(before).cast_signed());
        msg.length.push(if facts.span.is_some() { last.saturating_sub(first).saturating_add(1) } else { 0 });
        for &(cpu, n) in &facts.events {
            if let Ok(column) = cpus.binary_search(&cpu) {
                let cell = &mut msg.events[i * cpus.len() + column];
                *cell = cell.saturating_add(n);
            }
        }
        msg.loss.extend(facts.loss.iter().map(|&(cpu, loss)| FrameLossMsg {
            frame: i as u32, // a segment has some hundred frames
            cpu,
            known: loss.known,
            unknown: loss.unknown,
        }));
    }
    msg.cpus = cpus;
    msg.encode_to_vec()
}

pub(super) fn decode_index(bytes: &[u8]) -> Result<Vec<FrameEntry>, DamageKind> {
    let msg: IndexMsg = read(bytes)?;
    let n = msg.compressed.len();
    let columns = [msg.raw.len(), msg.kind.len(), msg.complete_through.len(), msg.first.len(), msg.length.len()];
    if columns.iter().any(|&len| len != n) || n > MAX_FRAMES || n.checked_mul(msg.cpus.len()) != Some(msg.events.len())
    {
        return Err(DamageKind::Footer);
    }
    let mut frames = Vec::with_capacity(n);
    let (mut offset, mut through) = (0u64, 0u64);
    for i in 0..n {
        let compressed = msg.compressed[i];
        through = through.wrapping_add(msg.complete_through[i].cast_unsigned());
        let first = through.wrapping_add(msg.first[i].cast_unsigned());
        let span = msg.length[i].checked_sub(1).map(|length| (first, first.saturating_add(length)));
        let row = &msg.events[i * msg.cpus.len()..(i + 1) * msg.cpus.len()];
        let events = msg.cpus.iter().copied().zip(row.iter().copied()).filter(|e| e.1 > 0).collect();
        let kind = match msg.kind[i] {
            0 => FrameKind::Head,
            2 => FrameKind::Tail,
            _ => FrameKind::Data,
        };
        let facts = FrameFacts { kind, span, complete_through: through, events, loss: Vec::new() };
        frames.push(FrameEntry { offset, compressed, raw: msg.raw[i], facts });
        offset = offset.checked_add(compressed).ok_or(DamageKind::Footer)?;
    }
    for loss in &msg.loss {
        let frame = frames.get_mut(loss.frame as usize).ok_or(DamageKind::Footer)?;
        frame.facts.loss.push((loss.cpu, LossCount { known: loss.known, unknown: loss.unknown }));
    }
    Ok(frames)
}

pub(super) fn encode_summary(summary: &Summary) -> Vec<u8> {
    let lanes = summary.lanes.iter().map(encode_lane).collect();
    let marks = summary.marks.iter().take(super::footer::MAX_MARKS);
    let marks = marks.map(|m| MarkMsg { ts: m.ts, text: m.text.clone() }).collect();
    SummaryMsg { start: summary.start, step: summary.step, lanes, marks }.encode_to_vec()
}

fn encode_lane(lane: &CpuLane) -> LaneMsg {
    let cells = || lane.cells.iter();
    let parts = |share: f32| (f64::from(share.clamp(0.0, 1.0)) * 10_000.0).round() as u32 + 1;
    let any_loss = cells().any(|c| !c.loss.is_none());
    let loss = |c: &SummaryCell| c.loss.known.saturating_mul(2) | u64::from(c.loss.unknown);
    LaneMsg {
        cpu: lane.cpu,
        busy: cells().map(|c| c.busy.map_or(0, parts)).collect(),
        ready: cells().map(|c| c.ready).collect(),
        blocked: cells().map(|c| c.blocked).collect(),
        worst_wait: cells().map(|c| c.worst_wait).collect(),
        loss: if any_loss { cells().map(loss).collect() } else { Vec::new() },
    }
}

pub(super) fn decode_summary(bytes: &[u8]) -> Result<Summary, DamageKind> {
    let msg: SummaryMsg = read(bytes)?;
    let lanes = msg.lanes.iter().map(decode_lane).collect::<Result<_, _>>()?;
    let marks = msg.marks.into_iter().map(|m| Mark { ts: m.ts, text: m.text }).collect();
    Ok(Summary { start: msg.start, step: msg.step, lanes, marks })
}

fn decode_lane(lane: &LaneMsg) -> Result<CpuLane, DamageKind> {
    let n = lane.busy.len();
    let lossless = lane.loss.is_empty();
    let fits = lane.ready.len() == n && lane.blocked.len() == n && lane.worst_wait.len() == n;
    if !fits || !(lossless || lane.loss.len() == n) {
        return Err(DamageKind::Footer);
    }
    let cell = |i: usize| SummaryCell {
        busy: lane.busy[i].checked_sub(1).map(|parts| (f64::from(parts.min(10_000)) / 10_000.0) as f32),
        ready: lane.ready[i],
        blocked: lane.blocked[i],
        worst_wait: lane.worst_wait[i],
        loss: match lossless {
            true => LossCount::default(),
            false => LossCount { known: lane.loss[i] / 2, unknown: lane.loss[i] % 2 == 1 },
        },
    };
    Ok(CpuLane { cpu: lane.cpu, cells: (0..n).map(cell).collect() })
}

pub(super) fn encode_totals(t: &Totals) -> Vec<u8> {
    TotalsMsg {
        sequence: t.sequence,
        boot: t.boot.0.to_vec(),
        host: t.host.clone(),
        recorder: t.recorder.clone(),
        recovered: t.ending == Ending::Recovered,
        window: Some(WindowMsg { from: t.start, to: t.end }),
        valid_from: t.valid_from,
        clock: Some(clock_msg(&t.clock)),
        clock_end: Some(clock_msg(&t.clock_end)),
        cpus: t.cpus,
        events: t.events,
        lost: t.loss.known,
        lost_unknown: t.loss.unknown,
        busy: t.busy,
        busiest_cpu: t.busiest.map(|b| b.0),
        busiest: t.busiest.map_or(0.0, |b| b.1),
        worst_wait: t.worst_wait.as_ref().map(|w| WorstWaitMsg {
            dur: w.dur,
            at: w.at,
            tid: w.tid,
            name: w.name.clone(),
        }),
        marks: t.marks,
        gaps: t.gaps.iter().map(window_msg).collect(),
        sampled_hz: t.sampled_hz,
        snapshot: t.snapshot.as_ref().map(|s| SnapshotMsg {
            reason: s.reason.clone(),
            detail: s.detail.clone(),
            label: s.label.clone(),
            requested_at: s.requested_at,
            asked: Some(window_msg(&s.asked)),
            real: Some(window_msg(&s.real)),
            holes: s.holes.iter().map(window_msg).collect(),
        }),
    }
    .encode_to_vec()
}

pub(super) fn decode_totals(bytes: &[u8]) -> Result<Totals, DamageKind> {
    let m: TotalsMsg = read(bytes)?;
    let window = window(&m.window.unwrap_or_default());
    Ok(Totals {
        format: super::footer::FormatVersion::CURRENT, // the locator knows; the caller puts it in
        sequence: m.sequence,
        boot: BootId(m.boot.try_into().unwrap_or_default()),
        host: m.host,
        recorder: m.recorder,
        ending: if m.recovered { Ending::Recovered } else { Ending::Finished },
        start: window.from,
        end: window.to,
        valid_from: m.valid_from,
        clock: clock(&m.clock.unwrap_or_default()),
        clock_end: clock(&m.clock_end.unwrap_or_default()),
        cpus: m.cpus,
        events: m.events,
        loss: LossCount { known: m.lost, unknown: m.lost_unknown },
        busy: m.busy.and_then(share),
        busiest: m.busiest_cpu.and_then(|cpu| Some((cpu, share(m.busiest)?))),
        worst_wait: m.worst_wait.map(|w| WorstWait { dur: w.dur, at: w.at, tid: w.tid, name: w.name }),
        marks: m.marks,
        gaps: m.gaps.iter().map(self::window).collect(),
        sampled_hz: m.sampled_hz,
        snapshot: m.snapshot.map(|s| SnapshotNote {
            reason: s.reason,
            detail: s.detail,
            label: s.label,
            requested_at: s.requested_at,
            asked: self::window(&s.asked.unwrap_or_default()),
            real: self::window(&s.real.unwrap_or_default()),
            holes: s.holes.iter().map(self::window).collect(),
        }),
    })
}

/// A share is a number from 0 to 1, or it is not known.
fn share(value: f32) -> Option<f32> {
    (0.0..=1.0).contains(&value).then_some(value)
}

fn window_msg(w: &Window) -> WindowMsg {
    WindowMsg { from: w.from, to: w.to }
}

fn window(m: &WindowMsg) -> Window {
    Window { from: m.from, to: m.to.max(m.from) }
}

fn clock_msg(c: &ClockSnapshot) -> ClockMsg {
    let ClockSnapshot { boot, mono, real, tai, zone_offset_minutes } = *c;
    ClockMsg { boot, mono, real, tai, zone_offset_minutes }
}

fn clock(m: &ClockMsg) -> ClockSnapshot {
    let ClockMsg { boot, mono, real, tai, zone_offset_minutes } = *m;
    ClockSnapshot { boot, mono, real, tai, zone_offset_minutes }
}
