//! Rows of a ready query, in a box over the screen.

use crate::time::Digits;
use crate::tui::answers::QueryView;
use crate::tui::pen::{self, Pen};
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::popup;
use crate::units::show;

/// Widest a column gets.
const WIDEST: u16 = 40;

/// Draws it in a box, from row `top` on.
pub fn draw(state: &State, view: &QueryView, top: usize, pen: &mut Pen<'_>) {
    let h = pen.h();
    let mut inner = popup::boxed(pen, 160, h.saturating_sub(2), "query");
    let (w, h) = (inner.w(), inner.h());
    inner.say(1, 0, w.saturating_sub(1), &view.title, Tone::Strong);
    let more = if view.cut { ", and more" } else { "" };
    let text = format!(
        "{} → {}  ({}), {}{more}",
        state.clock_text(view.within.from, Digits::Millis),
        state.clock_text(view.within.to, Digits::Millis),
        show::span_words(view.within.len()),
        if view.rows.len() == 1 {
            "1 row".to_owned()
        } else {
            format!("{} rows", show::grouped(view.rows.len() as u64))
        },
    );
    inner.say(1, 1, w.saturating_sub(1), &text, Tone::Dim);
    let mut x = 1;
    for (n, name) in view.columns.iter().enumerate() {
        let cells = view.rows.iter().filter_map(|row| row.get(n));
        let wide = cells.map(|cell| pen::width(cell)).max().unwrap_or(0).max(pen::width(name)).min(WIDEST);
        let room = wide.min(w.saturating_sub(x + 1));
        if room == 0 {
            break;
        }
        let right = view.numeric.get(n).copied().unwrap_or(false);
        let mut put = |y: u16, text: &str, tone: Tone| {
            if right {
                let style = inner.theme.style(tone);
                inner.right(x + room, y, room, &pen::cut(text, room), style);
            } else {
                inner.say(x, y, room, text, tone);
            }
        };
        put(2, name, Tone::Title);
        for (i, row) in view.rows.iter().skip(top).take(usize::from(h.saturating_sub(3))).enumerate() {
            put(3 + u16::try_from(i).unwrap_or(0), row.get(n).map_or("", String::as_str), Tone::Text);
        }
        x += room + 2;
    }
    if view.rows.is_empty() {
        inner.say(1, 3, w.saturating_sub(1), "no rows", Tone::Dim);
    }
}
