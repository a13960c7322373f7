//! One key press, as text and from the terminal. Knows nothing of what keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt;

/// A key with its modifiers. A character's shift is in the character (`Q`, `?`), so `shift` is set only for named keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which.
    pub code: Code,
    /// With Ctrl.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// With Shift (named keys only).
    pub shift: bool,
}

/// A key without modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those on the keyboard")]
pub enum Code {
    Char(char),
    F(u8),
    Enter,
    Esc,
    Tab,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

const NAMED: [(&str, Code); 14] = [
    ("enter", Code::Enter),
    ("esc", Code::Esc),
    ("tab", Code::Tab),
    ("backspace", Code::Backspace),
    ("delete", Code::Delete),
    ("insert", Code::Insert),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pagedown", Code::PageDown),
];

impl Key {
    /// A character without modifiers.
    pub fn char(c: char) -> Key {
        Key { code: Code::Char(c), ctrl: false, alt: false, shift: false }
    }

    /// The text it types, if it types one.
    pub fn typed(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// What the terminal sent; `None` for keys this program has no word for (media keys, lone modifiers).
    pub fn from_terminal(event: KeyEvent) -> Option<Key> {
        let code = match event.code {
            KeyCode::Char(c) => Code::Char(c),
            KeyCode::F(n) => Code::F(n),
            KeyCode::Enter => Code::Enter,
            KeyCode::Esc => Code::Esc,
            KeyCode::Tab | KeyCode::BackTab => Code::Tab,
            KeyCode::Backspace => Code::Backspace,
            KeyCode::Delete => Code::Delete,
            KeyCode::Insert => Code::Insert,
            KeyCode::Up => Code::Up,
            KeyCode::Down => Code::Down,
            KeyCode::Left => Code::Left,
            KeyCode::Right => Code::Right,
            KeyCode::Home => Code::Home,
            KeyCode::End => Code::End,
            KeyCode::PageUp => Code::PageUp,
            KeyCode::PageDown => Code::PageDown,
            _ => return None,
        };
        let shift = event.modifiers.contains(KeyModifiers::SHIFT) || event.code == KeyCode::BackTab;
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        let code = match code {
            // Terminals that report shift beside the character may leave the letter small; with Ctrl the case carries nothing.
            Code::Char(c) if ctrl => Code::Char(c.to_ascii_lowercase()),
            Code::Char(c) if shift => Code::Char(c.to_uppercase().next().unwrap_or(c)),
            other => other,
        };
        let shift = shift && !matches!(code, Code::Char(_));
        Some(Key { code, ctrl, alt: event.modifiers.contains(KeyModifiers::ALT), shift })
    }

    /// One key in a keymap's notation (`q`, `ctrl-c`, `shift-tab`, `f5`). The error says what is wrong.
    pub fn parse(text: &str) -> Result<Key, String> {
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        let mut rest = text;
        loop {
            let (flag, tail) = if let Some(t) = rest.strip_prefix("ctrl-") {
                (&mut ctrl, t)
            } else if let Some(t) = rest.strip_prefix("alt-") {
                (&mut alt, t)
            } else if let Some(t) = rest.strip_prefix("shift-") {
                (&mut shift, t)
            } else {
                break;
            };
            *flag = true;
            rest = tail;
        }
        let code =
            parse_code(rest).ok_or_else(|| format!("{text:?} is no key; keys look like q, ctrl-c, f5, pageup"))?;
        match code {
            Code::Char(c) if shift => {
                Err(format!("write the shifted character itself ({:?}), not {text:?}", c.to_uppercase()))
            }
            Code::Char(c) if ctrl && c.is_uppercase() => {
                Err(format!("Ctrl does not tell small and capital letters apart: write ctrl-{}", c.to_lowercase()))
            }
            _ => Ok(Key { code, ctrl, alt, shift }),
        }
    }

    /// Several keys after one another, separated by blanks.
    pub fn parse_sequence(text: &str) -> Result<Vec<Key>, String> {
        let keys: Vec<Key> = text.split_whitespace().map(Key::parse).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err("an empty text is no key; the space bar is \"space\"".into());
        }
        Ok(keys)
    }
}

fn parse_code(text: &str) -> Option<Code> {
    if text == "space" {
        return Some(Code::Char(' '));
    }
    if let Some((_, code)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Some(*code);
    }
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !c.is_control() && !c.is_whitespace() => return Some(Code::Char(c)),
        _ => {}
    }
    let n: u8 = text.strip_prefix('f')?.parse().ok()?;
    (1..=24).contains(&n).then_some(Code::F(n))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, word) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if on {
                f.write_str(word)?;
            }
        }
        match self.code {
            Code::Char(' ') => f.write_str("space"),
            Code::Char(c) => write!(f, "{c}"),
            Code::F(n) => write!(f, "f{n}"),
            code => f.write_str(NAMED.iter().find(|(_, c)| *c == code).map_or("", |(name, _)| name)),
        }
    }
}

/// A sequence as text, keys separated by a blank.
pub fn sequence_text(keys: &[Key]) -> String {
    keys.iter().map(Key::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn notation_both_ways() {
        for text in
            ["q", "Q", "?", "space", "ctrl-c", "alt-x", "shift-tab", "f12", "pageup", "ctrl-alt-delete", "-", "ctrl--"]
        {
            assert_eq!(Key::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "qq", "ctrl-", "f0", "f25", "shift-a", "ctrl-C", "Enter", "\u{1b}"] {
            assert!(Key::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_terminals_send() {
        let key = |code, modifiers| Key::from_terminal(KeyEvent::new(code, modifiers)).unwrap().to_string();
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), "q");
        assert_eq!(key(KeyCode::Char('S'), KeyModifiers::SHIFT), "S");
        assert_eq!(key(KeyCode::Char('s'), KeyModifiers::SHIFT), "S");
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), "ctrl-c");
        assert_eq!(key(KeyCode::BackTab, KeyModifiers::SHIFT), "shift-tab");
        assert_eq!(Key::from_terminal(KeyEvent::new(KeyCode::CapsLock, KeyModifiers::NONE)), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,12}") {
            if let Ok(keys) = Key::parse_sequence(&text) {
                prop_assert_eq!(Key::parse_sequence(&sequence_text(&keys)).unwrap(), keys);
            }
        }
    }
}
