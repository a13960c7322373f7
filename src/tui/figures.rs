//! Numbers as they stand in columns: short, right-aligned by the caller, of bounded width, units always beside them.
//!
//! A figure on screen keeps two or three digits, so that it never jumps in width from one draw to the next; exact
//! values are for the details line and the reports.

/// A duration in at most 6 columns: `812 ns`, `38 µs`, `4.1 ms`, `312 ms`, `9.8 s`, `59 s`, `42 m`, `23 h`, `12 d`.
pub fn short(ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];
    let tenths = |unit: u64| (u128::from(ns) * 10 + u128::from(unit) / 2) / u128::from(unit);
    let whole = |unit: u64| (u128::from(ns) + u128::from(unit) / 2) / u128::from(unit);
    for (unit, name) in UNITS {
        if unit > 1 && tenths(unit) < 100 {
            let t = tenths(unit);
            if unit == UNITS[3].0 || t >= 10 {
                return format!("{}.{} {name}", t / 10, t % 10);
            }
        }
        if (name == "s" && whole(unit) < 60) || (name != "s" && whole(unit) < 1000) {
            return format!("{} {name}", whole(unit));
        }
    }
    let minutes = whole(60_000_000_000);
    match minutes {
        0..=59 => format!("{} m", minutes.max(1)),
        60..=2879 => format!("{} h", minutes / 60),
        _ => format!("{} d", (minutes / 1440).min(99_999)),
    }
}

/// A duration to the nanosecond's last meaning digit, for details: `4.123 ms`, `14 µs`, `1.204 s`.
pub fn exact(ns: u64) -> String {
    let (unit, name) = match ns {
        0..=999 => return format!("{ns} ns"),
        1_000..=999_999 => (1_000, "µs"),
        1_000_000..=999_999_999 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    // Three digits behind the point: always exact to 1/1000 of the unit, rounded down as all interval arithmetic here is.
    format!("{}.{:03} {name}", ns / unit, ns % unit * 1000 / unit)
}

/// A span chosen by the user: `10 s`, `10 min`, `1 h 30 min`.
pub fn span(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0 => short(ns),
        1..=119 if ns % 1_000_000_000 != 0 => short(ns),
        1..=119 => format!("{s} s"),
        120..=7199 if s % 60 == 0 => format!("{} min", s / 60),
        120..=7199 => format!("{} min {} s", s / 60, s % 60),
        _ if s / 60 % 60 == 0 => format!("{} h", s / 3600),
        _ => format!("{} h {} m", s / 3600, s / 60 % 60),
    }
}

/// A share 0..=1 as percent with one digit, in 5 columns: ` 41.2`, `100.0`; `–` when not known.
pub fn percent(share: Option<f64>) -> String {
    match share {
        Some(s) if s.is_finite() => format!("{:.1}", s.clamp(0.0, 9.99) * 100.0),
        _ => "–".into(),
    }
}

/// A share as whole percent: `97 %`.
pub fn whole_percent(share: Option<f64>) -> String {
    match share {
        Some(s) if s.is_finite() => format!("{:.0} %", s.clamp(0.0, 9.99) * 100.0),
        _ => "– %".into(),
    }
}

/// A share of a whole, `part` of `all`.
pub fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// A count with its thousands apart: `1,204`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A rate or count in at most 5 columns: `812`, `1.1k`, `18k`, `1.2M`.
pub fn brief(n: f64) -> String {
    let n = if n.is_finite() && n > 0.0 { n } else { 0.0 };
    for (unit, name) in [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")] {
        let v = n / unit;
        if unit > 1.0 && v < 9.95 {
            return format!("{v:.1}{name}");
        }
        if v < 999.5 {
            return format!("{v:.0}{name}");
        }
    }
    ">999T".into()
}

/// Bytes: `512 B`, `3.1 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.5 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (ns, text) in [
            (0, "0 ns"),
            (812, "812 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (38_000, "38 µs"),
            (4_123_000, "4.1 ms"),
            (9_949_999, "9.9 ms"),
            (9_950_000, "10 ms"),
            (312_000_000, "312 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.0 s"),
            (1_900_000_000, "1.9 s"),
            (59_400_000_000, "59 s"),
            (60_000_000_000, "1 m"),
            (2_520_000_000_000, "42 m"),
            (85_260_000_000_000, "23 h"),
            (864_000_000_000_000, "10 d"),
        ] {
            assert_eq!(short(ns), text, "{ns}");
        }
        assert_eq!(exact(4_123_456), "4.123 ms");
        assert_eq!(exact(14_000), "14.000 µs");
        assert_eq!(exact(999), "999 ns");
        assert_eq!(span(10_000_000_000), "10 s");
        assert_eq!(span(600_000_000_000), "10 min");
        assert_eq!(span(50_000_000), "50 ms");
        assert_eq!(span(85_260_000_000_000), "23 h 41 m");
    }

    #[test]
    fn other_figures() {
        assert_eq!(percent(Some(0.4123)), "41.2");
        assert_eq!(percent(Some(1.0)), "100.0");
        assert_eq!(percent(None), "–");
        assert_eq!(count(1_204), "1,204");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(brief(1_100.0), "1.1k");
        assert_eq!(brief(18_400.0), "18k");
        assert_eq!(brief(999.6), "1.0k");
        assert_eq!(bytes(3_328_599_654), "3.1 GiB");
        assert_eq!(bytes(512), "512 B");
    }

    proptest! {
        #[test]
        fn never_wider_than_the_column(ns: u64) {
            prop_assert!(short(ns).chars().count() <= 7, "{}", short(ns));
            prop_assert!(brief(ns as f64).chars().count() <= 5);
        }
        #[test]
        fn up_to_ten_years_in_six(ns in 0u64..315_000_000_000_000_000) {
            prop_assert!(short(ns).chars().count() <= 6, "{}", short(ns));
        }
    }
}
