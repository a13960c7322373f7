//! Other tools' formats: Perfetto, ftrace text, Chrome's JSON, CTF.
//!
//! An [`Exporter`] stands at the end of the feed: it folds what comes in time order and hands it on to a
//! [`Target`] as soon as all its names are known, so that memory does not grow with the trace. Every format says
//! where events are missing and how many, or that their number is not known; each module's page says how.

pub mod ctf;
pub mod json;
pub mod perfetto;
pub mod text;

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use crate::names::NameTable;
use crate::sched::event::{ClockSnapshot, Event, EventKind, Item, Loss, SystemFact};
use crate::sched::fold::{Consumer, Folder, Interval, Sink, Utid};
use crate::sched::summary::Window;
use crate::sched::threads::Threads;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// The input cannot be read.
    #[error(transparent)]
    Read(#[from] crate::store::StoreError),
    /// A trace of another recorder cannot be read to its end; what stands before was written.
    #[error("{}: {why}", crate::names::printable(path.as_os_str().as_encoded_bytes()))]
    Torn {
        /// The file.
        path: std::path::PathBuf,
        /// Where and why.
        why: String,
    },
}

/// One thing to write, in time order (intervals in the order in which they end).
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An event and the life that wrote it, if known.
    Event(Event, Option<Utid>),
    /// A stretch of a thread in one state.
    Interval(Interval),
    /// Events are missing on a CPU.
    Loss(Loss),
    /// Nothing was recorded.
    Gap(Window),
    /// Clocks.
    Clock(ClockSnapshot),
    /// The host.
    System(SystemFact),
    /// A counter sample: when, name, CPU, value.
    Counter(u64, crate::names::NameId, Option<u32>, f64),
}

/// Writes one format.
pub trait Target {
    /// Takes entries whose names are all in `names`.
    fn write(&mut self, entries: &[Entry], threads: &Threads, names: &NameTable) -> io::Result<()>;
    /// The data ended.
    fn finish(&mut self, threads: &Threads, names: &NameTable) -> io::Result<()>;
}

/// Folds the feed's items for a [`Target`].
pub struct Exporter<T> {
    folder: Folder,
    waiting: Waiting,
    target: T,
    failed: Option<io::Error>,
    gave_up: Rc<Cell<bool>>,
}

/// Entries that wait for their names.
#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<Entry>,
    window: Option<Window>,
}

impl Waiting {
    fn touches(&self, from: u64, to: u64) -> bool {
        self.window.is_none_or(|w| from < w.to && to >= w.from)
    }

    fn push(&mut self, from: u64, to: u64, entry: Entry) {
        if self.touches(from, to) {
            self.entries.push(entry);
        }
    }
}

impl Sink for Waiting {
    fn interval(&mut self, i: &Interval) {
        self.push(i.start, i.end.unwrap_or(u64::MAX), Entry::Interval(*i));
    }

    fn event(&mut self, event: &Event, emitter: Option<Utid>) {
        self.push(event.ts, event.ts, Entry::Event(*event, emitter));
    }

    fn fact(&mut self, item: &Item) {
        match item {
            Item::Loss(loss) => self.push(loss.from, loss.to.max(loss.from), Entry::Loss(*loss)),
            Item::Gap { from, to } => self.push(*from, *to, Entry::Gap(Window { from: *from, to: *to })),
            Item::Clock(clock) => self.entries.push(Entry::Clock(*clock)),
            Item::System(system) => self.entries.push(Entry::System(system.clone())),
            Item::Counter { ts, name, cpu, value } => self.push(*ts, *ts, Entry::Counter(*ts, *name, *cpu, *value)),
            _ => {}
        }
    }
}

impl<T: Target> Exporter<T> {
    /// Hands what touches `window` (all, if `None`) to `target`.
    pub fn new(target: T, window: Option<Window>) -> Self {
        let waiting = Waiting { entries: Vec::new(), window };
        Exporter { folder: Folder::new(), waiting, target, failed: None, gave_up: Rc::default() }
    }

    /// Writes the rest, once the feed is through.
    ///
    /// # Errors
    /// The first failure to write, also if it happened on the way.
    pub fn finish(mut self, names: &NameTable) -> Result<T, ExportError> {
        self.checkpoint(names);
        match self.failed {
            Some(e) => Err(e.into()),
            None => {
                self.target.finish(self.folder.threads(), names)?;
                Ok(self.target)
            }
        }
    }

    /// Becomes true once nothing more can be written: the load may stop.
    pub fn gave_up(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.gave_up)
    }
}

impl<T> Exporter<T> {
    /// Compact switches leave out who left and at which priority: it is who was put on that CPU before.
    fn completed(&self, event: &Event) -> Event {
        let mut event = *event;
        if let EventKind::Switch(switch) = &mut event.kind
            && let Some((utid, _, prio)) = self.folder.running(event.cpu)
            && let Some(thread) = self.folder.threads().get(utid)
            && switch.prev_tid.is_none_or(|tid| tid == thread.tid)
        {
            switch.prev_tid = Some(thread.tid);
            switch.prev_prio = switch.prev_prio.or(prio);
        }
        event
    }
}

impl<T: Target> Consumer for Exporter<T> {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.folder.push(&Item::Event(self.completed(event)), &mut self.waiting),
            other => self.folder.push(other, &mut self.waiting),
        }
    }

    fn checkpoint(&mut self, names: &NameTable) {
        if self.failed.is_none() {
            self.failed = self.target.write(&self.waiting.entries, self.folder.threads(), names).err();
            self.gave_up.set(self.failed.is_some());
        }
        self.waiting.entries.clear();
    }

    fn end(&mut self) {
        self.folder.finish(&mut self.waiting);
    }
}
