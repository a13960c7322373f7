//! From files to columns: the feed with a [`Builder`] at its end.

use std::path::PathBuf;

use super::builder::{Builder, Keep};
use super::columns::Columns;
use super::facts::{Facts, Segment};
use super::numbering::{self, Numbering};
use super::reach::Rows;
use crate::feed::{self, FeedError, Lives, OnProgress, SourceFile, Stretch, Survey};
use crate::names::NameTable;
use crate::sched::event::{Item, ThreadNow};
use crate::sched::fold::{Consumer, Folding};
use crate::sched::model::Model;
use crate::sched::summary::Window;
use crate::store::name::SegmentName;
use crate::time::ClockMap;

/// What to load.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// Stores, segments, snapshots, Perfetto traces.
    pub paths: Vec<PathBuf>,
    /// The time asked for; `None`: all.
    pub window: Option<Window>,
    /// What of it to keep.
    pub kept: Kept,
    /// Who lived when in all that was recorded: utids are then the same whatever is read of it.
    pub lives: Option<&'a Lives>,
    /// The only rows that are wanted, where no time was asked for otherwise: no more is read than they need. Needs `lives`.
    pub rows: Option<&'a Rows>,
}

/// What is kept of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Which raw events.
    pub events: Keep,
    /// Of the states only running, which is what `sched` shows: half the memory.
    pub only_running: bool,
}

impl Kept {
    /// Everything there is.
    pub const ALL: Kept = Kept { events: Keep::Everything, only_running: false };

    /// All states, and raw events as `events` says.
    pub fn states(events: Keep) -> Kept {
        Kept { events, only_running: false }
    }
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
    /// zstd frames read, of all there are in the files.
    pub frames: (u64, u64),
    /// False if the load was stopped early.
    pub complete: bool,
}

/// Loads what `request` names; `survey` is what the feed says of the same paths.
///
/// # Errors
/// Nothing is there, or it cannot be opened. Damage inside files is told in the result instead.
pub fn load(request: &Request<'_>, survey: &Survey, progress: OnProgress<'_>) -> Result<Loaded, FeedError> {
    load_beside(request, survey, None, progress)
}

/// The same, and the model of the screens gets what the columns get.
///
/// # Errors
/// As [`load`].
pub fn load_beside(
    request: &Request<'_>,
    survey: &Survey,
    model: Option<&mut Model>,
    progress: OnProgress<'_>,
) -> Result<Loaded, FeedError> {
    let builder = Builder::new(request.kept.events);
    let folding = Folding::new(if request.kept.only_running { builder.only_running() } else { builder });
    let rows = request.lives.zip(request.rows).filter(|_| request.window.is_none() && model.is_none());
    let stretch = match (rows, request.window) {
        (Some((_, rows)), _) => Stretch::Whole(rows.window),
        (None, Some(window)) => Stretch::Window(window),
        (None, None) => Stretch::All,
    };
    let only_running = request.kept.only_running;
    let mut both = Both { folding, model, rows, only_running };
    let names = request.lives.map_or_else(NameTable::new, |l| l.names.clone());
    let loaded = feed::load_stretch(&request.paths, stretch, names, &mut both, &mut *progress)?;
    let mut folding = both.folding;
    let mut names = loaded.names;
    let until = request.window.map_or(u64::MAX, |w| w.to);
    let numbering = request.lives.map(|lives| Numbering::new(lives, folding.folder.threads(), folding.sink.met()));
    let mut facts = match &numbering {
        Some(numbering) => numbering.facts(&mut names, until, request.window.is_some()),
        None => Facts::of_lives(folding.folder.threads(), &mut names, until),
    };
    let known = numbering.as_ref().filter(|n| !n.strangers.is_empty()).and(request.lives).map(|l| l.threads.len());
    if let Some(utids) = numbering.map(|n| n.utids) {
        folding.sink.renumber(utids);
    }
    facts.valid_from = folding.folder.valid_from();
    facts.damage.clone_from(&loaded.damage);
    facts.segments = files(survey, &loaded.clocks);
    let columns = folding.sink.finish(names, facts, request.window);
    if let (Some((_, rows)), Some(known)) = (rows, known)
        && numbering::names_strangers(&columns, rows, known)
    {
        // Which numbers strangers have is only known when all was read.
        return load(&Request { rows: None, ..request.clone() }, survey, progress);
    }
    let (clocks, events, frames) = (loaded.clocks, loaded.events, loaded.frames);
    Ok(Loaded { columns, clocks, damage: loaded.damage, events, frames, complete: loaded.complete })
}

/// Columns, and a model beside them.
struct Both<'a> {
    folding: Folding<Builder>,
    model: Option<&'a mut Model>,
    rows: Option<(&'a Lives, &'a Rows)>,
    only_running: bool,
}

/// What is told of a moment after it (why a thread blocked, events that came late) comes within this time, ns.
const AFTER: u64 = 1_000_000_000;

impl Consumer for Both<'_> {
    #[inline]
    fn item(&mut self, item: &Item) {
        self.folding.item(item);
        if let Some(model) = &mut self.model {
            model.item(item);
        }
    }

    fn end(&mut self) {
        self.folding.end();
        if let Some(model) = &mut self.model {
            model.end();
        }
    }

    /// Every row that is wanted has ended, and what is told later of it was told.
    fn has_enough(&self) -> bool {
        let (folder, Some((lives, rows))) = (&self.folding.folder, self.rows) else { return false };
        if folder.latest() <= rows.window.to.saturating_add(AFTER) {
            return false;
        }
        let wanted = |local| match &rows.utids {
            None => true,
            Some(utids) => numbering::utid(lives, folder.threads(), self.folding.sink.met(), local)
                .is_none_or(|utid| utids.contains(&utid)),
        };
        let kept = |state| !self.only_running || state == ThreadNow::Running;
        !folder
            .open_intervals()
            .any(|i| (rows.window.from..rows.window.to).contains(&i.start) && kept(i.state) && wanted(i.utid))
    }
}

/// The rows of `segment` and `snapshot`.
fn files(survey: &Survey, clocks: &ClockMap) -> Vec<Segment> {
    let real = |boot| (!clocks.is_empty()).then(|| clocks.to_real(boot));
    let row = |file: &SourceFile| {
        let name = file.path.file_name().and_then(|n| SegmentName::parse(n.to_str()?));
        Segment {
            path: crate::names::printable(file.path.as_os_str().as_encoded_bytes()),
            sequence: name.as_ref().map(|n| n.sequence),
            start_utc: file.window.and_then(|w| real(w.from)).or(name.as_ref().map(|n| n.start)),
            window: file.window,
            bytes: file.bytes,
            counts: file.counts,
            whole: name.as_ref().is_none_or(|n| !n.part),
            snapshot: file.note.is_some() || name.as_ref().is_some_and(|n| n.label.is_some()),
            label: name.and_then(|n| n.label),
            note: file.note.clone(),
        }
    };
    // A snapshot that is named itself stands in the store's list too when both are named.
    let kept = survey.snapshots.iter().filter(|s| survey.files.iter().all(|f| f.path != s.path));
    survey.files.iter().chain(kept).map(row).collect()
}
