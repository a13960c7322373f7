#![allow(clippy::unwrap_used)]

use super::*;
use crate::names::{NameId, NameTable};
use crate::query::facts::{Facts, Thread};
use crate::query::{Builder, Keep};
use crate::sched::event::ThreadNow;
use crate::sched::fold::{Consumer, Folding, Interval, Sink};
use crate::sched::state::TaskState;
use crate::sched::summary::Window;
use rusqlite::types::Value::{Integer, Null, Text};

use crate::query::testing::columns;

fn engine() -> Engine {
    Engine::open(Arc::new(columns())).unwrap()
}

fn ask(sql: &str) -> Vec<Vec<Value>> {
    engine().answer(sql, None).unwrap().rows
}

fn text(t: &str) -> Value {
    Text(t.into())
}

fn error(sql: &str) -> String {
    engine().answer(sql, None).unwrap_err().to_string()
}

#[test]
fn case_27_the_unfinished_have_dur_minus_one_and_no_end_state() {
    assert_eq!(
        ask("SELECT id, ts, dur, cpu, utid, end_state, priority FROM sched WHERE utid = 1"),
        [
            vec![Integer(2), Integer(100), Integer(200), Integer(0), Integer(1), text("S"), Integer(120)],
            vec![Integer(4), Integer(700), Integer(-1), Integer(0), Integer(1), Null, Integer(120)],
        ]
    );
    assert_eq!(ask("SELECT count(*) FROM sched WHERE end_state = 'R+'"), [vec![Integer(1)]]);
}

#[test]
fn case_96_raw_sums_keep_the_minus_one_and_ours_are_clamped() {
    assert_eq!(ask("SELECT sum(dur) FROM sched WHERE utid = 1"), [vec![Integer(199)]]);
    assert_eq!(ask("SELECT sum(dur) FROM sched_clamped WHERE utid = 1"), [vec![Integer(190 + 300)]]);
    assert_eq!(ask("SELECT min(dur) >= 0 FROM thread_state_clamped"), [vec![Integer(1)]]);
}

#[test]
fn thread_states_have_wakers_functions_and_hide_the_idle_thread() {
    assert_eq!(
        ask(
            "SELECT ts, dur, cpu, state, io_wait, blocked_function, waker_utid, waker_id, irq_context FROM thread_state \
             WHERE utid = 3"
        ),
        [
            vec![Integer(50), Integer(100), Integer(1), text("Running"), Null, Null, Null, Null, Null],
            vec![
                Integer(150),
                Integer(300),
                Null,
                text("D"),
                Integer(1),
                text("jbd2_log_wait_commit"),
                Null,
                Null,
                Null
            ],
            vec![Integer(450), Integer(-1), Null, text("R"), Null, Null, Integer(0), Null, Integer(1)],
        ]
    );
    assert_eq!(ask("SELECT count(*) FROM thread_state WHERE utid = 0"), [vec![Integer(0)]]);
    assert_eq!(ask("SELECT state FROM thread_state WHERE ts = 700 ORDER BY state"), [[text("R+")], [text("Running")]]);
}

#[test]
fn waits_say_kind_preemptor_and_who_ended_them() {
    assert_eq!(
        ask("SELECT utid, kind, dur, waker_utid, irq_context, preemptor_utid, blocked_function FROM wait ORDER BY ts"),
        [
            vec![Integer(3), text("blocked"), Integer(300), Integer(0), Integer(1), Null, text("jbd2_log_wait_commit")],
            vec![Integer(1), text("blocked"), Integer(300), Integer(2), Integer(0), Null, Null],
            vec![Integer(3), text("wakeup"), Integer(-1), Integer(0), Integer(1), Null, Null],
            vec![Integer(1), text("wakeup"), Integer(100), Integer(2), Integer(0), Null, Null],
            vec![Integer(2), text("preempted"), Integer(-1), Null, Null, Integer(1), Null],
        ]
    );
}

