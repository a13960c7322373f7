//! What the screens ask and what they are told: the words between the interface thread and its helpers.
//!
//! Plain data only. The worker (which owns the model) answers [`Ask`]s; the keeper (which talks to the store and to
//! the recorder) does [`Deed`]s. Times are ns on CLOCK_BOOTTIME unless a name says otherwise; texts are already safe to draw.

use super::labels::NewLabels;
use crate::names::NameId;
use crate::sched::fold::Utid;
pub use crate::sched::model::SearchFor;
use crate::sched::summary::{CpuDetail, Link, Overview, Span, SpanDetail, ThreadDetail, TrackId, WaitedOn, Window};
use crate::time::ClockMap;
use std::sync::Arc;

/// By what threads are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Grouping {
    /// Not at all.
    #[default]
    Thread,
    /// By process.
    Process,
    /// By cgroup.
    Cgroup,
    /// By role: name patterns of the configuration.
    Role,
}

impl Grouping {
    /// Its word on screen.
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Thread => "thread",
            Grouping::Process => "process",
            Grouping::Cgroup => "cgroup",
            Grouping::Role => "role",
        }
    }

    /// The one after it.
    pub fn next(self) -> Grouping {
        match self {
            Grouping::Thread => Grouping::Process,
            Grouping::Process => Grouping::Cgroup,
            Grouping::Cgroup => Grouping::Role,
            Grouping::Role => Grouping::Thread,
        }
    }
}

/// Which window a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The last so many ns of what there is.
    Latest(u64),
    /// This one.
    At(Window),
}

/// How many tracks, and of which the spans are wanted too, by their place in the order: those on view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Tracks at most.
    pub limit: u16,
    /// First with spans.
    pub from: u16,
    /// Behind the last with spans.
    pub to: u16,
}

/// Which tracks the time line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracks {
    /// CPUs and the threads that did most.
    Busiest,
    /// CPUs, this thread first, its process's others and those it dealt with.
    Around(Utid),
}

/// A question to the worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// The first screen.
    Overview {
        /// Window.
        when: When,
        /// Cells of a CPU lane.
        cells: u16,
        /// How rows are put together.
        group: Grouping,
    },
    /// What a segment that still grows amounts to so far.
    Growing {
        /// Its begin, ns on CLOCK_BOOTTIME.
        from: u64,
    },
    /// One thread.
    Thread {
        /// Which.
        utid: Utid,
        /// Window.
        when: When,
        /// Cells of its state bar.
        cells: u16,
    },
    /// One CPU.
    Cpu {
        /// Which.
        cpu: u32,
        /// Window.
        when: When,
        /// Cells of its lane.
        cells: u16,
    },
    /// Tracks of the time line.
    Timeline {
        /// Window.
        when: When,
        /// Columns of a track.
        columns: u16,
        /// Which tracks.
        tracks: Tracks,
        /// How many.
        page: Page,
    },
    /// The slice or wait of a track at an instant, with all about it.
    Slice {
        /// Track.
        track: TrackId,
        /// Any instant in it.
        at: u64,
        /// Step to the next (1) or the one before (-1) instead.
        step: i8,
    },
    /// The worst wait of a thread in a window: answered as a slice.
    WorstWait {
        /// Who waited.
        utid: Utid,
        /// Where to look.
        within: Window,
    },
    /// Next hit of a search: answered as a slice.
    Search {
        /// From here.
        from: u64,
        /// To later times.
        forward: bool,
        /// What.
        what: SearchFor,
    },
    /// The wait chain of a thread's wait.
    Chain {
        /// Who waited.
        utid: Utid,
        /// An instant in the wait.
        at: u64,
        /// The range to rank over.
        within: Window,
    },
    /// The raw events of a stretch.
    Events {
        /// Which.
        within: Window,
    },
    /// A ready query.
    Query {
        /// Its name in the library.
        name: &'static str,
        /// Of which time.
        within: Window,
    },
    /// The same thread metrics over two windows.
    Compare {
        /// Usually the bad one.
        a: Window,
        /// The other.
        b: Window,
    },
}

/// A question with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Number, rising.
    pub id: u64,
    /// Whose thread numbers it speaks of (`Labels::generation`).
    pub generation: u64,
    /// What.
    pub ask: Ask,
}

/// One track with what is on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Which.
    pub id: TrackId,
    /// In time order; `None`: not asked for.
    pub spans: Option<Vec<Span>>,
}

