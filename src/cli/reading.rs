//! What `query`, `report`, `check` and `export` share: which files, which time, a progress bar, Ctrl-C.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rusqlite::types::ValueRef;

use super::{Globals, WindowArgs, failed, length, paths_or_store, usage, zone};
use crate::feed::{self, Lives, Progress, Survey};
use crate::query::engine::Rows;
use crate::query::load::{Kept, Loaded, Request, load_beside};
use crate::query::rehearsal::Needs;
use crate::sched::event::Item;
use crate::sched::fold::Consumer;
use crate::sched::model::Model;
use crate::sched::summary::Window;
use crate::store::StoreError;
use crate::time::{self, ClockMap, Reference, TimeError};
use crate::units::{Span, show};

/// Files and the time asked for.
pub struct Source {
    /// What to read.
    pub paths: Vec<PathBuf>,
    /// What the feed says of it.
    pub survey: Survey,
    /// The time asked for.
    pub window: Option<Window>,
}

impl Source {
    /// Looks at what `paths` (else the store) hold, and at which part of it the words of `window` mean.
    pub fn find(paths: &[PathBuf], window: &WindowArgs, globals: &Globals, stop: &Stop) -> anyhow::Result<Source> {
        let given = window.from.is_some() || window.to.is_some() || window.last.is_some();
        if given {
            check_words(window)?;
        }
        let paths = paths_or_store(paths, globals)?;
        let survey = feed::survey(&paths)?;
        for note in &survey.notes {
            tell!("dashcam: note: {}", crate::names::printable(note.as_bytes()));
        }
        let foreign = survey.files.iter().any(|f| f.window.is_none());
        let window = match (given, survey.window) {
            (false, _) => None,
            // Traces of other recorders tell their time only when they are read.
            (true, _) if foreign => look(&paths, window, stop)?,
            (true, Some(all)) => resolve(window, all, &survey.clocks)?,
            (true, None) => None,
        };
        Ok(Source { paths, survey, window })
    }

    /// Looks at the words alone, where nothing will be read: the paths that were named are there, and times are times.
    pub fn exists(paths: &[PathBuf], window: &WindowArgs, globals: &Globals) -> anyhow::Result<()> {
        check_words(window)?;
        for path in paths.iter().chain(globals.dir.as_ref().filter(|_| paths.is_empty())) {
            std::fs::metadata(path).map_err(|e| StoreError::reading(path, e))?;
        }
        Ok(())
    }

    /// Loads it into columns, telling what was unreadable on stderr.
    pub fn load(&self, kept: Kept, stop: &Stop) -> anyhow::Result<Loaded> {
        self.load_beside(kept, None, stop)
    }

    /// The same, and into a model too.
    pub fn load_beside(&self, kept: Kept, model: Option<&mut Model>, stop: &Stop) -> anyhow::Result<Loaded> {
        let request = Request { paths: self.paths.clone(), window: self.window, kept, ..Request::default() };
        self.read(&request, model, stop)
    }

    /// Loads what a script needs, with every thread's number of the whole, and of an own recording only the frames in which
    /// rows lie that are asked for.
    pub fn load_for(&self, needs: &Needs, stop: &Stop) -> anyhow::Result<Loaded> {
        let lives = Lives::read(&self.paths)?;
        let request = Request {
            paths: self.paths.clone(),
            window: self.window,
            kept: needs.kept,
            lives: lives.as_ref(),
            rows: needs.rows.as_ref(),
        };
        let loaded = self.read(&request, None, stop)?;
        let (read, all) = loaded.frames;
        if needs.numbers && needs.rows.is_some() && self.window.is_none() && read < all {
            let (read, all) = (show::grouped(read), show::grouped(all));
            tell!("dashcam: note: read {read} of {all} frames, those that ts asks for; id numbers the rows of these");
        }
        Ok(loaded)
    }

