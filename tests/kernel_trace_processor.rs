//! Recordings of the real kernel in Perfetto's own trace processor: it reads them without a word of complaint, and
//! `dashcam query` gives the rows that it gives. Needs root and tracefs.

#![allow(clippy::unwrap_used)]

mod load_support;
mod trace_processor_support;
#[path = "trace_processor_support/untraced.rs"]
mod untraced;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use load_support::{NeverIdle, Running, direct_reads, named, pin};
use serde_json::Value;
use trace_processor_support::{ask, load_and_ask, plain};
use untraced::{Dark, Darkness, Sched};

/// What is recorded once, for all tests here.
struct Recording {
    dir: PathBuf,
    /// A thread that changed its name in the first segment and slept from then on.
    renamed: i64,
    /// In order.
    segments: Vec<PathBuf>,
    snapshot: PathBuf,
    /// A window exported for Perfetto.
    export: PathBuf,
}

impl Recording {
    /// All segments, as `cat | zstd -dc` gives them.
    fn together(&self, name: &str) -> PathBuf {
        plain(&self.segments, &self.dir.join(name))
    }
}

fn recording() -> &'static Recording {
    static MADE: OnceLock<Recording> = OnceLock::new();
    MADE.get_or_init(record)
}

fn record() -> Recording {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace-processor");
    let _ = fs::remove_dir_all(&dir);
    let store = dir.join("store");
    fs::create_dir_all(&store).unwrap();
    // Unless an hour ends meanwhile there are two segments: one on each side of the request to rotate.
    let config = dir.join("config.toml");
    fs::write(&config, "[store]\nsegment = \"1 h\"\n").unwrap();
    let instance = format!("dashcam-test-{}-judge", std::process::id());
    let dashcam = |args: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_DIR").env_remove("DASHCAM_LOG");
        c.arg("--config").arg(&config).arg("--dir").arg(&store).args(["--instance", &instance]).args(args);
        c
    };
    let ok = |args: &[&str]| {
        let out = dashcam(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let mut recorder = Running(dashcam(&["record"]).stdout(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    // It answers once events are recorded; what is born or renamed before that no event tells.
    while !dashcam(&["status"]).output().unwrap().status.success() {
        assert!(recorder.0.try_wait().unwrap().is_none() && Instant::now() < end, "the recorder does not get ready");
        thread::sleep(Duration::from_millis(20));
    }
    let (tell, told) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let sleeper = named("judge-before", move || {
        // SAFETY: the name is a C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"judge-after".as_ptr()) };
        tell.send(i64::from(nix::unistd::gettid().as_raw())).unwrap();
        let _ = released.recv();
    });
    let renamed = told.recv().unwrap();
    let marker = Path::new("/sys/kernel/tracing/instances").join(&instance).join("trace_marker");
    load(&dir, &marker);
    ok(&["rotate"]);
    load(&dir, &marker);
    ok(&["mark", "step 812"]);
    let snapshot = PathBuf::from(ok(&["snapshot", "--last", "1h"]).trim());
    ok(&["stop"]);
    assert!(recorder.0.wait().unwrap().success());
    let mut segments: Vec<_> = fs::read_dir(store.join("segments")).unwrap().map(|e| e.unwrap().path()).collect();
    segments.sort();
    assert!(segments.len() >= 2);
    drop(release);
    sleeper.join().unwrap();
    let export = dir.join("export.pftrace");
    ok(&["export", "--format", "perfetto", "-o", export.to_str().unwrap()]);
    Recording { dir, renamed, segments, snapshot, export }
}

/// Threads of known names that push each other off a CPU, wait for a disk, and mark what they do.
fn load(dir: &Path, marker: &Path) {
    // With idle CPUs there would be less to compare.
    let never_idle = NeverIdle::start("judge-last");
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            // Busy inside the kernel: there a thread that is pushed off is `R+`, and `R` where it was in its own code.
            named("judge-push", || {
                let (mut zero, mut memory) = (fs::File::open("/dev/zero").unwrap(), vec![0; 16 << 20]);
                pin(0);
                let end = Instant::now() + Duration::from_millis(300);
                while Instant::now() < end {
                    zero.read_exact(&mut memory).unwrap();
                }
            })
        })
        .collect();
    let file = dir.join("direct-io");
    fs::write(&file, vec![7u8; 1 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    // A process whose parent is gone before anybody can read of it, as daemons are.
    assert!(Command::new("sh").args(["-c", "sleep 0.654 & sleep 0.01"]).status().unwrap().success());
    threads.push(named("judge-io", move || direct_reads(&file, 1 << 16, 64, |_| {})));
    let marker = marker.to_owned();
    threads.push(named("judge-mark", move || {
        let write = |text: String| fs::write(&marker, text).unwrap();
        let pid = std::process::id();
        for step in 0..5 {
            write(format!("B|{pid}|step {step}\n"));
            thread::sleep(Duration::from_millis(20));
            write(format!("C|{pid}|queue|{step}\n"));
            write(format!("E|{pid}\n"));
        }
    }));
    threads.into_iter().for_each(|t| t.join().unwrap());
    // Counters come once a second.
    thread::sleep(Duration::from_millis(1200));
    drop(never_idle);
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}

/// Every file that one can get out of a recording, in plain packets.
fn each_file(name: &str) -> Vec<(&'static str, PathBuf)> {
    let made = recording();
    let to = |what: &str| made.dir.join(format!("{name}-{what}.pftrace"));
    vec![
        ("first segment", plain(&made.segments[..1], &to("first"))),
        ("all segments", plain(&made.segments, &to("all"))),
        ("snapshot", plain(std::slice::from_ref(&made.snapshot), &to("snapshot"))),
        ("export", made.export.clone()),
    ]
}

#[test]
fn case_08_the_kernel_release_is_known_and_preempted_reads_r_plus() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let pushed_off = "SELECT end_state FROM sched JOIN thread USING (utid) WHERE name = 'judge-push' \
                      AND end_state = 'R+' LIMIT 1";
    // Without the release it takes the newer letters for older ones: `x`, `K`, `W`, `N`, or numbers.
    let strange = "SELECT DISTINCT end_state FROM sched WHERE end_state NOT IN \
                   ('R', 'R+', 'S', 'D', 'I', 'T', 't', 'X', 'Z', 'P')";
    for (what, file) in each_file("case-08") {
        let told = "SELECT str_value FROM metadata WHERE name = 'system_release'";
        let answers = ask(&file, &[told, pushed_off, strange]);
        assert_eq!(answers[0], [[Value::from(release.trim_end())]], "{what}");
        assert_eq!(answers[1], [[Value::from("R+")]], "{what}");
        assert_eq!(answers[2], [] as [[Value; 1]; 0], "{what}");
    }
}

/// A switch that the kernel itself left out (`dashcam status` counts them, too): no more of them than rows without end.
const SWITCH_LEFT_OUT: &str = "mismatched_sched_switch_tids";

#[test]
fn it_finds_nothing_to_complain_of() {
    let complaints = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0";
    for (what, file) in each_file("stats") {
        let answers = ask(&file, &[complaints, SCHED]);
        let left_out = Darkness::of(&scheds(&answers[1]), &BTreeSet::new()).0.0;
        for row in &answers[0] {
            let (name, count) = (text(&row[0]).unwrap(), int(&row[1]));
            let fine = match name {
                // A thread found by a wake-up, and another behind it, are two for us and one for it.
                SWITCH_LEFT_OUT => {
                    let verified = match what {
                        "first segment" => verified(&recording().segments[0]),
                        "snapshot" => verified(&recording().snapshot),
                        _ => i64::MAX,
                    };
                    count == left_out.len() as i64 && count <= verified
                }
                _ => false,
            };
            assert!(fine, "{what}: {name} = {count}; {} rows without end", left_out.len());
        }
    }
}

/// It takes a process whose parent is another than it knows for another process, and a thread that is told of before its birth
/// for another thread.
#[test]
fn each_life_is_one_row_even_where_the_parent_ended_first() {
    let threads = "SELECT COUNT(*) - COUNT(DISTINCT tid) FROM thread WHERE name GLOB 'judge-*'";
    for (what, file) in each_file("lives") {
        assert_eq!(int(&ask(&file, &[threads])[0][0][0]), 0, "{what}");
    }
    let orphan = "SELECT COUNT(*), COUNT(cmdline), MAX(cmdline) FROM process \
                  WHERE pid IN (SELECT pid FROM process WHERE cmdline = 'sleep 0.654')";
    let made = recording();
    let first = plain(&made.segments[..1], &made.dir.join("orphan.pftrace"));
    assert_eq!(ask(&first, &[orphan])[0], [[1.into(), 1.into(), Value::from("sleep 0.654")]]);
}

/// Switches left out, as `dashcam verify` counts them.
fn verified(file: &Path) -> i64 {
    let out = Command::new(env!("CARGO_BIN_EXE_dashcam")).args(["verify", "--json"]).arg(file).output().unwrap();
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    int(&told["untraced_switches"])
}

#[test]
fn every_table_has_its_rows() {
    for (what, file) in each_file("tables") {
        let pushing = "SELECT COUNT(DISTINCT utid), COUNT(*) FROM sched JOIN thread USING (utid) \
                        WHERE thread.name = 'judge-push'";
        let people = "SELECT DISTINCT t.name, p.pid, p.name FROM thread t JOIN process p USING (upid) \
                      WHERE t.name GLOB 'judge-*' ORDER BY 1";
        let blocked = "SELECT s.io_wait, COUNT(*), COUNT(s.blocked_function) FROM thread_state s \
                       JOIN thread USING (utid) WHERE name = 'judge-io' AND state = 'D' GROUP BY 1";
        let slices = "SELECT s.name, COUNT(*), MIN(s.dur) FROM slice s JOIN thread_track k ON k.id = s.track_id \
                      JOIN thread t USING (utid) WHERE t.name = 'judge-mark' GROUP BY 1 ORDER BY 1";
        let queue = "SELECT MIN(value), MAX(value) FROM counter c JOIN process_counter_track k ON k.id = c.track_id \
                     JOIN process USING (upid) WHERE k.name = 'queue' AND pid = ";
        let queue = format!("{queue}{}", std::process::id());
        let memory = "SELECT COUNT(*) FROM counter c JOIN counter_track k ON k.id = c.track_id \
                      WHERE k.name = 'MemFree' AND value > 0";
        // The clock of the trace is the boot clock, and it is known when that was.
        let clocks = "SELECT MIN(ts), (SELECT int_value FROM metadata WHERE name = 'trace_time_clock_id'), \
                      (SELECT COUNT(*) FROM sched WHERE ts < 0) FROM sched";
        let wall = "SELECT clock_value - ts FROM clock_snapshot WHERE clock_name = 'REALTIME' LIMIT 1";
        let a = ask(&file, &[pushing, people, blocked, slices, &queue, memory, clocks, wall]);
        assert!(int(&a[0][0][0]) >= 2 && int(&a[0][0][1]) > 2, "{what}: {:?}", a[0]);
        let pid = i64::from(std::process::id());
        let names: Vec<_> = a[1].iter().map(|r| (text(&r[0]).unwrap(), int(&r[1]))).collect();
        assert_eq!(
            names,
            ["judge-after", "judge-io", "judge-last", "judge-mark", "judge-push"].map(|n| (n, pid)),
            "{what}"
        );
        assert!(a[1].iter().all(|r| text(&r[2]).unwrap().contains("kernel_trace_pr")), "{what}: {:?}", a[1]);
        let blocked: BTreeMap<_, _> = a[2].iter().map(|r| (r[0].as_i64(), (int(&r[1]), int(&r[2])))).collect();
        let (times, functions) = blocked[&Some(1)];
        assert!(times > 0 && functions == times, "{what}: D for input and output has its function: {blocked:?}");
        let steps: Vec<_> = a[3].iter().map(|r| text(&r[0]).unwrap()).collect();
        assert_eq!(steps, ["step 0", "step 1", "step 2", "step 3", "step 4"], "{what}");
        assert!(a[3].iter().all(|r| int(&r[2]) >= 20_000_000), "{what}: {:?}", a[3]);
        assert_eq!((a[4][0][0].as_f64(), a[4][0][1].as_f64()), (Some(0.0), Some(4.0)), "{what}");
        assert!(int(&a[5][0][0]) > 0, "{what}");
        assert_eq!((int(&a[6][0][1]), int(&a[6][0][2])), (6, 0), "{what}: BUILTIN_CLOCK_BOOTTIME is 6");
        let boot = dashcam::recorder::clock::snapshot();
        // The wall clock can be set meanwhile, by little.
        let since = boot.real as i64 - boot.boot as i64;
        assert!((int(&a[7][0][0]) - since).abs() < 60_000_000_000, "{what}: {} {since}", a[7][0][0]);
    }
}

/// The test's own main thread sleeps in all of it, and so does the renamed one in the last segment.
#[test]
fn case_46_50_51_a_segment_alone_names_those_who_slept_all_the_time() {
    let made = recording();
    let alone = plain(&made.segments[made.segments.len() - 1..], &made.dir.join("alone.pftrace"));
    let pid = std::process::id();
    let of = |tid: i64| format!("SELECT t.name, p.pid FROM thread t JOIN process p USING (upid) WHERE t.tid = {tid}");
    let told = ask(&alone, &[&of(i64::from(pid)), &of(made.renamed)]);
    let leader = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let row = |name: &str| vec![vec![Value::from(name), Value::from(pid)]];
    assert_eq!(told, [row(leader.trim_end()), row("judge-after")]);
    // Where it changed its name both are known, each at its time.
    let first = plain(&made.segments[..1], &made.dir.join("first-alone.pftrace"));
    let renames = "SELECT EXTRACT_ARG(arg_set_id, 'oldcomm'), EXTRACT_ARG(arg_set_id, 'newcomm') FROM ftrace_event \
                   WHERE name = 'task_rename' AND EXTRACT_ARG(arg_set_id, 'newcomm') = 'judge-after'";
    assert_eq!(ask(&first, &[renames])[0], [["judge-before", "judge-after"].map(Value::from).to_vec()]);
}

/// v52 knows no zstd; from v58 on Perfetto opens segments as they are. Either takes what `zstd -dc` gives.
#[test]
fn a_compressed_segment_is_refused_in_words_or_read() {
    let made = recording();
    let count = "SELECT COUNT(*) FROM sched";
    let expected = ask(&made.together("compressed.pftrace"), &[count]);
    let (loaded, tables) = load_and_ask(&made.segments[0], &[count]);
    match loaded.error {
        Some(error) => assert!(error.contains("Unknown trace type"), "{} says {error}", loaded.version),
        None => assert!(int(&tables[0].rows[0][0]) <= int(&expected[0][0][0])),
    }
}

#[test]
fn segments_one_behind_the_other_are_one_longer_trace() {
    let made = recording();
    let queries = ["SELECT COUNT(*), MIN(ts), MAX(ts) FROM sched", "SELECT COUNT(DISTINCT ts) FROM clock_snapshot"];
    let each = made.segments.iter().enumerate().map(|(i, segment)| {
        let file = plain(std::slice::from_ref(segment), &made.dir.join(format!("one-{i}.pftrace")));
        ask(&file, &queries)
    });
    let each: Vec<_> = each.collect();
    let all = ask(&made.together("together.pftrace"), &queries);
    let sum = |q: usize| each.iter().map(|e| int(&e[q][0][0])).sum::<i64>();
    assert_eq!(int(&all[0][0][0]), sum(0));
    assert_eq!(all[0][0][1], each[0][0][0][1]);
    assert_eq!(all[0][0][2], each.last().unwrap()[0][0][2]);
    assert_eq!(int(&all[1][0][0]), sum(1), "the clocks of each head and tail");
}

const SCHED: &str = "SELECT s.cpu, s.ts, s.dur, t.tid, s.end_state, s.priority FROM sched s JOIN thread t USING (utid)";

/// A row of `thread_state`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    tid: i64,
    ts: i64,
    dur: i64,
    state: String,
    cpu: Option<i64>,
    io_wait: Option<i64>,
    function: Option<String>,
    waker: Option<i64>,
    irq: Option<i64>,
}

const STATES: &str = "SELECT t.tid, s.ts, s.dur, s.state, s.cpu, s.io_wait, s.blocked_function, w.tid AS waker, \
                      s.irq_context FROM thread_state s JOIN thread t USING (utid) \
                      LEFT JOIN thread w ON w.utid = s.waker_utid";

fn scheds(rows: &[Vec<Value>]) -> BTreeSet<Sched> {
    let read = |r: &Vec<Value>| Sched {
        cpu: int(&r[0]),
        ts: int(&r[1]),
        dur: int(&r[2]),
        tid: int(&r[3]),
        end_state: r[4].as_str().map(str::to_owned),
        priority: r[5].as_i64(),
    };
    rows.iter().map(read).collect()
}

fn states(rows: &[Vec<Value>]) -> BTreeSet<State> {
    let read = |r: &Vec<Value>| State {
        tid: int(&r[0]),
        ts: int(&r[1]),
        dur: int(&r[2]),
        state: r[3].as_str().unwrap().to_owned(),
        cpu: r[4].as_i64(),
        io_wait: r[5].as_i64(),
        function: r[6].as_str().map(str::to_owned),
        waker: r[7].as_i64(),
        irq: r[8].as_i64(),
    };
    rows.iter().map(read).collect()
}

/// What `dashcam query` prints, cell by cell.
fn ours(sql: &str, files: &[PathBuf]) -> Vec<Vec<Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = command.args(["query", "--format", "json", sql]).args(files).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let row = |line: &str| -> Vec<Value> {
        let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        object.into_iter().map(|(_, value)| value).collect()
    };
    String::from_utf8(out.stdout).unwrap().lines().map(row).collect()
}

