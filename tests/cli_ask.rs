//! `query`, `report`, `check` and `export` from outside, on the trace that tracebox recorded.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn dashcam() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    c.env_remove("DASHCAM_DIR").env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_LOG").env("TZ", "UTC");
    c.stdin(Stdio::null());
    c
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perfetto").join(name)
}

fn trace() -> PathBuf {
    fixture("training-like.pftrace.zst")
}

fn run(args: &[&str]) -> Output {
    dashcam().args(args).arg(trace()).output().unwrap()
}

fn stdout(out: &Output) -> String {
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout.clone()).unwrap()
}

#[test]
fn query_prints_the_rows_of_trace_processor() {
    let sql = "SELECT s.ts, s.dur, s.cpu, t.tid, s.end_state, s.priority FROM sched s JOIN thread t USING (utid) ORDER BY s.ts, s.cpu";
    let mut ours: Vec<String> = stdout(&run(&["query", "--format", "csv", sql])).lines().map(str::to_owned).collect();
    let mut theirs: Vec<String> =
        std::fs::read_to_string(fixture("expected/sched.csv")).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(ours[0], theirs[0]);
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

#[test]
fn query_takes_statements_from_a_flag_a_file_stdin_and_the_library() {
    let count = |out: Output| stdout(&out).lines().last().unwrap().trim().to_owned();
    assert_eq!(count(run(&["query", "SELECT count(*) FROM sched"])), "3750");
    assert_eq!(count(run(&["query", "-Q", "SELECT count(*) FROM sched"])), "3750");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "SELECT count(*) FROM sched;").unwrap();
    assert_eq!(count(run(&["query", "-f", file.path().to_str().unwrap()])), "3750");
    assert!(stdout(&run(&["query", "-f", "top_running"])).contains("pt_loader:0"));
    let mut child = dashcam().arg("query").arg(trace()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT count(*) FROM sched").unwrap();
    assert_eq!(count(child.wait_with_output().unwrap()), "3750");
    assert!(stdout(&dashcam().args(["query", "--list"]).output().unwrap()).contains("top_running"));
}

#[test]
fn sql_errors_show_the_place_on_stderr_and_fail() {
    let out = run(&["query", "SELECT 1;\nSELECT nme FROM thread"]);
    assert_eq!(out.status.code(), Some(1));
    let err = String::from_utf8(out.stderr).unwrap();
    assert!(err.contains("no such column: nme (line 2, column 8)") && err.contains("       ^"), "{err}");
}

/// The same under a limit of so many KiB of address space.
fn run_within(kib: u32, args: &[&str]) -> (Option<i32>, String) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v $0; exec \"$@\"", &kib.to_string(), env!("CARGO_BIN_EXE_dashcam")]).args(args);
    let out = shell.output().unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_statement_that_wants_all_memory_is_told_that_it_cannot_have_it() {
    let endless = "WITH RECURSIVE c(x) AS (SELECT randomblob(1000000) UNION ALL SELECT randomblob(1000000) FROM c) ";
    let (code, said) = run_within(
        500_000,
        &["query", &format!("CREATE TABLE t AS {endless} SELECT x FROM c"), trace().to_str().unwrap()],
    );
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("dashcam: out of memory (line 1, column 1)\n"), "{said}");
    assert!(
        said.ends_with("The statement wants more memory than there is room for: ask for less at once.\n"),
        "{said}"
    );
}

#[test]
fn an_export_that_is_terminated_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    // Long enough to be met in the middle.
    let long = dir.path().join("long.pftrace.zst");
    std::fs::write(&long, std::fs::read(trace()).unwrap().repeat(200)).unwrap();
    let to = dir.path().join("to");
    std::fs::create_dir(&to).unwrap();
    let mut export = dashcam();
    export.args(["export", "--format", "text", "-o"]).arg(to.join("a.txt")).arg(&long).stderr(Stdio::piped());
    let child = export.spawn().unwrap();
    while std::fs::read_dir(&to).unwrap().count() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), std::fs::read_dir(&to).unwrap().count()), (Some(1), 0), "{said}");
    assert!(said.contains("nothing was written"), "{said}");
}

#[test]
fn an_answer_that_has_no_room_is_told_with_where_it_went() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let out = dashcam().args(["report", "cpu"]).arg(trace()).stdout(full).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    let told = "dashcam: cannot write the answer to standard output: No space left on device (os error 28); send it elsewhere\n";
    assert_eq!((out.status.code(), said.as_str()), (Some(1), told));
}

