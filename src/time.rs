//! Points in time: their grammar, their printed forms, and boot clock ↔ wall clock.
//!
//! Everything here works on plain numbers handed in: *real* is nanoseconds since 1970 UTC, *boot* nanoseconds on
//! CLOCK_BOOTTIME, and the time zone is an argument. Nothing here reads a clock, an environment variable or a file.
//! Files are named in UTC; screens show local time with its offset, so that an hour that occurs twice stays
//! readable.

mod clock_map;
mod grammar;

pub use clock_map::{ClockMap, ClockPair};
pub use grammar::{Point, RealRange, Reference, TimeError, point, range};
/// A time zone with its rules (IANA name, POSIX rule, or fixed offset).
pub use jiff::tz::TimeZone as Zone;

use jiff::Timestamp;

/// How finely a time is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Digits {
    /// `14:32`
    Minutes,
    /// `14:32:05`
    Seconds,
    /// `14:32:05.250`
    Millis,
    /// `14:32:05.250000`
    Micros,
    /// `14:32:05.250000000`
    Nanos,
}

/// Nanoseconds since 1970 as jiff's type. Every u64 fits: it ends in 2554, jiff in 9999.
fn timestamp(real: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(real)).unwrap_or(Timestamp::MAX)
}

fn real_of(ts: Timestamp) -> Option<u64> {
    u64::try_from(ts.as_nanosecond()).ok()
}

/// Time of day in `zone`: `14:02:31.221480`. Digits beyond the asked ones are cut, never rounded up.
pub fn clock(real: u64, zone: &Zone, digits: Digits) -> String {
    let t = zone.to_datetime(timestamp(real)).time();
    let (h, m, s, ns) = (t.hour(), t.minute(), t.second(), t.subsec_nanosecond());
    match digits {
        Digits::Minutes => format!("{h:02}:{m:02}"),
        Digits::Seconds => format!("{h:02}:{m:02}:{s:02}"),
        Digits::Millis => format!("{h:02}:{m:02}:{s:02}.{:03}", ns / 1_000_000),
        Digits::Micros => format!("{h:02}:{m:02}:{s:02}.{:06}", ns / 1_000),
        Digits::Nanos => format!("{h:02}:{m:02}:{s:02}.{ns:09}"),
    }
}

/// Calendar day in `zone`: `2026-11-30`.
pub fn day(real: u64, zone: &Zone) -> String {
    zone.to_datetime(timestamp(real)).date().to_string()
}

/// Offset from UTC in force at that instant: `+08:00`, `-03:30`, `+00:00`.
pub fn offset(real: u64, zone: &Zone) -> String {
    let seconds = zone.to_offset(timestamp(real)).seconds();
    let (sign, abs) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    format!("{sign}{:02}:{:02}", abs / 3600, abs / 60 % 60)
}

/// The same in as few columns as it needs, for headers: `+08`, `-03:30`.
pub fn offset_short(real: u64, zone: &Zone) -> String {
    let long = offset(real, zone);
    long.strip_suffix(":00").map_or(long.clone(), str::to_string)
}

/// Minutes east of UTC at that instant; what a clock snapshot stores.
pub fn offset_minutes(real: u64, zone: &Zone) -> i32 {
    zone.to_offset(timestamp(real)).seconds() / 60
}

/// Local day, time and offset: `2026-11-30 14:32:05.250 +08:00`. [`point`] reads it back to the same instant.
pub fn local(real: u64, zone: &Zone, digits: Digits) -> String {
    format!("{} {} {}", day(real, zone), clock(real, zone, digits), offset(real, zone))
}

/// UTC, RFC 3339, every digit: `2026-11-30T11:55:00.000000000Z`. For JSON and other machines.
pub fn rfc3339(real: u64) -> String {
    format!("{}T{}Z", day(real, &Zone::UTC), clock(real, &Zone::UTC, Digits::Nanos))
}

/// UTC to the second as file names have it: `20261130T115500Z`.
pub fn utc_name(real: u64) -> String {
    let t = Zone::UTC.to_datetime(timestamp(real));
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", t.year(), t.month(), t.day(), t.hour(), t.minute(), t.second())
}

/// The instant that a file name's `20261130T115500Z` says; `None` for anything else.
pub fn parse_utc_name(name: &str) -> Option<u64> {
    let b = name.as_bytes();
    let shape = b.len() == 16 && b[8] == b'T' && b[15] == b'Z';
    if !shape || !b.iter().enumerate().all(|(i, c)| i == 8 || i == 15 || c.is_ascii_digit()) {
        return None;
    }
    // Digits only, as just checked, so every slice is ASCII and parses.
    let n = |from: usize, to: usize| name[from..to].parse::<i16>().ok();
    let small = |from: usize, to: usize| n(from, to).and_then(|v| i8::try_from(v).ok());
    let date = jiff::civil::Date::new(n(0, 4)?, small(4, 6)?, small(6, 8)?).ok()?;
    let time = jiff::civil::Time::new(small(9, 11)?, small(11, 13)?, small(13, 15)?, 0).ok()?;
    real_of(Zone::UTC.to_timestamp(date.to_datetime(time)).ok()?)
}

/// Start of the wall-clock minute that holds `real`; segments are cut there.
pub fn minute_start(real: u64) -> u64 {
    real - real % 60_000_000_000
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-30 11:55:00 UTC.
    const T: u64 = 1_796_039_700_000_000_000;

    #[test]
    fn names_are_utc_and_read_back() {
        assert_eq!(utc_name(T), "20261130T115500Z");
        assert_eq!(parse_utc_name("20261130T115500Z"), Some(T));
        for bad in
            ["20261130T115500", "20261130T115500z", "20261330T115500Z", "2026113éT11550Z", "20261130T246000Z", ""]
        {
            assert_eq!(parse_utc_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn local_time_carries_its_offset() {
        let shanghai = Zone::fixed(jiff::tz::offset(8));
        assert_eq!(local(T + 250_000_000, &shanghai, Digits::Millis), "2026-11-30 19:55:00.250 +08:00");
        assert_eq!(clock(T + 999_999_999, &Zone::UTC, Digits::Seconds), "11:55:00", "cut, not rounded");
        assert_eq!(offset_short(T, &shanghai), "+08");
        let newfoundland = Zone::posix("NST3:30").unwrap();
        assert_eq!(offset_short(T, &newfoundland), "-03:30");
        assert_eq!(offset_minutes(T, &newfoundland), -210);
        assert_eq!(rfc3339(T + 1), "2026-11-30T11:55:00.000000001Z");
        assert_eq!(minute_start(T + 59_999_999_999), T);
    }

    #[test]
    fn case_57_the_hour_that_occurs_twice_prints_differently() {
        let london = Zone::posix("GMT0BST,M3.5.0/1,M10.5.0").unwrap();
        // 2026-10-25 00:30 and 01:30 UTC are both 01:30 in London.
        let first = parse_utc_name("20261025T003000Z").unwrap();
        assert_eq!(local(first, &london, Digits::Minutes), "2026-10-25 01:30 +01:00");
        assert_eq!(local(first + 3_600_000_000_000, &london, Digits::Minutes), "2026-10-25 01:30 +00:00");
    }

    proptest! {
        #[test]
        fn any_instant_prints(real in any::<u64>()) {
            let name = utc_name(real);
            prop_assert_eq!(parse_utc_name(&name), Some(real - real % 1_000_000_000));
        }

        #[test]
        fn any_name_is_read_or_refused(name in "\\PC{0,20}") {
            let _ = parse_utc_name(&name);
        }
    }
}
