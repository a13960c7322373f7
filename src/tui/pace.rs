//! How often to ask for new data and draw: 4 times a second, less over a slow link.
//!
//! Writing to a terminal behind a slow SSH link blocks; how long it blocks is all there is to see from here.
//! A pure value: it is told what each draw took and says when the next may come.

use std::time::Duration;

/// Draws per second unless the link is slow.
pub const DEFAULT_HZ: f64 = 4.0;
/// A draw never comes later than this after data changed.
const LONGEST: Duration = Duration::from_secs(2);
/// At most this share of the time may go into writing to the terminal.
const SHARE: f64 = 0.2;

/// The refresh interval, adapted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    base: Duration,
    /// Time a draw takes, smoothed, seconds.
    cost: f64,
}

impl Pace {
    /// At most `hz` draws a second.
    pub fn new(hz: f64) -> Pace {
        let hz = if hz.is_finite() { hz.clamp(0.5, 60.0) } else { DEFAULT_HZ };
        Pace { base: Duration::from_secs_f64(1.0 / hz), cost: 0.0 }
    }

    /// A draw took this long, writing included.
    pub fn drawn(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        // Up at once, down slowly: a link that stalled once will stall again.
        self.cost = if took > self.cost { took } else { self.cost * 0.8 + took * 0.2 };
    }

    /// From one refresh to the next.
    pub fn interval(&self) -> Duration {
        let affordable = Duration::from_secs_f64((self.cost / SHARE).min(LONGEST.as_secs_f64()));
        self.base.max(affordable)
    }

    /// True when the link, not the user, sets the pace: the screen says so.
    pub fn slowed(&self) -> bool {
        self.interval() > self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_link_gets_four_a_second() {
        let mut p = Pace::new(DEFAULT_HZ);
        p.drawn(Duration::from_millis(3));
        assert_eq!(p.interval(), Duration::from_millis(250));
        assert!(!p.slowed());
    }

    #[test]
    fn a_slow_link_gets_a_fifth_of_its_time_and_recovers() {
        let mut p = Pace::new(DEFAULT_HZ);
        p.drawn(Duration::from_millis(200));
        assert_eq!(p.interval(), Duration::from_secs(1));
        p.drawn(Duration::from_secs(30));
        assert_eq!(p.interval(), LONGEST);
        for _ in 0..60 {
            p.drawn(Duration::from_millis(1));
        }
        assert!(!p.slowed());
    }

    #[test]
    fn odd_rates_are_bounded() {
        assert_eq!(Pace::new(f64::NAN).interval(), Duration::from_millis(250));
        assert_eq!(Pace::new(0.0).interval(), Duration::from_secs(2));
    }
}
