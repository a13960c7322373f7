//! `CREATE PERFETTO MACRO` and `name!(…)`: replacement of text, bounded in depth and size.

use std::collections::BTreeMap;

use super::modules;
use super::rewrite::Rewritten;
use super::token::{Kind, Token, tokens};
use crate::query::error::QueryError;
use crate::query::intersect;

/// Deepest nesting of macros within macros.
const MAX_DEPTH: usize = 64;
/// Longest text a statement may become; doubling macros reach any size otherwise.
const MAX_TEXT: usize = 4 << 20;

/// A macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macro {
    /// Names of its parameters.
    pub parameters: Vec<String>,
    /// What it becomes.
    pub body: Body,
}

/// What a macro becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// This text, parameters as `$name`.
    Text(String),
    /// What overlaps of a list of tables, by a list of columns, each in parentheses.
    IntervalIntersect,
}

/// Macros by lower-case name.
pub type Macros = BTreeMap<String, Macro>;

/// Replaces every macro call in `list` (tokens of `source`).
pub fn expand(source: &str, list: &[Token], macros: &Macros) -> Result<Rewritten, QueryError> {
    let mut out = Rewritten::default();
    expand_into(&mut out, &Text { source, at: None }, list, macros, 0, source)?;
    Ok(out)
}

/// A text being expanded: the user's, or a macro's that stands for the user's byte `at`.
struct Text<'a> {
    source: &'a str,
    at: Option<usize>,
}

impl Text<'_> {
    fn place(&self, offset: usize) -> usize {
        self.at.unwrap_or(offset)
    }
}

fn expand_into(
    out: &mut Rewritten,
    text: &Text<'_>,
    list: &[Token],
    macros: &Macros,
    depth: usize,
    user: &str,
) -> Result<(), QueryError> {
    let mut n = 0;
    while n < list.len() {
        let token = list[n];
        let place = text.place(token.start);
        match call(text.source, &list[n..]) {
            Some((open, close)) => {
                let name = token.text(text.source);
                let Some(found) = macros.get(&name.to_ascii_lowercase()) else {
                    let error = QueryError::at(user, place, format!("there is no macro {name}!"));
                    return Err(match modules::hint(name) {
                        Some(hint) => error.with_hint(hint),
                        None => error,
                    });
                };
                if depth >= MAX_DEPTH {
                    return Err(QueryError::at(
                        user,
                        place,
                        format!("macro {name}! is nested more than {MAX_DEPTH} deep"),
                    ));
                }
                let arguments = arguments(text.source, &list[n + open + 1..n + close]);
                if arguments.len() != found.parameters.len() {
                    let message = format!(
                        "macro {name}! takes {} arguments ({}), {} are given",
                        found.parameters.len(),
                        found.parameters.join(", "),
                        arguments.len()
                    );
                    return Err(QueryError::at(user, place, message));
                }
                let expanded = |arguments: Vec<&[Token]>| {
                    let expand = |argument| {
                        let mut r = Rewritten::default();
                        expand_into(&mut r, text, argument, macros, depth + 1, user).map(|()| r)
                    };
                    arguments.into_iter().map(expand).collect::<Result<Vec<Rewritten>, QueryError>>()
                };
                match &found.body {
                    Body::Text(body) => {
                        let arguments = expanded(arguments)?;
                        substitute(out, (body, &found.parameters), &arguments, place, macros, depth, user)?;
                    }
                    Body::IntervalIntersect => {
                        let mut lists = Vec::new();
                        for argument in arguments {
                            let items = expanded(items(text.source, argument).ok_or_else(|| {
                                QueryError::at(
                                    user,
                                    place,
                                    format!("macro {name}! takes two lists: ((table, …), (column, …))"),
                                )
                            })?)?;
                            lists.push(items.into_iter().map(|item| item.sql).collect::<Vec<String>>());
                        }
                        out.insert(&intersect::sql(&lists[0], &lists[1]), place);
                    }
                }
                n += close + 1;
            }
            None => {
                match text.at {
                    None => out.copy(token.text(text.source), token.start),
                    Some(at) => out.insert(token.text(text.source), at),
                }
                n += 1;
            }
        }
        if out.sql.len() > MAX_TEXT {
            return Err(QueryError::at(user, place, "macros make this statement longer than 4 MiB"));
        }
    }
    Ok(())
}

