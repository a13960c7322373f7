//! `sched`, `sched_slice`, `thread_state`, `wait`.

use std::borrow::Cow;
use std::ffi::c_int;

use crate::query::columns::{Columns, Kind, NONE};
use crate::query::postings::Postings;
use crate::query::vtab::{Cell, Found, Layout, Table};
use crate::sched::state::TaskState;

/// A state's letters as a cell.
fn letters<'a>(state: TaskState) -> Cell<'a> {
    match state.letters() {
        Cow::Borrowed(text) => Cell::Text(text.as_bytes()),
        Cow::Owned(text) => Cell::Made(text),
    }
}

/// `sched`: who ran where, when, how long, and in which state it left.
pub struct Sched;

/// `sched_slice`: the same rows; `ts_end` hidden.
pub struct SchedSlice;

mod at {
    use std::ffi::c_int;
    pub const TS: c_int = 1;
    pub const CPU: c_int = 3;
    pub const UTID: c_int = 4;
    pub const UCPU: c_int = 7;
    pub const UPID: c_int = 9;
}

const SCHED: Layout = Layout { ts: Some(at::TS), ids: &[0], keys: &[at::UTID, at::UPID, at::CPU, at::UCPU] };

fn sched_cell(c: &Columns, id: u32, column: c_int) -> Cell<'_> {
    let row = c.sched.row(id);
    match column {
        0 => Cell::Int(id.into()),
        1 => Cell::ns(c.states.ts(row)),
        2 => Cell::Int(c.states.dur(row)),
        4 => Cell::Int(c.states.utid(row).into()),
        3 | 7 => Cell::opt(c.states.cpu(row)),
        5 | 10 => c.states.end_state(row).map_or(Cell::Null, letters),
        6 => Cell::opt(c.states.prio(row)),
        8 => Cell::Int((c.states.ts(row) as i64).saturating_add(c.states.dur(row))),
        9 => Cell::opt(c.upid(c.states.utid(row))),
        _ => Cell::Null,
    }
}

fn sched_rows_of(c: &Columns, column: c_int, key: u32) -> Found<'_> {
    Found::List(match column {
        at::UTID => c.sched_by_utid().of(key),
        at::UPID => c.sched_by_upid().of(key),
        _ => c.sched_by_cpu().of(key),
    })
}

fn sched_values(c: &Columns, column: c_int) -> usize {
    match column {
        at::UTID => c.facts.threads.len(),
        at::UPID => c.facts.processes.len(),
        _ => c.facts.cpus.len().max(4),
    }
}

fn sched_grouped(c: &Columns, column: c_int) -> Option<&Postings> {
    let all = match column {
        at::UTID => c.sched_by_utid(),
        at::CPU => c.sched_by_cpu(),
        _ => return None,
    };
    // Every slice has a thread and a CPU unless the data is broken; then the planner sorts.
    (all.all().len() == c.sched.len() as usize).then_some(all)
}

macro_rules! sched_table {
    ($table:ty, $name:literal, $ddl:literal) => {
        impl Table for $table {
            const NAME: &'static str = $name;
            const DDL: &'static str = $ddl;
            const LAYOUT: Layout = SCHED;
            const UTID: Option<c_int> = Some(at::UTID);
            fn rows(c: &Columns) -> u32 {
                c.sched.len()
            }
            #[inline]
            fn visible(c: &Columns, id: u32) -> bool {
                let row = c.sched.row(id);
                row != NONE && c.row_is_asked(row)
            }
            #[inline]
            fn cell(c: &Columns, id: u32, column: c_int) -> Cell<'_> {
                sched_cell(c, id, column)
            }
            #[inline]
            fn fetch(c: &Columns, id: u32) {
                c.states.fetch(c.sched.row(id));
            }
            fn first_at(c: &Columns, ts: u64) -> u32 {
                sched_first_at(c, ts)
            }
            fn rows_of(c: &Columns, column: c_int, key: u32) -> Found<'_> {
                sched_rows_of(c, column, key)
            }
            fn values(c: &Columns, column: c_int) -> usize {
                sched_values(c, column)
            }
            fn grouped(c: &Columns, column: c_int) -> Option<&Postings> {
                sched_grouped(c, column)
            }
        }
    };
}

sched_table!(
    Sched,
    "sched",
    "CREATE TABLE x(id INTEGER, ts INTEGER, dur INTEGER, cpu INTEGER, utid INTEGER, end_state TEXT, priority INTEGER, \
     ucpu INTEGER, ts_end INTEGER, upid INTEGER HIDDEN, thread_state TEXT HIDDEN)"
);
sched_table!(
    SchedSlice,
    "sched_slice",
    "CREATE TABLE x(id INTEGER, ts INTEGER, dur INTEGER, cpu INTEGER, utid INTEGER, end_state TEXT, priority INTEGER, \
     ucpu INTEGER, ts_end INTEGER HIDDEN, upid INTEGER HIDDEN, thread_state TEXT HIDDEN)"
);

/// First slice that begins at `ts` or later: slices stand in the order of their rows, which stand by time.
fn sched_first_at(c: &Columns, ts: u64) -> u32 {
    let (mut low, mut high) = (0, c.sched.len());
    while low < high {
        let mid = low + (high - low) / 2;
        if c.states.ts(c.sched.row(mid)) < ts { low = mid + 1 } else { high = mid }
    }
    low
}

