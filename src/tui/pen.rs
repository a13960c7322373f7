//! Draws text and cells into a part of the screen: clipped, cut with an ellipsis, safe.
//!
//! Every screen draws through [`Pen`], so three promises are kept in one place: nothing is drawn outside the
//! part, no control or reordering character reaches the terminal, and in ASCII mode nothing but ASCII does.

use super::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthChar;

/// A part of the screen to draw on; positions are relative to its upper left corner.
pub struct Pen<'a> {
    buf: &'a mut Buffer,
    area: Rect,
    /// How things look.
    pub theme: &'a Theme,
}

/// Columns a text takes (of what a pen would draw).
pub fn width(text: &str) -> u16 {
    let columns: usize = text.chars().map(|c| c.width().unwrap_or(1)).sum();
    u16::try_from(columns).unwrap_or(u16::MAX)
}

/// The text in at most `room` columns, cut with `…`.
pub fn cut(text: &str, room: u16) -> String {
    if width(text) <= room {
        return text.to_string();
    }
    let mut left = room.saturating_sub(1);
    let fits = |c: &char| {
        let wide = u16::try_from(c.width().unwrap_or(1)).unwrap_or(1);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    if room > 0 { kept + "…" } else { kept }
}

/// Columns within which a cut title says nothing.
const STUMP: u16 = 12;

/// The first of `texts`, longest first, that fits into `room` columns; the last if none does.
pub fn first_fitting(room: u16, texts: &[String]) -> &str {
    texts.iter().find(|text| width(text) <= room).or(texts.last()).map_or("", String::as_str)
}

impl<'a> Pen<'a> {
    /// A pen for `area`, cut to what the buffer has.
    pub fn new(buf: &'a mut Buffer, area: Rect, theme: &'a Theme) -> Pen<'a> {
        let area = area.intersection(buf.area);
        Pen { buf, area, theme }
    }

    /// A pen for a part of this part, given in this part's positions.
    pub fn part(&mut self, x: u16, y: u16, w: u16, h: u16) -> Pen<'_> {
        let x = self.area.x.saturating_add(x.min(self.area.width));
        let y = self.area.y.saturating_add(y.min(self.area.height));
        let area = Rect::new(x, y, w, h).intersection(self.area);
        Pen { buf: self.buf, area, theme: self.theme }
    }

    /// Width of the part.
    pub fn w(&self) -> u16 {
        self.area.width
    }

    /// Height of the part.
    pub fn h(&self) -> u16 {
        self.area.height
    }

    /// One cell.
    pub fn cell(&mut self, x: u16, y: u16, c: char, style: Style) {
        let c = if self.theme.ascii { ascii(c) } else { c };
        self.put(x, y, if c.width() == Some(1) { c } else { '?' }, style);
    }

    fn put(&mut self, x: u16, y: u16, c: char, style: Style) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        if let Some(cell) = self.buf.cell_mut((self.area.x + x, self.area.y + y)) {
            cell.set_char(c).set_style(style);
        }
    }

    /// Text from `x` on in at most `room` columns, cut with `…`; gives the columns used.
    pub fn text(&mut self, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
        let room = room.min(self.area.width.saturating_sub(x));
        if room == 0 || y >= self.area.height {
            return 0;
        }
        let cut = width(text) > room;
        let room_for_text = if cut { room - 1 } else { room };
        let mut at = 0;
        for c in text.chars() {
            let c = if self.theme.ascii { ascii(c) } else { c };
            // Names come sanitised already; this is the last fence.
            let c = if c.is_control() || c.width().is_none() { '\u{fffd}' } else { c };
            let w = u16::try_from(c.width().unwrap_or(1)).unwrap_or(1);
            if w == 0 {
                continue;
            }
            if at + w > room_for_text {
                break;
            }
            self.put(x + at, y, c, style);
            if w == 2 {
                self.put(x + at + 1, y, ' ', style);
                self.skip_right_half(x + at + 1, y);
            }
            at += w;
        }
        if cut {
            let c = if self.theme.ascii { '~' } else { '…' };
            self.put(x + at, y, c, style);
            at += 1;
        }
        at
    }

    /// The right half of a wide character holds no symbol of its own, else the terminal would draw over the left one.
    fn skip_right_half(&mut self, x: u16, y: u16) {
        if let Some(cell) = self.buf.cell_mut((self.area.x + x, self.area.y + y)) {
            cell.set_symbol("");
        }
    }

    /// Text of a tone.
    pub fn say(&mut self, x: u16, y: u16, room: u16, text: &str, tone: Tone) -> u16 {
        let style = self.theme.style(tone);
        self.text(x, y, room, text, style)
    }

    /// Text that ends before column `right`.
    pub fn right(&mut self, right: u16, y: u16, room: u16, text: &str, style: Style) {
        let w = width(text).min(room).min(right);
        self.text(right - w, y, w, text, style);
    }

    /// Pieces after one another, each of its tone, in at most `room` columns; gives the columns used.
    pub fn pieces(&mut self, x: u16, y: u16, room: u16, pieces: &[(&str, Tone)]) -> u16 {
        let mut at = 0;
        for (text, tone) in pieces {
            if at >= room {
                break;
            }
            at += self.say(x + at, y, room - at, text, *tone);
        }
        at
    }

    /// Sets a style on a row (what stands there stays).
    pub fn tint(&mut self, x: u16, y: u16, w: u16, tone: Tone) {
        let style = self.theme.style(tone);
        for at in x..x.saturating_add(w).min(self.area.width) {
            if y < self.area.height
                && let Some(cell) = self.buf.cell_mut((self.area.x + at, self.area.y + y))
            {
                cell.set_style(style);
            }
        }
    }

    /// A row of one character.
    pub fn fill(&mut self, x: u16, y: u16, w: u16, c: char, style: Style) {
        for at in x..x.saturating_add(w).min(self.area.width) {
            self.cell(at, y, c, style);
        }
    }

    /// Empties the part.
    pub fn clear(&mut self) {
        for y in 0..self.area.height {
            for x in 0..self.area.width {
                if let Some(cell) = self.buf.cell_mut((self.area.x + x, self.area.y + y)) {
                    cell.reset();
                }
            }
        }
    }

    /// A rule with titles in it: `─ Findings ─ more ─────`. Of a title behind the first that would be cut to a stump nothing
    /// is shown.
    pub fn rule(&mut self, y: u16, titles: &[&str]) {
        let rule = self.theme.style(Tone::Rule);
        self.fill(0, y, self.area.width, '─', rule);
        let mut x = 1;
        for (i, title) in titles.iter().enumerate() {
            let room = self.area.width.saturating_sub(x + 2);
            if room < 3 || title.is_empty() || (i > 0 && room < STUMP && width(title) > room) {
                continue;
            }
            let tone = if i == 0 { Tone::Title } else { Tone::Dim };
            self.cell(x, y, ' ', rule);
            x += 1;
            x += self.say(x, y, room, title, tone);
            self.cell(x, y, ' ', rule);
            x += 2;
        }
    }

    /// A frame of single lines around the whole part, with a title.
    pub fn frame(&mut self, title: &str) {
        let (w, h) = (self.area.width, self.area.height);
        if w < 2 || h < 2 {
            return;
        }
        let style = self.theme.style(Tone::Rule);
        for x in 1..w - 1 {
            self.cell(x, 0, '─', style);
            self.cell(x, h - 1, '─', style);
        }
        for y in 1..h - 1 {
            self.cell(0, y, '│', style);
            self.cell(w - 1, y, '│', style);
        }
        for (x, y, c) in [(0, 0, '┌'), (w - 1, 0, '┐'), (0, h - 1, '└'), (w - 1, h - 1, '┘')] {
            self.cell(x, y, c, style);
        }
        if w > 6 && !title.is_empty() {
            let used = self.say(2, 0, w - 4, &format!(" {title} "), Tone::Title);
            debug_assert!(used <= w - 4);
        }
    }
}

