//! The worker's data: a live model that follows the growing segment, and a past one loaded from disk when asked for.
//!
//! A window is answered from the live model while it reaches back far enough; else the stretch around it is loaded, only
//! the zstd frames it needs. Each model has names and thread numbers of its own: [`View::generation`] tells them apart.

use super::table::Table;
use crate::feed::{self, FeedError, Progress, Tail};
use crate::names::{NameTable, printable};
use crate::sched::model::{Limits, Model};
use crate::sched::summary::Window;
use crate::time::ClockMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// A live view begins with its window and so much more of the past: what is read before the first screen is waited for. A
/// longer window is read when it is asked for.
const FIRST_MORE: u64 = 5 * SECOND;
/// Time a live model keeps at least; the longest window on screen and some more to step back into.
const LIVE_KEEPS: u64 = 720 * SECOND;
/// Intervals a model holds at most (about 32 bytes each, 80 for running ones).
const INTERVALS: usize = 12_000_000;
/// What is shorter than this, and smaller than [`WHOLE_BYTES`], is loaded whole.
const WHOLE: u64 = 180 * SECOND;
const WHOLE_BYTES: u64 = 64 << 20;

/// Told how far a load is; true ends it early.
pub type Watch<'a> = &'a dyn Fn(Progress) -> bool;

/// A model that follows.
#[derive(Debug)]
struct Live {
    tail: Tail,
    model: Model,
    /// How far back it was begun.
    back: u64,
    generation: u64,
    caught_up: bool,
}

/// A stretch of the past.
#[derive(Debug)]
struct Past {
    window: Window,
    model: Model,
    names: NameTable,
    generation: u64,
}

/// See the module.
#[derive(Debug)]
pub struct History {
    paths: Vec<PathBuf>,
    live: Option<Live>,
    /// A live model that begins further back, while it is still catching up.
    deeper: Option<Live>,
    past: Option<Past>,
    /// Everything is loaded whole, once.
    whole: bool,
    extent: Window,
    clocks: Arc<ClockMap>,
    /// What could not be read of the stretch that was loaded last.
    notes: Arc<[Box<str>]>,
    generations: u64,
    /// The live overview's table, counted a moment ago.
    pub(super) table: Option<Table>,
}

/// A model with its words.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Answers questions.
    pub model: &'a Model,
    /// Owner of its `NameId`s.
    pub names: &'a NameTable,
    /// Ids of different generations have nothing to do with one another.
    pub generation: u64,
}

impl History {
    /// Follows a store; windows of `span` ns are there from the start.
    pub fn live(store: &Path, span: u64) -> Result<History, FeedError> {
        let paths = vec![store.to_owned()];
        let (extent, clocks) = match feed::survey(&paths) {
            Ok(survey) => (survey.window.unwrap_or(Window { from: 0, to: 0 }), survey.clocks),
            Err(FeedError::Nothing(_)) => (Window { from: 0, to: 0 }, ClockMap::default()),
            Err(e) => return Err(e),
        };
        let mut history = History::new(paths, extent, clocks);
        history.live = Some(history.follow(span.saturating_add(FIRST_MORE))?);
        Ok(history)
    }

    /// Opens what was recorded; nothing grows.
    pub fn browse(paths: Vec<PathBuf>) -> Result<History, FeedError> {
        let survey = feed::survey(&paths)?;
        let bytes: u64 = survey.files.iter().map(|f| f.bytes).sum();
        // A foreign trace says what it covers only once it is read.
        let unknown = survey.files.iter().any(|f| f.window.is_none());
        let extent = survey.window.unwrap_or(Window { from: 0, to: 0 });
        let mut history = History::new(paths, extent, survey.clocks);
        history.whole = unknown || (extent.len() <= WHOLE && bytes <= WHOLE_BYTES);
        if unknown {
            history.load(None, &|_| false)?;
        }
        Ok(history)
    }

    fn new(paths: Vec<PathBuf>, extent: Window, clocks: ClockMap) -> History {
        let clocks = Arc::new(clocks);
        History {
            paths,
            live: None,
            deeper: None,
            past: None,
            whole: false,
            extent,
            clocks,
            notes: Arc::default(),
            generations: 0,
            table: None,
        }
    }

    fn follow(&mut self, back: u64) -> Result<Live, FeedError> {
        let tail = Tail::open(&self.paths[0], back)?;
        self.generations += 1;
        let model = Model::new(Limits { intervals: INTERVALS, time: LIVE_KEEPS.max(back) });
        Ok(Live { tail, model, back, generation: self.generations, caught_up: false })
    }

    /// Takes in what was added to the growing segment, for some tens of milliseconds at most; true when there is more.
    pub fn advance(&mut self) -> Result<bool, FeedError> {
        let mut more = false;
        if let Some(live) = &mut self.live {
            let advance = live.tail.advance(&mut live.model)?;
            let damage = live.tail.damage();
            if self.past.is_none() && damage.len() != self.notes.len() {
                self.notes = damage.iter().map(|text| printable(text.as_bytes()).into()).collect();
            }
            more |= !advance.caught_up;
            live.caught_up |= advance.caught_up;
            // Sampled data has no events, but its watermark moves on.
            if advance.through > self.extent.to || advance.events > 0 || self.clocks.is_empty() {
                self.extent.to = self.extent.to.max(advance.through);
                if self.extent.from == 0 {
                    self.extent.from = live.model.bounds().map_or(0, |b| b.from);
                }
                self.clocks = Arc::new(merged(&self.clocks, live.tail.clocks()));
            }
        }
        if let Some(deeper) = &mut self.deeper {
            let advance = deeper.tail.advance(&mut deeper.model)?;
            more |= !advance.caught_up;
            if advance.caught_up {
                deeper.caught_up = true;
                self.live = self.deeper.take();
            }
        }
        Ok(more)
    }

