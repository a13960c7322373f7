//! Works out a lost footer's summary from the events: for segments that a dead recorder left.
//!
//! Folds a file's events through [`crate::sched`] while [`super::scan`] reads it, so the seconds of such a segment are
//! drawn like any other's. Takes as long as loading the segment does; the growing segment is never read this way.

use super::footer::{CpuLane, Footer, FormatVersion, Summary, SummaryCell, Totals, WorstWait};
use super::index::{FrameFacts, LossCount};
use super::probe::PacketProbe;
use super::scan::FrameProbe;
use crate::names::NameTable;
use crate::sched::fold::{Consumer, Folding};
use crate::sched::order::TimeOrder;
use crate::sched::seconds::Seconds;
use crate::sched::summary::SecondSummary;
use std::collections::BTreeMap;

/// Length of a cell, ns.
const STEP: u64 = 1_000_000_000;
/// Most cells per CPU: segments are an hour at most, and a broken clock must not make a longer one.
const MAX_CELLS: u64 = 3600;

/// A [`PacketProbe`] that also fills summary and occupancy.
#[derive(Debug)]
pub struct SummaryProbe {
    packets: PacketProbe,
    order: TimeOrder,
    folding: Folding<Seconds>,
}

impl Default for SummaryProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl SummaryProbe {
    /// At the begin of a file.
    pub fn new() -> Self {
        let (packets, order, folding) = (PacketProbe::new(), TimeOrder::default(), Folding::new(Seconds::new()));
        SummaryProbe { packets, order, folding }
    }
}

impl FrameProbe for SummaryProbe {
    fn frame(&mut self, packets: &[u8]) -> FrameFacts {
        let (order, folding) = (&mut self.order, &mut self.folding);
        self.packets.watched(packets, &mut |item| order.push(item.clone(), &mut |item| folding.item(item)))
    }

    fn format(&self) -> Option<FormatVersion> {
        self.packets.format()
    }

    fn conclude(&mut self, footer: &mut Footer) {
        self.packets.conclude(footer);
        let folding = &mut self.folding;
        self.order.flush(&mut |item| folding.item(item));
        let end = footer.totals.end;
        let seconds = folding.sink.take_before(end, &folding.folder);
        let worst = seconds.iter().max_by_key(|s| s.worst_wait).filter(|s| s.worst_wait > 0);
        footer.totals.worst_wait = worst.map(|s| worst_wait(s, folding, self.packets.names()));
        occupancy(&seconds, &mut footer.totals);
        lanes(&seconds, &footer.totals, &mut footer.summary);
    }
}

fn worst_wait(second: &SecondSummary, folding: &Folding<Seconds>, names: &NameTable) -> WorstWait {
    let threads = folding.folder.threads();
    // The life that has the tid now; a tid that came back since belongs to another, whose name is then shown.
    let name = threads.utid_of(second.worst_tid).map(|utid| threads.shown_name(utid, second.worst_at));
    let name = name.map(|id| names.bytes(id).to_vec()).unwrap_or_default();
    WorstWait { dur: second.worst_wait, at: second.worst_at, tid: second.worst_tid, name }
}

fn occupancy(seconds: &[SecondSummary], totals: &mut Totals) {
    let mut cpus: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for second in seconds {
        let (busy, known) = cpus.entry(second.cpu).or_default();
        *busy += second.busy_ns;
        *known += second.known_ns;
    }
    let share = |busy: u64, known: u64| (known > 0).then(|| (busy as f64 / known as f64).min(1.0) as f32);
    let (busy, known) = cpus.values().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    totals.busy = share(busy, known);
    let each = cpus.iter().filter_map(|(&cpu, &(busy, known))| Some((cpu, share(busy, known)?)));
    totals.busiest = each.max_by(|a, b| a.1.total_cmp(&b.1));
}

