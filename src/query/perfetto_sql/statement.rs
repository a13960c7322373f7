//! Statements: where each begins and ends, and what those that say `PERFETTO` mean.

use super::macros::{Body, Macro, Macros, arguments, expand};
use super::rewrite::Rewritten;
use super::token::{Kind, Token, tokens};
use crate::query::error::QueryError;

/// One statement, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// For SQLite, perhaps rewritten.
    Sql(Rewritten),
    /// `CREATE [OR REPLACE] PERFETTO TABLE|VIEW|INDEX`: what to drop first, then the statement.
    Replace {
        /// `DROP … IF EXISTS …`.
        drop: String,
        /// The statement.
        create: Rewritten,
    },
    /// `INCLUDE PERFETTO MODULE name`; the place of the name.
    Include(String, usize),
    /// `CREATE PERFETTO MACRO`.
    Macro(String, Macro),
    /// `CREATE PERFETTO FUNCTION`.
    Function(Function),
}

/// A function made of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Names of its arguments.
    pub arguments: Vec<String>,
    /// What it gives.
    pub returns: Returns,
    /// Its query, arguments as `$name`.
    pub body: String,
    /// Where it stands in the source.
    pub place: usize,
}

/// What a function gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returns {
    /// One value.
    Value,
    /// Rows with these columns.
    Table(Vec<String>),
}

/// Cuts a script at its semicolons; statements of blanks and comments alone are left out.
pub fn split(source: &str) -> Result<Vec<Vec<Token>>, QueryError> {
    let mut out = vec![Vec::new()];
    for token in tokens(source)? {
        if token.is_mark(source, ';') {
            out.push(Vec::new());
        } else if let Some(last) = out.last_mut() {
            last.push(token);
        }
    }
    out.retain(|list: &Vec<Token>| list.iter().any(|t| t.kind != Kind::Blank));
    Ok(out)
}

/// Understands one statement, given as tokens of `source`.
pub fn read_statement(source: &str, list: &[Token], macros: &Macros) -> Result<Statement, QueryError> {
    let mut reader = Reader { source, list, at: 0 };
    if reader.word("INCLUDE") && reader.word("PERFETTO") && reader.word("MODULE") {
        return reader.include();
    }
    reader.at = 0;
    if reader.word("CREATE") {
        let replace = reader.word("OR") && reader.word("REPLACE");
        if reader.word("PERFETTO") {
            return create(&mut reader, replace, macros);
        }
    }
    Ok(Statement::Sql(trimmed(source, list, macros)?))
}

fn trimmed(source: &str, list: &[Token], macros: &Macros) -> Result<Rewritten, QueryError> {
    let start = list.iter().position(|t| t.kind != Kind::Blank).unwrap_or(0);
    let end = list.iter().rposition(|t| t.kind != Kind::Blank).map_or(0, |n| n + 1);
    expand(source, &list[start..end.max(start)], macros)
}

fn create(reader: &mut Reader<'_>, replace: bool, macros: &Macros) -> Result<Statement, QueryError> {
    let place = reader.place();
    if reader.word("MACRO") {
        return reader.create_macro();
    }
    if reader.word("FUNCTION") {
        return reader.create_function(macros);
    }
    for kind in ["TABLE", "VIEW"] {
        if reader.word(kind) {
            let (name, name_place) = reader.name()?;
            if reader.is_mark('(') {
                reader.parentheses()?;
            }
            reader.expect("AS")?;
            let mut create = Rewritten::default();
            create.insert(&format!("CREATE {kind} {name} AS"), name_place);
            create.append(&expand(reader.source, &reader.list[reader.at..], macros)?);
            let drop = if replace { format!("DROP {kind} IF EXISTS {name}") } else { String::new() };
            return Ok(Statement::Replace { drop, create });
        }
    }
    if reader.word("INDEX") {
        let (name, name_place) = reader.name()?;
        let mut create = Rewritten::default();
        create.insert(&format!("CREATE INDEX {name} "), name_place);
        create.append(&expand(reader.source, &reader.list[reader.at..], macros)?);
        let drop = if replace { format!("DROP INDEX IF EXISTS {name}") } else { String::new() };
        return Ok(Statement::Replace { drop, create });
    }
    Err(QueryError::at(reader.source, place, "CREATE PERFETTO makes a TABLE, VIEW, INDEX, FUNCTION or MACRO"))
}

