//! Where stretches of several tables overlap: what `_interval_intersect!` is made of.
//!
//! The macro becomes a call of one function, which gets each table's stretches as a JSON array (so that they may come from
//! anything that is a table in that place of the statement, a CTE too) and gives back one of the overlaps.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// The function; nobody calls it by name.
const NAME: &str = "_overlaps_of_intervals";
/// Overlaps at most: stretches that all overlap give as many as the product of their numbers.
const MOST: usize = 20_000_000;

/// What stands for `_interval_intersect!((table, …), (column, …))`: rows `ts, dur, id_0, …, column, …`.
pub(super) fn sql(tables: &[String], columns: &[String]) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.trim().trim_matches('"').replace('"', ""));
    let columns: Vec<String> = columns.iter().map(|c| quoted(c)).collect();
    let names = ["ts".to_owned(), "dur".to_owned()]
        .into_iter()
        .chain((0..tables.len()).map(|n| format!("id_{n}")))
        .chain(columns.iter().cloned());
    let cells: Vec<String> = names.enumerate().map(|(n, name)| format!("value ->> {n} AS {name}")).collect();
    let fields =
        ["id", "ts", "dur"].into_iter().chain(columns.iter().map(String::as_str)).collect::<Vec<_>>().join(", ");
    let rows: Vec<String> = tables
        .iter()
        .map(|table| format!("(SELECT json_group_array(json_array({fields})) FROM {})", table.trim()))
        .collect();
    format!("(SELECT {} FROM json_each({NAME}({})))", cells.join(", "), rows.join(", "))
}

/// Makes the function known to the connection.
pub(super) fn register(conn: &Connection) -> Result<()> {
    conn.create_scalar_function(NAME, -1, FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC, overlaps)
}

fn user(text: &str) -> Error {
    Error::UserFunctionError(text.into())
}

/// One stretch, and the rows it comes from.
#[derive(Debug, Clone, PartialEq)]
struct Stretch {
    from: i64,
    to: i64,
    ids: Vec<Value>,
}

/// By the values of the columns that must be equal.
type Groups = FxHashMap<String, (Vec<Value>, Vec<Stretch>)>;

fn overlaps(ctx: &Context<'_>) -> Result<String> {
    let mut tables = (0..ctx.len()).map(|n| stretches(&ctx.get::<String>(n)?));
    let mut all = tables.next().ok_or_else(|| user("_interval_intersect! needs a table"))??;
    for table in tables {
        let mut table = table?;
        all.retain(|key, _| table.contains_key(key));
        for (key, (_, found)) in &mut all {
            let with = table.remove(key).map(|t| t.1).unwrap_or_default();
            *found = both(found, &with)?;
        }
    }
    let mut rows: Vec<Value> = Vec::new();
    let mut groups: Vec<_> = all.into_iter().collect();
    groups.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, (columns, found)) in groups {
        for stretch in found {
            let mut row = vec![stretch.from.into(), (stretch.to - stretch.from).into()];
            row.extend(stretch.ids);
            row.extend(columns.iter().cloned());
            rows.push(row.into());
        }
    }
    Ok(Value::from(rows).to_string())
}

/// The stretches of a table by group, each group by begin. What has not ended has no place: Perfetto wants it left out.
fn stretches(json: &str) -> Result<Groups> {
    let rows: Vec<Vec<Value>> =
        serde_json::from_str(json).map_err(|_| user("id, ts and dur of intervals must be numbers"))?;
    let mut groups = Groups::default();
    for mut row in rows {
        let columns = row.split_off(3.min(row.len()));
        let (Some(from), Some(dur)) = (row.get(1).and_then(Value::as_i64), row.get(2).and_then(Value::as_i64)) else {
            return Err(user("ts and dur of intervals must be whole numbers"));
        };
        if dur < 0 {
            continue;
        }
        let key = Value::from(columns.clone()).to_string();
        let stretch = Stretch { from, to: from.saturating_add(dur), ids: vec![row.swap_remove(0)] };
        groups.entry(key).or_insert_with(|| (columns, Vec::new())).1.push(stretch);
    }
    groups.values_mut().for_each(|g| g.1.sort_by_key(|s| s.from));
    Ok(groups)
}

/// What lies in a stretch of both, by begin. An instant lies in a stretch that begins at it, and in one that it parts.
fn both(a: &[Stretch], b: &[Stretch]) -> Result<Vec<Stretch>> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    // Those that began and may last.
    let (mut live_a, mut live_b): (Vec<&Stretch>, Vec<&Stretch>) = (Vec::new(), Vec::new());
    loop {
        let first = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.from <= y.from,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Ok(out),
        };
        let new = if first { &a[i] } else { &b[j] };
        let lasts = |s: &&Stretch| s.to > new.from || s.from == new.from;
        live_a.retain(lasts);
        live_b.retain(lasts);
        let others = if first { &live_b } else { &live_a };
        for other in others {
            let ids = if first { [&new.ids[..], &other.ids] } else { [&other.ids[..], &new.ids] }.concat();
            out.push(Stretch { from: new.from, to: new.to.min(other.to), ids });
        }
        if out.len() > MOST {
            return Err(user("the intervals overlap more than 20 million times"));
        }
        if first {
            live_a.push(new);
            i += 1;
        } else {
            live_b.push(new);
            j += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn stretch(from: i64, to: i64, id: i64) -> Stretch {
        Stretch { from, to, ids: vec![id.into()] }
    }

    #[test]
    fn overlaps_are_found_whoever_begins_first() {
        let a = [stretch(0, 10, 1), stretch(5, 30, 2), stretch(40, 50, 3)];
        let b = [stretch(8, 45, 7), stretch(20, 25, 8), stretch(50, 60, 9)];
        let found: Vec<(i64, i64, String)> =
            both(&a, &b).unwrap().into_iter().map(|s| (s.from, s.to, format!("{} {}", s.ids[0], s.ids[1]))).collect();
        let expected =
            [(8, 10, "1 7"), (8, 30, "2 7"), (20, 25, "2 8"), (40, 45, "3 7")].map(|(f, t, i)| (f, t, i.to_owned()));
        assert_eq!(found, expected, "40..50 and 50..60 only touch");
    }

    #[test]
    fn instants_lie_in_what_begins_at_them() {
        let found =
            |a: (i64, i64), b: (i64, i64)| both(&[stretch(a.0, a.1, 1)], &[stretch(b.0, b.1, 2)]).unwrap().len();
        assert_eq!([found((5, 5), (0, 10)), found((5, 5), (5, 10)), found((5, 5), (0, 5))], [1, 1, 0]);
    }
}
