//! The time line: CPUs and threads as tracks, from an hour down to a microsecond.

use super::details;
use crate::sched::summary::{TrackId, Window};
use crate::time::{self, Digits};
use crate::tui::answers::{TimelineView, Track};
use crate::tui::pen::Pen;
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::{gantt, header};
use crate::units::show;

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    header: u16,
    /// Columns of the tracks' names.
    label: u16,
    /// Columns of the tracks.
    columns: u16,
    /// Lines of tracks.
    tracks: u16,
    /// A line of marks below them.
    marks: bool,
    /// Lines about the selection, rule included.
    details: u16,
}

fn plan(state: &State) -> Plan {
    let (w, h) = state.size;
    let header = header::height(state).min(h);
    let label = match w {
        0..=39 => 8,
        40..=79 => 15,
        80..=99 => 21,
        100..=159 => 24,
        _ => 30,
    };
    let body = h.saturating_sub(header + 1 + 1);
    let lines = details::lines_wanted(state, w);
    let more = state.timeline.show_chain || state.timeline.show_events;
    let wanted = if more { lines.max(body / 2) } else { lines };
    let details = wanted.min(body.saturating_sub(4)).min(body / 2 + 1);
    let marks = state.timeline.data.as_ref().is_some_and(|d| !d.marks.is_empty()) && body > details + 2;
    Plan {
        header,
        label,
        columns: w.saturating_sub(label + 1),
        tracks: body.saturating_sub(details + u16::from(marks)),
        marks,
        details,
    }
}

/// Columns of a track.
pub fn track_columns(state: &State) -> u16 {
    plan(state).columns
}

/// Tracks that have a line.
pub fn track_rows(state: &State) -> usize {
    usize::from(plan(state).tracks)
}

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let plan = plan(state);
    let w = pen.w();
    header::draw(state, &mut pen.part(0, 0, w, plan.header));
    let y = plan.header;
    let window = shown_window(state);
    draw_axis(state, &mut pen.part(0, y, w, 1), &plan, window);
    let Some(data) = &state.timeline.data else {
        pen.say(1, y + 1, w, "reading …", Tone::Dim);
        return;
    };
    let rows = usize::from(plan.tracks);
    for (i, track) in data.tracks.iter().enumerate().skip(state.timeline.top).take(rows) {
        let y = y + 1 + u16::try_from(i - state.timeline.top).unwrap_or(0);
        draw_track(state, data, &plan, &mut pen.part(0, y, w, 1), track, i == state.timeline.track);
    }
    if data.tracks.is_empty() {
        pen.say(1, y + 1, w, "nothing is known of this stretch", Tone::Dim);
    }
    let y = y + 1 + plan.tracks;
    if plan.marks {
        draw_marks(data, &plan, &mut pen.part(0, y, w, 1), window);
    }
    let y = y + u16::from(plan.marks);
    details::draw(state, &mut pen.part(0, y, w, plan.details));
}

/// The window the tracks are of: that of the data, which may lag behind the cursor for a moment.
fn shown_window(state: &State) -> Window {
    state.timeline.data.as_ref().and_then(|d| d.window).unwrap_or_else(|| state.window())
}

fn draw_axis(state: &State, pen: &mut Pen<'_>, plan: &Plan, window: Window) {
    let style = pen.theme.style(Tone::Rule);
    let w = pen.w();
    pen.fill(0, 0, w, '─', style);
    let scale = format!(" {} ", show::span(window.len()));
    pen.say(0, 0, plan.label.saturating_sub(1), &scale, Tone::Title);
    let offset = state.clock.to_real(window.from).wrapping_sub(window.from);
    let (ticks, step) = gantt::ticks(window, plan.columns, 16, offset);
    let digits = match step {
        1_000_000_000.. => Digits::Seconds,
        1_000_000.. => Digits::Millis,
        1_000.. => Digits::Micros,
        _ => Digits::Nanos,
    };
    for (column, at) in ticks {
        let x = plan.label + 1 + column;
        pen.cell(x, 0, '┬', style);
        let text = tick_text(state, at, digits);
        // A tick too near to the edge keeps its line but not its words.
        if x + 2 + u16::try_from(text.len()).unwrap_or(w) < w {
            pen.say(x + 1, 0, w.saturating_sub(x + 1), &text, Tone::Dim);
        }
    }
}