struct Reader<'a> {
    source: &'a str,
    list: &'a [Token],
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_blank(&mut self) {
        while self.list.get(self.at).is_some_and(|t| t.kind == Kind::Blank) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<Token> {
        self.skip_blank();
        self.list.get(self.at).copied()
    }

    fn place(&mut self) -> usize {
        self.peek().map_or_else(|| self.list.last().map_or(0, |t| t.end), |t| t.start)
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|t| t.is_word(self.source, word));
        self.at += usize::from(found);
        found
    }

    fn is_mark(&mut self, mark: char) -> bool {
        self.peek().is_some_and(|t| t.is_mark(self.source, mark))
    }

    fn expect(&mut self, word: &str) -> Result<(), QueryError> {
        let place = self.place();
        if self.word(word) {
            Ok(())
        } else {
            Err(QueryError::at(self.source, place, format!("{word} should stand here")))
        }
    }

    fn name(&mut self) -> Result<(&'a str, usize), QueryError> {
        let place = self.place();
        match self.peek() {
            Some(t) if matches!(t.kind, Kind::Word | Kind::Quoted) => {
                self.at += 1;
                Ok((t.text(self.source), t.start))
            }
            _ => Err(QueryError::at(self.source, place, "a name should stand here")),
        }
    }

    /// The tokens inside the parentheses that open here.
    fn parentheses(&mut self) -> Result<&'a [Token], QueryError> {
        let place = self.place();
        if !self.is_mark('(') {
            return Err(QueryError::at(self.source, place, "( should stand here"));
        }
        let start = self.at + 1;
        let mut depth = 0usize;
        while let Some(token) = self.list.get(self.at) {
            if token.is_mark(self.source, '(') {
                depth += 1;
            } else if token.is_mark(self.source, ')') {
                depth -= 1;
                if depth == 0 {
                    self.at += 1;
                    return Ok(&self.list[start..self.at - 1]);
                }
            }
            self.at += 1;
        }
        Err(QueryError::at(self.source, place, "this ( is never closed"))
    }

    fn include(&mut self) -> Result<Statement, QueryError> {
        let place = self.place();
        let name: String =
            self.list[self.at..].iter().filter(|t| t.kind != Kind::Blank).map(|t| t.text(self.source)).collect();
        if name.is_empty() {
            return Err(QueryError::at(self.source, place, "the name of a module should stand here"));
        }
        Ok(Statement::Include(name, place))
    }

    /// Names in a list of `name Type` pairs.
    fn declared(&self, list: &[Token]) -> Result<Vec<String>, QueryError> {
        let mut names = Vec::new();
        for part in arguments(self.source, list) {
            let Some(first) = part.iter().find(|t| t.kind != Kind::Blank) else { continue };
            if !matches!(first.kind, Kind::Word | Kind::Quoted) {
                return Err(QueryError::at(self.source, first.start, "a name and a type should stand here"));
            }
            names.push(first.text(self.source).to_owned());
        }
        Ok(names)
    }

    fn rest(&self) -> &'a str {
        match (self.list.get(self.at), self.list.last()) {
            (Some(first), Some(last)) => self.source[first.start..last.end].trim(),
            _ => "",
        }
    }

    fn create_macro(&mut self) -> Result<Statement, QueryError> {
        let (name, _) = self.name()?;
        let list = self.parentheses()?;
        let parameters = self.declared(list)?;
        self.expect("RETURNS")?;
        self.name()?;
        self.expect("AS")?;
        let body = self.rest().to_owned();
        Ok(Statement::Macro(name.to_ascii_lowercase(), Macro { parameters, body: Body::Text(body) }))
    }

    fn create_function(&mut self, macros: &Macros) -> Result<Statement, QueryError> {
        let (name, place) = self.name()?;
        let list = self.parentheses()?;
        let arguments = self.declared(list)?;
        self.expect("RETURNS")?;
        let returns = if self.word("TABLE") {
            let list = self.parentheses()?;
            Returns::Table(self.declared(list)?)
        } else {
            self.name()?;
            if self.is_mark('(') {
                self.parentheses()?;
            }
            Returns::Value
        };
        let here = self.place();
        if self.word("DELEGATES") {
            return Err(QueryError::at(
                self.source,
                here,
                "DELEGATES TO names code inside Perfetto, which dashcam does not have",
            ));
        }
        self.expect("AS")?;
        let body = expand(self.source, &self.list[self.at..], macros)?.sql.trim().to_owned();
        Ok(Statement::Function(Function { name: name.to_owned(), arguments, returns, body, place }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(source: &str) -> Statement {
        let list = split(source).unwrap();
        assert_eq!(list.len(), 1);
        read_statement(source, &list[0], &Macros::new()).unwrap()
    }

    #[test]
    fn semicolons_in_strings_do_not_split_and_comments_make_no_statement() {
        assert_eq!(split("SELECT ';'; -- x;\n /* ; */ ; SELECT 2;;").unwrap().len(), 2);
    }

    #[test]
    fn plain_sql_passes_unchanged() {
        let Statement::Sql(r) = read("  SELECT 1 AS \"a;b\" -- note\n") else { panic!() };
        assert_eq!(r.sql, "SELECT 1 AS \"a;b\"");
        assert_eq!(r.source_of(7), 9);
    }

    #[test]
    fn tables_lose_their_column_types() {
        let Statement::Replace { drop, create } = read(
            "CREATE OR REPLACE PERFETTO TABLE t(\n-- doc\n id JOINID(thread.id), n LONG) AS SELECT 1 AS id, 2 AS n",
        ) else {
            panic!()
        };
        assert_eq!(
            (drop.as_str(), create.sql.as_str()),
            ("DROP TABLE IF EXISTS t", "CREATE TABLE t AS SELECT 1 AS id, 2 AS n")
        );
    }

    #[test]
    fn functions_tell_arguments_result_and_body() {
        let Statement::Function(f) =
            read("create perfetto function f(a LONG, b JOINID(x.id)) returns table(c LONG, d STRING) as select $a, $b")
        else {
            panic!()
        };
        assert_eq!(f.arguments, ["a", "b"]);
        assert_eq!(f.returns, Returns::Table(vec!["c".into(), "d".into()]));
        assert_eq!(f.body, "select $a, $b");
    }

    #[test]
    fn errors_show_the_place() {
        let source = "SELECT 1;\nCREATE PERFETTO TABLE t SELECT 1";
        let list = split(source).unwrap();
        let e = read_statement(source, &list[1], &Macros::new()).unwrap_err().to_string();
        assert!(e.starts_with("AS should stand here (line 2, column 25)"), "{e}");
    }
}
