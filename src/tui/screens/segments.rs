//! The segments screen: the store over hours, drawn from footers alone, and the list of its segments.

use crate::time::{self, Digits};
use crate::tui::deeds::{SegmentRow, StoreView};
use crate::tui::pen::{self, Pen};
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::lanes::Share;
use crate::tui::widgets::{gantt, header, lanes};
use crate::units::show;

/// Columns left of the graphs.
const LABEL: u16 = 9;
/// Columns right of the graphs: the range's greatest.
const RIGHT: u16 = 12;
const SECOND: u64 = 1_000_000_000;
/// Lines of the graphs: busy, ready, D, worst, marks, axis.
const GRAPHS: u16 = 6;

/// Columns of the graphs at a terminal width.
pub fn columns(width: u16) -> u16 {
    width.saturating_sub(LABEL + RIGHT).max(1)
}

/// Rows of the list at a terminal size.
pub fn list_rows(size: (u16, u16)) -> usize {
    // At most three header lines; rule, graphs, rule of the list, titles, hints.
    usize::from(size.1.saturating_sub(2 + 1 + GRAPHS + 3))
}

/// Files of other tools, and ours that were cut, say what they hold only to whoever reads them whole.
const NOT_PLACED: &str = "has no footer that says what it holds";
/// Where to look instead.
const ELSEWHERE: &str = "the overview and the time line show it; here a store has its segments";

/// What is under the pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// A column of the graphs.
    Column(usize),
    /// A row of the list, from the newest.
    Row(usize),
}

/// What is under the pointer.
pub fn hit(state: &State, x: u16, y: u16) -> Option<Hit> {
    let top = header::height(state);
    let data = state.segments.data.as_ref()?;
    let y = y.checked_sub(top + 1)?;
    if y < GRAPHS {
        let column = usize::from(x.checked_sub(LABEL)?);
        return (column < data.columns.len()).then_some(Hit::Column(column));
    }
    let row = usize::from(y.checked_sub(GRAPHS + 2)?) + state.segments.top;
    (row < data.segments.len() && usize::from(y) < usize::from(GRAPHS) + 2 + list_rows(state.size))
        .then_some(Hit::Row(row))
}

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h().saturating_sub(1));
    let top = header::height(state).min(h);
    header::draw(state, &mut pen.part(0, 0, w, top));
    let mut pen = pen.part(0, top, w, h.saturating_sub(top));
    let Some(data) = &state.segments.data else {
        pen.rule(0, &["Segments"]);
        pen.say(1, 1, w, "reading footers …", Tone::Dim);
        return;
    };
    if data.single && data.segments.is_empty() {
        // No time that anything could be drawn over.
        pen.rule(0, &["Files", "not a store"]);
        for (y, path) in (1..).zip(&data.unplaced) {
            pen.say(1, y, w.saturating_sub(1), &format!("{path} {NOT_PLACED}"), Tone::Text);
        }
        pen.say(1, 1 + u16::try_from(data.unplaced.len()).unwrap_or(u16::MAX - 1), w, ELSEWHERE, Tone::Dim);
        return;
    }
    draw_rule(data, &mut pen);
    draw_graphs(state, data, &mut pen.part(0, 1, w, GRAPHS));
    let rest = pen.h().saturating_sub(1 + GRAPHS);
    draw_list(state, data, &mut pen.part(0, 1 + GRAPHS, w, rest));
}

fn draw_rule(data: &StoreView, pen: &mut Pen<'_>) {
    let range = show::span_words(data.to_real.saturating_sub(data.from_real));
    let all = show::span_words(data.all_real.1.saturating_sub(data.all_real.0));
    let range = if range == all { range } else { format!("{range} of {all}") };
    let n = match (data.single, data.segments.len() as u64) {
        (false, 1) => "1 segment".to_string(),
        (false, n) => format!("{} segments", show::grouped(n)),
        (true, 1) => "a single file, not a store".to_string(),
        (true, n) => format!("{} files, not a store", show::grouped(n)),
    };
    let lossy = data.segments.iter().filter(|s| s.lost.is_some()).count();
    let loss = if lossy == 0 { "no loss".to_string() } else { format!("loss in {}", show::grouped(lossy as u64)) };
    let gaps = match data.gaps {
        0 => "no gaps".to_string(),
        1 => "1 gap".to_string(),
        n => format!("{} gaps", show::grouped(n as u64)),
    };
    pen.rule(0, &[&range, &n, &show::bytes(data.bytes), &gaps, &loss]);
}

