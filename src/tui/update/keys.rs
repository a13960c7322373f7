//! Keys to actions, and what each action does.

use super::{ask_chain, ask_comparison, ask_events, ask_pick, go, lines, lists, moves};
use crate::sched::event::ThreadNow;
use crate::tui::actions::{Action, Context};
use crate::tui::answers::Ask;
use crate::tui::deeds::Deed;
use crate::tui::keymap::Found;
use crate::tui::keys::Key;
use crate::tui::prompt::{Prompt, Purpose};
use crate::tui::state::{Effect, Popup, Screen, State};

/// What to do next for a comparison.
const A_TAKEN: &str = "this window is A; go to the other one and take it as B";
const A_FIRST: &str = "this window is B; take the other one as A first";

/// The next step is done, or another screen came: the hint has been of use and gives its line back to the keys.
pub fn drop_compare_hint(state: &mut State) {
    if state.notice.as_ref().is_some_and(|n| n.text == A_TAKEN || n.text == A_FIRST) {
        state.notice = None;
    }
}

/// A key came.
pub fn press(state: &mut State, key: Key, out: &mut Vec<Effect>) {
    let context = state.context();
    state.pending.push(key);
    match state.keymap.look_up(context, &state.pending) {
        Found::Pending => {}
        Found::Action(action) => {
            state.pending.clear();
            run(state, action, out);
        }
        Found::Nothing => {
            let was_sequence = state.pending.len() > 1;
            state.pending.clear();
            match (context, key.typed()) {
                (Context::Prompt, Some(c)) => lines::typed(state, c),
                // The key that broke a sequence may mean something by itself.
                _ if was_sequence => press(state, key, out),
                _ => {}
            }
        }
    }
}

/// Does an action, as a key or the palette asks.
pub fn run(state: &mut State, action: Action, out: &mut Vec<Effect>) {
    if matches!(state.popup, Some(Popup::Prompt(_))) {
        lines::act(state, action, out);
        return;
    }
    match action {
        Action::Quit => out.push(Effect::Quit),
        Action::Suspend => out.push(Effect::Suspend),
        Action::Redraw => out.push(Effect::Redraw),
        Action::Help => state.popup = Some(Popup::Help(0)),
        Action::Palette => state.popup = Some(Popup::Prompt(Prompt::new(Purpose::Palette, ""))),
        Action::Cancel => cancel(state, out),
        Action::Back => go::back(state, out),
        Action::ShowOverview => go::to(state, Screen::Overview, out),
        Action::ShowTimeline => go::timeline_at_selection(state, out),
        Action::ShowSegments => go::to(state, Screen::Segments, out),
        Action::ShowSnapshots => go::to(state, Screen::Snapshots, out),

        Action::Up => lists::step(state, -1, out),
        Action::Down => lists::step(state, 1, out),
        Action::PageUp => lists::page(state, -1, out),
        Action::PageDown => lists::page(state, 1, out),
        Action::First => lists::to_end(state, false, out),
        Action::Last => lists::to_end(state, true, out),
        Action::Left => moves::sideways(state, -1),
        Action::Right => moves::sideways(state, 1),
        Action::FocusNext => lists::focus(state, true),
        Action::FocusPrevious => lists::focus(state, false),
        Action::Open => go::open(state, out),

        Action::Pause => moves::pause(state),
        Action::Live => moves::live(state),
        Action::StepBack => moves::step(state, -1, 10),
        Action::StepForward => moves::step(state, 1, 10),
        Action::WindowBack => moves::step(state, -1, 1),
        Action::WindowForward => moves::step(state, 1, 1),
        Action::NextWindow => moves::next_window(state),
        Action::ZoomIn => moves::zoom(state, true, out),
        Action::ZoomOut => moves::zoom(state, false, out),
        Action::ZoomSelection => moves::zoom_selection(state),
        Action::RangeStart => moves::range_start(state),

        Action::Snapshot => {
            state.tell("keeping the last minutes …");
            out.push(Effect::Do(Deed::Snapshot { last: None, label: String::new() }));
        }
        Action::SnapshotAs => {
            let minutes = state.recorder.snapshot_last / 60_000_000_000;
            let text = if minutes > 0 { format!("{minutes}m ") } else { "5m ".into() };
            open_line(state, action, &text);
        }
        Action::Filter => {
            let text = state.overview.filter.clone();
            open_line(state, action, &text);
        }
        Action::Mark | Action::GotoTime | Action::Keep | Action::Search => open_line(state, action, ""),
        Action::Copy => copy(state, out),
        Action::CompareA => {
            state.compare = [Some(moves::chosen_window(state)), None];
            state.tell(A_TAKEN);
        }
        Action::CompareB => {
            state.compare[1] = Some(moves::chosen_window(state));
            if state.compare[0].is_some() {
                drop_compare_hint(state);
                ask_comparison(state, out);
            } else {
                state.tell(A_FIRST);
            }
        }

        Action::Group => {
            state.overview.group = state.overview.group.next();
        }
        Action::SortNext => lists::sort_by_neighbour(state, true),
        Action::SortPrevious => lists::sort_by_neighbour(state, false),
        Action::SortReverse => {
            state.overview.descending = !state.overview.descending;
            lists::resort(state);
        }
        Action::HideOwn => {
            state.overview.hide_own = !state.overview.hide_own;
            lists::resort(state);
        }
        Action::DenseGrid => {
            let on = crate::tui::screens::overview::plan(state).dense;
            state.overview.dense = Some(!on);
        }
        Action::Finding1 => go::finding(state, 0, out),
        Action::Finding2 => go::finding(state, 1, out),
        Action::Finding3 => go::finding(state, 2, out),

        Action::WorstWait => go::worst_wait(state, out),
        Action::NextSlice => pick_neighbour(state, 1, out),
        Action::PreviousSlice => pick_neighbour(state, -1, out),
        Action::GoWaker => go::waker(state, out),
        Action::GoPreemptor => go::preemptor(state, out),
        Action::SearchNext => search(state, true, out),
        Action::SearchPrevious => search(state, false, out),
        Action::Chain => {
            state.timeline.show_chain = !state.timeline.show_chain;
            if state.timeline.show_chain {
                state.timeline.show_events = false;
                ask_chain(state, out);
            }
        }
        Action::RawEvents => {
            state.timeline.show_events = !state.timeline.show_events;
            if state.timeline.show_events {
                state.timeline.show_chain = false;
                ask_events(state, out);
            }
        }
        Action::Query => open_line(state, action, ""),
        Action::NextTheme => {
            state.theme = state.theme.next(&state.first_theme, state.depth);
            state.tell(format!("theme {}", state.theme.name));
        }

        Action::Accept
        | Action::Dismiss
        | Action::NextField
        | Action::EraseChar
        | Action::EraseWord
        | Action::EraseLine
        | Action::CursorLeft
        | Action::CursorRight
        | Action::CursorHome
        | Action::CursorEnd
        | Action::ChoiceUp
        | Action::ChoiceDown => {}
    }
}

