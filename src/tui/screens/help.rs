//! The help: made from the action table and the keys in effect, the keys of the screen on view first.

use crate::tui::actions::{ACTIONS, Context};
use crate::tui::keymap::Keymap;
use crate::tui::keys::sequence_text;
use crate::tui::pen::{self, Pen};
use crate::tui::state::State;
use crate::tui::theme::{Theme, Tone};
use crate::tui::widgets::popup;
use crate::tui::widgets::states::{KINDS, Kind};

/// Columns of the box at most.
const WIDEST: u16 = 110;
/// Columns of the keys, and of the actions' names.
const KEYS: u16 = 20;
const NAME: u16 = 18;
/// Below this width of the terminal names are left out.
const NAMED: u16 = 70;

/// A line of the help: keys, action, what it does; or a heading (keys only).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// Keys, or the heading.
    pub keys: String,
    /// Name; empty for a heading, and where an entry goes on.
    pub name: &'static str,
    /// What it does.
    pub doc: String,
    /// It is a heading.
    pub heading: bool,
}

/// All lines for a terminal of this width. What is too long for its column goes on below; nothing is cut.
fn lines(keymap: &Keymap, first: Context, width: u16) -> Vec<Line> {
    let (.., room) = columns(width);
    let mut out = Vec::new();
    let others = Context::ALL.into_iter().filter(|c| *c != first);
    for context in std::iter::once(first).chain(others) {
        let begin = out.len();
        for info in ACTIONS {
            let keys: Vec<String> = keymap
                .bindings()
                .iter()
                .filter(|b| b.context == context && b.action == info.action)
                .map(|b| sequence_text(&b.keys))
                .collect();
            if !keys.is_empty() {
                entry(&wrapped(&keys, "  ", KEYS), info.name, info.doc, room, &mut out);
            }
        }
        if out.len() > begin {
            for heading in wrapped(&words(context.doc()), " ", inner(width).saturating_sub(2)).into_iter().rev() {
                out.insert(begin, Line { keys: heading, heading: true, ..Line::default() });
            }
        }
    }
    out
}

fn entry(keys: &[String], name: &'static str, doc: &str, room: u16, out: &mut Vec<Line>) {
    let docs = wrapped(&words(doc), " ", room);
    for i in 0..keys.len().max(docs.len()) {
        let of = |list: &[String]| list.get(i).cloned().unwrap_or_default();
        out.push(Line { keys: of(keys), name: if i == 0 { name } else { "" }, doc: of(&docs), heading: false });
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

/// Pieces in lines of at most `room` columns.
fn wrapped(pieces: &[String], between: &str, room: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if pen::width(line) + pen::width(between) + pen::width(piece) <= room => {
                line.push_str(between);
                line.push_str(piece);
            }
            _ => lines.push(piece.clone()),
        }
    }
    lines
}

/// Columns inside the box.
fn inner(width: u16) -> u16 {
    width.min(WIDEST).saturating_sub(2)
}

/// Whether names are shown, where the texts begin, and their room.
fn columns(width: u16) -> (bool, u16, u16) {
    let named = width >= NAMED;
    let at = 2 + KEYS + 1 + if named { NAME + 1 } else { 0 };
    (named, at, inner(width).saturating_sub(at + 1).max(1))
}

/// What the glyphs of states mean, in lines of items.
fn legend(theme: &Theme, width: u16) -> Vec<Vec<(char, Tone, &'static str)>> {
    let told = KINDS.iter().filter(|kind| **kind != Kind::Absent);
    let states = told.map(|kind| (kind.glyph(theme), kind.tone(), kind.words()));
    let mut lines: Vec<Vec<(char, Tone, &'static str)>> = vec![Vec::new()];
    let (mut used, room) = (0, inner(width).saturating_sub(2));
    for item in states.chain([('╱', Tone::Loss, "lost or not recorded")]) {
        let wide = 2 + pen::width(item.2) + 2;
        // The blanks behind the last need no room.
        if used > 0 && used + wide - 2 > room {
            lines.push(Vec::new());
            used = 0;
        }
        used += wide;
        if let Some(line) = lines.last_mut() {
            line.push(item);
        }
    }
    lines
}

/// Lines of keys that have room.
fn page(state: &State) -> usize {
    let legend = legend(&state.theme, state.size.0).len();
    usize::from(state.size.1.saturating_sub(2)).saturating_sub(legend).max(1)
}

/// The last line that the help may begin with.
pub fn last_top(state: &State) -> usize {
    lines(&state.keymap, state.screen.context(), state.size.0).len().saturating_sub(page(state))
}

/// Draws it in a box, from line `top` on.
pub fn draw(state: &State, top: usize, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h());
    let (named, at, room) = columns(w);
    let mut inner = popup::boxed(pen, WIDEST, h, "keys and actions");
    let iw = inner.w();
    // Once, where it is looked for, and always in sight.
    let legend = legend(&state.theme, w);
    for (y, items) in (0..).zip(&legend) {
        let mut x = 1;
        for (glyph, tone, words) in items {
            let glyph = glyph.to_string();
            let pieces = [(&*glyph, *tone), (" ", Tone::Text), (words, Tone::Dim), ("  ", Tone::Text)];
            x += inner.pieces(x, y, iw.saturating_sub(x), &pieces);
        }
    }
    let first = u16::try_from(legend.len()).unwrap_or(0);
    for (y, line) in (first..inner.h()).zip(lines(&state.keymap, state.screen.context(), w).iter().skip(top)) {
        if line.heading {
            inner.say(1, y, iw.saturating_sub(1), &line.keys, Tone::Title);
            continue;
        }
        inner.say(2, y, KEYS, &line.keys, Tone::Key);
        if named {
            inner.say(2 + KEYS + 1, y, NAME, line.name, Tone::Strong);
        }
        inner.say(at, y, room, &line.doc, Tone::Text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_from_80_columns_on() {
        let keymap = Keymap::default();
        for width in 80..=200 {
            let (_, at, room) = columns(width);
            assert!(at + room < inner(width), "{width}");
            for line in lines(&keymap, Context::Timeline, width) {
                let keys = if line.heading { inner(width) - 2 } else { KEYS };
                assert!(pen::width(&line.keys) <= keys && pen::width(line.name) <= NAME, "{width}: {line:?}");
                assert!(pen::width(&line.doc) <= room, "{width}: {line:?}");
            }
            // Nor is anything left out.
            let all: Vec<String> = lines(&keymap, Context::Any, width).into_iter().map(|line| line.doc).collect();
            let all = all.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(ACTIONS.iter().all(|info| all.contains(info.doc)), "{width}");
        }
    }

    #[test]
    fn the_screens_own_keys_come_first() {
        for first in [Context::Timeline, Context::Overview, Context::Any] {
            let lines = lines(&Keymap::default(), first, 120);
            assert_eq!((lines[0].heading, &*lines[0].keys), (true, first.doc()));
        }
    }
}
