//! What the screens ask and what they are told: the words between the interface thread and the worker, which owns the model.
//! What the keeper does is in [`super::deeds`].
//!
//! Plain data only. Times are ns on CLOCK_BOOTTIME unless a name says otherwise; texts are already safe to draw.

use super::deeds::MarkRow;
use super::labels::NewLabels;
use crate::names::NameId;
use crate::sched::fold::Utid;
pub use crate::sched::model::SearchFor;
use crate::sched::summary::{
    CpuDetail, Link, Overview, Span, SpanDetail, ThreadDetail, ThreadRow, TrackId, WaitedOn, Window,
};
use crate::time::ClockMap;
use crate::tui::widgets::states::Kind;
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

/// How many threads there are, and how many of them are now in each of the states that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crowd {
    /// All, but idle.
    pub threads: usize,
    /// On a CPU.
    pub running: usize,
    /// Woken, and waiting for a CPU.
    pub ready: usize,
    /// Pushed off a CPU.
    pub pushed_off: usize,
    /// In D.
    pub blocked: usize,
}

impl Crowd {
    /// Of rows that are a thread each.
    pub fn of(rows: &[ThreadRow]) -> Crowd {
        let mut crowd = Crowd::default();
        for row in rows.iter().filter(|row| row.utid != 0) {
            crowd.threads += 1;
            match Kind::of(row.now) {
                Kind::Running => crowd.running += 1,
                Kind::Ready => crowd.ready += 1,
                Kind::PushedOff => crowd.pushed_off += 1,
                Kind::Blocked => crowd.blocked += 1,
                Kind::Sleeping | Kind::Other | Kind::Unknown | Kind::Absent => {}
            }
        }
        crowd
    }
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each answers the question of its name")]
pub enum Reply {
    /// However the rows are put together, the crowd is of threads.
    Overview(Box<Overview>, Crowd),
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

/// What a growing segment amounts to so far, in a footer's words; its row has none of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GrowingFigures {
    /// CPU occupancy.
    pub busy: Option<f32>,
    /// Most threads ready at once.
    pub ready: Option<u32>,
    /// Worst wait and whose.
    pub worst: Option<(u64, Box<str>)>,
    /// The foremost of its marks, as its footer will have them.
    pub marks: Vec<MarkRow>,
    /// How many there are, with those that end or count something.
    pub marked: u64,
}