/// `thread_state`: every stretch of every thread (the idle threads and what is unknown left out, as in Perfetto).
pub struct ThreadState;

impl Table for ThreadState {
    const NAME: &'static str = "thread_state";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, ts INTEGER, dur INTEGER, cpu INTEGER, utid INTEGER, \
        state TEXT, io_wait INTEGER, blocked_function TEXT, waker_utid INTEGER, waker_id INTEGER, \
        irq_context INTEGER, ucpu INTEGER, upid INTEGER HIDDEN, end_known INTEGER HIDDEN)";
    const LAYOUT: Layout = Layout { ts: Some(1), ids: &[0], keys: &[4] };
    const UTID: Option<c_int> = Some(4);

    fn rows(c: &Columns) -> u32 {
        c.states.len()
    }

    #[inline]
    fn visible(c: &Columns, row: u32) -> bool {
        !matches!(c.states.kind(row), Kind::Absent | Kind::Unknown) && c.states.utid(row) != 0 && c.row_is_asked(row)
    }

    #[inline]
    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let s = &c.states;
        match column {
            0 => Cell::Int(row.into()),
            1 => Cell::ns(s.ts(row)),
            2 => Cell::Int(s.dur(row)),
            3 | 11 if s.kind(row) == Kind::Running => Cell::opt(s.cpu(row)),
            4 => Cell::Int(s.utid(row).into()),
            5 => match s.kind(row) {
                Kind::Running => Cell::Text(b"Running"),
                Kind::Runnable => Cell::Text(b"R"),
                Kind::Preempted | Kind::Blocked => s.left(row).map_or(Cell::Null, letters),
                Kind::Absent | Kind::Unknown => Cell::Null,
            },
            6 => Cell::opt(s.io_wait(row)),
            7 => Cell::name(c.names.bytes(s.function(row))),
            8 => Cell::opt(s.waker(row)),
            9 => Cell::opt(s.waker_row(row)),
            10 => Cell::opt(s.from_interrupt(row)),
            12 => Cell::opt(c.upid(s.utid(row))),
            13 => Cell::Int(s.end_known(row).into()),
            _ => Cell::Null,
        }
    }

    fn first_at(c: &Columns, ts: u64) -> u32 {
        c.states.first_at(ts)
    }

    fn rows_of(c: &Columns, _: c_int, utid: u32) -> Found<'_> {
        Found::List(c.states_by_utid().of(utid))
    }

    fn grouped(c: &Columns, _: c_int) -> Option<&Postings> {
        Some(c.states_by_utid())
    }
}

/// `wait`: every stretch in which a thread wanted to run and did not, or waited for something.
///
/// `kind` is `wakeup` (ready after a wake-up), `preempted` (ready since it was pushed off) or `blocked`; for a
/// blocked one `waker_utid` is who ended it.
pub struct Wait;

impl Table for Wait {
    const NAME: &'static str = "wait";
    const DDL: &'static str = "CREATE TABLE x(id INTEGER, ts INTEGER, dur INTEGER, utid INTEGER, upid INTEGER, \
        kind TEXT, state TEXT, cpu INTEGER, waker_utid INTEGER, irq_context INTEGER, preemptor_utid INTEGER, \
        io_wait INTEGER, blocked_function TEXT, end_known INTEGER)";
    const LAYOUT: Layout = Layout { ts: Some(1), ids: &[0], keys: &[3] };
    const UTID: Option<c_int> = Some(3);

    fn rows(c: &Columns) -> u32 {
        c.states.len()
    }

    #[inline]
    fn visible(c: &Columns, row: u32) -> bool {
        c.states.kind(row) != Kind::Running && ThreadState::visible(c, row)
    }

    fn cell(c: &Columns, row: u32, column: c_int) -> Cell<'_> {
        let s = &c.states;
        match column {
            3 => Cell::Int(s.utid(row).into()),
            4 => Cell::opt(c.upid(s.utid(row))),
            5 => match s.kind(row) {
                Kind::Runnable => Cell::Text(b"wakeup"),
                Kind::Preempted => Cell::Text(b"preempted"),
                _ => Cell::Text(b"blocked"),
            },
            6 => ThreadState::cell(c, row, 5),
            7 => Cell::opt(s.cpu(row)),
            8 | 9 => {
                let woken = if s.kind(row) == Kind::Blocked { c.next_of_thread(row) } else { Some(row) };
                match woken {
                    Some(row) if column == 8 => Cell::opt(s.waker(row)),
                    Some(row) => Cell::opt(s.from_interrupt(row)),
                    None => Cell::Null,
                }
            }
            10 => Cell::opt(s.preemptor(row)),
            11 => Cell::opt(s.io_wait(row)),
            12 => Cell::name(c.names.bytes(s.function(row))),
            13 => Cell::Int(s.end_known(row).into()),
            _ => ThreadState::cell(c, row, column),
        }
    }

    fn first_at(c: &Columns, ts: u64) -> u32 {
        c.states.first_at(ts)
    }

    fn rows_of(c: &Columns, _: c_int, utid: u32) -> Found<'_> {
        Found::List(c.states_by_utid().of(utid))
    }

    fn grouped(c: &Columns, _: c_int) -> Option<&Postings> {
        Some(c.states_by_utid())
    }
}
