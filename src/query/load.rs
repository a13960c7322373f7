//! From files to columns: the feed with a [`Builder`] at its end.

use std::path::PathBuf;

use super::builder::Builder;
use super::columns::Columns;
use super::facts::{Facts, Segment};
use crate::feed::{self, FeedError, OnProgress};
use crate::sched::fold::Folding;
use crate::sched::summary::Window;

/// What to load.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Stores, segments, snapshots, Perfetto traces.
    pub paths: Vec<PathBuf>,
    /// The time asked for; `None`: all.
    pub window: Option<Window>,
    /// Keep raw events too (see [`super::engine::wants_events`]).
    pub events: bool,
}

/// Columns, and what went wrong without ending it.
#[derive(Debug)]
pub struct Loaded {
    /// The columns.
    pub columns: Columns,
    /// What could not be read, in words.
    pub damage: Vec<String>,
    /// False if the load was stopped early.
    pub complete: bool,
}

/// Loads what `request` names.
///
/// # Errors
/// Nothing is there, or it cannot be opened. Damage inside files is told in the result instead.
pub fn load(request: &Request, progress: OnProgress<'_>) -> Result<Loaded, FeedError> {
    let mut folding = Folding::new(Builder::new(request.events));
    let loaded = feed::load(&request.paths, request.window, &mut folding, progress)?;
    let mut names = loaded.names;
    let mut facts = Facts::of_lives(folding.folder.threads(), &mut names);
    facts.valid_from = folding.folder.valid_from();
    facts.damage.extend(loaded.damage.iter().map(|text| (None, text.clone())));
    facts.segments = files(&request.paths);
    let columns = folding.sink.finish(names, facts, request.window);
    Ok(Loaded { columns, damage: loaded.damage, complete: loaded.complete })
}

/// The files behind the paths, as far as they tell of themselves; a listing that fails leaves the table short.
fn files(paths: &[PathBuf]) -> Vec<Segment> {
    let Ok(survey) = feed::survey(paths) else { return Vec::new() };
    survey
        .files
        .into_iter()
        .map(|file| Segment {
            path: crate::names::printable(file.path.as_os_str().as_encoded_bytes()),
            window: file.window,
            bytes: file.bytes,
            ..Segment::default()
        })
        .collect()
}
