//! `dashcam status`: how the running recorder is doing.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Globals, failed};
use crate::names::printable;
use crate::recorder::control::{self, Reply, Request};
use crate::recorder::status::Status;
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
    let reply = control::ask(&globals.places()?.socket(), &Request::Status {}, control::PATIENCE)?;
    let Reply::Status(status) = reply else { return Err(failed("the recorder gave another answer than its status")) };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&status)?)?;
    } else {
        out.write_all(page(&status).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line for a terminal that watches a recorder: is it recording, is anything lost, what does it cost.
pub fn line(s: &Status) -> String {
    let place = match &s.segment {
        Some(seg) => format!("REC {}/{}", whole_seconds(s.now, seg.from), whole_seconds(seg.until, seg.from)),
        None => "NOT WRITING".into(),
    };
    let rate = if s.sampled_hz.is_some() { "states/s" } else { "ev/s" };
    let mut line = format!(
        "{place}  {} {rate}  {}  keeps {} · {} of {}  self {}",
        show::count(s.events_per_s as u64),
        loss(s),
        reach(s),
        show::bytes(s.kept.bytes),
        show::bytes(s.kept.max_bytes),
        show::percent(s.own_cpu),
    );
    if let Some(first) = s.warnings.first() {
        line.push_str("  ! ");
        line.push_str(&printable(first.as_bytes()));
    }
    line
}

fn whole_seconds(to: u64, from: u64) -> u64 {
    to.saturating_sub(from) / 1_000_000_000
}

fn reach(s: &Status) -> String {
    show::span_words((s.kept.forecast_s.max(0.0) * 1e9) as u64)
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

fn page(s: &Status) -> String {
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
    let kept = &s.kept;
    rows.push((
        "keeps",
        format!(
            "{} segments, {} of {}; reaches back {}; {} free on the disk",
            kept.segments,
            show::bytes(kept.bytes),
            show::bytes(kept.max_bytes),
            reach(s),
            show::bytes(kept.free)
        ),
    ));
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
    use crate::recorder::status::{CpuLoss, OpenSegment};

    fn status() -> Status {
        Status {
            now: 102_000_000_000,
            segment: Some(OpenSegment { from: 60_000_000_000, until: 120_000_000_000, ..OpenSegment::default() }),
            events_per_s: 18_400.0,
            ..Status::default()
        }
    }

    #[test]
    fn the_line_says_recording_rate_and_loss() {
        let text = line(&status());
        assert!(text.starts_with("REC 42/60  "), "{text}");
        assert!(text.contains("no loss"), "{text}");
    }

    #[test]
    fn case_4_known_and_unknown_loss_are_told_apart() {
        let mut s = status();
        s.lost = vec![CpuLoss { cpu: 1, count: 1200, unknown: false }];
        assert!(line(&s).contains("LOST 1,200  "), "{}", line(&s));
        s.lost.push(CpuLoss { cpu: 3, count: 0, unknown: true });
        assert!(line(&s).contains("LOST 1,200 and more"));
        assert!(page(&s).contains("CPU 3: 0 and an unknown number"));
        s.lost.remove(0);
        assert!(line(&s).contains("LOST some, number unknown"));
    }

    #[test]
    fn warnings_cannot_carry_escape_codes() {
        let mut s = status();
        s.warnings = vec!["disk\x1b[2J full".into()];
        assert!(line(&s).ends_with("! disk\\x1b[2J full"));
        assert!(page(&s).contains("disk\\x1b[2J full"));
    }
}
