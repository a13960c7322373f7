//! Moves in time: pause, step, windows, zoom, ranges, jumps.

use super::{ask_store, lists};
use crate::sched::summary::Window;
use crate::time::{Digits, Point, Reference};
use crate::tui::cursor::{Cursor, Mode};
use crate::tui::state::{Effect, Pane, Screen, State};

const SECOND: u64 = 1_000_000_000;
/// The windows that `next-window` goes through.
const WINDOWS: [u64; 3] = [10 * SECOND, 60 * SECOND, 600 * SECOND];
/// The time line shows at most an hour at once; more is the segments screen's.
const LONGEST: u64 = 3600 * SECOND;

/// Space.
pub fn pause(state: &mut State) {
    let (edge, live) = (state.extent.to, state.has_live);
    state.cursor_mut().toggle_pause(edge, live);
    if !live {
        state.tell("there is no live recording here to go on with");
    }
}

/// Back to now.
pub fn live(state: &mut State) {
    if state.has_live {
        state.cursor_mut().mode = Mode::Live;
    } else {
        let end = state.extent.to;
        state.cursor_mut().mode = Mode::Replay { at: end };
    }
}

/// A part of the window back or forward.
pub fn step(state: &mut State, direction: i64, part: u64) {
    let (edge, extent) = (state.extent.to, state.extent);
    let cursor = state.cursor_mut();
    let by = i64::try_from((cursor.span / part).max(1)).unwrap_or(i64::MAX);
    cursor.step(direction * by, edge, extent);
}

/// 10 s, 60 s, 10 min.
pub fn next_window(state: &mut State) {
    let span = state.cursor().span;
    let next = WINDOWS.iter().find(|w| **w > span).or(WINDOWS.first()).copied().unwrap_or(span);
    state.cursor_mut().span = next;
}

/// Left and right: cells in the grid, columns in the segments, time elsewhere.
pub fn sideways(state: &mut State, direction: i64) {
    match state.screen {
        Screen::Overview if state.overview.focus == Pane::Cpus => lists::grid_step(state, direction),
        Screen::Segments => {
            let n = state.segments.data.as_ref().map_or(0, |d| d.columns.len());
            let at = state.segments.column as i64 + direction;
            state.segments.column = usize::try_from(at.max(0)).unwrap_or(0).min(n.saturating_sub(1));
            lists::segment_under_column(state);
        }
        Screen::Snapshots => {}
        _ => step(state, direction, 10),
    }
}

/// Zoom by two, around the selection or the middle.
pub fn zoom(state: &mut State, into: bool, out: &mut Vec<Effect>) {
    if state.screen == Screen::Segments {
        zoom_segments(state, into);
        ask_store(state, out);
        return;
    }
    let edge = state.extent.to;
    let window = state.timeline.cursor.window(edge);
    let middle = window.from + (window.to - window.from) / 2;
    let keep = state
        .timeline
        .slice
        .as_ref()
        .map(|s| s.detail.span.start)
        .filter(|at| (window.from..window.to).contains(at))
        .unwrap_or(middle);
    if into && state.timeline.cursor.is_live() {
        // Zooming into a moving window would chase it: stand still at what is on view.
        state.timeline.cursor.mode = Mode::Paused { at: edge };
    }
    let (num, den) = if into { (1, 2) } else { (2, 1) };
    state.timeline.cursor.zoom(num, den, keep, edge, LONGEST);
}

fn zoom_segments(state: &mut State, into: bool) {
    let Some(data) = &state.segments.data else { return };
    let (from, to) = (data.from_real, data.to_real.max(data.from_real + 1));
    let n = data.columns.len().max(1) as u64;
    let span = to - from;
    let eye = from + (u128::from(span) * u128::from(state.segments.column as u64) / u128::from(n)) as u64;
    let (oldest, newest) = data.all_real;
    let wanted = if into { (span / 2).max(60 * SECOND) } else { span.saturating_mul(2) };
    if wanted >= newest.saturating_sub(oldest) {
        state.segments.range = None;
        return;
    }
    let before = (u128::from(eye - from) * u128::from(wanted) / u128::from(span)) as u64;
    let from = eye.saturating_sub(before).clamp(oldest, newest.saturating_sub(wanted).max(oldest));
    state.segments.range = Some((from, from.saturating_add(wanted)));
}

/// Zooms so that the selected slice fills a third of the window.
pub fn zoom_selection(state: &mut State) {
    let Some(slice) = &state.timeline.slice else {
        state.tell("select a slice first (n, p, or a click)");
        return;
    };
    let span = slice.detail.span;
    let end = span.end.unwrap_or(state.extent.to);
    let length = end.saturating_sub(span.start);
    state.timeline.cursor.span = length.saturating_mul(3).clamp(crate::tui::cursor::MIN_SPAN, LONGEST);
    state.timeline.cursor.center(span.start + length / 2);
}