#[test]
fn sched_is_the_trace_processors() {
    let made = recording();
    for segment in &made.segments {
        compare_sched(segment, &made.dir.join("sched.pftrace"));
    }
}

fn compare_sched(segment: &PathBuf, to: &Path) {
    let segment = std::slice::from_ref(segment);
    let theirs = scheds(&ask(&plain(segment, to), &[SCHED])[0]);
    let own = scheds(&ours(SCHED, segment));
    assert!(theirs.len() > 200, "{}", theirs.len());
    let (dark, begun) = Darkness::of(&theirs, &own);
    let own_at: BTreeMap<(i64, i64), &Sched> = own.iter().map(|o| ((o.cpu, o.ts), o)).collect();
    for row in theirs.difference(&own) {
        // Of who is first seen to run when it wakes somebody we do not say the priority; of who is when it leaves, nothing.
        let found = |d: &Dark| row.ts == d.to && own_at.get(&(row.cpu, row.ts)).is_some_and(|o| o.priority.is_none());
        let stood_in = dark.0.range(..(row.cpu, row.ts)).next_back().map(|(_, d)| d).filter(|d| d.cpu == row.cpu);
        if stood_in.is_some_and(|d| found(d) || row.dur == 0 && row.ts == d.to) {
            continue;
        }
        // Without its end, which was not traced.
        let stretch = dark.0.get(&(row.cpu, row.ts)).unwrap_or_else(|| panic!("only theirs: {row:?}"));
        let same = own_at.get(&(row.cpu, row.ts)).filter(|o| (o.tid, o.priority) == (row.tid, row.priority));
        let same = same.unwrap_or_else(|| panic!("only theirs: {row:?}"));
        assert!(same.end_state.is_none() && same.dur >= 0 && same.ts + same.dur <= stretch.to, "{same:?} {row:?}");
    }
    for row in own.difference(&theirs) {
        let known_from_the_head = row.ts < begun;
        let found = |d: &Dark| row.ts == d.to && row.priority.is_none();
        let in_the_dark = dark.at(row.cpu, row.ts).is_some_and(|d| row.ts + row.dur <= d.to || found(d));
        assert!(known_from_the_head || in_the_dark, "only ours: {row:?}");
    }
}

