//! Perfetto's own trace processor as a judge of our SQL: on one trace of tracebox's, and on stretches made by hand, both give
//! the same rows.
#![allow(clippy::unwrap_used)]

mod trace_processor_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use dashcam::perfetto::encode::{BundleBuilder, FullSwitch};
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

/// On a CPU whose idle thread's switches are not traced, our files say who ran from when it is first seen: to others as a
/// switch, so that they know it, too.
#[test]
fn what_stands_in_for_a_switch_tells_both_who_runs() {
    let comm = |text: &str| {
        let mut out = [0; 16];
        out[..text.len()].copy_from_slice(text.as_bytes());
        out
    };
    let (mut b, mut packets) = (BundleBuilder::new(), Vec::new());
    let first = FullSwitch {
        prev_comm: b"five",
        prev_pid: 5,
        prev_prio: 120,
        prev_state: 1,
        next_comm: b"swapper/0",
        next_pid: 0,
        next_prio: 120,
    };
    b.full_switch(1_000, 0, &first);
    // 7 is first seen when it wakes 8, and leaves; then it is seen when it leaves, and 8 comes.
    b.stand_in(2_000, 7, 98, &comm("seven"));
    b.waking(2_000, 8, 0, 120, &comm("eight"), 0);
    b.switch(3_000, 1, 0, 120, &comm("swapper/0"));
    b.stand_in(4_000, 7, 98, &comm("seven"));
    b.switch(4_000, 2, 8, 120, &comm("eight"));
    b.switch(5_000, 1, 0, 120, &comm("swapper/0"));
    b.finish(0, None, &mut packets);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stands-in.pftrace");
    std::fs::write(&file, packets).unwrap();
    let complaints = "SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0";
    let sched = "SELECT ts, dur, tid, end_state, priority FROM sched JOIN thread USING (utid) ORDER BY ts, dur";
    let seven = "SELECT ts, dur, state, w.tid, t.name FROM thread_state s JOIN thread t USING (utid) \
                 LEFT JOIN thread w ON w.utid = s.waker_utid WHERE t.tid IN (7, 8) ORDER BY t.tid, ts, dur";
    let theirs = ask(&file, &[complaints, sched, seven]);
    assert_eq!(theirs[0], [] as [[Value; 1]; 0]);
    let row = |text: &str| -> Vec<Value> { serde_json::from_str(text).unwrap() };
    let rows = |texts: &[&str]| -> Vec<Vec<Value>> { texts.iter().map(|text| row(text)).collect() };
    let told = [
        r#"[1000, 1000, 0, "R", 120]"#,
        r#"[2000, 1000, 7, "S", 98]"#,
        r#"[3000, 1000, 0, "R", 120]"#,
        r#"[4000, 0, 7, "D", 98]"#,
        r#"[4000, 1000, 8, "S", 120]"#,
        r#"[5000, -1, 0, null, 120]"#,
    ];
    assert_eq!(theirs[1], rows(&told));
    let states = [
        r#"[2000, 1000, "Running", null, "seven"]"#,
        r#"[3000, 1000, "S", null, "seven"]"#,
        r#"[4000, -1, "D", null, "seven"]"#,
        r#"[4000, 0, "Running", null, "seven"]"#,
        r#"[2000, 2000, "R", 7, "eight"]"#,
        r#"[4000, 1000, "Running", null, "eight"]"#,
        r#"[5000, -1, "S", null, "eight"]"#,
    ];
    assert_eq!(theirs[2], rows(&states));
    // For us idle ended nobody knows when, after the last event that shows it; and 7 ran for a time that nobody knows.
    let own = ours(sched, &file);
    let told = [
        r#"[1000, 0, 0, null, 120]"#,
        r#"[2000, 1000, 7, "S", null]"#,
        r#"[3000, 0, 0, null, 120]"#,
        r#"[4000, 1000, 8, "S", 120]"#,
        r#"[5000, -1, 0, null, 120]"#,
    ];
    assert_eq!(own, rows(&told));
}