/// The time line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimelineView {
    /// Window of all tracks.
    pub window: Option<Window>,
    /// First instant at which all CPUs are covered; before it everything is greyed.
    pub valid_from: u64,
    /// CPUs first.
    pub tracks: Vec<Track>,
    /// Marks, in time order.
    pub marks: Vec<(u64, Box<str>)>,
    /// Stretches not recorded.
    pub gaps: Vec<Window>,
    /// Stretches with loss, by CPU.
    pub losses: Vec<(u32, Window)>,
}

/// A slice or wait with all about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// On which track it was picked.
    pub track: TrackId,
    /// What the model knows.
    pub detail: SpanDetail,
    /// Cgroup path.
    pub cgroup: NameId,
    /// Functions of the kernel stack it blocked with, innermost first; none when not recorded.
    pub stack: Vec<Box<str>>,
}

/// A raw event: when, on which CPU, and what, in the words of the trace.
pub type RawEvent = (u64, u32, Box<str>);

/// One row of a comparison; shares 0..=1, durations ns, `None` where the thread was not there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompareRow {
    /// Who.
    pub label: Box<str>,
    /// Share of the window it ran: A, B.
    pub run: [Option<f64>; 2],
    /// Share it was ready but not running.
    pub ready: [Option<f64>; 2],
    /// Share in D.
    pub blocked: [Option<f64>; 2],
    /// Run-queue latency p99.
    pub p99: [Option<u64>; 2],
    /// Longest.
    pub max: [Option<u64>; 2],
}

/// Rows of a query, made safe to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryView {
    /// Its name and title.
    pub title: String,
    /// Of which time.
    pub within: Window,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells of each row.
    pub rows: Vec<Vec<String>>,
    /// Columns that hold numbers alone.
    pub numeric: Vec<bool>,
    /// There are more rows.
    pub cut: bool,
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each answers the question of its name")]
pub enum Reply {
    Overview(Box<Overview>),
    /// `None`: the model does not reach back to its begin (yet).
    Growing(u64, Option<GrowingFigures>),
    Thread(Box<ThreadDetail>, Window),
    Cpu(Box<CpuDetail>),
    Timeline(Box<TimelineView>),
    /// `None`: there is no such slice (any more).
    Slice(Option<Box<Slice>>),
    /// A search hit that belongs to no thread: only when it was.
    Place(u64),
    /// The chain, and over the window on view what the thread spent its waiting on.
    Chain(Vec<Link>, Box<WaitedOn>),
    Compare(Window, Window, Vec<CompareRow>),
    Events(Vec<RawEvent>),
    Query(Arc<QueryView>),
    /// It could not be answered; in words.
    Failed(Box<str>),
}

/// An answer with what the screens need beside it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Number of the question.
    pub id: u64,
    /// What.
    pub reply: Reply,
    /// Words that are new.
    pub labels: NewLabels,
    /// What the source holds by now.
    pub extent: Window,
    /// Boot clock to wall clock.
    pub clocks: Arc<ClockMap>,
    /// What could not be read, a line each; safe to draw.
    pub notes: Arc<[Box<str>]>,
}

/// What the header says about recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecorderView {
    /// Host name.
    pub host: Box<str>,
    /// Kernel release.
    pub kernel: Box<str>,
    /// A recorder runs (in this process or another).
    pub recording: bool,
    /// It runs in this process.
    pub embedded: bool,
    /// What is open when looking back ("/var/lib/dashcam", "demo.pftrace.zst").
    pub place: Box<str>,
    /// ns into the open segment and its length.
    pub segment: Option<(u64, u64)>,
    /// Events per second.
    pub events_per_s: f64,
    /// Events lost since the recorder began, and whether there was loss of unknown size; `None`: no recorder says.
    pub lost: Option<(u64, bool)>,
    /// How far back the store will reach, ns.
    pub keeps: u64,
    /// Bytes on disk and the cap.
    pub bytes: (u64, u64),
    /// Share of one CPU the recorder uses.
    pub own_cpu: Option<f64>,
    /// ns since 1970 now.
    pub now_real: u64,
    /// `snapshot.last`, ns.
    pub snapshot_last: u64,
    /// procfs is sampled at this rate instead of events.
    pub sampled_hz: Option<u32>,
    /// What the operator must know, one line each.
    pub warnings: Vec<Box<str>>,
}

