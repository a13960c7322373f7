//! From when to when the rows lie that a script asks for, found in its rehearsal: then only that stretch is read.
//!
//! SQLite tells a table's planner of every condition that each row must meet, and gives the values of those that are plain
//! numbers. A plan without such a bound on `ts` asks for all rows, whatever other plans of the script ask for.

use std::ffi::c_int;
use std::sync::Mutex;

use rusqlite::ffi;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{IndexConstraintOp, IndexInfo};

use super::vtab::{Bound, lower_ts, number, upper_ts};
use crate::sched::fold::Utid;
use crate::sched::summary::Window;

/// Rows that are asked for: those that begin within `window`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// When they begin, ns on CLOCK_BOOTTIME.
    pub window: Window,
    /// Whose they are; `None`: anybody's.
    pub utids: Option<Vec<Utid>>,
}

impl Rows {
    /// These and those.
    fn join(self, other: Rows) -> Rows {
        let window = Window { from: self.window.from.min(other.window.from), to: self.window.to.max(other.window.to) };
        let utids = self.utids.zip(other.utids).map(|(mut utids, more)| {
            utids.extend(more);
            utids.sort_unstable();
            utids.dedup();
            utids
        });
        Rows { window, utids }
    }
}

/// A table whose rows begin at some time.
pub(super) struct Reachable {
    /// Its name.
    pub table: &'static str,
    /// Column of the begin.
    pub ts: Option<c_int>,
    /// Column of the thread.
    pub utid: Option<c_int>,
}

/// What all plans so far ask for.
#[derive(Debug, Default)]
pub(super) struct Reach(Mutex<Asked>);

#[derive(Debug, Default, Clone)]
struct Asked {
    rows: Option<Rows>,
    /// Some plan has no bound.
    all: bool,
}

impl Reach {
    /// Notes what one plan asks of one table; tables without threads are read whole or not at all.
    pub fn note(&self, info: &IndexInfo, of: &Reachable) {
        let (Some(ts), Some(utid), Ok(mut asked)) = (of.ts, of.utid, self.0.lock()) else { return };
        match rows(info, ts, utid) {
            Some(rows) => {
                asked.rows = Some(match asked.rows.take() {
                    Some(known) => known.join(rows),
                    None => rows,
                });
            }
            None => asked.all = true,
        }
        tracing::trace!("{} is asked for {asked:?}", of.table);
    }

    /// The rows all plans together ask for; `None`: all, or none of a time at all.
    pub fn rows(&self) -> Option<Rows> {
        let asked = self.0.lock().ok()?;
        asked.rows.clone().filter(|_| !asked.all)
    }
}

/// What the conditions of one plan leave; `None` if they bound no time.
fn rows(info: &IndexInfo, ts: c_int, utid: c_int) -> Option<Rows> {
    use IndexConstraintOp::{
        SQLITE_INDEX_CONSTRAINT_EQ as EQ, SQLITE_INDEX_CONSTRAINT_GE as GE, SQLITE_INDEX_CONSTRAINT_GT as GT,
        SQLITE_INDEX_CONSTRAINT_LE as LE, SQLITE_INDEX_CONSTRAINT_LT as LT,
    };
    let (mut from, mut to, mut utids) = (0u64, u64::MAX, None);
    for (n, condition) in (0..).zip(info.constraints()) {
        let (column, op) = (condition.column(), condition.operator());
        if column != ts && column != utid {
            continue;
        }
        let Some(value) = constant(info, n) else { continue };
        if column == utid {
            if op == EQ {
                utids = number(value).and_then(|utid| u32::try_from(utid).ok()).map(|utid| vec![utid]).or(utids);
            }
            continue;
        }
        let (lower, upper) = match op {
            EQ => (lower_ts(value, Bound::Inclusive), upper_ts(value, Bound::Inclusive)),
            GE => (lower_ts(value, Bound::Inclusive), None),
            GT => (lower_ts(value, Bound::Exclusive), None),
            LE => (None, upper_ts(value, Bound::Inclusive)),
            LT => (None, upper_ts(value, Bound::Exclusive)),
            _ => (None, None),
        };
        from = from.max(lower.map_or(0, |ts| u64::try_from(ts).unwrap_or(0)));
        to = to.min(upper.map_or(u64::MAX, |ts| u64::try_from(ts).unwrap_or(0)));
    }
    (from > 0 || to < u64::MAX).then_some(Rows { window: Window { from, to: to.max(from) }, utids })
}

/// The right-hand side of condition `n`, if it is a number that is written in the statement.
fn constant(info: &IndexInfo, n: c_int) -> Option<ValueRef<'static>> {
    // rusqlite hands out everything of this struct but the value of a condition. `IndexInfo` is SQLite's pointer and
    // nothing else, which the next line makes sure of.
    const { assert!(size_of::<IndexInfo>() == size_of::<*mut ffi::sqlite3_index_info>()) };
    // SAFETY: the one field of `IndexInfo`, of its size, is that pointer, and SQLite keeps what it points to for the whole
    // call of xBestIndex that `info` was made for; the value lives as long and is read here only.
    unsafe {
        let info = std::ptr::from_ref(info).cast::<*mut ffi::sqlite3_index_info>().read();
        let mut value = std::ptr::null_mut();
        if ffi::sqlite3_vtab_rhs_value(info, n, &mut value) != ffi::SQLITE_OK || value.is_null() {
            return None;
        }
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => Some(ValueRef::Integer(ffi::sqlite3_value_int64(value))),
            ffi::SQLITE_FLOAT => Some(ValueRef::Real(ffi::sqlite3_value_double(value))),
            _ => None,
        }
    }
}
