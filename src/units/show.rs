//! Rounded numbers for screens and listings: each form has one meaning and a fixed greatest width.
//!
//! A caller right-aligns with the `*_WIDTH` beside each function and its column never jumps. Widths are
//! terminal columns and also `char`s (`µ` is one of each), so `format!("{:>1$}", …)` pads rightly. A value
//! that is not known is the caller's to show ([`UNKNOWN`]), never zero.

/// What stands for a value that is not known.
pub const UNKNOWN: &str = "–";

/// Greatest width of [`span`].
pub const SPAN_WIDTH: usize = 6;

/// Nanoseconds to two or three significant digits: `850 ns`, `9.0 µs`, `38 µs`, `4.1 ms`, `312 ms`, `8.9 s`, `12 s`,
/// then `1m40s`, `23h41m`, `12d05h`, `999d`; 6 columns at most.
pub fn span(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    for (unit, name, limit) in [(1_000u64, "µs", 1000), (1_000_000, "ms", 1000), (1_000_000_000, "s", 60)] {
        if let Some(text) = two_digits(ns, unit, limit) {
            return format!("{text} {name}");
        }
    }
    let secs = ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000);
    let (d, h, m, s) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60, secs % 60);
    match (d, h) {
        (0, 0) => format!("{m}m{s:02}s"),
        (0, _) => format!("{h}h{m:02}m"),
        (1..=99, _) => format!("{d}d{h:02}h"),
        _ => format!("{d}d"),
    }
}

/// `n / unit` as `4.1` below ten and whole from there, if it stays under `limit` once rounded.
fn two_digits(n: u64, unit: u64, limit: u64) -> Option<String> {
    let n = u128::from(n);
    let unit = u128::from(unit);
    let tenths = (n * 10 + unit / 2) / unit;
    if tenths < 100 {
        return Some(format!("{}.{}", tenths / 10, tenths % 10));
    }
    let whole = (n + unit / 2) / unit;
    (whole < u128::from(limit)).then(|| whole.to_string())
}

/// Greatest width of [`span_exact`] below 1,000 s.
pub const SPAN_EXACT_WIDTH: usize = 10;

/// Nanoseconds with three decimals of a unit, for details: `312 ns`, `4.123 ms`, `38.000 µs`, `12.500 s`. The last
/// digit is cut, not rounded, so that a shown duration never exceeds the real one.
pub fn span_exact(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}.{:03} {name}", ns / unit, ns % unit / (unit / 1000))
}

/// Greatest width of [`span_words`] below 100 days.
pub const SPAN_WORDS_WIDTH: usize = 9;

/// Nanoseconds in the two largest units, whole, for sentences and headers: `42 s`, `5 m 10 s`, `23 h 41 m`, `3 d 4 h`.
pub fn span_words(ns: u64) -> String {
    let secs = ns / 1_000_000_000;
    let (d, h, m, s) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let two = |a: u64, ua: &str, b: u64, ub: &str| {
        if b == 0 { format!("{a} {ua}") } else { format!("{a} {ua} {b} {ub}") }
    };
    match (d, h, m) {
        (0, 0, 0) if secs == 0 && ns > 0 => span(ns),
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => two(m, "m", s, "s"),
        (0, _, _) => two(h, "h", m, "m"),
        _ => two(d, "d", h, "h"),
    }
}

/// Greatest width of [`bytes`].
pub const BYTES_WIDTH: usize = 7;

/// Bytes in powers of 1024: `512 B`, `5.1 MiB`, `312 KiB`, `3.1 GiB`; 7 columns at most.
pub fn bytes(n: u64) -> String {
    if n < 1000 {
        return format!("{n} B");
    }
    for (shift, name) in [(10, "KiB"), (20, "MiB"), (30, "GiB"), (40, "TiB"), (50, "PiB")] {
        if let Some(text) = two_digits(n, 1 << shift, 1000) {
            return format!("{text} {name}");
        }
    }
    // Above 1000 PiB only EiB is left, and u64 ends at 16 of them.
    format!("{} EiB", n >> 60)
}

/// Greatest width of [`count`].
pub const COUNT_WIDTH: usize = 6;

/// A number of things or a rate in powers of 1000: `812`, `1.2 k`, `18.4 k`, `184 k`, `1.2 M`, `18.4 G`; 6 columns at most.
pub fn count(n: u64) -> String {
    if n < 1000 {
        return n.to_string();
    }
    let n = u128::from(n);
    let mut unit = 1_000u128;
    for name in ["k", "M", "G", "T", "P"] {
        let tenths = (n * 10 + unit / 2) / unit;
        if tenths < 1000 {
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
        let whole = (n + unit / 2) / unit;
        if whole < 1000 {
            return format!("{whole} {name}");
        }
        unit *= 1000;
    }
    let tenths = (n * 10 + unit / 2) / unit;
    format!("{}.{} E", tenths / 10, tenths % 10)
}

/// Every digit, in groups of three: `1,204`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Greatest width of [`percent`] for shares up to 999 %.
pub const PERCENT_WIDTH: usize = 6;

/// A share (1.0 = all) with one decimal: `41.2 %`, `0.0 %`, `100 %`; more than one CPU's worth gives `312 %`. Not a
/// number: [`UNKNOWN`].
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.into();
    }
    let percent = (share * 100.0).max(0.0);
    if percent >= 99.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// Greatest width of [`percent_whole`] for shares up to 999 %.
