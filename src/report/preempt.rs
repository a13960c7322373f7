//! Who pushed whom off the CPU, and how long that kept the other waiting.

use rustc_hash::FxHashMap;

use super::pick::Picked;
use super::table::{Cell, Table, process_name, thread_name};
use crate::query::Columns;
use crate::query::columns::Kind;
use crate::sched::fold::Utid;

/// One pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Who was pushed off.
    pub victim: Utid,
    /// Who came in its place; `None`: not known.
    pub by: Option<Utid>,
    /// How often.
    pub times: u64,
    /// How long the victim then waited, ns; only waits that ended in the window.
    pub waited: u64,
    /// The longest of them, ns.
    pub longest: u64,
    /// When that began.
    pub at: u64,
}

/// Pairs whose victim or preemptor was picked, by the time waited.
pub fn rows(c: &Columns, picked: &Picked) -> Vec<Row> {
    let mut found: FxHashMap<(Utid, Option<Utid>), Row> = FxHashMap::default();
    for row in c.states.first_at(picked.window.from)..c.states.first_at(picked.window.to) {
        let (victim, by) = (c.states.utid(row), c.states.preemptor(row));
        if c.states.kind(row) != Kind::Preempted
            || !(picked.has(victim) || by.is_some_and(|by| picked.has(by)))
            || !picked.has_cpu(c.states.cpu(row))
        {
            continue;
        }
        let new = Row { victim, by, times: 0, waited: 0, longest: 0, at: c.states.ts(row) };
        let entry = found.entry((victim, by)).or_insert(new);
        entry.times += 1;
        let ns = picked.ended(c, row).unwrap_or(0);
        entry.waited += ns;
        if ns > entry.longest {
            (entry.longest, entry.at) = (ns, c.states.ts(row));
        }
    }
    let mut out: Vec<Row> = found.into_values().collect();
    out.sort_by_key(|r| (std::cmp::Reverse((r.waited, r.times)), r.victim, r.by));
    out
}

/// For people.
pub fn table(rows: &[Row], c: &Columns, limit: usize) -> Table {
    let mut t = Table::new(
        "preempt",
        "Who pushed whom off the CPU",
        &[
            ("thread", "PUSHED OFF"),
            ("process", "PROCESS"),
            ("by_thread", "BY"),
            ("by_process", "PROCESS"),
            ("times", "TIMES"),
            ("waited_ns", "THEN WAITED"),
            ("longest_ns", "LONGEST"),
            ("longest_ts", "BEGAN"),
        ],
    );
    for row in rows {
        t.rows.push(vec![
            Cell::Text(thread_name(c, row.victim)),
            process_name(c, row.victim),
            row.by.map(|by| Cell::Text(thread_name(c, by))).into(),
            row.by.map_or(Cell::Unknown, |by| process_name(c, by)),
            Cell::Count(row.times),
            Cell::Ns(row.waited),
            Cell::Ns(row.longest),
            Cell::Time(row.at),
        ]);
    }
    t.cut(limit);
    t
}
