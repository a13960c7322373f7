//! What can go wrong with a query, told with the place in the text.

use std::fmt;

use thiserror::Error;

/// A failed query.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The text is not SQL that can run.
    #[error("{0}")]
    Sql(Box<SqlError>),
    /// Stopped by the user.
    #[error("stopped before it was done")]
    Interrupted,
    /// The output could not be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] std::io::Error),
    /// SQLite failed in a way that no text of the query explains.
    #[error("SQLite: {0}")]
    Engine(#[from] rusqlite::Error),
}

impl QueryError {
    /// An error at byte `offset` of `source`.
    pub fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        QueryError::Sql(Box::new(SqlError {
            message: message.into(),
            place: Some(Place::of(source, offset)),
            hint: None,
        }))
    }

    /// The same with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            QueryError::Sql(mut e) => {
                e.hint = Some(hint.into());
                QueryError::Sql(e)
            }
            other => other,
        }
    }

    /// True when the reader of the output went away (`| head`): no failure of the query.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, QueryError::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// What is wrong with the text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// What, in SQLite's words or ours.
    pub message: String,
    /// Where.
    pub place: Option<Place>,
    /// What might mend it.
    pub hint: Option<String>,
}

/// A place in the text of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The line, safe to print; long ones cut around the place.
    text: String,
    /// Where in `text` the caret goes.
    caret: usize,
}

/// Characters of a line shown before and after the place.
const AROUND: usize = 50;

impl Place {
    /// The place of byte `offset` in `source`; past the end is the end.
    pub fn of(source: &str, offset: usize) -> Place {
        let mut offset = offset.min(source.len());
        while !source.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = source[..offset].rfind('\n').map_or(0, |n| n + 1);
        let end = source[offset..].find('\n').map_or(source.len(), |n| offset + n);
        let before: Vec<char> = source[start..offset].chars().collect();
        let after: Vec<char> = source[offset..end].chars().collect();
        let cut = before.len().saturating_sub(AROUND);
        let show =
            |chars: &[char]| crate::names::printable(chars.iter().collect::<String>().replace('\t', " ").as_bytes());
        let mut text = if cut > 0 { "…".to_owned() } else { String::new() };
        text.push_str(&show(&before[cut..]));
        let caret = unicode_width::UnicodeWidthStr::width(text.as_str());
        text.push_str(&show(&after[..after.len().min(AROUND)]));
        if after.len() > AROUND {
            text.push('…');
        }
        Place { line: source[..start].matches('\n').count() + 1, column: before.len() + 1, text, caret }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::names::printable(self.message.as_bytes()))?;
        if let Some(place) = &self.place {
            write!(
                f,
                " (line {}, column {})\n  {}\n  {:caret$}^",
                place.line,
                place.column,
                place.text,
                "",
                caret = place.caret
            )?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_character() {
        let e = QueryError::at("SELECT 1;\nSELEC 数 x", 10 + 10, "bad").to_string();
        // Byte 20 is "x": line 2, after "SELEC ", one two-cell character and a space.
        assert_eq!(e, "bad (line 2, column 9)\n  SELEC 数 x\n           ^");
    }

    #[test]
    fn long_lines_are_cut_and_hostile_text_is_made_visible() {
        let source = format!("{}\x1b[2J{}", "a".repeat(300), "b".repeat(300));
        let shown = QueryError::at(&source, 304, "m").to_string();
        assert!(shown.contains("\\x1b[2J") && !shown.contains('\x1b'));
        assert!(shown.lines().all(|l| l.chars().count() < 120));
    }
}
