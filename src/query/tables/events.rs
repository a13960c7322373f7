//! `ftrace_event` and `args`: raw events, when the builder was told to keep them.

use std::ffi::c_int;

use crate::names::NameId;
use crate::query::columns::Columns;
use crate::query::vtab::{Cell, Found, Layout, Table};
use crate::sched::event::{Event, EventKind, Tid};
use crate::sched::fields::{Field, each_field, event_name};

/// `ftrace_event`. Its `arg_set_id` is its `id`.
pub struct FtraceEvent;

impl Table for FtraceEvent {
    const NAME: &'static str = "ftrace_event";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, ts INTEGER, name TEXT, cpu INTEGER, utid INTEGER, \
        arg_set_id INTEGER, common_flags INTEGER, ucpu INTEGER)";
    const LAYOUT: Layout = Layout { ts: Some(1), ids: &[0, 5], keys: &[] };

    fn rows(c: &Columns) -> u32 {
        c.events.len() as u32
    }

    fn visible(c: &Columns, row: u32) -> bool {
        c.events.get(row as usize).is_some_and(|(e, _)| c.is_asked(e.ts, 0))
    }

    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let Some((event, emitter)) = c.events.get(row as usize) else { return Cell::Null };
        match column {
            0 | 5 => Cell::Int(row.into()),
            1 => Cell::ns(event.ts),
            2 => Cell::Text(name(c, &event.kind)),
            3 | 7 => Cell::Int(event.cpu.into()),
            4 => Cell::opt(*emitter),
            6 => Cell::Int(event.flags.into()),
            _ => Cell::Null,
        }
    }

    fn first_at(c: &Columns, ts: u64) -> u32 {
        c.events.partition_point(|(e, _)| e.ts < ts) as u32
    }
}

fn name<'a>(c: &'a Columns, kind: &EventKind) -> &'a [u8] {
    match (event_name(kind), kind) {
        (Some(name), _) => name.as_bytes(),
        (None, EventKind::Other { name }) => c.names.bytes(*name),
        (None, _) => b"",
    }
}

/// Most fields an event has (sched_switch: 7), rounded up to a power of two: row = event × this + field.
const FIELDS: u32 = 8;

/// `args`: a row a field.
pub struct Args;

impl Table for Args {
    const NAME: &'static str = "args";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, arg_set_id INTEGER, flat_key TEXT, key TEXT, \
        int_value INTEGER, string_value TEXT, real_value REAL, value_type TEXT, display_value TEXT)";
    const LAYOUT: Layout = Layout { ts: None, ids: &[0], keys: &[1] };

    fn rows(c: &Columns) -> u32 {
        (c.events.len() as u32).saturating_mul(FIELDS)
    }

    fn visible(c: &Columns, row: u32) -> bool {
        field(c, row).is_some()
    }

    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let Some((key, value)) = field(c, row) else { return Cell::Null };
        match (column, value) {
            (0, _) => Cell::Int(row.into()),
            (1, _) => Cell::Int((row / FIELDS).into()),
            (2 | 3, _) => Cell::Text(key.as_bytes()),
            (4, Field::Int(n)) => Cell::Int(n),
            (5, Field::Name(_) | Field::Word(_)) => text(c, value),
            (7, Field::Int(_)) => Cell::Text(b"int"),
            (7, _) => Cell::Text(b"string"),
            (8, Field::Int(n)) => Cell::Made(n.to_string()),
            (8, _) => text(c, value),
            _ => Cell::Null,
        }
    }

    fn rows_of(_: &Columns, _: c_int, event: u32) -> Found<'_> {
        let from = event.saturating_mul(FIELDS);
        Found::Range(from, from.saturating_add(FIELDS))
    }

    fn values(c: &Columns, _: c_int) -> usize {
        c.events.len()
    }
}

fn text(c: &Columns, value: Field) -> Cell<'_> {
    match value {
        Field::Int(n) => Cell::Made(n.to_string()),
        Field::Name(id) => Cell::Text(c.names.bytes(id)),
        Field::Word(word) => Cell::Text(word.as_bytes()),
    }
}

fn field(c: &Columns, row: u32) -> Option<(&'static str, Field)> {
    let (event, emitter) = c.events.get((row / FIELDS) as usize)?;
    let mut n = 0;
    let mut found = None;
    each_field(
        event,
        |tid| comm(c, event, *emitter, tid),
        |key, value| {
            if n == row % FIELDS {
                found = Some((key, value));
            }
            n += 1;
        },
    );
    found
}

/// The name of the emitting thread; the table keeps one name a life, so others stay empty.
fn comm(c: &Columns, event: &Event, emitter: Option<u32>, tid: Tid) -> NameId {
    let of = |utid: u32| c.facts.threads.get(utid as usize).filter(|t| t.tid == tid).map(|t| t.name);
    match event.kind {
        EventKind::Switch(_) | EventKind::Exit { .. } | EventKind::Rename { .. } => emitter.and_then(of),
        _ => None,
    }
    .unwrap_or(NameId::EMPTY)
}

/// `extract_arg(arg_set_id, key)`: one field of one event.
pub fn extract_arg<'a>(c: &'a Columns, arg_set: i64, key: &[u8]) -> Cell<'a> {
    let Ok(event) = u32::try_from(arg_set) else { return Cell::Null };
    (0..FIELDS)
        .filter_map(|n| field(c, event.checked_mul(FIELDS)?.checked_add(n)?))
        .find(|(name, _)| name.as_bytes() == key)
        .map_or(Cell::Null, |(_, value)| match value {
            Field::Int(n) => Cell::Int(n),
            other => text(c, other),
        })
}
