//! A line being typed on top of the screen: text, cursor, and choices for the palette.
//!
//! Knows editing only; what an accepted line does is `update`'s business.

use super::actions::{ACTIONS, Action, ActionInfo};
use super::fuzzy;
use crate::query::library::{self, Ready};

/// What the line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Any action by name, with its text behind it.
    Palette,
    /// The text an action takes.
    Argument(Action),
}

/// The longest line, in characters.
const LONGEST: usize = 400;

/// The line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub purpose: Purpose,
    text: Vec<char>,
    cursor: usize,
    /// Selected choice.
    pub choice: usize,
}

impl Prompt {
    /// With this text in it, the cursor at its end.
    pub fn new(purpose: Purpose, text: &str) -> Prompt {
        let text: Vec<char> = text.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        Prompt { purpose, cursor: text.len(), text, choice: 0 }
    }

    /// The whole line.
    pub fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// What stands before the cursor, and behind it.
    pub fn halves(&self) -> (String, String) {
        (self.text[..self.cursor].iter().collect(), self.text[self.cursor..].iter().collect())
    }

    /// Types a character; control characters and what is too long are dropped.
    pub fn insert(&mut self, c: char) {
        if !c.is_control() && self.text.len() < LONGEST {
            self.text.insert(self.cursor, c);
            self.cursor += 1;
            self.choice = 0;
        }
    }

    /// Editing; false when the action does not edit.
    pub fn edit(&mut self, action: Action) -> bool {
        match action {
            Action::EraseChar => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.text.remove(self.cursor);
                }
            }
            Action::EraseWord => {
                let mut from = self.cursor;
                while from > 0 && self.text[from - 1] == ' ' {
                    from -= 1;
                }
                while from > 0 && self.text[from - 1] != ' ' {
                    from -= 1;
                }
                self.text.drain(from..self.cursor);
                self.cursor = from;
            }
            Action::EraseLine => {
                self.text.clear();
                self.cursor = 0;
            }
            Action::CursorLeft => self.cursor = self.cursor.saturating_sub(1),
            Action::CursorRight => self.cursor = (self.cursor + 1).min(self.text.len()),
            Action::CursorHome => self.cursor = 0,
            Action::CursorEnd => self.cursor = self.text.len(),
            Action::ChoiceUp => self.choice = self.choice.saturating_sub(1),
            Action::ChoiceDown => self.choice = (self.choice + 1).min(self.number_of_choices().saturating_sub(1)),
            Action::NextField => self.complete(),
            _ => return false,
        }
        if !matches!(action, Action::ChoiceUp | Action::ChoiceDown) {
            self.choice = self.choice.min(self.number_of_choices().saturating_sub(1));
        }
        true
    }

    fn number_of_choices(&self) -> usize {
        self.choices().len().max(self.queries().len())
    }

    /// The ready queries for what is typed, if one is to be chosen: best first.
    pub fn queries(&self) -> Vec<&'static Ready> {
        if self.purpose == Purpose::Argument(Action::Query) { queries_like(&self.text()) } else { Vec::new() }
    }

    /// The ready query that would be asked.
    pub fn chosen_query(&self) -> Option<&'static Ready> {
        let queries = self.queries();
        queries.get(self.choice).or_else(|| queries.first()).copied()
    }

    /// The palette's choices for what is typed: best first.
    pub fn choices(&self) -> Vec<&'static ActionInfo> {
        if self.purpose != Purpose::Palette {
            return Vec::new();
        }
        let text = self.text();
        let word = text.split_whitespace().next().unwrap_or("");
        // Once a whole name with a blank behind it stands there, the rest is its argument.
        if let Some(action) = Action::parse(word)
            && text.trim_start().len() > word.len()
        {
            return vec![action.info()];
        }
        let mut hits: Vec<(i32, &ActionInfo)> = ACTIONS
            .iter()
            .filter(|info| info.action.in_palette())
            .filter_map(|info| {
                let by_name = fuzzy::score(&text, info.name).map(|s| s + 500);
                Some((by_name.max(fuzzy::score(&text, info.doc))?, info))
            })
            .collect();
        hits.sort_by_key(|(score, info)| (-score, info.action));
        hits.into_iter().map(|(_, info)| info).collect()
    }

    /// What the palette would run: the action and the text behind its name.
    pub fn chosen(&self) -> Option<(Action, String)> {
        let choices = self.choices();
        let info = choices.get(self.choice).or_else(|| choices.first())?;
        let text = self.text();
        let argument = text.trim_start().strip_prefix(info.name).map_or("", str::trim);
        Some((info.action, argument.to_string()))
    }

    fn complete(&mut self) {
        let choices = self.choices();
        if let Some(info) = choices.get(self.choice)
            && self.purpose == Purpose::Palette
        {
            let tail = if info.argument.is_some() { " " } else { "" };
            *self = Prompt::new(self.purpose, &format!("{}{tail}", info.name));
        }
    }
}

/// Ready queries by name and by what they say of themselves, best first; all for no text.
pub fn queries_like(text: &str) -> Vec<&'static Ready> {
    let score = |ready: &Ready| {
        let by_name = fuzzy::score(text, ready.name).map(|s| s + 500);
        by_name.max(fuzzy::score(text, ready.title()))
    };
    let mut hits: Vec<(i32, &Ready)> = library::QUERIES.iter().filter_map(|r| Some((score(r)?, r))).collect();
    hits.sort_by_key(|(score, ready)| (-score, ready.name));
    hits.into_iter().map(|(_, ready)| ready).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Prompt {
        let mut p = Prompt::new(Purpose::Palette, "");
        text.chars().for_each(|c| p.insert(c));
        p
    }

    #[test]
    fn the_palette_finds_by_name_and_by_meaning() {
        assert_eq!(typed("quit").chosen().unwrap().0, Action::Quit);
        assert_eq!(typed("goto-time 14:02").chosen().unwrap(), (Action::GotoTime, "14:02".into()));
        assert!(typed("clipboard xyzzy").chosen().is_none());
        assert!(!typed("erase").choices().iter().any(|i| i.action == Action::EraseWord));
    }

    #[test]
    fn editing() {
        let mut p = typed("mark step 812");
        p.edit(Action::EraseWord);
        assert_eq!(p.text(), "mark step ");
        p.edit(Action::CursorHome);
        p.insert('x');
        p.insert('\u{1b}');
        assert_eq!(p.text(), "xmark step ");
        p.edit(Action::EraseLine);
        assert_eq!(p.halves(), (String::new(), String::new()));
        p.edit(Action::EraseChar);
        let mut p = typed("snapsh");
        p.edit(Action::NextField);
        assert!(p.text().starts_with("snapshot"));
    }
}
