//! A script is first run on no data: its mistakes show before hours of recording are read, and so does what it needs.
//!
//! Statements that make tables, views and functions are carried out, so that later ones find them; those that give rows
//! are only prepared. What SQLite says it would read decides what is kept while loading.

use std::sync::{Arc, Mutex};

use super::columns::Columns;
use super::engine::{Answer, Engine, Reads};
use super::error::QueryError;
use super::load::Kept;
use super::{Keep, functions};

/// Steps of SQLite's machine between two looks at the budget.
const STEPS: i32 = 1000;
/// Looks until a rehearsal is given up: some tens of milliseconds. A `CREATE TABLE` may count to a billion.
const LOOKS: u32 = 2000;

/// What has to be loaded for `script`.
///
/// # Errors
/// See [`Rehearsal::run`].
pub fn rehearse(script: &str) -> Result<Kept, QueryError> {
    let mut rehearsal = Rehearsal::new()?;
    rehearsal.run(script)?;
    Ok(rehearsal.needs())
}

/// Scripts that will run one after the other on one engine.
pub struct Rehearsal {
    engine: Engine,
    reads: Arc<Mutex<Reads>>,
    /// Something could not be judged without data.
    unsure: bool,
}

impl Rehearsal {
    /// Nothing was run yet.
    pub fn new() -> Result<Rehearsal, QueryError> {
        let mut engine = Engine::open(Arc::new(Columns::default()))?;
        let reads = Arc::new(Mutex::new(Reads::new()));
        engine.note_reads(Arc::clone(&reads));
        engine.rehearses = true;
        Ok(Rehearsal { engine, reads, unsure: false })
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
    pub fn needs(&self) -> Kept {
        if self.unsure {
            return Kept::ALL;
        }
        self.reads.lock().map_or(Kept::ALL, |reads| needed(&reads))
    }
}

fn needed(reads: &Reads) -> Kept {
    let any = |names: &[&str]| names.iter().any(|n| reads.contains(*n));
    let raw = any(&["ftrace_event", "args", functions::EXTRACT_ARG]);
    Kept { events: if raw { Keep::Everything } else { Keep::Nothing }, only_running: !any(&["thread_state", "wait"]) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
            assert_eq!(rehearse(script).unwrap(), kept, "{script}");
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
        assert_eq!(rehearse(strict).unwrap(), Kept::ALL);
        let endless =
            "CREATE TABLE t AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        assert_eq!(rehearse(endless).unwrap(), Kept::ALL);
    }
}
