//! From files to the model: loads a window, or follows the growing segment.
//!
//! [`load`] reads any mix of stores, segments, snapshots and foreign Perfetto traces (plain, gzip, zstd), only the zstd
//! frames the window needs, and pushes what they say in time order into a [`Consumer`] (a model, or a fold with a
//! sink). [`Tail`] gives the same for a recording that still grows. Decompression runs on all cores, decoding on a
//! thread beside the consumer's; both keep one order, so that loading twice gives the same row numbers. Nothing here keeps intervals or draws anything.

mod damage;
mod frames;
mod lives;
mod load;
mod pipeline;
mod pump;
mod tail;
mod times;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::memory::Room;
use crate::names::NameTable;
use crate::sched::fold::Consumer;
use crate::sched::summary::Window;
use crate::store::StoreError;
use crate::store::footer::SnapshotNote;
use crate::store::index::LossCount;
use crate::time::ClockMap;
use crate::units::show;

pub use damage::{CUT_PACKET, NO_PACKET, torn_at};
pub use lives::Lives;
pub use load::{Stretch, load, load_stretch, survey};
pub use tail::{Advance, Tail};

/// Why files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// No file of a kind we read is there.
    #[error("nothing is recorded in {}", shown(.0))]
    Nothing(PathBuf),
    /// A file without a byte.
    #[error("nothing is recorded in {}: the file is empty", shown(.0))]
    Empty(PathBuf),
    /// A file cannot be opened or read.
    #[error("cannot read {}: {why}", shown(.path))]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// More than there is room for.
    #[error(
        "not enough memory for all of it: at {} events {room}, and the rest is left to others; ask for a shorter stretch (--last, or --from and --to)",
        show::grouped(*events)
    )]
    Memory {
        /// Events read.
        events: u64,
        /// What is left.
        room: Room,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FeedError {
    fn open(path: &Path, why: io::Error) -> FeedError {
        match why.kind() {
            // Who may is the store's to say.
            io::ErrorKind::PermissionDenied => StoreError::reading(path, why).into(),
            _ => FeedError::Open { path: path.to_owned(), why },
        }
    }
}

fn shown(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    crate::names::printable(path.as_os_str().as_bytes())
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
    /// Events in it and events lost, from its footers; `None`: it has none (growing, recorder died, foreign).
    pub counts: Option<(u64, LossCount)>,
    /// Of a snapshot: why it was kept.
    pub note: Option<SnapshotNote>,
}

/// What there is, told without reading events where the files have footers.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Files by time.
    pub files: Vec<SourceFile>,
    /// Snapshots kept in the stores among what was named: their data is that of segments, so they are not loaded.
    pub snapshots: Vec<SourceFile>,
    /// From the first to the last instant recorded.
    pub window: Option<Window>,
    /// Boot clock ↔ wall clock.
    pub clocks: ClockMap,
    /// What was left out or is damaged, in words.
    pub notes: Vec<String>,
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
    /// zstd frames of our own files that were read, of all there are in them.
    pub frames: (u64, u64),
    /// What could not be read: a line for each file, with path, the first place in it, and how many more there are; and one
    /// for what stands within packets.
    pub damage: Vec<String>,
    /// False when the progress callback ended it early.
    pub complete: bool,
}

#[cfg(test)]
mod tests;
