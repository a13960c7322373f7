//! What looks like trouble: the findings of the screens, on what was loaded.
//!
//! What is a finding, and its numbers, is `sched::findings`' alone; the sentence is that of [`super::words`], so a
//! ticket says what the screen said.

use super::pick::Picked;
use super::table::{Cell, Table, thread_name};
use super::words::{self, Words};
use crate::names::NameId;
use crate::query::Columns;
use crate::sched::findings::Thresholds;
use crate::sched::fold::Utid;
use crate::sched::model::Model;
use crate::sched::summary::{Finding, FindingKind, Severity, Window};

/// Where findings come from: the model that was loaded beside the columns, and from where on something is one.
#[derive(Debug, Clone, Copy)]
pub struct Detector<'a> {
    /// Fed with the same items as the columns, so that its utids and names are theirs.
    pub model: &'a Model,
    /// From the configuration.
    pub thresholds: Thresholds,
}

impl Words for Columns {
    fn thread(&self, utid: Utid) -> String {
        thread_name(self, utid)
    }

    fn text(&self, id: NameId) -> String {
        self.names.text(id)
    }
}

/// The findings about what is picked, most important first, as far as the model still holds it.
pub fn table(c: &Columns, detector: Detector<'_>, picked: &Picked, rows: usize) -> Table {
    let mut t = Table::new(
        "findings",
        "Findings",
        &[
            ("severity", ""),
            ("at", "AT"),
            ("lasted_ns", "FOR"),
            ("finding", "WHAT"),
            ("kind", ""),
            ("utid", ""),
            ("cpu", ""),
            ("share", ""),
            ("ns", ""),
            ("count", ""),
        ],
    );
    t.only_json = 6;
    let held = detector.model.bounds().unwrap_or(Window { from: 0, to: 0 });
    let (from, to) = (picked.window.from.max(held.from), picked.window.to.min(held.to));
    let seen = Window { from, to: to.max(from) };
    // Without cells: only the findings are wanted.
    let found = detector.model.overview(seen, 0, 0, &detector.thresholds).findings;
    t.rows.extend(found.iter().filter(|f| is_asked(&f.kind, picked)).map(|f| row(c, f, seen)));
    if detector.model.folder().first().is_some_and(|first| first < held.from) {
        t.notes.push("of the latest part only: the whole is more than fits in memory; ask for less with --last".into());
    }
    t.cut(rows);
    t
}

/// Losses make every other number doubtful: they are told whoever is asked for.
fn is_asked(kind: &FindingKind, picked: &Picked) -> bool {
    match *kind {
        FindingKind::Starving { utid, .. }
        | FindingKind::PushedOff { utid, .. }
        | FindingKind::LongBlocked { utid, .. } => picked.has(utid),
        FindingKind::Monopolised { cpu, utid, .. } | FindingKind::IdleWhileReady { cpu, utid, .. } => {
            picked.has(utid) && picked.has_cpu(Some(cpu))
        }
        FindingKind::Lost { cpu, .. } => picked.has_cpu(Some(cpu)),
    }
}

fn row(c: &Columns, finding: &Finding, window: Window) -> Vec<Cell> {
    let severity = match finding.severity {
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut row = vec![
        Cell::Text(severity.into()),
        Cell::Time(finding.at.from),
        Cell::Ns(finding.at.len()),
        Cell::Text(words::finding(finding, window.len(), c)),
    ];
    row.extend(numbers(&finding.kind));
    row
}

/// Kind, utid, CPU, share, ns, count: as many as the kind has.
fn numbers(kind: &FindingKind) -> [Cell; 6] {
    let id = |n: u32| Cell::Count(n.into());
    let no = Cell::Unknown;
    let word = |text: &str| Cell::Text(text.into());
    match *kind {
        FindingKind::Starving { utid, share, latency, .. } => [
            word("starving"),
            id(utid),
            no.clone(),
            Cell::Share(share),
            Cell::Ns(latency.max),
            Cell::Count(latency.count),
        ],
        FindingKind::Monopolised { cpu, utid, share, ready_ns } => {
            [word("monopolised"), id(utid), id(cpu), Cell::Share(share), Cell::Ns(ready_ns), no]
        }
        FindingKind::PushedOff { utid, per_s, .. } => {
            [word("pushed_off"), id(utid), no.clone(), no.clone(), no, Cell::Count(per_s.round() as u64)]
        }
        FindingKind::LongBlocked { utid, longest, count, .. } => {
            [word("long_blocked"), id(utid), no.clone(), no, Cell::Ns(longest), Cell::Count(count)]
        }
        FindingKind::IdleWhileReady { cpu, idle_ns, utid, .. } => {
            [word("idle_while_ready"), id(utid), id(cpu), no.clone(), Cell::Ns(idle_ns), no]
        }
        FindingKind::Lost { cpu, count, ns } => {
            [word("lost"), no.clone(), id(cpu), no.clone(), Cell::Ns(ns), count.map(Cell::Count).into()]
        }
    }
}
