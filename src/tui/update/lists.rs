//! Selections, scrolling, sorting and filtering of lists; clicks and the wheel.

use super::{ask_pick, go, scroll};
use crate::sched::summary::{ThreadRow, TrackId};
use crate::tui::answers::Ask;
use crate::tui::fuzzy;
use crate::tui::labels::Labels;
use crate::tui::screens::columns::{self, COLUMNS, Column};
use crate::tui::screens::{overview, segments, timeline};
use crate::tui::state::{Effect, Pane, Popup, Screen, State};

/// Filters and sorts the table anew; the selection stays on its thread.
pub fn resort(state: &mut State) {
    let State { overview: view, labels, .. } = state;
    let Some(data) = &view.data else { return };
    let filter = view.filter.trim();
    let mut keyed: Vec<(fuzzy::Found, columns::SortKey, u32)> = Vec::with_capacity(data.threads.len());
    for (i, row) in data.threads.iter().enumerate() {
        if view.hide_own && row.own || row.utid == 0 {
            continue;
        }
        let found = if filter.is_empty() { Some(fuzzy::Found::Named) } else { found(filter, row, labels) };
        if let Some(found) = found {
            keyed.push((found, columns::sort_key(view.sort, row, labels), i as u32));
        }
    }
    let descending = view.descending;
    keyed.sort_by(|(found, a, i), (other, b, j)| {
        let by_key = columns::compare(a, b, descending);
        // Those whose name was meant come first. Equal rows keep one order for good, so that the table does not shimmer.
        other.cmp(found).then(by_key).then_with(|| data.threads[*i as usize].tid.cmp(&data.threads[*j as usize].tid))
    });
    view.order = keyed.into_iter().map(|(.., i)| i).collect();
    if let Some(utid) = view.selected
        && let Some(row) = view.order.iter().position(|&i| data.threads[i as usize].utid == utid)
    {
        view.row = row;
    }
}

/// Whether and how a filter finds a row.
fn found(filter: &str, row: &ThreadRow, labels: &Labels) -> Option<fuzzy::Found> {
    let name = columns::row_name(row, labels);
    let names = [&*name, labels.text(row.process), labels.text(row.name)];
    let (word, _) = columns::state_word(row.now);
    let tid = row.tid.to_string();
    let mut others = vec![&*tid, word, labels.text(row.cgroup)];
    others.extend(row.cmdline.iter().map(|argument| labels.text(*argument)));
    // The whole name is more than one column: pieces of it are found, letters scattered over it are not.
    match fuzzy::find_row(filter, &names[1..], &others) {
        None => fuzzy::find_row(filter, &[], &names[..1]),
        found => found,
    }
}

/// Keeps the overview's selections inside its lists.
pub fn settle_overview(state: &mut State) {
    let plan = overview::plan(state);
    let view = &mut state.overview;
    let Some(data) = &view.data else { return };
    view.row = view.row.min(view.order.len().saturating_sub(1));
    view.cpu = view.cpu.min(data.cpus.len().saturating_sub(1));
    view.finding = view.finding.min(data.findings.len().saturating_sub(1));
    if view.focus == Pane::Findings && data.findings.is_empty() {
        view.focus = Pane::Threads;
    }
    scroll(view.row, &mut view.top, plan.thread_rows, view.order.len());
    if plan.dense {
        view.cpu_top = 0;
    } else {
        let per_line = usize::from(plan.per_line.max(1));
        let lines = data.cpus.len().div_ceil(per_line);
        scroll(view.cpu / per_line, &mut view.cpu_top, usize::from(plan.cpu_rows), lines);
    }
}