/// For the differences see `sched::fold` and `tests/query_tracebox.rs`: *race* and *split*; what the head of a segment
/// tells us of the time before the first switch; and what follows from a switch that the kernel left out.
#[test]
fn thread_state_is_the_trace_processors_but_for_stated_differences() {
    let made = recording();
    for segment in &made.segments {
        compare_states(segment, &made.dir.join("states.pftrace"));
    }
}

fn compare_states(segment: &PathBuf, to: &Path) {
    let segment = std::slice::from_ref(segment);
    let answers = ask(&plain(segment, to), &[STATES, SCHED]);
    let (theirs, own) = (states(&answers[0]), states(&ours(STATES, segment)));
    let (dark, begun) = Darkness::of(&scheds(&answers[1]), &scheds(&ours(SCHED, segment)));
    let close = |s: &State| if s.dur < 0 { i64::MAX } else { s.ts + s.dur };
    // The thread whose coming was left out is the one that leaves where the stretch ends.
    let hidden: BTreeSet<(i64, i64)> = own.iter().filter(|s| s.state != "Running").map(|s| (s.tid, s.ts)).collect();
    let left: BTreeSet<(i64, i64)> = hidden.iter().map(|&(tid, ts)| (ts, tid)).collect();
    let mut of_thread: BTreeMap<i64, Vec<&Dark>> = BTreeMap::new();
    for stretch in dark.0.values() {
        let who_left = left.range((stretch.to, 0)..=(stretch.to, i64::MAX)).map(|l| l.1);
        who_left.chain([stretch.tid]).for_each(|tid| of_thread.entry(tid).or_default().push(stretch));
    }
    let next = |s: &State| hidden.range((s.tid, s.ts + 1)..).next().filter(|n| n.0 == s.tid).map_or(i64::MAX, |n| n.1);
    let excused = |s: &State| {
        let touched = |d: &&Dark| s.ts <= d.to && next(s) >= d.from;
        s.ts < begun || dark.anywhere(s.ts) || of_thread.get(&s.tid).is_some_and(|all| all.iter().any(touched))
    };
    let only_ours: Vec<&State> = own.difference(&theirs).filter(|s| !excused(s)).collect();
    let mut only_theirs: BTreeMap<(i64, i64), Vec<&State>> = BTreeMap::new();
    for state in theirs.difference(&own).filter(|s| !excused(s)) {
        only_theirs.entry((state.tid, state.ts)).or_default().push(state);
    }
    for own in only_ours {
        let begun_here = only_theirs.remove(&(own.tid, own.ts)).unwrap_or_default();
        let [first] = begun_here[..] else { panic!("only ours: {own:?}, theirs: {begun_here:?}") };
        let race = own.state == "R" && own.waker.is_some() && own.dur == first.dur && first.waker.is_none();
        if race {
            continue;
        }
        let second = only_theirs.remove(&(own.tid, close(first))).unwrap_or_default();
        let [second] = second[..] else { panic!("only ours: {own:?}, theirs: {first:?} {second:?}") };
        assert_eq!((own.state.as_str(), first.state.as_str(), second.state.as_str()), ("R+", "R+", "R"), "{own:?}");
        assert_eq!(close(own), close(second));
    }
    // Woken on another CPU in the very nanosecond in which it left: for it the thread slept for no time, for us not at all.
    let woken_at: BTreeSet<(i64, i64)> =
        own.iter().filter(|o| o.state == "R" && o.waker.is_some()).map(|o| (o.tid, o.ts)).collect();
    only_theirs.retain(|at, rows| rows.iter().any(|row| row.dur != 0) || !woken_at.contains(at));
    assert!(only_theirs.is_empty(), "only theirs: {only_theirs:?}");
}

#[test]
fn slices_and_counters_of_markers_are_the_trace_processors() {
    let made = recording();
    let slices = "SELECT s.ts, s.dur, s.depth, s.name, t.tid FROM slice s JOIN thread_track k ON k.id = s.track_id \
                  JOIN thread t USING (utid) ORDER BY s.ts, s.depth";
    let counters = "SELECT c.ts, k.name, CAST(c.value AS INT) AS value, p.pid FROM counter c \
                    JOIN process_counter_track k ON k.id = c.track_id JOIN process p USING (upid) ORDER BY c.ts";
    let theirs = ask(&made.together("markers.pftrace"), &[slices, counters]);
    assert!(theirs[0].len() >= 10 && theirs[1].len() >= 10);
    assert!(theirs[0].iter().any(|r| text(&r[3]) == Some("step 812") && int(&r[1]) == 0), "{:?}", theirs[0]);
    assert_eq!(ours(slices, &made.segments), theirs[0]);
    assert_eq!(ours(counters, &made.segments), theirs[1]);
}
