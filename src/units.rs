//! Sizes, durations and shares as people write them (`"4 GiB"`, `"1h30m"`, `"5 %"`), both ways.
//!
//! [`Bytes`], [`Span`] and [`Share`] are what config files and command lines speak; each prints the
//! shortest exact text that reads back to the same value. [`show`] holds the rounded forms for
//! screens, where a column must never jump. Knows nothing of clocks, files or the terminal.

pub mod show;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not a size, duration or share. The message quotes the text and says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {what}: {why}")]
pub struct UnitError {
    what: &'static str,
    text: String,
    why: String,
}

impl UnitError {
    fn new(what: &'static str, text: &str, why: impl Into<String>) -> Self {
        // The text may come from a file or an argument: safe to print, and not a megabyte of it.
        let shown: String = text.chars().take(60).collect();
        UnitError { what, text: crate::names::printable(shown.as_bytes()), why: why.into() }
    }
}

/// A number of bytes.
///
/// Reads `"4 GiB"`, `"512KiB"`, `"64MB"`: KiB/MiB/GiB/TiB are powers of 1024 (short: K, M, G, T), kB/MB/GB/TB
/// powers of 1000, case does not matter, fractions are rounded to whole bytes. A unit is required, save for 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` MiB, saturating.
    pub const fn mib(n: u64) -> Self {
        Bytes(n.saturating_mul(1 << 20))
    }
}

const SIZE_UNITS: &str = "B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers of 1000)";

fn size_unit(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let err = |why: String| UnitError::new("size", text, why);
        let (number, unit, rest) = number_and_unit(text).map_err(err)?;
        if !rest.is_empty() {
            return Err(err(format!("one number and one unit are expected; the unit is one of {SIZE_UNITS}")));
        }
        let factor = match unit {
            "" if number.is_zero() => 1,
            "" => {
                return Err(err(format!("the unit is missing: write \"{} MiB\", or one of {SIZE_UNITS}", number.text)));
            }
            u => size_unit(u).ok_or_else(|| err(format!("unknown unit \"{}\"; use {SIZE_UNITS}", clip(u))))?,
        };
        number.times(factor).map(Bytes).ok_or_else(|| err("it is larger than 16 EiB".into()))
    }
}

/// Exact: the largest power of 1024 that divides the value (`4 GiB`, `1536 MiB`, `1000 B`).
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in units {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return f.pad(&format!("{} {unit}", self.0 >> shift));
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

/// A length of time, never negative.
///
/// Reads `"60s"`, `"5m"`, `"500ms"`, `"1h30m"`, `"24 h"`: units d, h, m (min), s, ms, µs (us), ns, from large to
/// small, each at most once. A unit is required, save for 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Span(Duration::from_secs(n))
    }

    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Span(Duration::from_millis(n))
    }

    /// Whole nanoseconds, saturating at u64::MAX (584 years).
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

const SPAN_UNITS: &str = "d, h, m, s, ms, µs or ns";

/// Nanoseconds and canonical order of a duration's unit.
fn span_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Both the micro sign and the Greek letter are on keyboards.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let err = |why: String| UnitError::new("duration", text, why);
        let (mut total, mut smallest, mut rest) = (0u64, u64::MAX, text);
        loop {
            let (number, unit, after) = number_and_unit(rest).map_err(err)?;
            let factor = match unit {
                "" if number.is_zero() && smallest == u64::MAX => 1,
                "" => {
                    return Err(err(format!(
                        "the unit is missing: write \"{} s\", or one of {SPAN_UNITS}",
                        number.text
                    )));
                }
                u => span_unit(u).ok_or_else(|| err(format!("unknown unit \"{}\"; use {SPAN_UNITS}", clip(u))))?,
            };
            if factor >= smallest {
                return Err(err("units must go from large to small, each once, as in \"1h30m\"".into()));
            }
            smallest = factor;
            let part = number.times(factor).and_then(|n| total.checked_add(n));
            total = part.ok_or_else(|| err("it is longer than 584 years".into()))?;
            if after.is_empty() {
                return Ok(Span(Duration::from_nanos(total)));
            }
            rest = after;
        }
    }
}

