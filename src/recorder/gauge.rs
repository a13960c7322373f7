//! What a recorder costs and how far back its store will reach: rates over the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Rates are over this long.
const SPAN: Duration = Duration::from_secs(5);

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// Events since the beginning.
    pub events: u64,
    /// Own CPU time since the beginning, ns.
    pub cpu_ns: u64,
}

/// The last readings.
#[derive(Debug, Default)]
pub struct Gauge {
    readings: VecDeque<Reading>,
}

impl Gauge {
    /// Takes a reading, about once a second.
    pub fn add(&mut self, reading: Reading) {
        self.readings.push_back(reading);
        while self.readings.len() > 2 && self.readings.get(1).is_some_and(|r| reading.at - r.at >= SPAN) {
            self.readings.pop_front();
        }
    }

    /// Events a second, and own share of one CPU.
    pub fn rates(&self) -> (f64, f64) {
        let (Some(first), Some(last)) = (self.readings.front(), self.readings.back()) else { return (0.0, 0.0) };
        let seconds = (last.at - first.at).as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0);
        }
        let events = last.events.saturating_sub(first.events) as f64 / seconds;
        (events, last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / 1e9 / seconds)
    }
}

/// How many seconds a store will reach back at `rate` bytes a second, given its caps.
pub fn forecast(rate: f64, max_bytes: u64, room: u64, max_age: Duration) -> f64 {
    let age = max_age.as_secs_f64();
    let bytes = max_bytes.min(room) as f64;
    if rate > 0.0 { (bytes / rate).min(age) } else { age }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_last_five_seconds() {
        let start = Instant::now();
        let mut gauge = Gauge::default();
        assert_eq!(gauge.rates(), (0.0, 0.0));
        for s in 0..20u64 {
            // 1,000 events a second until second 10, then 2,000; always 2 % of a CPU.
            let events = if s <= 10 { 1000 * s } else { 10_000 + 2000 * (s - 10) };
            gauge.add(Reading { at: start + Duration::from_secs(s), events, cpu_ns: 20_000_000 * s });
        }
        let (events, cpu) = gauge.rates();
        assert!((events - 2000.0).abs() < 1e-6 && (cpu - 0.02).abs() < 1e-9, "{events} {cpu}");
    }

    #[test]
    fn the_tightest_cap_counts() {
        let day = Duration::from_secs(86_400);
        assert_eq!(forecast(1000.0, 4_000_000, u64::MAX, day), 4000.0);
        assert_eq!(forecast(1000.0, 4_000_000, 1_000_000, day), 1000.0);
        assert_eq!(forecast(1.0, u64::MAX, u64::MAX, day), 86_400.0);
        assert_eq!(forecast(0.0, 1, 1, day), 86_400.0);
    }
}
