//! The help: made from the action table and the keys in effect.

use crate::tui::actions::{ACTIONS, Context};
use crate::tui::keymap::Keymap;
use crate::tui::keys::sequence_text;
use crate::tui::pen::Pen;
use crate::tui::theme::Tone;
use crate::tui::widgets::popup;
use crate::tui::widgets::states::{KINDS, Kind};

/// A line of the help: keys, action, what it does; or a heading (keys only).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Keys, or the heading.
    pub keys: String,
    /// Name; empty for a heading.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// All lines.
pub fn lines(keymap: &Keymap) -> Vec<Line> {
    let mut out = Vec::new();
    for context in Context::ALL {
        let begin = out.len();
        for info in ACTIONS {
            let keys: Vec<String> = keymap
                .bindings()
                .iter()
                .filter(|b| b.context == context && b.action == info.action)
                .map(|b| sequence_text(&b.keys))
                .collect();
            if !keys.is_empty() {
                out.push(Line { keys: keys.join("  "), name: info.name, doc: info.doc });
            }
        }
        if out.len() > begin {
            out.insert(begin, Line { keys: context.doc().to_string(), name: "", doc: "" });
        }
    }
    out
}

/// Draws it in a box, from line `top` on.
pub fn draw(keymap: &Keymap, top: usize, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h());
    let mut inner = popup::boxed(pen, 110, h, "keys and actions");
    let (iw, ih) = (inner.w(), inner.h());
    let mut x = 1;
    // What the glyphs of states mean, once, where it is looked for.
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Absent) {
        let glyph = kind.glyph(inner.theme).to_string();
        x += inner.pieces(
            x,
            0,
            iw.saturating_sub(x),
            &[(&glyph, kind.tone()), (" ", Tone::Text), (kind.words(), Tone::Dim), ("  ", Tone::Text)],
        );
    }
    inner.pieces(x, 0, iw.saturating_sub(x), &[("╱", Tone::Loss), (" lost or not recorded", Tone::Dim)]);
    for (i, line) in lines(keymap).iter().skip(top).take(usize::from(ih.saturating_sub(1))).enumerate() {
        let y = u16::try_from(i).unwrap_or(0) + 1;
        if line.name.is_empty() {
            inner.say(1, y, iw.saturating_sub(1), &line.keys, Tone::Title);
            continue;
        }
        inner.say(2, y, 20, &line.keys, Tone::Key);
        let x = if w >= 70 { 2 + 20 + inner.say(23, y, 18, line.name, Tone::Strong).max(18) + 2 } else { 23 };
        inner.say(x, y, iw.saturating_sub(x + 1), line.doc, Tone::Text);
    }
}
