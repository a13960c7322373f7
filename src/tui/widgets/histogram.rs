//! The run-queue latency histogram: powers of two, a bar each, and whether being pushed off made them.

use crate::tui::pen::Pen;
use crate::tui::theme::Tone;
use crate::units::show;

/// One line: least ns of the class, all waits, those after being pushed off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Least wait of the class, ns; of the lowest class of all 0, for waits of 0 ns count there.
    pub from: u64,
    /// Waits from here on are of the next class, ns.
    pub end: u64,
    /// Waits.
    pub count: u64,
    /// Of those, after being pushed off.
    pub pushed: u64,
}

/// The classes from the first to the last that has any, put together by twos until they fit into `rows`.
pub fn classes(histogram: &[(u64, u64)], rows: usize) -> Vec<Class> {
    let first = histogram.iter().position(|(n, _)| *n > 0);
    let last = histogram.iter().rposition(|(n, _)| *n > 0);
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    if rows == 0 {
        return Vec::new();
    }
    let step = (last - first + 1).div_ceil(rows);
    histogram[first..=last]
        .chunks(step)
        .enumerate()
        .map(|(i, chunk)| Class {
            from: if first + i * step == 0 { 0 } else { power(first + i * step) },
            end: power(first + (i + 1) * step),
            count: chunk.iter().map(|(n, _)| n).sum(),
            pushed: chunk.iter().map(|(_, p)| p).sum(),
        })
        .collect()
}

/// 2 to the `n`, ns; the highest there is where that is more.
fn power(n: usize) -> u64 {
    u32::try_from(n).ok().and_then(|n| 1u64.checked_shl(n)).unwrap_or(u64::MAX)
}

/// Draws the histogram over the whole pen.
pub fn draw(pen: &mut Pen<'_>, histogram: &[(u64, u64)]) {
    let classes = classes(histogram, usize::from(pen.h()));
    let most = classes.iter().map(|c| c.count).max().unwrap_or(0).max(1);
    let bar_room = pen.w().saturating_sub(10 + 8);
    for (y, class) in classes.iter().enumerate() {
        let y = u16::try_from(y).unwrap_or(0);
        let dim = pen.theme.style(Tone::Dim);
        let label = if class.from == 0 {
            format!("< {}", show::span(class.end))
        } else {
            format!("≥ {}", show::span(class.from))
        };
        pen.right(9, y, 9, &label, dim);
        let cells = (u128::from(class.count) * u128::from(bar_room) * 8 / u128::from(most)) as u64;
        let tone = if class.pushed * 2 > class.count { Tone::PushedOff } else { Tone::Ready };
        let used = draw_bar(pen, 10, y, bar_room, cells, tone, class.count > 0);
        if class.count == 0 {
            continue;
        }
        let count = format!(" {}", show::count(class.count));
        let at = pen.say(10 + used, y, 8, &count, Tone::Text);
        let room = pen.w().saturating_sub(10 + used + at);
        if class.pushed * 2 > class.count && room > 13 {
            pen.say(10 + used + at, y, room, " ← pushed off", Tone::PushedOff);
        }
    }
    if classes.is_empty() {
        pen.say(1, 0, pen.w(), "it never waited in this window", Tone::Dim);
    }
}

/// A bar of `eighths` of a column; gives the columns used.
fn draw_bar(pen: &mut Pen<'_>, x: u16, y: u16, room: u16, eighths: u64, tone: Tone, some: bool) -> u16 {
    const LEFT: [char; 8] = ['▏', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let style = pen.theme.style(tone);
    let whole = u16::try_from(eighths / 8).unwrap_or(room).min(room);
    pen.fill(x, y, whole, '█', style);
    let rest = (eighths % 8) as usize;
    if (rest > 0 || (whole == 0 && some)) && whole < room {
        pen.cell(x + whole, y, LEFT[rest], style);
        return whole + 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_class_holds_waits_of_nothing_too() {
        let c = classes(&[(3, 0), (0, 0), (1, 1)], 8);
        assert_eq!(c[0], Class { from: 0, end: 2, count: 3, pushed: 0 });
        assert_eq!(c[2], Class { from: 4, end: 8, count: 1, pushed: 1 });
        let mut all = vec![(0, 0); 64];
        (all[0], all[63]) = ((1, 0), (1, 0));
        assert_eq!(classes(&all, 99)[63], Class { from: 1 << 63, end: u64::MAX, count: 1, pushed: 0 });
    }

    #[test]
    fn classes_run_from_the_first_to_the_last_used() {
        let mut h = vec![(0, 0); 24];
        h[10] = (12, 0);
        h[12] = (1940, 0);
        h[21] = (301, 300);
        let c = classes(&h, 12);
        assert_eq!(c.len(), 12);
        assert_eq!(c[0], Class { from: 1024, end: 2048, count: 12, pushed: 0 });
        assert_eq!(c[11], Class { from: 1 << 21, end: 1 << 22, count: 301, pushed: 300 });
        let c = classes(&h, 6);
        assert_eq!(c.len(), 6);
        assert_eq!(c.iter().map(|c| c.count).sum::<u64>(), 12 + 1940 + 301);
        // Two by two from 2^10 on.
        assert_eq!(c[1], Class { from: 1 << 12, end: 1 << 14, count: 1940, pushed: 0 });
        assert!(classes(&[], 5).is_empty() && classes(&h, 0).is_empty());
    }
}