#[test]
fn mistakes_are_told_before_anything_is_read() {
    let nothing = "/nonexistent/trace";
    for (args, code, told) in [
        (&["query", "SELECT FROM sched", nothing][..], 1, "near \"FROM\": syntax error (line 1, column 8)"),
        (&["query", "SELECT * FROM shed", nothing], 1, "no such table: shed (line 1, column 15)\n"),
        (&["query", "--from", "-5m", "--to", "-6m", "SELECT 1", nothing], 2, "empty"),
        (&["query", "--from", "2026-11-30 14:00", "--to", "2026-11-30 13:00", "SELECT 1", nothing], 2, "14:00"),
        (&["report", "cpu", "--last", "soon", nothing], 2, "--last"),
        (&["query", "--last", "0s", "SELECT 1", nothing], 2, "--last must be longer than nothing"),
        (&["export", "--format", "text", "--from", "when", nothing], 2, "when"),
    ] {
        let out = dashcam().args(args).output().unwrap();
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(code) && err.contains(told), "{args:?}: {:?} {err}", out.status);
        assert!(!err.contains(nothing), "{args:?}: {err}");
    }
}

/// What every command that reads says of a file: exit code and words.
fn said_of(file: &Path) -> Vec<(String, Option<i32>, String)> {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (baseline, copy, packed, ctf) = (at("baseline.csv"), at("a.pftrace"), at("a.zst"), at("ctf"));
    let commands: [&[&str]; 9] = [
        &["query", "SELECT count(*) FROM sched"],
        &["report", "cpu"],
        &["check", "--save", "--baseline", &baseline],
        &["browse"],
        &["export", "--format", "text"],
        &["export", "--format", "json"],
        &["export", "--format", "ctf", "-o", &ctf],
        &["export", "-o", &copy],
        &["export", "-o", &packed],
    ];
    let said = commands.map(|args| {
        let out = dashcam().args(args).arg(file).output().unwrap();
        (args.join(" "), out.status.code(), String::from_utf8(out.stderr).unwrap())
    });
    assert!(!Path::new(&baseline).exists(), "nothing was measured");
    said.to_vec()
}

#[test]
fn an_empty_file_holds_nothing_whoever_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("empty.pftrace.zst");
    std::fs::write(&file, b"").unwrap();
    for (command, code, words) in said_of(&file) {
        let expected = format!("dashcam: nothing is recorded in {}: the file is empty\n", file.display());
        assert_eq!((code, words), (Some(1), expected), "{command}");
    }
    // Beside another one it is told, and spoils nothing.
    let out = dashcam().args(["query", "SELECT count(*) FROM sched"]).arg(&file).arg(trace()).output().unwrap();
    let note = format!("dashcam: note: {}: is empty\n", file.display());
    assert_eq!(
        (stdout(&out).lines().last(), String::from_utf8_lossy(&out.stderr).into_owned()),
        (Some("    3750"), note)
    );
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_the_byte_where_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("torn.pftrace.zst");
    let plain = zstd::stream::decode_all(std::fs::File::open(trace()).unwrap()).unwrap();
    for (bytes, what) in [
        (&b"abcde"[..], "damaged at byte 0: no trace packet starts here"),
        (b"\x28\xb5\x2f\xfd\x04", "damaged at byte 0: the file ends inside a zstd frame"),
        (&std::fs::read(trace()).unwrap()[..3000], "damaged at byte 0: the file ends inside a zstd frame"),
        (&plain[..3], "damaged at byte 0: the trace ends inside a packet"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        for (command, code, words) in said_of(&file) {
            let told = format!("{}: {what}", file.display());
            assert!(code == Some(1) && words.contains(&told), "{command}: {code:?} {words} for {told}");
        }
    }
}

