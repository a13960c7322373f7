//! Run-queue latency: exact percentiles and a log2 histogram of waits for the CPU.
//!
//! Run-queue latency is the time from ready to running: *wakeup latency* after a wake-up, *preemption wait* after
//! being pushed off. Only waits whose begin and end are known count. Percentiles are exact (nearest rank).

use super::summary::LatencyStats;

/// Gathers waits.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    waits: Vec<u64>,
    total: u64,
    max: u64,
    max_at: u64,
}

impl Latencies {
    /// Takes a wait of `ns` that began at `start`.
    #[inline]
    pub fn push(&mut self, start: u64, ns: u64) {
        self.waits.push(ns);
        self.total += ns;
        if ns > self.max || self.waits.len() == 1 {
            self.max = ns;
            self.max_at = start;
        }
    }

    /// Takes many waits of which the longest (ns, begin) is known.
    pub fn extend(&mut self, waits: impl Iterator<Item = u64>, worst: (u64, u64)) {
        let before = self.waits.len();
        self.waits.extend(waits);
        self.total += self.waits[before..].iter().sum::<u64>();
        if self.waits.len() > before && (worst.0 > self.max || before == 0) {
            (self.max, self.max_at) = worst;
        }
    }

    /// Forgets all but the room it takes.
    pub fn clear(&mut self) {
        self.waits.clear();
        (self.total, self.max, self.max_at) = (0, 0, 0);
    }

    /// Counts and percentiles.
    pub fn stats(&mut self) -> LatencyStats {
        if self.waits.is_empty() {
            return LatencyStats::default();
        }
        // Each rank is found among those above the one before: little more than one pass in all.
        let n = self.waits.len();
        let (p50, p95, p99) = (rank(n, 50), rank(n, 95), rank(n, 99));
        let (_, at50, above) = self.waits.select_nth_unstable(p50);
        let at50 = *at50;
        let at95 = if p95 == p50 { at50 } else { *above.select_nth_unstable(p95 - p50 - 1).1 };
        let above = &mut self.waits[p95..];
        let at99 = *above.select_nth_unstable(p99 - p95).1;
        LatencyStats {
            count: n as u64,
            p50: at50,
            p95: at95,
            p99: at99,
            max: self.max,
            max_at: self.max_at,
            total: self.total,
        }
    }
}

/// Index, in sorted order, of the smallest of `n` (> 0) that at least `percent` per cent of all do not exceed.
fn rank(n: usize, percent: usize) -> usize {
    (n * percent).div_ceil(100).max(1) - 1
}

/// Counts by powers of two: entry i counts waits of [2^i, 2^(i+1)) ns, those of 0 and 1 ns in entry 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log2Histogram {
    /// (after a wake-up or pushed off, of those after being pushed off); ends with the last entry that counts.
    pub counts: Vec<(u64, u64)>,
}

impl Log2Histogram {
    /// Counts a wait of `ns`.
    pub fn push(&mut self, ns: u64, pushed_off: bool) {
        let at = ns.max(1).ilog2() as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, (0, 0));
        }
        self.counts[at].0 += 1;
        self.counts[at].1 += u64::from(pushed_off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut l = Latencies::default();
        for ns in (1..=200).rev() {
            l.push(1000 + ns, ns);
        }
        let s = l.stats();
        assert_eq!((s.count, s.p50, s.p95, s.p99, s.max, s.max_at), (200, 100, 190, 198, 200, 1200));
        assert_eq!(s.total, 200 * 201 / 2);
    }

    #[test]
    fn one_wait_is_every_percentile_and_none_is_zero() {
        let mut l = Latencies::default();
        assert_eq!(l.stats(), LatencyStats::default());
        l.push(7, 0);
        let s = l.stats();
        assert_eq!((s.count, s.p50, s.p99, s.max, s.max_at), (1, 0, 0, 0, 7));
    }

    #[test]
    fn histogram_edges() {
        let mut h = Log2Histogram::default();
        for (ns, off) in [(0, false), (1, true), (2, false), (3, false), (4, true), (1024, false)] {
            h.push(ns, off);
        }
        assert_eq!(h.counts.len(), 11);
        assert_eq!(h.counts[..3], [(2, 1), (2, 0), (1, 1)]);
        assert_eq!(h.counts[10], (1, 0));
    }
}
