//! A script is first run on no data: its mistakes show before hours of recording are read, and so does what it needs.
//!
//! Statements that make tables, views and functions are carried out, so that later ones find them; those that give rows
//! are only prepared. What SQLite says it would read decides what is kept while loading.

use std::sync::{Arc, Mutex};

use super::columns::Columns;
use super::engine::{Answer, Engine, Reads};
use super::error::QueryError;
use super::load::Kept;
use super::reach::{Reach, Rows};
use super::{Keep, functions};

/// Steps of SQLite's machine between two looks at the budget.
const STEPS: i32 = 1000;
/// Looks until a rehearsal is given up: some tens of milliseconds. A `CREATE TABLE` may count to a billion.
const LOOKS: u32 = 2000;

/// Tables whose rows of a stretch of time are the same whether more is read or not, and those that do not depend on what is
/// read, as long as the lives of all threads are known from the ends of segments.
const OF_A_STRETCH: [&str; 9] =
    ["sched", "sched_slice", "thread_state", "wait", "thread", "process", "cgroup", "segment", "snapshot"];

/// Columns that number rows in the order in which they were read.
const ROW_NUMBERS: [&str; 5] = ["sched.id", "sched_slice.id", "thread_state.id", "thread_state.waker_id", "wait.id"];

/// What a script needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// What of everything that is read has to be kept.
    pub kept: Kept,
    /// The rows that are asked for, if they lie in a known stretch of time and nothing else is asked for.
    pub rows: Option<Rows>,
    /// Rows are asked for their numbers.
    pub numbers: bool,
    /// Nothing of what was recorded is asked for: nothing has to be read.
    pub nothing: bool,
}

impl Needs {
    /// Everything there is.
    pub const ALL: Needs = Needs { kept: Kept::ALL, rows: None, numbers: true, nothing: false };
}

/// What has to be loaded for `script`.
///
/// # Errors
/// See [`Rehearsal::run`].
pub fn rehearse(script: &str) -> Result<Needs, QueryError> {
    let mut rehearsal = Rehearsal::new()?;
    rehearsal.run(script)?;
    Ok(rehearsal.needs())
}

/// Scripts that will run one after the other on one engine.
pub struct Rehearsal {
    engine: Engine,
    /// There is nothing in them; planners note in them what they are asked for.
    columns: Arc<Columns>,
    reads: Arc<Mutex<Reads>>,
    /// Tables that are there before any script is run.
    base_tables: Vec<String>,
    /// Something could not be judged without data.
    unsure: bool,
}

impl Rehearsal {
    /// Nothing was run yet.
    pub fn new() -> Result<Rehearsal, QueryError> {
        let mut columns = Columns::default();
        columns.rehearsed = Some(Reach::default());
        let columns = Arc::new(columns);
        let mut engine = Engine::open(Arc::clone(&columns))?;
        let base_tables = engine.base_tables()?;
        let reads = Arc::new(Mutex::new(Reads::default()));
        engine.note_reads(Arc::clone(&reads));
        engine.rehearses = true;
        Ok(Rehearsal { engine, columns, reads, base_tables, unsure: false })
    }

    /// Runs one.
    ///
    /// # Errors
    /// What is wrong with the script whatever the data: syntax, unknown tables, columns, functions, modules.
    pub fn run(&mut self, script: &str) -> Result<(), QueryError> {
        if self.unsure {
            return Ok(());
        }
        let mut looks = 0;
        self.engine.on_progress(STEPS, move || {
            looks += 1;
            looks > LOOKS
        });
        match self.engine.run(script, &mut Answer::default()) {
            Err(QueryError::Interrupted) => self.unsure = true,
            other => return other,
        }
        Ok(())
    }

    /// What has to be loaded for all of them.
    pub fn needs(&self) -> Needs {
        match self.reads.lock() {
            Ok(reads) if !self.unsure => {
                let numbers = ROW_NUMBERS.iter().any(|column| reads.columns.contains(*column));
                Needs { kept: kept(&reads), rows: self.rows(&reads), numbers, nothing: self.nothing(&reads) }
            }
            _ => Needs::ALL,
        }
    }

    /// True if no table that holds rows is read, not even through a function, and none is asked for what all was.
    fn nothing(&self, reads: &Reads) -> bool {
        let defines = reads.defines || self.engine.defines_functions;
        let reads_rows = self.base_tables.iter().any(|table| reads.tables.contains(table));
        !(defines || reads_rows || calls(reads, &functions::OF_ALL))
    }

    /// The rows that are asked for, unless something else is that depends on all that was recorded.
    fn rows(&self, reads: &Reads) -> Option<Rows> {
        let of_all = |table: &String| reads.tables.contains(table) && !OF_A_STRETCH.contains(&table.as_str());
        let defines = reads.defines || self.engine.defines_functions;
        if defines || self.base_tables.iter().any(of_all) || calls(reads, &functions::OF_ALL) {
            return None;
        }
        self.columns.rehearsed.as_ref()?.rows()
    }
}

