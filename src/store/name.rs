//! File names: `20261130T115500Z-000042.pftrace.zst`, with a label for snapshots, with `.part` while growing.
//!
//! The time is UTC and only for people; order and identity are the sequence number's, which is never
//! reused, so names cannot collide when the wall clock goes back. Knows nothing about what is in a file.

use crate::time::{parse_utc_name, utc_name};
use std::fmt;

/// Longest label kept, bytes. A file name may have 255 (NAME_MAX), the rest of ours takes 46.
const MAX_LABEL: usize = 80;
const SUFFIX: &str = ".pftrace.zst";
const PART: &str = ".part";
/// From here on are numbers that nobody comes to by counting: a name with one is not ours.
pub(super) const NO_SEQUENCE: u64 = u64::MAX / 2;

/// The parts of a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentName {
    /// Begin as the wall clock had it, ns since 1970, a whole second.
    pub start: u64,
    /// Never reused within a store.
    pub sequence: u64,
    /// Snapshots: the label as it stands in the name; `None` for segments.
    pub label: Option<String>,
    /// Still growing, or left by a dead recorder.
    pub part: bool,
}

impl SegmentName {
    /// Name of a growing segment that begins at `real_ns` (CLOCK_REALTIME).
    pub fn growing(real_ns: u64, sequence: u64) -> Self {
        SegmentName { start: whole_second(real_ns), sequence, label: None, part: true }
    }

    /// Name of a snapshot being written; the label is made safe (see [`safe_label`]).
    pub fn snapshot(real_ns: u64, sequence: u64, label: &str) -> Self {
        SegmentName { start: whole_second(real_ns), sequence, label: Some(safe_label(label)), part: true }
    }

    /// The same, whole.
    pub fn finished(&self) -> Self {
        SegmentName { part: false, ..self.clone() }
    }

    /// Reads a file name; `None` if it is not one of ours.
    pub fn parse(name: &str) -> Option<Self> {
        let (name, part) = name.strip_suffix(PART).map_or((name, false), |n| (n, true));
        let (start, rest) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let (number, label) = rest.split_once('-').map_or((rest, None), |(n, l)| (n, Some(l)));
        if number.len() < 6 || !number.bytes().all(|b| b.is_ascii_digit()) || label == Some("") {
            return None;
        }
        Some(SegmentName {
            start: parse_utc_name(start)?,
            sequence: number.parse().ok().filter(|&n| n < NO_SEQUENCE)?,
            label: label.map(str::to_owned),
            part,
        })
    }
}

/// Why a recorded file's name (`….pftrace.zst`) is none that a recorder gives; `None`: it is one, or no recorded file's at all.
pub fn misnamed(name: &str) -> Option<&'static str> {
    let stem = name.strip_suffix(PART).unwrap_or(name).strip_suffix(SUFFIX)?;
    if SegmentName::parse(name).is_some() {
        return None;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some((start, rest)) = stem.split_once('-') else { return Some("no recorder names a file so") };
    let number = rest.split_once('-').map_or(rest, |(number, _)| number);
    let dated = start.len() == 16 && start.ends_with('Z') && start.split_once('T').is_some_and(|(d, _)| digits(d));
    Some(match (dated, parse_utc_name(start)) {
        (true, None) => "there is no such date or time as its name says",
        (true, Some(_)) if digits(number) && number.parse().map_or(true, |n: u64| n >= NO_SEQUENCE) => {
            "no recorder counts to the number in its name"
        }
        _ => "no recorder names a file so",
    })
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:06}", utc_name(self.start), self.sequence)?;
        if let Some(label) = &self.label {
            write!(f, "-{label}")?;
        }
        f.write_str(SUFFIX)?;
        f.write_str(if self.part { PART } else { "" })
    }
}

/// Names hold whole seconds.
fn whole_second(real_ns: u64) -> u64 {
    real_ns - real_ns % 1_000_000_000
}

