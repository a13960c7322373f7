//! Loss on one CPU: from the flags of its pages and the counters of its `stats` to [`Loss`] items.
//!
//! A page after a wrap usually says only "some": then the counters, read afterwards, give the number.

use super::page::{Missed, PageHeader};
use super::stats::CpuStats;
use crate::sched::event::Loss;

/// Follows one CPU's pages in the order they are read.
#[derive(Debug, Clone)]
pub struct LossMeter {
    cpu: u32,
    last_ts: u64,
    counted: u64,
    reported: u64,
}

impl LossMeter {
    /// A meter for `cpu`; `stats` as they stand before the first page (loss before that is not ours).
    pub fn new(cpu: u32, stats: &CpuStats) -> LossMeter {
        LossMeter { cpu, last_ts: 0, counted: stats.lost(), reported: 0 }
    }

    /// To be told the time of the last event of each page.
    pub fn saw(&mut self, last_ts: u64) {
        self.last_ts = self.last_ts.max(last_ts);
    }

    /// The time of the last event known, as told.
    pub fn last(&self) -> u64 {
        self.last_ts
    }

    /// The loss in front of a page, whose first event is at `first_ts`. `stats`, if given, are counters read after
    /// the page: they give the number that a page does not say, and keep what an earlier page has claimed of them
    /// from being counted twice. A loss whose number is in an earlier page's is given as "some".
    pub fn page(
        &mut self,
        header: &PageHeader,
        first_ts: u64,
        stats: impl FnOnce() -> Option<CpuStats>,
    ) -> Option<Loss> {
        if !header.missed.any() {
            return None;
        }
        let unclaimed = stats().map(|stats| stats.lost().saturating_sub(self.counted));
        let count = match (header.missed, unclaimed) {
            (Missed::Count(told), Some(left)) => Some(told.min(left)),
            (Missed::Count(told), None) => Some(told),
            (_, left) => left,
        };
        let count = count.filter(|count| *count > 0);
        self.counted = self.counted.saturating_add(count.unwrap_or(0));
        self.reported = self.reported.saturating_add(count.unwrap_or(0));
        Some(Loss { cpu: self.cpu, from: self.last_ts, to: first_ts.max(self.last_ts), count })
    }

    /// Loss that the counters show and no page told: at the end of a recording, or on a CPU gone offline.
    pub fn rest(&mut self, stats: &CpuStats, now: u64) -> Option<Loss> {
        let more = stats.lost().saturating_sub(self.counted);
        self.counted += more;
        self.reported = self.reported.saturating_add(more);
        (more > 0).then_some(Loss { cpu: self.cpu, from: self.last_ts, to: now.max(self.last_ts), count: Some(more) })
    }

    /// All events counted as lost so far.
    pub fn reported(&self) -> u64 {
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(missed: Missed) -> PageHeader {
        PageHeader { timestamp: 100, len: 64, missed }
    }

    fn lost(overrun: u64) -> CpuStats {
        CpuStats { overrun, ..CpuStats::default() }
    }

    #[test]
    fn case_4_count_or_unknown_and_never_twice() {
        let mut meter = LossMeter::new(3, &lost(5));
        assert_eq!(meter.page(&header(Missed::None), 10, || None), None);
        meter.saw(40);
        let known = meter.page(&header(Missed::Count(7)), 90, || None);
        assert_eq!(known, Some(Loss { cpu: 3, from: 40, to: 90, count: Some(7) }));
        meter.saw(120);
        // 5 at the start + 7 told by the page + 30 more = 42.
        let asked = meter.page(&header(Missed::Some), 200, || Some(lost(42)));
        assert_eq!(asked, Some(Loss { cpu: 3, from: 120, to: 200, count: Some(30) }));
        let unknown = meter.page(&header(Missed::Some), 210, || None);
        assert_eq!(unknown, Some(Loss { cpu: 3, from: 120, to: 210, count: None }));
        // The counters of the page before had the next page's 10 in them already: 42 + 12 are all there were.
        let both = meter.page(&header(Missed::Count(22)), 220, || Some(lost(54)));
        assert_eq!(both.and_then(|loss| loss.count), Some(12));
        let told = meter.page(&header(Missed::Count(5)), 230, || Some(lost(54)));
        assert_eq!(told, Some(Loss { cpu: 3, from: 120, to: 230, count: None }));
        assert_eq!(meter.rest(&lost(54), 300), None);
        assert_eq!(meter.rest(&lost(55), 300), Some(Loss { cpu: 3, from: 120, to: 300, count: Some(1) }));
        assert_eq!(meter.reported(), 50);
    }
}