    fn read(&self, request: &Request<'_>, model: Option<&mut Model>, stop: &Stop) -> anyhow::Result<Loaded> {
        let mut bar = Bar::new("reading");
        let loaded = load_beside(request, &self.survey, model, &mut |p| bar.tick(p, stop))?;
        bar.finish();
        if !loaded.complete {
            return Err(failed("stopped before it was done"));
        }
        if let (None, Some(first)) = (loaded.columns.window, loaded.damage.first()) {
            return Err(failed(format!("nothing could be read: {first}")));
        }
        tell_damage(&self.survey.notes, &loaded.damage);
        Ok(loaded)
    }
}

/// Says on stderr what could not be read, but not again what was `said` before.
pub fn tell_damage(said: &[String], damage: &[String]) {
    for text in damage.iter().filter(|text| !said.contains(text)) {
        tell!("dashcam: damaged: {}", crate::names::printable(text.as_bytes()));
    }
}

/// What can be said of the words before it is known what they are about: they are points in time, in an order that there can be.
fn check_words(words: &WindowArgs) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let at = Reference { now, on_view: None, zone: zone() };
    let (from, to) = (words.from.as_deref(), words.to.as_deref());
    match time::range(from, to, last(words)?, &at) {
        // On which days clock times are is known only with the data.
        Ok(_) | Err(TimeError::Backwards { .. }) => Ok(()),
        Err(e) => Err(usage(e.to_string())),
    }
}

fn last(words: &WindowArgs) -> anyhow::Result<Option<Span>> {
    words.last.as_deref().map(|t| length("--last", t).map(Span)).transpose()
}

/// Wants nothing: only the times are looked at.
struct Nothing;

impl Consumer for Nothing {
    fn item(&mut self, _: &Item) {}
}

/// Reads everything once, to learn which time `words` mean in it.
fn look(paths: &[PathBuf], words: &WindowArgs, stop: &Stop) -> anyhow::Result<Option<Window>> {
    let mut bar = Bar::new("looking at its times");
    let loaded = feed::load(paths, None, &mut Nothing, &mut |p| bar.tick(p, stop))?;
    bar.finish();
    if !loaded.complete {
        return Err(failed("stopped before it was done"));
    }
    loaded.window.map_or(Ok(None), |all| resolve(words, all, &loaded.clocks))
}

/// The boot-clock window that the words mean; `None` for all. Relative words count from the end of the data, which for
/// a running recorder is now.
fn resolve(words: &WindowArgs, all: Window, clocks: &ClockMap) -> anyhow::Result<Option<Window>> {
    let last = last(words)?;
    if clocks.is_empty() {
        let Some(last) = last else {
            return Err(failed("the trace has no clock snapshot, so wall-clock times mean nothing in it; use --last"));
        };
        return Ok(Some(Window { from: all.to.saturating_sub(last.nanos()), to: all.to }));
    }
    let at = Reference { now: clocks.to_real(all.to), on_view: None, zone: zone() };
    let range = time::range(words.from.as_deref(), words.to.as_deref(), last, &at).map_err(|e| usage(e.to_string()))?;
    let from = range.from.map_or(all.from, |t| clocks.first_at_or_after(t));
    let to = range.to.map_or(all.to, |t| clocks.first_at_or_after(t));
    let real = |t| time::local(t, &at.zone, time::Digits::Seconds);
    let show = |boot| real(clocks.to_real(boot));
    // A clock time that is still to come today means yesterday's: whoever meant today's must see that.
    if let Some(asked) = range.from.filter(|_| words.from.is_some() && from < all.from && to > all.from) {
        tell!("dashcam: note: the data begins at {}, after {}", show(all.from), real(asked));
    }
    if from >= all.to.max(all.from + 1) || to <= all.from {
        return Err(failed(format!(
            "nothing was recorded then; the data goes from {} to {}",
            show(all.from),
            show(all.to)
        )));
    }
    Ok(Some(Window { from, to }))
}