fn calls(reads: &Reads, functions: &[&str]) -> bool {
    functions.iter().any(|f| reads.functions.contains(*f))
}

fn kept(reads: &Reads) -> Kept {
    let any = |names: &[&str]| names.iter().any(|n| reads.tables.contains(*n));
    let raw = any(&["ftrace_event", "args"]) || calls(reads, &[functions::EXTRACT_ARG]);
    Kept { events: if raw { Keep::Everything } else { Keep::Nothing }, only_running: !any(&["thread_state", "wait"]) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sched::summary::Window;

    const SCHED_ALONE: Kept = Kept { events: Keep::Nothing, only_running: true };

    #[test]
    fn what_is_read_decides_what_is_kept() {
        let states = Kept { only_running: false, ..SCHED_ALONE };
        for (script, kept) in [
            ("SELECT utid, SUM(dur) FROM sched GROUP BY utid", SCHED_ALONE),
            ("SELECT 'thread_state', 'ftrace_event' FROM sched -- args, wait", SCHED_ALONE),
            ("SELECT count(*) FROM sched_clamped JOIN thread USING (utid)", SCHED_ALONE),
            ("SELECT count(*) FROM Thread_State", states),
            ("SELECT 1 WHERE EXISTS (SELECT 1 FROM wait WHERE dur > 5)", states),
            // Through a view, a table, a function, a module, a span join.
            ("SELECT * FROM thread_state_clamped", states),
            ("CREATE PERFETTO TABLE t AS SELECT ts, dur, utid FROM thread_state; SELECT * FROM t", states),
            ("CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT max(dur) FROM thread_state; SELECT f()", states),
            ("INCLUDE PERFETTO MODULE sched.runnable; SELECT 1", states),
            (
                "CREATE VIEW a AS SELECT ts, dur, utid FROM sched; CREATE VIEW b AS SELECT ts, dur, utid, state FROM thread_state; \
                 CREATE VIRTUAL TABLE x USING SPAN_JOIN(a PARTITIONED utid, b PARTITIONED utid); SELECT * FROM x",
                states,
            ),
            ("select EXTRACT_ARG(arg_set_id, 'x') from slice", Kept { events: Keep::Everything, ..SCHED_ALONE }),
            ("SELECT name FROM raw", Kept { events: Keep::Everything, ..SCHED_ALONE }),
        ] {
            assert_eq!(rehearse(script).unwrap().kept, kept, "{script}");
        }
    }

    #[test]
    fn bounds_of_all_tables_together_are_what_has_to_be_read() {
        let rows = |from, to, utids: &[u32]| {
            let utids = (!utids.is_empty()).then(|| utids.to_vec());
            Some(Rows { window: Window { from, to }, utids })
        };
        const END: u64 = u64::MAX;
        for (script, expected) in [
            ("SELECT * FROM sched WHERE utid = 7 AND ts BETWEEN 1000 AND 2000", rows(1000, 2001, &[7])),
            ("SELECT dur FROM sched_slice WHERE ts >= 1000 AND ts < 2000 AND cpu = 1", rows(1000, 2000, &[])),
            ("SELECT dur FROM thread_state WHERE ts > 999 AND upid = 3", rows(1000, END, &[])),
            ("SELECT dur FROM wait WHERE ts <= 2000.5", rows(0, 4048, &[])),
            ("SELECT dur FROM sched WHERE ts = 5000", rows(5000, 5001, &[])),
            (
                "SELECT t.name, s.dur FROM sched s JOIN thread t USING (utid) WHERE s.ts BETWEEN 10 AND 20 AND t.name GLOB 'x*'",
                rows(10, 21, &[]),
            ),
            // Of several tables and statements everything between the first and the last.
            (
                "SELECT 1 FROM sched WHERE ts BETWEEN 10 AND 20 AND utid = 1; SELECT 1 FROM thread_state WHERE ts BETWEEN 50 AND 60 AND utid = 2",
                rows(10, 61, &[1, 2]),
            ),
            (
                "SELECT 1 FROM sched a JOIN sched b USING (utid) WHERE a.ts < 30 AND b.ts BETWEEN 20 AND 40",
                rows(0, 41, &[]),
            ),
            ("WITH w AS (SELECT * FROM sched WHERE ts BETWEEN 10 AND 20) SELECT max(dur) FROM w", rows(10, 21, &[])),
            (
                "CREATE VIEW v AS SELECT ts, dur FROM sched; SELECT * FROM v WHERE ts BETWEEN 10 AND 20",
                rows(10, 21, &[]),
            ),
            (
                "CREATE PERFETTO TABLE t AS SELECT * FROM sched WHERE ts BETWEEN 10 AND 20; SELECT * FROM t",
                rows(10, 21, &[]),
            ),
            // One of them has no bound, or none that is a number.
            ("SELECT * FROM sched", None),
            ("SELECT * FROM sched WHERE utid = 7", None),
            ("SELECT * FROM sched WHERE ts BETWEEN 10 AND 20 OR utid = 7", None),
            ("SELECT * FROM sched WHERE ts > (SELECT min(start_ts) FROM thread)", None),
            ("SELECT * FROM sched WHERE ts + dur > 10", None),
            ("SELECT 1 FROM sched a JOIN sched b USING (utid) WHERE a.ts BETWEEN 10 AND 20", None),
            ("SELECT 1 FROM sched WHERE ts < 20; SELECT count(*) FROM sched", None),
            ("SELECT * FROM (SELECT ts, lead(ts) OVER (ORDER BY ts) AS n FROM sched) WHERE ts BETWEEN 10 AND 20", None),
            ("SELECT * FROM thread LEFT JOIN sched USING (utid) WHERE sched.ts IS NULL OR sched.ts < 20", None),
            // What else is asked for depends on all that was recorded.
            ("SELECT start_ts, (SELECT count(*) FROM sched WHERE ts < 20) FROM trace_bounds", None),
            ("SELECT trace_start() FROM sched WHERE ts < 20", None),
            ("SELECT to_realtime(ts) FROM sched WHERE ts < 20", None),
            ("SELECT 1 FROM sched, slice WHERE sched.ts < 20 AND slice.ts < 20", None),
            ("SELECT * FROM stats, sched WHERE ts < 20", None),
            (
                "CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT max(dur) FROM sched; SELECT f() FROM sched WHERE ts < 20",
                None,
            ),
            ("SELECT count(*) FROM thread", None),
        ] {
            assert_eq!(rehearse(script).unwrap().rows, expected, "{script}");
        }
    }

    #[test]
    fn rows_asked_for_their_numbers_are_known() {
        for (script, numbers) in [
            ("SELECT * FROM sched WHERE ts < 20", true),
            ("SELECT waker_id FROM thread_state WHERE ts < 20", true),
            ("SELECT ts, dur, utid FROM sched WHERE ts < 20", false),
            ("SELECT id FROM thread", false),
        ] {
            assert_eq!(rehearse(script).unwrap().numbers, numbers, "{script}");
        }
    }

    #[test]
    fn a_statement_without_a_table_of_ours_needs_nothing() {
        for script in [
            "SELECT 1",
            "SELECT 1; SELECT 2",
            "SELECT 'sched', upper('x'), time_from_s(2) -- sched",
            "SELECT name FROM sqlite_schema",
            "CREATE TABLE t(x); INSERT INTO t VALUES (1); SELECT sum(x) FROM t",
            "WITH n(i) AS (VALUES (1), (2)) SELECT sum(i) FROM n",
            "",
        ] {
            assert!(rehearse(script).unwrap().nothing, "{script}");
        }
        for script in [
            "SELECT count(*) FROM sched",
            "SELECT 1; SELECT 2 FROM thread",
            "SELECT trace_start()",
            "SELECT to_realtime(5)",
            "SELECT * FROM trace_bounds",
            "SELECT * FROM segment",
            "SELECT path FROM snapshot",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM Wait)",
            "SELECT name FROM stats",
            "CREATE VIEW v AS SELECT ts FROM sched; SELECT * FROM v",
            "CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT max(dur) FROM sched; SELECT f()",
        ] {
            assert!(!rehearse(script).unwrap().nothing, "{script}");
        }
    }

    #[test]
    fn what_is_refused_is_refused_without_data() {
        for script in ["SELECT load_extension('x')", "ATTACH 'x' AS y", "VACUUM INTO '/nonexistent/x'"] {
            let error = rehearse(script).unwrap_err().to_string();
            assert!(error.contains("authoriz") && error.contains("must not open or write files"), "{script}: {error}");
        }
    }

    #[test]
    fn mistakes_show_their_place() {
        for (script, message) in [
            ("SELECT 1;\nSELECT nme FROM thread", "no such column: nme (line 2, column 8)"),
            ("SELECT FROM sched", "near \"FROM\": syntax error (line 1, column 8)"),
            ("SELECT * FROM schd", "no such table: schd (line 1, column 15)"),
            ("CREATE TABLE a AS SELECT ts FROM sched; SELECT dur FROM a", "no such column: dur (line 1, column 48)"),
        ] {
            let error = rehearse(script).unwrap_err().to_string();
            assert!(error.starts_with(message), "{script}: {error}");
        }
    }

    #[test]
    fn what_needs_data_to_judge_is_not_judged() {
        // Fails without rows, would not with them.
        let strict = "CREATE TABLE t(x NOT NULL); INSERT INTO t SELECT max(ts) FROM sched; SELECT nothing FROM t";
        assert_eq!(rehearse(strict).unwrap(), Needs::ALL);
        let endless =
            "CREATE TABLE t AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        assert_eq!(rehearse(endless).unwrap(), Needs::ALL);
    }
}