#[test]
fn what_needs_no_data_reads_none_and_what_is_refused_is_so_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // Whoever reads this file fails.
    let file = dir.path().join("empty.pftrace.zst");
    std::fs::write(&file, b"").unwrap();
    for sql in ["SELECT 2", "SELECT 1; SELECT 2"] {
        let out = dashcam().args(["query", "--format", "csv", sql]).arg(&file).output().unwrap();
        assert_eq!(stdout(&out).lines().last(), Some("2"), "{sql}");
        // Nor need there be a store.
        let out = dashcam().arg("--dir").arg(dir.path()).args(["query", "--format", "csv", sql]).output().unwrap();
        assert_eq!(stdout(&out).lines().last(), Some("2"), "{sql}");
    }
    let nowhere = dashcam().args(["query", "SELECT 2", "/nonexistent/trace"]).output().unwrap();
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert!(
        nowhere.status.code() == Some(1) && said.contains("/nonexistent/trace: no such file or directory"),
        "{said}"
    );
    for sql in ["SELECT load_extension('x') FROM sched", "VACUUM INTO 'x'"] {
        let out = dashcam().args(["query", sql]).arg(&file).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(1) && said.contains("must not open or write files"), "{said}");
        assert!(!said.contains("empty"), "{said}");
    }
}

#[test]
fn a_window_of_a_foreign_trace_is_cut_after_reading_it() {
    // The trace lasts 2.95 s; of its last second no row may begin more than a second before the end, but for those
    // that lasted into it.
    let sql = "SELECT count(*) FROM sched WHERE ts + dur < trace_end() - 1000000000 AND dur >= 0";
    assert_eq!(stdout(&run(&["query", "--last", "1s", sql])).lines().last(), Some("       0"));
    let out = run(&["query", "--from", "10:00", "--to", "10:01", "SELECT count(*) FROM sched"]);
    assert_eq!(out.status.code(), Some(1));
    let err = String::from_utf8(out.stderr).unwrap();
    assert!(err.contains("the data goes from 2026-11-30 12:33:50"), "{err}");
    let out = run(&["query", "--from", "10:00", "SELECT count(*) FROM sched"]);
    let err = String::from_utf8(out.stderr).unwrap();
    let note = "note: the data begins at 2026-11-30 12:33:50 +00:00, after 2026-11-30 10:00:00 +00:00";
    assert!(out.status.success() && err.contains(note), "{err}");
    assert_eq!(run(&["query", "--from", "when", "SELECT 1"]).status.code(), Some(2));
    for command in [&["query", "SELECT count(*) FROM sched"][..], &["report", "cpu"], &["export", "--format", "text"]] {
        let out = run(&[command, &["--from", "12:33:52", "--to", "12:33:51"]].concat());
        let err = String::from_utf8(out.stderr).unwrap();
        let range = "the range would go from 2026-11-30 12:33:52 +00:00 to 2026-12-01 12:33:51 +00:00";
        assert!(out.status.code() == Some(2) && err.contains(range), "{command:?}: {err}");
    }
}

#[test]
fn the_seeds_question_is_one_command() {
    let text = stdout(&run(&["report", "blocked", "--thread", "launch_thread", "--json"]));
    let row: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    // By an independent query: the longest S of the thread and the R that follows it.
    let sql = "SELECT max(off) AS off FROM (SELECT state, lead(ts + dur) OVER (ORDER BY ts) - ts AS off, \
               lead(state) OVER (ORDER BY ts) AS next FROM thread_state JOIN thread USING (utid) \
               WHERE thread.name = 'launch_thread') WHERE state = 'S' AND next = 'R'";
    let answer: serde_json::Value =
        serde_json::from_str(stdout(&run(&["query", "--format", "json", sql])).trim()).unwrap();
    assert_eq!((row["state"].as_str(), &row["off_cpu_ns"]), (Some("S"), &answer["off"]));
}

#[test]
fn reports_come_as_text_markdown_and_json() {
    for report in ["cpu", "latency", "states", "blocked", "preempt", "wakes", "io", "summary"] {
        assert!(stdout(&run(&["report", report])).lines().count() > 3, "{report}");
        assert!(stdout(&run(&["report", report, "--markdown"])).starts_with("### "), "{report}");
        for line in stdout(&run(&["report", report, "--json"])).lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["report"].is_string());
        }
    }
    assert_eq!(run(&["report", "nothing"]).status.code(), Some(2));
    assert_eq!(run(&["report", "cpu", "--role", "nobody"]).status.code(), Some(2));
}