/// Exact, and reads back to the same value: `1h30m`, `500ms`, `24h`, `0s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_nanos();
        if left == 0 {
            return f.pad("0s");
        }
        let mut out = String::new();
        for (unit, name) in [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "µs"),
            (1, "ns"),
        ] {
            if left >= unit {
                out.push_str(&format!("{}{name}", left / unit));
                left %= unit;
            }
        }
        f.pad(&out)
    }
}

/// A share of something, 0..=1; reads and prints as percent (`"5 %"`, `"0.5%"`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let err = |why: &str| UnitError::new("share", text, why);
        let (number, unit, rest) = number_and_unit(text).map_err(|why| err(&why))?;
        if unit != "%" || !rest.is_empty() {
            return Err(err("write percent, as in \"5 %\""));
        }
        let percent: f64 = number.text.parse().map_err(|_| err("it does not start with a number"))?;
        if percent > 100.0 {
            return Err(err("it is over 100 %"));
        }
        Ok(Share(percent / 100.0))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded at 9 digits, so that 0.07 * 100 prints "7 %".
        let percent = (self.0 * 100.0 * 1e9).round() / 1e9;
        f.pad(&format!("{percent} %"))
    }
}

/// A decimal number kept exact: `digits` / 10^`scale`.
struct Number<'a> {
    text: &'a str,
    digits: u128,
    scale: u32,
}

impl Number<'_> {
    fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// `self * factor`, rounded to the nearest whole; `None` beyond u64.
    fn times(&self, factor: u64) -> Option<u64> {
        let one = 10u128.pow(self.scale);
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from((product + one / 2) / one).ok()
    }
}

/// Splits `"12.5 GiB rest"` into number, unit (perhaps empty) and what follows; spaces around each are dropped.
fn number_and_unit(text: &str) -> Result<(Number<'_>, &str, &str), String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, after) = text.split_at(end);
    if number.is_empty() {
        return Err(if text.starts_with('-') {
            "it is negative".into()
        } else {
            "it does not start with a number".into()
        });
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed = whole.is_empty() || number.ends_with('.') || fraction.contains('.');
    // 20 + 9 digits fit u128 many times over, even multiplied by the largest unit's 10^13 (the product is checked).
    if malformed || whole.len() > 20 || fraction.len() > 9 {
        return Err(format!("\"{}\" is not a plain decimal number", clip(number)));
    }
    let scale = fraction.len() as u32;
    let digits = format!("{whole}{fraction}").parse().map_err(|_| format!("\"{number}\" is not a number"))?;
    let after = after.trim_start();
    let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace()).unwrap_or(after.len());
    let (unit, rest) = after.split_at(unit_end);
    Ok((Number { text: number, digits, scale }, unit, rest.trim_start()))
}

/// Text quoted in a message: printable and short.
fn clip(text: &str) -> String {
    let short: String = text.chars().take(24).collect();
    crate::names::printable(short.as_bytes())
}

/// Serde for a type that reads from text only; a bare number gets told which unit it lacks.
macro_rules! serde_as_text {
    ($ty:ty, $expected:literal) => {
        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $ty;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$ty, E> {
                        v.parse().map_err(E::custom)
                    }

                    fn visit_i64<E: de::Error>(self, v: i64) -> Result<$ty, E> {
                        Err(E::custom(format_args!(concat!("{} has no unit: write ", $expected), v)))
                    }

                    fn visit_u64<E: de::Error>(self, v: u64) -> Result<$ty, E> {
                        Err(E::custom(format_args!(concat!("{} has no unit: write ", $expected), v)))
                    }

                    fn visit_f64<E: de::Error>(self, v: f64) -> Result<$ty, E> {
                        Err(E::custom(format_args!(concat!("{} has no unit: write ", $expected), v)))
                    }
                }
                d.deserialize_any(Text)
            }
        }
    };
}

serde_as_text!(Bytes, "a size in quotes, such as \"4 GiB\"");
serde_as_text!(Span, "a duration in quotes, such as \"60 s\"");
serde_as_text!(Share, "a share in quotes, such as \"5 %\"");

#[cfg(test)]
mod tests;
