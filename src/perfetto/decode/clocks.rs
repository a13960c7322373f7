//! Other clocks to the boot clock, through the trace's clock snapshots.

use crate::perfetto::messages::clock_id;
use rustc_hash::FxHashMap;

/// Snapshots kept per clock. Perfetto takes one every ten seconds, so this is more than a day.
const KEPT: usize = 16_384;
/// Distinct clocks; Perfetto knows eleven.
const CLOCKS: usize = 64;

/// Pairs of instants, per clock.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// For each clock: its reading and CLOCK_BOOTTIME's at the same instant, ns, in order of the reading.
    pairs: FxHashMap<u32, Vec<(u64, u64)>>,
}

impl Clocks {
    /// Notes that `clock` showed `value` when the boot clock showed `boot`, both ns.
    pub(super) fn note(&mut self, clock: u32, value: u64, boot: u64) {
        if clock == clock_id::BOOTTIME || (self.pairs.len() >= CLOCKS && !self.pairs.contains_key(&clock)) {
            return;
        }
        let pairs = self.pairs.entry(clock).or_default();
        let at = pairs.partition_point(|p| p.0 <= value);
        if pairs.len() < KEPT && at.checked_sub(1).is_none_or(|before| pairs[before] != (value, boot)) {
            pairs.insert(at, (value, boot));
        }
    }

    /// The boot time of a reading: by the last snapshot at or before it, else the first one. `None`: no snapshot.
    pub(super) fn to_boot(&self, clock: u32, value: u64) -> Option<u64> {
        if clock == clock_id::BOOTTIME || clock == 0 {
            return Some(value);
        }
        self.offset(clock, value).map(|offset| value.wrapping_add(offset))
    }

    /// What to add (wrapping) to a reading near `value` to get boot time.
    pub(super) fn offset(&self, clock: u32, value: u64) -> Option<u64> {
        let pairs = self.pairs.get(&clock)?;
        let at = pairs.partition_point(|p| p.0 <= value).saturating_sub(1);
        pairs.get(at).map(|(reading, boot)| boot.wrapping_sub(*reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_converted_by_the_snapshot_before_it() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.to_boot(clock_id::MONOTONIC, 5), None);
        assert_eq!(clocks.to_boot(clock_id::BOOTTIME, 5), Some(5));
        clocks.note(clock_id::MONOTONIC, 2_000, 3_600);
        clocks.note(clock_id::MONOTONIC, 1_000, 1_100);
        assert_eq!(clocks.to_boot(clock_id::MONOTONIC, 500), Some(600), "before the first: by the first");
        assert_eq!(clocks.to_boot(clock_id::MONOTONIC, 1_999), Some(2_099));
        assert_eq!(clocks.to_boot(clock_id::MONOTONIC, 2_500), Some(4_100), "a suspend lies between the two");
    }

    #[test]
    fn a_clock_ahead_of_boot_time_is_converted_too() {
        let mut clocks = Clocks::default();
        clocks.note(clock_id::REALTIME, 1_796_042_030_000_000_000, 2_318_000_000_000);
        assert_eq!(clocks.to_boot(clock_id::REALTIME, 1_796_042_031_000_000_000), Some(2_319_000_000_000));
    }
}
