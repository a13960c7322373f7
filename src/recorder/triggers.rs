//! Snapshots that the recorder takes by itself, when a value stays above a limit.
//!
//! Pure: is told values with their instants, says what fired. Values are counters by name, and three of the scheduler's:
//! `run_queue_latency` and `blocked` (the longest of the last interval, ns) and `ready` (most threads at once on one
//! CPU's queue).

use super::settings::Trigger;
use crate::kernel::counters::Sample;
use crate::names::printable;
use crate::units::show::span;

/// A condition held: take a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Fired {
    /// For the file name.
    pub label: String,
    /// What was seen, in words.
    pub detail: String,
    /// How much to keep, ns; `None`: as configured for all.
    pub last_ns: Option<u64>,
}

#[derive(Debug)]
struct Rule {
    settings: Trigger,
    /// Since when the value has been at or above the limit.
    since: Option<u64>,
    /// When it last fired.
    fired: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Triggers {
    rules: Vec<Rule>,
}

impl Triggers {
    /// Watches for these.
    pub fn new(settings: &[Trigger]) -> Triggers {
        let rule = |s: &Trigger| Rule { settings: s.clone(), since: None, fired: None };
        Triggers { rules: settings.iter().map(rule).collect() }
    }

    /// True when nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Takes a round of counters.
    pub fn counters(&mut self, ts: u64, samples: &[Sample]) -> Vec<Fired> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        samples.iter().flat_map(|s| self.value(ts, &s.name, s.value)).collect()
    }

    /// Takes one value.
    pub fn value(&mut self, ts: u64, name: &[u8], value: f64) -> Vec<Fired> {
        self.rules
            .iter_mut()
            .filter(|r| r.settings.value.as_bytes() == name)
            .filter_map(|r| r.value(ts, value))
            .collect()
    }
}

impl Rule {
    fn value(&mut self, ts: u64, value: f64) -> Option<Fired> {
        if value.is_nan() || value < self.settings.above {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(ts);
        let passed = |from: u64, time: std::time::Duration| u128::from(ts.saturating_sub(from)) >= time.as_nanos();
        let rested = self.fired.is_none_or(|f| passed(f, self.settings.cooldown));
        if !passed(since, self.settings.hold) || !rested {
            return None;
        }
        self.fired = Some(ts);
        let (s, name) = (&self.settings, printable(self.settings.value.as_bytes()));
        // The scheduler's times are nanoseconds; nobody reads those.
        let show = |v: f64| match s.value.as_str() {
            "run_queue_latency" | "blocked" => span(v as u64),
            _ => v.to_string(),
        };
        let detail = format!("{name} was {} (limit {})", show(value), show(s.above));
        let last_ns = s.last.map(|l| u64::try_from(l.as_nanos()).unwrap_or(u64::MAX));
        Some(Fired { label: s.label.clone(), detail, last_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const S: u64 = 1_000_000_000;

    fn rule(hold: u64, cooldown: u64) -> Triggers {
        Triggers::new(&[Trigger {
            label: "psi".into(),
            value: "psi.cpu.some.avg10".into(),
            above: 40.0,
            hold: Duration::from_secs(hold),
            cooldown: Duration::from_secs(cooldown),
            last: Some(Duration::from_secs(60)),
        }])
    }

    fn fires(t: &mut Triggers, at: u64, value: f64) -> usize {
        t.value(at * S, b"psi.cpu.some.avg10", value).len()
    }

    #[test]
    fn it_fires_when_the_value_held_and_then_rests() {
        let mut t = rule(3, 100);
        assert_eq!(fires(&mut t, 10, 50.0), 0);
        assert_eq!(fires(&mut t, 12, 50.0), 0, "held 2 of 3 s");
        assert_eq!(fires(&mut t, 13, 50.0), 1);
        assert_eq!(fires(&mut t, 14, 50.0), 0, "resting");
        assert_eq!(fires(&mut t, 113, 50.0), 1);
    }

    #[test]
    fn falling_below_starts_anew_and_other_names_do_not_count() {
        let mut t = rule(3, 0);
        fires(&mut t, 10, 50.0);
        fires(&mut t, 12, 39.9);
        assert_eq!(fires(&mut t, 14, 50.0), 0);
        assert_eq!(fires(&mut t, 16, f64::NAN), 0);
        assert_eq!(fires(&mut t, 18, 50.0), 0);
        assert_eq!(t.value(30 * S, b"other", 99.0).len(), 0);
        let fired = t.value(21 * S, b"psi.cpu.some.avg10", 40.0);
        assert_eq!(fired[0].detail, "psi.cpu.some.avg10 was 40 (limit 40)");
        assert_eq!((fired[0].label.as_str(), fired[0].last_ns), ("psi", Some(60 * S)));
    }

    #[test]
    fn times_are_told_in_their_unit() {
        for name in ["run_queue_latency", "blocked"] {
            let mut t = Triggers::new(&[Trigger {
                label: "slow".into(),
                value: name.into(),
                above: 20e6,
                hold: Duration::ZERO,
                cooldown: Duration::ZERO,
                last: None,
            }]);
            let fired = t.value(S, name.as_bytes(), 120_383_455.0);
            assert_eq!(fired[0].detail, format!("{name} was 120 ms (limit 20 ms)"));
        }
    }
}
