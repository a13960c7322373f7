//! The shell of `dashcam query` on a real pseudo-terminal: history, completion, dot commands, Ctrl-C, Ctrl-D.

#![allow(clippy::unwrap_used)]

mod pty_support;

use std::path::Path;

use portable_pty::CommandBuilder;
use pty_support::Session;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/perfetto/training-like.pftrace.zst");

/// A shell whose history is kept in `state`.
fn shell(state: &Path) -> Session {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dashcam"));
    command.args(["query", TRACE]);
    command.env("XDG_STATE_HOME", state);
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.env("HOME", "/nonexistent");
    // Tall enough for everything a test asks: nothing scrolls away.
    let mut s = Session::start(command, 200, 120);
    s.sees(".help for help");
    s.prompt();
    s
}

trait Shell {
    fn prompt(&mut self);
    fn ask(&mut self, line: &str);
}

impl Shell for Session {
    /// Waits until the shell asks: what is typed before is not its.
    fn prompt(&mut self) {
        self.wait("a prompt", |s| {
            s.contents().lines().rfind(|l| !l.trim().is_empty()).is_some_and(|l| l.trim() == "dashcam>")
        });
    }

    /// Types a line at the prompt and sees it taken; the answer is waited for by what it says.
    fn ask(&mut self, line: &str) {
        self.prompt();
        let row = self.screen.lock().unwrap().screen().cursor_position().0;
        self.keys(line);
        self.sees(line);
        self.keys("\r");
        self.wait("the line taken", |s| s.cursor_position().0 != row);
    }
}

#[test]
fn asks_answers_completes_and_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = shell(dir.path());
    s.ask("SELECT count(*) * 2 AS twice FROM sched;");
    s.sees("7500");
    // A statement ends with its semicolon, not with its line.
    s.ask("SELECT");
    s.wait("the line taken", |s| s.contents().ends_with("dashcam> SELECT") && s.cursor_position().1 == 0);
    s.keys("'two' || ' lines' AS x;\r");
    s.sees("two lines");
    s.ask(".schema wait");
    s.sees("wait(id, ts, dur, utid, upid, kind,");
    s.ask("SELECT nme FROM thread;");
    s.sees("no such column: nme (line 1, column 8)");
    // Tab completes a table's name.
    s.prompt();
    s.keys("SELECT 'v' || count(*) FROM clock_sn\t");
    s.sees("FROM clock_snapshot");
    s.keys(";\r");
    s.wait("a number of clocks", |s| s.contents().lines().any(|l| l.trim().starts_with('v') && l.trim() != "v"));
    let script = dir.path().join("q.sql");
    std::fs::write(&script, "SELECT 'from ' || 'a file' AS said;").unwrap();
    s.ask(&format!(".read {}", script.display()));
    s.sees("from a file");
    s.ask(".mode csv");
    s.ask("SELECT 1 AS a, 'x' AS b;");
    s.sees("\"a\",\"b\"");
    s.ask(".bogus");
    s.sees(".bogus is no command");
    s.prompt();
    s.keys("\x04");
    assert_eq!(s.ended(), 0, "Ctrl-D leaves");
    // The next shell knows the line.
    let mut s = shell(dir.path());
    s.keys("\x1b[A\x1b[A");
    s.sees("SELECT 1 AS a, 'x' AS b;");
    s.keys("\r");
    s.wait("the answer again", |s| s.contents().lines().any(|l| l.split_whitespace().eq(["1", "x"])));
    s.ask(".quit");
    assert_eq!(s.ended(), 0);
}

#[test]
fn tables_and_ready_queries_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = shell(dir.path());
    s.ask(".tables");
    s.wait("the tables", |s| {
        let lines: Vec<String> = s.contents().lines().map(str::to_owned).collect();
        ["sched", "thread_state", "wait", "segment"].iter().all(|t| lines.iter().any(|l| l == t))
    });
    s.ask(".read top_running");
    s.sees("pt_loader:0");
    s.ask(".queries");
    s.sees("longest_block");
    s.prompt();
    s.keys("\x04");
    assert_eq!(s.ended(), 0);
}

#[test]
fn ctrl_c_stops_a_long_query_and_the_shell_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = shell(dir.path());
    s.ask("WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n;");
    // It says so while it runs: that is when Ctrl-C is a signal and not a key.
    s.sees("Ctrl-C stops");
    s.keys("\x03");
    s.sees("stopped before it was done");
    s.wait("the spinner gone", |s| !s.contents().contains("Ctrl-C stops"));
    s.ask("SELECT 'still ' || 'here' AS said;");
    s.sees("still here");
    // On the prompt Ctrl-C only drops the line.
    s.prompt();
    s.keys("SELECT 'dropped'");
    s.sees("SELECT 'dropped'");
    s.keys("\x03");
    s.ask("SELECT 'and ' || 'on' AS said;");
    s.sees("and on");
    s.prompt();
    s.keys("\x04");
    assert_eq!(s.ended(), 0);
}