pub const PERCENT_WHOLE_WIDTH: usize = 5;

/// A share as whole percent: `97 %`; what is there but rounds to nothing is `<1 %`. Not a number: [`UNKNOWN`].
pub fn percent_whole(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.into();
    }
    let percent = (share * 100.0).max(0.0);
    if percent > 0.0 && percent < 0.5 { "<1 %".into() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_round_and_roll_over() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (9_000, "9.0 µs"),
            (38_200, "38 µs"),
            (999_600, "1.0 ms"),
            (4_123_000, "4.1 ms"),
            (9_960_000, "10 ms"),
            (312_000_000, "312 ms"),
            (8_900_000_000, "8.9 s"),
            (59_400_000_000, "59 s"),
            (59_600_000_000, "1m00s"),
            (100_000_000_000, "1m40s"),
            (85_260_000_000_000, "23h41m"),
            (1_054_800_000_000_000, "12d05h"),
            (u64::MAX, "213503d"),
        ] {
            assert_eq!(span(ns), text, "{ns} ns");
        }
    }

    #[test]
    fn exact_spans_are_cut_not_rounded() {
        assert_eq!(span_exact(312), "312 ns");
        assert_eq!(span_exact(38_000), "38.000 µs");
        assert_eq!(span_exact(4_123_999), "4.123 ms");
        assert_eq!(span_exact(12_500_000_000), "12.500 s");
    }

    #[test]
    fn spans_in_words() {
        assert_eq!(span_words(0), "0 s");
        assert_eq!(span_words(500_000_000), "500 ms");
        assert_eq!(span_words(42_900_000_000), "42 s");
        assert_eq!(span_words(310_000_000_000), "5 m 10 s");
        assert_eq!(span_words(300_000_000_000), "5 m");
        assert_eq!(span_words(85_260_000_000_000), "23 h 41 m");
        assert_eq!(span_words(273_600_000_000_000), "3 d 4 h");
    }

    #[test]
    fn sizes_round_and_roll_over() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1000), "1.0 KiB");
        assert_eq!(bytes(5_347_737), "5.1 MiB");
        assert_eq!(bytes(3_328_599_655), "3.1 GiB");
        assert_eq!(bytes(1023 << 20), "1.0 GiB");
        assert_eq!(bytes(u64::MAX), "15 EiB");
    }

    #[test]
    fn counts_and_groups() {
        assert_eq!(count(812), "812");
        assert_eq!(count(1_204), "1.2 k");
        assert_eq!(count(18_400), "18.4 k");
        assert_eq!(count(99_960), "100 k");
        assert_eq!(count(1_200_000), "1.2 M");
        assert_eq!(count(u64::MAX), "18.4 E");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_204), "1,204");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn percents() {
        assert_eq!(percent(0.412), "41.2 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.9996), "100 %");
        assert_eq!(percent(3.12), "312 %");
        assert_eq!(percent(f64::NAN), UNKNOWN);
        assert_eq!(percent_whole(0.97), "97 %");
        assert_eq!(percent_whole(0.0), "0 %");
        assert_eq!(percent_whole(0.004), "<1 %");
        assert_eq!(percent_whole(1.0), "100 %");
    }

    proptest! {
        #[test]
        fn widths_hold_for_any_value(n in any::<u64>(), shift in 0u32..64, share in 0.0f64..9.99) {
            let n = n >> shift;
            // Beyond 9,999 days (27 years) a span is no measured one.
            if n < 9_999 * 86_400_000_000_000 {
                prop_assert!(span(n).chars().count() <= SPAN_WIDTH, "{}", span(n));
            }
            if n < 1_000_000_000_000 {
                prop_assert!(span_exact(n).chars().count() <= SPAN_EXACT_WIDTH, "{}", span_exact(n));
            }
            if n < 99 * 86_400_000_000_000 {
                prop_assert!(span_words(n).chars().count() <= SPAN_WORDS_WIDTH, "{}", span_words(n));
            }
            prop_assert!(bytes(n).chars().count() <= BYTES_WIDTH, "{}", bytes(n));
            prop_assert!(count(n).chars().count() <= COUNT_WIDTH, "{}", count(n));
            prop_assert!(percent(share).chars().count() <= PERCENT_WIDTH);
            prop_assert!(percent_whole(share).chars().count() <= PERCENT_WHOLE_WIDTH);
        }
    }
}
