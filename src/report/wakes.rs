//! Who woke whom.

use rustc_hash::FxHashMap;

use super::pick::Picked;
use super::table::{Cell, Table, thread_name};
use crate::query::Columns;
use crate::query::columns::Kind;
use crate::sched::fold::Utid;

/// Who wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// This thread.
    Thread(Utid),
    /// An interrupt; whoever it interrupted has nothing to do with it.
    Interrupt,
    /// Not recorded.
    Unknown,
}

/// One pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Who woke.
    pub waker: Waker,
    /// Whom.
    pub wakee: Utid,
    /// How often.
    pub times: u64,
    /// How long the wakee then waited for a CPU, ns; only waits that ended in the window.
    pub waited: u64,
    /// The longest of them, ns.
    pub longest: u64,
}

/// Pairs whose waker or wakee was picked, the most frequent first.
pub fn rows(c: &Columns, picked: &Picked) -> Vec<Row> {
    let mut found: FxHashMap<(Waker, Utid), Row> = FxHashMap::default();
    for row in c.states.first_at(picked.window.from)..c.states.first_at(picked.window.to) {
        if c.states.kind(row) != Kind::Runnable || !picked.has_cpu(c.states.cpu(row)) {
            continue;
        }
        let wakee = c.states.utid(row);
        let waker = match (c.states.from_interrupt(row), c.states.waker(row)) {
            (Some(true), _) => Waker::Interrupt,
            (_, Some(utid)) => Waker::Thread(utid),
            _ => Waker::Unknown,
        };
        let by_picked = matches!(waker, Waker::Thread(utid) if picked.has(utid));
        if !(picked.has(wakee) || by_picked) {
            continue;
        }
        let new = Row { waker, wakee, times: 0, waited: 0, longest: 0 };
        let entry = found.entry((waker, wakee)).or_insert(new);
        entry.times += 1;
        let ns = picked.ended(c, row).unwrap_or(0);
        entry.waited += ns;
        entry.longest = entry.longest.max(ns);
    }
    let mut out: Vec<Row> = found.into_values().collect();
    out.sort_by_key(|r| (std::cmp::Reverse(r.times), r.waker, r.wakee));
    out
}

/// For people.
pub fn table(rows: &[Row], c: &Columns, limit: usize) -> Table {
    let mut t = Table::new(
        "wakes",
        "Who woke whom",
        &[
            ("waker", "WAKER"),
            ("wakee", "WOKE"),
            ("times", "TIMES"),
            ("waited_ns", "THEN WAITED"),
            ("longest_ns", "LONGEST"),
        ],
    );
    for row in rows {
        let waker = match row.waker {
            Waker::Thread(utid) => Cell::Text(thread_name(c, utid)),
            Waker::Interrupt => Cell::Text("an interrupt".into()),
            Waker::Unknown => Cell::Unknown,
        };
        t.rows.push(vec![
            waker,
            Cell::Text(thread_name(c, row.wakee)),
            Cell::Count(row.times),
            Cell::Ns(row.waited),
            Cell::Ns(row.longest),
        ]);
    }
    t.cut(limit);
    t
}
