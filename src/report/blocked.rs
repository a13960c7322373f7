//! What threads were blocked in, for how long, and who ended it.
//!
//! A thread is blocked from its switch-out in a sleeping state to the wake-up that ends that; *off the CPU* goes on to
//! its next run. Both are told, since tools differ in which they call "blocking time".

use std::collections::BTreeMap;

use super::pick::Picked;
use super::table::{Cell, Table, process_name, thread_name};
use crate::names::NameId;
use crate::query::Columns;
use crate::query::columns::Kind;
use crate::sched::fold::Utid;
use crate::sched::state::TaskState;

/// One thread in one state (S, D, …).
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Who.
    pub utid: Utid,
    /// In which state it left the CPU.
    pub state: TaskState,
    /// How often, of stretches that ended in the window.
    pub times: u64,
    /// Sum, ns.
    pub total: u64,
    /// Longest from switch-out to wake-up, ns, and the row of it.
    pub longest: (u64, u32),
    /// Longest from switch-out to the next run, ns, and when it began; `None` if it never ran again.
    pub off_cpu: Option<(u64, u64)>,
}

/// One function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRow {
    /// Kernel function (EMPTY: not recorded).
    pub function: NameId,
    /// State it was called in.
    pub state: TaskState,
    /// How often.
    pub times: u64,
    /// How often the kernel counted it as waiting for I/O; `None` if that was never told.
    pub io_waits: Option<u64>,
    /// Sum, ns.
    pub total: u64,
    /// Longest, ns.
    pub longest: u64,
    /// Whose the longest was.
    pub utid: Utid,
    /// When that began.
    pub at: u64,
}

fn blocked_rows<'a>(
    c: &'a Columns,
    picked: &'a Picked,
    utid: Utid,
) -> impl Iterator<Item = (u32, TaskState, u64)> + 'a {
    c.states_by_utid().of(utid).iter().filter_map(move |&row| {
        let state = c.states.left(row).filter(|_| c.states.kind(row) == Kind::Blocked)?;
        let ns = picked.ended(c, row).filter(|_| picked.has_cpu(c.states.cpu(row)))?;
        // Z and X never end: what they wait for is their parent. I is a kernel thread without work; only who asks for
        // it by name wants to know.
        let dead = state.contains(TaskState::ZOMBIE) || state.contains(TaskState::DEAD);
        let idle = state == TaskState::IDLE && picked.all;
        (!dead && !idle).then_some((row, state, ns))
    })
}

/// Threads, the longest single stretch first; D before others of the same length.
pub fn threads(c: &Columns, picked: &Picked) -> Vec<ThreadRow> {
    let mut out = Vec::new();
    for utid in picked.threads() {
        let mut by_state: BTreeMap<TaskState, ThreadRow> = BTreeMap::new();
        for (row, state, ns) in blocked_rows(c, picked, utid) {
            let entry = by_state.entry(state).or_insert(ThreadRow {
                utid,
                state,
                times: 0,
                total: 0,
                longest: (0, row),
                off_cpu: None,
            });
            entry.times += 1;
            entry.total += ns;
            if ns >= entry.longest.0 {
                entry.longest = (ns, row);
            }
            if let Some(off) = until_run(c, row).filter(|off| entry.off_cpu.is_none_or(|known| *off > known.0)) {
                entry.off_cpu = Some((off, c.states.ts(row)));
            }
        }
        out.extend(by_state.into_values());
    }
    out.sort_by_key(|r| std::cmp::Reverse((r.longest.0, r.state.contains(TaskState::UNINTERRUPTIBLE))));
    out
}

/// From the begin of `row` to the thread's next run, if nothing is missing in between.
fn until_run(c: &Columns, row: u32) -> Option<u64> {
    let mut at = row;
    loop {
        let next = c.next_of_thread(at)?;
        let end = c.states.ts(at).checked_add(u64::try_from(c.states.dur(at)).ok()?)?;
        if !c.states.end_known(at) || c.states.ts(next) != end {
            return None;
        }
        if c.states.kind(next) == Kind::Running {
            return Some(c.states.ts(next) - c.states.ts(row));
        }
        at = next;
    }
}

