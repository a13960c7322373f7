//! Two windows side by side: the same numbers of the same threads, a bad minute against a good one.

use crate::sched::summary::Window;
use crate::time::Digits;
use crate::tui::answers::CompareRow;
use crate::tui::pen::Pen;
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::popup;
use crate::units::show;

/// Draws it in a box, from row `top` on.
pub fn draw(state: &State, windows: &[Window; 2], rows: &[CompareRow], top: usize, pen: &mut Pen<'_>) {
    let h = pen.h();
    let mut inner = popup::boxed(pen, 132, h.saturating_sub(2), "comparison");
    let (w, h) = (inner.w(), inner.h());
    for (i, (name, window)) in ["A", "B"].iter().zip(windows).enumerate() {
        let text = format!(
            "{name}  {} → {}  ({})",
            state.clock_text(window.from, Digits::Millis),
            state.clock_text(window.to, Digits::Millis),
            show::span_words(window.len())
        );
        inner.say(1, u16::try_from(i).unwrap_or(0), w.saturating_sub(1), &text, Tone::Strong);
    }
    let title = format!(
        "{:<24} {:>15} {:>15} {:>15} {:>15} {:>15}",
        "THREAD", "RUN % A → B", "READY % A → B", "D % A → B", "p99 A → B", "MAX A → B"
    );
    inner.say(1, 2, w.saturating_sub(1), &title, Tone::Dim);
    for (i, row) in rows.iter().enumerate().skip(top).take(usize::from(h.saturating_sub(3))) {
        let y = 3 + u16::try_from(i - top).unwrap_or(0);
        inner.say(1, y, 24, &row.label, Tone::Text);
        let share = |s: Option<f64>| s.map_or(show::UNKNOWN.to_string(), |s| format!("{:.1}", s * 100.0));
        let span = |ns: Option<u64>| ns.map_or(show::UNKNOWN.to_string(), show::span);
        let cells = [
            (row.run.map(share), false),
            (row.ready.map(share), grew(row.ready)),
            (row.blocked.map(share), grew(row.blocked)),
            (row.p99.map(span), grew(row.p99.map(|v| v.map(|n| n as f64)))),
            (row.max.map(span), false),
        ];
        for (c, (pair, loud)) in cells.iter().enumerate() {
            let right = 26 + 16 * (u16::try_from(c).unwrap_or(0) + 1) - 1;
            let style = inner.theme.style(if *loud { Tone::Strong } else { Tone::Text });
            if right <= w {
                inner.right(right, y, 15, &format!("{:>6} → {:>6}", pair[0], pair[1]), style);
            }
        }
    }
    if rows.is_empty() {
        inner.say(1, 3, w, "no thread was there in either window", Tone::Dim);
    }
}

/// More than half as much again, either way: worth a look.
fn grew(pair: [Option<f64>; 2]) -> bool {
    let [Some(a), Some(b)] = pair else { return false };
    let (less, more) = (a.min(b), a.max(b));
    more > 0.0 && more > less * 1.5
}
