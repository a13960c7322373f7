//! Scheduling history in columns, in time order, and lists of rows by thread, process, CPU and track.
//!
//! `sched` is a list of row numbers into the thread states (or those are nothing but slices, for who asks for no more). Lists are built on first use; nothing is ever sorted.

use std::sync::OnceLock;

use super::column::Column;
use super::facts::Facts;
use super::postings::Postings;
use super::reach::Reach;
pub use super::states::{Kind, States};
use crate::names::{NameId, NameTable};
use crate::sched::event::{Event, Tid};
use crate::sched::fold::Utid;
use crate::sched::summary::Window;

/// "No such row, thread or name" in a 32-bit column.
pub const NONE: u32 = u32::MAX;
/// Duration of what had not ended when the data did, as in Perfetto.
pub const UNFINISHED: i64 = -1;

/// What a track carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// Markers a thread wrote.
    Thread(Utid),
    /// Asynchronous markers of a process (kernel pid), by track or marker name.
    Process(Tid, NameId),
    /// Interrupts of a CPU; `soft` for softirqs.
    Irq {
        /// The CPU.
        cpu: u32,
        /// Softirqs.
        soft: bool,
    },
    /// A counter of a process (kernel pid).
    ProcessCounter(Tid, NameId),
    /// A counter of a CPU.
    CpuCounter(u32, NameId),
    /// A counter of the host.
    Counter(NameId),
}

/// Marker and interrupt slices, in opening order.
#[derive(Debug)]
pub struct Slices {
    /// Begin, ns on CLOCK_BOOTTIME.
    pub ts: Column<u64>,
    /// Length in ns, [`UNFINISHED`] for what had not ended.
    pub dur: Column<i64>,
    /// Which track.
    pub track: Column<u32>,
    /// Name.
    pub name: Column<NameId>,
    /// 0 for the outermost.
    pub depth: Column<u16>,
    /// The row it lies in, [`NONE`] for the outermost.
    pub parent: Column<u32>,
}

impl Default for Slices {
    fn default() -> Self {
        Slices {
            ts: Column::new(0),
            dur: Column::new(UNFINISHED),
            track: Column::new(NONE),
            name: Column::new(NameId::EMPTY),
            depth: Column::new(0),
            parent: Column::new(NONE),
        }
    }
}

/// Counter samples, in time order.
#[derive(Debug)]
pub struct Counters {
    /// When, ns on CLOCK_BOOTTIME.
    pub ts: Column<u64>,
    /// Which track.
    pub track: Column<u32>,
    /// Value.
    pub value: Column<f64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { ts: Column::new(0), track: Column::new(NONE), value: Column::new(0.0) }
    }
}

/// Everything loaded: read-only once [`Builder::finish`] has made it.
#[derive(Debug, Default)]
pub struct Columns {
    /// Names that rows refer to.
    pub names: NameTable,
    /// `thread_state` (and `sched`, and `wait`).
    pub states: States,
    /// `sched`: the rows of `states` that are running, by slice number.
    pub sched: SchedRows,
    /// Tracks by number.
    pub tracks: Vec<Track>,
    /// `slice`: markers and interrupts.
    pub slices: Slices,
    /// `counter`.
    pub counters: Counters,
    /// `ftrace_event`: raw events with the thread that emitted them, kept only when asked for.
    pub events: Vec<(Event, Option<Utid>)>,
    /// The small tables.
    pub facts: Facts,
    /// Time covered, ns on CLOCK_BOOTTIME; `None` without any data.
    pub window: Option<Window>,
    /// CPUs that ran anything.
    pub cpus_seen: Vec<bool>,
    /// The time asked for: rows that lie outside of it altogether are not shown.
    pub asked: Option<Window>,
    /// In a rehearsal: what plans ask for.
    pub(super) rehearsed: Option<Reach>,
    index: Index,
}

/// Row numbers of the running intervals.
#[derive(Debug)]
pub enum SchedRows {
    /// By slice number.
    Listed(Column<u32>),
    /// The rows are the slices: nothing else was kept.
    Same(u32),
}

impl Default for SchedRows {
    fn default() -> Self {
        SchedRows::Listed(Column::new(NONE))
    }
}

impl SchedRows {
    /// Number of slices.
    pub fn len(&self) -> u32 {
        match self {
            SchedRows::Listed(rows) => rows.len() as u32,
            SchedRows::Same(len) => *len,
        }
    }

    /// True without slices.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says which row slice `id` is.
    #[inline]
    pub(super) fn set(&mut self, id: u32, row: u32) {
        match self {
            SchedRows::Listed(rows) => rows.set(id, row),
            SchedRows::Same(len) => *len = (*len).max(id + 1),
        }
    }

    /// The row of slice `id`.
    #[inline]
    pub fn row(&self, id: u32) -> u32 {
        match self {
            SchedRows::Listed(rows) => rows.get(id),
            SchedRows::Same(_) => id,
        }
    }

    /// All rows are there. If some slice was never delivered, the others are listed.
    pub(super) fn settle(&mut self, states: &States) {
        let SchedRows::Same(len) = *self else { return };
        if (0..len).any(|row| states.kind(row) != Kind::Running) {
            let mut rows = Column::new(NONE);
            for row in 0..len {
                rows.set(row, if states.kind(row) == Kind::Running { row } else { NONE });
            }
            *self = SchedRows::Listed(rows);
        }
    }

