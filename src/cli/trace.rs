//! `dashcam trace`: one recording into one file, the way tracebox users expect.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Globals, duration, failed, target, usage};
use crate::recorder::places::Places;
use crate::recorder::run::{Recorder, Serve};
use crate::recorder::settings::Source;
use crate::recorder::signals::{self, Signals};
use crate::units::{Bytes, show};

/// Record once, into one file (default categories: sched freq io mark)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// How long, e.g. 20s
    #[arg(short, long, value_name = "DURATION")]
    pub time: String,
    /// File to write; compressed if its name ends in .zst
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Total ring-buffer size over all CPUs, e.g. "32 MiB"
    #[arg(short, long, value_name = "SIZE")]
    pub buffer: Option<String>,
    /// Categories (sched freq idle irq io mem mark syscall) or group/name events
    #[arg(value_name = "CATEGORY")]
    pub categories: Vec<String>,
}

/// Runs the command: Ctrl-C ends the recording early and keeps what there is.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let length = duration(&args.time)?;
    if length.is_zero() {
        return Err(usage("--time 0 would record nothing: ask for a length such as 20s"));
    }
    let mut settings = globals.settings()?;
    if !args.categories.is_empty() {
        crate::kernel::events::expand(&args.categories).map_err(|e| usage(e.to_string()))?;
        settings.capture.events.clone_from(&args.categories);
    }
    if let Some(text) = &args.buffer {
        let size: Bytes = text.parse().map_err(|e: crate::units::UnitError| usage(e.to_string()))?;
        if size.0 == 0 {
            return Err(usage("--buffer 0 has no room for an event: ask for a size such as \"32 MiB\""));
        }
        settings.capture.buffer_total = size.0;
    }
    if globals.instance.is_none() {
        settings.capture.instance = format!("dashcam-trace-{}", std::process::id());
    }
    // Looks at /proc are no trace: they must be asked for.
    if settings.capture.source == Source::Auto {
        settings.capture.source = Source::Ftrace;
    }
    settings.store.segment = Duration::ZERO;
    settings.triggers.clear();
    let output = target::file(&args.output)?;
    let work = WorkDir::beside(&output)?;
    signals::catch_stop();
    let signals = Signals::new().context("cannot wait for signals")?;
    let places = Places { store: work.0.clone(), runtime: work.0.clone() };
    let recorder = Recorder::start(settings, places)?;
    let bar = bar(length);
    let begin = Instant::now();
    let (mut events, mut lost) = (0, (0, false));
    let mut on_tick = |r: &mut Recorder| {
        let status = r.status();
        (events, lost) = (status.events, status.lost_total());
        bar.set_position(begin.elapsed().as_secs());
        bar.set_message(format!("{} events", show::count(events)));
    };
    let serve =
        Serve { signals: Some(&signals), duration: Some(length), on_tick: Some(&mut on_tick), ..Serve::default() };
    recorder.serve(serve)?;
    bar.finish_and_clear();
    let bytes = work.deliver(&output)?;
    tell!("{}: {}", args.output.display(), show::bytes(bytes));
    if lost != (0, false) {
        tell!("events were lost ({}): use a larger --buffer, or fewer categories", show::grouped(lost.0));
    }
    Ok(ExitCode::SUCCESS)
}

fn bar(length: Duration) -> ProgressBar {
    let bar = ProgressBar::new(length.as_secs());
    if !io::stderr().is_terminal() || length < Duration::from_secs(1) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // The template is a constant that parses.
    if let Ok(style) = ProgressStyle::with_template("recording {wide_bar} {pos}/{len} s  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// A store of its own beside the file to come, on the same file system; gone at the end.
struct WorkDir(PathBuf);

impl WorkDir {
    fn beside(output: &Path) -> anyhow::Result<WorkDir> {
        let output = std::path::absolute(output)?;
        let (Some(dir), Some(name)) = (output.parent(), output.file_name()) else {
            return Err(usage(format!("{} is not a file name", output.display())));
        };
        let work = dir.join(format!(".{}.dashcam-{}", name.to_string_lossy(), std::process::id()));
        fs::create_dir(&work).with_context(|| format!("cannot write beside {}", output.display()))?;
        Ok(WorkDir(work))
    }

    /// Puts the one segment where it belongs; returns its size.
    fn deliver(&self, output: &Path) -> anyhow::Result<u64> {
        let segments = crate::store::Store::open(&self.0)?.segments()?;
        let Some(segment) = segments.first() else { return Err(failed("nothing was recorded")) };
        if output.extension().is_some_and(|e| e == "zst") {
            target::put(&segment.path, output)?;
        } else {
            let whole = self.0.join("plain");
            let mut reader = crate::perfetto::container::open(File::open(&segment.path)?)?;
            let mut writer = File::create(&whole)?;
            io::copy(&mut reader, &mut writer).with_context(|| format!("cannot write {}", output.display()))?;
            target::put(&whole, output)?;
        }
        Ok(fs::metadata(output)?.len())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // A left-over directory is named so that its owner sees what it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}
