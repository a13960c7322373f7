//! `dashcam snapshot`: keep the last minutes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::{Globals, failed, length, target, usage};
use crate::recorder::clock;
use crate::recorder::control::{self, AskError, Reply, Request};
use crate::recorder::haste::Haste;
use crate::recorder::snapshots;
use crate::sched::summary::Window;
use crate::store::catalog::Catalog;
use crate::store::{Store, snapshot};

/// A snapshot takes a fraction of a second; one on a disk that is full or dying may not.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keep the last minutes and print the file's path
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// How much to keep (default: snapshot.last of the configuration)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub last: Option<String>,
    /// A few words for lists and the file name: one line of at most 120 bytes with a letter or a digit in it. In the file
    /// name, whatever needs quotes in a shell becomes _
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Write it here instead of into the store's snapshots
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs the command; without a recorder it works from what is on disk. `haste` lasts until the recorder has answered.
pub fn run(args: &Args, globals: &Globals, haste: Option<Haste>) -> anyhow::Result<ExitCode> {
    let places = globals.places_to_read()?;
    let last = args.last.as_deref().map(|text| length("--last", text)).transpose()?;
    let last_ns = last.map(|l| u64::try_from(l.as_nanos()).unwrap_or(u64::MAX));
    let label = args.label.as_deref().map(str::trim);
    snapshots::sensible(last_ns, label).map_err(usage)?;
    if let Some(output) = &args.output {
        target::check(output)?;
        target::apart(output, std::slice::from_ref(&places.store))?;
    }
    let request = Request::Snapshot { last_ns, label: label.map(str::to_owned), why: "command".into() };
    let answer = control::ask(&places.socket(), &request, PATIENCE);
    drop(haste);
    let path = match answer {
        Ok(Reply::Snapshot { path, .. }) => match &args.output {
            // The recorder runs with rights that we may lack, so it writes no file of our choice: we copy.
            Some(output) => moved(&path, output)?,
            None => path,
        },
        Ok(_) => return Err(failed("the recorder gave another answer than a snapshot")),
        Err(AskError::NotRunning(_)) => from_disk(args, globals, &places.store, last_ns)?,
        Err(e) => return Err(e.into()),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", path.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the recorder's snapshot where it was asked for. Whatever goes wrong, the snapshot itself is there and is named.
fn moved(from: &Path, to: &Path) -> anyhow::Result<PathBuf> {
    target::copy(from, to).with_context(|| {
        format!("the snapshot is kept as {}, but cannot be copied to {}", from.display(), to.display())
    })?;
    if let Err(e) = std::fs::remove_file(from) {
        tell!("dashcam: note: the snapshot is kept as {}, too: {e}", from.display());
    }
    Ok(to.to_owned())
}

/// The last minutes that are on disk, whenever that was.
fn from_disk(args: &Args, globals: &Globals, store: &Path, last_ns: Option<u64>) -> anyhow::Result<PathBuf> {
    let store = Store::open(store)?;
    let catalog = Catalog::open(&store)?;
    let boot =
        catalog.newest_boot().ok_or_else(|| failed(format!("nothing is recorded in {}", store.root().display())))?;
    // What a dead recorder left says its end only when its frames are looked at.
    let end = |i: usize| catalog.footer(i).ok().filter(|f| f.totals.boot == boot).map(|f| f.totals.end);
    let to = (0..catalog.segments().len()).rev().filter_map(end).next().unwrap_or(0);
    let settings = globals.settings()?;
    let default = u64::try_from(settings.snapshot_last.as_nanos()).unwrap_or(u64::MAX);
    let window = Window { from: to.saturating_sub(last_ns.unwrap_or(default)), to };
    let request = snapshot::Request {
        boot,
        window,
        reason: "command".into(),
        detail: "no recorder was running".into(),
        label: args.label.as_deref().map_or("command", str::trim).into(),
        requested_at: clock::boot_now(),
    };
    let plan = snapshot::plan(&catalog, None, request)?;
    let head = plan.first_head()?;
    let taken = match &args.output {
        // What is no file is written to as it stands, and no file put in its place.
        Some(output) if std::fs::metadata(output).is_ok_and(|m| !m.is_file()) => {
            return moved(&plan.write(&store, &head, settings.store.level)?.file.path, output);
        }
        Some(output) => plan.write_file(&target::file(output)?, &head, settings.store.level)?,
        None => plan.write(&store, &head, settings.store.level)?,
    };
    Ok(taken.file.path.clone())
}
