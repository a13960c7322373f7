//! `dashcam verify`: check every frame.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::{Globals, failed};
use crate::names::printable;
use crate::store::index::LossCount;
use crate::store::verify::{Verified, verify};
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
    let paths = if args.path.is_empty() { vec![globals.places()?.store] } else { args.path.clone() };
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
        let fine = checked.as_ref().is_ok_and(|v| is_whole(v, path));
        whole += usize::from(fine);
        let line = if args.json { object(path, fine, &checked) } else { sentence(path, fine, &checked) };
        bar.suspend(|| writeln!(out, "{line}"))?;
    }
    bar.finish_and_clear();
    drop(out);
    if whole == files.len() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(failed(format!("{} of {} files are not whole", files.len() - whole, files.len())))
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let store = Store::open(path)?;
    Ok(store.segments()?.into_iter().chain(store.snapshots()?).map(|f| f.path).collect())
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

/// A growing file may end inside a frame that is being written.
fn is_whole(checked: &Verified, path: &Path) -> bool {
    let growing = path.extension().is_some_and(|e| e == "part");
    let cut = |kind| matches!(kind, crate::store::error::DamageKind::Cut);
    checked.is_whole() || (growing && checked.damage.len() == 1 && cut(checked.damage[0].kind))
}

fn sentence(path: &Path, fine: bool, checked: &Result<Verified, StoreError>) -> String {
    let shown = printable(path.as_os_str().as_encoded_bytes());
    let v = match checked {
        Ok(v) => v,
        Err(e) => return e.to_string(),
    };
    let state = match (fine, v.whole < v.frames) {
        (true, _) => "whole".to_owned(),
        (false, true) => format!("NOT whole, {} of {} frames are", v.whole, v.frames),
        (false, false) => "NOT whole".to_owned(),
    };
    let mut words = vec![state];
    words.extend(v.damage.iter().filter(|_| !fine).map(|d| d.to_string()));
    words.push(format!("{} frames, {} of packets", show::grouped(v.whole as u64), show::bytes(v.raw)));
    words.push(format!("{} events, {}", show::grouped(v.events), loss(v.loss)));
    words.extend((v.untraced > 0).then(|| format!("{} switches left out by the kernel", show::grouped(v.untraced))));
    match (v.without_footer, path.extension().is_some_and(|e| e == "part")) {
        (0, _) => {}
        (_, true) => words.push("still growing, or left by a recorder that died".to_owned()),
        (_, false) => words.push("no footer".to_owned()),
    }
    words.extend((v.parts > 1).then(|| format!("{} segments joined", v.parts)));
    format!("{shown}: {}", words.join("; "))
}

fn loss(loss: LossCount) -> String {
    match (loss.known, loss.unknown) {
        (0, false) => "no loss".to_owned(),
        (0, true) => "some lost, number unknown".to_owned(),
        (n, false) => format!("{} lost", show::grouped(n)),
        (n, true) => format!("{} and more lost", show::grouped(n)),
    }
}

fn object(path: &Path, fine: bool, checked: &Result<Verified, StoreError>) -> String {
    let path = path.to_string_lossy();
    let value = match checked {
        Err(e) => json!({ "path": path, "whole": false, "error": e.to_string() }),
        Ok(v) => json!({
            "path": path, "whole": fine, "bytes": v.bytes, "format": v.format.to_string(),
            "frames": v.frames, "frames_whole": v.whole, "packet_bytes": v.raw, "events": v.events,
            "lost": v.loss.known, "lost_unknown": v.loss.unknown,
            "untraced_switches": v.untraced,
            "segments": v.parts, "without_footer": v.without_footer,
            "damage": v.damage.iter().map(|d| json!({ "offset": d.offset, "what": d.kind.to_string() })).collect::<Vec<_>>(),
        }),
    };
    value.to_string()
}
