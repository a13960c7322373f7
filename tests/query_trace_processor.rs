//! Perfetto's own trace processor as a judge of our SQL: on one trace of tracebox's, and on stretches made by hand, both give
//! the same rows.
#![allow(clippy::unwrap_used)]

mod trace_processor_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trace_processor_support::{ask, plain};

/// What `dashcam query` prints, cell by cell.
fn ours(sql: &str, trace: &Path) -> Vec<Vec<Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = command.args(["query", "--format", "json", "-Q", sql]).arg(trace).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let row = |line: &str| -> Vec<Value> {
        let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        object.into_iter().map(|(_, value)| value).collect()
    };
    String::from_utf8(out.stdout).unwrap().lines().map(row).collect()
}

fn sorted(rows: &[Vec<Value>]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|r| Value::from(r.clone()).to_string()).collect();
    rows.sort();
    rows
}

const INCLUDE: &str = "INCLUDE PERFETTO MODULE intervals.intersect; INCLUDE PERFETTO MODULE intervals.overlap; \
    INCLUDE PERFETTO MODULE sched.states; INCLUDE PERFETTO MODULE sched.thread_level_parallelism; ";

/// Queries, and how many rows they give at least.
const QUERIES: [(&str, usize); 13] = [
    ("SELECT ts, dur, cpu, tid, end_state, priority FROM sched JOIN thread USING (utid)", 3000),
    ("SELECT tid, count(*), sum(dur) FROM sched JOIN thread USING (utid) WHERE dur > 0 GROUP BY tid", 50),
    (
        "SELECT ts, value FROM intervals_overlap_count!((SELECT ts, dur FROM sched WHERE dur > 0 AND utid != 0), ts, dur)",
        3000,
    ),
    (
        "SELECT ts, value, group_name FROM intervals_overlap_count_by_group!(\
         (SELECT ts, dur, cpu FROM sched WHERE dur > 0), ts, dur, cpu)",
        3000,
    ),
    ("SELECT * FROM sched_uninterruptible_sleep_thread_count", 400),
    ("SELECT sched_state_to_human_readable_string('R+'), sched_state_io_to_human_readable_string('D', 1)", 1),
    // Both CPUs at once; CPU by CPU; three tables.
    (
        "SELECT ts, dur FROM _interval_intersect!(((SELECT id, ts, dur FROM sched WHERE dur > 0 AND utid != 0 AND cpu = 0), \
         (SELECT id, ts, dur FROM sched WHERE dur > 0 AND utid != 0 AND cpu = 1)), ())",
        100,
    ),
    (
        "SELECT ts, dur, id_0 - id_1, cpu FROM _interval_intersect!((\
         (SELECT id, ts, dur, cpu FROM sched WHERE dur > 0 AND utid != 0), \
         (SELECT id, ts, dur, cpu FROM sched WHERE dur > 0 AND utid != 0)), (cpu))",
        1000,
    ),
    (
        "SELECT ts, dur FROM _interval_intersect!(((SELECT id, ts, dur FROM sched WHERE dur > 0 AND utid != 0 AND cpu = 0), \
         (SELECT id, ts, dur FROM sched WHERE dur > 0 AND utid != 0 AND cpu = 1), \
         (SELECT 0 AS id, trace_start() + 1000000000 AS ts, 500000000 AS dur)), ())",
        10,
    ),
    // By hand: what only touches, an instant within and at either end, groups of text.
    (
        "SELECT ts, dur, id_0, id_1 FROM _interval_intersect!(((SELECT 1 AS id, 10 AS ts, 10 AS dur UNION ALL SELECT 2, 30, 5), \
         (SELECT 7 AS id, 15 AS ts, 15 AS dur UNION ALL SELECT 8, 35, 1)), ())",
        1,
    ),
    (
        "SELECT ts, dur, id_0, id_1 FROM _interval_intersect!(((SELECT 1 AS id, 10 AS ts, 0 AS dur), \
         (SELECT 7 AS id, 5 AS ts, 20 AS dur)), ())",
        1,
    ),
    (
        "SELECT ts, dur, id_0, id_1 FROM _interval_intersect!(((SELECT 1 AS id, 25 AS ts, 0 AS dur), \
         (SELECT 7 AS id, 5 AS ts, 20 AS dur)), ())",
        0,
    ),
    (
        "WITH x AS (SELECT 1 AS id, 5 AS ts, 10 AS dur, 'k' AS k), y AS (SELECT 3 AS id, 7 AS ts, 1 AS dur, 'k' AS k \
         UNION ALL SELECT 4, 8, 1, 'j') SELECT ts, dur, id_0, id_1, k FROM _interval_intersect!((x, y), (k))",
        1,
    ),
];

#[test]
fn both_give_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let fixture =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/perfetto/training-like.pftrace.zst"));
    let trace = plain(&[fixture], &dir.path().join("trace.pftrace"));
    let scripts: Vec<String> = QUERIES.iter().map(|(sql, _)| format!("{INCLUDE}{sql}")).collect();
    let theirs = ask(&trace, &scripts.iter().map(String::as_str).collect::<Vec<_>>());
    for ((script, (sql, least)), theirs) in scripts.iter().zip(QUERIES).zip(&theirs) {
        assert!(theirs.len() >= least, "{sql}: {} rows", theirs.len());
        let own = ours(script, &trace);
        assert!(sorted(&own) == sorted(theirs), "{sql}: {} rows here, {} theirs", own.len(), theirs.len());
    }
}