/// Rows by every plan equal those of a plain scan of a copy.
#[test]
fn pushed_down_constraints_change_nothing() {
    let mut engine = engine();
    engine
        .run(
            "CREATE TABLE copied AS SELECT *, upid FROM sched; CREATE TABLE states AS SELECT *, upid FROM thread_state",
            &mut Answer::default(),
        )
        .unwrap();
    for (table, copy) in [("sched", "copied"), ("thread_state", "states")] {
        for filter in [
            "utid = 1",
            "utid = 99",
            "utid = -1",
            "utid = '1'",
            "utid = 1.0",
            "utid = 1.5",
            "utid = NULL",
            "utid IN (3, 1)",
            "cpu = 0",
            "cpu = 0 AND utid = 1",
            "upid = 1",
            "upid = 2 AND ts >= 300",
            "upid IS NULL",
            "ts = 300",
            "ts = 300.0",
            "ts = '300'",
            "ts > 300",
            "ts >= 300",
            "ts < 300",
            "ts <= 300",
            "ts BETWEEN 100 AND 300",
            "ts > 99.5 AND ts < 300.5",
            "ts > 'x'",
            "ts > -5",
            "ts < -5",
            "id = 3",
            "id = 99",
            "id IN (1, 4)",
            "rowid = 2",
            "ts = 300 AND utid = 2",
            "id = 4 AND ts < 10",
        ] {
            for order in [
                "",
                "ORDER BY ts",
                "ORDER BY ts DESC",
                "ORDER BY ts DESC, id DESC",
                "ORDER BY utid",
                "ORDER BY utid, ts",
                "ORDER BY id DESC",
            ] {
                let sql = |from: &str| format!("SELECT id, ts, dur, utid, upid FROM {from} WHERE {filter} {order}");
                let copy = sql(copy).replace("rowid", "id");
                let (mut a, mut b) =
                    (engine.answer(&sql(table), None).unwrap().rows, engine.answer(&copy, None).unwrap().rows);
                let keys = |rows: &[Vec<Value>]| {
                    let column = |n: usize| rows.iter().map(|r| format!("{:?}", r[n])).collect::<Vec<_>>();
                    match order {
                        "" => Vec::new(),
                        o if o.starts_with("ORDER BY utid") => column(3),
                        o if o.starts_with("ORDER BY id") => column(0),
                        _ => column(1),
                    }
                };
                assert_eq!(keys(&a), keys(&b), "{}", sql(table));
                a.sort_by_key(|r| format!("{r:?}"));
                b.sort_by_key(|r| format!("{r:?}"));
                assert_eq!(a, b, "{}", sql(table));
            }
        }
    }
}

#[test]
fn group_by_utid_needs_no_sorting() {
    let plan = ask("EXPLAIN QUERY PLAN SELECT utid, SUM(dur) FROM sched GROUP BY utid");
    assert!(!format!("{plan:?}").contains("TEMP B-TREE"), "{plan:?}");
    assert_eq!(
        ask("SELECT utid, SUM(dur) FROM sched GROUP BY utid"),
        [[0, 100], [1, 199], [2, 400], [3, 100]].map(|r| r.map(Integer).to_vec())
    );
    let plan = ask("EXPLAIN QUERY PLAN SELECT * FROM sched WHERE cpu = 0 ORDER BY ts DESC");
    assert!(!format!("{plan:?}").contains("TEMP B-TREE"), "{plan:?}");
}