fn draw_graphs(state: &State, data: &StoreView, pen: &mut Pen<'_>) {
    let w = pen.w();
    let most =
        |of: fn(&crate::tui::deeds::StoreColumn) -> Option<u32>| data.columns.iter().filter_map(of).max().unwrap_or(0);
    let ready_most = most(|c| c.ready);
    let blocked_most = most(|c| c.blocked);
    // Waits span many orders of magnitude: their height is logarithmic, from 1 µs to the worst.
    let worst_most = data.columns.iter().filter_map(|c| c.worst).max().unwrap_or(0);
    let log =
        |ns: u64| ((ns.max(1000) as f32 / 1000.0).ln() / (worst_most.max(2000) as f32 / 1000.0).ln()).clamp(0.0, 1.0);
    let rows: [(&str, Tone, String); 4] = [
        ("busy", Tone::Running, String::new()),
        ("ready", Tone::Ready, format!("to {ready_most}")),
        ("D", Tone::Blocked, format!("to {blocked_most}")),
        (
            "worst",
            Tone::PushedOff,
            if worst_most > 0 { format!("to {}", show::span(worst_most)) } else { String::new() },
        ),
    ];
    for (i, (name, tone, note)) in rows.iter().enumerate() {
        let y = u16::try_from(i).unwrap_or(0);
        pen.say(1, y, LABEL - 1, name, Tone::Dim);
        let scale = |v: u32, most: u32| if most > 0 { v as f32 / most as f32 } else { 0.0 };
        let values = data.columns.iter().map(|c| {
            let value = match i {
                0 => c.busy,
                1 => c.ready.map(|v| scale(v, ready_most)),
                2 => c.blocked.map(|v| scale(v, blocked_most)),
                _ => c.busy.map(|_| c.worst.map_or(0.0, log)),
            };
            match value {
                _ if c.outside => Share::Nothing,
                _ if c.loss && i == 0 => Share::Lost,
                Some(v) => Share::Of(v),
                None if c.pending => Share::Unknown,
                None => Share::Lost,
            }
        });
        lanes::draw_share(pen, LABEL, y, values, *tone);
        let x = LABEL + u16::try_from(data.columns.len()).unwrap_or(0) + 1;
        pen.say(x, y, w.saturating_sub(x), note, Tone::Dim);
    }
    pen.say(1, 4, LABEL - 1, "kept", Tone::Dim);
    for (i, column) in data.columns.iter().enumerate() {
        let x = LABEL.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
        let style = pen.theme.style(Tone::Mark);
        if column.snapshot {
            pen.cell(x, 4, '●', style);
        } else if column.mark {
            pen.cell(x, 4, '▌', style);
        }
    }
    let cursor = LABEL.saturating_add(u16::try_from(state.segments.column).unwrap_or(u16::MAX));
    draw_axis(state, data, cursor, pen);
    for y in 0..5 {
        pen.tint(cursor, y, 1, Tone::Selected);
    }
    if let Some(start) = state.segments.range_start {
        let span = data.to_real.saturating_sub(data.from_real).max(1);
        let at = u128::from(start.saturating_sub(data.from_real)) * data.columns.len() as u128 / u128::from(span);
        let x = LABEL.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
        pen.say(x, 5, 1, "v", Tone::Mark);
    }
}

/// Times below the graphs; that of the cursor stands beside its mark, and those in its way are left out.
fn draw_axis(state: &State, data: &StoreView, cursor: u16, pen: &mut Pen<'_>) {
    let w = pen.w();
    let n = u16::try_from(data.columns.len()).unwrap_or(u16::MAX);
    let window = crate::sched::summary::Window { from: data.from_real, to: data.to_real };
    // Ticks are round in local time: the offset of the range's end is good enough for all of it.
    let minutes = i64::from(time::offset_minutes(data.to_real, &state.zone));
    let offset = u64::try_from(minutes.rem_euclid(24 * 60)).unwrap_or(0) * 60_000_000_000;
    // Nothing here is drawn finer than a second: of a file of a few seconds each tick is another one.
    let (mut ticks, step) = gantt::ticks(window, n, 9, offset);
    ticks.retain(|(_, at)| step >= SECOND || at.wrapping_add(offset).is_multiple_of(SECOND));
    let digits = if step >= 60 * SECOND { Digits::Minutes } else { Digits::Seconds };
    let at = window.cell(state.segments.column.min(usize::from(n.saturating_sub(1))), usize::from(n.max(1))).from;
    let own = time::clock(at, &state.zone, digits);
    let wide = u16::try_from(own.len()).unwrap_or(w);
    // Behind the mark, or before it where there is no room behind.
    let own_x = if cursor + 2 + wide <= w { cursor + 1 } else { cursor.saturating_sub(wide) };
    let taken = cursor.min(own_x)..(own_x + wide).max(cursor + 1);
    for (column, at) in ticks {
        let x = LABEL + column;
        let clear = x + wide < taken.start || x > taken.end;
        let text = time::clock(at, &state.zone, digits);
        if x + wide < w && clear && (step > SECOND || text != own) {
            pen.say(x, 5, w.saturating_sub(x), &text, Tone::Dim);
        }
    }
    pen.say(cursor, 5, 1, "▲", Tone::Strong);
    pen.say(own_x, 5, wide, &own, Tone::Strong);
}

