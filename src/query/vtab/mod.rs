//! One virtual-table implementation for every columnar table: cells here, plans and scans in the modules below.
//!
//! A [`Table`] says how many rows it has, what a cell holds and by which columns its rows can be found; this
//! module turns that into SQLite's xBestIndex, xFilter, xNext and xColumn. Rows are in time order by
//! construction, so ranges of `ts` are binary searches and `ORDER BY ts` costs nothing; lists of rows per key
//! answer `=` on that key and hand `GROUP BY key` its rows already grouped.

mod cursor;
mod plan;

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::vtab::{CreateVTab, IndexInfo, VTab, VTabConnection, VTabKind, eponymous_only_module};
use rusqlite::{Connection, ffi};

use super::columns::Columns;
use super::postings::Postings;
use super::reach::Reachable;
pub use cursor::Cursor;
pub(super) use cursor::{lower_ts, number, upper_ts};
pub(super) use plan::Bound;
use plan::Plan;

/// A value on its way to SQLite; text is bytes, UTF-8 or not, exactly as recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Not known or not applicable.
    Null,
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// Text that lives in the columns.
    Text(&'a [u8]),
    /// Text made for this cell.
    Made(String),
}

impl<'a> Cell<'a> {
    /// NULL for `None`.
    pub fn opt(value: Option<impl Into<i64>>) -> Cell<'a> {
        value.map_or(Cell::Null, |v| Cell::Int(v.into()))
    }

    /// NULL for the empty name.
    pub fn name(bytes: &'a [u8]) -> Cell<'a> {
        if bytes.is_empty() { Cell::Null } else { Cell::Text(bytes) }
    }

    /// Nanoseconds; what does not fit a signed 64-bit number is the largest one that does.
    pub fn ns(ts: u64) -> Cell<'a> {
        Cell::Int(i64::try_from(ts).unwrap_or(i64::MAX))
    }
}

impl ToSql for Cell<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Int(i) => ValueRef::Integer(*i),
            Cell::Real(r) => ValueRef::Real(*r),
            Cell::Text(t) => ValueRef::Text(t),
            Cell::Made(t) => ValueRef::Text(t.as_bytes()),
        }))
    }
}

/// How rows of a table are found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Column of the begin, by which rows stand in order.
    pub ts: Option<c_int>,
    /// Columns whose value is the row number itself.
    pub ids: &'static [c_int],
    /// Columns for which [`Table::rows_of`] gives the rows of one value, best first.
    pub keys: &'static [c_int],
}

/// A table over [`Columns`]. Rows are numbered from 0; the number is its `id`.
pub trait Table: 'static {
    /// Its name in SQL.
    const NAME: &'static str;
    /// `CREATE TABLE x(…)`, hidden columns marked `HIDDEN`.
    const DDL: &'static str;
    /// How rows are found.
    const LAYOUT: Layout;
    /// Column of the thread whose rows they are, if rows have one.
    const UTID: Option<c_int> = None;
    /// Number of rows, invisible ones included.
    fn rows(c: &Columns) -> u32;
    /// Whether a row exists for queries.
    #[inline]
    fn visible(c: &Columns, row: u32) -> bool {
        let _ = (c, row);
        true
    }
    /// One cell.
    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_>;
    /// `row` is read soon: the processor may fetch it. Rows of one key are far apart, so each would be waited for.
    #[inline]
    fn fetch(c: &Columns, row: u32) {
        let _ = (c, row);
    }
    /// First row with a begin of at least `ts` (tables with `LAYOUT.ts`).
    fn first_at(c: &Columns, ts: u64) -> u32 {
        let _ = ts;
        Self::rows(c)
    }
    /// The rows of one value of a key column, ascending (tables with `LAYOUT.keys`).
    fn rows_of(c: &Columns, column: c_int, key: u32) -> Found<'_> {
        let _ = (c, column, key);
        Found::Range(0, Self::rows(c))
    }
    /// How many different values a key column has, about; only to choose between plans.
    fn values(c: &Columns, column: c_int) -> usize {
        let _ = column;
        c.facts.threads.len()
    }
    /// The rows of every value of `column`; only if every visible row has a value.
    fn grouped(c: &Columns, column: c_int) -> Option<&Postings> {
        let _ = (c, column);
        None
    }
}

/// Rows of one key.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// These.
    List(&'a [u32]),
    /// All from the first up to, not including, the second.
    Range(u32, u32),
}

/// Makes `T` known to the connection as an eponymous table.
pub fn register<T: Table>(conn: &Connection, columns: &Arc<Columns>) -> rusqlite::Result<()> {
    conn.create_module(T::NAME, eponymous_only_module::<Tab<T>>(), Some(Arc::clone(columns)))
}
/// The table object SQLite holds.
#[repr(C)]
pub struct Tab<T> {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab,
    columns: Arc<Columns>,
    table: PhantomData<T>,
}

// SAFETY: `repr(C)` with `sqlite3_vtab` first, as the trait asks.
unsafe impl<'vtab, T: Table> VTab<'vtab> for Tab<T> {
    type Aux = Arc<Columns>;
    type Cursor = Cursor<'vtab, T>;

    fn connect(_: &mut VTabConnection, aux: Option<&Self::Aux>, _args: &[&[u8]]) -> rusqlite::Result<(String, Self)> {
        let columns = aux.cloned().unwrap_or_default();
        Ok((T::DDL.to_owned(), Tab { base: ffi::sqlite3_vtab::default(), columns, table: PhantomData }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<()> {
        if let Some(reach) = &self.columns.rehearsed {
            reach.note(info, &Reachable { table: T::NAME, ts: T::LAYOUT.ts, utid: T::UTID });
        }
        Plan::choose::<T>(info, &self.columns);
        Ok(())
    }

    fn open(&'vtab mut self) -> rusqlite::Result<Cursor<'vtab, T>> {
        Ok(Cursor::new(&self.columns))
    }
}

impl<T: Table> CreateVTab<'_> for Tab<T> {
    const KIND: VTabKind = VTabKind::EponymousOnly;
}
