//! From files to columns: the feed with a [`Builder`] at its end.

use std::path::PathBuf;

use super::builder::{Builder, Keep};
use super::columns::Columns;
use super::facts::{Facts, Segment};
use crate::feed::{self, FeedError, OnProgress, Survey};
use crate::sched::fold::Folding;
use crate::sched::summary::Window;
use crate::store::name::SegmentName;
use crate::time::ClockMap;

/// What to load.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Stores, segments, snapshots, Perfetto traces.
    pub paths: Vec<PathBuf>,
    /// The time asked for; `None`: all.
    pub window: Option<Window>,
    /// Which raw events to keep (see [`super::engine::wants_events`]).
    pub keep: Keep,
}

/// Columns, and what went wrong without ending it.
#[derive(Debug)]
pub struct Loaded {
    /// The columns.
    pub columns: Columns,
    /// Boot clock ↔ wall clock.
    pub clocks: ClockMap,
    /// What could not be read, in words.
    pub damage: Vec<String>,
    /// Events read, those a little outside of the window included.
    pub events: u64,
    /// False if the load was stopped early.
    pub complete: bool,
}

/// Loads what `request` names; `survey` is what the feed says of the same paths.
///
/// # Errors
/// Nothing is there, or it cannot be opened. Damage inside files is told in the result instead.
pub fn load(request: &Request, survey: &Survey, progress: OnProgress<'_>) -> Result<Loaded, FeedError> {
    let mut folding = Folding::new(Builder::new(request.keep));
    let loaded = feed::load(&request.paths, request.window, &mut folding, progress)?;
    let mut names = loaded.names;
    let mut facts = Facts::of_lives(folding.folder.threads(), &mut names);
    facts.valid_from = folding.folder.valid_from();
    facts.damage.extend(loaded.damage.iter().map(|text| (None, text.clone())));
    facts.segments = files(survey, &loaded.clocks);
    let columns = folding.sink.finish(names, facts, request.window);
    let (clocks, events) = (loaded.clocks, loaded.events);
    Ok(Loaded { columns, clocks, damage: loaded.damage, events, complete: loaded.complete })
}

/// The rows of `segment` and `snapshot`.
fn files(survey: &Survey, clocks: &ClockMap) -> Vec<Segment> {
    let real = |boot| (!clocks.is_empty()).then(|| clocks.to_real(boot));
    survey
        .files
        .iter()
        .map(|file| {
            let name = file.path.file_name().and_then(|n| SegmentName::parse(n.to_str()?));
            Segment {
                path: crate::names::printable(file.path.as_os_str().as_encoded_bytes()),
                sequence: name.as_ref().map(|n| n.sequence),
                start_utc: file.window.and_then(|w| real(w.from)).or(name.as_ref().map(|n| n.start)),
                window: file.window,
                bytes: file.bytes,
                whole: name.as_ref().is_none_or(|n| !n.part),
                snapshot: name.and_then(|n| n.label),
                ..Segment::default()
            }
        })
        .collect()
}
