//! Run-queue latency: how long threads were ready before they ran.

use super::pick::Picked;
use super::table::{Cell, Table, process_name, thread_name};
use crate::query::Columns;
use crate::query::columns::{Kind, UNFINISHED};
use crate::sched::fold::Utid;
use crate::sched::latency::{Latencies, Log2Histogram};
use crate::sched::summary::LatencyStats;
use crate::units;

/// One thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Who.
    pub utid: Utid,
    /// All its waits that ended in the window.
    pub all: LatencyStats,
    /// Those after being pushed off.
    pub preemption: LatencyStats,
    /// The row of the longest.
    pub worst: u32,
}

/// Threads that waited, the longest wait first, and the histogram of all waits.
pub fn rows(c: &Columns, picked: &Picked) -> (Vec<Row>, Log2Histogram) {
    let mut histogram = Log2Histogram::default();
    let (mut all, mut preemption) = (Latencies::default(), Latencies::default());
    let mut out = Vec::new();
    for utid in picked.threads() {
        all.clear();
        preemption.clear();
        let mut worst = (0, 0);
        for &row in c.states_by_utid().of(utid) {
            let kind = c.states.kind(row);
            if !matches!(kind, Kind::Runnable | Kind::Preempted) || !picked.has_cpu(c.states.cpu(row)) {
                continue;
            }
            let Some(ns) = picked.ended(c, row) else { continue };
            let start = c.states.ts(row);
            all.push(start, ns);
            histogram.push(ns, kind == Kind::Preempted);
            if kind == Kind::Preempted {
                preemption.push(start, ns);
            }
            if ns >= worst.1 {
                worst = (row, ns);
            }
        }
        let stats = all.stats();
        if stats.count > 0 {
            out.push(Row { utid, all: stats, preemption: preemption.stats(), worst: worst.0 });
        }
    }
    out.sort_by_key(|r| std::cmp::Reverse(r.all.max));
    (out, histogram)
}

/// Waits that had not ended when the window did: how many, and thread and length so far of the longest.
pub fn open_waits(c: &Columns, picked: &Picked) -> Option<(u64, Utid, u64)> {
    let mut found: Option<(u64, Utid, u64)> = None;
    for utid in picked.threads() {
        let last = c.states_by_utid().of(utid).iter().rev().find(|row| c.states.ts(**row) < picked.window.to);
        let Some(&row) = last.filter(|row| matches!(c.states.kind(**row), Kind::Runnable | Kind::Preempted)) else {
            continue;
        };
        // Of a thread that is gone for good nothing more is known.
        let gone = c.facts.threads.get(utid as usize).is_some_and(|t| t.end.is_some());
        let is_open = c.states.dur(row) == UNFINISHED && !gone && picked.has_cpu(c.states.cpu(row));
        if is_open {
            let so_far = picked.window.to.saturating_sub(c.states.ts(row));
            let (count, worst, longest) = found.unwrap_or((0, utid, 0));
            found = Some(if so_far > longest { (count + 1, utid, so_far) } else { (count + 1, worst, longest) });
        }
    }
    found
}

/// Why a thread was ready and did not run, in words.
pub fn cause(c: &Columns, row: u32) -> String {
    match (c.states.kind(row), c.states.preemptor(row), c.states.waker(row), c.states.from_interrupt(row)) {
        (Kind::Preempted, Some(by), ..) => format!("pushed off by {}", thread_name(c, by)),
        (Kind::Preempted, ..) => "pushed off".to_owned(),
        (_, _, _, Some(true)) => "woken by an interrupt".to_owned(),
        (_, _, Some(by), _) => format!("woken by {}", thread_name(c, by)),
        _ => "woken".to_owned(),
    }
}

/// For people: the threads, then the histogram.
pub fn tables(c: &Columns, picked: &Picked, limit: usize) -> Vec<Table> {
    let (rows, histogram) = rows(c, picked);
    let mut t = Table::new(
        "latency",
        "Run-queue latency (ready, not running), of waits that ended in the window",
        &[
            ("thread", "THREAD"),
            ("process", "PROCESS"),
            ("waits", "WAITS"),
            ("p50_ns", "P50"),
            ("p95_ns", "P95"),
            ("p99_ns", "P99"),
            ("max_ns", "MAX"),
            ("max_ts", "MAX BEGAN"),
            ("cause", "MAX BECAUSE"),
            ("total_ns", "TOTAL"),
            ("pushed_off", "PUSHED OFF"),
            ("pushed_off_ns", "FOR"),
        ],
    );
    for row in &rows {
        t.rows.push(vec![
            Cell::Text(thread_name(c, row.utid)),
            process_name(c, row.utid),
            Cell::Count(row.all.count),
            Cell::Ns(row.all.p50),
            Cell::Ns(row.all.p95),
            Cell::Ns(row.all.p99),
            Cell::Ns(row.all.max),
            Cell::Time(row.all.max_at),
            Cell::Text(cause(c, row.worst)),
            Cell::Ns(row.all.total),
            Cell::Count(row.preemption.count),
            Cell::Ns(row.preemption.total),
        ]);
    }
    t.cut(limit);
    if let Some((count, utid, so_far)) = open_waits(c, picked) {
        t.notes.push(format!(
            "{count} waits had not ended; the longest, of {}, lasts {} so far",
            thread_name(c, utid),
            units::show::span_exact(so_far)
        ));
    }
    let mut h = Table::new(
        "latency_histogram",
        "All these waits by length",
        &[("from_ns", "FROM"), ("to_ns", "TO"), ("waits", "WAITS"), ("pushed_off", "PUSHED OFF"), ("bar", "")],
    );
    let most = histogram.counts.iter().map(|c| c.0).max().unwrap_or(0).max(1);
    let first = histogram.counts.iter().position(|c| c.0 > 0).unwrap_or(0);
    for (n, (waits, pushed_off)) in histogram.counts.iter().enumerate().skip(first) {
        let bar = "▇".repeat((waits * 40).div_ceil(most) as usize);
        let from = if n == 0 { 0 } else { 1u64 << n };
        let to = 1u64.checked_shl(n as u32 + 1).unwrap_or(u64::MAX);
        h.rows.push(vec![Cell::Ns(from), Cell::Ns(to), Cell::Count(*waits), Cell::Count(*pushed_off), Cell::Text(bar)]);
    }
    let total: u64 = histogram.counts.iter().map(|c| c.0).sum();
    h.notes.push(format!("{} waits", units::show::grouped(total)));
    vec![t, h]
}
