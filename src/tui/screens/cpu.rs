//! The CPU screen: who used it, how long its queue was, what ran last.

use super::columns;
use super::thread::draw_shares;
use crate::sched::summary::CpuDetail;
use crate::time::Digits;
use crate::tui::pen::Pen;
use crate::tui::state::{Screen, State};
use crate::tui::theme::Tone;
use crate::tui::widgets::lanes::Share as Depth;
use crate::tui::widgets::{header, lanes};
use crate::units::show;

/// Rows of the list of slices for a terminal of this size.
pub fn slice_rows(size: (u16, u16)) -> usize {
    // At most three header lines; rule, lane, queue, interrupts, rule of the list, hints.
    usize::from(size.1.saturating_sub(2 + 7))
}

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h().saturating_sub(1));
    let top = header::height(state).min(h);
    header::draw(state, &mut pen.part(0, 0, w, top));
    let mut pen = pen.part(0, top, w, h.saturating_sub(top));
    let title = if let Screen::Cpu(cpu) = state.screen { format!("CPU {cpu}") } else { String::new() };
    let Some(data) = &state.cpu.data else {
        pen.rule(0, &[&title]);
        pen.say(1, 1, w, "reading …", Tone::Dim);
        return;
    };
    let row = &data.row;
    let node = format!("node {}", row.node);
    let online = if row.online { "" } else { "offline" };
    let busy = format!("busy {}", row.busy.map_or(show::UNKNOWN.into(), show::percent));
    let ready = format!("{:.1} ready on average, {} now", data.ready_avg, row.ready_now);
    let window = data.window.unwrap_or_else(|| state.window());
    let seconds = window.len() as f64 / 1e9;
    let switches = format!("{} switches/s", columns::brief(data.switches as f64 / seconds.max(1e-9)));
    pen.rule(0, &[&title, &node, online, &busy, &ready, &switches]);
    draw_lanes(state, data, &mut pen);
    let y = 4;
    let list_w = if w >= 100 { 40 } else { 0 };
    let rest = pen.h().saturating_sub(y);
    if list_w > 0 {
        draw_shares(&mut pen.part(0, y, list_w, rest), "used by", &data.used_by, &state.labels);
    }
    draw_slices(state, data, &mut pen.part(list_w, y, w - list_w, rest));
}

fn draw_lanes(state: &State, data: &CpuDetail, pen: &mut Pen<'_>) {
    let w = pen.w();
    let room = w.saturating_sub(11);
    let cells = &data.row.cells;
    let gaps = lanes::gap_cells(data.window.unwrap_or_else(|| state.window()), &data.gaps, cells.len());
    pen.say(1, 1, 9, "busy", Tone::Dim);
    lanes::draw(&mut pen.part(10, 1, room, 1), 0, 0, room, cells, &gaps, &state.labels);
    let most = cells.iter().map(|c| c.ready_max).max().unwrap_or(0);
    pen.say(1, 2, 9, "ready", Tone::Dim);
    let first = cells.len().saturating_sub(usize::from(room));
    let shown = &cells[first..];
    let offset = 10 + room.saturating_sub(u16::try_from(shown.len()).unwrap_or(room));
    let depth = shown.iter().zip(&gaps[first..]).map(|(c, gap)| match c.busy {
        _ if c.loss || *gap => Depth::Lost,
        None => Depth::Unknown,
        Some(_) => Depth::Of(f32::from(c.ready_max) / f32::from(most.max(1))),
    });
    lanes::draw_share(&mut pen.part(0, 2, w, 1), offset, 0, depth, Tone::Ready);
    let text = match data.irq_ns {
        Some(ns) => {
            let window = data.window.map_or(0, |w| w.len()).max(1);
            format!("interrupts {} ({})", show::span(ns), show::percent(ns as f64 / window as f64))
        }
        None => "interrupts are not recorded (category irq)".to_string(),
    };
    pen.say(1, 3, w, &format!("longest queue {most} · {text}"), Tone::Dim);
}

fn draw_slices(state: &State, data: &CpuDetail, pen: &mut Pen<'_>) {
    let w = pen.w();
    pen.rule(0, &["last slices", "newest first", "⏎ on the time line"]);
    let rows = usize::from(pen.h().saturating_sub(1));
    for (i, span) in data.slices.iter().enumerate().skip(state.cpu.top).take(rows) {
        let y = 1 + u16::try_from(i - state.cpu.top).unwrap_or(0);
        let at = state.clock_text(span.start, Digits::Micros);
        let length = span.end.map_or("runs".to_string(), |end| show::span(end.saturating_sub(span.start)));
        let x = 1 + pen.pieces(1, y, w, &[(&at, Tone::Dim), (&format!(" {length:>7}  "), Tone::Text)]);
        let style = if span.utid == 0 {
            pen.theme.style(Tone::Dim)
        } else {
            pen.theme.process(state.labels.process_of(span.utid))
        };
        let x = x + pen.text(x, y, w.saturating_sub(x + 8), &state.labels.full(span.utid), style);
        if let Some(end) = span.end_state
            && span.utid != 0
        {
            pen.say(x, y, w.saturating_sub(x), &format!("  → {}", end.letters()), Tone::Dim);
        }
        if i == state.cpu.row {
            pen.tint(0, y, w, Tone::Selected);
        }
    }
    if data.slices.is_empty() {
        pen.say(1, 1, w, "nothing is known of it in this window", Tone::Dim);
    }
}
