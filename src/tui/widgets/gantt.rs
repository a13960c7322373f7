//! Tracks of the time line: what ran on a CPU, what a thread did, to half a column.
//!
//! A column is two halves; each half shows what took most of it. Where the halves differ a half block parts them, so an
//! edge is right to half a column. Stretches too short to draw one by one come as bundles and are drawn as texture.

use super::states::Kind;
use crate::sched::event::ThreadNow;
use crate::sched::state::TaskState;
use crate::sched::summary::{Span, Window};
use crate::tui::labels::Labels;
use crate::tui::pen::{self, Pen};
use crate::tui::theme::Tone;
use ratatui::style::Style;

/// What a track is drawn from.
pub struct Track<'a> {
    /// The window of the whole width.
    pub window: Window,
    /// In time order, not overlapping.
    pub spans: &'a [Span],
    /// Where open spans are known to last to.
    pub edge: u64,
    /// Words.
    pub labels: &'a Labels,
    /// The span drawn as selected, by its begin.
    pub selected: Option<u64>,
}

/// Index of the span that took most of each half column; `None` where there is none.
pub fn halves(window: Window, spans: &[Span], edge: u64, columns: u16) -> Vec<Option<u32>> {
    let n = usize::from(columns) * 2;
    let mut best: Vec<(u64, Option<u32>)> = vec![(0, None); n];
    if n == 0 || window.is_empty() {
        return Vec::new();
    }
    for (i, span) in spans.iter().enumerate() {
        let end = span.end.unwrap_or(edge.max(span.start));
        let (from, to) = (span.start.max(window.from), end.min(window.to));
        if from >= to {
            continue;
        }
        let (first, last) = (window.cell_of(from, n), window.cell_of(to - 1, n));
        for (h, slot) in best.iter_mut().enumerate().take(last + 1).skip(first) {
            let overlap = window.cell(h, n).overlap(from, to);
            if overlap > slot.0 {
                *slot = (overlap, u32::try_from(i).ok());
            }
        }
    }
    best.into_iter().map(|(_, i)| i).collect()
}

/// Draws what a CPU ran: each slice begins with a bar and its thread's name, in its process's colour.
pub fn draw_cpu(pen: &mut Pen<'_>, x: u16, y: u16, columns: u16, track: &Track<'_>) {
    let halves = halves(track.window, track.spans, track.edge, columns);
    let style_of = |i: u32, pen: &Pen<'_>| match track.spans[i as usize] {
        s if s.utid == 0 => pen.theme.style(Tone::Idle),
        s => pen.theme.process(track.labels.process_of(s.utid)),
    };
    let mut before: Option<u32> = None;
    for c in 0..usize::from(columns) {
        let at = x + u16::try_from(c).unwrap_or(0);
        let (left, right) = (halves[2 * c], halves[2 * c + 1]);
        match (left, right) {
            (Some(l), Some(r)) if l != r => {
                let both = style_of(l, pen);
                let other = style_of(r, pen);
                if before == left {
                    pen.cell(at, y, '▐', other);
                } else {
                    let style = if pen.theme.mono { both } else { Style { bg: other.fg, ..both } };
                    pen.cell(at, y, '▌', style);
                }
            }
            (Some(l), _) => {
                let style = style_of(l, pen);
                let span = track.spans[l as usize];
                let ends_here = halves.get(2 * c + 2).copied().flatten() != Some(l);
                let glyph = match (before == left, span.row == u32::MAX, span.utid) {
                    (_, true, _) => '▒',
                    // A slice of just this column has it whole: a bar alone would look like idle time behind it.
                    (false, _, utid) if ends_here && utid != 0 => '█',
                    (false, ..) => '▌',
                    (true, _, 0) => ' ',
                    (true, ..) => '▁',
                };
                pen.cell(at, y, glyph, style);
            }
            (None, Some(r)) => {
                let style = style_of(r, pen);
                pen.cell(at, y, '▐', style);
            }
            (None, None) => {}
        }
        before = right;
    }
    draw_names(pen, x, y, &halves, track, &style_of);
    tint_selected(pen, x, y, &halves, track);
}