/// One up or down.
pub fn step(state: &mut State, by: i64, out: &mut Vec<Effect>) {
    let moved = |at: usize| usize::try_from((at as i64).saturating_add(by).max(0)).unwrap_or(usize::MAX);
    match &mut state.popup {
        Some(Popup::Help(top) | Popup::Compare { top, .. } | Popup::Query { top, .. }) => {
            *top = moved(*top);
            return;
        }
        Some(Popup::Prompt(_)) => return,
        None => {}
    }
    match state.screen {
        Screen::Overview => match state.overview.focus {
            Pane::Threads => select_row(state, moved(state.overview.row)),
            Pane::Findings => state.overview.finding = moved(state.overview.finding),
            Pane::Cpus => {
                let plan = overview::plan(state);
                let width = if plan.dense { plan.grid_line } else { usize::from(plan.per_line) }.max(1) as i64;
                grid_step(state, by.saturating_mul(width));
            }
        },
        Screen::Thread(_) => state.thread.row = moved(state.thread.row),
        Screen::Cpu(_) => state.cpu.row = moved(state.cpu.row),
        Screen::Timeline => {
            let n = state.timeline.data.as_ref().map_or(0, |d| d.tracks.len());
            state.timeline.track = moved(state.timeline.track).min(n.saturating_sub(1));
            pick_on_track(state, out);
        }
        Screen::Segments => {
            state.segments.row = moved(state.segments.row);
            column_of_segment(state);
        }
        Screen::Snapshots => state.snapshots.row = moved(state.snapshots.row),
    }
}

/// One page up or down.
pub fn page(state: &mut State, direction: i64, out: &mut Vec<Effect>) {
    let rows = match state.screen {
        Screen::Overview => overview::plan(state).thread_rows,
        _ => usize::from(state.size.1 / 2),
    };
    step(state, direction * i64::try_from(rows.max(1)).unwrap_or(1), out);
}

/// To the first or last row.
pub fn to_end(state: &mut State, last: bool, out: &mut Vec<Effect>) {
    step(state, if last { i64::from(u32::MAX) } else { -i64::from(u32::MAX) }, out);
}

fn select_row(state: &mut State, row: usize) {
    let row = row.min(state.overview.order.len().saturating_sub(1));
    state.overview.row = row;
    state.overview.selected = state.selected_thread().map(|r| r.utid);
}

/// Moves the CPU cursor.
pub fn grid_step(state: &mut State, by: i64) {
    let n = state.overview.data.as_ref().map_or(0, |d| d.cpus.len());
    let at = (state.overview.cpu as i64).saturating_add(by).clamp(0, n.saturating_sub(1) as i64);
    state.overview.cpu = at as usize;
}

/// To the next part of the overview, or the one before.
pub fn focus(state: &mut State, forward: bool) {
    if state.screen != Screen::Overview {
        return;
    }
    let has_findings = state.overview.data.as_ref().is_some_and(|d| !d.findings.is_empty());
    let panes: &[Pane] =
        if has_findings { &[Pane::Cpus, Pane::Findings, Pane::Threads] } else { &[Pane::Cpus, Pane::Threads] };
    let at = panes.iter().position(|p| *p == state.overview.focus).unwrap_or(0);
    let n = panes.len();
    state.overview.focus = panes[if forward { (at + 1) % n } else { (at + n - 1) % n }];
}

/// Sorts by a neighbour of the column it is sorted by, among those on screen.
pub fn sort_by_neighbour(state: &mut State, forward: bool) {
    let shown: Vec<Column> = columns::fit(state.size.0).into_iter().map(|(c, ..)| c).collect();
    let sortable: Vec<Column> = if shown.is_empty() { COLUMNS.iter().map(|c| c.column).collect() } else { shown };
    let n = sortable.len();
    let at = sortable.iter().position(|c| *c == state.overview.sort).unwrap_or(0);
    let to = sortable[if forward { (at + 1) % n } else { (at + n - 1) % n }];
    sort_by(state, to);
}

fn sort_by(state: &mut State, column: Column) {
    let view = &mut state.overview;
    if view.sort == column {
        view.descending = !view.descending;
    } else {
        view.sort = column;
        // Names are read from A, numbers from the largest.
        view.descending = !matches!(column, Column::Name | Column::Tid | Column::Waker | Column::Cgroup | Column::Cpu);
    }
    resort(state);
}

