//! `dashcam browse`: the terminal UI on recorded data. Needs no recorder and no rights but reading.

use std::path::PathBuf;
use std::process::ExitCode;

use super::look::Look;
use super::{Globals, failed, paths_or_store, screen, usage, zone};
use crate::names::printable;
use crate::sched::summary::Window;
use crate::time::{self, Point, Reference};
use crate::tui::app;
use crate::tui::cursor::Cursor;
use crate::tui::deeds::RecorderView;
use crate::tui::history::History;
use crate::tui::keeper::Recorder;
use crate::tui::state::Screen;

const SECOND: u64 = 1_000_000_000;

/// Look back: a store, a segment, a snapshot, or any Perfetto ftrace trace
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// What to open (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
    /// Go to this time: -5m, 14:32, 14:32:05.250, RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Keys and colours.
    #[command(flatten)]
    pub look: Look,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let config = globals.load_config()?;
    let paths = paths_or_store(&args.path, globals)?;
    let history = History::browse(paths.clone())?;
    let all = history.extent();
    if all.is_empty() {
        return Err(failed(match history.notes().first() {
            Some(first) => format!("nothing could be read: {first}"),
            None => format!("nothing is recorded in {}", place(&paths)),
        }));
    }
    let store = match &paths[..] {
        [dir] if dir.is_dir() => Some(dir.clone()),
        _ => None,
    };
    let cursor = match &args.at {
        Some(text) => at(text, &history)?,
        None => Cursor::on(Window { from: all.to.saturating_sub(60 * SECOND).max(all.from), to: all.to }),
    };
    // A store is first seen over hours; a single file on its own.
    let first = if store.is_some() && args.at.is_none() { Screen::Segments } else { Screen::Overview };
    let start = screen::start(&config, &args.look, cursor, false, first)?;
    let level = config.recorder().store.level;
    let shelf = Shelf { place: place(&paths), store, paths, level };
    app::run(start, history, screen::settings(&config), Box::new(shelf), screen::options(&config))?;
    Ok(ExitCode::SUCCESS)
}

/// The minute around a time; half of it before.
fn at(text: &str, history: &History) -> anyhow::Result<Cursor> {
    let (all, clocks) = (history.extent(), history.clocks());
    if clocks.is_empty() {
        return Err(failed("the trace has no clock snapshot, so wall-clock times mean nothing in it; leave --at out"));
    }
    let last = clocks.to_real(all.to);
    let reference = Reference { now: last, on_view: Some(last), zone: zone() };
    let real = match time::point(text, &reference).map_err(|e| usage(e.to_string()))? {
        Point::One(real) | Point::Twice(real, _) => real,
    };
    let boot = clocks.first_at_or_after(real);
    if boot < all.from || boot > all.to {
        let show = |boot| time::local(clocks.to_real(boot), &reference.zone, time::Digits::Seconds);
        return Err(failed(format!(
            "{text} is outside of the data, which goes from {} to {}",
            show(all.from),
            show(all.to)
        )));
    }
    let mut cursor = Cursor::on(Window { from: boot.saturating_sub(60 * SECOND), to: boot });
    cursor.center(boot);
    Ok(cursor)
}

fn place(paths: &[PathBuf]) -> String {
    let first = paths.first().map_or(String::new(), |p| printable(p.as_os_str().as_encoded_bytes()));
    if paths.len() > 1 { format!("{first} and {} more", paths.len() - 1) } else { first }
}

/// Recorded data without a recorder.
struct Shelf {
    place: String,
    store: Option<PathBuf>,
    paths: Vec<PathBuf>,
    level: i32,
}

const NOT_RECORDING: &str = "nothing is recording here; 'dashcam live' does";

impl Recorder for Shelf {
    fn view(&mut self) -> RecorderView {
        RecorderView { place: self.place.as_str().into(), lost: None, ..RecorderView::default() }
    }

    fn snapshot(&mut self, _: Option<u64>, _: &str) -> Result<String, String> {
        Err(format!("{NOT_RECORDING}. To keep the window on view, use keep"))
    }

    fn keep(&mut self, window: Window, label: &str) -> Result<String, String> {
        match &self.store {
            Some(store) => screen::keep(store, window, label, self.level),
            None => Err("single files are open; ranges can be kept of a store".into()),
        }
    }

    fn mark(&mut self, _: &str) -> Result<(), String> {
        Err(NOT_RECORDING.into())
    }

    fn store(&self) -> Option<PathBuf> {
        self.store.clone()
    }

    fn files(&self) -> &[PathBuf] {
        &self.paths
    }
}
