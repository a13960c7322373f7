//! One virtual-table implementation for every columnar table: plans, cursors, cells.
//!
//! A [`Table`] says how many rows it has, what a cell holds and by which columns its rows can be found; this
//! module turns that into SQLite's xBestIndex, xFilter, xNext and xColumn. Rows are in time order by
//! construction, so ranges of `ts` are binary searches and `ORDER BY ts` costs nothing; lists of rows per key
//! answer `=` on that key and hand `GROUP BY key` its rows already grouped.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, CreateVTab, Filters, IndexConstraintOp, IndexFlags, IndexInfo, VTab, VTabConnection, VTabCursor, VTabKind,
    eponymous_only_module,
};
use rusqlite::{Connection, ffi};

use super::columns::Columns;
use super::postings::Postings;

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

/// The plan of a scan, packed into SQLite's `idxNum`: how rows are reached, then which bounds on `ts` follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Plan {
    path: Path,
    lower: Bound,
    upper: Bound,
    descending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Path {
    /// All rows in order.
    #[default]
    Scan,
    /// One row by number.
    Id,
    /// The rows of one value of `keys[n]`.
    Key(u8),
    /// All rows, by the value of `keys[n]`, then in order.
    Grouped(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Bound {
    #[default]
    None,
    Inclusive,
    Exclusive,
}

impl Plan {
    fn pack(self) -> c_int {
        let path = match self.path {
            Path::Scan => 0,
            Path::Id => 1,
            Path::Key(n) => 2 | c_int::from(n) << 8,
            Path::Grouped(n) => 3 | c_int::from(n) << 8,
        };
        path | (self.lower as c_int) << 2 | (self.upper as c_int) << 4 | c_int::from(self.descending) << 6
    }

    fn unpack(n: c_int) -> Plan {
        let bound = |bits: c_int| match bits & 3 {
            1 => Bound::Inclusive,
            2 => Bound::Exclusive,
            _ => Bound::None,
        };
        let key = (n >> 8) as u8;
        let path = match n & 3 {
            1 => Path::Id,
            2 => Path::Key(key),
            3 => Path::Grouped(key),
            _ => Path::Scan,
        };
        Plan { path, lower: bound(n >> 2), upper: bound(n >> 4), descending: n >> 6 & 1 == 1 }
    }
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
        let rows = f64::from(T::rows(&self.columns)).max(1.0);
        let mut plan = Plan::default();
        // Which constraint goes to which argument of xFilter: id or key first, then the bounds on ts.
        let (mut first, mut lower, mut upper) = (None, None, None);
        for (n, constraint) in info.constraints().enumerate() {
            if !constraint.is_usable() {
                continue;
            }
            let column = constraint.column();
            let (op, is_ts) = (constraint.operator(), Some(column) == T::LAYOUT.ts);
            match op {
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ if column < 0 || T::LAYOUT.ids.contains(&column) => {
                    plan.path = Path::Id;
                    first = Some(n);
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => {
                    if let Some(k) = T::LAYOUT.keys.iter().position(|key| *key == column) {
                        // Keys are listed best first.
                        let better = match plan.path {
                            Path::Scan => true,
                            Path::Key(known) => k < usize::from(known),
                            Path::Id | Path::Grouped(_) => false,
                        };
                        if better {
                            plan.path = Path::Key(k as u8);
                            first = Some(n);
                        }
                    } else if is_ts {
                        (plan.lower, plan.upper) = (Bound::Inclusive, Bound::Inclusive);
                        (lower, upper) = (Some(n), Some(n));
                    }
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE if is_ts && lower.is_none() => {
                    (plan.lower, lower) = (Bound::Inclusive, Some(n));
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT if is_ts && lower.is_none() => {
                    (plan.lower, lower) = (Bound::Exclusive, Some(n));
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE if is_ts && upper.is_none() => {
                    (plan.upper, upper) = (Bound::Inclusive, Some(n));
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT if is_ts && upper.is_none() => {
                    (plan.upper, upper) = (Bound::Exclusive, Some(n));
                }
                _ => {}
            }
        }
        let mut argument = 0;
        if lower.is_some() && lower == upper {
            // One value serves both ends.
            plan.upper = Bound::None;
            upper = None;
        }
        let exact = lower.is_some() && plan.lower == Bound::Inclusive && plan.upper == Bound::None && {
            lower.is_some_and(|n| is_eq(info, n))
        };
        for n in [first, lower, upper].into_iter().flatten() {
            argument += 1;
            info.constraint_usage(n).set_argv_index(argument);
        }
        self.order(info, &mut plan);
        let idx = plan.pack() | if exact { EXACT } else { 0 };
        info.set_idx_num(idx);
        let (cost, estimate) = self.estimate(plan, rows, exact);
        if plan.path == Path::Id {
            info.set_idx_flags(IndexFlags::SQLITE_INDEX_SCAN_UNIQUE);
        }
        info.set_estimated_cost(cost);
        info.set_estimated_rows(estimate as i64);
        Ok(())
    }

    fn open(&'vtab mut self) -> rusqlite::Result<Cursor<'vtab, T>> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            columns: &self.columns,
            rows: Rows::Range { next: 0, end: 0 },
            descending: false,
            row: 0,
            done: true,
            key: None,
            table: PhantomData,
        })
    }
}

/// `ts = ?`: the one value bounds both ends.
const EXACT: c_int = 1 << 7;

fn is_eq(info: &IndexInfo, n: usize) -> bool {
    info.constraints().nth(n).is_some_and(|c| c.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ)
}

impl<T: Table> Tab<T> {
    /// Takes over ORDER BY and GROUP BY where rows come in that order anyway.
    fn order(&self, info: &mut IndexInfo, plan: &mut Plan) {
        let wanted: Vec<(c_int, bool)> = info.order_bys().map(|o| (o.column(), o.is_order_by_desc())).collect();
        let in_row_order = |(column, _): &(c_int, bool)| Some(*column) == T::LAYOUT.ts || *column <= 0;
        let unbounded = plan.path == Path::Scan && plan.lower == Bound::None && plan.upper == Bound::None;
        let consumed = match wanted.as_slice() {
            [] => false,
            // By time or number, everything in the same direction. Rows of equal ts stand in id order.
            [first, rest @ ..] if in_row_order(first) && (rest.is_empty() || is_id_tail::<T>(first, rest)) => {
                plan.descending = first.1;
                true
            }
            [(column, false), rest @ ..] if rest.is_empty() || rest.iter().all(|o| in_row_order(o) && !o.1) => {
                match T::LAYOUT.keys.iter().position(|k| k == column) {
                    Some(k) if rest.len() < 2 && unbounded && T::grouped(&self.columns, *column).is_some() => {
                        plan.path = Path::Grouped(k as u8);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        info.set_order_by_consumed(consumed || plan.path == Path::Id);
    }

    fn estimate(&self, plan: Plan, rows: f64, exact: bool) -> (f64, f64) {
        let narrowed = match (plan.lower, plan.upper, exact) {
            (_, _, true) => 2.0 / rows,
            (Bound::None, Bound::None, _) => 1.0,
            (Bound::None, _, _) | (_, Bound::None, _) => 0.3,
            _ => 0.05,
        };
        match plan.path {
            Path::Id => (1.0, 1.0),
            Path::Key(k) => {
                let values = T::LAYOUT.keys.get(usize::from(k)).map_or(1, |key| T::values(&self.columns, *key));
                let estimate = (rows / values.max(1) as f64 * narrowed).max(1.0);
                (estimate + 2.0, estimate)
            }
            Path::Scan | Path::Grouped(_) => {
                let estimate = (rows * narrowed).max(1.0);
                (estimate + 4.0, estimate)
            }
        }
    }
}

/// Rows of equal `ts` stand in id order, so `ORDER BY ts, id` is row order too when both go the same way.
fn is_id_tail<T: Table>(first: &(c_int, bool), rest: &[(c_int, bool)]) -> bool {
    Some(first.0) == T::LAYOUT.ts && matches!(rest, [(column, desc)] if *column <= 0 && *desc == first.1)
}

impl<T: Table> CreateVTab<'_> for Tab<T> {
    const KIND: VTabKind = VTabKind::EponymousOnly;
}

/// Rows still to come.
enum Rows<'a> {
    Range { next: u32, end: u32 },
    List(std::slice::Iter<'a, u32>),
    Grouped { postings: &'a Postings, list: std::slice::Iter<'a, u32> },
}

/// One scan.
#[repr(C)]
pub struct Cursor<'vtab, T> {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab_cursor,
    columns: &'vtab Columns,
    rows: Rows<'vtab>,
    descending: bool,
    row: u32,
    done: bool,
    /// The column that all rows have the same value in, as far as the scan is one of a key, and the value: reading
    /// it from the rows would be a cache miss each.
    key: Option<(c_int, u32)>,
    table: PhantomData<T>,
}

impl<T: Table> Cursor<'_, T> {
    #[inline]
    fn advance(&mut self) {
        loop {
            let next = match &mut self.rows {
                Rows::Range { next, end } if *next >= *end => None,
                Rows::Range { end, .. } if self.descending => {
                    *end -= 1;
                    Some(*end)
                }
                Rows::Range { next, .. } => {
                    *next += 1;
                    Some(*next - 1)
                }
                Rows::List(rows) if self.descending => rows.next_back().copied(),
                Rows::List(rows) => {
                    fetch_ahead::<T>(self.columns, rows);
                    rows.next().copied()
                }
                Rows::Grouped { postings, list } => loop {
                    fetch_ahead::<T>(self.columns, list);
                    if let Some(row) = list.next() {
                        break Some(*row);
                    }
                    let Some((column, key)) = self.key.filter(|(_, key)| key + 1 < postings.keys()) else { break None };
                    *list = postings.of(key + 1).iter();
                    self.key = Some((column, key + 1));
                },
            };
            match next {
                None => {
                    self.done = true;
                    return;
                }
                Some(row) if T::visible(self.columns, row) => {
                    self.row = row;
                    return;
                }
                Some(_) => {}
            }
        }
    }
}

/// How many rows ahead are fetched: about as many as SQLite works on while memory answers once.
const AHEAD: usize = 8;

#[inline]
fn fetch_ahead<T: Table>(columns: &Columns, rows: &std::slice::Iter<'_, u32>) {
    if let Some(row) = rows.as_slice().get(AHEAD) {
        T::fetch(columns, *row);
    }
}

// SAFETY: `repr(C)` with `sqlite3_vtab_cursor` first, as the trait asks.
unsafe impl<T: Table> VTabCursor for Cursor<'_, T> {
    fn filter(&mut self, idx_num: c_int, _: Option<&str>, args: &Filters<'_>) -> rusqlite::Result<()> {
        let plan = Plan::unpack(idx_num);
        let columns = self.columns;
        let total = T::rows(columns);
        let mut args = args.iter();
        let first = matches!(plan.path, Path::Id | Path::Key(_)).then(|| args.next()).flatten();
        // A bound that is no number excludes nothing here: SQLite tests every row again by its own rules.
        let (mut from, mut to) = (0, total);
        if plan.lower != Bound::None {
            let value = args.next();
            if idx_num & EXACT != 0 {
                if let Some(ValueRef::Integer(ts)) = value {
                    (from, to) = (at_least::<T>(columns, ts), at_least::<T>(columns, ts.saturating_add(1)));
                }
            } else {
                from = value.and_then(|v| lower_ts(v, plan.lower)).map_or(0, |ts| at_least::<T>(columns, ts));
            }
        }
        if plan.upper != Bound::None {
            to = args.next().and_then(|v| upper_ts(v, plan.upper)).map_or(total, |ts| at_least::<T>(columns, ts));
        }
        self.descending = plan.descending;
        self.done = false;
        self.key = None;
        self.rows = match plan.path {
            Path::Scan => Rows::Range { next: from, end: to },
            Path::Id => match first.and_then(number).and_then(|id| u32::try_from(id).ok()) {
                Some(id) if id >= from && id < to => Rows::Range { next: id, end: id + 1 },
                _ => Rows::Range { next: 0, end: 0 },
            },
            Path::Key(k) => {
                let key = first.and_then(number).and_then(|v| u32::try_from(v).ok());
                match T::LAYOUT.keys.get(usize::from(k)).zip(key) {
                    Some((column, key)) => {
                        self.key = Some((*column, key));
                        match T::rows_of(columns, *column, key) {
                            Found::List(list) => {
                                let (a, b) = (list.partition_point(|r| *r < from), list.partition_point(|r| *r < to));
                                Rows::List(list[a..b.max(a)].iter())
                            }
                            Found::Range(a, b) => Rows::Range { next: a.max(from), end: b.min(to) },
                        }
                    }
                    None => Rows::Range { next: 0, end: 0 },
                }
            }
            Path::Grouped(k) => {
                let column = T::LAYOUT.keys.get(usize::from(k)).copied();
                match column.and_then(|column| Some((column, T::grouped(columns, column)?))) {
                    Some((column, postings)) => {
                        self.key = Some((column, 0));
                        Rows::Grouped { postings, list: postings.of(0).iter() }
                    }
                    None => Rows::Range { next: 0, end: 0 },
                }
            }
        };
        self.advance();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> rusqlite::Result<()> {
        self.advance();
        Ok(())
    }

    #[inline]
    fn eof(&self) -> bool {
        self.done
    }

    #[inline]
    fn column(&self, ctx: &mut Context, i: c_int) -> rusqlite::Result<()> {
        match self.key {
            Some((column, key)) if column == i => ctx.set_result(&Cell::Int(key.into())),
            _ => ctx.set_result(&T::cell(self.columns, self.row, i)),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(i64::from(self.row))
    }
}

fn at_least<T: Table>(columns: &Columns, ts: i64) -> u32 {
    u64::try_from(ts).map_or(0, |ts| T::first_at(columns, ts))
}

/// A key given as `7`, `7.0` or `'7'` (SQLite compares those with a numeric column as equal).
fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(i) => Some(i),
        ValueRef::Real(r) if r.fract() == 0.0 && r.abs() < 9e15 => Some(r as i64),
        ValueRef::Text(t) => std::str::from_utf8(t).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// First instant that a lower bound lets in.
fn lower_ts(value: ValueRef<'_>, bound: Bound) -> Option<i64> {
    match value {
        ValueRef::Integer(ts) => Some(if bound == Bound::Exclusive { ts.saturating_add(1) } else { ts }),
        // One less than needed is safe, since every row is tested again.
        ValueRef::Real(ts) => Some((ts as i64).saturating_sub(2048)),
        _ => None,
    }
}

/// First instant that an upper bound keeps out.
fn upper_ts(value: ValueRef<'_>, bound: Bound) -> Option<i64> {
    match value {
        ValueRef::Integer(ts) => Some(if bound == Bound::Inclusive { ts.saturating_add(1) } else { ts }),
        ValueRef::Real(ts) => Some((ts as i64).saturating_add(2048)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_survive_packing() {
        for path in [Path::Scan, Path::Id, Path::Key(3), Path::Grouped(0)] {
            for lower in [Bound::None, Bound::Inclusive, Bound::Exclusive] {
                for descending in [false, true] {
                    let plan = Plan { path, lower, upper: lower, descending };
                    assert_eq!(Plan::unpack(plan.pack() | EXACT), plan);
                }
            }
        }
    }

    #[test]
    fn bounds_never_cut_what_sqlite_would_keep() {
        assert_eq!(lower_ts(ValueRef::Integer(10), Bound::Exclusive), Some(11));
        assert_eq!(upper_ts(ValueRef::Integer(10), Bound::Inclusive), Some(11));
        assert_eq!(upper_ts(ValueRef::Integer(i64::MAX), Bound::Inclusive), Some(i64::MAX));
        // 2^60 + 1 rounds as a double to 2^60: the bound must still let 2^60 in.
        assert!(lower_ts(ValueRef::Real(1.2e18), Bound::Inclusive) <= Some(1_200_000_000_000_000_000 - 128));
        assert_eq!(lower_ts(ValueRef::Text(b"x"), Bound::Inclusive), None);
    }
}