    /// True when there is something to follow.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// From the first instant to the latest.
    pub fn extent(&self) -> Window {
        self.extent
    }

    /// Boot clock to wall clock.
    pub fn clocks(&self) -> Arc<ClockMap> {
        Arc::clone(&self.clocks)
    }

    /// What could not be read, a line for each file.
    pub fn notes(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.notes)
    }

    /// The newest window of this length, and the model that has it.
    pub fn latest(&mut self, span: u64) -> Result<(Window, View<'_>), FeedError> {
        let Some(live) = &self.live else {
            let to = self.extent.to;
            let window = Window { from: to.saturating_sub(span), to };
            return self.view(window, &|_| false).map(|v| (window, v));
        };
        let reaches = live.back >= span || live.model.bounds().is_some_and(|b| b.len() >= span);
        if !reaches && self.deeper.is_none() && live.caught_up {
            self.deeper = Some(self.follow(span.min(LIVE_KEEPS))?);
        }
        let to = self.extent.to;
        let window = Window { from: to.saturating_sub(span), to };
        // The match above proved that there is one.
        self.live_view().map(|v| (window, v)).ok_or_else(|| FeedError::Nothing(self.paths[0].clone()))
    }

    fn live_view(&self) -> Option<View<'_>> {
        let live = self.live.as_ref()?;
        Some(View { model: &live.model, names: live.tail.names(), generation: live.generation })
    }

    /// A model that has this window; loads what is needed. When `watch` ends a load early the model has only a part.
    pub fn view(&mut self, window: Window, watch: Watch<'_>) -> Result<View<'_>, FeedError> {
        let live_has = self.live.as_ref().is_some_and(|l| {
            l.model.bounds().is_some_and(|b| b.from <= window.from.max(self.extent.from)) && l.caught_up
        });
        if !live_has {
            let held = self.past.as_ref().is_some_and(|p| p.window.from <= window.from && window.to <= p.window.to);
            if !held {
                let around = if self.whole { self.extent } else { around(window, self.extent) };
                self.load(Some(around), watch)?;
            }
            if let Some(past) = &self.past {
                return Ok(View { model: &past.model, names: &past.names, generation: past.generation });
            }
        }
        self.live_view().ok_or_else(|| FeedError::Nothing(self.paths[0].clone()))
    }

    fn load(&mut self, window: Option<Window>, watch: Watch<'_>) -> Result<(), FeedError> {
        let mut model = Model::new(Limits { intervals: 2 * INTERVALS, time: u64::MAX });
        let mut progress = |p| if watch(p) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let loaded = feed::load(&self.paths, window, &mut model, &mut progress)?;
        self.generations += 1;
        if window.is_none() {
            self.extent = loaded.window.unwrap_or(self.extent);
        }
        self.clocks = Arc::new(merged(&self.clocks, &loaded.clocks));
        self.notes = loaded.damage.iter().map(|text| printable(text.as_bytes()).into()).collect();
        // The ends of what there is count as covered: nothing more can be loaded there.
        let asked = window.unwrap_or(self.extent);
        let covered = Window {
            from: if asked.from <= self.extent.from { 0 } else { asked.from },
            to: if asked.to >= self.extent.to && !self.is_live() { u64::MAX } else { asked.to },
        };
        let covered = if loaded.complete { covered } else { Window { from: 0, to: 0 } };
        let past = Past { window: covered, model, names: loaded.names, generation: self.generations };
        self.past = Some(past);
        Ok(())
    }

    /// Files behind it, for reading raw events.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

/// A window with some room on both sides, so that small steps need no new load; little of it, since what is loaded is waited
/// for.
fn around(window: Window, extent: Window) -> Window {
    let room = (window.len() / 4).clamp(2 * SECOND, 10 * SECOND);
    let from = window.from.saturating_sub(room).max(extent.from.min(window.from));
    let to = window.to.saturating_add(room).min(extent.to.max(window.to));
    Window { from, to }
}

/// The map with the more recent knowledge. Both come from the same files, so the longer list holds the shorter one.
fn merged(old: &ClockMap, new: &ClockMap) -> ClockMap {
    if new.is_empty() { old.clone() } else { new.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_left_on_both_sides_within_what_there_is() {
        let extent = Window { from: 100 * SECOND, to: 1000 * SECOND };
        let w = |from, to| Window { from: from * SECOND, to: to * SECOND };
        assert_eq!(around(w(500, 520), extent), w(495, 525));
        assert_eq!(around(w(101, 102), extent), w(100, 104));
        assert_eq!(around(w(400, 1000), extent), w(390, 1000));
    }
}
