//! Boot clock ↔ wall clock, from pairs of both read at one instant.
//!
//! The wall clock may be slewed or set while recording goes on; the boot clock never is. So the map goes through
//! the pairs piece by piece: where two neighbours differ by no more than a slew, between them is a straight
//! line; where the wall clock was *set*, each side keeps its own offset. Pairs of one boot only: the boot clock
//! starts again at 0 with the machine.

/// Both clocks at one instant, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockPair {
    /// CLOCK_BOOTTIME.
    pub boot: u64,
    /// CLOCK_REALTIME.
    pub real: u64,
}

/// The kernel slews at most 500 ppm (NTP's bound, adjtimex(2)); twice that is allowed for before it counts as set.
const SLEW_PER_MILLION: u64 = 1_000;
/// Reading two clocks one after the other is itself this uncertain.
const READING_NS: u64 = 100_000;

/// A map between the two clocks of one boot. Without any pair, both directions are the identity.
#[derive(Debug, Clone, Default)]
pub struct ClockMap {
    /// By boot time, no two alike.
    pairs: Vec<ClockPair>,
}

impl ClockMap {
    /// From pairs in any order; of two at the same boot instant the later given counts.
    pub fn new(pairs: impl IntoIterator<Item = ClockPair>) -> Self {
        let mut map = ClockMap::default();
        for pair in pairs {
            map.add(pair);
        }
        map
    }

    /// Learns one more pair.
    pub fn add(&mut self, pair: ClockPair) {
        match self.pairs.binary_search_by_key(&pair.boot, |p| p.boot) {
            Ok(i) => self.pairs[i] = pair,
            Err(i) => self.pairs.insert(i, pair),
        }
    }

    /// True if no pair is known: wall times cannot be told.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Wall time at a boot instant.
    pub fn to_real(&self, boot: u64) -> u64 {
        let after = self.pairs.partition_point(|p| p.boot <= boot);
        let Some(&base) = self.pairs.get(after.saturating_sub(1)) else {
            return boot;
        };
        if after == 0 {
            return shifted(base, boot);
        }
        match self.pairs.get(after) {
            Some(&next) if slewed(base, next) => {
                let (run, rise) = (next.boot - base.boot, next.real.saturating_sub(base.real));
                let part = u128::from(boot - base.boot) * u128::from(rise) / u128::from(run);
                base.real.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
            }
            _ => shifted(base, boot),
        }
    }

    /// Every boot instant at which the wall clock read `real`, ascending: two or more where it was set back, none
    /// where it was set forward over that time.
    pub fn to_boot(&self, real: u64) -> Vec<u64> {
        if self.pairs.is_empty() {
            return vec![real];
        }
        let mut found = Vec::new();
        for (i, &base) in self.pairs.iter().enumerate() {
            let next = self.pairs.get(i + 1).copied();
            let Some(boot) = boot_in_piece(base, next, real) else { continue };
            let starts = if i == 0 { 0 } else { base.boot };
            if boot >= starts && next.is_none_or(|n| boot < n.boot) {
                found.push(boot);
            }
        }
        found
    }

    /// The earliest boot instant at which the wall clock read `real` or later: where a range from `real` on begins.
    pub fn first_at_or_after(&self, real: u64) -> u64 {
        if let Some(&first) = self.to_boot(real).first() {
            return first;
        }
        // Set forward over `real`, or `real` lies before the machine was up.
        let later = self.pairs.iter().find(|p| p.real >= real);
        match later {
            Some(p) if self.pairs.first() != Some(p) => p.boot,
            _ => 0,
        }
    }
}

/// `pair`'s offset applied to a boot instant.
fn shifted(pair: ClockPair, boot: u64) -> u64 {
    if boot >= pair.boot {
        pair.real.saturating_add(boot - pair.boot)
    } else {
        pair.real.saturating_sub(pair.boot - boot)
    }
}

