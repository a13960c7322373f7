//! `dashcam segments`: what the store holds, by time, from footers alone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::{Globals, failed, tell_misnamed, zone};
use crate::names::printable;
use crate::sched::summary::Window;
use crate::store::Store;
use crate::store::catalog::{Catalog, Entry, Hole};
use crate::store::footer::{Ending, Totals};
use crate::store::index::LossCount;
use crate::store::lock::RecorderLock;
use crate::time::{Digits, Zone, local, rfc3339};
use crate::units::show;

/// List segments by time
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
    /// What to list (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// A line of the listing.
enum Line {
    Segment(Entry),
    /// A segment without an end, whose recorder is gone.
    Left(Entry),
    Snapshot(Entry),
    Hole(Hole),
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let paths = if args.path.is_empty() { vec![globals.places_to_read()?.store] } else { args.path.clone() };
    let mut lines = Vec::new();
    for path in &paths {
        lines.extend(listed(path)?);
    }
    let mut out = io::stdout().lock();
    if args.json {
        for line in &lines {
            writeln!(out, "{}", object(line))?;
        }
    } else {
        out.write_all(table(&lines, &zone()).as_bytes())?;
    }
    drop(out);
    let sum = Sum::of(&lines);
    if sum.unreadable > 0 && sum.segments + sum.snapshots == 0 {
        return Err(failed(sum.words()));
    }
    if !args.json {
        tell!("{}", sum.words());
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(path: &Path) -> anyhow::Result<Vec<Line>> {
    if path.is_file() {
        let entry = Entry::of_file(path)?;
        let snapshot = entry.totals.as_ref().is_some_and(|t| t.snapshot.is_some());
        return Ok(vec![if snapshot { Line::Snapshot(entry) } else { Line::Segment(entry) }]);
    }
    let catalog = Catalog::open(&Store::open(path)?)?;
    tell_misnamed(catalog.store());
    if catalog.segments().is_empty() && catalog.snapshots().is_empty() {
        let shown = printable(path.as_os_str().as_encoded_bytes());
        return Err(failed(format!("nothing is recorded in {shown} yet: start with 'dashcam record'")));
    }
    // What a lock cannot tell is taken for what it looks like.
    let dead = RecorderLock::holder(catalog.store()).is_ok_and(|holder| holder.is_none());
    let mut holes = catalog.holes().into_iter().peekable();
    let mut lines = Vec::new();
    for (i, entry) in catalog.segments().iter().enumerate() {
        let line = if dead && entry.is_growing() { Line::Left } else { Line::Segment };
        lines.push(line(entry.clone()));
        lines.extend(holes.next_if(|h| h.after == i).map(Line::Hole));
    }
    lines.extend(catalog.snapshots().iter().cloned().map(Line::Snapshot));
    Ok(lines)
}

const HEADER: [&str; 8] = ["START", "LENGTH", "SIZE", "EVENTS", "LOSS", "BUSY", "BUSIEST", "WORST WAIT"];
/// Which columns are numbers, right-aligned.
const RIGHT: [bool; 8] = [false, true, true, true, true, true, false, false];

/// Columns as wide as what is in them, then remarks.
fn table(lines: &[Line], zone: &Zone) -> String {
    let rows: Vec<([String; 8], String)> = lines.iter().map(|line| row(line, zone)).collect();
    let header = (HEADER.map(str::to_owned), String::new());
    let width = |column: usize| {
        rows.iter().chain([&header]).map(|r| unicode_width::UnicodeWidthStr::width(&*r.0[column])).max().unwrap_or(0)
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut out = String::new();
    for (cells, remark) in std::iter::once(&header).chain(&rows) {
        let mut line = String::new();
        for ((cell, width), right) in cells.iter().zip(widths).zip(RIGHT) {
            let pad = " ".repeat(width - unicode_width::UnicodeWidthStr::width(&**cell));
            let (before, after) = if right { (&*pad, "") } else { ("", &*pad) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        line.push_str(remark);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn row(line: &Line, zone: &Zone) -> ([String; 8], String) {
    let unknown = || show::UNKNOWN.to_owned();
    let unfinished = if matches!(line, Line::Left(_)) { "left by a recorder that died" } else { "growing" };
    let (entry, label) = match line {
        Line::Segment(entry) | Line::Left(entry) => (entry, None),
        // The footer has the label as it was given, the name only what a name can hold.
        Line::Snapshot(entry) => {
            let given = entry.totals.as_ref().and_then(|t| Some(t.snapshot.as_ref()?.label.as_str()));
            (entry, given.or(entry.name.label.as_deref()))
        }
        Line::Hole(hole) => {
            let mut cells = [const { String::new() }; 8];
            cells[0] = local(hole.real.from, zone, Digits::Seconds);
            cells[1] = show::span(hole.real.to - hole.real.from);
            let what = if hole.from.0 == hole.to.0 { "not recorded" } else { "not recorded; restarted meanwhile" };
            return (cells, what.to_owned());
        }
    };
    let mut remarks: Vec<String> =
        label.map(|l| format!("snapshot \"{}\"", printable(l.as_bytes()))).into_iter().collect();
    let Some(totals) = &entry.totals else {
        remarks.push(match &entry.problem {
            Some(problem) => format!("cannot be read as a segment: {}", printable(problem.as_bytes())),
            None => format!("{unfinished}, nothing whole in it"),
        });
        let start = entry.named_start().map_or_else(unknown, |start| local(start, zone, Digits::Seconds));
        let [a, b, c, d, e] = std::array::from_fn(|_| unknown());
        return ([start, a, show::bytes(entry.bytes), b, c, d, e, unknown()], remarks.join("; "));
    };
    let growing = entry.is_growing();
    remarks.extend(growing.then(|| unfinished.to_owned()));
    remarks.extend((totals.ending == Ending::Recovered).then(|| "recovered".to_owned()));
    remarks.extend(totals.snapshot.iter().map(|s| {
        let words = [s.reason.as_str(), s.detail.as_str()].join(" ");
        printable(words.trim().as_bytes())
    }));
    remarks.extend(totals.sampled_hz.map(|hz| format!("sampled at {hz} Hz")));
    remarks.extend((totals.marks > 0).then(|| format!("{} marks", show::grouped(totals.marks))));
    remarks.extend(entry.problem.as_ref().map(|p| printable(p.as_bytes())));
    let known = |text: String| if growing { unknown() } else { text };
    let cells = [
        local(totals.real_of(totals.start), zone, Digits::Seconds),
        known(show::span(totals.end.saturating_sub(totals.start))),
        show::bytes(entry.bytes),
        known(show::count(totals.events)),
        known(loss(totals.loss)),
        totals.busy.map_or_else(unknown, |b| show::percent(f64::from(b))),
        totals.busiest.map_or_else(unknown, |(cpu, b)| format!("CPU {cpu} {}", show::percent(f64::from(b)))),
        worst(totals).unwrap_or_else(unknown),
    ];
    (cells, remarks.join("; "))
}

fn loss(loss: LossCount) -> String {
    match (loss.known, loss.unknown) {
        (0, false) => "none".to_owned(),
        (0, true) => "some".to_owned(),
        (n, false) => show::grouped(n),
        (n, true) => format!("{} and more", show::grouped(n)),
    }
}

fn worst(totals: &Totals) -> Option<String> {
    let wait = totals.worst_wait.as_ref()?;
    let who = match wait.tid {
        ..0 => String::new(), // of a part of a segment the footer knows the length only
        tid => format!(" {} [{tid}]", printable(&wait.name)),
    };
    Some(format!("{}{who}", show::span(wait.dur)))
}

/// What the last line says, for people.
#[derive(Default)]
struct Sum {
    segments: u64,
    snapshots: u64,
    unreadable: u64,
    holes: u64,
    bytes: u64,
    lossy: u64,
}

impl Sum {
    fn of(lines: &[Line]) -> Sum {
        let mut sum = Sum::default();
        for line in lines {
            let (entry, count) = match line {
                Line::Hole(_) => {
                    sum.holes += 1;
                    continue;
                }
                Line::Segment(entry) | Line::Left(entry) | Line::Snapshot(entry) if entry.is_unreadable() => {
                    (entry, &mut sum.unreadable)
                }
                Line::Segment(entry) | Line::Left(entry) => (entry, &mut sum.segments),
                Line::Snapshot(entry) => (entry, &mut sum.snapshots),
            };
            *count += 1;
            sum.bytes += entry.bytes;
            sum.lossy += u64::from(entry.totals.as_ref().is_some_and(|t| !t.loss.is_none()));
        }
        sum
    }

    fn words(&self) -> String {
        let many = |n: u64, what: &str| format!("{} {what}{}", show::grouped(n), if n == 1 { "" } else { "s" });
        let unreadable = format!("{} cannot be read", many(self.unreadable, "file"));
        if self.unreadable > 0 && self.segments + self.snapshots == 0 {
            return unreadable;
        }
        let (segments, snapshots) = (many(self.segments, "segment"), many(self.snapshots, "snapshot"));
        let gaps = if self.holes == 0 { "no gaps".to_owned() } else { many(self.holes, "gap") };
        let loss = if self.lossy == 0 { "no loss".to_owned() } else { format!("loss in {}", self.lossy) };
        let rest = if self.unreadable == 0 { String::new() } else { format!("; {unreadable}") };
        format!("{segments}, {snapshots}, {}, {gaps}, {loss}{rest}", show::bytes(self.bytes))
    }
}

/// A line for machines. Times `*_ns` are CLOCK_BOOTTIME of the boot named, others RFC 3339, UTC.
fn object(line: &Line) -> Value {
    let (kind, entry) = match line {
        Line::Segment(entry) | Line::Left(entry) | Line::Snapshot(entry) if entry.is_unreadable() => {
            ("unreadable", entry)
        }
        Line::Left(entry) => ("left", entry),
        Line::Segment(entry) if entry.is_growing() => ("growing", entry),
        Line::Segment(entry) => ("segment", entry),
        Line::Snapshot(entry) => ("snapshot", entry),
        Line::Hole(hole) => {
            return json!({
                "kind": "gap", "start": rfc3339(hole.real.from), "end": rfc3339(hole.real.to),
                "boot_id": hole.from.0.to_string(), "start_ns": hole.from.1,
                "next_boot_id": hole.to.0.to_string(), "end_ns": hole.to.1,
            });
        }
    };
    let mut object = Map::new();
    object.insert("kind".into(), kind.into());
    object.insert("path".into(), entry.path.to_string_lossy().into());
    object.insert("sequence".into(), entry.named_start().map(|_| entry.name.sequence).into());
    object.insert("bytes".into(), entry.bytes.into());
    object.insert("label".into(), entry.name.label.clone().into());
    object.insert("problem".into(), entry.problem.clone().into());
    match &entry.totals {
        Some(totals) => describe(totals, entry.is_growing(), &mut object),
        None => {
            object.insert("start".into(), entry.named_start().map(rfc3339).into());
        }
    }
    Value::Object(object)
}

fn describe(t: &Totals, growing: bool, object: &mut Map<String, Value>) {
    let known = |value: Value| if growing { Value::Null } else { value };
    let window = |w: &Window| json!({ "start_ns": w.from, "end_ns": w.to });
    let round = |share: f32| (f64::from(share) * 1e4).round() / 1e4;
    let facts = json!({
        "start": rfc3339(t.real_of(t.start)),
        "end": known(rfc3339(t.real_of(t.end)).into()),
        "boot_id": t.boot.to_string(),
        "start_ns": t.start,
        "end_ns": known(t.end.into()),
        "valid_from_ns": known(t.valid_from.into()),
        "events": known(t.events.into()),
        "lost": known(t.loss.known.into()),
        "lost_unknown": known(t.loss.unknown.into()),
        "busy": t.busy.map(round),
        "busiest_cpu": t.busiest.map(|b| b.0),
        "busiest": t.busiest.map(|b| round(b.1)),
        "worst_wait": t.worst_wait.as_ref().map(|w| json!({
            "dur_ns": w.dur, "at_ns": w.at, "tid": (w.tid >= 0).then_some(w.tid), "name": printable(&w.name),
        })),
        "marks": known(t.marks.into()),
        "gaps": t.gaps.iter().map(window).collect::<Vec<_>>(),
        "sampled_hz": t.sampled_hz,
        "recovered": t.ending == Ending::Recovered,
        "recorder": t.recorder,
        "host": printable(&t.host),
        "cpus": t.cpus,
        "format": t.format.to_string(),
        "snapshot": t.snapshot.as_ref().map(|s| json!({
            "reason": s.reason, "detail": s.detail, "label": s.label, "requested_at_ns": s.requested_at,
            "asked": window(&s.asked), "real": window(&s.real), "holes": s.holes.iter().map(window).collect::<Vec<_>>(),
        })),
    });
    if let Value::Object(facts) = facts {
        object.extend(facts);
    }
}