    fn bytes(&self) -> usize {
        match self {
            SchedRows::Listed(rows) => rows.bytes(),
            SchedRows::Same(_) => 0,
        }
    }
}

/// Posting lists, built on first use.
#[derive(Debug, Default)]
struct Index {
    sched_utid: OnceLock<Postings>,
    sched_upid: OnceLock<Postings>,
    sched_cpu: OnceLock<Postings>,
    state_utid: OnceLock<Postings>,
    slice_track: OnceLock<Postings>,
    counter_track: OnceLock<Postings>,
    thread_upid: OnceLock<Postings>,
}

impl Columns {
    /// Slices of `sched` by utid.
    pub fn sched_by_utid(&self) -> &Postings {
        self.index.sched_utid.get_or_init(|| {
            Postings::build(self.sched.len(), |id| Some(self.states.utid(self.sched.row(id))).filter(|u| *u != NONE))
        })
    }

    /// Slices of `sched` by upid.
    pub fn sched_by_upid(&self) -> &Postings {
        self.index
            .sched_upid
            .get_or_init(|| Postings::build(self.sched.len(), |id| self.upid(self.states.utid(self.sched.row(id)))))
    }

    /// Slices of `sched` by CPU.
    pub fn sched_by_cpu(&self) -> &Postings {
        self.index.sched_cpu.get_or_init(|| Postings::build(self.sched.len(), |id| self.states.cpu(self.sched.row(id))))
    }

    /// Rows of `thread_state` by utid.
    pub fn states_by_utid(&self) -> &Postings {
        self.index.state_utid.get_or_init(|| {
            Postings::build(self.states.len(), |row| Some(self.states.utid(row)).filter(|u| *u != NONE))
        })
    }

    /// Rows of `slice` by track.
    pub fn slices_by_track(&self) -> &Postings {
        self.index
            .slice_track
            .get_or_init(|| Postings::build(self.slices.ts.len() as u32, |row| Some(self.slices.track.get(row))))
    }

    /// Rows of `counter` by track.
    pub fn counters_by_track(&self) -> &Postings {
        self.index
            .counter_track
            .get_or_init(|| Postings::build(self.counters.ts.len() as u32, |row| Some(self.counters.track.get(row))))
    }

    /// Threads by process.
    pub fn threads_by_upid(&self) -> &Postings {
        self.index.thread_upid.get_or_init(|| {
            Postings::build(self.facts.threads.len() as u32, |utid| self.facts.threads[utid as usize].upid)
        })
    }

    /// The process of a thread, if known.
    #[inline]
    pub fn upid(&self, utid: Utid) -> Option<u32> {
        self.facts.threads.get(utid as usize)?.upid
    }

    /// The row that follows `row` on the same thread.
    pub fn next_of_thread(&self, row: u32) -> Option<u32> {
        let rows = self.states_by_utid().of(self.states.utid(row));
        rows.get(rows.partition_point(|r| *r <= row)).copied()
    }

    /// Whether what begins at `ts` and lasts `dur` ([`UNFINISHED`]: to the end) touches the time asked for.
    #[inline]
    pub fn is_asked(&self, ts: u64, dur: i64) -> bool {
        self.asked.is_none_or(|w| ts < w.to && (ts >= w.from || dur < 0 || ts.saturating_add(dur as u64) > w.from))
    }

    /// The same of a row of `states`, which is only looked at if a time was asked for.
    #[inline]
    pub fn row_is_asked(&self, row: u32) -> bool {
        self.asked.is_none() || self.is_asked(self.states.ts(row), self.states.dur(row))
    }

    /// Narrows what is shown to `window`.
    pub fn ask(&mut self, window: Window) {
        self.asked = Some(window);
        self.window = self.window.map(|w| {
            let from = w.from.max(window.from);
            Window { from, to: w.to.min(window.to).max(from) }
        });
    }

    /// End of the loaded time, ns on CLOCK_BOOTTIME.
    pub fn end(&self) -> u64 {
        self.window.map_or(0, |w| w.to)
    }

    /// Length of a row cut to `window` (an unfinished one lasts to the end of the thread's life, or of the data): never
    /// negative (case 96).
    pub fn clamped(&self, row: u32, window: Window) -> u64 {
        let start = self.states.ts(row).max(window.from);
        let end = match self.states.dur(row) {
            UNFINISHED => self.life_end(row).unwrap_or(self.end()),
            dur => self.states.ts(row).saturating_add(dur as u64),
        };
        end.min(window.to).saturating_sub(start)
    }

    fn life_end(&self, row: u32) -> Option<u64> {
        self.facts.threads.get(self.states.utid(row) as usize)?.end
    }

    /// How much of `window` a thread lived, as far as the data says, ns.
    pub fn lived(&self, utid: Utid, window: Window) -> u64 {
        let life = self.facts.threads.get(utid as usize);
        let (start, end) = (life.and_then(|l| l.start), life.and_then(|l| l.end));
        window.overlap(start.unwrap_or(0), end.unwrap_or(u64::MAX))
    }

    /// Bytes held by the per-event columns.
    pub fn bytes(&self) -> usize {
        self.states.bytes() + self.sched.bytes() + self.events.capacity() * size_of::<(Event, Option<Utid>)>()
    }
}