/// `v`: one end of a range is here.
pub fn range_start(state: &mut State) {
    if state.screen == Screen::Segments {
        state.segments.range_start = column_real(state);
    } else {
        let window = state.window();
        let here = state.timeline.slice.as_ref().map_or(window.from, |s| s.detail.span.start);
        state.timeline.range_start = Some(here);
    }
    let keep = state.hint(crate::tui::actions::Action::Keep);
    state.tell(format!("the range begins here; move on, then {keep} keeps it as a snapshot"));
}

/// The begin of the segments screen's column under the cursor, ns since 1970.
fn column_real(state: &State) -> Option<u64> {
    let data = state.segments.data.as_ref()?;
    let n = data.columns.len().max(1) as u64;
    let span = data.to_real.saturating_sub(data.from_real);
    Some(data.from_real + (u128::from(span) * u128::from(state.segments.column as u64) / u128::from(n)) as u64)
}

/// What keep and compare are about: the chosen range, else the selected segment, else the window on view.
pub fn chosen_window(state: &State) -> Window {
    match state.screen {
        Screen::Segments => {
            let boot = |real: u64| state.clock.first_at_or_after(real);
            match (state.segments.range_start, column_real(state)) {
                (Some(a), Some(b)) => {
                    let data = state.segments.data.as_ref();
                    let column = data.map_or(0, |d| (d.to_real - d.from_real) / d.columns.len().max(1) as u64);
                    Window { from: boot(a.min(b)), to: boot(a.max(b).saturating_add(column)) }
                }
                _ => match state.selected_segment().and_then(|s| s.window) {
                    Some(window) => window,
                    None => state.window(),
                },
            }
        }
        Screen::Timeline => {
            let window = state.window();
            match state.timeline.range_start {
                Some(a) => {
                    let here = state
                        .timeline
                        .slice
                        .as_ref()
                        .map_or(window.to, |s| s.detail.span.end.unwrap_or(state.extent.to));
                    Window { from: a.min(here), to: a.max(here) }
                }
                None => window,
            }
        }
        _ => state.window(),
    }
}

/// Jumps to a typed time.
pub fn goto(state: &mut State, text: &str, out: &mut Vec<Effect>) {
    let now = state.recorder.now_real.max(state.clock.to_real(state.extent.to));
    let on_view = match (state.screen, &state.segments.data) {
        (Screen::Segments, Some(data)) => data.to_real,
        _ => state.clock.to_real(state.window().to),
    };
    let at = Reference { now, on_view: Some(on_view), zone: state.zone.clone() };
    let real = match crate::time::point(text, &at) {
        Ok(Point::One(real)) => real,
        Ok(Point::Twice(first, second)) => {
            let later = crate::time::local(second, &state.zone, Digits::Seconds);
            state.tell(format!("that time occurs twice; this is the first, the second is {later}"));
            first
        }
        Err(e) => {
            state.complain(e.to_string());
            return;
        }
    };
    if state.screen == Screen::Segments {
        to_column(state, real, out);
        return;
    }
    let extent = state.extent;
    let within = |boot: &u64| (extent.from..=extent.to).contains(boot);
    let Some(boot) = state.clock.to_boot(real).into_iter().find(within) else {
        let (from, to) = (state.clock_text(extent.from, Digits::Seconds), state.clock_text(extent.to, Digits::Seconds));
        state.complain(format!("{text} is outside of what is here: {from} to {to}"));
        return;
    };
    let screen = state.screen;
    let cursor = state.cursor_mut();
    cursor.center(boot);
    if screen != Screen::Timeline {
        let window = cursor.window(extent.to);
        let to = window.to.min(extent.to).max(extent.from.saturating_add(cursor.span));
        *cursor = Cursor { mode: Mode::Replay { at: to }, span: cursor.span };
    }
}

fn to_column(state: &mut State, real: u64, out: &mut Vec<Effect>) {
    let Some(data) = &state.segments.data else { return };
    let (oldest, newest) = data.all_real;
    if real < oldest || real > newest {
        state.complain("no segment of that time is left");
        return;
    }
    if !(data.from_real..data.to_real).contains(&real) {
        let span = data.to_real - data.from_real;
        let from = real.saturating_sub(span / 2).clamp(oldest, newest.saturating_sub(span).max(oldest));
        state.segments.range = Some((from, from.saturating_add(span)));
        ask_store(state, out);
        return;
    }
    let (n, span) = (data.columns.len() as u128, u128::from((data.to_real - data.from_real).max(1)));
    state.segments.column = (u128::from(real - data.from_real) * n / span) as usize;
    lists::segment_under_column(state);
}
