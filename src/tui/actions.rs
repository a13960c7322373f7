//! The one table of everything a key can do.
//!
//! Names, help, palette, the `dashcam keys` listing, the README table and `keymaps/default.toml` are all made
//! from [`ACTIONS`]; nothing else in the crate lists actions. The table says *what* there is and which keys
//! do it by default; what an action does is `update`'s business, and the keys in effect are the keymap's.

use std::fmt::Write as _;

/// Where a key is pressed. A key is looked up in its screen's context first, then in [`Context::Any`];
/// [`Context::Prompt`] stands alone, since there plain keys are text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Context {
    /// Every screen.
    Any,
    /// The overview.
    Overview,
    /// The thread ("why") screen.
    Thread,
    /// The CPU screen.
    Cpu,
    /// The time line.
    Timeline,
    /// The store's segments.
    Segments,
    /// Snapshots and marks.
    Snapshots,
    /// A list or text on top of a screen (help, comparison).
    Popup,
    /// A line of text is being typed.
    Prompt,
}

impl Context {
    /// All contexts, in the order of listings.
    pub const ALL: [Context; 9] = [
        Context::Any,
        Context::Overview,
        Context::Thread,
        Context::Cpu,
        Context::Timeline,
        Context::Segments,
        Context::Snapshots,
        Context::Popup,
        Context::Prompt,
    ];