/// The nearest ASCII for the characters this program draws; anything else (from names) becomes `?`.
fn ascii(c: char) -> char {
    match c {
        ' '..='~' => c,
        '─' | '━' | '–' | '—' | '┄' => '-',
        '│' | '┃' | '▏' | '▌' | '▐' => '|',
        '┌' | '┐' | '└' | '┘' | '┬' | '┴' | '├' | '┤' | '┼' => '+',
        '▁' => '.',
        '▂' => ':',
        '▃' => '-',
        '▄' | '▍' => '=',
        '▅' => '+',
        '▆' | '▋' | '▊' => '*',
        '▇' | '▉' => '%',
        '█' | '▓' => '#',
        '▒' => '=',
        '░' => '.',
        '╱' => '/',
        '●' | '◆' => '*',
        '·' => '.',
        '…' => '~',
        'µ' => 'u',
        '▲' | '↑' => '^',
        '▼' | '↓' => 'v',
        '→' | '▶' | '⏎' => '>',
        '←' | '◀' => '<',
        '×' => 'x',
        '≥' => '>',
        '‖' => '=',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    fn drawn(w: u16, ascii: bool, draw: impl FnOnce(&mut Pen<'_>)) -> String {
        let theme = Theme::shipped("mono", Depth::True, ascii).unwrap_or_else(|| unreachable!());
        let mut buf = Buffer::empty(Rect::new(0, 0, w, 1));
        draw(&mut Pen::new(&mut buf, Rect::new(0, 0, w, 1), &theme));
        buf.content.iter().map(|c| c.symbol()).collect()
    }

    #[test]
    fn cuts_with_an_ellipsis_at_the_edge() {
        assert_eq!(drawn(6, false, |p| assert_eq!(p.text(0, 0, 99, "abcdefgh", Style::new()), 6)), "abcde…");
        assert_eq!(drawn(6, false, |p| assert_eq!(p.text(0, 0, 99, "abcdef", Style::new()), 6)), "abcdef");
        assert_eq!(drawn(6, true, |p| assert_eq!(p.text(4, 0, 99, "abc", Style::new()), 2)), "    a~");
        assert_eq!(drawn(3, false, |p| assert_eq!(p.text(9, 9, 99, "abc", Style::new()), 0)), "   ");
    }

    #[test]
    fn cut_texts_fit() {
        assert_eq!([cut("abcdef", 6), cut("abcdef", 5), cut("ab", 0), cut("ab", 1)], ["abcdef", "abcd…", "", "…"]);
        assert_eq!([cut("数据x", 5), cut("数据x", 4), cut("数据x", 3)], ["数据x", "数…", "数…"]);
    }

    #[test]
    fn wide_characters_keep_the_columns() {
        assert_eq!(drawn(6, false, |p| assert_eq!(p.text(0, 0, 5, "数据x", Style::new()), 5)), "数据x ");
        assert_eq!(drawn(6, false, |p| assert_eq!(p.text(0, 0, 4, "数据x", Style::new()), 3)), "数…   ");
    }

    #[test]
    fn nothing_raw_reaches_the_buffer() {
        assert_eq!(drawn(4, false, |p| assert_eq!(p.text(0, 0, 4, "\x1b[2J", Style::new()), 4)), "\u{fffd}[2J");
        assert_eq!(drawn(3, true, |p| assert_eq!(p.text(0, 0, 3, "é█µ", Style::new()), 3)), "?#u");
    }

    #[test]
    fn right_aligned() {
        assert_eq!(drawn(8, false, |p| p.right(7, 0, 6, "38 µs", Style::new())), "  38 µs ");
    }
}
