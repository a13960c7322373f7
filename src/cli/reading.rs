//! What `query`, `report`, `check` and `export` share: which files, which time, a progress bar, Ctrl-C.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Globals, WindowArgs, failed, length, paths_or_store, usage};
use crate::feed::{self, Progress, Survey};
use crate::query::Keep;
use crate::query::load::{Loaded, Request, load};
use crate::sched::summary::Window;
use crate::time::{self, ClockMap, Reference, Zone};
use crate::units::Span;

/// Files and the time asked for.
pub struct Source {
    /// What to read.
    pub paths: Vec<PathBuf>,
    /// What the feed says of it.
    pub survey: Survey,
    /// The time asked for, if the files tell their time without being read.
    pub window: Option<Window>,
}

impl Source {
    /// Looks at what `paths` (else the store) hold, and at which part of it the words of `window` mean.
    pub fn find(paths: &[PathBuf], window: &WindowArgs, globals: &Globals) -> anyhow::Result<Source> {
        let paths = paths_or_store(paths, globals)?;
        let survey = feed::survey(&paths)?;
        for note in &survey.notes {
            eprintln!("dashcam: note: {}", crate::names::printable(note.as_bytes()));
        }
        let window = match survey.window {
            Some(all) => resolve(window, all, &survey.clocks)?,
            None => None,
        };
        Ok(Source { paths, survey, window })
    }

    /// Loads it into columns, telling what was unreadable on stderr.
    pub fn load(&self, words: &WindowArgs, keep: Keep, stop: &Stop) -> anyhow::Result<Loaded> {
        let request = Request { paths: self.paths.clone(), window: self.window, keep };
        let mut bar = Bar::new("reading");
        let mut loaded = load(&request, &self.survey, &mut |p| bar.tick(p, stop))?;
        bar.finish();
        if !loaded.complete {
            return Err(failed("stopped before it was done"));
        }
        // Foreign traces tell their time only when they have been read.
        if let (None, Some(all)) = (self.window, loaded.columns.window)
            && let Some(window) = resolve(words, all, &loaded.clocks)?
        {
            loaded.columns.ask(window);
        }
        if let (None, Some(first)) = (loaded.columns.window, loaded.damage.first()) {
            return Err(failed(format!("nothing could be read: {first}")));
        }
        tell_damage(&self.survey.notes, &loaded.damage);
        Ok(loaded)
    }
}

/// Says on stderr what could not be read, once, and of one file the first place only. `said` was told before.
pub fn tell_damage(said: &[String], damage: &[String]) {
    for text in told_once(said, damage) {
        eprintln!("dashcam: damaged: {}", crate::names::printable(text.as_bytes()));
    }
}

fn told_once(said: &[String], damage: &[String]) -> Vec<String> {
    let mut files: Vec<(&str, &str, usize)> = Vec::new();
    for text in damage.iter().filter(|text| !said.contains(text)) {
        let file = text.split_once(DAMAGED_AT).map_or(text.as_str(), |(file, _)| file);
        match files.iter_mut().find(|(known, ..)| *known == file) {
            Some((_, first, more)) => *more += usize::from(text != first),
            None => files.push((file, text, 0)),
        }
    }
    let line = |(file, first, more): &(&str, &str, usize)| match more {
        0 => (*first).to_owned(),
        n => format!("{first} (and {n} more places; all of them: dashcam verify {file})"),
    };
    files.iter().map(line).collect()
}

/// Between a file's name and where in it something is wrong.
const DAMAGED_AT: &str = ": damaged at byte ";

/// The boot-clock window that the words mean; `None` for all. Relative words count from the end of the data, which for
/// a running recorder is now.
fn resolve(words: &WindowArgs, all: Window, clocks: &ClockMap) -> anyhow::Result<Option<Window>> {
    if words.from.is_none() && words.to.is_none() && words.last.is_none() {
        return Ok(None);
    }
    let last = words.last.as_deref().map(|t| length("--last", t).map(Span)).transpose()?;
    if clocks.is_empty() {
        let Some(last) = last else {
            return Err(failed("the trace has no clock snapshot, so wall-clock times mean nothing in it; use --last"));
        };
        return Ok(Some(Window { from: all.to.saturating_sub(last.nanos()), to: all.to }));
    }
    let at = Reference { now: clocks.to_real(all.to), on_view: None, zone: Zone::system() };
    let range = time::range(words.from.as_deref(), words.to.as_deref(), last, &at).map_err(|e| usage(e.to_string()))?;
    let from = range.from.map_or(all.from, |t| clocks.first_at_or_after(t));
    let to = range.to.map_or(all.to, |t| clocks.first_at_or_after(t));
    if from >= all.to.max(all.from + 1) || to <= all.from {
        let show = |boot| time::local(clocks.to_real(boot), &at.zone, time::Digits::Seconds);
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
        if self.bar.is_none() && self.since.elapsed() > Duration::from_millis(700) && std::io::stderr().is_terminal() {
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

/// Says on a terminal that a query still runs, once that takes a while.
#[derive(Clone)]
pub struct Spinner {
    bar: ProgressBar,
    since: Instant,
}

impl Spinner {
    /// Nothing is shown yet.
    pub fn new() -> Spinner {
        let bar = ProgressBar::hidden();
        let style = ProgressStyle::with_template("{spinner} asking, {elapsed} (Ctrl-C stops)");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Spinner { bar, since: Instant::now() }
    }

    /// Turns it.
    pub fn tick(&self) {
        if self.since.elapsed() < Duration::from_secs(1) || self.bar.is_finished() {
            return;
        }
        if self.bar.is_hidden() && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.tick();
    }

    /// Takes it away for good.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_of_one_file_is_told_once() {
        let text = |s: &&str| s.to_string();
        let damage = [
            "a: holds no whole frame yet",
            "b: damaged at byte 7: x",
            "b: damaged at byte 7: x",
            "b: damaged at byte 9: y",
            "c: damaged at byte 1: x",
        ];
        let damage: Vec<String> = damage.iter().map(text).collect();
        let told = told_once(&damage[..1], &damage);
        let b = "b: damaged at byte 7: x (and 1 more places; all of them: dashcam verify b)";
        assert_eq!(told, [b, "c: damaged at byte 1: x"]);
    }
}