#[test]
fn check_keeps_a_history_and_exits_3_when_a_metric_got_worse() {
    let dir = tempfile::tempdir().unwrap();
    let (history, metrics) = (dir.path().join("history.csv"), dir.path().join("metrics.toml"));
    let metric = "[[metric]]\nname = \"slices\"\nsql = \"SELECT count(*) FROM sched\"\nworse = \"higher\"\ntolerance = \"10 %\"\n";
    std::fs::write(&metrics, metric).unwrap();
    let check = |more: &[&str]| {
        let args = ["check", "--baseline", history.to_str().unwrap(), "--metrics", metrics.to_str().unwrap()];
        let out = run(&[&args[..], more].concat());
        (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, _, err) = check(&[]);
    assert!(code == Some(1) && err.contains("the first run makes it with --save"), "{err}");
    assert_eq!(check(&["--save"]).0, Some(0));
    assert_eq!(check(&["--save"]).0, Some(0), "the same data is fine");
    let lines = std::fs::read_to_string(&history).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    std::fs::write(&history, "when,metric,value\nt,slices,3000\n").unwrap();
    let (code, text, _) = check(&[]);
    assert!(code == Some(3) && text.contains("+25.0 %") && text.contains("WORSE"), "{text}");
}

#[test]
fn case_99_exports_go_to_files_folders_and_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (format, name) in [
        ("perfetto", "a.pftrace"),
        ("perfetto", "a.pftrace.zst"),
        ("text", "a.txt"),
        ("json", "a.json"),
        ("ctf", "ctf"),
    ] {
        stdout(&run(&["export", "--format", format, "-o", &path(name)]));
    }
    assert!(Path::new(&path("ctf/metadata")).exists());
    // What was exported can be asked again.
    for name in ["a.pftrace", "a.pftrace.zst"] {
        let out = dashcam().args(["query", "SELECT count(*) FROM sched", &path(name)]).output().unwrap();
        assert!(stdout(&out).contains("3750"), "{name}");
    }
    assert_eq!(run(&["export", "--format", "ctf"]).status.code(), Some(2));
    // The last second alone, in every form; a Perfetto trace keeps whole packets of events.
    stdout(&run(&["export", "--format", "perfetto", "--last", "1s", "-o", &path("cut")]));
    let ask = |sql: &str, file: &str| {
        let out = dashcam().args(["query", "--format", "csv", sql, file]).output().unwrap();
        stdout(&out).lines().last().unwrap().parse::<u64>().unwrap()
    };
    let in_last_second = "SELECT count(*) FROM ftrace_event WHERE ts >= trace_end() - 1000000000";
    let (cut, whole) = (path("cut"), path("a.pftrace"));
    assert_eq!(ask(in_last_second, &cut), ask(in_last_second, &whole));
    assert!(ask("SELECT count(*) FROM ftrace_event", &cut) < ask("SELECT count(*) FROM ftrace_event", &whole));
    let events = |text: String| text.lines().filter(|l| !l.starts_with('#')).count() as u64;
    let last = events(stdout(&run(&["export", "--format", "text", "--last", "1s"])));
    assert!(last > 0 && last < events(stdout(&run(&["export", "--format", "text"]))), "{last}");
    let mut child = dashcam().args(["export", "--format", "text"]).arg(trace()).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "# tracer: nop\n");
    assert_eq!(child.wait().unwrap().code(), Some(0), "a reader that goes away is no failure");
}

#[test]
fn a_filter_that_picks_nobody_is_told_and_so_is_why_attach_is_refused() {
    let nobody = run(&["report", "latency", "--thread", "no such thread", "--json"]);
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("none of the threads in this time"), "{nobody:?}");
    // The histogram of no waits has no lines either.
    assert_eq!((nobody.status.code(), stdout(&nobody)), (Some(0), String::new()));
    let somebody = run(&["report", "latency", "--thread", "pt_loader*", "--json"]);
    assert_eq!(String::from_utf8_lossy(&somebody.stderr), "");
    let nowhere = run(&["report", "cpu", "--cpu", "99"]);
    let said = String::from_utf8_lossy(&nowhere.stderr);
    assert!(nowhere.status.code() == Some(0) && said.contains("nothing happened on CPU 99 in this data"), "{said}");
    assert!(said.contains("; it has CPU 0-"), "{said}");
    let attach = run(&["query", "ATTACH '/tmp/x' AS y"]);
    assert_eq!(attach.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&attach.stderr).contains("must not open or write files"), "{attach:?}");
}
