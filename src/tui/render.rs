//! Draws a [`State`]. Pure: the same state gives the same cells, whatever the terminal.

use super::actions::{Action, Context};
use super::pen::Pen;
use super::screens::{compare, cpu, help, overview, query, segments, snapshots, thread, timeline};
use super::state::{Popup, Screen, State};
use super::theme::Tone;
use super::widgets::popup;
use ratatui::Frame;
use ratatui::buffer::Buffer;

/// Below this size nothing useful can be shown.
pub const SMALLEST: (u16, u16) = (24, 8);

/// Ticks after which an answer that is still out is worth a word.
pub const LONG: u16 = 3;

/// Draws the state into a terminal's frame.
pub fn render(state: &State, frame: &mut Frame<'_>) {
    draw(state, frame.buffer_mut());
}

/// Draws the state into a buffer of any size.
pub fn draw(state: &State, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut pen = Pen::new(buffer, area, &state.theme);
    let (w, h) = (pen.w(), pen.h());
    if w < SMALLEST.0 || h < SMALLEST.1 {
        let text = format!("too small: {w}×{h}, needs {}×{}", SMALLEST.0, SMALLEST.1);
        pen.say(0, h / 2, w, &text, Tone::Text);
        return;
    }
    match state.screen {
        Screen::Overview => overview::draw(state, &mut pen),
        Screen::Thread(_) => thread::draw(state, &mut pen),
        Screen::Cpu(_) => cpu::draw(state, &mut pen),
        Screen::Timeline => timeline::draw(state, &mut pen),
        Screen::Segments => segments::draw(state, &mut pen),
        Screen::Snapshots => snapshots::draw(state, &mut pen),
    }
    draw_last_line(state, &mut pen);
    match &state.popup {
        None => {}
        Some(Popup::Help(top)) => help::draw(state, *top, &mut pen),
        Some(Popup::Compare { windows, rows, top }) => compare::draw(state, windows, rows, *top, &mut pen),
        Some(Popup::Query { view, top }) => query::draw(state, view, *top, &mut pen),
        Some(Popup::Prompt(prompt)) => popup::draw_prompt(&mut pen, prompt, &state.keymap),
    }
}

/// A notice, the keys of a sequence begun, or hints.
fn draw_last_line(state: &State, pen: &mut Pen<'_>) {
    let (w, y) = (pen.w(), pen.h() - 1);
    if let Some(notice) = &state.notice {
        let (mark, tone) = if notice.bad { ("! ", Tone::Strong) } else { ("", Tone::Text) };
        pen.pieces(1, y, w.saturating_sub(1), &[(mark, tone), (&notice.text, tone)]);
        return;
    }
    if !state.pending.is_empty() {
        pen.say(1, y, w.saturating_sub(1), &format!("{} …", super::keys::sequence_text(&state.pending)), Tone::Strong);
        return;
    }
    let mut x = 1;
    if state.waiting >= LONG {
        let text = state.loaded.map_or("reading …  ".to_string(), |p| format!("reading {p:>2} %  "));
        x += pen.say(x, y, w.saturating_sub(x), &text, Tone::Strong);
    }
    for (key, word) in popup::hints(&state.keymap, state.screen.context(), wanted_hints(state)) {
        let room = w.saturating_sub(x + 1);
        let wide = super::pen::width(&key) + 1 + super::pen::width(&word);
        if wide > room {
            break;
        }
        x += pen.pieces(x, y, room, &[(&key, Tone::Key), (" ", Tone::Text), (&word, Tone::Dim)]);
        x += 2;
    }
}

/// Which keys to show, the most needed first; the rest is in the help.
fn wanted_hints(state: &State) -> &'static [(Action, &'static str)] {
    match state.screen.context() {
        Context::Overview => &[
            (Action::Open, "why"),
            (Action::Snapshot, "snapshot"),
            (Action::Pause, "pause"),
            (Action::ShowTimeline, "time line"),
            (Action::Filter, "filter"),
            (Action::SortNext, "sort"),
            (Action::Group, "group"),
            (Action::NextWindow, "window"),
            (Action::FocusNext, "CPUs/findings"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
            (Action::ShowSegments, "segments"),
            (Action::ShowSnapshots, "snapshots"),
        ],
        Context::Thread => &[
            (Action::Open, "on the time line"),
            (Action::WorstWait, "worst wait"),
            (Action::GoWaker, "waker"),
            (Action::GoPreemptor, "preemptor"),
            (Action::NextWindow, "window"),
            (Action::Pause, "pause"),
            (Action::Cancel, "back"),
            (Action::Help, "help"),
        ],
        Context::Timeline => &[
            (Action::ZoomIn, "in"),
            (Action::ZoomOut, "out"),
            (Action::Left, "pan"),
            (Action::GotoTime, "go to"),
            (Action::Search, "search"),
            (Action::Keep, "keep"),
            (Action::Chain, "chain"),
            (Action::Live, "now"),
            (Action::Cancel, "back"),
            (Action::Help, "help"),
        ],
        Context::Segments => &[
            (Action::Open, "open"),
            (Action::ZoomIn, "in"),
            (Action::ZoomOut, "out"),
            (Action::GotoTime, "go to"),
            (Action::RangeStart, "range"),
            (Action::Keep, "keep"),
            (Action::CompareA, "A"),
            (Action::CompareB, "B"),
            (Action::Cancel, "back"),
            (Action::Help, "help"),
        ],
        _ => &[
            (Action::Open, "open"),
            (Action::Snapshot, "snapshot"),
            (Action::Mark, "mark"),
            (Action::Cancel, "back"),
            (Action::Help, "help"),
            (Action::Quit, "quit"),
        ],
    }
}
