//! `CREATE VIRTUAL TABLE x USING SPAN_JOIN(a PARTITIONED utid, b PARTITIONED utid)`, and its LEFT and OUTER kinds.
//!
//! Each side is a table with `ts` and `dur`; the result has a row for every stretch in which a row of each side
//! lasts (LEFT: at least one of the first, OUTER: of any). Rows of one side must not overlap within a partition.
//! A `dur` of -1 lasts to the end of the trace. The whole result is made at the first row.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::marker::PhantomData;

use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, CreateVTab, Filters, IndexInfo, VTab, VTabConnection, VTabCursor, VTabKind, read_only_module,
};
use rusqlite::{Connection, Error, Result, ffi};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Inner,
    Left,
    Outer,
}

/// Makes the three kinds known to the connection.
pub fn register(conn: &Connection) -> Result<()> {
    for (name, mode) in [("span_join", Mode::Inner), ("span_left_join", Mode::Left), ("span_outer_join", Mode::Outer)] {
        conn.create_module(name, read_only_module::<SpanTab>(), Some(mode))?;
    }
    Ok(())
}

/// One of the two tables joined.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Side {
    table: String,
    partition: Option<String>,
    /// Columns besides ts, dur and the partition.
    columns: Vec<String>,
}

impl Side {
    /// Reads `name` or `name PARTITIONED column`.
    fn parse(text: &str) -> Result<Side> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [table] => Ok(Side { table: (*table).into(), partition: None, columns: Vec::new() }),
            [table, word, column] if word.eq_ignore_ascii_case("PARTITIONED") => {
                Ok(Side { table: (*table).into(), partition: Some((*column).into()), columns: Vec::new() })
            }
            _ => Err(module(format!("span join: \"{text}\" should be a table, or a table PARTITIONED a column"))),
        }
    }

    fn find_columns(&mut self, conn: &Connection) -> Result<()> {
        let statement = conn.prepare(&format!("SELECT * FROM {}", self.table))?;
        let names: Vec<String> = statement.column_names().iter().map(|n| (*n).to_owned()).collect();
        for needed in ["ts", "dur"].into_iter().chain(self.partition.as_deref()) {
            if !names.iter().any(|n| n.eq_ignore_ascii_case(needed)) {
                return Err(module(format!("span join: {} has no column {needed}", self.table)));
            }
        }
        let fixed = |n: &String| {
            n.eq_ignore_ascii_case("ts")
                || n.eq_ignore_ascii_case("dur")
                || self.partition.as_ref().is_some_and(|p| p.eq_ignore_ascii_case(n))
        };
        self.columns = names.into_iter().filter(|n| !fixed(n)).collect();
        Ok(())
    }

    /// All rows, by partition (0 for none) and time.
    fn load(&self, conn: &Connection, end: i64) -> Result<BTreeMap<i64, Vec<Span>>> {
        let partition = self.partition.as_ref().map_or_else(|| "0".to_owned(), |p| quote(p));
        let columns: String = self.columns.iter().map(|c| format!(", {}", quote(c))).collect();
        let sql = format!("SELECT {partition}, ts, dur{columns} FROM {} WHERE ts IS NOT NULL ORDER BY ts", self.table);
        let mut statement = conn.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut out: BTreeMap<i64, Vec<Span>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let Some(partition) = row.get::<_, Option<i64>>(0)? else { continue };
            let (ts, dur): (i64, Option<i64>) = (row.get(1)?, row.get(2)?);
            let dur = dur.unwrap_or(0);
            let stop = if dur < 0 { end.max(ts) } else { ts.saturating_add(dur) };
            let cells = (0..self.columns.len()).map(|n| row.get(n + 3)).collect::<Result<Vec<Value>>>()?;
            let list = out.entry(partition).or_default();
            if let Some(last) = list.last().filter(|last: &&Span| last.end > ts) {
                return Err(module(format!(
                    "span join: rows of {} overlap at ts {ts} (the one of ts {} is not over); partition it, or make them disjoint",
                    self.table, last.start
                )));
            }
            list.push(Span { start: ts, end: stop, cells });
        }
        Ok(out)
    }
}

