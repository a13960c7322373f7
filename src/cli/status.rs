//! `dashcam status`: how the running recorder is doing.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Globals, ask, failed, zone};
use crate::names::printable;
use crate::recorder::control::{self, Reply, Request};
use crate::recorder::status::Status;
use crate::time::{Digits, Zone, local};
use crate::units::show;

/// Say how the running recorder is doing
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let reply = ask(globals, &Request::Status {}, control::PATIENCE)?;
    let Reply::Status(status) = reply else { return Err(failed("the recorder gave another answer than its status")) };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&status)?)?;
    } else {
        out.write_all(page(&status, &zone()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn whole_seconds(to: u64, from: u64) -> u64 {
    to.saturating_sub(from) / 1_000_000_000
}

/// What is there is a fact; how far back it will reach is a forecast, and no more than that.
fn kept(s: &Status, zone: &Zone) -> String {
    let kept = &s.kept;
    let since = kept.oldest_unix.map(|t| format!(", from {} on", local(t, zone, Digits::Seconds)));
    let forecast = show::span_words((kept.forecast_s.max(0.0) * 1e9) as u64);
    format!(
        "{} segments{}, {} of {}; forecast at the present rate: the last {forecast}; {} free on the disk",
        kept.segments,
        since.unwrap_or_default(),
        show::bytes(kept.bytes),
        show::bytes(kept.max_bytes),
        show::bytes(kept.free)
    )
}

fn loss(s: &Status) -> String {
    match s.lost_total() {
        (0, false) => "no loss".into(),
        (0, true) => "LOST some, number unknown".into(),
        (n, false) => format!("LOST {}", show::grouped(n)),
        (n, true) => format!("LOST {} and more", show::grouped(n)),
    }
}

fn capture(s: &Status) -> String {
    match s.sampled_hz {
        Some(_) => format!("{}: wakers, preemptors and exact waits are not known", s.source),
        None => format!("{}, instance {}, clock {}, {} KiB per CPU", s.source, s.instance, s.clock, s.buffer_kb),
    }
}

fn page(s: &Status, zone: &Zone) -> String {
    let mut rows: Vec<(&str, String)> = vec![
        ("recorder", format!("pid {}, dashcam {}", s.pid, s.version)),
        ("store", s.store.display().to_string()),
        ("running for", show::span_words(s.now.saturating_sub(s.started))),
        ("capture", capture(s)),
    ];
    rows.push(match &s.segment {
        Some(seg) => {
            let (age, length) = (whole_seconds(s.now, seg.from), whole_seconds(seg.until, seg.from));
            ("segment", format!("{} ({age} of {length} s, {})", seg.path.display(), show::bytes(seg.bytes)))
        }
        None => ("segment", "none: not writing".into()),
    });
    let what = if s.sampled_hz.is_some() { "states" } else { "events" };
    rows.push((what, format!("{}, {} a second", show::grouped(s.events), show::count(s.events_per_s as u64))));
    rows.push(("loss", loss(s)));
    for l in &s.lost {
        let unknown = if l.unknown { " and an unknown number" } else { "" };
        rows.push(("", format!("CPU {}: {}{unknown}", l.cpu, show::grouped(l.count))));
    }
    rows.push(("kept", kept(s, zone)));
    rows.push(("self", format!("{} of one CPU, {}", show::percent(s.own_cpu), show::bytes(s.own_rss))));
    if let Some(path) = &s.last_snapshot {
        rows.push(("snapshots", format!("{}, last {}", s.snapshots, path.display())));
    }
    rows.extend(s.warnings.iter().map(|w| ("warning", w.clone())));
    rows.into_iter().map(|(k, v)| format!("{k:<12} {}\n", printable(v.as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::status::{CpuLoss, Kept, OpenSegment};

    fn status() -> Status {
        Status {
            now: 102_000_000_000,
            segment: Some(OpenSegment { from: 60_000_000_000, until: 120_000_000_000, ..OpenSegment::default() }),
            events_per_s: 18_400.0,
            ..Status::default()
        }
    }

    #[test]
    fn the_page_says_recording_rate_and_loss() {
        let text = page(&status(), &Zone::UTC);
        assert!(text.contains("\nsegment       (42 of 60 s, 0 B)\n"), "{text}");
        assert!(text.contains("\nevents       0, 18.4 k a second\nloss         no loss\n"), "{text}");
        let text = page(&Status { segment: None, ..status() }, &Zone::UTC);
        assert!(text.contains("\nsegment      none: not writing\n"), "{text}");
    }

    #[test]
    fn what_will_be_kept_is_a_forecast_and_what_is_kept_a_fact() {
        let kept = Kept {
            segments: 3,
            bytes: 5 << 20,
            max_bytes: 4 << 30,
            oldest_unix: Some(1_796_039_700_000_000_000),
            forecast_s: 7200.0,
            free: 1 << 30,
        };
        let text = page(&Status { kept, ..status() }, &Zone::UTC);
        let line = text.lines().find(|l| l.starts_with("kept")).unwrap_or_default();
        let want = "kept         3 segments, from 2026-11-30 11:55:00 +00:00 on, 5.0 MiB of 4.0 GiB; forecast at the present rate: the last 2 h; 1.0 GiB free on the disk";
        assert_eq!(line, want);
    }

    #[test]
    fn case_4_known_and_unknown_loss_are_told_apart() {
        let mut s = status();
        let loss = |s: &Status| page(s, &Zone::UTC).lines().filter(|l| l.contains("LOST")).collect::<String>();
        s.lost = vec![CpuLoss { cpu: 1, count: 1200, unknown: false }];
        assert_eq!(loss(&s), "loss         LOST 1,200");
        s.lost.push(CpuLoss { cpu: 3, count: 0, unknown: true });
        assert_eq!(loss(&s), "loss         LOST 1,200 and more");
        assert!(page(&s, &Zone::UTC).contains("CPU 3: 0 and an unknown number"));
        s.lost.remove(0);
        assert_eq!(loss(&s), "loss         LOST some, number unknown");
    }

    #[test]
    fn warnings_cannot_carry_escape_codes() {
        let s = Status { warnings: vec!["disk\x1b[2J full".into()], ..status() };
        assert!(page(&s, &Zone::UTC).contains("warning      disk\\x1b[2J full\n"));
    }
}