/// The three templates of the seed article, as they stand there.
#[test]
fn the_templates_of_the_article_run_unmodified() {
    assert_eq!(
        ask(
            "SELECT t.name AS thread_name, p.name AS process_name, SUM(s.dur) / 1000000 AS running_ms FROM sched s JOIN thread t ON s.utid = t.utid LEFT JOIN process p ON t.upid = p.upid WHERE t.name GLOB '*DataLoader*' GROUP BY t.utid ORDER BY running_ms DESC;"
        ),
        [vec![text("pt_DataLoader:0"), text("train.py"), Integer(0)]]
    );
    assert_eq!(
        ask("SELECT t.name AS thread_name, COUNT(DISTINCT s.id) AS io_wait_count, SUM(CASE WHEN s.thread_state = 'D' THEN 1 ELSE 0 END) AS uninterruptible_count FROM sched s JOIN thread t ON s.utid = t.utid GROUP BY t.utid ORDER BY io_wait_count DESC LIMIT 20;")
            .iter()
            .find(|r| r[0] == text("ckpt"))
            .unwrap(),
        &vec![text("ckpt"), Integer(1), Integer(1)]
    );
    assert_eq!(
        ask(
            "SELECT p.name AS process_name, SUM(s.dur) / 1e9 AS total_running_sec FROM sched s JOIN process p ON s.upid = p.upid GROUP BY s.upid ORDER BY total_running_sec DESC;"
        ),
        [
            vec![text("logship"), Value::Real(400.0 / 1e9)],
            vec![text("train.py"), Value::Real(299.0 / 1e9)],
            vec![Null, Value::Real(100.0 / 1e9)],
        ]
    );
    // What the article asks trace_processor_shell.
    assert_eq!(
        ask("SELECT utid, SUM(dur) AS total_running FROM sched GROUP BY utid ORDER BY total_running DESC LIMIT 10")[0],
        [Integer(2), Integer(400)]
    );
}

#[test]
fn markers_nest_and_plain_text_is_an_instant() {
    assert_eq!(
        ask(
            "SELECT s.ts, s.dur, s.name, s.depth, s.parent_id, t.tid FROM slice s JOIN thread_track k ON k.id = s.track_id \
             JOIN thread t USING (utid)"
        ),
        [
            vec![Integer(110), Integer(180), text("step 1"), Integer(0), Null, Integer(11)],
            vec![Integer(200), Integer(50), text("wait"), Integer(1), Integer(0), Integer(11)],
            vec![Integer(900), Integer(0), text("hello"), Integer(0), Null, Integer(11)],
        ]
    );
    assert_eq!(ask("SELECT name FROM instant"), [[text("hello")]]);
}

