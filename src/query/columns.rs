//! Scheduling history in columns: what the fold found, 32 bytes a thread-state row, in time order.
//!
//! The row number the fold gives an interval when it opens is the row's place,
//! so nothing is ever sorted. A running interval is one row: `sched` is a list of row numbers into
//! `thread_state`. Decides nothing about states: it keeps what `sched::fold` says.

use std::sync::OnceLock;

use super::column::Column;
use super::facts::Facts;
use super::postings::Postings;
use crate::names::{NameId, NameTable};
use crate::sched::event::{Event, ThreadNow, Tid};
use crate::sched::fold::{Interval, Utid};
use crate::sched::state::TaskState;
use crate::sched::summary::Window;

/// "No such row, thread or name" in a 32-bit column.
pub const NONE: u32 = u32::MAX;
/// Duration of what had not ended when the data did, as in Perfetto.
pub const UNFINISHED: i64 = -1;

const NO_CPU: u16 = u16::MAX;
const NO_STATE: u16 = u16::MAX;
const NO_PRIO: i16 = i16::MIN;

/// What a row of `thread_state` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No interval was delivered for this row number.
    Absent,
    /// On a CPU.
    Running,
    /// Ready after a wake-up.
    Runnable,
    /// Ready since it was pushed off.
    Preempted,
    /// Not ready.
    Blocked,
    /// Nothing known.
    Unknown,
}

/// Bits of [`States::flags`].
const END_UNKNOWN: u8 = 1;
const IO_KNOWN: u8 = 2;
const IO_WAIT: u8 = 4;
const IRQ_KNOWN: u8 = 8;
const IRQ: u8 = 16;

/// All intervals of all threads, in opening order. `a` and `b` mean what [`Kind`] makes of them.
#[derive(Debug)]
pub struct States {
    ts: Column<u64>,
    dur: Column<i64>,
    utid: Column<u32>,
    cpu: Column<u16>,
    kind: Column<Kind>,
    flags: Column<u8>,
    /// Running: its number in `sched`. Runnable: waker. Preempted: preemptor. Blocked: function name.
    a: Column<u32>,
    /// Running: priority (high half) and end state (low half). Runnable: the waker's row. Preempted and blocked: the
    /// state it left the CPU in.
    b: Column<u32>,
}

impl Default for States {
    fn default() -> Self {
        States {
            ts: Column::new(0),
            dur: Column::new(UNFINISHED),
            utid: Column::new(NONE),
            cpu: Column::new(NO_CPU),
            kind: Column::new(Kind::Absent),
            flags: Column::new(0),
            a: Column::new(NONE),
            b: Column::new(NONE),
        }
    }
}