/// Whole seconds as a clock; finer ones without the hour, which the header has.
fn tick_text(state: &State, at: u64, digits: Digits) -> String {
    if state.clock.is_empty() {
        return state.clock_text(at, digits);
    }
    let full = time::clock(state.clock.to_real(at), &state.zone, digits);
    if digits == Digits::Seconds { full } else { full.get(3..).map_or(full.clone(), str::to_string) }
}

fn draw_track(state: &State, data: &TimelineView, plan: &Plan, pen: &mut Pen<'_>, track: &Track, selected: bool) {
    let (name, style) = match track.id {
        TrackId::Cpu(cpu) => (format!("CPU {cpu}"), pen.theme.style(Tone::Strong)),
        TrackId::Thread(utid) => (
            state.labels.with_tid_in(utid, plan.label.saturating_sub(1)),
            pen.theme.process(state.labels.process_of(utid)),
        ),
        TrackId::Marks(utid) => (format!("marks of {}", state.labels.thread(utid)), pen.theme.style(Tone::Mark)),
    };
    pen.text(1, 0, plan.label.saturating_sub(1), &name, style);
    if selected {
        pen.tint(0, 0, plan.label, Tone::Selected);
    }
    let window = data.window.unwrap_or_else(|| state.window());
    let x = plan.label + 1;
    let picked = state.timeline.slice.as_ref().filter(|s| s.track == track.id).map(|s| s.detail.span.start);
    let Some(spans) = &track.spans else {
        // Scrolled to faster than the answer comes.
        pen.say(x, 0, plan.columns, "…", Tone::Dim);
        return;
    };
    let drawn = gantt::Track { window, spans, edge: state.extent.to, labels: &state.labels, selected: picked };
    match track.id {
        TrackId::Cpu(_) => gantt::draw_cpu(pen, x, 0, plan.columns, &drawn),
        TrackId::Thread(_) | TrackId::Marks(_) => gantt::draw_thread(pen, x, 0, plan.columns, &drawn),
    }
    if data.valid_from > window.from {
        // Not all CPUs are covered before this: what stands there is not the whole truth.
        let before = Window { from: window.from, to: data.valid_from };
        if let Some((first, last)) = gantt::columns_of(plan.columns, window, before) {
            pen.tint(x + first, 0, last - first + 1, Tone::Unknown);
        }
    }
    for gap in &data.gaps {
        gantt::hatch(pen, x, 0, plan.columns, window, *gap);
    }
    if let TrackId::Cpu(cpu) = track.id {
        for (_, loss) in data.losses.iter().filter(|(c, _)| *c == cpu) {
            gantt::hatch(pen, x, 0, plan.columns, window, *loss);
        }
    }
}

fn draw_marks(data: &TimelineView, plan: &Plan, pen: &mut Pen<'_>, window: Window) {
    pen.say(1, 0, plan.label.saturating_sub(1), "marks", Tone::Mark);
    let mut free_from = 0;
    let columns: Vec<(u16, &str)> = data
        .marks
        .iter()
        .filter(|(at, _)| *at >= window.from && *at < window.to)
        .map(|(at, text)| {
            let column = window.cell_of(*at, usize::from(plan.columns.max(1)));
            (u16::try_from(column).unwrap_or(0), &**text)
        })
        .collect();
    for (i, (column, text)) in columns.iter().enumerate() {
        let x = plan.label + 1 + column;
        let style = pen.theme.style(Tone::Mark);
        pen.cell(x, 0, '▌', style);
        let next = columns.get(i + 1).map_or(plan.columns, |(c, _)| *c);
        // A name is written only where it hides no other mark.
        if *column >= free_from && next > column + 2 {
            let used = pen.text(x + 1, 0, next - column - 1, text, style);
            free_from = column + 1 + used;
        }
    }
}

/// The track and the instant at a cell.
pub fn hit(state: &State, x: u16, y: u16) -> Option<(usize, u64)> {
    let plan = plan(state);
    let data = state.timeline.data.as_ref()?;
    let row = usize::from(y.checked_sub(plan.header + 1)?);
    if row >= usize::from(plan.tracks) {
        return None;
    }
    let row = state.timeline.top + row;
    data.tracks.get(row)?;
    let window = shown_window(state);
    let column = usize::from(x.saturating_sub(plan.label + 1));
    let cell = window.cell(column.min(usize::from(plan.columns).saturating_sub(1)), usize::from(plan.columns.max(1)));
    Some((row, cell.from + cell.len() / 2))
}
