//! Scalar and aggregate functions under the names Perfetto gives them.

use std::sync::Arc;

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use super::columns::Columns;
use super::tables::events::extract_arg;
use super::vtab::Cell;
use crate::sched::summary::Window;

const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// The function that looks into raw events.
pub const EXTRACT_ARG: &str = "extract_arg";

/// Functions whose answer depends on all that was recorded, whatever rows they are asked of.
pub const OF_ALL: [&str; 7] =
    ["trace_start", "trace_end", "trace_dur", "to_realtime", "to_monotonic", "abs_time_str", EXTRACT_ARG];

/// Makes them all known to the connection.
pub fn register(conn: &Connection, columns: &Arc<Columns>) -> Result<()> {
    bounds(conn, columns.window)?;
    clocks(conn, columns)?;
    conversions(conn)?;
    text(conn)?;
    mathematics(conn)?;
    let c = Arc::clone(columns);
    conn.create_scalar_function(EXTRACT_ARG, 2, PURE, move |ctx| {
        let cell = match (ctx.get_raw(0), ctx.get_raw(1)) {
            (ValueRef::Integer(set), ValueRef::Text(key)) => owned(extract_arg(&c, set, key)),
            _ => Cell::Null,
        };
        Ok(value(cell))
    })?;
    conn.create_aggregate_function("percentile", 2, PURE, Percentile)?;
    conn.create_aggregate_function("median", 1, PURE, Percentile)
}

fn owned(cell: Cell<'_>) -> Cell<'static> {
    match cell {
        Cell::Null => Cell::Null,
        Cell::Int(i) => Cell::Int(i),
        Cell::Real(r) => Cell::Real(r),
        Cell::Text(t) => Cell::Made(String::from_utf8_lossy(t).into_owned()),
        Cell::Made(t) => Cell::Made(t),
    }
}

fn value(cell: Cell<'static>) -> rusqlite::types::Value {
    use rusqlite::types::Value;
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(i) => Value::Integer(i),
        Cell::Real(r) => Value::Real(r),
        Cell::Text(t) => Value::Text(String::from_utf8_lossy(t).into_owned()),
        Cell::Made(t) => Value::Text(t),
    }
}

fn bounds(conn: &Connection, window: Option<Window>) -> Result<()> {
    let (from, to) = window.map_or((0, 0), |w| (w.from as i64, w.to as i64));
    for (name, answer) in [("trace_start", from), ("trace_end", to), ("trace_dur", to.saturating_sub(from))] {
        conn.create_scalar_function(name, 0, PURE, move |_| Ok(answer))?;
    }
    Ok(())
}

fn integer(ctx: &Context<'_>, n: usize) -> Option<i64> {
    match ctx.get_raw(n) {
        ValueRef::Integer(i) => Some(i),
        ValueRef::Real(r) => Some(r as i64),
        _ => None,
    }
}

fn clocks(conn: &Connection, columns: &Arc<Columns>) -> Result<()> {
    let c = Arc::clone(columns);
    conn.create_scalar_function("to_realtime", 1, PURE, move |ctx| {
        Ok(integer(ctx, 0).and_then(|ts| c.facts.realtime(u64::try_from(ts).ok()?)))
    })?;
    let c = Arc::clone(columns);
    conn.create_scalar_function("to_monotonic", 1, PURE, move |ctx| {
        Ok(integer(ctx, 0).and_then(|ts| c.facts.monotonic(u64::try_from(ts).ok()?)))
    })?;
    let c = Arc::clone(columns);
    conn.create_scalar_function("abs_time_str", 1, PURE, move |ctx| {
        let real = integer(ctx, 0).and_then(|ts| c.facts.realtime(u64::try_from(ts).ok()?));
        Ok(real.and_then(|ns| jiff::Timestamp::from_nanosecond(ns.into()).ok()).map(|t| format!("{t:.9}")))
    })?;
    conn.create_scalar_function("to_timecode", 1, PURE, |ctx| {
        Ok(integer(ctx, 0).map(|ts| {
            let (ns, us, ms) = (ts % 1000, ts / 1000 % 1000, ts / 1_000_000 % 1000);
            let s = ts / 1_000_000_000;
            format!("{:02}:{:02}:{:02} {ms:03} {us:03} {ns:03}", s / 3600, s / 60 % 60, s % 60)
        }))
    })
}

