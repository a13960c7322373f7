//! Everything the screens are drawn from, and what can happen to it.
//!
//! [`State`] is plain data: `update` changes it and says what should be done, `render` draws it. Neither does any
//! input or output, so every screen and every key can be tried without a terminal.

mod screens;

pub use screens::{CpuState, OverviewState, Pane, Popup, SegmentsState, SnapshotsState, ThreadState, TimelineState};

use super::actions::{Action, Context};
use super::answers::{Answer, Ask, Question};
use super::cursor::Cursor;
use super::deeds::{Deed, Done, RecorderView, SegmentRow};
use super::keymap::Keymap;
use super::keys::Key;
use super::labels::Labels;
use super::theme::{Depth, Theme};
use crate::sched::fold::Utid;
use crate::sched::summary::Window;
use crate::time::{ClockMap, Digits, Zone};
use std::sync::Arc;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Msg {
    /// A key was pressed.
    Key(Key),
    /// The left button, at this cell.
    Click(u16, u16),
    /// The wheel, at this cell; true is up.
    Wheel(u16, u16, bool),
    /// Text was pasted.
    Paste(String),
    /// The terminal has this size now.
    Resize(u16, u16),
    /// Time went on: once per refresh interval.
    Tick,
    /// The worker answered.
    Answer(Box<Answer>),
    /// The keeper did something.
    Done(Done),
    /// A signal asks to end.
    Terminate,
}

/// Something to be done by the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the worker.
    Ask(Question),
    /// Have the keeper do it.
    Do(Deed),
    /// Put this into the clipboard (OSC 52).
    Copy(String),
    /// Stop like Ctrl-Z does.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Leave.
    Quit,
}

/// Which screen is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// The first one.
    Overview,
    /// Why a thread ran or waited.
    Thread(Utid),
    /// Who used a CPU.
    Cpu(u32),
    /// Tracks over time.
    Timeline,
    /// The store over hours.
    Segments,
    /// What was kept.
    Snapshots,
}

impl Screen {
    /// Its context in the keymap.
    pub fn context(self) -> Context {
        match self {
            Screen::Overview => Context::Overview,
            Screen::Thread(_) => Context::Thread,
            Screen::Cpu(_) => Context::Cpu,
            Screen::Timeline => Context::Timeline,
            Screen::Segments => Context::Segments,
            Screen::Snapshots => Context::Snapshots,
        }
    }
}

/// A line for the operator, gone after a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What.
    pub text: String,
    /// Something failed.
    pub bad: bool,
    /// Ticks it stays.
    pub ticks: u16,
}

/// One kind of question: what was asked last and whether the answer is still out.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    /// The last question sent.
    pub asked: Option<Ask>,
    /// Its number, until it is answered.
    pub open: Option<u64>,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct State {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// On view.
    pub screen: Screen,
    /// Screens to go back to, oldest first.
    pub back: Vec<Screen>,
    /// Window of the tables.
    pub cursor: Cursor,
    /// There is a now to go back to (a recorder, or a growing segment).
    pub has_live: bool,
    /// What the source holds.
    pub extent: Window,
    /// Boot clock to wall clock.
    pub clock: Arc<ClockMap>,
    /// Zone of all times on screen.
    pub zone: Zone,
    /// What the header says.
    pub recorder: RecorderView,
    /// What could not be read of the data on view, a line each.
    pub notes: Arc<[Box<str>]>,
    /// The words.
    pub labels: Labels,
    /// The keys in effect.
    pub keymap: Keymap,
    /// Keys of a sequence not complete yet.
    pub pending: Vec<Key>,
    /// How things look.
    pub theme: Theme,
    /// How they looked at the start: may be a theme of the user's own.
    pub first_theme: Theme,
    /// What the terminal can.
    pub depth: Depth,
    /// OSC 52 is switched on.
    pub may_copy: bool,
    /// The link, not the user, sets the pace.
    pub slow_link: bool,
    /// Screens.
    pub overview: OverviewState,
    /// Thread screen.
    pub thread: ThreadState,
    /// CPU screen.
    pub cpu: CpuState,
    /// Time line.
    pub timeline: TimelineState,
    /// Segments.
    pub segments: SegmentsState,
    /// Snapshots and marks.
    pub snapshots: SnapshotsState,
    /// On top.
    pub popup: Option<Popup>,
    /// For the operator.
    pub notice: Option<Notice>,
    /// Windows taken for a comparison.
    pub compare: [Option<Window>; 2],
    /// The screen's own question.
    pub main: Slot,
    /// A slice, worst wait or search hit that was asked for.
    pub pick: Slot,
    /// A chain that was asked for.
    pub chain: Slot,
    /// A comparison that was asked for.
    pub comparison: Slot,
    /// Raw events that were asked for.
    pub events: Slot,
    /// A ready query that was asked.
    pub query: Slot,
    /// Path of the last snapshot, for copying.
    pub last_path: Option<String>,
    /// Number of the next question.
    pub next_id: u64,
    /// Ticks since the start.
    pub ticks: u64,
    /// Ticks for which the screen's own question has been out.
    pub waiting: u16,
    /// How much of a load is done, in percent.
    pub loaded: Option<u32>,
}