/// Cells on whole seconds of the boot clock, from the one that holds the file's begin to the one that holds its end.
fn lanes(seconds: &[SecondSummary], totals: &Totals, summary: &mut Summary) {
    let first = totals.start / STEP;
    let count = totals.end.div_ceil(STEP).saturating_sub(first).min(MAX_CELLS);
    let mut lanes: BTreeMap<u32, Vec<SummaryCell>> = BTreeMap::new();
    for second in seconds {
        let Some(at) = (second.start / STEP).checked_sub(first).filter(|&at| at < count) else { continue };
        let cells = lanes.entry(second.cpu).or_insert_with(|| vec![SummaryCell::default(); count as usize]);
        cells[at as usize] = SummaryCell {
            busy: (second.known_ns > 0).then(|| (second.busy_ns as f64 / second.known_ns as f64) as f32),
            ready: second.ready_max,
            blocked: second.blocked_max,
            worst_wait: second.worst_wait,
            loss: LossCount { known: second.lost, unknown: second.loss && second.lost == 0 },
        };
    }
    summary.start = first * STEP;
    summary.step = STEP;
    summary.lanes = lanes.into_iter().map(|(cpu, cells)| CpuLane { cpu, cells }).collect();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::footer::BootId;
    use super::super::index::FrameEntry;
    use super::super::probe::identity;
    use super::*;
    use crate::perfetto::encode::{BundleBuilder, FullSwitch, packets};

    const S: u64 = 1_000_000_000;

    fn comm(name: &[u8]) -> [u8; 16] {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name);
        comm
    }

    /// CPU 0: "a" runs from 10.0 to 10.75 s, idle to 12.0 s, "a" again. "a" was woken at 11.9 s.
    fn frames() -> Vec<Vec<u8>> {
        let mut head = Vec::new();
        identity(BootId([1; 16]), "0.1.0", 10 * S, &mut head);
        let mut bundle = BundleBuilder::new();
        // The first switch of a segment says who left, so that what follows is known from here on.
        let (idle, a) = (comm(b"swapper/0"), comm(b"a"));
        let first = FullSwitch {
            prev_comm: &idle,
            prev_pid: 0,
            prev_prio: 120,
            prev_state: 0,
            next_comm: &a,
            next_pid: 7,
            next_prio: 120,
        };
        bundle.full_switch(10 * S, 0, &first);
        bundle.switch(10 * S + 750_000_000, 1, 0, 120, &comm(b"swapper/0"));
        bundle.waking(11 * S + 900_000_000, 7, 0, 120, &comm(b"a"), 0);
        bundle.switch(12 * S, 0, 7, 120, &comm(b"a"));
        let mut data = Vec::new();
        bundle.finish(0, None, &mut data);
        packets::complete_through(12 * S + 500_000_000, &mut data);
        vec![head, data]
    }

    #[test]
    fn a_left_segment_gets_the_seconds_its_recorder_did_not_write() {
        let mut probe = SummaryProbe::new();
        let frames = frames().iter().map(|f| FrameEntry { facts: probe.frame(f), ..FrameEntry::default() }).collect();
        let mut footer = Footer { frames, ..Footer::default() };
        (footer.totals.start, footer.totals.end) = (10 * S, 12 * S + 500_000_000);
        probe.conclude(&mut footer);
        let summary = &footer.summary;
        assert_eq!((summary.start, summary.step, summary.lanes.len()), (10 * S, S, 1));
        let cells = &summary.lanes[0].cells;
        let busy: Vec<Option<f32>> = cells.iter().map(|c| c.busy).collect();
        assert_eq!(busy, [Some(0.75), Some(0.0), Some(1.0)]);
        assert_eq!(cells.iter().map(|c| c.worst_wait).collect::<Vec<_>>(), [0, 0, 100_000_000]);
        assert_eq!(cells[1].ready, 1);
        let totals = &footer.totals;
        assert_eq!((totals.busy, totals.busiest), (Some(0.5), Some((0, 0.5))), "1.25 s of 2.5 s");
        let wait = totals.worst_wait.clone().unwrap();
        assert_eq!((wait.dur, wait.at, wait.tid), (100_000_000, 11 * S + 900_000_000, 7));
        assert_eq!(wait.name, b"a");
    }

    #[test]
    fn nothing_in_it_leaves_everything_unknown() {
        let mut footer = Footer::default();
        SummaryProbe::new().conclude(&mut footer);
        assert_eq!((footer.totals.busy, footer.summary.lanes.len()), (None, 0));
    }
}