/// Functions of uninterruptible sleep, the largest sum first.
pub fn functions(c: &Columns, picked: &Picked) -> Vec<FunctionRow> {
    let mut found: BTreeMap<(NameId, TaskState), FunctionRow> = BTreeMap::new();
    for utid in picked.threads() {
        for (row, state, ns) in blocked_rows(c, picked, utid) {
            let function = c.states.function(row);
            if function.is_empty() && !state.contains(TaskState::UNINTERRUPTIBLE) {
                continue;
            }
            let new = FunctionRow { function, state, times: 0, io_waits: None, total: 0, longest: 0, utid, at: 0 };
            let entry = found.entry((function, state)).or_insert(new);
            entry.times += 1;
            entry.total += ns;
            if let Some(io) = c.states.io_wait(row) {
                entry.io_waits = Some(entry.io_waits.unwrap_or(0) + u64::from(io));
            }
            if ns >= entry.longest {
                (entry.longest, entry.utid, entry.at) = (ns, utid, c.states.ts(row));
            }
        }
    }
    let mut out: Vec<FunctionRow> = found.into_values().collect();
    out.sort_by_key(|r| std::cmp::Reverse(r.total));
    out
}

/// Who ended the blocked stretch `row`, in words.
fn ended_by(c: &Columns, row: u32) -> Cell {
    let Some(next) = c.next_of_thread(row).filter(|n| c.states.kind(*n) == Kind::Runnable) else {
        return Cell::Unknown;
    };
    match (c.states.from_interrupt(next), c.states.waker(next)) {
        (Some(true), _) => Cell::Text("an interrupt".into()),
        (_, Some(waker)) => Cell::Text(thread_name(c, waker)),
        _ => Cell::Unknown,
    }
}

/// For people: threads, then functions.
pub fn tables(c: &Columns, picked: &Picked, limit: usize) -> Vec<Table> {
    let mut t = Table::new(
        "blocked",
        "Blocked threads, the longest first",
        &[
            ("thread", "THREAD"),
            ("process", "PROCESS"),
            ("state", "STATE"),
            ("times", "TIMES"),
            ("total_ns", "TOTAL"),
            ("longest_ns", "LONGEST"),
            ("longest_ts", "BEGAN"),
            ("function", "IN"),
            ("ended_by", "ENDED BY"),
            ("off_cpu_ns", "UNTIL IT RAN"),
            ("off_cpu_ts", "BEGAN"),
        ],
    );
    for row in threads(c, picked) {
        let function = c.names.text(c.states.function(row.longest.1));
        t.rows.push(vec![
            Cell::Text(thread_name(c, row.utid)),
            process_name(c, row.utid),
            Cell::Text(row.state.letters().into_owned()),
            Cell::Count(row.times),
            Cell::Ns(row.total),
            Cell::Ns(row.longest.0),
            Cell::Time(c.states.ts(row.longest.1)),
            if function.is_empty() { Cell::Unknown } else { Cell::Text(function) },
            ended_by(c, row.longest.1),
            row.off_cpu.map(|o| Cell::Ns(o.0)).into(),
            row.off_cpu.map(|o| Cell::Time(o.1)).into(),
        ]);
    }
    t.cut(limit);
    t.notes
        .push("LONGEST is from switch-out to wake-up, UNTIL IT RAN to the next run; only what was seen whole".into());
    let mut f = Table::new(
        "blocked_functions",
        "Kernel functions they were blocked in",
        &[
            ("function", "FUNCTION"),
            ("state", "STATE"),
            ("times", "TIMES"),
            ("io_waits", "I/O WAITS"),
            ("total_ns", "TOTAL"),
            ("longest_ns", "LONGEST"),
            ("longest_ts", "BEGAN"),
            ("thread", "OF"),
        ],
    );
    for row in functions(c, picked) {
        let name = c.names.text(row.function);
        f.rows.push(vec![
            Cell::Text(if name.is_empty() { "(not recorded)".into() } else { name }),
            Cell::Text(row.state.letters().into_owned()),
            Cell::Count(row.times),
            row.io_waits.map(Cell::Count).into(),
            Cell::Ns(row.total),
            Cell::Ns(row.longest),
            Cell::Time(row.at),
            Cell::Text(thread_name(c, row.utid)),
        ]);
    }
    f.cut(limit);
    vec![t, f]
}