fn conversions(conn: &Connection) -> Result<()> {
    const S: i64 = 1_000_000_000;
    for (unit, ns) in [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", S),
        ("min", 60 * S),
        ("hours", 3600 * S),
        ("days", 86_400 * S),
    ] {
        conn.create_scalar_function(format!("time_from_{unit}").as_str(), 1, PURE, move |ctx| {
            Ok(match ctx.get_raw(0) {
                ValueRef::Integer(n) => Some(n.saturating_mul(ns)),
                ValueRef::Real(r) => Some((r * ns as f64) as i64),
                _ => None,
            })
        })?;
        conn.create_scalar_function(format!("time_to_{unit}").as_str(), 1, PURE, move |ctx| {
            Ok(integer(ctx, 0).map(|n| n / ns))
        })?;
    }
    Ok(())
}

fn string(ctx: &Context<'_>, n: usize) -> Option<String> {
    match ctx.get_raw(n) {
        ValueRef::Text(t) | ValueRef::Blob(t) => Some(String::from_utf8_lossy(t).into_owned()),
        ValueRef::Integer(i) => Some(i.to_string()),
        ValueRef::Real(r) => Some(r.to_string()),
        ValueRef::Null => None,
    }
}

fn text(conn: &Connection) -> Result<()> {
    conn.create_scalar_function("str_split", 3, PURE, |ctx| {
        let (Some(text), Some(separator), Some(n)) = (string(ctx, 0), string(ctx, 1), integer(ctx, 2)) else {
            return Ok(None);
        };
        if separator.is_empty() || n < 0 {
            return Err(user("str_split needs a separator that is not empty and a field number of 0 or more"));
        }
        Ok(text.split(&separator).nth(n as usize).map(str::to_owned))
    })?;
    conn.create_scalar_function("reverse", 1, PURE, |ctx| {
        Ok(string(ctx, 0).map(|t| t.chars().rev().collect::<String>()))
    })?;
    conn.create_scalar_function("unhex", 1, PURE, |ctx| {
        Ok(string(ctx, 0).and_then(|t| {
            let digits = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")).unwrap_or(&t);
            u64::from_str_radix(digits, 16).ok().map(|n| n as i64)
        }))
    })
}

fn user(text: &str) -> Error {
    Error::UserFunctionError(text.into())
}

fn mathematics(conn: &Connection) -> Result<()> {
    type Real = fn(f64) -> f64;
    for (name, f) in [("ln", f64::ln as Real), ("exp", f64::exp as Real), ("sqrt", f64::sqrt as Real)] {
        conn.create_scalar_function(name, 1, PURE, move |ctx| {
            let x = match ctx.get_raw(0) {
                ValueRef::Integer(i) => Some(i as f64),
                ValueRef::Real(r) => Some(r),
                _ => None,
            };
            Ok(x.map(f).filter(|y| y.is_finite()))
        })?;
    }
    Ok(())
}

/// `percentile(x, p)`, p from 0 to 100, linear between neighbours; `median(x)` is p = 50. NULLs are left out.
struct Percentile;

#[derive(Default)]
struct Values {
    values: Vec<f64>,
    p: f64,
}

impl Aggregate<Values, Option<f64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values { values: Vec::new(), p: 50.0 })
    }

    fn step(&self, ctx: &mut Context<'_>, acc: &mut Values) -> Result<()> {
        if ctx.len() > 1 {
            let p: f64 = ctx.get(1)?;
            if !(0.0..=100.0).contains(&p) {
                return Err(user("percentile needs a second argument between 0 and 100"));
            }
            acc.p = p;
        }
        match ctx.get_raw(0) {
            ValueRef::Integer(i) => acc.values.push(i as f64),
            ValueRef::Real(r) => acc.values.push(r),
            _ => {}
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, acc: Option<Values>) -> Result<Option<f64>> {
        let Some(mut acc) = acc.filter(|a| !a.values.is_empty()) else { return Ok(None) };
        acc.values.sort_unstable_by(f64::total_cmp);
        let place = acc.p / 100.0 * (acc.values.len() - 1) as f64;
        let (low, high) = (acc.values[place.floor() as usize], acc.values[place.ceil() as usize]);
        Ok(Some(low + (high - low) * place.fract()))
    }
}
