//! The table of threads: titles, rows, the bar of states.

use super::columns::{self, Column};
use crate::tui::answers::{Crowd, Grouping};
use crate::tui::pen::Pen;
use crate::tui::state::{Pane, State};
use crate::tui::theme::Tone;
use crate::tui::widgets::states;
use crate::units::show;

/// Draws rule, titles and rows over the whole pen.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let view = &state.overview;
    let all = view.data.as_ref().map_or(0, |d| d.threads.len());
    draw_rule(state, pen, all);
    let columns = columns::fit(pen.w().saturating_sub(1));
    draw_titles(state, pen, &columns);
    let Some(data) = &view.data else { return };
    let seconds = data.window.map_or(1.0, |w| w.len() as f64 / 1e9);
    let rows = usize::from(pen.h().saturating_sub(2));
    for (i, &at) in view.order.iter().enumerate().skip(view.top).take(rows) {
        let Some(row) = data.threads.get(at as usize) else { continue };
        let y = 2 + u16::try_from(i - view.top).unwrap_or(0);
        for &(column, x, width) in &columns {
            let x = x + 1;
            if column == Column::States {
                states::draw_stacked(pen, x, y, width, &row.times);
                continue;
            }
            let (text, tone) = columns::cell(column, row, &state.labels, seconds, width);
            let mut style = pen.theme.style(tone);
            if column == Column::Name {
                style = name_style(row, state, pen);
            }
            if column.info().right {
                pen.right(x + width, y, width, &text, style);
            } else {
                pen.text(x, y, width, &text, style);
            }
        }
        if view.focus == Pane::Threads && i == view.row {
            let w = pen.w();
            pen.tint(0, y, w, Tone::Selected);
        }
    }
    if view.order.is_empty() {
        let text = if view.filter.is_empty() { "no threads in this window" } else { "no thread matches the filter" };
        let w = pen.w();
        pen.say(1, 2, w, text, Tone::Dim);
    }
}

fn name_style(row: &crate::sched::summary::ThreadRow, state: &State, pen: &Pen<'_>) -> ratatui::style::Style {
    if row.own {
        return pen.theme.style(Tone::Dim);
    }
    let process = state.labels.text(row.process);
    let name = if process.is_empty() { state.labels.text(row.name) } else { process };
    pen.theme.process(name)
}

fn draw_rule(state: &State, pen: &mut Pen<'_>, all: usize) {
    let view = &state.overview;
    let shown = view.order.len();
    let crowd = view.crowd;
    let [shown, all, threads] = [shown, all, crowd.threads].map(|n| show::grouped(n as u64));
    let some = if shown == all { all } else { format!("{shown} of {all}") };
    // Rows and threads are only the same where each thread has its own.
    let threads = match view.group {
        Grouping::Thread => format!("Threads {some}"),
        _ if some == "1" => format!("1 group of {threads} threads"),
        _ => format!("{some} groups of {threads} threads"),
    };
    let sort = format!("sort {} {}", view.sort.sort_word(), if view.descending { "▼" } else { "▲" });
    let group = if view.group == Grouping::Thread { String::new() } else { format!("by {}", view.group.name()) };
    let window = format!("window {}", show::span_words(state.window().len()));
    let filter = if view.filter.is_empty() { String::new() } else { format!("filter “{}”", view.filter) };
    let now = if pen.w() >= 110 {
        let Crowd { running, ready, pushed_off, blocked, .. } = crowd;
        format!("now {running} running, {ready} ready, {pushed_off} pushed off, {blocked} in D")
    } else {
        String::new()
    };
    pen.rule(0, &[&threads, &filter, &window, &sort, &group, &now]);
}

fn draw_titles(state: &State, pen: &mut Pen<'_>, columns: &[(Column, u16, u16)]) {
    for &(column, x, width) in columns {
        let info = column.info();
        let sorted = column == state.overview.sort;
        let tone = if sorted { Tone::Strong } else { Tone::Dim };
        let style = pen.theme.style(tone);
        if info.right {
            pen.right(x + 1 + width, 1, width, info.title, style);
        } else {
            pen.text(x + 1, 1, width, info.title, style);
        }
    }
}
