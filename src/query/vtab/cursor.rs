//! A scan: which rows come, in which order, and what of the bounds SQLite gives can be used to find them.

use std::ffi::c_int;
use std::marker::PhantomData;

use rusqlite::ffi;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{Context, Filters, VTabCursor};

use super::plan::{Bound, Path, Plan};
use super::{Cell, Found, Table};
use crate::query::columns::Columns;
use crate::query::postings::Postings;

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

impl<'vtab, T: Table> Cursor<'vtab, T> {
    /// A scan that has not begun.
    pub(super) fn new(columns: &'vtab Columns) -> Self {
        Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            columns,
            rows: Rows::Range { next: 0, end: 0 },
            descending: false,
            row: 0,
            done: true,
            key: None,
            table: PhantomData,
        }
    }

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
            if plan.exact {
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
pub(in crate::query) fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(i) => Some(i),
        ValueRef::Real(r) if r.fract() == 0.0 && r.abs() < 9e15 => Some(r as i64),
        ValueRef::Text(t) => std::str::from_utf8(t).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// First instant that a lower bound lets in.
pub(in crate::query) fn lower_ts(value: ValueRef<'_>, bound: Bound) -> Option<i64> {
    match value {
        ValueRef::Integer(ts) => Some(if bound == Bound::Exclusive { ts.saturating_add(1) } else { ts }),
        // One less than needed is safe, since every row is tested again.
        ValueRef::Real(ts) => Some((ts as i64).saturating_sub(2048)),
        _ => None,
    }
}

/// First instant that an upper bound keeps out.
pub(in crate::query) fn upper_ts(value: ValueRef<'_>, bound: Bound) -> Option<i64> {
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
    fn bounds_never_cut_what_sqlite_would_keep() {
        assert_eq!(lower_ts(ValueRef::Integer(10), Bound::Exclusive), Some(11));
        assert_eq!(upper_ts(ValueRef::Integer(10), Bound::Inclusive), Some(11));
        assert_eq!(upper_ts(ValueRef::Integer(i64::MAX), Bound::Inclusive), Some(i64::MAX));
        // 2^60 + 1 rounds as a double to 2^60: the bound must still let 2^60 in.
        assert!(lower_ts(ValueRef::Real(1.2e18), Bound::Inclusive) <= Some(1_200_000_000_000_000_000 - 128));
        assert_eq!(lower_ts(ValueRef::Text(b"x"), Bound::Inclusive), None);
    }
}