/// Names behind the bar that begins a slice, where there is room for at least two characters.
fn draw_names(
    pen: &mut Pen<'_>,
    x: u16,
    y: u16,
    halves: &[Option<u32>],
    track: &Track<'_>,
    style_of: &impl Fn(u32, &Pen<'_>) -> Style,
) {
    for (i, from, to) in runs(halves) {
        let (first, end) = (from / 2 + 1, to / 2);
        let span = &track.spans[i as usize];
        if end < first + 2 || span.row == u32::MAX {
            continue;
        }
        let room = u16::try_from(end - first).unwrap_or(u16::MAX);
        let style = style_of(i, pen);
        let name = track.labels.thread(span.utid);
        let x = x + u16::try_from(first).unwrap_or(0);
        pen.text(x, y, room, &name, style);
    }
}

/// Runs of halves that show the same span: span, first half, one after the last.
fn runs(halves: &[Option<u32>]) -> Vec<(u32, usize, usize)> {
    let mut out: Vec<(u32, usize, usize)> = Vec::new();
    for (h, i) in halves.iter().enumerate() {
        let Some(i) = *i else { continue };
        match out.last_mut() {
            Some((last, _, to)) if *last == i && *to == h => *to = h + 1,
            _ => out.push((i, h, h + 1)),
        }
    }
    out
}

/// Draws what a thread did, by state.
pub fn draw_thread(pen: &mut Pen<'_>, x: u16, y: u16, columns: u16, track: &Track<'_>) {
    let halves = halves(track.window, track.spans, track.edge, columns);
    // A thread that is no more does nothing, and shows nothing.
    let kind = |i: Option<u32>| i.map(|i| track.spans[i as usize].state).filter(|s| !is_gone(*s)).map(Kind::of);
    for c in 0..usize::from(columns) {
        let at = x + u16::try_from(c).unwrap_or(0);
        let (left, right) = (kind(halves[2 * c]), kind(halves[2 * c + 1]));
        let Some((glyph, style)) = thread_cell(left, right, pen) else { continue };
        pen.cell(at, y, glyph, style);
    }
    for (i, from, to) in runs(&halves) {
        let span = &track.spans[i as usize];
        let function = track.labels.text(span.function);
        let (first, cells) = (from.div_ceil(2), (to / 2).saturating_sub(from.div_ceil(2)));
        let wide = usize::from(pen::width(function)) + 6;
        if Kind::of(span.state) == Kind::Blocked && !function.is_empty() && cells >= wide {
            let text = format!(" {function} ");
            let x = x + u16::try_from(first + (cells - wide + 4) / 2).unwrap_or(0);
            pen.say(x, y, u16::try_from(wide).unwrap_or(0), &text, Tone::Blocked);
        }
    }
    tint_selected(pen, x, y, &halves, track);
}

/// Exited: a zombie until its parent looks, then dead.
fn is_gone(state: ThreadNow) -> bool {
    matches!(state, ThreadNow::Blocked(s) if s.contains(TaskState::DEAD) || s.contains(TaskState::ZOMBIE))
}

/// A column of a thread's track from its two halves.
fn thread_cell(left: Option<Kind>, right: Option<Kind>, pen: &Pen<'_>) -> Option<(char, Style)> {
    let whole = |k: Kind| (k.glyph(pen.theme), pen.theme.style(k.tone()));
    let quiet = |k: Option<Kind>| matches!(k, None | Some(Kind::Sleeping | Kind::Unknown));
    match (left, right) {
        (None, None) => None,
        (Some(l), Some(r)) if l == r => Some(whole(l)),
        // Letters cannot be halved: what is not sleep is shown.
        (l, r) if pen.theme.mono || pen.theme.ascii => {
            let shown = if quiet(l) { r.or(l) } else { l };
            shown.map(whole)
        }
        (Some(l), r) if quiet(r) => Some(('▌', pen.theme.style(l.tone()))),
        (l, Some(r)) if quiet(l) => Some(('▐', pen.theme.style(r.tone()))),
        (Some(l), Some(r)) => {
            let style = pen.theme.style(l.tone());
            Some(('▌', Style { bg: pen.theme.style(r.tone()).fg, ..style }))
        }
        (l, r) => l.or(r).map(whole),
    }
}

fn tint_selected(pen: &mut Pen<'_>, x: u16, y: u16, halves: &[Option<u32>], track: &Track<'_>) {
    let Some(start) = track.selected else { return };
    for (i, from, to) in runs(halves) {
        if track.spans[i as usize].start == start {
            let first = u16::try_from(from / 2).unwrap_or(0);
            let end = u16::try_from(to.div_ceil(2)).unwrap_or(0);
            pen.tint(x + first, y, end.saturating_sub(first).max(1), Tone::Selected);
        }
    }
}

/// Hatches the columns that a stretch covers (at least one).
pub fn hatch(pen: &mut Pen<'_>, x: u16, y: u16, columns: u16, window: Window, stretch: Window) {
    if let Some((first, last)) = columns_of(columns, window, stretch) {
        let style = pen.theme.style(Tone::Loss);
        pen.fill(x + first, y, last - first + 1, '╱', style);
    }
}

/// First and last column of a stretch within the window, if any of it is.
pub fn columns_of(columns: u16, window: Window, stretch: Window) -> Option<(u16, u16)> {
    let (from, to) = (stretch.from.max(window.from), stretch.to.min(window.to));
    if columns == 0 || from > to || from >= window.to || to <= window.from {
        return None;
    }
    let n = usize::from(columns);
    let at = |ts: u64| u16::try_from(window.cell_of(ts, n)).unwrap_or(0);
    Some((at(from), at(to.saturating_sub(1).max(from))))
}

/// The instants to write on the axis: round in wall-clock time, at least `apart` columns from one another. Gives the column
/// and the boot instant of each, and the step. `real_offset` is wall minus boot clock, ns.
pub fn ticks(window: Window, columns: u16, apart: u16, real_offset: u64) -> (Vec<(u16, u64)>, u64) {
    if columns == 0 || window.is_empty() {
        return (Vec::new(), 1);
    }
    let per_column = window.len().div_ceil(u64::from(columns)).max(1);
    let least = per_column.saturating_mul(u64::from(apart.max(1)));
    let step = round_step(least);
    let real_from = window.from.wrapping_add(real_offset);
    let mut at = window.from + (step - real_from % step) % step;
    let mut out = Vec::new();
    while at < window.to && out.len() < usize::from(columns) {
        let column = u16::try_from(window.cell_of(at, usize::from(columns))).unwrap_or(0);
        out.push((column, at));
        at = at.saturating_add(step);
    }
    (out, step)
}

/// The next round step from `least` on: 1, 2, 5 × 10^n ns below a second; then what clocks have.
fn round_step(least: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let mut unit = 1u64;
    while unit < SECOND {
        for m in [1, 2, 5] {
            if unit * m >= least {
                return unit * m;
            }
        }
        unit *= 10;
    }
    let seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
    seconds.iter().map(|s| s * SECOND).find(|s| *s >= least).unwrap_or(86_400 * SECOND)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameId;
    use crate::tui::theme::{Depth, Theme};
    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn span(start: u64, end: Option<u64>, row: u32) -> Span {
        Span { start, end, utid: 1, state: ThreadNow::Running, end_state: None, function: NameId::EMPTY, row }
    }

    #[test]
    fn a_half_column_shows_what_took_most_of_it() {
        let w = Window { from: 0, to: 40 };
        // Ten-ns columns, five-ns halves: 0–12 is the first, 12–40 the second.
        let spans = [span(0, Some(12), 0), span(12, None, 1)];
        assert_eq!(halves(w, &spans, 40, 4), [0, 0, 1, 1, 1, 1, 1, 1].map(Some));
        let spans = [span(0, Some(13), 0), span(13, Some(20), 1)];
        assert_eq!(
            halves(w, &spans, 40, 4),
            [Some(0), Some(0), Some(0), Some(1), None, None, None, None],
            "13 lies past the middle of the third half"
        );
    }

    #[test]
    fn a_thread_that_is_no_more_shows_nothing() {
        let theme = Theme::shipped("mono", Depth::Mono, false).unwrap();
        let labels = Labels::default();
        let gone = |state| Span { state: ThreadNow::Blocked(state), ..span(20, Some(40), 1) };
        for state in [TaskState::DEAD, TaskState::ZOMBIE] {
            let spans = [span(0, Some(20), 0), gone(state)];
            let track =
                Track { window: Window { from: 0, to: 40 }, spans: &spans, edge: 40, labels: &labels, selected: None };
            let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
            let area = buffer.area;
            draw_thread(&mut Pen::new(&mut buffer, area, &theme), 0, 0, 4, &track);
            let drawn: String = buffer.content.iter().map(|c| c.symbol()).collect();
            assert_eq!(drawn, "RR  ");
        }
    }

    #[test]
    fn an_open_span_lasts_to_the_edge_of_what_is_known() {
        let w = Window { from: 0, to: 40 };
        assert_eq!(halves(w, &[span(0, None, 0)], 20, 2), [Some(0), Some(0), None, None]);
    }

    #[test]
    fn ticks_are_round_on_the_wall_clock() {
        let (ticks, step) = ticks(Window { from: 1_000_000_003, to: 1_050_000_003 }, 100, 12, 7);
        assert_eq!(step, 10_000_000);
        assert_eq!(ticks[0].1, 1_009_999_993, "on the wall clock that is 1,010,000,000");
        assert_eq!(ticks.len(), 5);
        assert_eq!(round_step(3_000_000_000), 5_000_000_000);
        assert_eq!(round_step(1), 1);
    }

    proptest! {
        #[test]
        fn any_spans_any_window(from: u32, len in 0u64..1_000_000, columns in 0u16..300, s in proptest::collection::vec((0u64..2_000_000, 0u64..90_000), 0..30)) {
            let mut at = u64::from(from);
            let spans: Vec<Span> = s.iter().enumerate().map(|(i, (gap, d))| { at += gap; let start = at; at += d; span(start, Some(at), i as u32) }).collect();
            let w = Window { from: u64::from(from), to: u64::from(from) + len };
            let h = halves(w, &spans, w.to, columns);
            prop_assert_eq!(h.len(), if w.is_empty() { 0 } else { usize::from(columns) * 2 });
            let (t, _) = ticks(w, columns, 10, 12345);
            prop_assert!(t.iter().all(|(c, at)| *c < columns && (w.from..w.to).contains(at)));
            for stretch in &spans { if let Some((a, b)) = columns_of(columns, w, Window { from: stretch.start, to: stretch.end.unwrap_or(0) }) { prop_assert!(a <= b && b < columns); } }
        }
    }
}
