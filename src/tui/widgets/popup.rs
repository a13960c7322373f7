//! Things on top of a screen: the line being typed, the palette's choices, a framed box.

use crate::tui::actions::{Action, Context};
use crate::tui::keymap::Keymap;
use crate::tui::pen::{self, Pen};
use crate::tui::prompt::{Prompt, Purpose};
use crate::tui::theme::Tone;

/// A framed, emptied box in the middle, at most `w` × `h`; gives the pen for its inside.
pub fn boxed<'p>(pen: &'p mut Pen<'_>, w: u16, h: u16, title: &str) -> Pen<'p> {
    let (w, h) = (w.min(pen.w()), h.min(pen.h()));
    let (x, y) = ((pen.w() - w) / 2, (pen.h() - h) / 2);
    {
        let mut outer = pen.part(x, y, w, h);
        outer.clear();
        outer.frame(title);
    }
    pen.part(x + 1, y + 1, w.saturating_sub(2), h.saturating_sub(2))
}

/// The line being typed, at the bottom of the screen, and the palette's choices above it.
pub fn draw_prompt(pen: &mut Pen<'_>, prompt: &Prompt, keymap: &Keymap) {
    let Some(y) = pen.h().checked_sub(1) else { return };
    let (lead, hint) = match prompt.purpose {
        Purpose::Palette => (":".to_string(), ""),
        Purpose::Argument(action) => (format!("{}: ", action.name()), action.info().argument.unwrap_or("")),
    };
    if prompt.purpose == Purpose::Palette {
        draw_choices(pen, prompt, keymap);
    }
    if prompt.purpose == Purpose::Argument(Action::Query) {
        draw_queries(pen, prompt);
    }
    let style = pen.theme.style(Tone::Text);
    let width = pen.w();
    pen.fill(0, y, width, ' ', style);
    let x = pen.say(0, y, width, &lead, Tone::Key);
    let (before, after) = prompt.halves();
    // A long line scrolls so that the cursor stays in sight.
    let room = width.saturating_sub(x + 1);
    let before = tail_that_fits(&before, room);
    let at = x + pen.text(x, y, room, before, style);
    pen.text(at, y, width.saturating_sub(at), &after, style);
    if before.is_empty() && after.is_empty() {
        pen.say(at + 1, y, width.saturating_sub(at + 1), hint, Tone::Dim);
    }
    pen.tint(at, y, 1, Tone::Cursor);
}

fn tail_that_fits(text: &str, room: u16) -> &str {
    let mut start = 0;
    while pen::width(&text[start..]) > room {
        start += text[start..].chars().next().map_or(1, char::len_utf8);
    }
    &text[start..]
}

fn draw_choices(pen: &mut Pen<'_>, prompt: &Prompt, keymap: &Keymap) {
    let choices = prompt.choices();
    let rows = usize::from(pen.h().saturating_sub(3).min(14)).min(choices.len().max(1));
    let (w, h) = (pen.w(), u16::try_from(rows).unwrap_or(0) + 2);
    let y = pen.h().saturating_sub(h + 1);
    let mut area = pen.part(0, y, w.min(96), h);
    area.clear();
    area.frame("actions");
    let top = prompt.choice.saturating_sub(rows.saturating_sub(1));
    let (w, _) = (area.w(), area.h());
    if choices.is_empty() {
        area.say(2, 1, w.saturating_sub(4), "no such action", Tone::Dim);
    }
    for (i, info) in choices.iter().enumerate().skip(top).take(rows) {
        let y = u16::try_from(i - top).unwrap_or(0) + 1;
        let keys =
            info.keys.first().map(|(context, _)| keymap.keys_of(info.action, *context).join("  ")).unwrap_or_default();
        area.say(2, y, 16.min(w.saturating_sub(4)), info.name, Tone::Strong);
        if w > 40 {
            area.say(19, y, w.saturating_sub(19 + 16), info.doc, Tone::Text);
            let style = area.theme.style(Tone::Key);
            area.right(w - 2, y, 14, &keys, style);
        }
        if i == prompt.choice {
            area.tint(1, y, w.saturating_sub(2), Tone::Selected);
        }
    }
}

/// The ready queries that fit what is typed.
fn draw_queries(pen: &mut Pen<'_>, prompt: &Prompt) {
    let queries = prompt.queries();
    let rows = usize::from(pen.h().saturating_sub(3).min(20)).min(queries.len().max(1));
    let (w, h) = (pen.w(), u16::try_from(rows).unwrap_or(0) + 2);
    let y = pen.h().saturating_sub(h + 1);
    let mut area = pen.part(0, y, w.min(96), h);
    area.clear();
    area.frame("ready queries");
    let (top, w) = (prompt.choice.saturating_sub(rows.saturating_sub(1)), area.w());
    if queries.is_empty() {
        area.say(2, 1, w.saturating_sub(4), "no such query", Tone::Dim);
    }
    for (i, ready) in queries.iter().enumerate().skip(top).take(rows) {
        let y = u16::try_from(i - top).unwrap_or(0) + 1;
        area.say(2, y, 20.min(w.saturating_sub(4)), ready.name, Tone::Strong);
        area.say(23, y, w.saturating_sub(25), ready.title(), Tone::Text);
        if i == prompt.choice {
            area.tint(1, y, w.saturating_sub(2), Tone::Selected);
        }
    }
}

/// Keys of the hint line: `s snapshot  space pause`.
pub fn hints(keymap: &Keymap, context: Context, wanted: &[(Action, &str)]) -> Vec<(String, String)> {
    wanted
        .iter()
        .map(|(action, word)| (keymap.hint(*action, context), (*word).to_string()))
        .filter(|(key, _)| !key.is_empty())
        .collect()
}
