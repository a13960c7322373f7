//! One page for a ticket: what was recorded, what is missing, and the first rows of each answer.

use super::findings::{self, Detector};
use super::pick::Picked;
use super::table::{Cell, Table};
use super::{blocked, cpu, io, latency, preempt, states};
use crate::query::Columns;
use crate::units;

/// The findings are what the page is read for: so many rows of them at least are shown.
const FINDINGS: usize = 16;

/// CPUs on the page, at least: those of most machines. `report cpu` has more.
const CPUS: usize = 128;

/// What was recorded, as key and value.
pub fn head(c: &Columns, picked: &Picked) -> Table {
    let mut t = Table::new("summary", "What was recorded", &[("what", "WHAT"), ("value", "VALUE")]);
    let mut add = |what: &str, value: Cell| t.rows.push(vec![Cell::Text(what.to_owned()), value]);
    for (key, word) in [("hostname", "host"), ("system_release", "kernel"), ("system_machine", "machine")] {
        let found = c.facts.metadata.iter().find(|m| m.name == key).and_then(|m| m.text.as_deref());
        if let Some(text) = found {
            add(word, Cell::Text(crate::names::printable(text)));
        }
    }
    add("from", Cell::Time(picked.window.from));
    add("to", Cell::Time(picked.window.to));
    add("length", Cell::Ns(picked.span()));
    add("threads known", Cell::Count(c.facts.threads.len().saturating_sub(1) as u64));
    let known: u64 = c.facts.losses.iter().filter_map(|l| l.count).fold(0, u64::saturating_add);
    let unknown = c.facts.losses.iter().filter(|l| l.count.is_none()).count();
    let lost = match (known, unknown) {
        (0, 0) => "nothing".to_owned(),
        (n, 0) => format!("{} events", units::show::grouped(n)),
        (0, u) => format!("{u} times, number not known"),
        (n, u) => format!("{} events, and {u} times of unknown number", units::show::grouped(n)),
    };
    add("lost", Cell::Text(lost));
    for gap in &c.facts.gaps {
        add("nothing recorded for", Cell::Ns(gap.to.saturating_sub(gap.from)));
    }
    if let Some(hz) = c.facts.sampled_hz {
        add("source", Cell::Text(format!("sampled {hz} times a second: waits, wakers and preemptors are not known")));
    }
    t
}

/// The page.
pub fn tables(c: &Columns, picked: &Picked, rows: usize, detector: Option<Detector<'_>>) -> Vec<Table> {
    let mut out = vec![head(c, picked)];
    out.extend(detector.map(|d| findings::table(c, d, picked, rows.max(FINDINGS))));
    out.push(cpu::table(&cpu::rows(c, picked), c, rows.max(CPUS)));
    out.push(states::table(&states::rows(c, picked), c, rows));
    out.extend(latency::tables(c, picked, rows));
    out.push(preempt::table(&preempt::rows(c, picked), c, rows));
    out.extend(blocked::tables(c, picked, rows));
    let io = io::rows(c, picked);
    if !io.is_empty() {
        out.push(io::table(&io, rows));
    }
    out
}
