//! Findings in plain words, each with its numbers: the one place where they become sentences, for screens and reports alike.

use crate::names::NameId;
use crate::sched::fold::Utid;
use crate::sched::summary::{Finding, FindingKind, Instead};
use crate::units::show;

/// Where the words behind the ids come from. Texts must be safe to draw already.
pub trait Words {
    /// A thread's name.
    fn thread(&self, utid: Utid) -> String;
    /// An interned text; empty when not known.
    fn text(&self, id: NameId) -> String;
}

/// The share of who ran instead, with a sign where it was reckoned from some of the waits.
pub fn instead_share(most: &Instead) -> String {
    format!("{}{}", if most.estimated { "≈" } else { "" }, show::percent_whole(most.share))
}

/// A finding as one sentence without a full stop; `window` is the length it was reckoned over, ns.
pub fn finding(finding: &Finding, window: u64, words: &impl Words) -> String {
    let over = show::span_words(window);
    let name = |utid: Utid| words.thread(utid);
    match &finding.kind {
        FindingKind::Starving { utid, share, latency, instead } => {
            let mut text =
                format!("{} was ready but not running {} of the last {over}", name(*utid), show::percent_whole(*share));
            if latency.count > 0 {
                text.push_str(&format!(" (p99 {}, worst {})", show::span(latency.p99), show::span(latency.max)));
            }
            if let Some(most) = instead {
                text.push_str(&format!("; {} ran instead for {} of that", name(most.utid), instead_share(most)));
            }
            text
        }
        FindingKind::Monopolised { cpu, utid, share, ready_ns } => format!(
            "{} had {} of CPU {cpu} while others waited there, {} in all",
            name(*utid),
            show::percent_whole(*share),
            show::span(*ready_ns)
        ),
        FindingKind::PushedOff { utid, per_s, by } => {
            let mut text =
                format!("{} was pushed off its CPU {} times a second", name(*utid), show::count(*per_s as u64));
            if let Some((other, part)) = by {
                text.push_str(&format!(", by {} in {} of them", name(*other), show::percent_whole(*part)));
            }
            text
        }
        FindingKind::LongBlocked { utid, longest, count, function } => {
            let function = words.text(*function);
            let place = if function.is_empty() { String::new() } else { format!(" in {function}") };
            let times = match count {
                0 | 1 => String::new(),
                n => format!(", {} times", show::grouped(*n)),
            };
            format!("{} was in D for {}{place}{times}", name(*utid), show::span(*longest))
        }
        FindingKind::IdleWhileReady { cpu, idle_ns, utid, ready_cpu } => {
            format!("CPU {cpu} was idle for {} while {} waited for CPU {ready_cpu}", show::span(*idle_ns), name(*utid))
        }
        FindingKind::Lost { cpu, count, ns } => {
            let count = count.map_or("an unknown number of events".to_string(), |n| match n {
                1 => "1 event".to_string(),
                n => format!("{} events", show::grouped(n)),
            });
            format!("CPU {cpu} lost {count} over {}; numbers for that time are not known", show::span(*ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::summary::{LatencyStats, Severity, Window};

    struct Fixed;
    impl Words for Fixed {
        fn thread(&self, utid: Utid) -> String {
            ["idle", "pt_loader:0", "logship", "ckpt_writer"][utid as usize].into()
        }
        fn text(&self, id: NameId) -> String {
            if id.is_empty() { String::new() } else { "jbd2_log_wait_commit".into() }
        }
    }

    fn said(kind: FindingKind) -> String {
        let at = Window { from: 0, to: 1 };
        finding(&Finding { severity: Severity::Warning, kind, at }, 10_000_000_000, &Fixed)
    }

    #[test]
    fn every_finding_says_its_numbers() {
        let instead = Some(Instead { utid: 2, share: 0.83, estimated: false });
        let latency = LatencyStats { count: 9, p99: 4_100_000, max: 12_000_000, ..LatencyStats::default() };
        assert_eq!(
            said(FindingKind::Starving { utid: 1, share: 0.213, latency, instead }),
            "pt_loader:0 was ready but not running 21 % of the last 10 s (p99 4.1 ms, worst 12 ms); logship ran instead for 83 % of that"
        );
        let some = Some(Instead { utid: 2, share: 0.83, estimated: true });
        assert_eq!(
            said(FindingKind::Starving { utid: 1, share: 0.213, latency: LatencyStats::default(), instead: some }),
            "pt_loader:0 was ready but not running 21 % of the last 10 s; logship ran instead for ≈83 % of that"
        );
        assert_eq!(
            said(FindingKind::LongBlocked { utid: 3, longest: 312_000_000, count: 3, function: NameId(1) }),
            "ckpt_writer was in D for 312 ms in jbd2_log_wait_commit, 3 times"
        );
        assert_eq!(
            said(FindingKind::LongBlocked { utid: 3, longest: 312_000_000, count: 1, function: NameId::EMPTY }),
            "ckpt_writer was in D for 312 ms"
        );
        assert_eq!(
            said(FindingKind::IdleWhileReady { cpu: 1, idle_ns: 8_900_000_000, utid: 1, ready_cpu: 0 }),
            "CPU 1 was idle for 8.9 s while pt_loader:0 waited for CPU 0"
        );
        assert_eq!(
            said(FindingKind::Lost { cpu: 2, count: None, ns: 40_000_000 }),
            "CPU 2 lost an unknown number of events over 40 ms; numbers for that time are not known"
        );
        assert_eq!(
            said(FindingKind::PushedOff { utid: 1, per_s: 403.2, by: Some((2, 0.6)) }),
            "pt_loader:0 was pushed off its CPU 403 times a second, by logship in 60 % of them"
        );
        assert_eq!(
            said(FindingKind::Monopolised { cpu: 0, utid: 2, share: 0.97, ready_ns: 4_000_000_000 }),
            "logship had 97 % of CPU 0 while others waited there, 4.0 s in all"
        );
    }
}