/// One column of the store's time line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StoreColumn {
    /// CPU occupancy 0..=1; `None`: not recorded.
    pub busy: Option<f32>,
    /// Most threads ready at once.
    pub ready: Option<u32>,
    /// Most threads in D at once.
    pub blocked: Option<u32>,
    /// Worst wait, ns.
    pub worst: Option<u64>,
    /// Events were lost.
    pub loss: bool,
    /// A mark was set.
    pub mark: bool,
    /// A snapshot covers it.
    pub snapshot: bool,
    /// Recorded, but not summed up yet: its segment still grows.
    pub pending: bool,
    /// Before the first segment or after the last: there is nothing that could have been recorded.
    pub outside: bool,
}

/// One segment of the list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SegmentRow {
    /// File.
    pub path: Box<str>,
    /// Begin, ns since 1970 UTC.
    pub from_real: u64,
    /// Length, ns.
    pub length: u64,
    /// Begin and end on the boot clock, when of this boot.
    pub window: Option<Window>,
    /// Size.
    pub bytes: u64,
    /// Events.
    pub events: u64,
    /// CPU occupancy.
    pub busy: Option<f32>,
    /// Most threads ready at once.
    pub ready: Option<u32>,
    /// Worst wait and whose.
    pub worst: Option<(u64, Box<str>)>,
    /// Events lost: `Some(None)` some, number unknown.
    pub lost: Option<Option<u64>>,
    /// Still growing.
    pub growing: bool,
    /// Label of a snapshot that covers it.
    pub snapshot: Option<Box<str>>,
}

/// What a growing segment amounts to so far, in a footer's words; its row has none of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GrowingFigures {
    /// CPU occupancy.
    pub busy: Option<f32>,
    /// Most threads ready at once.
    pub ready: Option<u32>,
    /// Worst wait and whose.
    pub worst: Option<(u64, Box<str>)>,
}

/// The store over hours, from footers alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreView {
    /// What the columns cover, ns since 1970 UTC.
    pub from_real: u64,
    /// End of the last column.
    pub to_real: u64,
    /// Oldest and newest instant of the whole store.
    pub all_real: (u64, u64),
    /// Columns, oldest first.
    pub columns: Vec<StoreColumn>,
    /// Worst wait in the range: ns, when (since 1970), whose.
    pub worst: Option<(u64, u64, Box<str>)>,
    /// Segments in the range, oldest first.
    pub segments: Vec<SegmentRow>,
    /// Bytes of all.
    pub bytes: u64,
    /// Stretches not recorded.
    pub gaps: u32,
}

/// One kept snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnapshotRow {
    /// File.
    pub path: Box<str>,
    /// Label.
    pub label: Box<str>,
    /// Why: key, signal, command, trigger and its value.
    pub reason: Box<str>,
    /// When it was taken, ns since 1970 UTC.
    pub taken_real: u64,
    /// Begin, ns since 1970 UTC.
    pub from_real: u64,
    /// Length, ns.
    pub length: u64,
    /// Size.
    pub bytes: u64,
    /// Events were lost in it.
    pub loss: bool,
    /// Stretches within it were not recorded.
    pub gaps: bool,
    /// It is shorter than asked for, and why; empty when it is not.
    pub shorter: Box<str>,
}

/// One mark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MarkRow {
    /// When, ns since 1970 UTC.
    pub at_real: u64,
    /// Text.
    pub text: Box<str>,
}

/// Something to be done outside the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Keep the last so many ns (`None`: the configured number).
    Snapshot {
        /// How many.
        last: Option<u64>,
        /// Label, maybe empty.
        label: String,
    },
    /// Keep a range.
    Keep {
        /// Boot clock.
        window: Window,
        /// Label, maybe empty.
        label: String,
    },
    /// Mark this moment.
    Mark(String),
    /// Look at the store: the range (since 1970; `None`: all) in so many columns.
    Store {
        /// Range.
        range: Option<(u64, u64)>,
        /// Columns.
        columns: u16,
    },
    /// List snapshots and marks.
    Kept,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is the outcome of the deed of its name")]
pub enum Done {
    /// The recorder's state, sent by itself about once a second.
    Recorder(Box<RecorderView>),
    /// Path of a snapshot.
    Snapshot(Box<str>),
    /// The text.
    Mark(Box<str>),
    Store(Box<StoreView>),
    Kept(Vec<SnapshotRow>, Vec<MarkRow>),
    /// In words.
    Failed(Box<str>),
}