/// Set by Ctrl-C.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes over Ctrl-C: the first one asks to stop, the second one ends the process.
    pub fn on_interrupt() -> anyhow::Result<Stop> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&flag)))
            .context("taking over Ctrl-C")?;
        Ok(Stop(flag))
    }

    /// Takes over SIGTERM too: for a command that writes a file, which takes away what it has of it when it is stopped.
    pub fn on_terminate_too(&self) -> anyhow::Result<()> {
        use signal_hook::consts::SIGTERM;
        signal_hook::flag::register_conditional_shutdown(SIGTERM, 143, Arc::clone(&self.0))
            .and_then(|_| signal_hook::flag::register(SIGTERM, Arc::clone(&self.0)))
            .context("taking over SIGTERM")?;
        Ok(())
    }

    /// Whether it was pressed.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets that it was (the shell goes on).
    pub fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A bar on stderr, only on a terminal and only once it takes a while.
pub struct Bar {
    bar: Option<ProgressBar>,
    what: &'static str,
    since: Instant,
}

impl Bar {
    /// Nothing is shown yet.
    pub fn new(what: &'static str) -> Bar {
        Bar { bar: None, what, since: Instant::now() }
    }

    /// Shows how far it is; `Break` if it should stop.
    pub fn tick(&mut self, progress: Progress, stop: &Stop) -> ControlFlow<()> {
        if stop.asked() {
            return ControlFlow::Break(());
        }
        if self.bar.is_none() && self.since.elapsed() > Duration::from_millis(700) && io::stderr().is_terminal() {
            let bar = ProgressBar::new(progress.total);
            let style = "{msg} {bar:30} {bytes} of {total_bytes}, {eta} to go";
            bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(self.what);
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(progress.done);
        }
        ControlFlow::Continue(())
    }

    /// Takes it away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Says on a terminal that a query still runs, once that takes a while. Written by hand, since the terminal echoes `^C`
/// right behind it: a line that fills the terminal's width could not be taken away any more.
#[derive(Clone)]
pub struct Spinner(Arc<Mutex<Turning>>);

struct Turning {
    /// When the query began; `None`: rows are being printed.
    since: Option<Instant>,
    drawn: Option<Instant>,
    step: usize,
}

impl Spinner {
    /// A query begins now.
    pub fn new() -> Spinner {
        Spinner(Arc::new(Mutex::new(Turning { since: Some(Instant::now()), drawn: None, step: 0 })))
    }

    /// The next query begins.
    pub fn begin(&self) {
        self.change(|t| t.since = Some(Instant::now()));
    }

    /// Turns it.
    pub fn tick(&self) {
        const EVERY: Duration = Duration::from_millis(100);
        const AFTER: Duration = Duration::from_secs(1);
        self.change(|t| {
            let Some(runs) = t.since.map(|s| s.elapsed()).filter(|runs| *runs > AFTER) else { return };
            if t.drawn.is_some_and(|at| at.elapsed() < EVERY) || !io::stderr().is_terminal() {
                return;
            }
            t.drawn = Some(Instant::now());
            t.step = (t.step + 1) % 4;
            let _ = write!(
                io::stderr(),
                "\r{} asking, {} s (Ctrl-C stops)\x1b[K",
                ['|', '/', '-', '\\'][t.step],
                runs.as_secs()
            );
        });
    }

    /// Takes it away: rows follow, or the next prompt.
    pub fn finish(&self) {
        self.change(|t| {
            if t.drawn.take().is_some() {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
            t.since = None;
        });
    }

    fn change(&self, how: impl FnOnce(&mut Turning)) {
        // A poisoned lock only means that a spinner does not turn.
        if let Ok(mut turning) = self.0.lock() {
            how(&mut turning);
        }
    }
}

/// Rows on their way to the output: takes the spinner away before the first.
pub struct Quiet<'a> {
    /// Where they go.
    pub rows: Box<dyn Rows + 'a>,
    /// What is taken away.
    pub spinner: Spinner,
}

impl Rows for Quiet<'_> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        self.spinner.finish();
        self.rows.begin(columns)
    }

    fn row(&mut self, cells: &[ValueRef<'_>]) -> io::Result<()> {
        self.rows.row(cells)
    }

    fn end(&mut self) -> io::Result<()> {
        self.rows.end()
    }
}