impl States {
    /// Number of rows.
    pub fn len(&self) -> u32 {
        self.ts.len() as u32
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Begin, ns on CLOCK_BOOTTIME.
    #[inline]
    pub fn ts(&self, row: u32) -> u64 {
        self.ts.get(row)
    }

    /// Length in ns, [`UNFINISHED`] for what had not ended.
    #[inline]
    pub fn dur(&self, row: u32) -> i64 {
        self.dur.get(row)
    }

    /// Whose.
    #[inline]
    pub fn utid(&self, row: u32) -> Utid {
        self.utid.get(row)
    }

    /// What it is.
    #[inline]
    pub fn kind(&self, row: u32) -> Kind {
        self.kind.get(row)
    }

    /// Running: on this CPU; ready: target or where it was pushed off; blocked: where it blocked.
    #[inline]
    pub fn cpu(&self, row: u32) -> Option<u32> {
        let cpu = self.cpu.get(row);
        (cpu != NO_CPU).then_some(u32::from(cpu))
    }

    /// False when a loss cut it: its length is then only what is known.
    pub fn end_known(&self, row: u32) -> bool {
        self.flags.get(row) & END_UNKNOWN == 0
    }

    /// Running: its number among the running rows (`sched.id`).
    pub fn slice(&self, row: u32) -> Option<u32> {
        self.when(row, Kind::Running, self.a.get(row))
    }

    /// Running: in which state it left.
    #[inline]
    pub fn end_state(&self, row: u32) -> Option<TaskState> {
        let state = self.b.get(row) as u16;
        (state != NO_STATE).then_some(TaskState(state))
    }

    /// Running: its kernel priority.
    pub fn prio(&self, row: u32) -> Option<i32> {
        let prio = (self.b.get(row) >> 16) as u16 as i16;
        (prio != NO_PRIO).then_some(i32::from(prio))
    }

    /// Runnable: who woke it.
    pub fn waker(&self, row: u32) -> Option<Utid> {
        self.when(row, Kind::Runnable, self.a.get(row))
    }

    /// Runnable: the row its waker was running in.
    pub fn waker_row(&self, row: u32) -> Option<u32> {
        self.when(row, Kind::Runnable, self.b.get(row))
    }

    /// Preempted: who came in its place.
    pub fn preemptor(&self, row: u32) -> Option<Utid> {
        self.when(row, Kind::Preempted, self.a.get(row))
    }

    /// Blocked or preempted: in which state it left the CPU.
    #[inline]
    pub fn left(&self, row: u32) -> Option<TaskState> {
        matches!(self.kind.get(row), Kind::Blocked | Kind::Preempted).then(|| TaskState(self.b.get(row) as u16))
    }

    /// Blocked: in which function (EMPTY if not known).
    pub fn function(&self, row: u32) -> NameId {
        self.when(row, Kind::Blocked, self.a.get(row)).map_or(NameId::EMPTY, NameId)
    }

    /// Blocked: whether the kernel counted it as waiting for I/O.
    pub fn io_wait(&self, row: u32) -> Option<bool> {
        let flags = self.flags.get(row);
        (flags & IO_KNOWN != 0).then_some(flags & IO_WAIT != 0)
    }

    /// Runnable: whether it was woken from an interrupt.
    pub fn from_interrupt(&self, row: u32) -> Option<bool> {
        let flags = self.flags.get(row);
        (flags & IRQ_KNOWN != 0).then_some(flags & IRQ != 0)
    }

    #[inline]
    fn when(&self, row: u32, kind: Kind, value: u32) -> Option<u32> {
        (self.kind.get(row) == kind && value != NONE).then_some(value)
    }

    /// First row that begins at `ts` or later.
    pub fn first_at(&self, ts: u64) -> u32 {
        self.ts.lower_bound(ts)
    }

    pub(super) fn put(&mut self, i: &Interval) {
        let row = i.row;
        self.ts.set(row, i.start);
        self.dur.set(row, i.end.map_or(UNFINISHED, |end| end.saturating_sub(i.start) as i64));
        self.utid.set(row, i.utid);
        self.cpu.set(row, i.cpu.and_then(|c| u16::try_from(c).ok()).unwrap_or(NO_CPU));
        let mut flags = if i.end_known { 0 } else { END_UNKNOWN };
        flags |= i.io_wait.map_or(0, |io| IO_KNOWN | if io { IO_WAIT } else { 0 });
        flags |= i.from_interrupt.map_or(0, |irq| IRQ_KNOWN | if irq { IRQ } else { 0 });
        self.flags.set(row, flags);
        let (kind, a, b) = match i.state {
            ThreadNow::Running => {
                let prio = i.prio.and_then(|p| i16::try_from(p).ok()).unwrap_or(NO_PRIO) as u16;
                let end = i.end_state.map_or(NO_STATE, |s| s.0);
                (Kind::Running, i.slice.unwrap_or(NONE), u32::from(prio) << 16 | u32::from(end))
            }
            ThreadNow::Runnable => {
                let (waker, row) = i.waker.map_or((NONE, NONE), |(utid, row)| (utid, row.unwrap_or(NONE)));
                (Kind::Runnable, waker, row)
            }
            ThreadNow::Preempted => (Kind::Preempted, i.preemptor.unwrap_or(NONE), u32::from(i.left.0)),
            ThreadNow::Blocked(state) => {
                (Kind::Blocked, if i.function.is_empty() { NONE } else { i.function.0 }, u32::from(state.0))
            }
            ThreadNow::Unknown => (Kind::Unknown, NONE, NONE),
        };
        self.kind.set(row, kind);
        self.a.set(row, a);
        self.b.set(row, b);
    }

    /// A reason that was told after its interval was handed over.
    pub(super) fn set_reason(&mut self, row: u32, io_wait: bool, function: NameId) {
        if self.kind.get(row) == Kind::Blocked {
            let flags = self.flags.get(row) & !IO_WAIT;
            self.flags.set(row, flags | IO_KNOWN | if io_wait { IO_WAIT } else { 0 });
            self.a.set(row, if function.is_empty() { NONE } else { function.0 });
        }
    }

    /// Puts the few rows that begin before their predecessors (those of a state block) into place, and gives rows
    /// that were never delivered the time of the row before: from here on time never falls. True if rows moved.
    pub(super) fn settle(&mut self) -> bool {
        let (mut highest, mut disordered) = (0, 0);
        for row in 0..self.len() {
            if self.kind.get(row) == Kind::Absent {
                self.ts.set(row, highest);
            }
            let ts = self.ts.get(row);
            if ts < highest {
                disordered = row + 1;
            }
            highest = highest.max(ts);
        }
        let mut moved: Vec<(u32, u32)> = Vec::new();
        for (from, to) in self.disordered(disordered) {
            let mut order: Vec<u32> = (from..to).collect();
            order.sort_by_key(|row| self.ts.get(*row));
            moved.extend(order.iter().zip(from..to).map(|(old, new)| (*old, new)));
            self.permute(&order, from);
        }
        if moved.is_empty() {
            return false;
        }
        moved.sort_unstable();
        for row in 0..self.len() {
            let waker = self.b.get(row);
            if self.kind.get(row) == Kind::Runnable
                && let Ok(n) = moved.binary_search_by_key(&waker, |m| m.0)
            {
                self.b.set(row, moved[n].1);
            }
        }
        true
    }

    /// The stretches of rows before `end` that sorting would change, apart from each other.
    fn disordered(&self, end: u32) -> Vec<(u32, u32)> {
        let mut highest: Vec<u64> = Vec::with_capacity(end as usize);
        let mut out: Vec<(u32, u32)> = Vec::new();
        for row in 0..end {
            let (ts, so_far) = (self.ts.get(row), highest.last().copied().unwrap_or(0));
            highest.push(so_far.max(ts));
            if ts < so_far {
                // It belongs before the first row that begins later.
                let mut from = highest.partition_point(|h| *h <= ts) as u32;
                while let Some(last) = out.pop_if(|last| from < last.1) {
                    from = from.min(last.0);
                }
                out.push((from, row + 1));
            }
        }
        out
    }

    /// Rows `order[0]`, `order[1]`, … go to `from`, `from + 1`, ….
    fn permute(&mut self, order: &[u32], from: u32) {
        fn column<T: Copy>(column: &mut Column<T>, order: &[u32], from: u32) {
            let values: Vec<T> = order.iter().map(|row| column.get(*row)).collect();
            for (row, value) in (from..).zip(values) {
                column.set(row, value);
            }
        }
        column(&mut self.ts, order, from);
        column(&mut self.dur, order, from);
        column(&mut self.utid, order, from);
        column(&mut self.cpu, order, from);
        column(&mut self.kind, order, from);
        column(&mut self.flags, order, from);
        column(&mut self.a, order, from);
        column(&mut self.b, order, from);
    }

    /// The running rows in row order, numbering them anew.
    pub(super) fn renumber_slices(&mut self, sched: &mut SchedRows) {
        let mut next = 0;
        let mut rows = Column::new(NONE);
        for row in 0..self.len() {
            if self.kind.get(row) == Kind::Running && self.a.get(row) != NONE {
                self.a.set(row, next);
                rows.push(row);
                next += 1;
            }
        }
        *sched = SchedRows(rows);
    }

    fn bytes(&self) -> usize {
        self.ts.bytes()
            + self.dur.bytes()
            + self.utid.bytes()
            + self.cpu.bytes()
            + self.kind.bytes()
            + self.flags.bytes()
            + self.a.bytes()
            + self.b.bytes()
    }
}

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
    /// The time asked for: rows that lie outside of it altogether are not shown.
    pub asked: Option<Window>,
    index: Index,
}

/// Row numbers of the running intervals.
#[derive(Debug)]
pub struct SchedRows(Column<u32>);

impl Default for SchedRows {
    fn default() -> Self {
        SchedRows(Column::new(NONE))
    }
}

impl SchedRows {
    /// Number of slices.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// True without slices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says which row slice `id` is.
    pub(super) fn set(&mut self, id: u32, row: u32) {
        self.0.set(id, row);
    }

    /// The row of slice `id`.
    #[inline]
    pub fn row(&self, id: u32) -> u32 {
        self.0.get(id)
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

    /// Length of a row cut to `window` (an unfinished one lasts to the end of the data): never negative (case 96).
    pub fn clamped(&self, row: u32, window: Window) -> u64 {
        let start = self.states.ts(row).max(window.from);
        let end = match self.states.dur(row) {
            UNFINISHED => self.end(),
            dur => self.states.ts(row).saturating_add(dur as u64),
        };
        end.min(window.to).saturating_sub(start)
    }

    /// Bytes held by the per-event columns.
    pub fn bytes(&self) -> usize {
        self.states.bytes() + self.sched.0.bytes() + self.events.capacity() * size_of::<(Event, Option<Utid>)>()
    }
}
