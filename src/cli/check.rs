//! `dashcam check`: compare with earlier runs.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::reading::{Source, Stop};
use super::report::safe_json;
use super::{Globals, failed, zone};
use crate::query::engine::Engine;
use crate::report::check::{DEFAULT_METRICS, History, Verdict, compare, measure, metrics, rehearse, table};
use crate::report::table::Clocks;
use crate::time;

/// Compare a set of metrics with earlier runs; exit 3 when one got worse
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The history of earlier runs, a CSV
    #[arg(long, value_name = "FILE", required_unless_present = "print_metrics")]
    pub baseline: Option<PathBuf>,
    /// Append this run to the history
    #[arg(long)]
    pub save: bool,
    /// The metrics, as TOML (default: see --print-metrics)
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Print the metrics that are measured, to begin a file of your own with
    #[arg(long)]
    pub print_metrics: bool,
    /// Compare with the median of this many last runs
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub runs: usize,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// One JSON object per metric
    #[arg(long)]
    pub json: bool,
    /// What to read (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// A metric got worse.
const WORSE: u8 = 3;

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let text = match &args.metrics {
        Some(file) => crate::config::read_text(file).with_context(|| format!("reading {}", file.display()))?,
        None => DEFAULT_METRICS.to_owned(),
    };
    if args.print_metrics {
        io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = metrics(&text)?;
    let kept = rehearse(&wanted)?;
    let file = args.baseline.as_deref().context("--baseline FILE says where the earlier runs are")?;
    let past = match crate::config::read_text(file) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound && args.save => None,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(failed(format!("there is no {}; the first run makes it with --save", file.display())));
        }
        Err(e) => return Err(e).with_context(|| format!("reading {}", file.display())),
    };
    let history = History::read(past.as_deref().unwrap_or(""))?;
    let stop = Stop::on_interrupt()?;
    let source = Source::find(&args.path, &args.window, globals, &stop)?;
    let loaded = source.load(kept, &stop)?;
    let mut engine = Engine::open(Arc::new(loaded.columns))?;
    let flag = stop.clone();
    engine.on_progress(10_000, move || flag.asked());
    let measured = measure(&mut engine, &wanted)?;
    let compared = compare(&wanted, &measured, &history, args.runs.max(1));
    let clocks = Clocks { map: loaded.clocks, zone: zone() };
    let table = table(&compared);
    let mut out = io::stdout().lock();
    if args.json {
        for row in table.json_lines(&clocks) {
            writeln!(out, "{}", safe_json(&row))?;
        }
    } else {
        out.write_all(table.text(&clocks).as_bytes())?;
    }
    if args.save {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let lines = History::lines(&time::rfc3339(now), &measured, past.is_none());
        let write =
            OpenOptions::new().create(true).append(true).open(file).and_then(|mut f| f.write_all(lines.as_bytes()));
        write.with_context(|| format!("appending to {}", file.display()))?;
    }
    let worse = compared.iter().any(|c| c.verdict == Verdict::Worse);
    Ok(if worse { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}