/// True if the wall clock went from `a` to `b` by running (slewed at most), not by being set.
fn slewed(a: ClockPair, b: ClockPair) -> bool {
    let run = b.boot - a.boot;
    let Some(rise) = b.real.checked_sub(a.real) else { return false };
    rise.abs_diff(run) <= run / 1_000_000 * SLEW_PER_MILLION + READING_NS && rise > 0
}

/// The boot instant of `real` on the piece that begins at `base`, unbounded on both sides.
fn boot_in_piece(base: ClockPair, next: Option<ClockPair>, real: u64) -> Option<u64> {
    match next {
        Some(next) if slewed(base, next) && real >= base.real => {
            let (run, rise) = (next.boot - base.boot, next.real - base.real);
            let part = (u128::from(real - base.real) * u128::from(run)).div_ceil(u128::from(rise));
            base.boot.checked_add(u64::try_from(part).ok()?)
        }
        _ if real >= base.real => base.boot.checked_add(real - base.real),
        _ => base.boot.checked_sub(base.real - real),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn pair(boot: u64, real: u64) -> ClockPair {
        ClockPair { boot: boot * S, real: real * S }
    }

    #[test]
    fn one_pair_is_an_offset_both_ways() {
        let m = ClockMap::new([pair(100, 5000)]);
        assert_eq!(m.to_real(130 * S), 5030 * S);
        assert_eq!(m.to_real(90 * S), 4990 * S);
        assert_eq!(m.to_boot(5030 * S), vec![130 * S]);
        assert_eq!(m.to_boot(4899 * S), Vec::<u64>::new(), "before the machine was up");
        assert_eq!(m.first_at_or_after(4899 * S), 0);
    }

    #[test]
    fn a_slew_is_followed_in_a_straight_line() {
        // 60 s on the boot clock, 60.006 s on the wall: 100 ppm.
        let m = ClockMap::new([
            ClockPair { boot: 0, real: 1000 * S },
            ClockPair { boot: 60 * S, real: 1060 * S + 6_000_000 },
        ]);
        assert_eq!(m.to_real(30 * S), 1030 * S + 3_000_000);
        assert_eq!(m.to_boot(1030 * S + 3_000_000), vec![30 * S]);
    }

    #[test]
    fn case_56_a_clock_set_back_an_hour_has_times_that_occur_twice() {
        let m = ClockMap::new([pair(0, 10_000), pair(60, 10_060), pair(120, 6_520)]);
        assert_eq!(m.to_real(119 * S), 10_119 * S, "each side keeps its own offset");
        assert_eq!(m.to_real(130 * S), 6_530 * S);
        assert_eq!(m.to_boot(10_030 * S), vec![30 * S, 3_630 * S]);
    }

    #[test]
    fn case_56_a_clock_set_forward_skips_times() {
        let m = ClockMap::new([pair(0, 10_000), pair(60, 96_460)]);
        assert_eq!(m.to_boot(50_000 * S), Vec::<u64>::new());
        assert_eq!(m.first_at_or_after(50_000 * S), 60 * S);
    }

    #[test]
    fn without_pairs_nothing_is_shifted() {
        let m = ClockMap::default();
        assert!(m.is_empty());
        assert_eq!(m.to_real(7), 7);
        assert_eq!(m.to_boot(7), vec![7]);
    }

    proptest! {
        #[test]
        fn any_pairs_any_instant(pairs in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..6), at in any::<u64>()) {
            let m = ClockMap::new(pairs.into_iter().map(|(boot, real)| ClockPair { boot, real }));
            let _ = m.to_real(at);
            let _ = m.first_at_or_after(at);
            let found = m.to_boot(at);
            prop_assert!(found.is_sorted());
        }

        #[test]
        fn there_and_back_on_a_running_clock(at in 1_000u64..1_000_000) {
            let m = ClockMap::new([pair(1_000, 1_796_000_000), pair(500_000, 1_796_499_000)]);
            let boot = at * S + 17;
            prop_assert_eq!(m.to_boot(m.to_real(boot)), vec![boot]);
        }
    }
}
