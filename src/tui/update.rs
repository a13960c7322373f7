//! What happens: `update` changes the [`State`] and says what should be done. No input, no output, no clock.
//!
//! [`keys`] turns keys into actions, [`go`] moves between screens, [`moves`] moves in time, [`lists`] moves in and
//! sorts lists, [`lines`] takes typed lines. Every change ends in [`settle`], which keeps selections and scroll
//! positions inside what there is, and in the questions the new state wants answered.

mod answers;
mod go;
mod keys;
mod lines;
mod lists;
mod moves;

pub use lists::resort;

use super::answers::{Ask, Page, Question, When};
use super::bounds::bounded;
use super::deeds::Deed;
use super::screens::{self, overview, timeline};
use super::state::{Effect, Msg, Popup, Screen, Slot, State};
use crate::sched::summary::Window;

/// Ticks after which the lists of files are looked at again while something records.
const LIST_AGAIN: u64 = 40;

/// Changes the state; says what should be done.
pub fn update(state: &mut State, msg: Msg) -> Vec<Effect> {
    let mut out = Vec::new();
    let mut tick = false;
    match msg {
        Msg::Key(key) => keys::press(state, key, &mut out),
        Msg::Click(x, y) => lists::click(state, x, y, &mut out),
        Msg::Wheel(x, y, up) => lists::wheel(state, x, y, up),
        Msg::Paste(text) => lines::paste(state, &text),
        Msg::Resize(w, h) => state.size = bounded((w, h)),
        Msg::Tick => {
            tick = true;
            state.ticks += 1;
            state.waiting = if state.main.open.is_some() { state.waiting.saturating_add(1) } else { 0 };
            if state.has_live && state.ticks.is_multiple_of(LIST_AGAIN) {
                list_again(state, &mut out);
            }
            if let Some(notice) = &mut state.notice {
                notice.ticks = notice.ticks.saturating_sub(1);
                if notice.ticks == 0 {
                    state.notice = None;
                }
            }
        }
        Msg::Answer(answer) => answers::take(state, *answer, &mut out),
        Msg::Done(done) => answers::done(state, done, &mut out),
        Msg::Terminate => out.push(Effect::Quit),
    }
    settle(state);
    ask_for_the_screen(state, tick, &mut out);
    out
}

/// The first questions, before anything happened.
pub fn start(state: &mut State) -> Vec<Effect> {
    let mut out = Vec::new();
    go::entered(state, &mut out);
    settle(state);
    ask_for_the_screen(state, true, &mut out);
    out
}

/// The question whose answer the screen on view draws, if the worker is the one to ask.
fn wanted(state: &State) -> Option<Ask> {
    let cursor = state.cursor();
    let when = if cursor.is_live() { When::Latest(cursor.span) } else { When::At(state.window()) };
    let (w, _) = state.size;
    match state.screen {
        Screen::Overview => {
            let plan = overview::plan(state);
            Some(Ask::Overview { when, cells: plan.cells.max(1), group: state.overview.group })
        }
        Screen::Thread(utid) => Some(Ask::Thread { utid, when, cells: w.saturating_sub(11).max(1) }),
        Screen::Cpu(cpu) => Some(Ask::Cpu { cpu, when, cells: w.saturating_sub(11).max(1) }),
        Screen::Timeline => Some(Ask::Timeline {
            when,
            // Two halves of a column are told apart.
            columns: timeline::track_columns(state).saturating_mul(2).max(2),
            tracks: state.timeline.tracks,
            page: page_on_view(state),
        }),
        Screen::Segments => growing_from(state).map(|from| Ask::Growing { from }),
        Screen::Snapshots => {
            state.snapshots.listed.growing.filter(|_| records(state)).map(|from| Ask::Growing { from })
        }
    }
}

/// Begin of the segment that the recorder writes now, if it is the newest of the list: a live model has its figures.
fn growing_from(state: &State) -> Option<u64> {
    let newest = state.segments.data.as_ref()?.segments.last()?;
    newest.window.filter(|_| newest.growing && records(state)).map(|window| window.from)
}

/// A recorder writes what the live model follows.
fn records(state: &State) -> bool {
    state.has_live && state.recorder.recording
}

/// The tracks on view and some more, which scrolling shows next. It moves on in steps of half a page, so that not each line
/// scrolled is a question.
fn page_on_view(state: &State) -> Page {
    let rows = timeline::track_rows(state).max(2);
    let step = rows / 2;
    let from = state.timeline.top / step * step;
    let at = |track: usize| u16::try_from(track).unwrap_or(u16::MAX);
    Page { limit: 1024, from: at(from), to: at(from + rows + step) }
}

/// Asks the screen's question when it changed, or when time went on under a live cursor. A slow answer slows the
/// screen's numbers down, never the keys.
fn ask_for_the_screen(state: &mut State, tick: bool, out: &mut Vec<Effect>) {
    let Some(ask) = wanted(state) else { return };
    // What grows does so whatever window is on view.
    let goes_on = state.cursor().is_live() || matches!(ask, Ask::Growing { .. });
    let moved_on = tick && goes_on && state.main.open.is_none();
    if moved_on || state.main.asked.as_ref() != Some(&ask) {
        post(state, ask, |s| &mut s.main, out);
    }
}

