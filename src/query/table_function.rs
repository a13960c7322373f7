//! `CREATE PERFETTO FUNCTION`: functions whose body is a query, giving one value or a table.
//!
//! The body runs on the same connection with the arguments bound as `$name`; nothing is pasted into text, so an
//! argument cannot change what the body means.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, VTab, VTabConnection, VTabCursor, eponymous_only_module,
};
use rusqlite::{Connection, Error, Result, ffi};

use super::perfetto_sql::{Function, Returns};

/// Deepest nesting of such functions; each level holds a few KiB of stack.
const MAX_DEPTH: u32 = 48;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Counts the nesting while it lives.
struct Nested;

impl Nested {
    fn enter() -> Result<Nested> {
        DEPTH.with(|d| {
            if d.get() >= MAX_DEPTH {
                return Err(Error::UserFunctionError(
                    format!("functions call each other more than {MAX_DEPTH} deep").into(),
                ));
            }
            d.set(d.get() + 1);
            Ok(Nested)
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get() - 1));
    }
}

/// Runs the body with its arguments bound; `each` sees every row and says whether to go on.
fn run_body(
    conn: &Connection,
    function: &Function,
    arguments: &[Value],
    mut each: impl FnMut(&rusqlite::Row<'_>, usize) -> Result<bool>,
) -> Result<()> {
    let _nested = Nested::enter()?;
    let mut statement = conn.prepare(&function.body)?;
    let columns = statement.column_count();
    for (name, value) in function.arguments.iter().zip(arguments) {
        if let Some(n) = statement.parameter_index(&format!("${name}"))? {
            statement.raw_bind_parameter(n, value)?;
        }
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if !each(row, columns)? {
            break;
        }
    }
    Ok(())
}

/// Makes a function that gives one value known to the connection.
pub fn register_scalar(conn: &Connection, function: &Function) -> Result<()> {
    // Prepared once here so that a mistake in the body shows when it is made, not when it is used.
    conn.prepare(&function.body)?;
    let function = function.clone();
    let count = function.arguments.len() as c_int;
    conn.create_scalar_function(function.name.clone().as_str(), count, FunctionFlags::SQLITE_UTF8, move |ctx| {
        let arguments = (0..ctx.len()).map(|n| ctx.get::<Value>(n)).collect::<Result<Vec<_>>>()?;
        // SAFETY: used only within this call, on the connection that is making it.
        let conn = unsafe { ctx.get_connection()? };
        let mut answer = Value::Null;
        run_body(&conn, &function, &arguments, |row, _| {
            answer = row.get(0)?;
            Ok(false)
        })?;
        Ok(answer)
    })
}

/// Makes a function that gives a table known to the connection.
pub fn register_table(conn: &Connection, function: &Function) -> Result<()> {
    conn.prepare(&function.body)?;
    let name = function.name.clone();
    conn.create_module(name.as_str(), eponymous_only_module::<FunctionTab>(), Some(Arc::new(function.clone())))
}

#[repr(C)]
struct FunctionTab {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
    function: Arc<Function>,
    columns: c_int,
}

// SAFETY: `repr(C)` with `sqlite3_vtab` first, as the trait asks.
unsafe impl<'vtab> VTab<'vtab> for FunctionTab {
    type Aux = Arc<Function>;
    type Cursor = FunctionCursor<'vtab>;

    fn connect(db: &mut VTabConnection, aux: Option<&Self::Aux>, _: &[&[u8]]) -> Result<(String, Self)> {
        let function = aux.cloned().ok_or_else(|| Error::ModuleError("a function without a body".into()))?;
        let Returns::Table(columns) = &function.returns else {
            return Err(Error::ModuleError("not a table function".into()));
        };
        // Arguments are told apart from columns by names nobody writes: both are often called `dur`.
        let hidden = (0..function.arguments.len()).map(|n| format!("\"argument {n}\" HIDDEN"));
        let all: Vec<String> = columns.iter().map(|c| format!("\"{}\"", c.replace('"', ""))).chain(hidden).collect();
        let count = columns.len() as c_int;
        // SAFETY: the handle outlives the table, which SQLite disconnects before it closes the connection.
        let db = unsafe { db.handle() };
        let ddl = format!("CREATE TABLE x({})", all.join(", "));
        Ok((ddl, FunctionTab { base: ffi::sqlite3_vtab::default(), db, function, columns: count }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<()> {
        let wanted = self.function.arguments.len();
        let mut found = vec![None; wanted];
        for (n, constraint) in info.constraints().enumerate() {
            let argument = usize::try_from(constraint.column() - self.columns).ok().filter(|a| *a < wanted);
            let Some(argument) = argument else { continue };
            if constraint.operator() != IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ {
                continue;
            }
            if !constraint.is_usable() {
                // Not with this order of the join; the planner tries another.
                return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CONSTRAINT), None));
            }
            found[argument] = Some(n);
        }
        for (argument, n) in found.into_iter().enumerate() {
            let Some(n) = n else {
                let name = &self.function.name;
                return Err(Error::ModuleError(format!("{name} takes {wanted} arguments")));
            };
            let mut usage = info.constraint_usage(n);
            usage.set_argv_index(argument as c_int + 1);
            usage.set_omit(true);
        }
        info.set_estimated_cost(1000.0);
        info.set_estimated_rows(100);
        Ok(())
    }

    fn open(&'vtab mut self) -> Result<FunctionCursor<'vtab>> {
        Ok(FunctionCursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            db: self.db,
            function: Arc::clone(&self.function),
            rows: Vec::new(),
            at: 0,
            table: PhantomData,
        })
    }
}

#[repr(C)]
struct FunctionCursor<'vtab> {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab_cursor,
    db: *mut ffi::sqlite3,
    function: Arc<Function>,
    rows: Vec<Vec<Value>>,
    at: usize,
    table: PhantomData<&'vtab FunctionTab>,
}

// SAFETY: `repr(C)` with `sqlite3_vtab_cursor` first, as the trait asks.
unsafe impl VTabCursor for FunctionCursor<'_> {
    fn filter(&mut self, _: c_int, _: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let arguments = (0..args.len()).map(|n| args.get::<Value>(n)).collect::<Result<Vec<_>>>()?;
        // SAFETY: the connection is the one this cursor belongs to; the borrowed handle is not closed on drop.
        let conn = unsafe { Connection::from_handle(self.db)? };
        let mut rows = Vec::new();
        run_body(&conn, &self.function, &arguments, |row, count| {
            rows.push((0..count).map(|n| row.get(n)).collect::<Result<Vec<Value>>>()?);
            Ok(true)
        })?;
        (self.rows, self.at) = (rows, 0);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&self, ctx: &mut Context, i: c_int) -> Result<()> {
        let cell = usize::try_from(i).ok().and_then(|i| self.rows.get(self.at)?.get(i));
        ctx.set_result(cell.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.at as i64)
    }
}
