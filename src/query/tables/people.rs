//! `thread` and `process`: one row a life.

use std::ffi::c_int;

use crate::query::columns::Columns;
use crate::query::vtab::{Cell, Found, Layout, Table};

/// `thread`.
pub struct Thread;

impl Table for Thread {
    const NAME: &'static str = "thread";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, utid INTEGER, tid INTEGER, name TEXT, start_ts INTEGER, \
        end_ts INTEGER, upid INTEGER, is_main_thread INTEGER, is_idle INTEGER, machine_id INTEGER, \
        arg_set_id INTEGER, is_recorder INTEGER HIDDEN)";
    const LAYOUT: Layout = Layout { ts: None, ids: &[0, 1], keys: &[6] };

    fn rows(c: &Columns) -> u32 {
        c.facts.threads.len() as u32
    }

    fn visible(c: &Columns, utid: u32) -> bool {
        c.facts.threads.get(utid as usize).is_some_and(|t| !t.unmet)
    }

    fn cell(c: &Columns, utid: u32, column: c_int) -> Cell<'_> {
        let Some(t) = c.facts.threads.get(utid as usize) else { return Cell::Null };
        match column {
            0 | 1 => Cell::Int(utid.into()),
            2 => Cell::Int(t.tid.into()),
            3 => Cell::name(c.names.bytes(t.name)),
            4 => t.start.map_or(Cell::Null, Cell::ns),
            5 => t.end.map_or(Cell::Null, Cell::ns),
            6 => Cell::opt(t.upid),
            7 => Cell::opt(t.main),
            8 => Cell::Int((utid == 0).into()),
            11 => Cell::Int(t.own.into()),
            _ => Cell::Null,
        }
    }

    fn rows_of(c: &Columns, _: c_int, upid: u32) -> Found<'_> {
        Found::List(c.threads_by_upid().of(upid))
    }

    fn values(c: &Columns, _: c_int) -> usize {
        c.facts.processes.len()
    }
}

/// `process`.
pub struct Process;

impl Table for Process {
    const NAME: &'static str = "process";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, upid INTEGER, pid INTEGER, name TEXT, start_ts INTEGER, \
        end_ts INTEGER, parent_upid INTEGER, uid INTEGER, android_appid INTEGER, android_user_id INTEGER, \
        cmdline TEXT, arg_set_id INTEGER, machine_id INTEGER, cgroup TEXT HIDDEN)";
    const LAYOUT: Layout = Layout { ts: None, ids: &[0, 1], keys: &[] };

    fn rows(c: &Columns) -> u32 {
        c.facts.processes.len() as u32
    }

    fn visible(c: &Columns, upid: u32) -> bool {
        c.facts.processes.get(upid as usize).is_some_and(|p| !p.unmet)
    }

    fn cell(c: &Columns, upid: u32, column: c_int) -> Cell<'_> {
        let Some(p) = c.facts.processes.get(upid as usize) else { return Cell::Null };
        match column {
            0 | 1 => Cell::Int(upid.into()),
            2 => Cell::Int(p.pid.into()),
            3 if !p.command.is_empty() => Cell::name(c.names.bytes(p.command)),
            3 => Cell::name(c.names.bytes(p.name)),
            4 => p.start.map_or(Cell::Null, Cell::ns),
            5 => p.end.map_or(Cell::Null, Cell::ns),
            6 => Cell::opt(p.parent),
            7 => Cell::opt(p.uid),
            10 => Cell::name(c.names.bytes(p.cmdline)),
            13 => Cell::name(c.names.bytes(p.cgroup)),
            _ => Cell::Null,
        }
    }
}