/// A label that can stand in a file name and cannot leave its folder: separators, control characters, blanks and
/// what a shell would ask quotes for become `_`, length is cut at a character, and dots, dashes and `_` at either end
/// go. An empty rest becomes `snapshot`.
pub fn safe_label(label: &str) -> String {
    const ENDS: [char; 3] = ['.', '-', '_'];
    let mut out = String::new();
    for c in label.chars() {
        let keep = c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '=' | '@' | '%' | ',' | ':');
        let c = if keep { c } else { '_' };
        if out.len() + c.len_utf8() > MAX_LABEL {
            break;
        }
        if !(out.is_empty() && ENDS.contains(&c)) {
            out.push(c);
        }
    }
    let out = out.trim_end_matches(ENDS);
    if out.is_empty() { "snapshot".to_owned() } else { out.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-30T11:55:00Z (`date -u -d @1796039700`).
    const START: u64 = 1_796_039_700;

    #[test]
    fn names_read_as_the_design_says() {
        let n = SegmentName::growing(START * 1_000_000_000 + 999_999_999, 42);
        assert_eq!(n.to_string(), "20261130T115500Z-000042.pftrace.zst.part");
        assert_eq!(n.finished().to_string(), "20261130T115500Z-000042.pftrace.zst");
        let s = SegmentName::snapshot(START * 1_000_000_000, 1_234_567, "p99 alert");
        assert_eq!(s.finished().to_string(), "20261130T115500Z-1234567-p99_alert.pftrace.zst");
        assert_eq!(SegmentName::parse(&s.to_string()), Some(s));
    }

    #[test]
    fn foreign_names_are_not_ours() {
        for name in [
            "",
            "a.pftrace.zst",
            "20261130T115500Z-000042.pftrace",
            "20261130T115500Z-42.pftrace.zst",
            "20261330T115500Z-000042.pftrace.zst",
            "20261130T115500Z-000042-.pftrace.zst",
            "20261130T115500Z-+00042.pftrace.zst",
            "2026113éT11550Z-000042.pftrace.zst",
            "20261130T115500Z-99999999999999999999999.pftrace.zst",
            "20261130T115500Z-18446744073709551615.pftrace.zst",
        ] {
            assert_eq!(SegmentName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_recorded_file_of_another_name_is_told_from_others() {
        for name in ["", "core", "recorder.log", "20261130T115500Z-000042.pftrace.zst", "x.pftrace"] {
            assert_eq!(misnamed(name), None, "{name}");
        }
        for (name, why) in [
            ("20261332T115500Z-000042.pftrace.zst", "there is no such date or time"),
            ("20261130T256000Z-000042-label.pftrace.zst.part", "there is no such date or time"),
            ("20261130T115500Z-18446744073709551615.pftrace.zst", "no recorder counts to the number"),
            ("20261130T115500Z-99999999999999999999999.pftrace.zst", "no recorder counts to the number"),
            ("20261130T115500Z-42.pftrace.zst", "no recorder names a file so"),
            ("a.pftrace.zst", "no recorder names a file so"),
        ] {
            assert!(misnamed(name).is_some_and(|said| said.starts_with(why)), "{name}: {:?}", misnamed(name));
        }
    }

    #[test]
    fn labels_cannot_leave_the_folder() {
        assert_eq!(safe_label("../../etc/passwd"), "etc_passwd");
        assert_eq!(safe_label("/etc"), "etc");
        for nothing in ["", ".", "..", "...", " ", "/", "-", "\n", " _ "] {
            assert_eq!(safe_label(nothing), "snapshot", "{nothing:?}");
        }
        assert_eq!(safe_label("v1.2. "), "v1.2");
        assert_eq!(safe_label(&format!("{}..x", "a".repeat(79))), "a".repeat(79));
        assert_eq!(safe_label("--last"), "last");
        assert_eq!(safe_label("a\nb\u{1b}[2J\0c"), "a_b__2J_c");
        assert_eq!(safe_label("慢い"), "慢い");
        assert_eq!(safe_label(&"é".repeat(100)), "é".repeat(40));
    }

    proptest! {
        #[test]
        fn any_label_gives_one_path_component_that_parses_back(label in any::<String>(), seq in any::<u32>()) {
            let n = SegmentName::snapshot(START * 1_000_000_000, u64::from(seq), &label);
            let text = n.to_string();
            prop_assert!(text.len() <= 255 && !text.contains('/') && !text.chars().any(char::is_control));
            prop_assert_eq!(SegmentName::parse(&text), Some(n));
        }

        #[test]
        fn any_text_parses_or_not_and_what_parses_prints_back(text in "[0-9TZ.a-z-]{0,60}") {
            if let Some(n) = SegmentName::parse(&text) {
                prop_assert_eq!(SegmentName::parse(&n.to_string()), Some(n));
            }
        }
    }
}