/// Asks for what stands on the selected track in the middle of the window (or where the last pick was).
pub fn pick_on_track(state: &mut State, out: &mut Vec<Effect>) {
    let Some(track) = state.timeline.data.as_ref().and_then(|d| d.tracks.get(state.timeline.track)).map(|t| t.id)
    else {
        return;
    };
    let window = state.timeline.cursor.window(state.extent.to);
    let middle = window.from + (window.to - window.from) / 2;
    let at = state
        .timeline
        .slice
        .as_ref()
        .map(|s| s.detail.span.start)
        .filter(|at| (window.from..window.to).contains(at))
        .unwrap_or(middle);
    ask_pick(state, Ask::Slice { track, at, step: 0 }, out);
}

/// The segment under the column cursor becomes the selected row.
pub fn segment_under_column(state: &mut State) {
    let Some(data) = &state.segments.data else { return };
    let span = data.to_real.saturating_sub(data.from_real);
    let n = data.columns.len().max(1) as u64;
    let real = data.from_real + (u128::from(span) * u128::from(state.segments.column as u64) / u128::from(n)) as u64;
    let at = data.segments.partition_point(|s| s.from_real <= real).saturating_sub(1);
    state.segments.row = data.segments.len().saturating_sub(at + 1);
}

fn column_of_segment(state: &mut State) {
    let Some(from) = state.selected_segment().map(|s| s.from_real) else { return };
    let Some(data) = &state.segments.data else { return };
    let span = u128::from(data.to_real.saturating_sub(data.from_real).max(1));
    let n = data.columns.len();
    let at = u128::from(from.saturating_sub(data.from_real)) * n as u128 / span;
    state.segments.column = (at as usize).min(n.saturating_sub(1));
}

/// A click selects; a click on what is selected opens it.
pub fn click(state: &mut State, x: u16, y: u16, out: &mut Vec<Effect>) {
    if state.popup.is_some() {
        if !matches!(state.popup, Some(Popup::Prompt(_))) {
            state.popup = None;
        }
        return;
    }
    match state.screen {
        Screen::Overview => match overview::hit(state, x, y) {
            Some(overview::Hit::Thread(row)) => {
                let again = state.overview.focus == Pane::Threads && state.overview.row == row;
                state.overview.focus = Pane::Threads;
                select_row(state, row);
                if again {
                    go::open(state, out);
                }
            }
            Some(overview::Hit::Cpu(cpu)) => {
                let again = state.overview.focus == Pane::Cpus && state.overview.cpu == cpu;
                state.overview.focus = Pane::Cpus;
                state.overview.cpu = cpu;
                if again {
                    go::open(state, out);
                }
            }
            Some(overview::Hit::Finding(at)) => go::finding(state, at, out),
            Some(overview::Hit::Title(column)) => sort_by(state, column),
            None => {}
        },
        Screen::Timeline => {
            if let Some((row, at)) = timeline::hit(state, x, y) {
                state.timeline.track = row;
                let track = state.timeline.data.as_ref().and_then(|d| d.tracks.get(row)).map(|t| t.id);
                if let Some(track @ (TrackId::Cpu(_) | TrackId::Thread(_))) = track {
                    ask_pick(state, Ask::Slice { track, at, step: 0 }, out);
                }
            }
        }
        Screen::Segments => match segments::hit(state, x, y) {
            Some(segments::Hit::Column(column)) => {
                state.segments.column = column;
                segment_under_column(state);
            }
            Some(segments::Hit::Row(row)) => {
                let again = state.segments.row == row;
                state.segments.row = row;
                if again {
                    go::open(state, out);
                }
            }
            None => {}
        },
        Screen::Thread(_) | Screen::Cpu(_) | Screen::Snapshots => {}
    }
}

/// Three rows a notch, in the part under the pointer; on the time line it goes through the tracks.
pub fn wheel(state: &mut State, x: u16, y: u16, up: bool) {
    let by = if up { -3 } else { 3 };
    if state.popup.is_none() && state.screen == Screen::Overview {
        match overview::hit(state, x, y) {
            Some(overview::Hit::Cpu(_)) => state.overview.focus = Pane::Cpus,
            Some(overview::Hit::Thread(_)) => state.overview.focus = Pane::Threads,
            _ => {}
        }
    }
    // Wheeling never asks for details: a fast wheel would flood the worker with picks.
    step(state, by, &mut Vec::new());
}
