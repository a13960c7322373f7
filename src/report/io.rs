//! How long block requests took, per device and kind.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::pick::Picked;
use super::table::{Cell, Table};
use crate::names::NameId;
use crate::query::Columns;
use crate::sched::event::{BlockStage, EventKind};
use crate::sched::latency::Latencies;
use crate::sched::summary::LatencyStats;

/// Requests of one kind on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// dev_t, kernel encoding (major << 20 | minor).
    pub dev: u64,
    /// Flags such as "WS", as text made safe.
    pub rwbs: String,
    /// Issue to completion.
    pub service: LatencyStats,
    /// Insertion to issue, of those that went through a queue.
    pub queued: LatencyStats,
    /// Bytes of the finished ones.
    pub bytes: u64,
    /// Finished with an error.
    pub errors: u64,
    /// Issued and not finished when the data ended.
    pub open: u64,
}

#[derive(Default)]
struct Gathered {
    service: Latencies,
    queued: Latencies,
    bytes: u64,
    errors: u64,
    open: u64,
}

/// By device, then the most frequent kind first. Needs the raw block events.
pub fn rows(c: &Columns, picked: &Picked) -> Vec<Row> {
    let mut inserted: FxHashMap<(u64, u64), u64> = FxHashMap::default();
    let mut issued: FxHashMap<(u64, u64), (u64, NameId, u32)> = FxHashMap::default();
    let mut found: BTreeMap<(u64, NameId), Gathered> = BTreeMap::new();
    for (event, emitter) in &c.events {
        let EventKind::Block(r) = event.kind else { continue };
        let key = (r.dev, r.sector);
        let asked = picked.all || emitter.is_some_and(|utid| picked.has(utid));
        match r.stage {
            BlockStage::Insert if asked => drop(inserted.insert(key, event.ts)),
            BlockStage::Issue if asked => {
                let entry = found.entry((r.dev, r.rwbs)).or_default();
                if let Some(since) = inserted.remove(&key) {
                    entry.queued.push(since, event.ts.saturating_sub(since));
                }
                issued.insert(key, (event.ts, r.rwbs, r.sectors));
            }
            BlockStage::Complete => {
                if let Some((since, rwbs, sectors)) = issued.remove(&key) {
                    let entry = found.entry((r.dev, rwbs)).or_default();
                    entry.service.push(since, event.ts.saturating_sub(since));
                    entry.bytes += u64::from(sectors) * 512;
                    entry.errors += u64::from(r.error != 0);
                }
            }
            BlockStage::Insert | BlockStage::Issue => {}
        }
    }
    for ((dev, _), (_, rwbs, _)) in issued {
        found.entry((dev, rwbs)).or_default().open += 1;
    }
    let mut out: Vec<Row> = found
        .into_iter()
        .map(|((dev, rwbs), mut g)| Row {
            dev,
            rwbs: c.names.text(rwbs),
            service: g.service.stats(),
            queued: g.queued.stats(),
            bytes: g.bytes,
            errors: g.errors,
            open: g.open,
        })
        .collect();
    out.sort_by_key(|r| (r.dev, std::cmp::Reverse(r.service.count)));
    out
}

/// For people.
pub fn table(rows: &[Row], limit: usize) -> Table {
    let mut t = Table::new(
        "io",
        "Block requests, from issue to completion",
        &[
            ("device", "DEVICE"),
            ("kind", "KIND"),
            ("requests", "DONE"),
            ("bytes", "BYTES"),
            ("p50_ns", "P50"),
            ("p95_ns", "P95"),
            ("p99_ns", "P99"),
            ("max_ns", "MAX"),
            ("max_ts", "MAX BEGAN"),
            ("queued_p99_ns", "QUEUED P99"),
            ("errors", "ERRORS"),
            ("open", "OPEN"),
        ],
    );
    for r in rows {
        let done = r.service.count > 0;
        let known = |cell| if done { cell } else { Cell::Unknown };
        t.rows.push(vec![
            Cell::Text(format!("{}:{}", r.dev >> 20, r.dev & 0xf_ffff)),
            Cell::Text(r.rwbs.clone()),
            Cell::Count(r.service.count),
            Cell::Count(r.bytes),
            known(Cell::Ns(r.service.p50)),
            known(Cell::Ns(r.service.p95)),
            known(Cell::Ns(r.service.p99)),
            known(Cell::Ns(r.service.max)),
            known(Cell::Time(r.service.max_at)),
            if r.queued.count > 0 { Cell::Ns(r.queued.p99) } else { Cell::Unknown },
            Cell::Count(r.errors),
            Cell::Count(r.open),
        ]);
    }
    if rows.is_empty() {
        t.notes.push("no block events: record the category io (events of group block)".into());
    }
    t.cut(limit);
    t
}