#[test]
fn raw_events_have_their_fields_as_args() {
    let sql = "SELECT e.name, a.key, a.display_value FROM ftrace_event e JOIN args a USING (arg_set_id) \
               WHERE e.name = 'sched_switch'";
    let rows: Vec<String> = ask(sql).iter().map(|r| format!("{:?}={:?}", r[1], r[2])).collect();
    assert_eq!(rows.len(), 7);
    assert!(rows.contains(&r#"Text("prev_comm")=Text("pt_DataLoader:0")"#.to_owned()), "{rows:?}");
    assert_eq!(
        ask(
            "SELECT extract_arg(arg_set_id, 'next_prio'), extract_arg(arg_set_id, 'nope') FROM ftrace_event WHERE name = 'sched_switch'"
        ),
        [[Integer(119), Null]]
    );
}

#[test]
fn case_99_loss_is_in_stats_with_its_severity_and_its_number_or_unknown() {
    assert_eq!(
        ask("SELECT name, idx, value FROM stats WHERE severity = 'data_loss' AND value > 0 ORDER BY idx, name"),
        [
            vec![text("dashcam_loss_of_unknown_number"), Integer(0), Integer(1)],
            vec![text("ftrace_cpu_has_data_loss"), Integer(0), Integer(1)],
            vec![text("ftrace_cpu_has_data_loss"), Integer(1), Integer(1)],
            vec![text("ftrace_cpu_overrun_delta"), Integer(1), Integer(12)],
        ]
    );
    assert_eq!(
        ask("SELECT cpu, ts, dur, count FROM loss ORDER BY cpu"),
        [vec![Integer(0), Null, Null, Null], vec![Integer(1), Integer(460), Integer(20), Integer(12)]]
    );
}

#[test]
fn perfetto_sql_functions_macros_tables_and_modules() {
    assert_eq!(
        ask("CREATE PERFETTO FUNCTION twice(x LONG) RETURNS LONG AS SELECT $x * 2;
             CREATE PERFETTO MACRO long_ones(t TableOrSubquery, n Expr) RETURNS TableOrSubquery AS (SELECT * FROM $t WHERE dur > $n);
             CREATE OR REPLACE PERFETTO TABLE top(utid LONG, d LONG) AS SELECT utid, twice(sum(dur)) AS d FROM long_ones!(sched, 150) GROUP BY utid;
             CREATE PERFETTO VIEW v AS SELECT * FROM top;
             SELECT * FROM v ORDER BY d"),
        [[Integer(1), Integer(400)], [Integer(2), Integer(800)]]
    );
    assert_eq!(
        ask("CREATE PERFETTO FUNCTION of_thread(u LONG) RETURNS TABLE(ts LONG, dur LONG) AS SELECT ts, dur FROM sched WHERE utid = $u;
             SELECT t.tid, f.ts FROM thread t JOIN of_thread(t.utid) f WHERE t.tid IN (12, 13) ORDER BY f.ts"),
        [[Integer(13), Integer(50)], [Integer(12), Integer(300)]]
    );
    assert_eq!(
        ask(
            "INCLUDE PERFETTO MODULE sched.states; SELECT sched_state_io_to_human_readable_string('D', 1), sched_state_to_human_readable_string('??')"
        ),
        [[text("Uninterruptible Sleep (IO)"), text("??")]]
    );
    assert_eq!(
        ask(
            "INCLUDE PERFETTO MODULE sched.*; INCLUDE PERFETTO MODULE sched.latency; SELECT utid, latency_dur FROM sched_latency_for_running_interval"
        ),
        Vec::<Vec<Value>>::new(),
        "the only run after a wait has not ended"
    );
    assert_eq!(
        ask(
            "INCLUDE PERFETTO MODULE sched.time_in_state; SELECT state, dur FROM sched_time_in_state_for_thread_in_interval(200, 500, 1)"
        ),
        [[text("S"), Integer(300)], [text("R"), Integer(100)], [text("Running"), Integer(100)]]
    );
}

#[test]
fn interval_modules_count_overlaps_and_cut() {
    const SPANS: &str = "(SELECT 7 AS id, 10 AS ts, 20 AS dur, 'a' AS g UNION ALL SELECT 8, 20, 20, 'a' UNION ALL SELECT 9, 40, 5, 'b')";
    let rows = |sql: &str| ask(&format!("INCLUDE PERFETTO MODULE intervals.*; {sql}"));
    // 10..30 and 20..40 overlap from 20 to 30; 40..45 follows at once.
    let two = |list: &[(i64, i64)]| list.iter().map(|(a, b)| vec![Integer(*a), Integer(*b)]).collect::<Vec<_>>();
    assert_eq!(
        rows(&format!("SELECT * FROM intervals_overlap_count!({SPANS}, ts, dur)")),
        two(&[(10, 1), (20, 2), (30, 1), (40, 1), (45, 0)])
    );
    assert_eq!(
        rows(&format!(
            "SELECT ts, value FROM intervals_overlap_count_by_group!({SPANS}, ts, dur, g) WHERE group_name = 'a'"
        )),
        two(&[(10, 1), (20, 2), (30, 1), (40, 0)])
    );
    assert_eq!(rows(&format!("SELECT _intervals_overlap_in_table!({SPANS})")), [[Integer(1)]]);
    assert_eq!(
        rows("SELECT _intervals_overlap_in_table!((SELECT 0 AS ts, 5 AS dur UNION ALL SELECT 5, 5))"),
        [[Integer(0)]]
    );
    assert_eq!(
        rows(&format!("SELECT id, ts, dur FROM _interval_intersect_single!(25, 16, {SPANS}) ORDER BY id")),
        [[7, 25, 5], [8, 25, 15], [9, 40, 1]].map(|r| r.map(Integer).to_vec())
    );
}

#[test]
fn modules_all_load() {
    for module in modules::MODULES {
        engine().answer(&format!("INCLUDE PERFETTO MODULE {}; SELECT 1", module.name), None).unwrap();
    }
}

#[test]
fn span_join_of_markers_and_states() {
    let sql = "CREATE PERFETTO VIEW m AS SELECT s.ts, s.dur, s.name, k.utid FROM slice s JOIN thread_track k ON k.id = s.track_id WHERE depth = 0;
        CREATE PERFETTO VIEW st AS SELECT ts, dur, state, utid FROM thread_state;
        CREATE VIRTUAL TABLE sp USING SPAN_JOIN(m PARTITIONED utid, st PARTITIONED utid);
        SELECT ts, dur, utid, name, state FROM sp";
    assert_eq!(ask(sql), [vec![Integer(110), Integer(180), Integer(1), text("step 1"), text("Running")]]);
    let views =
        "CREATE VIEW a AS SELECT ts, dur, id FROM thread_state; CREATE VIEW b AS SELECT ts, dur, cpu FROM sched;";
    let e = error(&format!("{views} CREATE VIRTUAL TABLE sp USING span_join(a, b); SELECT * FROM sp"));
    assert!(e.contains("overlap"), "{e}");
    let e = error("CREATE VIRTUAL TABLE sp USING span_join(sched, thread_state)");
    assert!(e.contains("both sides have a column id"), "{e}");
    assert!(error("CREATE VIRTUAL TABLE sp USING span_join(thread, sched)").contains("thread has no column ts"));
}

#[test]
fn functions_of_time_text_and_statistics() {
    assert_eq!(
        ask(
            "SELECT time_from_ms(2.5), TIME_FROM_S(1), time_to_us(1500), str_split('a:b:c', ':', 1), str_split('a', ':', 3)"
        ),
        [vec![Integer(2_500_000), Integer(1_000_000_000), Integer(1), text("b"), Null]]
    );
    // 100, 200, 400: the median is 200; the 75th percentile lies half-way from 200 to 400.
    assert_eq!(
        ask(
            "SELECT percentile(dur, 50), median(dur), percentile(dur, 75) FROM sched WHERE dur IN (100, 200, 400) AND utid != 0"
        ),
        [[200.0, 200.0, 300.0].map(Value::Real).to_vec()]
    );
    assert_eq!(
        ask("SELECT trace_start(), trace_end(), trace_dur(), start_ts, end_ts FROM trace_bounds"),
        [[110, 1000, 890, 110, 1000].map(Integer).to_vec()]
    );
    assert!(error("SELECT percentile(dur, 101) FROM sched").contains("between 0 and 100"));
}

#[test]
fn errors_show_the_place_and_what_might_mend_it() {
    let e = error("SELECT 1;\nSELECT utid, nme FROM thread");
    assert!(e.contains("no such column: nme (line 2, column 14)"), "{e}");
    assert!(e.contains("Did you mean name?"), "{e}");
    let e = error("SELECT * FROM schd");
    assert!(e.contains("no such table: schd (line 1, column 15)") && e.contains("Did you mean sched?"), "{e}");
    let e = error("SELECT * FROM sched_with_thread_process");
    assert!(e.contains("INCLUDE PERFETTO MODULE sched.with_context"), "{e}");
    let e = error("INCLUDE PERFETTO MODULE android.binder; SELECT 1");
    assert!(e.contains("the Perfetto module android.binder (line 1, column 25)") && e.contains("sched.states"), "{e}");
    let e = error("SELECT FROM sched");
    assert!(e.contains("near \"FROM\": syntax error (line 1, column 8)"), "{e}");
    let e = error("CREATE PERFETTO MACRO m(x Expr) RETURNS Expr AS $x + nope; SELECT m!(1) FROM sched");
    assert!(e.contains("no such column: nope (line 1, column 67)"), "{e}");
}

#[test]
fn endless_queries_stop_and_endless_recursion_is_an_error() {
    let mut engine = engine();
    engine.on_progress(1000, || true);
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    assert!(matches!(engine.answer(endless, None), Err(QueryError::Interrupted)));
    let e = error(
        "CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT 1; CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT f($x); SELECT f(1)",
    );
    assert!(e.contains("deep"), "{e}");
}

#[test]
fn a_window_hides_what_lies_outside_of_it() {
    let mut columns = columns();
    columns.ask(Window { from: 300, to: 600 });
    let mut engine = Engine::open(Arc::new(columns)).unwrap();
    let mut ids = |sql: &str| engine.answer(sql, None).unwrap().rows.concat();
    assert_eq!(ids("SELECT id FROM sched"), [Integer(3)], "300..700 touches it; 100..300 ends as it begins");
    assert_eq!(ids("SELECT sum(dur) FROM sched_clamped"), [Integer(300)]);
    assert_eq!(ids("SELECT utid FROM thread_state ORDER BY utid"), [1, 2, 3, 3].map(Integer));
}

#[test]
fn rows_of_a_state_block_that_begin_earlier_are_put_into_place() {
    let mut b = Builder::new(Keep::Nothing);
    let base = Interval {
        row: 0,
        utid: 1,
        start: 0,
        end: Some(1),
        end_known: true,
        state: ThreadNow::Running,
        left: TaskState::RUNNABLE,
        cpu: Some(0),
        prio: Some(1),
        slice: Some(0),
        end_state: None,
        waker: None,
        from_interrupt: None,
        preemptor: None,
        io_wait: None,
        function: NameId::EMPTY,
    };
    for (row, start, slice) in [(0, 50, 0), (1, 10, 1), (2, 30, 2), (3, 60, 3), (4, 55, 4), (5, 70, 5)] {
        b.interval(&Interval { row, start, end: Some(start + 1), slice: Some(slice), ..base });
    }
    let waker = Some((1, Some(0)));
    b.interval(&Interval { row: 6, start: 80, end: Some(90), state: ThreadNow::Runnable, slice: None, waker, ..base });
    let threads = vec![Thread::default(); 2];
    let columns = b.finish(NameTable::new(), Facts { threads, ..Facts::default() }, None);
    let mut engine = Engine::open(Arc::new(columns)).unwrap();
    let ts = engine.answer("SELECT ts FROM sched ORDER BY id", None).unwrap().rows.concat();
    assert_eq!(ts, [10, 30, 50, 55, 60, 70].map(Integer));
    let ts = engine.answer("SELECT ts FROM thread_state WHERE ts >= 30 AND ts < 60", None).unwrap().rows.concat();
    assert_eq!(ts, [30, 50, 55].map(Integer));
    let waker = "SELECT w.ts FROM thread_state s JOIN thread_state w ON w.id = s.waker_id";
    assert_eq!(engine.answer(waker, None).unwrap().rows.concat(), [Integer(50)], "the waker's row moved");
}

#[test]
fn no_data_at_all_is_no_error() {
    let columns = Folding::new(Builder::new(Keep::Everything));
    let columns = {
        let mut f = columns;
        f.end();
        f.sink.finish(NameTable::new(), Facts::default(), None)
    };
    let mut engine = Engine::open(Arc::new(columns)).unwrap();
    for (name, _) in engine.tables().unwrap() {
        engine.answer(&format!("SELECT * FROM {name}"), None).unwrap();
    }
}

#[test]
fn a_question_writes_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evil.db");
    for sql in
        [format!("ATTACH '{0}' AS e; CREATE TABLE e.t(a)", path.display()), format!("VACUUM INTO '{}'", path.display())]
    {
        let error = engine().answer(&sql, None).unwrap_err().to_string();
        assert!(error.contains("authoriz"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn every_ready_query_runs() {
    for q in crate::query::library::QUERIES {
        if let Err(e) = engine().answer(q.sql, None) {
            panic!("{}: {e}", q.name);
        }
    }
}
