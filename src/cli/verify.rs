//! `dashcam verify`: check every frame.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::{Globals, failed, tell_misnamed};
use crate::names::printable;
use crate::store::index::LossCount;
use crate::store::verify::{Unfinished, Verified, verify};
use crate::store::{Store, StoreError};
use crate::units::show;

/// Check every frame and say what is whole
///
/// Decompresses every frame, compares its checksum, counts what is in it anew and compares that with the footer.
/// Exit code 0: everything is whole. 1: something is not, or cannot be read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object per file
    #[arg(long)]
    pub json: bool,
    /// What to check (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// Runs the command. Exit code 1 when anything is not whole.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let paths = if args.path.is_empty() { vec![globals.places_to_read()?.store] } else { args.path.clone() };
    let mut files = Vec::new();
    for path in &paths {
        files.extend(files_of(path)?);
    }
    if files.is_empty() {
        return Err(failed("there is nothing to check"));
    }
    let total: u64 = files.iter().map(|f| std::fs::metadata(f).map_or(0, |m| m.len())).sum();
    let bar = bar(total);
    let mut out = io::stdout().lock();
    let (mut whole, mut before) = (0, 0);
    for path in &files {
        let checked = verify(path, &mut |done, _| bar.set_position(before + done));
        before += std::fs::metadata(path).map_or(0, |m| m.len());
        whole += usize::from(checked.as_ref().is_ok_and(Verified::is_whole));
        let line = if args.json { object(path, &checked) } else { sentence(path, &checked) };
        bar.suspend(|| writeln!(out, "{line}"))?;
    }
    bar.finish_and_clear();
    drop(out);
    if whole == files.len() {
        return Ok(ExitCode::SUCCESS);
    }
    let many = |n: usize| show::grouped(n as u64);
    Err(failed(format!("{} of {} files are not whole", many(files.len() - whole), many(files.len()))))
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let store = Store::open(path)?;
    tell_misnamed(&store);
    // A snapshot is there when it is whole, and not before: its frames still stand in the segments.
    let (unfinished, snapshots): (Vec<_>, Vec<_>) = store.snapshots()?.into_iter().partition(|f| f.name.part);
    for file in unfinished {
        let shown = printable(file.path.as_os_str().as_encoded_bytes());
        tell!("dashcam: note: {shown} is left out: a snapshot that is being made, or was never finished");
    }
    Ok(store.segments()?.into_iter().chain(snapshots).map(|f| f.path).collect())
}

/// A bar on stderr for what takes over a second, only on a terminal.
fn bar(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) =
        ProgressStyle::with_template("checking {bar:40} {binary_bytes} of {binary_total_bytes}, {eta} left")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn sentence(path: &Path, checked: &Result<Verified, StoreError>) -> String {
    let shown = printable(path.as_os_str().as_encoded_bytes());
    let v = match checked {
        Ok(v) => v,
        Err(e) => return e.to_string(),
    };
    let state = match (v.is_whole(), v.whole < v.frames) {
        (true, _) => "whole".to_owned(),
        (false, true) => {
            let (whole, all) = (show::grouped(v.whole as u64), show::grouped(v.frames as u64));
            format!("NOT whole, {whole} of {all} frames are")
        }
        (false, false) => "NOT whole".to_owned(),
    };
    let mut words = vec![state];
    words.extend(v.damage.iter().map(|d| d.to_string()));
    // Of what cannot be read nobody knows whether there was loss.
    if v.whole > 0 {
        words.push(format!("{} frames, {} of packets", show::grouped(v.whole as u64), show::bytes(v.raw)));
        words.push(format!("{} events, {}", show::grouped(v.events), loss(v.loss)));
    }
    words.extend((v.untraced > 0).then(|| format!("{} switches left out by the kernel", show::grouped(v.untraced))));
    words.extend(without_end(v).map(str::to_owned));
    words.extend((v.parts > 1).then(|| format!("{} segments joined", show::grouped(v.parts as u64))));
    format!("{shown}: {}", words.join("; "))
}

fn without_end(v: &Verified) -> Option<&'static str> {
    match (v.unfinished, v.whole) {
        (None, _) => (v.without_footer > 0).then_some("no footer"),
        (Some(Unfinished::Growing), _) => Some("still growing"),
        (Some(Unfinished::Left), 0) => Some(
            "left by a recorder that died; the next start of the recorder deletes it, since nothing in it is whole",
        ),
        (Some(Unfinished::Left), _) => {
            Some("left by a recorder that died; the next start of the recorder finishes it and keeps every whole frame")
        }
        (Some(Unfinished::Stray), _) => Some("never finished; its whole frames can be read as they are"),
    }
}

fn loss(loss: LossCount) -> String {
    match (loss.known, loss.unknown) {
        (0, false) => "no loss".to_owned(),
        (0, true) => "some lost, number unknown".to_owned(),
        (n, false) => format!("{} lost", show::grouped(n)),
        (n, true) => format!("{} and more lost", show::grouped(n)),
    }
}

fn object(path: &Path, checked: &Result<Verified, StoreError>) -> String {
    let path = path.to_string_lossy();
    let value = match checked {
        Err(e) => json!({ "path": path, "whole": false, "error": e.to_string() }),
        Ok(v) => json!({
            "path": path, "whole": v.is_whole(), "bytes": v.bytes, "format": v.format.to_string(),
            "frames": v.frames, "frames_whole": v.whole, "packet_bytes": v.raw, "events": v.events,
            "lost": v.loss.known, "lost_unknown": v.loss.unknown,
            "untraced_switches": v.untraced,
            "segments": v.parts, "without_footer": v.without_footer,
            "unfinished": v.unfinished.map(|u| match u {
                Unfinished::Growing => "growing",
                Unfinished::Left => "left",
                Unfinished::Stray => "stray",
            }),
            "damage": v.damage.iter().map(|d| json!({ "offset": d.offset, "what": d.kind.to_string() })).collect::<Vec<_>>(),
        }),
    };
    value.to_string()
}
