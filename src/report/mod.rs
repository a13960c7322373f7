//! Ready answers in plain words and numbers.
//!
//! Each answer is a list of plain rows computed from the columns of a loaded window, and a [`table::Table`] made of
//! them for text, Markdown and JSON. States and waits mean what `sched::fold` says; nothing is measured
//! again here. What was cut by a loss is never counted as if it had been seen whole.

pub mod blocked;
pub mod check;
pub mod cpu;
pub mod findings;
pub mod io;
pub mod latency;
pub mod pick;
pub mod preempt;
pub mod states;
pub mod summary;
pub mod table;
pub mod wakes;
pub mod words;

use crate::query::Columns;
use findings::Detector;
use pick::Picked;
use table::{Cell, Table};

/// Which answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How busy each CPU was, and with what.
    Cpu,
    /// How long threads were ready before they ran.
    Latency,
    /// Where the time of each thread went.
    States,
    /// What threads were blocked in, and for how long.
    Blocked,
    /// Who pushed whom off the CPU.
    Preempt,
    /// Who woke whom.
    Wakes,
    /// How long block requests took.
    Io,
    /// One page for a ticket.
    Summary,
}

impl Kind {
    /// All of them with the word each is asked for by.
    pub const ALL: [(&'static str, Kind); 8] = [
        ("cpu", Kind::Cpu),
        ("latency", Kind::Latency),
        ("states", Kind::States),
        ("blocked", Kind::Blocked),
        ("preempt", Kind::Preempt),
        ("wakes", Kind::Wakes),
        ("io", Kind::Io),
        ("summary", Kind::Summary),
    ];

    /// The one that `word` asks for.
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)
    }
}

/// CPUs of `report cpu`, at least: those of the largest machines.
const CPUS: usize = 1024;

/// Computes an answer; `rows` is how many rows a table has at most. With a `detector` the summary has findings.
pub fn make(kind: Kind, columns: &Columns, picked: &Picked, rows: usize, detector: Option<Detector<'_>>) -> Vec<Table> {
    let mut tables = answer(kind, columns, picked, rows, detector);
    if let Some(hz) = columns.facts.sampled_hz {
        tables.iter_mut().for_each(|t| without_guesses(t, hz));
    }
    tables
}

/// Where procfs was sampled only sums are known: tables about single waits, wakers and preemptors would be made up.
fn without_guesses(table: &mut Table, hz: u32) {
    let note = format!("the data was sampled {hz} times a second, not traced");
    if matches!(table.name, "latency" | "latency_histogram" | "preempt" | "wakes") {
        table.rows.clear();
        table.notes = vec![format!("not known: {note}")];
        return;
    }
    const GUESSED: [&str; 6] = ["pushed_off", "voluntary", "involuntary", "migrations", "slices", "io_waits"];
    let guessed = |key: &str| GUESSED.contains(&key);
    for row in &mut table.rows {
        let cells = row.iter_mut().zip(&table.columns).filter(|(_, column)| guessed(column.0));
        cells.for_each(|(cell, _)| *cell = Cell::Unknown);
    }
    if table.columns.iter().any(|column| guessed(column.0)) {
        table.notes.push(format!("– is not known: {note}"));
    }
}

fn answer(kind: Kind, columns: &Columns, picked: &Picked, rows: usize, detector: Option<Detector<'_>>) -> Vec<Table> {
    match kind {
        Kind::Cpu => vec![cpu::table(&cpu::rows(columns, picked), columns, rows.max(CPUS))],
        Kind::Latency => latency::tables(columns, picked, rows),
        Kind::States => vec![states::table(&states::rows(columns, picked), columns, rows)],
        Kind::Blocked => blocked::tables(columns, picked, rows),
        Kind::Preempt => vec![preempt::table(&preempt::rows(columns, picked), columns, rows)],
        Kind::Wakes => vec![wakes::table(&wakes::rows(columns, picked), columns, rows)],
        Kind::Io => vec![io::table(&io::rows(columns, picked), rows)],
        Kind::Summary => summary::tables(columns, picked, rows.min(8), detector),
    }
}

#[cfg(test)]
mod tests;
