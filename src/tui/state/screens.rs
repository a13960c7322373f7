//! What each screen remembers: its newest answer, what is selected, how far it is scrolled.

use crate::sched::fold::Utid;
use crate::sched::summary::{CpuDetail, Link, Overview, ThreadDetail, TrackId, WaitedOn, Window};
use crate::tui::answers::{
    CompareRow, Crowd, Grouping, GrowingFigures, QueryView, RawEvent, SearchFor, Slice, TimelineView, Tracks,
};
use crate::tui::cursor::Cursor;
use crate::tui::deeds::{KeptView, StoreView};
use crate::tui::prompt::Prompt;
use crate::tui::screens::columns::Column;
use std::sync::Arc;

/// A part of the overview that can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// Lanes or grid.
    Cpus,
    /// The findings.
    Findings,
    /// The table.
    Threads,
}

/// The overview.
#[derive(Debug, Clone)]
pub struct OverviewState {
    /// The newest answer.
    pub data: Option<Box<Overview>>,
    /// The threads behind its rows.
    pub crowd: Crowd,
    /// Indices into `data.threads`, filtered and sorted.
    pub order: Vec<u32>,
    /// Sorted by this.
    pub sort: Column,
    /// Largest first.
    pub descending: bool,
    /// Only what matches this.
    pub filter: String,
    /// How rows are put together.
    pub group: Grouping,
    /// Leave out the recorder's own threads.
    pub hide_own: bool,
    /// Dense grid on (`Some(true)`), off, or as the number of CPUs wants (`None`).
    pub dense: Option<bool>,
    /// Where keys go.
    pub focus: Pane,
    /// The thread under the cursor; it stays there when the order changes.
    pub selected: Option<Utid>,
    /// Its row in `order`.
    pub row: usize,
    /// First row shown.
    pub top: usize,
    /// CPU under the cursor, as an index into `data.cpus`.
    pub cpu: usize,
    /// First lane row shown.
    pub cpu_top: usize,
    /// Finding under the cursor.
    pub finding: usize,
}

/// The thread screen.
#[derive(Debug, Clone, Default)]
pub struct ThreadState {
    /// The newest answer.
    pub data: Option<Box<ThreadDetail>>,
    /// The window it is about.
    pub window: Option<Window>,
    /// Selected line of the worst waits.
    pub row: usize,
    /// First line shown.
    pub top: usize,
}

/// The CPU screen.
#[derive(Debug, Clone, Default)]
pub struct CpuState {
    /// The newest answer.
    pub data: Option<Box<CpuDetail>>,
    /// Selected slice.
    pub row: usize,
    /// First line shown.
    pub top: usize,
}

/// The time line.
#[derive(Debug, Clone)]
pub struct TimelineState {
    /// Its own window: it zooms far below the tables' window.
    pub cursor: Cursor,
    /// Which tracks.
    pub tracks: Tracks,
    /// The newest answer.
    pub data: Option<Box<TimelineView>>,
    /// Selected track, an index into `data.tracks`.
    pub track: usize,
    /// First track shown.
    pub top: usize,
    /// Track that came along from another screen, until something is picked here: it is selected once it is there, and the
    /// pick on it does not stop a live window.
    pub along: Option<TrackId>,
    /// Selected slice.
    pub slice: Option<Box<Slice>>,
    /// Its wait chain.
    pub chain: Vec<Link>,
    /// What its thread spent its waiting on, over the window.
    pub waited_on: Option<Box<WaitedOn>>,
    /// Raw events around the selection.
    pub events: Vec<RawEvent>,
    /// Show the chain.
    pub show_chain: bool,
    /// Show the raw events.
    pub show_events: bool,
    /// What was last searched.
    pub search: Option<SearchFor>,
    /// Begin of a range being chosen.
    pub range_start: Option<u64>,
}

/// The segments screen.
#[derive(Debug, Clone, Default)]
pub struct SegmentsState {
    /// The newest answer.
    pub data: Option<Box<StoreView>>,
    /// Of the growing segment: its begin on the boot clock, and what it amounts to so far.
    pub growing: Option<(u64, GrowingFigures)>,
    /// Range on view, ns since 1970; `None`: all.
    pub range: Option<(u64, u64)>,
    /// Column under the cursor.
    pub column: usize,
    /// Selected row of the list, counted from the newest.
    pub row: usize,
    /// First row shown.
    pub top: usize,
    /// Begin of a range being chosen, ns since 1970.
    pub range_start: Option<u64>,
}

/// Snapshots and marks.
#[derive(Debug, Clone, Default)]
pub struct SnapshotsState {
    /// The lists on view.
    pub kept: KeptView,
    /// As the files have them.
    pub listed: KeptView,
    /// What the growing segment has, by its begin.
    pub growing: Option<(u64, GrowingFigures)>,
    /// The lists have come at least once.
    pub loaded: bool,
    /// Selected row.
    pub row: usize,
    /// First row shown.
    pub top: usize,
}

/// Something on top of the screen.
#[derive(Debug, Clone)]
pub enum Popup {
    /// Keys and actions, from this line on.
    Help(usize),
    /// Two windows side by side, from this row on.
    Compare {
        /// A and B.
        windows: [Window; 2],
        /// Threads.
        rows: Vec<CompareRow>,
        /// First row shown.
        top: usize,
    },
    /// Rows of a query, from this one on.
    Query {
        /// The rows.
        view: Arc<QueryView>,
        /// First row shown.
        top: usize,
    },
    /// A line being typed.
    Prompt(Prompt),
}

impl Default for OverviewState {
    fn default() -> Self {
        OverviewState {
            data: None,
            crowd: Crowd::default(),
            order: Vec::new(),
            sort: Column::Ready,
            descending: true,
            filter: String::new(),
            group: Grouping::Thread,
            hide_own: false,
            dense: None,
            focus: Pane::Threads,
            selected: None,
            row: 0,
            top: 0,
            cpu: 0,
            cpu_top: 0,
            finding: 0,
        }
    }
}

impl TimelineState {
    /// Nothing asked yet.
    pub fn new(cursor: Cursor) -> TimelineState {
        TimelineState {
            cursor,
            tracks: Tracks::Busiest,
            data: None,
            track: 0,
            top: 0,
            along: None,
            slice: None,
            chain: Vec::new(),
            waited_on: None,
            events: Vec::new(),
            show_chain: false,
            show_events: false,
            search: None,
            range_start: None,
        }
    }
}