/// Replaces the parameters in the body, then expands what macros that yields.
fn substitute(
    out: &mut Rewritten,
    (body, parameters): (&str, &[String]),
    arguments: &[Rewritten],
    place: usize,
    macros: &Macros,
    depth: usize,
    user: &str,
) -> Result<(), QueryError> {
    let mut filled = String::new();
    for token in &tokens(body)? {
        let text = token.text(body);
        let parameter = (token.kind == Kind::Parameter)
            .then(|| parameters.iter().position(|p| p.eq_ignore_ascii_case(&text[1..])))
            .flatten();
        match parameter.and_then(|p| arguments.get(p)) {
            Some(argument) => filled.push_str(&argument.sql),
            None => filled.push_str(text),
        }
        if filled.len() > MAX_TEXT {
            return Err(QueryError::at(user, place, "macros make this statement longer than 4 MiB"));
        }
    }
    let list = tokens(&filled)?;
    expand_into(out, &Text { source: &filled, at: Some(place) }, &list, macros, depth + 1, user)
}

/// The items of a list in parentheses.
fn items<'a>(source: &str, list: &'a [Token]) -> Option<Vec<&'a [Token]>> {
    let solid = |t: &Token| t.kind != Kind::Blank;
    let (first, last) = (list.iter().position(solid)?, list.iter().rposition(solid)?);
    (list[first].is_mark(source, '(') && list[last].is_mark(source, ')') && first < last)
        .then(|| arguments(source, &list[first + 1..last]))
}

/// If `list` begins with `name!(…)`: where its parentheses open and close.
fn call(source: &str, list: &[Token]) -> Option<(usize, usize)> {
    if list.first()?.kind != Kind::Word {
        return None;
    }
    let mut solid = list.iter().enumerate().skip(1).filter(|(_, t)| t.kind != Kind::Blank);
    solid.next().filter(|(_, t)| t.is_mark(source, '!'))?;
    let (open, _) = solid.next().filter(|(_, t)| t.is_mark(source, '('))?;
    let mut depth = 0usize;
    for (n, token) in list.iter().enumerate().skip(open) {
        if token.is_mark(source, '(') {
            depth += 1;
        } else if token.is_mark(source, ')') {
            depth -= 1;
            if depth == 0 {
                return Some((open, n));
            }
        }
    }
    None
}

/// Splits at commas outside parentheses; blank text is no argument.
pub fn arguments<'a>(source: &str, list: &'a [Token]) -> Vec<&'a [Token]> {
    let mut out = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (n, token) in list.iter().enumerate() {
        if token.is_mark(source, '(') {
            depth += 1;
        } else if token.is_mark(source, ')') {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is_mark(source, ',') {
            out.push(&list[start..n]);
            start = n + 1;
        }
    }
    out.push(&list[start..]);
    if out.len() == 1 && out[0].iter().all(|t| t.kind == Kind::Blank) {
        out.clear();
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(source: &str, macros: &[(&str, &[&str], &str)]) -> Result<String, QueryError> {
        let macros = macros
            .iter()
            .map(|(name, p, body)| {
                let parameters = p.iter().map(|s| (*s).to_owned()).collect();
                ((*name).to_owned(), Macro { parameters, body: Body::Text((*body).to_owned()) })
            })
            .collect();
        Ok(expand(source, &tokens(source)?, &macros)?.sql)
    }

    #[test]
    fn arguments_may_hold_commas_in_parentheses_and_other_macros() {
        let macros: &[(&str, &[&str], &str)] = &[("mx", &["a", "b"], "max($a, $b)"), ("one", &[], "1")];
        assert_eq!(
            run("SELECT Mx!(f(x, y), mx!(2,one!())) != 3", macros).unwrap(),
            "SELECT max(f(x, y),  max(2, 1)) != 3"
        );
    }

    #[test]
    fn recursion_and_doubling_are_refused() {
        assert!(run("a!()", &[("a", &[], "a!()")]).unwrap_err().to_string().contains("deep"));
        let twice: &[(&str, &[&str], &str)] = &[("d", &["x"], "$x$x$x$x$x$x$x$x")];
        let source = format!("{}'{}'{}", "d!(".repeat(20), "y".repeat(40), ")".repeat(20));
        assert!(run(&source, twice).unwrap_err().to_string().contains("4 MiB"));
    }

    #[test]
    fn unknown_macro_or_count_shows_the_place() {
        assert!(run("SELECT nope!(1)", &[]).unwrap_err().to_string().contains("column 8"));
        assert!(
            run("m!(1,2)", &[("m", &["x"], "$x")])
                .unwrap_err()
                .to_string()
                .contains("takes 1 arguments (x), 2 are given")
        );
    }
}