    /// The table's name in a keymap file.
    pub fn name(self) -> &'static str {
        match self {
            Context::Any => "any",
            Context::Overview => "overview",
            Context::Thread => "thread",
            Context::Cpu => "cpu",
            Context::Timeline => "timeline",
            Context::Segments => "segments",
            Context::Snapshots => "snapshots",
            Context::Popup => "popup",
            Context::Prompt => "prompt",
        }
    }

    /// One line for the help and for the keymap file.
    pub fn doc(self) -> &'static str {
        match self {
            Context::Any => "Every screen, unless the screen's own table says otherwise",
            Context::Overview => "Overview: CPUs, findings, threads",
            Context::Thread => "Thread: why it ran or waited",
            Context::Cpu => "CPU: who used it",
            Context::Timeline => "Time line",
            Context::Segments => "Segments: the store over hours",
            Context::Snapshots => "Snapshots and marks",
            Context::Popup => "Help and comparison, on top of a screen",
            Context::Prompt => "While typing a line",
        }
    }

    /// The context of a name in a keymap file.
    pub fn parse(name: &str) -> Option<Context> {
        Context::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct ActionInfo {
    /// Which.
    pub action: Action,
    /// Name in keymaps and in the palette.
    pub name: &'static str,
    /// What it does, one line.
    pub doc: &'static str,
    /// What text the palette takes after the name, if any ("14:02").
    pub argument: Option<&'static str>,
    /// Default keys by context, in the keymap's notation.
    pub keys: &'static [(Context, &'static [&'static str])],
}

macro_rules! actions {
    ($( $variant:ident $name:literal $( ($argument:literal) )? : $doc:literal $( $context:ident = $keys:expr ),* ; )*) => {
        /// Everything a key can do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Action { $( #[doc = $doc] $variant, )* }

        /// The table, in the order of listings.
        pub static ACTIONS: &[ActionInfo] = &[ $( ActionInfo {
            action: Action::$variant,
            name: $name,
            doc: $doc,
            argument: { #[allow(unused_mut, unused_assignments)] let mut a: Option<&'static str> = None; $( a = Some($argument); )? a },
            keys: &[ $( (Context::$context, &$keys) ),* ],
        }, )* ];
    };
}

actions! {
    Quit "quit": "Leave; the recording of a separate recorder goes on" Any = ["q", "ctrl-c"];
    Suspend "suspend": "Stop the viewer as Ctrl-Z does anywhere; fg brings it back" Any = ["ctrl-z"];
    Help "help": "Keys and actions" Any = ["?"];
    Palette "palette": "Run any action by name" Any = [":"];
    Cancel "cancel": "Close what is on top, clear the filter, or go back" Any = ["esc"], Popup = ["esc", "q"];
    Back "back": "Go back to the screen before" Any = ["backspace"];
    Redraw "redraw": "Draw the whole screen anew" Any = ["ctrl-l"];

    ShowOverview "show-overview": "Go to the overview" Any = ["f1"];
    ShowTimeline "show-timeline": "Go to the time line, at the selection" Any = ["f2", "t"];
    ShowSegments "show-segments": "Go to the segments" Any = ["f3"];
    ShowSnapshots "show-snapshots": "Go to snapshots and marks" Any = ["f4"];

    Up "up": "One up" Any = ["up", "k"], Popup = ["up", "k"];
    Down "down": "One down" Any = ["down", "j"], Popup = ["down", "j"];
    Left "left": "Left: a cell of the grid, or back in time" Any = ["left", "h"];
    Right "right": "Right: a cell of the grid, or forward in time" Any = ["right", "l"];
    PageUp "page-up": "One page up" Any = ["pageup", "ctrl-b"], Popup = ["pageup", "ctrl-b"];
    PageDown "page-down": "One page down" Any = ["pagedown", "ctrl-f"], Popup = ["pagedown", "ctrl-f"];
    First "first": "To the first row" Any = ["home"], Popup = ["home"];
    Last "last": "To the last row" Any = ["G"], Popup = ["end", "G"];
    FocusNext "focus-next": "To the next part of the screen" Any = ["tab"];
    FocusPrevious "focus-previous": "To the part of the screen before" Any = ["shift-tab"];
    Open "open": "Open what is selected" Any = ["enter", "ctrl-j"];

    Pause "pause": "Freeze, and go on again" Any = ["space"];
    Live "live": "Back to now" Any = ["end", "L"];
    StepBack "step-back": "A tenth of the window back in time" Any = [","];
    StepForward "step-forward": "A tenth of the window forward in time" Any = ["."];
    WindowBack "window-back": "A whole window back in time" Any = ["["];
    WindowForward "window-forward": "A whole window forward in time" Any = ["]"];
    NextWindow "next-window": "Next window: 10 s, 60 s, 10 min" Any = ["w"];
    GotoTime "goto-time" ("TIME"): "Jump to a time: 14:02, -5m, now" Any = ["@"], Timeline = ["g"], Segments = ["g"];

    Snapshot "snapshot": "Keep the last minutes (snapshot.last)" Any = ["s"];
    SnapshotAs "snapshot-as" ("[MINUTES] [LABEL]"): "Keep the last minutes; asks how many, and for a label" Any = ["S"];
    Mark "mark" ("TEXT"): "Mark this moment in the recording" Any = ["m"];
    Keep "keep" ("[LABEL]"): "Keep the window on view (or the chosen range) as a snapshot" Any = ["K"];
    Copy "copy": "Copy the path or name (OSC 52, when switched on)" Any = ["y"];

    Filter "filter" ("TEXT"): "Show only threads that match: name, process, cgroup, tid, state" Overview = ["/"];
    Group "group": "Group threads: thread, process, cgroup, role" Overview = ["g"];
    SortNext "sort-next": "Sort by the next column" Overview = [">"];
    SortPrevious "sort-previous": "Sort by the column before" Overview = ["<"];
    SortReverse "sort-reverse": "Turn the order round" Overview = ["r"];
    HideOwn "hide-own": "Hide or show the recorder's own threads" Overview = ["o"];
    DenseGrid "dense-grid": "CPU lanes, or the dense grid" Overview = ["d"];
    Finding1 "finding-1": "Jump to finding 1" Overview = ["1"];
    Finding2 "finding-2": "Jump to finding 2" Overview = ["2"];
    Finding3 "finding-3": "Jump to finding 3" Overview = ["3"];

    WorstWait "worst-wait": "Go to the worst wait of the thread, on the time line" Thread = ["x"], Timeline = ["x"];
    ZoomIn "zoom-in": "Zoom in" Timeline = ["+", "=", "z i"], Segments = ["+", "="];
    ZoomOut "zoom-out": "Zoom out" Timeline = ["-", "z o"], Segments = ["-"];
    ZoomSelection "zoom-selection": "Zoom to what is selected" Timeline = ["z z"];
    NextSlice "next-slice": "Next slice or wait of this thread" Timeline = ["n"];
    PreviousSlice "previous-slice": "Slice or wait before of this thread" Timeline = ["p"];
    GoWaker "go-waker": "To the thread that woke it" Timeline = ["W"], Thread = ["W"];
    GoPreemptor "go-preemptor": "To the thread that pushed it off" Timeline = ["P"], Thread = ["P"];
    Search "search" ("WHAT"): "Search: a thread's name, a state (D, ready), a wait (>5ms), #mark" Timeline = ["/"];
    SearchNext "search-next": "Next hit" Timeline = ["f"];
    SearchPrevious "search-previous": "Hit before" Timeline = ["F"];
    Chain "chain": "Wait chain of the selection: who released it, and what they waited for" Timeline = ["c"];
    RawEvents "raw-events": "The raw events around the selection" Timeline = ["e"];
    RangeStart "range-start": "Begin a range here" Timeline = ["v"], Segments = ["v"];
    CompareA "compare-a": "Take the window on view as A" Any = ["a"];
    CompareB "compare-b": "Take the window on view as B, and compare it with A" Any = ["b"];

    Query "query" ("READY QUERY"): "Ask a ready query of the window on view" Any = ["Q"];

    NextTheme "next-theme": "Next theme" Any = ["T"];

    Accept "accept": "Take the line" Prompt = ["enter", "ctrl-j"];
    Dismiss "dismiss": "Leave the line" Prompt = ["esc", "ctrl-c"];
    NextField "next-field": "Next field, or complete" Prompt = ["tab"];
    EraseChar "erase-char": "Erase the character before the cursor" Prompt = ["backspace", "ctrl-h"];
    EraseWord "erase-word": "Erase the word before the cursor" Prompt = ["ctrl-w"];
    EraseLine "erase-line": "Erase the line" Prompt = ["ctrl-u"];
    CursorLeft "cursor-left": "Cursor left" Prompt = ["left", "ctrl-b"];
    CursorRight "cursor-right": "Cursor right" Prompt = ["right", "ctrl-f"];
    CursorHome "cursor-home": "Cursor to the begin" Prompt = ["home", "ctrl-a"];
    CursorEnd "cursor-end": "Cursor to the end" Prompt = ["end", "ctrl-e"];
    ChoiceUp "choice-up": "Choice above" Prompt = ["up", "ctrl-p"];
    ChoiceDown "choice-down": "Choice below" Prompt = ["down", "ctrl-n"];
}

impl Action {
    /// Its row of the table.
    pub fn info(self) -> &'static ActionInfo {
        // Rows stand in the order of the variants: both come from one macro call.
        &ACTIONS[self as usize]
    }

    /// Name in keymaps and palette.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The action of a name.
    pub fn parse(name: &str) -> Option<Action> {
        ACTIONS.iter().find(|a| a.name == name).map(|a| a.action)
    }

    /// False for what only makes sense while a line is typed: the palette leaves these out.
    pub fn in_palette(self) -> bool {
        self.info().keys.iter().any(|(context, _)| *context != Context::Prompt)
    }
}

/// `keymaps/default.toml`, whole: the file in the repository is this text (a test holds them together).
pub fn default_keymap_toml() -> String {
    let mut out = String::from(
        "# dashcam's default keys. A file of your own needs only what differs: name it on the command line, or put it\n\
         # at $XDG_CONFIG_HOME/dashcam/keymap.toml. One table per context, one line per action; a list replaces the\n\
         # action's default keys in that context, an empty list unbinds it. `dashcam keys` prints what is in effect.\n\
         #\n\
         # Keys: a character (\"q\", \"?\"), a name (enter esc tab backspace delete insert space up down left right home\n\
         # end pageup pagedown f1..f24), with ctrl-, alt-, shift- before it; several after one another: \"z i\".\n\
         # This file is made from the action table in src/tui/actions.rs.\n",
    );
    for context in Context::ALL {
        if !ACTIONS.iter().any(|info| info.keys.iter().any(|(c, _)| *c == context)) {
            continue;
        }
        let _ = write!(out, "\n# {}\n[{}]\n", context.doc(), context.name());
        for info in ACTIONS {
            for (_, keys) in info.keys.iter().filter(|(c, _)| *c == context) {
                let list: Vec<String> = keys.iter().map(|k| format!("{k:?}")).collect();
                let line = format!("{} = [{}]", info.name, list.join(", "));
                let _ = writeln!(out, "{line:<35} # {}", info.doc);
            }
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants() {
        for (i, info) in ACTIONS.iter().enumerate() {
            assert_eq!(info.action as usize, i);
            assert_eq!(Action::parse(info.name), Some(info.action), "{} is listed twice", info.name);
        }
    }

    #[test]
    fn every_action_has_a_default_key_and_a_line_of_help() {
        for info in ACTIONS {
            assert!(!info.keys.is_empty(), "{} has no key", info.name);
            assert!(info.keys.iter().all(|(_, keys)| !keys.is_empty()), "{} has an empty list", info.name);
            assert!(info.doc.len() > 3 && info.doc.len() < 90, "{}: {:?}", info.name, info.doc);
        }
    }

    #[test]
    fn the_default_keymap_file_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/keymaps/default.toml");
        if std::env::var_os("DASHCAM_BLESS").is_some() {
            std::fs::write(path, default_keymap_toml()).unwrap();
        }
        let file = std::fs::read_to_string(path).unwrap();
        assert_eq!(file, default_keymap_toml(), "write it anew: DASHCAM_BLESS=1 cargo test default_keymap_file");
    }
}