/// How the program is started.
#[derive(Debug, Clone)]
pub struct Start {
    /// Where on the time line.
    pub cursor: Cursor,
    /// There is a now.
    pub has_live: bool,
    /// First screen.
    pub screen: Screen,
    /// The keys.
    pub keymap: Keymap,
    /// The look.
    pub theme: Theme,
    /// What the terminal can.
    pub depth: Depth,
    /// Zone of all times.
    pub zone: Zone,
    /// OSC 52 is switched on.
    pub may_copy: bool,
}

impl State {
    /// The state at start, for a terminal of this size.
    pub fn new(start: Start, size: (u16, u16)) -> State {
        State {
            size,
            screen: start.screen,
            back: Vec::new(),
            cursor: start.cursor,
            has_live: start.has_live,
            extent: Window { from: 0, to: 0 },
            clock: Arc::default(),
            zone: start.zone,
            recorder: RecorderView::default(),
            notes: Arc::default(),
            labels: Labels::default(),
            keymap: start.keymap,
            pending: Vec::new(),
            first_theme: start.theme.clone(),
            theme: start.theme,
            depth: start.depth,
            may_copy: start.may_copy,
            slow_link: false,
            overview: OverviewState::default(),
            thread: ThreadState::default(),
            cpu: CpuState::default(),
            timeline: TimelineState::new(start.cursor),
            segments: SegmentsState::default(),
            snapshots: SnapshotsState::default(),
            popup: None,
            notice: None,
            compare: [None, None],
            main: Slot::default(),
            pick: Slot::default(),
            chain: Slot::default(),
            comparison: Slot::default(),
            events: Slot::default(),
            query: Slot::default(),
            last_path: None,
            next_id: 1,
            ticks: 0,
            waiting: 0,
            loaded: None,
        }
    }

    /// The context keys are looked up in.
    pub fn context(&self) -> Context {
        match self.popup {
            Some(Popup::Prompt(_)) => Context::Prompt,
            Some(_) => Context::Popup,
            None => self.screen.context(),
        }
    }

    /// The cursor of the screen on view.
    pub fn cursor(&self) -> Cursor {
        if self.screen == Screen::Timeline { self.timeline.cursor } else { self.cursor }
    }

    /// The same, to move it.
    pub fn cursor_mut(&mut self) -> &mut Cursor {
        if self.screen == Screen::Timeline { &mut self.timeline.cursor } else { &mut self.cursor }
    }

    /// The window on view.
    pub fn window(&self) -> Window {
        self.cursor().window(self.extent.to)
    }

    /// Wall-clock text of a boot instant; of the boot clock itself when no clock reading is known.
    pub fn clock_text(&self, boot: u64, digits: Digits) -> String {
        if self.clock.is_empty() {
            let s = boot / 1_000_000_000;
            return match digits {
                Digits::Minutes | Digits::Seconds => format!("{s} s"),
                _ => format!("{s}.{:06} s", boot % 1_000_000_000 / 1_000),
            };
        }
        crate::time::clock(self.clock.to_real(boot), &self.zone, digits)
    }

    /// The row of the overview's table under the cursor.
    pub fn selected_thread(&self) -> Option<&crate::sched::summary::ThreadRow> {
        let data = self.overview.data.as_ref()?;
        data.threads.get(*self.overview.order.get(self.overview.row)? as usize)
    }

    /// The segment under the cursor of the list (newest first).
    pub fn selected_segment(&self) -> Option<&SegmentRow> {
        let list = &self.segments.data.as_ref()?.segments;
        list.len().checked_sub(self.segments.row + 1).and_then(|i| list.get(i))
    }

    /// Tells the operator something.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), bad: false, ticks: 24 });
    }

    /// Tells the operator that something failed.
    pub fn complain(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), bad: true, ticks: 60 });
    }

    /// The first key of an action here, for hints.
    pub fn hint(&self, action: Action) -> String {
        self.keymap.hint(action, self.screen.context())
    }
}