fn draw_list(state: &State, data: &StoreView, pen: &mut Pen<'_>) {
    let w = pen.w();
    let worst = data.worst.as_ref().map_or(String::new(), |(ns, at, who)| {
        let at = time::clock(*at, &state.zone, Digits::Seconds);
        format!("worst {} at {at} ({who})", show::span(*ns))
    });
    pen.rule(0, &[if data.single { "Files" } else { "Segments" }, "newest first", &worst]);
    let title = format!(
        "{:>10} {:>6} {:>8} {:>9} {:>6} {:>6} {:>7}  {}",
        "BEGIN", "LENGTH", "SIZE", "EVENTS", "BUSY %", "READY", "WORST", ""
    );
    pen.say(0, 1, w, &title, Tone::Dim);
    let rows = usize::from(pen.h().saturating_sub(2));
    for (i, segment) in data.segments.iter().rev().enumerate().skip(state.segments.top).take(rows) {
        let y = 2 + u16::try_from(i - state.segments.top).unwrap_or(0);
        draw_segment(state, segment, pen, y);
        if i == state.segments.row {
            pen.tint(0, y, w, Tone::Selected);
        }
    }
    if data.segments.is_empty() {
        pen.say(1, 2, w, "no segments: nothing was recorded here yet", Tone::Dim);
    }
    // What has no row of its own is named below the rows, where there is room.
    for (i, path) in data.unplaced.iter().enumerate() {
        let y = 3 + u16::try_from(data.segments.len() + i).unwrap_or(u16::MAX - 3);
        pen.say(1, y, w.saturating_sub(1), &format!("{path} {NOT_PLACED}"), Tone::Dim);
    }
}

fn draw_segment(state: &State, segment: &SegmentRow, pen: &mut Pen<'_>, y: u16) {
    let w = pen.w();
    let unknown = || show::UNKNOWN.to_string();
    let so_far = state.segments.growing.as_ref().filter(|(from, _)| segment.window.is_some_and(|w| w.from == *from));
    let (busy, ready, worst) = match so_far {
        Some((_, figures)) if segment.growing => (figures.busy, figures.ready, &figures.worst),
        _ => (segment.busy, segment.ready, &segment.worst),
    };
    let longest = worst;
    let busy = busy.map_or_else(unknown, |b| format!("{:.1}", b * 100.0));
    let ready = ready.map_or_else(unknown, |r| r.to_string());
    let worst = worst.as_ref().map_or_else(unknown, |(ns, _)| show::span(*ns));
    let at = time::clock(segment.from_real, &state.zone, Digits::Seconds);
    let text = format!(
        "{at:>10} {:>6} {:>8} {:>9} {busy:>6} {ready:>6} {worst:>7}  ",
        // What grows has no footer yet that would count its events.
        if segment.growing && segment.length < 1_000_000_000 { unknown() } else { show::span(segment.length) },
        show::bytes(segment.bytes),
        if segment.growing { unknown() } else { show::count(segment.events) },
    );
    let mut x = pen.say(0, y, w, &text, Tone::Text);
    if let Some((_, who)) = longest {
        x += pen.say(x, y, w.saturating_sub(x), &format!("{who}  "), Tone::Text);
    }
    if let Some(lost) = segment.lost {
        let text = lost.map_or("loss, number unknown  ".to_string(), |n| format!("{} lost  ", show::grouped(n)));
        x += pen.say(x, y, w.saturating_sub(x), &text, Tone::Loss);
    }
    if segment.growing {
        x += pen.say(x, y, w.saturating_sub(x), "growing  ", Tone::Running);
    }
    if !segment.snapshots.is_empty() {
        let text = snapshot_words(&segment.snapshots, w.saturating_sub(x + 2));
        pen.say(x, y, w.saturating_sub(x), &format!("● {text}"), Tone::Mark);
    }
}

/// All of a segment's snapshots by their labels, or how many where these have no room.
fn snapshot_words(labels: &[Box<str>], room: u16) -> String {
    let named: Vec<String> = labels.iter().filter(|l| !l.is_empty()).map(|l| format!("“{l}”")).collect();
    let (n, unnamed) = (labels.len(), labels.len() - named.len());
    let many = if n == 1 { "snapshot".to_string() } else { format!("{n} snapshots") };
    if pen::width(&many) > room {
        return n.to_string();
    }
    if named.is_empty() {
        return many;
    }
    let more = if unnamed > 0 { format!(" and {unnamed} without a label") } else { String::new() };
    let all = format!("{many} {}{more}", named.join(" "));
    // A single one says what it is as far as it goes.
    if n == 1 || pen::width(&all) <= room { all } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_snapshot_of_a_segment_is_left_out() {
        let labels = |list: &[&str]| list.iter().map(|l| (*l).into()).collect::<Vec<Box<str>>>();
        let words = |list: &[&str], room| snapshot_words(&labels(list), room);
        assert_eq!(words(&["signal"], 80), "snapshot “signal”");
        assert_eq!(words(&[""], 80), "snapshot");
        assert_eq!(words(&["signal", "p99"], 80), "2 snapshots “signal” “p99”");
        assert_eq!(words(&["signal", "", "p99"], 80), "3 snapshots “signal” “p99” and 1 without a label");
        assert_eq!(words(&["", ""], 80), "2 snapshots");
        assert_eq!(words(&["signal", "p99"], 25), "2 snapshots");
        assert_eq!(words(&["signal", "p99"], 7), "2");
    }
}
