//! `slice` (markers and interrupts) and `counter`.

use std::ffi::c_int;

use crate::query::columns::{Columns, NONE};
use crate::query::postings::Postings;
use crate::query::vtab::{Cell, Found, Layout, Table};

/// `slice`.
pub struct Slice;

impl Table for Slice {
    const NAME: &'static str = "slice";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, ts INTEGER, dur INTEGER, track_id INTEGER, category TEXT, \
        name TEXT, depth INTEGER, parent_id INTEGER, arg_set_id INTEGER, thread_ts INTEGER, thread_dur INTEGER, \
        thread_instruction_count INTEGER, thread_instruction_delta INTEGER, cat TEXT, slice_id INTEGER)";
    const LAYOUT: Layout = Layout { ts: Some(1), ids: &[0, 14], keys: &[3] };

    fn rows(c: &Columns) -> u32 {
        c.slices.ts.len() as u32
    }

    fn visible(c: &Columns, row: u32) -> bool {
        c.is_asked(c.slices.ts.get(row), c.slices.dur.get(row))
    }

    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let s = &c.slices;
        match column {
            0 | 14 => Cell::Int(row.into()),
            1 => Cell::ns(s.ts.get(row)),
            2 => Cell::Int(s.dur.get(row)),
            3 => Cell::Int(s.track.get(row).into()),
            5 => Cell::Text(c.names.bytes(s.name.get(row))),
            6 => Cell::Int(s.depth.get(row).into()),
            7 => Cell::opt(Some(s.parent.get(row)).filter(|p| *p != NONE)),
            _ => Cell::Null,
        }
    }

    fn first_at(c: &Columns, ts: u64) -> u32 {
        c.slices.ts.lower_bound(ts)
    }

    fn rows_of(c: &Columns, _: c_int, track: u32) -> Found<'_> {
        Found::List(c.slices_by_track().of(track))
    }

    fn values(c: &Columns, _: c_int) -> usize {
        c.tracks.len()
    }

    fn grouped(c: &Columns, _: c_int) -> Option<&Postings> {
        Some(c.slices_by_track())
    }
}

/// `counter`.
pub struct Counter;

impl Table for Counter {
    const NAME: &'static str = "counter";
    const DDL: &'static str =
        "CREATE TABLE x(id INTEGER, ts INTEGER, track_id INTEGER, value REAL, arg_set_id INTEGER)";
    const LAYOUT: Layout = Layout { ts: Some(1), ids: &[0], keys: &[2] };

    fn rows(c: &Columns) -> u32 {
        c.counters.ts.len() as u32
    }

    fn visible(c: &Columns, row: u32) -> bool {
        c.is_asked(c.counters.ts.get(row), 0)
    }

    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let s = &c.counters;
        match column {
            0 => Cell::Int(row.into()),
            1 => Cell::ns(s.ts.get(row)),
            2 => Cell::Int(s.track.get(row).into()),
            3 => Cell::Real(s.value.get(row)),
            _ => Cell::Null,
        }
    }

    fn first_at(c: &Columns, ts: u64) -> u32 {
        c.counters.ts.lower_bound(ts)
    }

    fn rows_of(c: &Columns, _: c_int, track: u32) -> Found<'_> {
        Found::List(c.counters_by_track().of(track))
    }

    fn values(c: &Columns, _: c_int) -> usize {
        c.tracks.len()
    }

    fn grouped(c: &Columns, _: c_int) -> Option<&Postings> {
        Some(c.counters_by_track())
    }
}
