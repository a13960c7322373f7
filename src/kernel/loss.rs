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

    /// The loss in front of a page, whose first event is at `first_ts`. `stats` is asked only when the page
    /// does not say how many; what other pages have claimed of the counters is not counted twice.
    pub fn page(
        &mut self,
        header: &PageHeader,
        first_ts: u64,
        stats: impl FnOnce() -> Option<CpuStats>,
    ) -> Option<Loss> {
        let count = match header.missed {
            Missed::None => return None,
            Missed::Count(count) => {
                self.counted = self.counted.saturating_add(count);
                Some(count)
            }
            Missed::Some => stats().and_then(|stats| {
                let more = stats.lost().saturating_sub(self.counted);
                self.counted += more;
                (more > 0).then_some(more)
            }),
        };
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
        assert_eq!(meter.rest(&lost(42), 300), None);
        assert_eq!(meter.rest(&lost(43), 300), Some(Loss { cpu: 3, from: 120, to: 300, count: Some(1) }));
        assert_eq!(meter.reported(), 38);
    }
}
