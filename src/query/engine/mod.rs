//! One SQLite connection over one set of columns: runs scripts, streams rows, says where an error is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags, Statement as Prepared};

use super::columns::Columns;
use super::error::QueryError;
use super::perfetto_sql::{Macros, Returns, Rewritten, Statement, modules, read_statement, split};
use super::tables::{events, people, sched, slices, small};
use super::{functions, intersect, span_join, table_function, vtab};

/// Receives the rows of every statement that gives any.
pub trait Rows {
    /// A statement's rows begin.
    fn begin(&mut self, columns: &[String]) -> std::io::Result<()>;
    /// One row.
    fn row(&mut self, cells: &[ValueRef<'_>]) -> std::io::Result<()>;
    /// They are all told.
    fn end(&mut self) -> std::io::Result<()>;
}

/// Rows kept in memory, for short answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// More rows than this are left out.
    limit: Option<usize>,
    /// Whether some were.
    pub cut: bool,
}

impl Rows for Answer {
    fn begin(&mut self, columns: &[String]) -> std::io::Result<()> {
        self.columns = columns.to_vec();
        self.rows.clear();
        self.cut = false;
        Ok(())
    }

    fn row(&mut self, cells: &[ValueRef<'_>]) -> std::io::Result<()> {
        if self.limit.is_some_and(|n| self.rows.len() >= n) {
            self.cut = true;
        } else {
            self.rows.push(cells.iter().map(|c| owned(*c)).collect());
        }
        Ok(())
    }

    fn end(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value of its own; text that is not UTF-8 gets U+FFFD.
fn owned(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(t) => Value::Text(String::from_utf8_lossy(t).into_owned()),
        ValueRef::Blob(b) => Value::Blob(b.to_vec()),
    }
}

/// SQL over one loaded window.
pub struct Engine {
    conn: Connection,
    macros: Macros,
    included: BTreeSet<&'static str>,
    /// There is no data: statements that give rows are only prepared (see [`super::rehearsal`]).
    pub(super) rehearses: bool,
    /// Functions were made from SQL.
    pub(super) defines_functions: bool,
}

/// A question must not write files or run foreign code, whoever asks it as root: ATTACH (and with it VACUUM INTO) is refused,
/// and so is load_extension. Tables that a script makes for itself live in memory.
fn no_files(asked: &AuthContext<'_>) -> Authorization {
    match asked.action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// What statements read and call, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Tables and views.
    pub tables: BTreeSet<String>,
    /// Columns, as `table.column`.
    pub columns: BTreeSet<String>,
    /// Functions.
    pub functions: BTreeSet<String>,
    /// Functions or virtual tables were made, whose own statements are not seen before they run.
    pub defines: bool,
}

impl Reads {
    fn note(&mut self, action: AuthAction<'_>) {
        match action {
            AuthAction::Read { table_name, column_name } => {
                let table = table_name.to_ascii_lowercase();
                self.columns.insert(format!("{table}.{}", column_name.to_ascii_lowercase()));
                self.tables.insert(table);
            }
            AuthAction::Function { function_name } => {
                self.functions.insert(function_name.to_ascii_lowercase());
            }
            AuthAction::CreateVtable { .. } => self.defines = true,
            _ => {}
        }
    }
}

impl Engine {
    /// A fresh in-memory database with all tables over `columns`.
    pub fn open(columns: Arc<Columns>) -> Result<Engine, QueryError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_in_memory_with_flags(flags)?;
        // Sorting must never fill /tmp of the host under watch; LIKE is case-blind and GLOB is not, as in Perfetto.
        conn.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536")?;
        conn.authorizer(Some(|asked: AuthContext<'_>| no_files(&asked)));
        functions::register(&conn, &columns)?;
        vtab::register::<sched::Sched>(&conn, &columns)?;
        vtab::register::<sched::SchedSlice>(&conn, &columns)?;
        vtab::register::<sched::ThreadState>(&conn, &columns)?;
        vtab::register::<sched::Wait>(&conn, &columns)?;
        vtab::register::<people::Thread>(&conn, &columns)?;
        vtab::register::<people::Process>(&conn, &columns)?;
        vtab::register::<slices::Slice>(&conn, &columns)?;
        vtab::register::<slices::Counter>(&conn, &columns)?;
        vtab::register::<events::FtraceEvent>(&conn, &columns)?;
        vtab::register::<events::Args>(&conn, &columns)?;
        span_join::register(&conn)?;
        intersect::register(&conn)?;
        small::create(&conn, &columns)?;
        Ok(Engine {
            conn,
            macros: Macros::new(),
            included: BTreeSet::new(),
            rehearses: false,
            defines_functions: false,
        })
    }

    /// Statements get what memory there is room for, and no more: a table or a text without end must not take that of the
    /// host under watch. The limit is one for all engines of the process; each may set it anew.
    pub fn bound_memory(&self, bytes: u64) {
        let bytes = i64::try_from(bytes.max(LEAST_HEAP)).unwrap_or(i64::MAX);
        // SAFETY: sets a number that SQLite keeps for itself, under its own lock.
        unsafe { rusqlite::ffi::sqlite3_hard_heap_limit64(bytes) };
    }

    /// Lets another thread stop a running query (Ctrl-C).
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.conn.get_interrupt_handle()
    }

    /// Notes in `reads` what statements read from here on.
    pub(super) fn note_reads(&self, reads: Arc<Mutex<Reads>>) {
        self.conn.authorizer(Some(move |asked: AuthContext<'_>| {
            if let Ok(mut reads) = reads.lock() {
                reads.note(asked.action);
            }
            no_files(&asked)
        }));
    }

    /// Calls `tick` about every `steps` steps of SQLite's machine while a query runs; `true` stops the query.
    pub fn on_progress(&self, steps: i32, tick: impl FnMut() -> bool + Send + 'static) {
        self.conn.progress_handler(steps, Some(tick));
    }

    /// Runs all statements of `script` in order; rows go to `out`.
    pub fn run(&mut self, script: &str, out: &mut dyn Rows) -> Result<(), QueryError> {
        for list in split(script)? {
            match read_statement(script, &list, &self.macros)? {
                Statement::Sql(sql) => self.execute(script, &sql, out)?,
                Statement::Replace { drop, create } => {
                    if !drop.is_empty() {
                        self.conn.execute_batch(&drop).map_err(|e| self.explain(script, &create, e))?;
                    }
                    self.execute(script, &create, out)?;
                }
                Statement::Include(name, place) => self.include(script, &name, place)?,
                Statement::Macro(name, body) => {
                    self.macros.insert(name, body);
                }
                Statement::Function(function) => {
                    self.defines_functions = true;
                    let result = match &function.returns {
                        Returns::Value => table_function::register_scalar(&self.conn, &function),
                        Returns::Table(_) => table_function::register_table(&self.conn, &function),
                    };
                    result.map_err(|e| QueryError::at(script, function.place, e.to_string()))?;
                }
            }
        }
        Ok(())
    }

    /// Runs `script` and keeps the rows of its last statement, at most `limit`.
    pub fn answer(&mut self, script: &str, limit: Option<usize>) -> Result<Answer, QueryError> {
        let mut answer = Answer { limit, ..Answer::default() };
        self.run(script, &mut answer)?;
        Ok(answer)
    }

    /// Tables that hold rows of their own, and are no views of others.
    pub(super) fn base_tables(&self) -> Result<Vec<String>, QueryError> {
        let mut list = self.conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let made = list.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(made.into_iter().chain(BUILT_IN.map(str::to_owned)).collect())
    }

    /// Names of all tables and views with their columns (for `.tables`, `.schema` and completion).
    pub fn tables(&self) -> Result<Vec<(String, Vec<String>)>, QueryError> {
        let mut names: Vec<String> = BUILT_IN.iter().map(|n| (*n).to_owned()).collect();
        let mut list = self.conn.prepare("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")?;
        for name in list.query_map([], |row| row.get::<_, String>(0))? {
            names.push(name?);
        }
        names.sort();
        let mut out = Vec::with_capacity(names.len());
        for name in names {
            let mut info = self.conn.prepare("SELECT name FROM pragma_table_xinfo(?1)")?;
            let columns = info.query_map([&name], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            out.push((name, columns));
        }
        Ok(out)
    }

    fn include(&mut self, script: &str, name: &str, place: usize) -> Result<(), QueryError> {
        let Some(found) = modules::find(name) else {
            let known: Vec<&str> = modules::MODULES.iter().map(|m| m.name).filter(|n| *n != "prelude").collect();
            return Err(QueryError::at(script, place, format!("dashcam does not provide the Perfetto module {name}"))
                .with_hint(format!("It provides: {}.", known.join(", "))));
        };
        for module in found {
            if self.included.insert(module.name) {
                self.run(module.script, &mut Answer::default()).inspect_err(|_| {
                    self.included.remove(module.name);
                })?;
                self.macros.extend(modules::list_macros(module.name));
            }
        }
        Ok(())
    }

    fn execute(&self, script: &str, sql: &Rewritten, out: &mut dyn Rows) -> Result<(), QueryError> {
        let mut statement = self.conn.prepare(&sql.sql).map_err(|e| self.explain(script, sql, e))?;
        let count = statement.column_count();
        if count == 0 {
            let ran = statement.raw_execute();
            // How it ends without data says nothing about how it ends with data, unless it is refused whatever the data.
            if self.rehearses && ran.as_ref().is_err_and(|e| !is_refusal(e)) {
                return Err(QueryError::Interrupted);
            }
            ran.map_err(|e| self.explain(script, sql, e))?;
            return Ok(());
        }
        if self.rehearses {
            return Ok(());
        }
        self.stream(&mut statement, count, out).map_err(|e| match e {
            QueryError::Engine(e) => self.explain(script, sql, e),
            other => other,
        })
    }

    fn stream(&self, statement: &mut Prepared<'_>, count: usize, out: &mut dyn Rows) -> Result<(), QueryError> {
        let names: Vec<String> = statement.column_names().iter().map(|n| (*n).to_owned()).collect();
        let mut rows = statement.raw_query();
        let mut begun = false;
        while let Some(row) = rows.next()? {
            if !begun {
                out.begin(&names)?;
                begun = true;
            }
            let cells = (0..count).map(|n| row.get_ref(n)).collect::<Result<Vec<_>, _>>()?;
            out.row(&cells)?;
        }
        if !begun {
            out.begin(&names)?;
        }
        Ok(out.end()?)
    }

    /// SQLite's error, with the place in the user's text and what might mend it.
    fn explain(&self, script: &str, sql: &Rewritten, error: rusqlite::Error) -> QueryError {
        let (message, offset) = match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                let offset = usize::try_from(offset).unwrap_or(0);
                (msg, sql.source_of(offset))
            }
            rusqlite::Error::SqliteFailure(e, _) if e.code == ErrorCode::OperationInterrupted => {
                return QueryError::Interrupted;
            }
            rusqlite::Error::SqliteFailure(_, Some(message)) => {
                let offset = named_in(&message, &sql.sql).unwrap_or(0);
                (message, sql.source_of(offset))
            }
            other => return QueryError::Engine(other),
        };
        let hint = self.hint(&message);
        let error = QueryError::at(script, offset, message);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn hint(&self, message: &str) -> Option<String> {
        if message.starts_with("not authorized") || message == "authorization denied" {
            return Some(
                "A question must not open or write files: send its rows where you want them (--format, >).".into(),
            );
        }
        if message == "out of memory" {
            return Some("The statement wants more memory than there is room for: ask for less at once.".into());
        }
        let name = message.strip_prefix("no such table: ").or_else(|| message.strip_prefix("no such function: "));
        if let Some(name) = name {
            let name = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
            if let Some(hint) = modules::hint(&name) {
                return Some(hint);
            }
            let tables = self.tables().ok()?;
            let near = nearest(&name, tables.iter().map(|t| t.0.as_str()))?;
            return Some(format!("Did you mean {near}?"));
        }
        let column = message.strip_prefix("no such column: ")?;
        let column = column.rsplit('.').next().unwrap_or(column).to_ascii_lowercase();
        let tables = self.tables().ok()?;
        let near = nearest(&column, tables.iter().flat_map(|t| t.1.iter().map(String::as_str)))?;
        Some(format!("Did you mean {near}?"))
    }
}

fn is_refusal(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
}

/// What a statement gets however little memory is left, bytes.
const LEAST_HEAP: u64 = 16 << 20;

/// Tables that are virtual and so not in SQLite's own list.
const BUILT_IN: [&str; 10] =
    ["sched", "sched_slice", "thread_state", "wait", "thread", "process", "slice", "counter", "ftrace_event", "args"];

/// Where the thing that SQLite's message names stands in the text.
fn named_in(message: &str, sql: &str) -> Option<usize> {
    let name = message.rsplit(": ").next()?;
    (!name.is_empty()).then(|| sql.find(name)).flatten()
}

/// The nearest of `names` within a third of its letters.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.map(|n| (distance(name, n), n)).filter(|(d, n)| *d > 0 && *d <= n.len().div_ceil(3)).min().map(|(_, n)| n)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
