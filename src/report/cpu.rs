//! How busy each CPU was, and with what.

use super::pick::Picked;
use super::table::{Cell, Table, thread_name};
use crate::query::Columns;
use crate::sched::fold::Utid;

/// One CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its id.
    pub cpu: u32,
    /// Time about which something is known, ns.
    pub known: u64,
    /// Of that with a thread other than idle, ns.
    pub busy: u64,
    /// Of that with threads that were picked, ns.
    pub picked: u64,
    /// Slices of other than the idle thread.
    pub slices: u64,
    /// Who ran most, and how long, ns.
    pub top: Option<(Utid, u64)>,
    /// Events lost; `Some(None)`: some, number unknown.
    pub lost: Option<Option<u64>>,
}

/// All CPUs by id.
pub fn rows(c: &Columns, picked: &Picked) -> Vec<Row> {
    let by_cpu = c.sched_by_cpu();
    let mut spent = vec![0u64; c.facts.threads.len()];
    let mut out = Vec::new();
    for cpu in (0..by_cpu.keys()).filter(|cpu| picked.has_cpu(Some(*cpu))) {
        let ids = by_cpu.of(cpu);
        if ids.is_empty() && !c.facts.cpus.iter().any(|f| f.cpu == cpu) {
            continue;
        }
        spent.fill(0);
        let mut row = Row { cpu, ..Row::default() };
        for &id in ids {
            let state = c.sched.row(id);
            let ns = c.clamped(state, picked.window);
            row.known += ns;
            let utid = c.states.utid(state);
            if utid == 0 || ns == 0 {
                continue;
            }
            row.busy += ns;
            row.slices += 1;
            if let Some(total) = spent.get_mut(utid as usize).filter(|_| picked.has(utid)) {
                *total += ns;
                row.picked += ns;
            }
        }
        let top = spent.iter().enumerate().max_by_key(|(_, ns)| **ns).filter(|(_, ns)| **ns > 0);
        row.top = top.map(|(utid, ns)| (utid as Utid, *ns));
        let losses =
            c.facts.losses.iter().filter(|l| l.cpu == cpu && l.to >= picked.window.from && l.from < picked.window.to);
        row.lost = losses.map(|l| l.count).reduce(|a, b| Some(a?.saturating_add(b?)));
        out.push(row);
    }
    out
}

/// For people; at most `limit` rows.
pub fn table(rows: &[Row], c: &Columns, limit: usize) -> Table {
    let mut t = Table::new(
        "cpu",
        "CPU occupancy",
        &[
            ("cpu", "CPU"),
            ("busy", "BUSY"),
            ("busy_ns", "BUSY FOR"),
            ("picked_ns", "PICKED THREADS"),
            ("slices", "SLICES"),
            ("known_ns", "KNOWN"),
            ("lost", "LOST"),
            ("top_thread", "RAN MOST"),
            ("top_ns", "FOR"),
        ],
    );
    for row in rows {
        let busy = if row.known > 0 { Cell::Share(row.busy as f64 / row.known as f64) } else { Cell::Unknown };
        let lost = match row.lost {
            None => Cell::Count(0),
            Some(Some(n)) => Cell::Count(n),
            Some(None) => Cell::Text("some".into()),
        };
        t.rows.push(vec![
            Cell::Count(row.cpu.into()),
            busy,
            Cell::Ns(row.busy),
            Cell::Ns(row.picked),
            Cell::Count(row.slices),
            Cell::Ns(row.known),
            lost,
            row.top.map(|(utid, _)| Cell::Text(thread_name(c, utid))).into(),
            row.top.map(|(_, ns)| Cell::Ns(ns)).into(),
        ]);
    }
    t.cut(limit);
    t.notes.push("BUSY is a share of the time that is known: gaps and losses are left out".into());
    t
}
