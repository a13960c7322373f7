//! What the keeper is asked to do and what comes of it: the recorder's state, the store over hours, snapshots and marks.
//!
//! Plain data only, as in [`super::answers`], with the same words and units.

use crate::sched::summary::Window;

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
    /// Labels of the snapshots that have a part of it, maybe empty ones; oldest first.
    pub snapshots: Vec<Box<str>>,
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
    /// Files that were opened by name, not a store.
    pub single: bool,
    /// Files of which nothing can be listed: they have no footer, nor anything else that places them in time.
    pub unplaced: Vec<Box<str>>,
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
    /// A moment by itself (`dashcam mark`, `I|`); else it begins something (`B|`, `S|`), of which there may be thousands.
    pub plain: bool,
}

/// What was kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeptView {
    /// Newest first.
    pub snapshots: Vec<SnapshotRow>,
    /// The plain ones, then the others, each newest first.
    pub marks: Vec<MarkRow>,
    /// How many footers count, with those that end or count something.
    pub marked: u64,
    /// Some had no room in a footer.
    pub marks_cut: bool,
    /// Begin of the segment that grows (ns, boot): its marks are in no footer yet and not among these.
    pub growing: Option<u64>,
    /// Files that were opened by name, not a store.
    pub single: bool,
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
    Kept(Box<KeptView>),
    /// In words.
    Failed(Box<str>),
}
