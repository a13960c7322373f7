//! `dashcam export`: other tools' formats.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::reading::{Bar, Source, Stop, tell_damage};
use super::target::{self, Output};
use super::{Globals, failed, usage};
use crate::export::ctf::Ctf;
use crate::export::json::Json;
use crate::export::text::Text;
use crate::export::{ExportError, Exporter, Target, perfetto};
use crate::feed;

/// Convert recorded data to another tool's format
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Format: perfetto (a name ending in .zst compresses it), text (ftrace), json (Chrome trace events), ctf (a folder)
    #[arg(long, value_name = "FORMAT", default_value = "perfetto", value_parser = ["perfetto", "text", "json", "ctf"])]
    pub format: String,
    /// Where to (a new folder for ctf; - is stdout, the default of text and json)
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// What to convert (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let to_stdout = match &args.output {
        Some(path) => path.as_path() == Path::new("-"),
        None if matches!(args.format.as_str(), "text" | "json") => true,
        None => return Err(usage(format!("export --format {} needs -o PATH", args.format))),
    };
    if let (Some(path), false, true) = (&args.output, to_stdout, args.format != "ctf") {
        target::check(path)?;
    }
    let stop = Stop::on_interrupt()?;
    if !to_stdout {
        stop.on_terminate_too()?;
    }
    let source = Source::find(&args.path, &args.window, globals, &stop)?;
    if let (Some(path), false) = (&args.output, to_stdout) {
        let files = source.survey.files.iter().chain(&source.survey.snapshots).map(|f| f.path.clone());
        target::apart(path, &source.paths.iter().cloned().chain(files).collect::<Vec<_>>())?;
    }
    if args.format == "ctf" {
        let dir = args.output.as_deref().filter(|_| !to_stdout);
        let dir = dir.ok_or_else(|| usage("a CTF trace is a folder; name it with -o"))?;
        let ctf = Ctf::create(dir, uuid()?).with_context(|| format!("making {}", dir.display()))?;
        through(ctf, &source, &stop, "the output is cut short")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = match &args.output {
        Some(path) if !to_stdout => Output::create(path)?,
        _ => Output::stdout(),
    };
    let left = if out.is_whole_or_nothing() { "nothing was written" } else { "the output is cut short" };
    match args.format.as_str() {
        "text" => through(Text::new(&mut out), &source, &stop, left)?,
        "json" => through(Json::new(&mut out), &source, &stop, left)?,
        _ => {
            let zstd = args.output.as_ref().is_some_and(|p| p.extension().is_some_and(|e| e == "zst"));
            let files: Vec<PathBuf> = source.survey.files.iter().map(|f| f.path.clone()).collect();
            let mut until = Until { out: &mut out, stop: &stop, left };
            let exported = perfetto::export(&files, source.window, zstd, &mut until)?;
            tell_damage(&source.survey.notes, &exported.damage);
        }
    }
    out.finish().map_err(ExportError::Write)?;
    Ok(ExitCode::SUCCESS)
}

/// `left`: what there is when it is stopped half-way.
fn through<T: Target>(target: T, source: &Source, stop: &Stop, left: &str) -> anyhow::Result<()> {
    let mut exporter = Exporter::new(target, source.window);
    let mut bar = Bar::new("exporting");
    let gave_up = exporter.gave_up();
    let mut progress = |p| if gave_up.get() { ControlFlow::Break(()) } else { bar.tick(p, stop) };
    let loaded = feed::load(&source.paths, source.window, &mut exporter, &mut progress)?;
    bar.finish();
    exporter.finish(&loaded.names)?;
    if let (None, Some(first)) = (loaded.window, loaded.damage.first()) {
        return Err(failed(format!("nothing could be read: {first}")));
    }
    tell_damage(&source.survey.notes, &loaded.damage);
    if loaded.complete { Ok(()) } else { Err(failed(format!("stopped before it was done; {left}"))) }
}

/// Writes on until Ctrl-C: whoever copies frames asks for it nowhere else.
struct Until<'a> {
    out: &'a mut Output,
    stop: &'a Stop,
    left: &'static str,
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.asked() {
            return Err(io::Error::other(format!("stopped before it was done; {}", self.left)));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A fresh identity for the trace, from the kernel.
fn uuid() -> anyhow::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("reading a fresh UUID")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).context("reading a fresh UUID")?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_16_bytes_and_never_the_same() {
        let (a, b) = (super::uuid(), super::uuid());
        assert!(a.is_ok_and(|a| b.is_ok_and(|b| a != b)));
    }
}