fn module(text: String) -> Error {
    Error::ModuleError(text)
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[derive(Debug, Clone, PartialEq)]
struct Span {
    start: i64,
    end: i64,
    cells: Vec<Value>,
}

/// A stretch of the result: begin, end, and which span of each side lasts.
type Piece = (i64, i64, Option<usize>, Option<usize>);

/// Walks two lists of disjoint spans, both by time.
fn sweep(a: &[Span], b: &[Span], mode: Mode, mut emit: impl FnMut(Piece)) {
    let (mut i, mut j, mut now) = (0, 0, i64::MIN);
    while i < a.len() || j < b.len() {
        let (left, right) = (a.get(i), b.get(j));
        let begins = |s: Option<&Span>| s.map(|s| s.start.max(now));
        let Some(start) = begins(left).into_iter().chain(begins(right)).min() else { break };
        let on = |s: Option<&Span>| s.is_some_and(|s| s.start <= start);
        // Up to the next change: an end of what lasts, or a begin of what does not yet.
        let change = |s: Option<&Span>| s.map(|s| if s.start <= start { s.end } else { s.start });
        let Some(end) = change(left).into_iter().chain(change(right)).min() else { break };
        let (l, r) = (on(left).then_some(i), on(right).then_some(j));
        let wanted = match mode {
            Mode::Inner => l.is_some() && r.is_some(),
            Mode::Left => l.is_some(),
            Mode::Outer => true,
        };
        if wanted && end > start {
            emit((start, end, l, r));
        }
        now = end.max(start);
        i += usize::from(left.is_some_and(|s| s.start <= start && s.end <= now));
        j += usize::from(right.is_some_and(|s| s.start <= start && s.end <= now));
    }
}

#[repr(C)]
struct SpanTab {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
    mode: Mode,
    sides: [Side; 2],
}

// SAFETY: `repr(C)` with `sqlite3_vtab` first, as the trait asks.
unsafe impl<'vtab> VTab<'vtab> for SpanTab {
    type Aux = Mode;
    type Cursor = SpanCursor<'vtab>;

    fn connect(db: &mut VTabConnection, aux: Option<&Mode>, args: &[&[u8]]) -> Result<(String, Self)> {
        let mode = aux.copied().unwrap_or(Mode::Inner);
        let texts: Vec<String> = args.iter().skip(3).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        let [a, b] = texts.as_slice() else {
            return Err(module("span join: two tables should stand in the parentheses".into()));
        };
        let mut sides = [Side::parse(a)?, Side::parse(b)?];
        if let (Some(p), Some(q)) = (&sides[0].partition, &sides[1].partition)
            && !p.eq_ignore_ascii_case(q)
        {
            return Err(module(format!("span join: both sides must be partitioned by one column, not {p} and {q}")));
        }
        // SAFETY: the handle outlives the table, which SQLite disconnects before it closes the connection.
        let db = unsafe { db.handle() };
        // SAFETY: as above; the borrowed handle is not closed on drop.
        let conn = unsafe { Connection::from_handle(db)? };
        for side in &mut sides {
            side.find_columns(&conn)?;
        }
        let partition = sides[0].partition.clone().or_else(|| sides[1].partition.clone());
        let names = ["ts", "dur"].map(str::to_owned).into_iter().chain(partition);
        let names = names.chain(sides.iter().flat_map(|s| s.columns.clone()));
        let names: Vec<String> = names.collect();
        if let Some(twice) =
            sides[1].columns.iter().find(|c| sides[0].columns.iter().any(|d| d.eq_ignore_ascii_case(c)))
        {
            return Err(module(format!(
                "span join: both sides have a column {twice}; give one another name in a view"
            )));
        }
        let columns: Vec<String> = names.iter().map(|n| quote(n)).collect();
        let ddl = format!("CREATE TABLE x({})", columns.join(", "));
        Ok((ddl, SpanTab { base: ffi::sqlite3_vtab::default(), db, mode, sides }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<()> {
        info.set_estimated_cost(1e6);
        info.set_estimated_rows(100_000);
        Ok(())
    }

    fn open(&'vtab mut self) -> Result<SpanCursor<'vtab>> {
        Ok(SpanCursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            tab: self,
            spans: [Vec::new(), Vec::new()],
            pieces: Vec::new(),
            at: 0,
            lifetime: PhantomData,
        })
    }
}

impl CreateVTab<'_> for SpanTab {
    const KIND: VTabKind = VTabKind::Default;
}

#[repr(C)]
struct SpanCursor<'vtab> {
    /// Must be first: SQLite sees only this.
    base: ffi::sqlite3_vtab_cursor,
    tab: &'vtab SpanTab,
    spans: [Vec<Span>; 2],
    /// Partition and piece; the piece's numbers point into `spans`.
    pieces: Vec<(i64, Piece)>,
    at: usize,
    lifetime: PhantomData<&'vtab ()>,
}

// SAFETY: `repr(C)` with `sqlite3_vtab_cursor` first, as the trait asks.
unsafe impl VTabCursor for SpanCursor<'_> {
    fn filter(&mut self, _: c_int, _: Option<&str>, _: &Filters<'_>) -> Result<()> {
        self.at = 0;
        self.pieces.clear();
        self.spans = [Vec::new(), Vec::new()];
        // SAFETY: the connection is the one this cursor belongs to; the borrowed handle is not closed on drop.
        let conn = unsafe { Connection::from_handle(self.tab.db)? };
        let end = conn.query_row("SELECT trace_end()", [], |r| r.get(0)).unwrap_or(i64::MAX);
        let [left, right] = &self.tab.sides;
        let (mut a, mut b) = (left.load(&conn, end)?, right.load(&conn, end)?);
        let keys: BTreeSet<i64> = match (&left.partition, &right.partition) {
            (Some(_), Some(_)) | (None, None) => a.keys().chain(b.keys()).copied().collect(),
            (Some(_), None) => a.keys().copied().collect(),
            (None, Some(_)) => b.keys().copied().collect(),
        };
        // A side without partition meets every partition of the other.
        let whole = |side: &Side, other: &Side, map: &mut BTreeMap<i64, Vec<Span>>| {
            (side.partition.is_none() && other.partition.is_some()).then(|| map.remove(&0).unwrap_or_default())
        };
        let (all_a, all_b) = (whole(left, right, &mut a), whole(right, left, &mut b));
        for key in keys {
            let list_a = all_a.clone().or_else(|| a.remove(&key)).unwrap_or_default();
            let list_b = all_b.clone().or_else(|| b.remove(&key)).unwrap_or_default();
            let (base_a, base_b) = (self.spans[0].len(), self.spans[1].len());
            let pieces = &mut self.pieces;
            sweep(&list_a, &list_b, self.tab.mode, |(start, end, l, r)| {
                pieces.push((key, (start, end, l.map(|l| l + base_a), r.map(|r| r + base_b))));
            });
            self.spans[0].extend(list_a);
            self.spans[1].extend(list_b);
        }
        self.pieces.sort_by_key(|(key, piece)| (piece.0, *key));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.pieces.len()
    }

    fn column(&self, ctx: &mut Context, i: c_int) -> Result<()> {
        let Some((key, (start, end, l, r))) = self.pieces.get(self.at) else { return ctx.set_result(&Value::Null) };
        let partitioned = self.tab.sides.iter().any(|s| s.partition.is_some());
        let fixed = 2 + usize::from(partitioned);
        let cell = match usize::try_from(i).unwrap_or(usize::MAX) {
            0 => return ctx.set_result(start),
            1 => return ctx.set_result(&(end - start)),
            2 if partitioned => return ctx.set_result(key),
            n => {
                let n = n - fixed;
                let first = self.tab.sides[0].columns.len();
                let (side, place, n) = if n < first { (0, l, n) } else { (1, r, n - first) };
                place.and_then(|p| self.spans[side].get(p)?.cells.get(n))
            }
        };
        ctx.set_result(cell.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.at as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(i64, i64)]) -> Vec<Span> {
        list.iter().map(|(start, end)| Span { start: *start, end: *end, cells: Vec::new() }).collect()
    }

    fn pieces(mode: Mode) -> Vec<Piece> {
        let mut out = Vec::new();
        sweep(&spans(&[(0, 10), (10, 20), (30, 40)]), &spans(&[(5, 12), (35, 50)]), mode, |p| out.push(p));
        out
    }

    #[test]
    fn inner_keeps_what_both_have() {
        assert_eq!(
            pieces(Mode::Inner),
            [(5, 10, Some(0), Some(0)), (10, 12, Some(1), Some(0)), (35, 40, Some(2), Some(1))]
        );
    }

    #[test]
    fn left_and_outer_keep_the_rest_too() {
        let left = [
            (0, 5, Some(0), None),
            (5, 10, Some(0), Some(0)),
            (10, 12, Some(1), Some(0)),
            (12, 20, Some(1), None),
            (30, 35, Some(2), None),
            (35, 40, Some(2), Some(1)),
        ];
        assert_eq!(pieces(Mode::Left), left);
        let outer: Vec<Piece> = left.into_iter().chain([(40, 50, None, Some(1))]).collect();
        assert_eq!(pieces(Mode::Outer), outer);
    }
}
