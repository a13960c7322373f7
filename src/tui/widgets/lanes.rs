//! CPU occupancy lanes: one line per CPU, a cell per slot of time, newest at the right.
//!
//! A cell's height is the busy share (eighth blocks), its colour the process that ran most. Idle is a low dim line, not
//! known is dashes, loss and gaps are hatched: three things that must never look alike.

use crate::sched::summary::{OccupancyCell, Window};
use crate::tui::labels::Labels;
use crate::tui::pen::Pen;
use crate::tui::theme::{Theme, Tone};
use ratatui::style::Style;

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A share 0..=1 as an eighth block; the least is still a line.
pub fn eighth(share: f32) -> char {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    EIGHTHS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

/// Glyph and style of one cell. `gap`: the cell lies in a stretch without recording.
pub fn cell(cell: &OccupancyCell, gap: bool, labels: &Labels, theme: &Theme) -> (char, Style) {
    match cell.busy {
        _ if cell.loss || gap => ('╱', theme.style(Tone::Loss)),
        None => ('┄', theme.style(Tone::Unknown)),
        // Below half a percent: idle.
        Some(busy) if busy < 0.005 => ('▁', theme.style(Tone::Idle)),
        Some(busy) => {
            let style = cell.top.map_or(theme.style(Tone::Text), |upid| theme.process(labels.process(upid)));
            (eighth(busy), style)
        }
    }
}

/// Draws the cells of a lane, the newest ending at `x + room`.
pub fn draw(pen: &mut Pen<'_>, x: u16, y: u16, room: u16, cells: &[OccupancyCell], gaps: &[bool], labels: &Labels) {
    let shown = cells.len().min(usize::from(room));
    let first = cells.len() - shown;
    let offset = room - u16::try_from(shown).unwrap_or(room);
    for (i, c) in cells[first..].iter().enumerate() {
        let gap = gaps.get(first + i).copied().unwrap_or(false);
        let (glyph, style) = cell(c, gap, labels, pen.theme);
        pen.cell(x + offset + u16::try_from(i).unwrap_or(0), y, glyph, style);
    }
}

/// For each of `n` cells of a window, whether it lies wholly within one of the gaps.
pub fn gap_cells(window: Window, gaps: &[Window], n: usize) -> Vec<bool> {
    (0..n)
        .map(|i| {
            let cell = window.cell(i, n);
            gaps.iter().any(|g| g.from <= cell.from && cell.to <= g.to && !cell.is_empty())
        })
        .collect()
}

/// One cell of a line of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// 0..=1 of the line's greatest.
    Of(f32),
    /// Recorded, value not known yet.
    Unknown,
    /// Lost, or not recorded.
    Lost,
    /// There is nothing that could have been recorded.
    Nothing,
}

/// A line of values as eighth blocks in one tone.
pub fn draw_share(pen: &mut Pen<'_>, x: u16, y: u16, values: impl Iterator<Item = Share>, tone: Tone) {
    for (i, value) in values.enumerate() {
        let Ok(i) = u16::try_from(i) else { return };
        let (glyph, tone) = match value {
            Share::Nothing => (' ', Tone::Text),
            Share::Lost => ('╱', Tone::Loss),
            Share::Unknown => ('┄', Tone::Unknown),
            Share::Of(v) if v <= 0.0 => ('▁', Tone::Idle),
            Share::Of(v) => (eighth(v), tone),
        };
        let style = pen.theme.style(tone);
        pen.cell(x.saturating_add(i), y, glyph, style);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    #[test]
    fn idle_unknown_and_loss_never_look_alike() {
        for ascii in [false, true] {
            let theme = Theme::shipped("mono", Depth::Mono, ascii).unwrap();
            let labels = Labels::default();
            let glyph =
                |busy, loss| cell(&OccupancyCell { busy, loss, ..OccupancyCell::default() }, false, &labels, &theme).0;
            let all = [glyph(Some(0.0), false), glyph(None, false), glyph(Some(0.5), true), glyph(Some(1.0), false)];
            assert_eq!(all, ['▁', '┄', '╱', '█']);
        }
    }

    #[test]
    fn eighths() {
        assert_eq!(
            (eighth(0.0), eighth(0.01), eighth(0.5), eighth(0.99), eighth(1.0), eighth(f32::NAN)),
            ('▁', '▁', '▄', '█', '█', '▁')
        );
    }

    #[test]
    fn a_cell_is_a_gap_only_when_it_lies_within_one() {
        let w = |from, to| Window { from, to };
        assert_eq!(
            gap_cells(w(0, 100), &[w(20, 45)], 10),
            [false, false, true, true, false, false, false, false, false, false]
        );
    }
}
