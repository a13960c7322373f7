//! Following a store whose recorder is running.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::load::{survey, watermark};
use super::pump::Pump;
use super::{Consumer, FeedError};
use crate::names::{NameTable, printable};
use crate::store::Store;
use crate::store::name::SegmentName;
use crate::store::tail::{TailReader, Tailed};
use crate::time::ClockMap;

/// How long one [`Tail::advance`] may work.
const TURN: Duration = Duration::from_millis(30);

/// Follows a store: what is on disk since some instant first, then whatever is added, across rotations.
pub struct Tail {
    reader: TailReader,
    pump: Pump,
    /// Frames before this instant only give facts.
    start: u64,
    skipped: bool,
    /// The file being read, for words.
    file: Option<PathBuf>,
    packets: Vec<u8>,
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("position", &self.reader.position()).field("start", &self.start).finish()
    }
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
    /// Begins `back_ns` before the newest instant on disk. A store that has no segment yet is waited for.
    pub fn open(store: &Path, back_ns: u64) -> Result<Tail, FeedError> {
        let opened = Store::open(store)?;
        let (start, first) = match survey(&[store.to_owned()]) {
            Ok(survey) => {
                let newest = survey.window.map_or(0, |w| w.to);
                let start = newest.saturating_sub(back_ns);
                let needed = survey.files.iter().find(|f| f.window.is_some_and(|w| w.to > start));
                let needed = needed.or(survey.files.last());
                let name = needed.and_then(|f| SegmentName::parse(f.path.file_name()?.to_str()?));
                (start, name.map_or(0, |n| n.sequence))
            }
            Err(FeedError::Nothing(_)) => (0, 0),
            Err(e) => return Err(e),
        };
        Ok(Tail {
            reader: TailReader::after(&opened, first.saturating_sub(1))?,
            pump: Pump::new(NameTable::new()),
            start,
            skipped: false,
            file: None,
            packets: Vec::new(),
        })
    }

    /// Reads on, for some tens of milliseconds at most; never waits.
    pub fn advance<C: Consumer>(&mut self, consumer: &mut C) -> Result<Advance, FeedError> {
        let (begin, before) = (Instant::now(), self.pump.events);
        let mut caught_up = false;
        while !caught_up && begin.elapsed() < TURN {
            match self.reader.poll(&mut self.packets)? {
                Tailed::Frame { .. } => self.take(consumer),
                Tailed::Idle => caught_up = true,
                Tailed::Damaged(damage) => {
                    self.pump.damage.note(self.file.as_deref(), damage.to_string());
                    self.pump.missing();
                }
                Tailed::Segment(_) => self.file = self.reader.position().map(|(path, _)| path.to_owned()),
                Tailed::Finished(_) => {}
            }
        }
        Ok(Advance { events: self.pump.events - before, through: self.pump.through, caught_up })
    }

    fn take<C: Consumer>(&mut self, consumer: &mut C) {
        // Once past the start every frame counts: no need to look at its watermark.
        let past = self.pump.through > 0 && !self.skipped;
        let needed = past
            || match watermark(&self.packets) {
                Some(through) => through > self.start,
                None => self.start == 0,
            };
        if !needed {
            self.skipped = true;
            self.pump.facts(&self.packets, consumer);
            return;
        }
        if std::mem::take(&mut self.skipped) {
            self.pump.reset_through();
        }
        self.pump.frame(&self.packets, consumer);
    }

    /// Owner of every `NameId` the consumer was given so far.
    pub fn names(&self) -> &NameTable {
        &self.pump.names
    }

    /// Boot clock ↔ wall clock, as far as read.
    pub fn clocks(&self) -> &ClockMap {
        &self.pump.clocks
    }

    /// Parts that could not be read so far, in words.
    pub fn damage(&self) -> Vec<String> {
        self.pump.unread()
    }

    /// The file being read and how far, in words; empty before the first.
    pub fn position(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let place = self.reader.position();
        place.map_or(String::new(), |(path, at)| format!("{} byte {at}", printable(path.as_os_str().as_bytes())))
    }
}
