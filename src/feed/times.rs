//! Times that are hardly those of one recording, in words.

use crate::units::show;

/// Silence of this length is looked at, ns: a machine that is up does something every second.
const LONG: u64 = 3600 * 1_000_000_000;

/// What is odd about the times of events.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Events that were left out, for no machine is up for so long.
    pub impossible: u64,
    /// Of a recorder that does not say when it recorded nothing; ours do.
    pub foreign: bool,
    /// Longest stretch without an event so far, from one to the next.
    silence: Option<(u64, u64)>,
}

impl Times {
    /// An event at `ts`, when `seen` is what was met before.
    #[inline]
    pub fn note(&mut self, ts: u64, (min, max): (u64, u64)) {
        if let Some((from, to)) = self.silence
            && from < ts
            && ts < to
        {
            // Packets are nearly in time order, not quite: the silence was shorter.
            let rest = if ts - from > to - ts { (from, ts) } else { (ts, to) };
            self.silence = Some(rest).filter(|(from, to)| to - from > LONG);
        }
        let jump = if ts > max { (max, ts) } else { (ts, min) };
        let length = jump.1.saturating_sub(jump.0);
        if length > LONG && self.silence.is_none_or(|(from, to)| to - from < length) {
            self.silence = Some(jump);
        }
    }

    /// What is to be said of it, where all events lie in `seen`.
    pub fn words(&self, seen: Option<(u64, u64)>) -> Vec<String> {
        let mut words = Vec::new();
        if self.impossible > 0 {
            let (n, s) = (show::grouped(self.impossible), if self.impossible == 1 { "" } else { "s" });
            words.push(format!("{n} event{s} left out, at times after 36 years of uptime"));
        }
        let whole = seen.map_or(0, |(from, to)| to - from);
        // Most of what every answer would be about.
        if let Some((from, to)) = self.silence.filter(|(from, to)| self.foreign && to - from > whole / 10 * 9) {
            let second = |ts: u64| show::grouped(ts / 1_000_000_000);
            words.push(format!(
                "no event for {}, from {} s to {} s: one of these times is hardly right, and shares of all the time mean little",
                show::span_words(to - from),
                second(from),
                second(to)
            ));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const YEAR: u64 = 365 * 86_400 * SECOND;

    fn said(times: &[u64], foreign: bool) -> Vec<String> {
        let mut noted = Times { foreign, ..Times::default() };
        let mut seen = None;
        for &ts in times {
            let (min, max) = seen.unwrap_or((ts, ts));
            noted.note(ts, (min, max));
            seen = Some((ts.min(min), ts.max(max)));
        }
        noted.words(seen)
    }

    #[test]
    fn one_event_far_from_all_others_is_told() {
        let far = "no event for 365 d, from 1,001 s to 31,537,001 s: one of these times is hardly right, and shares of all the time mean little";
        let (a, b) = (1000 * SECOND, 1001 * SECOND);
        assert_eq!(said(&[a, b, b + YEAR], true), [far]);
        // In whatever order they come.
        assert_eq!(said(&[b + YEAR, a, b], true).len(), 1);
        assert_eq!(said(&[a, b + YEAR, b], true), said(&[b, a, b + YEAR], true));
        assert!(said(&[a, b, b + YEAR], false).is_empty(), "our own recorder tells its gaps");
    }

    #[test]
    fn a_silence_that_is_filled_later_or_short_beside_the_whole_is_none() {
        let at = |minutes: u64| minutes * 60 * SECOND;
        assert!(said(&[at(0), at(90), at(1), at(45), at(89)], true).is_empty(), "another CPU's events, written behind");
        assert!(said(&[at(0), at(59)], true).is_empty());
        let night: Vec<u64> = (0..120).map(at).chain((300..420).map(at)).collect();
        assert!(said(&night, true).is_empty(), "three hours of seven");
    }

    #[test]
    fn events_at_impossible_times_are_counted() {
        let words = |impossible| Times { impossible, ..Times::default() }.words(None);
        assert_eq!(words(1), ["1 event left out, at times after 36 years of uptime"]);
        assert_eq!(words(1200), ["1,200 events left out, at times after 36 years of uptime"]);
    }
}
