//! What SQLite asks of a table, and how the rows for it are reached: the body of xBestIndex.

use std::ffi::c_int;

use rusqlite::vtab::{IndexConstraintOp, IndexFlags, IndexInfo};

use super::Table;
use crate::query::columns::Columns;

/// The plan of a scan, packed into SQLite's `idxNum`: how rows are reached, then which bounds on `ts` follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Plan {
    pub path: Path,
    pub lower: Bound,
    pub upper: Bound,
    pub descending: bool,
    /// `ts = ?`: the lower bound's value bounds both ends.
    pub exact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Path {
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

/// One end of a range of `ts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::query) enum Bound {
    #[default]
    None,
    Inclusive,
    Exclusive,
}

impl Plan {
    pub fn pack(self) -> c_int {
        let path = match self.path {
            Path::Scan => 0,
            Path::Id => 1,
            Path::Key(n) => 2 | c_int::from(n) << 8,
            Path::Grouped(n) => 3 | c_int::from(n) << 8,
        };
        let flags = c_int::from(self.descending) << 6 | c_int::from(self.exact) << 7;
        path | (self.lower as c_int) << 2 | (self.upper as c_int) << 4 | flags
    }

    pub fn unpack(n: c_int) -> Plan {
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
        let (lower, upper) = (bound(n >> 2), bound(n >> 4));
        Plan { path, lower, upper, descending: n >> 6 & 1 == 1, exact: n >> 7 & 1 == 1 }
    }

    /// Chooses a plan for what `info` asks, and tells SQLite of it.
    pub fn choose<T: Table>(info: &mut IndexInfo, columns: &Columns) {
        let mut choice = Choice::default();
        for (n, constraint) in info.constraints().enumerate().filter(|(_, c)| c.is_usable()) {
            choice.consider::<T>(n, constraint.column(), constraint.operator());
        }
        let Choice { mut plan, first, lower, upper } = choice;
        // id or key first, then the bounds on ts: the order of xFilter's arguments.
        for (argument, n) in (1..).zip([first, lower, upper].into_iter().flatten()) {
            info.constraint_usage(n).set_argv_index(argument);
        }
        plan.order::<T>(info, columns);
        info.set_idx_num(plan.pack());
        if plan.path == Path::Id {
            info.set_idx_flags(IndexFlags::SQLITE_INDEX_SCAN_UNIQUE);
        }
        let (cost, rows) = plan.estimate::<T>(columns);
        info.set_estimated_cost(cost);
        info.set_estimated_rows(rows as i64);
    }

    /// Takes over ORDER BY and GROUP BY where rows come in that order anyway.
    fn order<T: Table>(&mut self, info: &mut IndexInfo, columns: &Columns) {
        let wanted: Vec<(c_int, bool)> = info.order_bys().map(|o| (o.column(), o.is_order_by_desc())).collect();
        let in_row_order = |(column, _): &(c_int, bool)| Some(*column) == T::LAYOUT.ts || *column <= 0;
        let unbounded = self.path == Path::Scan && self.lower == Bound::None && self.upper == Bound::None;
        let consumed = match wanted.as_slice() {
            [] => false,
            // By time or number, everything in the same direction. Rows of equal ts stand in id order.
            [first, rest @ ..] if in_row_order(first) && (rest.is_empty() || is_id_tail::<T>(first, rest)) => {
                self.descending = first.1;
                true
            }
            [(column, false), rest @ ..] if rest.is_empty() || rest.iter().all(|o| in_row_order(o) && !o.1) => {
                match T::LAYOUT.keys.iter().position(|k| k == column) {
                    Some(k) if rest.len() < 2 && unbounded && T::grouped(columns, *column).is_some() => {
                        self.path = Path::Grouped(k as u8);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        info.set_order_by_consumed(consumed || self.path == Path::Id);
    }

    /// Cost, and number of rows.
    fn estimate<T: Table>(self, columns: &Columns) -> (f64, f64) {
        let rows = f64::from(T::rows(columns)).max(1.0);
        let narrowed = match (self.lower, self.upper) {
            _ if self.exact => 2.0 / rows,
            (Bound::None, Bound::None) => 1.0,
            (Bound::None, _) | (_, Bound::None) => 0.3,
            _ => 0.05,
        };
        match self.path {
            Path::Id => (1.0, 1.0),
            Path::Key(k) => {
                let values = T::LAYOUT.keys.get(usize::from(k)).map_or(1, |key| T::values(columns, *key));
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

/// A plan, and which constraints it takes its values from.
#[derive(Default)]
struct Choice {
    plan: Plan,
    /// Of the id or key.
    first: Option<usize>,
    lower: Option<usize>,
    upper: Option<usize>,
}

impl Choice {
    /// Makes use of constraint `n`, if that is better than what is used so far.
    fn consider<T: Table>(&mut self, n: usize, column: c_int, op: IndexConstraintOp) {
        use IndexConstraintOp::{
            SQLITE_INDEX_CONSTRAINT_EQ as EQ, SQLITE_INDEX_CONSTRAINT_GE as GE, SQLITE_INDEX_CONSTRAINT_GT as GT,
            SQLITE_INDEX_CONSTRAINT_LE as LE, SQLITE_INDEX_CONSTRAINT_LT as LT,
        };
        let is_ts = Some(column) == T::LAYOUT.ts;
        let key = T::LAYOUT.keys.iter().position(|key| *key == column);
        match (op, key) {
            (EQ, _) if column < 0 || T::LAYOUT.ids.contains(&column) => {
                (self.plan.path, self.first) = (Path::Id, Some(n));
            }
            // Keys are listed best first.
            (EQ, Some(k)) if matches!(self.plan.path, Path::Key(known) if k >= usize::from(known)) => {}
            (EQ, Some(k)) if self.plan.path != Path::Id => {
                (self.plan.path, self.first) = (Path::Key(k as u8), Some(n));
            }
            (EQ, None) if is_ts => {
                (self.plan.lower, self.plan.upper, self.plan.exact) = (Bound::Inclusive, Bound::None, true);
                (self.lower, self.upper) = (Some(n), None);
            }
            (GE, _) if is_ts && self.lower.is_none() => {
                (self.plan.lower, self.lower) = (Bound::Inclusive, Some(n));
            }
            (GT, _) if is_ts && self.lower.is_none() => {
                (self.plan.lower, self.lower) = (Bound::Exclusive, Some(n));
            }
            (LE, _) if is_ts && self.upper.is_none() && !self.plan.exact => {
                (self.plan.upper, self.upper) = (Bound::Inclusive, Some(n));
            }
            (LT, _) if is_ts && self.upper.is_none() && !self.plan.exact => {
                (self.plan.upper, self.upper) = (Bound::Exclusive, Some(n));
            }
            _ => {}
        }
    }
}

/// Rows of equal `ts` stand in id order, so `ORDER BY ts, id` is row order too when both go the same way.
fn is_id_tail<T: Table>(first: &(c_int, bool), rest: &[(c_int, bool)]) -> bool {
    Some(first.0) == T::LAYOUT.ts && matches!(rest, [(column, desc)] if *column <= 0 && *desc == first.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_survive_packing() {
        for path in [Path::Scan, Path::Id, Path::Key(3), Path::Grouped(0)] {
            for lower in [Bound::None, Bound::Inclusive, Bound::Exclusive] {
                for flag in [false, true] {
                    let plan = Plan { path, lower, upper: lower, descending: flag, exact: !flag };
                    assert_eq!(Plan::unpack(plan.pack()), plan);
                }
            }
        }
    }
}
