//! SQL text into tokens: just enough to find statements, macros and parameters without being fooled by
//! strings and comments.

use crate::query::error::QueryError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// White space or a comment.
    Blank,
    /// A keyword or plain name.
    Word,
    /// A name in double quotes, brackets or backticks.
    Quoted,
    /// A string in single quotes.
    Text,
    /// A number.
    Number,
    /// `$name` (also `:name`, `@name`).
    Parameter,
    /// Any other character.
    Mark,
}

/// A token: its kind and its bytes in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
}

impl Token {
    /// Its text.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }

    /// True for the keyword `word`, in any case.
    pub fn is_word(&self, source: &str, word: &str) -> bool {
        self.kind == Kind::Word && self.text(source).eq_ignore_ascii_case(word)
    }

    /// True for the single character `mark`.
    pub fn is_mark(&self, source: &str, mark: char) -> bool {
        self.kind == Kind::Mark && self.text(source).starts_with(mark)
    }
}

/// Takes `source` apart. The tokens cover every byte.
pub fn tokens(source: &str) -> Result<Vec<Token>, QueryError> {
    let bytes = source.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = next(source, at)?;
        out.push(Token { kind, start: at, end });
        at = end;
    }
    Ok(out)
}

fn next(source: &str, at: usize) -> Result<(Kind, usize), QueryError> {
    let bytes = source.as_bytes();
    let rest = &bytes[at..];
    let run = |from: usize, of: fn(u8) -> bool| from + bytes[from..].iter().take_while(|b| of(**b)).count();
    Ok(match rest[0] {
        b if b.is_ascii_whitespace() => (Kind::Blank, run(at, |b| b.is_ascii_whitespace())),
        b'-' if rest.starts_with(b"--") => (Kind::Blank, run(at, |b| b != b'\n')),
        b'/' if rest.starts_with(b"/*") => match source[at + 2..].find("*/") {
            Some(n) => (Kind::Blank, at + 2 + n + 2),
            None => return Err(QueryError::at(source, at, "this comment is never closed")),
        },
        b'\'' => (Kind::Text, quoted(source, at, b'\'', "string")?),
        b'"' => (Kind::Quoted, quoted(source, at, b'"', "name")?),
        b'`' => (Kind::Quoted, quoted(source, at, b'`', "name")?),
        b'[' => match source[at..].find(']') {
            Some(n) => (Kind::Quoted, at + n + 1),
            None => return Err(QueryError::at(source, at, "this [name] is never closed")),
        },
        b'$' | b':' | b'@' if rest.get(1).copied().is_some_and(is_word) => (Kind::Parameter, run(at + 1, is_word)),
        b'0'..=b'9' => (Kind::Number, number(bytes, at)),
        b if is_word(b) => (Kind::Word, run(at, is_word)),
        _ => (Kind::Mark, at + source[at..].chars().next().map_or(1, char::len_utf8)),
    })
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

fn number(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    while end < bytes.len() {
        let exponent_sign = matches!(bytes[end], b'+' | b'-')
            && matches!(bytes[end - 1], b'e' | b'E')
            && bytes[at + 1..].first() != Some(&b'x');
        if !(is_word(bytes[end]) || bytes[end] == b'.' || (end > at && exponent_sign)) {
            break;
        }
        end += 1;
    }
    end
}

fn quoted(source: &str, at: usize, quote: u8, what: &str) -> Result<usize, QueryError> {
    let bytes = source.as_bytes();
    let mut end = at + 1;
    while end < bytes.len() {
        if bytes[end] != quote {
            end += 1;
        } else if bytes.get(end + 1) == Some(&quote) {
            end += 2;
        } else {
            return Ok(end + 1);
        }
    }
    Err(QueryError::at(source, at, format!("this {what} is never closed")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).unwrap().iter().filter(|t| t.kind != Kind::Blank).map(|t| t.text(source)).collect()
    }

    #[test]
    fn strings_and_comments_hide_what_is_in_them() {
        assert_eq!(texts("a';--'--b;\n/*;*/\"x;\"\"y\"[z;]"), ["a", "';--'", "\"x;\"\"y\"", "[z;]"]);
        assert_eq!(texts("x=1e-3-2 $p 'it''s'"), ["x", "=", "1e-3", "-", "2", "$p", "'it''s'"]);
        assert_eq!(texts("0xe-1"), ["0xe", "-", "1"]);
        assert_eq!(texts("列.名"), ["列", ".", "名"]);
    }

    #[test]
    fn what_is_not_closed_is_shown() {
        for (source, word) in [("SELECT 'x", "string"), ("a /* b", "comment"), ("\"q", "name")] {
            assert!(tokens(source).unwrap_err().to_string().contains(word));
        }
    }

    proptest! {
        #[test]
        fn tokens_cover_the_source(source in "\\PC{0,60}") {
            if let Ok(list) = tokens(&source) {
                let joined: String = list.iter().map(|t| t.text(&source)).collect();
                prop_assert_eq!(joined, source);
            }
        }
    }
}