/// Sends a question; its answer will be known by the slot.
fn post(state: &mut State, ask: Ask, slot: impl Fn(&mut State) -> &mut Slot, out: &mut Vec<Effect>) {
    let id = state.next_id;
    state.next_id += 1;
    let generation = state.labels.generation();
    *slot(state) = Slot { asked: Some(ask.clone()), open: Some(id) };
    out.push(Effect::Ask(Question { id, generation, ask }));
}

/// Asks for a slice, a worst wait or a search hit; a later one replaces an earlier.
fn ask_pick(state: &mut State, ask: Ask, out: &mut Vec<Effect>) {
    state.timeline.along = None;
    post(state, ask, |s| &mut s.pick, out);
}

/// Asks for the chain of the selected wait.
fn ask_chain(state: &mut State, out: &mut Vec<Effect>) {
    let Some(slice) = &state.timeline.slice else { return };
    let span = slice.detail.span;
    let ask = Ask::Chain { utid: span.utid, at: span.start, within: state.window() };
    post(state, ask, |s| &mut s.chain, out);
}

/// Asks for the raw events around the selection: a millisecond on both sides, or its length if that is less.
fn ask_events(state: &mut State, out: &mut Vec<Effect>) {
    let Some(slice) = &state.timeline.slice else { return };
    let span = slice.detail.span;
    let end = span.end.unwrap_or(state.extent.to);
    let room = end.saturating_sub(span.start).clamp(10_000, 1_000_000);
    let within = Window { from: span.start.saturating_sub(room), to: end.saturating_add(room) };
    state.timeline.events.clear();
    post(state, Ask::Events { within }, |s| &mut s.events, out);
}

/// Asks a ready query of the window on view, or of the range that is chosen.
fn ask_query(state: &mut State, name: &'static str, out: &mut Vec<Effect>) {
    let within = moves::chosen_window(state);
    state.tell(format!("asking {name} …"));
    post(state, Ask::Query { name, within }, |s| &mut s.query, out);
}

/// Asks for the comparison of the two windows taken.
fn ask_comparison(state: &mut State, out: &mut Vec<Effect>) {
    let [Some(a), Some(b)] = state.compare else { return };
    post(state, Ask::Compare { a, b }, |s| &mut s.comparison, out);
}

/// Asks the keeper anew for the files that the screen on view lists.
fn list_again(state: &State, out: &mut Vec<Effect>) {
    match state.screen {
        Screen::Segments => ask_store(state, out),
        // Triggers and other clients take snapshots, too.
        Screen::Snapshots => out.push(Effect::Do(Deed::Kept)),
        _ => {}
    }
}

/// Asks the keeper for the store's time line as the segments screen wants it.
fn ask_store(state: &State, out: &mut Vec<Effect>) {
    let columns = screens::segments::columns(state.size.0);
    out.push(Effect::Do(Deed::Store { range: state.segments.range, columns }));
}

/// Keeps every selection and scroll position inside what there is to select and to see.
pub fn settle(state: &mut State) {
    let cap = |at: &mut usize, n: usize| *at = (*at).min(n.saturating_sub(1));
    lists::settle_overview(state);
    if let Some(data) = &state.thread.data {
        cap(&mut state.thread.row, data.worst.len());
    }
    if let Some(data) = &state.cpu.data {
        cap(&mut state.cpu.row, data.slices.len());
    }
    if let Some(data) = &state.timeline.data {
        cap(&mut state.timeline.track, data.tracks.len());
        let rows = timeline::track_rows(state);
        scroll(state.timeline.track, &mut state.timeline.top, rows, data.tracks.len());
    }
    if let Some(data) = &state.segments.data {
        cap(&mut state.segments.column, data.columns.len());
        cap(&mut state.segments.row, data.segments.len());
        let rows = screens::segments::list_rows(state.size);
        scroll(state.segments.row, &mut state.segments.top, rows, data.segments.len());
    }
    let kept = state.snapshots.kept.snapshots.len() + state.snapshots.kept.marks.len();
    cap(&mut state.snapshots.row, kept);
    let rows = usize::from(state.size.1.saturating_sub(6));
    scroll(state.snapshots.row, &mut state.snapshots.top, rows, kept);
    let rows = screens::thread::wait_rows(state);
    let n = state.thread.data.as_ref().map_or(0, |d| d.worst.len());
    scroll(state.thread.row, &mut state.thread.top, rows, n);
    let rows = screens::cpu::slice_rows(state.size);
    let n = state.cpu.data.as_ref().map_or(0, |d| d.slices.len());
    scroll(state.cpu.row, &mut state.cpu.top, rows, n);
    let page = usize::from(state.size.1.saturating_sub(6));
    if let Some(Popup::Help(top)) = state.popup {
        state.popup = Some(Popup::Help(top.min(screens::help::last_top(state))));
    }
    match &mut state.popup {
        Some(Popup::Compare { rows, top, .. }) => *top = (*top).min(rows.len().saturating_sub(page.max(1))),
        Some(Popup::Query { view, top }) => *top = (*top).min(view.rows.len().saturating_sub(page.max(1))),
        _ => {}
    }
}

/// Moves `top` just so far that row `at` is among the `rows` shown of `n`.
fn scroll(at: usize, top: &mut usize, rows: usize, n: usize) {
    if rows == 0 {
        return;
    }
    if at < *top {
        *top = at;
    }
    if at >= *top + rows {
        *top = at + 1 - rows;
    }
    *top = (*top).min(n.saturating_sub(rows));
}