fn open_line(state: &mut State, action: Action, text: &str) {
    state.popup = Some(Popup::Prompt(Prompt::new(Purpose::Argument(action), text)));
}

/// Closes what is on top; else clears the filter or a range; else goes back.
fn cancel(state: &mut State, out: &mut Vec<Effect>) {
    if state.popup.take().is_some() {
        return;
    }
    state.notice = None;
    match state.screen {
        Screen::Overview if !state.overview.filter.is_empty() => {
            state.overview.filter.clear();
            lists::resort(state);
        }
        Screen::Timeline if state.timeline.range_start.take().is_some() => {}
        Screen::Timeline if state.timeline.show_chain || state.timeline.show_events => {
            state.timeline.show_chain = false;
            state.timeline.show_events = false;
        }
        Screen::Segments if state.segments.range_start.take().is_some() => {}
        Screen::Overview => {}
        _ => go::back(state, out),
    }
}

fn copy(state: &mut State, out: &mut Vec<Effect>) {
    let text = match state.screen {
        Screen::Snapshots => state.snapshots.kept.snapshots.get(state.snapshots.row).map(|s| s.path.to_string()),
        Screen::Segments => state.selected_segment().map(|s| s.path.to_string()),
        Screen::Thread(utid) => Some(state.labels.with_tid(utid)),
        _ => state.last_path.clone(),
    };
    match text {
        None => state.tell("nothing to copy here: take a snapshot (its path is copied), or go to a thread or segment"),
        Some(_) if !state.may_copy => {
            state.complain("copying through the terminal (OSC 52) is off; switch it on with live.osc52 = true");
        }
        Some(text) => {
            state.tell(format!("copied {text}"));
            out.push(Effect::Copy(text));
        }
    }
}

/// The slice after (1) or before (-1) the selected one.
fn pick_neighbour(state: &mut State, step: i8, out: &mut Vec<Effect>) {
    match &state.timeline.slice {
        Some(slice) => {
            let ask = Ask::Slice { track: slice.track, at: slice.detail.span.start, step };
            ask_pick(state, ask, out);
        }
        None => lists::pick_on_track(state, out),
    }
}

fn search(state: &mut State, forward: bool, out: &mut Vec<Effect>) {
    let Some(what) = state.timeline.search.clone() else {
        open_line(state, Action::Search, "");
        return;
    };
    let window = state.timeline.cursor.window(state.extent.to);
    let from = match &state.timeline.slice {
        Some(slice) if forward => slice.detail.span.start.saturating_add(1),
        Some(slice) => slice.detail.span.start,
        None => window.from + (window.to - window.from) / 2,
    };
    ask_pick(state, Ask::Search { from, forward, what }, out);
}

/// What a typed search means: `>5ms`, a state's letter or word, `#mark`, else a thread's name or tid.
pub fn parse_search(
    text: &str,
    utid: Option<crate::sched::fold::Utid>,
) -> Result<crate::tui::answers::SearchFor, String> {
    use crate::sched::state::TaskState;
    use crate::tui::answers::SearchFor;
    let text = text.trim();
    if let Some(span) = text.strip_prefix('>') {
        let span: crate::units::Span = span.trim().parse().map_err(|e: crate::units::UnitError| e.to_string())?;
        return Ok(SearchFor::WaitOver(span.nanos()));
    }
    if let Some(mark) = text.strip_prefix('#') {
        return Ok(SearchFor::Mark(mark.to_string()));
    }
    let state = match text {
        "D" => ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE),
        "R" | "ready" | "runnable" => ThreadNow::Runnable,
        "R+" | "+" | "pushed" | "preempted" => ThreadNow::Preempted,
        "running" | "run" => ThreadNow::Running,
        "S" | "sleep" | "sleeping" => ThreadNow::Blocked(TaskState::SLEEPING),
        "" => return Err("search for a thread's name, a state (D, ready, pushed), a wait (>5ms) or #mark".into()),
        name => return Ok(SearchFor::Thread(name.to_string())),
    };
    Ok(SearchFor::State(state, utid))
}
