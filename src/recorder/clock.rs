//! The clocks a recording is told by, and when segments are cut.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::sched::event::ClockSnapshot;

/// CLOCK_BOOTTIME now, ns.
pub fn boot_now() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// CLOCK_MONOTONIC now, ns.
pub fn mono_now() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> u64 {
    // These clocks exist on every Linux that runs us; 0 would only mean "not known".
    let Ok(t) = clock_gettime(clock) else { return 0 };
    u64::try_from(t.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec()).unwrap_or(0)
}

/// Readings of all clocks that are this close together, ns, are good enough.
const CLOSE: u64 = 5_000;
/// Most readings for one snapshot.
const READINGS: usize = 8;

/// All clocks, read as close together as user space can: the boot clock is the mean of two readings around the others.
/// Whoever reads may be pushed off the CPU in between, for milliseconds; so the closest of several readings counts.
pub fn snapshot() -> ClockSnapshot {
    let mut best = one_reading();
    for _ in 1..READINGS {
        if best.0 <= CLOSE {
            break;
        }
        let next = one_reading();
        if next.0 < best.0 {
            best = next;
        }
    }
    let mut now = best.1;
    now.zone_offset_minutes = Some(crate::time::offset_minutes(now.real, &crate::kernel::zone::system()));
    now
}

/// How long one reading of all clocks took, ns, and what it gave.
fn one_reading() -> (u64, ClockSnapshot) {
    let before = boot_now();
    let (mono, real, tai) = (mono_now(), read(ClockId::CLOCK_REALTIME), read(ClockId::CLOCK_TAI));
    let took = boot_now().saturating_sub(before);
    (took, ClockSnapshot { boot: before + took / 2, mono, real, tai, zone_offset_minutes: None })
}

/// When a segment that begins at `now` ends, on the boot clock: at the next whole multiple of `length` on the wall
/// clock, but not before `least` has passed.
///
/// The wall clock is only looked at here, once a segment: set by an hour in between it moves no cut.
pub fn next_cut(now: &ClockSnapshot, length: Duration, least: Duration) -> u64 {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
    let least = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
    let left = length - now.real % length;
    let left = if left < least { left.saturating_add(length) } else { left };
    now.boot.saturating_add(left)
}

/// Of a sleep of `slept` ns somewhere between `from` and `to`, what lies in it wherever it began; `None` if too short.
pub fn sleep_within(from: u64, to: u64, slept: u64) -> Option<(u64, u64)> {
    let awake = to.saturating_sub(from).checked_sub(slept)?;
    (slept >= 1_000_000_000 && awake < slept).then(|| (from + awake, from + slept))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(boot: u64, real: u64) -> ClockSnapshot {
        ClockSnapshot { boot, real, ..ClockSnapshot::default() }
    }

    #[test]
    fn case_56_cuts_fall_on_whole_minutes_of_the_wall_clock_at_the_segments_begin() {
        let (minute, least) = (Duration::from_secs(60), Duration::from_secs(1));
        // 10.5 s past a minute: 49.5 s are left.
        assert_eq!(next_cut(&at(1000 * S, 600 * S + 10 * S + S / 2), minute, least), 1000 * S + 49 * S + S / 2);
        assert_eq!(next_cut(&at(1000 * S, 600 * S), minute, least), 1060 * S);
        // A clock that was slewed by a millisecond does not make a segment of a millisecond.
        assert_eq!(next_cut(&at(1000 * S, 660 * S - 1_000_000), minute, least), 1060 * S + 1_000_000);
        // One hour back or a day ahead: the next cut is at most a minute away on the boot clock.
        for real in [600 * S - 3600 * S % (600 * S), 600 * S + 86_400 * S] {
            let cut = next_cut(&at(1000 * S, real), minute, least);
            assert!(cut > 1000 * S && cut <= 1061 * S, "{cut}");
        }
    }

    #[test]
    fn the_clocks_agree_with_themselves() {
        let before = boot_now();
        let now = snapshot();
        let after = boot_now();
        assert!(before <= now.boot && now.boot <= after);
        // It is read between the two readings whose mean the boot clock is, so it may be a little later than that.
        assert!(now.mono <= after, "the boot clock counts suspend on top of the monotonic one");
    }

    #[test]
    fn case_59_a_suspend_is_a_gap_and_slewing_is_not() {
        assert_eq!(sleep_within(100 * S, 700 * S + S / 2, 600 * S), Some((100 * S + S / 2, 700 * S)));
        assert_eq!(sleep_within(100 * S, 100 * S + S / 2, 3), None);
        assert_eq!(sleep_within(100 * S, 101 * S, 2 * S), None, "more than the time between: clocks read apart");
    }
}
