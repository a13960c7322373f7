//! Typed lines: editing, and what an accepted one does.

use super::{ask_pick, ask_query, keys, lists, moves};
use crate::tui::actions::Action;
use crate::tui::answers::Ask;
use crate::tui::deeds::Deed;
use crate::tui::prompt::{Prompt, Purpose, queries_like};
use crate::tui::state::{Effect, Popup, State};

/// A character was typed.
pub fn typed(state: &mut State, c: char) {
    if let Some(Popup::Prompt(prompt)) = &mut state.popup {
        prompt.insert(c);
    }
    follow(state);
}

/// Text was pasted: into a line only, and only its first line; pasted text never acts as keys.
pub fn paste(state: &mut State, text: &str) {
    if let Some(Popup::Prompt(prompt)) = &mut state.popup {
        text.lines().next().unwrap_or("").chars().for_each(|c| prompt.insert(c));
    }
    follow(state);
}

/// An action while a line is open.
pub fn act(state: &mut State, action: Action, out: &mut Vec<Effect>) {
    let Some(Popup::Prompt(prompt)) = &mut state.popup else { return };
    match action {
        Action::Accept => {
            let prompt = prompt.clone();
            state.popup = None;
            accept(state, &prompt, out);
        }
        Action::Dismiss => {
            let was_filter = prompt.purpose == Purpose::Argument(Action::Filter);
            state.popup = None;
            if was_filter {
                state.overview.filter.clear();
                lists::resort(state);
            }
        }
        other => {
            prompt.edit(other);
            follow(state);
        }
    }
}

/// The filter acts while it is typed.
fn follow(state: &mut State) {
    if let Some(Popup::Prompt(Prompt { purpose: Purpose::Argument(Action::Filter), .. })) = &state.popup
        && let Some(Popup::Prompt(prompt)) = &state.popup
    {
        state.overview.filter = prompt.text();
        state.overview.row = 0;
        state.overview.top = 0;
        state.overview.selected = None;
        lists::resort(state);
    }
}

fn accept(state: &mut State, prompt: &Prompt, out: &mut Vec<Effect>) {
    match prompt.purpose {
        Purpose::Argument(Action::Query) => match prompt.chosen_query() {
            Some(ready) => ask_query(state, ready.name, out),
            None => state.complain(format!("there is no ready query like {:?}", prompt.text())),
        },
        Purpose::Argument(action) => with_text(state, action, &prompt.text(), out),
        Purpose::Palette => match prompt.chosen() {
            Some((action, text)) if !text.is_empty() && action.info().argument.is_some() => {
                with_text(state, action, &text, out);
            }
            Some((action, _)) => keys::run(state, action, out),
            None => state.complain(format!("there is no action like {:?}", prompt.text())),
        },
    }
}

/// An action with the text it takes.
fn with_text(state: &mut State, action: Action, text: &str, out: &mut Vec<Effect>) {
    let text = text.trim();
    match action {
        Action::Filter => {
            state.overview.filter = text.to_string();
            lists::resort(state);
        }
        Action::GotoTime if !text.is_empty() => moves::goto(state, text, out),
        Action::Mark if !text.is_empty() => out.push(Effect::Do(Deed::Mark(text.to_string()))),
        Action::SnapshotAs => snapshot(state, text, out),
        Action::Keep => {
            let window = moves::chosen_window(state);
            state.timeline.range_start = None;
            state.segments.range_start = None;
            state.tell("keeping the range …");
            out.push(Effect::Do(Deed::Keep { window, label: text.to_string() }));
        }
        Action::Search => search(state, text, out),
        Action::Query => match queries_like(text).first() {
            Some(ready) => ask_query(state, ready.name, out),
            None => state.complain(format!("there is no ready query like {text:?}")),
        },
        _ => {}
    }
}

/// `5m p99 alert`, `5 p99 alert` (minutes), or only a label.
fn snapshot(state: &mut State, text: &str, out: &mut Vec<Effect>) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let last = match first.parse::<u64>() {
        Ok(minutes) => Some(minutes.saturating_mul(60_000_000_000)),
        Err(_) => first.parse::<crate::units::Span>().ok().map(crate::units::Span::nanos),
    };
    let label = if last.is_some() { rest.trim() } else { text };
    state.tell("keeping …");
    out.push(Effect::Do(Deed::Snapshot { last, label: label.to_string() }));
}

fn search(state: &mut State, text: &str, out: &mut Vec<Effect>) {
    let utid = state.timeline.slice.as_ref().map(|s| s.detail.span.utid).filter(|u| *u != 0);
    match keys::parse_search(text, utid) {
        Ok(what) => {
            let window = state.window();
            let from = state.timeline.slice.as_ref().map_or(window.from, |s| s.detail.span.start.saturating_add(1));
            state.timeline.search = Some(what.clone());
            ask_pick(state, Ask::Search { from, forward: true, what }, out);
        }
        Err(e) => state.complain(e),
    }
}
