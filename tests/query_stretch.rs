//! Questions about a stretch of a long recording: only the frames they need are read, and the answer, utids and names
//! included, is the one that the whole gives.
#![allow(clippy::unwrap_used)]

mod machine_support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dashcam::feed::{self, Lives};
use dashcam::query::Engine;
use dashcam::query::load::{Loaded, Request, load};
use dashcam::query::rehearsal::{Needs, rehearse};
use dashcam::sched::summary::Window;
use rusqlite::types::Value;

use machine_support::{BEGIN, MS, S, Story, record};

const STORY: Story = Story { segments: 24, segment: 3 * S, pace: 2 * MS, seed: 7, silent: 0 };
/// Frames of one segment: its head, one each half second, its end.
const FRAMES: u64 = 8;

fn read(dir: &Path, needs: &Needs, lives: Option<&Lives>, window: Option<Window>) -> Loaded {
    let paths: Vec<PathBuf> = vec![dir.to_owned()];
    let survey = feed::survey(&paths).unwrap();
    let request = Request { paths, window, kept: needs.kept, lives, rows: needs.rows.as_ref() };
    let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.damage, Vec::<String>::new());
    loaded
}

fn lives(dir: &Path) -> Lives {
    Lives::read(&[dir.to_owned()]).unwrap().expect("its segments say who lived")
}

fn engine(loaded: Loaded) -> Engine {
    Engine::open(Arc::new(loaded.columns)).unwrap()
}

/// Rows in an order of their own: that of rows of one instant is not promised.
fn rows(engine: &mut Engine, sql: &str) -> Vec<String> {
    let mut rows: Vec<String> = engine.answer(sql, None).unwrap().rows.iter().map(|r| format!("{r:?}")).collect();
    rows.sort();
    rows
}

fn numbers(engine: &mut Engine, sql: &str) -> Vec<i64> {
    let rows = engine.answer(sql, None).unwrap().rows;
    rows.iter().map(|r| if let Value::Integer(n) = r[0] { n } else { panic!("{r:?}") }).collect()
}

const COLUMNS: [(&str, &str); 3] = [
    ("sched", "ts, dur, cpu, utid, upid, end_state, priority"),
    ("thread_state", "ts, dur, cpu, utid, upid, state, io_wait, blocked_function, waker_utid, irq_context"),
    ("wait", "ts, dur, utid, upid, kind, state, cpu, waker_utid, irq_context, preemptor_utid, end_known"),
];

/// Everything that is asked of a stretch is answered as the whole answers it.
fn same_as_whole(story: Story) {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), story);
    let lives = lives(dir.path());
    let mut whole = engine(read(dir.path(), &Needs::ALL, Some(&lives), None));
    let end = BEGIN + story.segments as u64 * story.segment;
    assert!(numbers(&mut whole, "SELECT count(*) FROM thread")[0] > 100, "lives worth the name");
    let (mut asked, mut answered) = (0, 0);
    for n in 0..60u64 {
        let from = BEGIN + (n * 7919 * MS) % (end - BEGIN);
        let to = from + [3 * MS, 200 * MS, 2 * S, 5 * S][n as usize % 4];
        let (table, columns) = COLUMNS[n as usize % 3];
        let mut bounds = format!("ts BETWEEN {from} AND {to}");
        if n % 2 == 0 {
            let of = format!(
                "SELECT utid FROM {table} WHERE {bounds} GROUP BY utid ORDER BY count(*) DESC LIMIT 1 OFFSET {}",
                n % 5
            );
            let Some(utid) = numbers(&mut whole, &of).pop() else { continue };
            bounds += &format!(" AND utid = {utid}");
        }
        let scripts = [
            format!("SELECT {columns} FROM {table} WHERE {bounds}"),
            format!(
                "SELECT t.*, p.name, p.pid, p.parent_upid, x.dur FROM {table} x JOIN thread t USING (utid) \
                     LEFT JOIN process p ON p.upid = t.upid WHERE {}",
                bounds.replace("utid", "x.utid").replace("ts B", "x.ts B")
            ),
        ];
        for sql in scripts {
            let needs = rehearse(&sql).unwrap();
            assert!(needs.rows.is_some(), "{sql}");
            let part = read(dir.path(), &needs, Some(&lives), None);
            let (some, all) = part.frames;
            let found = rows(&mut engine(part), &sql);
            let expected = rows(&mut whole, &sql);
            let first = found.iter().zip(&expected).find(|(a, b)| a != b);
            assert!(
                found == expected,
                "{sql}\n{} of {} rows, {some} of {all} frames\n{first:?}",
                found.len(),
                expected.len()
            );
            asked += 1;
            answered += found.len();
        }
    }
    assert!(asked > 80 && answered > 1000, "{asked} questions, {answered} rows");
}

#[test]
fn a_stretch_is_answered_as_the_whole_answers_it() {
    same_as_whole(STORY);
}

#[test]
fn segments_that_do_not_say_who_lived_are_read_for_it() {
    same_as_whole(Story { silent: 9, seed: 11, segments: 20, ..STORY });
}

#[test]
fn without_word_of_who_lived_there_is_no_numbering() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Story { silent: 2, segments: 4, ..STORY });
    assert!(Lives::read(&[dir.path().to_owned()]).unwrap().is_none());
}

/// A thread within a moment of a long recording: its segment is read up to then, and on until its last row has ended.
#[test]
fn one_thread_within_a_moment_reads_the_frames_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), STORY);
    let lives = lives(dir.path());
    let mut whole = engine(read(dir.path(), &Needs::ALL, Some(&lives), None));
    // In the middle of the thirteenth segment.
    let from = BEGIN + 12 * STORY.segment + 1500 * MS;
    let bounds = format!("ts BETWEEN {from} AND {}", from + 100 * MS);
    let utid = numbers(&mut whole, &format!("SELECT utid FROM sched WHERE {bounds} AND utid > 0")).remove(0);
    let sql = format!("SELECT ts, dur, cpu, utid, end_state FROM sched WHERE utid = {utid} AND {bounds}");
    let part = read(dir.path(), &rehearse(&sql).unwrap(), Some(&lives), None);
    let (some, all) = part.frames;
    assert_eq!(all, FRAMES * STORY.segments as u64);
    let last = numbers(&mut whole, &format!("SELECT max(ts + dur) FROM sched WHERE utid = {utid} AND {bounds}"))[0];
    // From the head to the frame of the last end, or of what may be told within a second more; and up to four that were
    // under way by then.
    let needed = 1 + (last as u64).max(from + 1100 * MS).saturating_sub(BEGIN + 12 * STORY.segment) / (500 * MS) + 1;
    assert!(some <= needed + 4, "{some} frames were read of {needed} needed, {all} there are");
    let found = rows(&mut engine(part), &sql);
    assert!(!found.is_empty());
    assert_eq!(found, rows(&mut whole, &sql));
}

/// `--from`, `--to` and `--last` change which rows there are, not who is called what.
#[test]
fn utids_are_the_same_whatever_window_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), STORY);
    let lives = lives(dir.path());
    let mut whole = engine(read(dir.path(), &Needs::ALL, Some(&lives), None));
    for n in 0..8 {
        let from = BEGIN + n * 8 * S + 700 * MS;
        let window = Window { from, to: from + S };
        let mut part = engine(read(dir.path(), &Needs::ALL, Some(&lives), Some(window)));
        // Complete slices of the window, and who ran.
        let slices = format!(
            "SELECT ts, dur, cpu, utid, upid FROM sched WHERE ts >= {from} AND dur >= 0 AND ts + dur < {}",
            window.to
        );
        let found = rows(&mut part, &slices);
        assert!(found.len() > 20, "{}", found.len());
        assert_eq!(found, rows(&mut whole, &slices));
        let people = "SELECT utid, tid, upid, start_ts FROM thread WHERE utid IN (SELECT utid FROM sched)";
        let (some, all) = (rows(&mut part, people), rows(&mut whole, people));
        assert!(some.len() < all.len() && some.iter().all(|row| all.contains(row)), "{some:#?}");
        assert!(rows(&mut part, "SELECT 1 FROM thread").len() < rows(&mut whole, "SELECT 1 FROM thread").len());
    }
}

/// From outside: rows of a stretch, and a word on their numbers where those are asked for.
#[test]
fn the_command_says_when_numbers_of_rows_are_those_of_a_part() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Story { segments: 8, ..STORY });
    let from = BEGIN + 10 * S;
    let ask = |columns: &str, more: &[&str]| {
        let sql = format!("SELECT {columns} FROM sched WHERE ts BETWEEN {from} AND {}", from + 100 * MS);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dashcam"));
        let out =
            command.env_remove("DASHCAM_CONFIG").arg("--dir").arg(dir.path()).args(["query", "--format", "csv", &sql]);
        let out = out.args(more).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (rows, said) = ask("ts, dur, utid", &[]);
    assert!(rows.lines().count() > 2);
    assert_eq!(said, "");
    let (_, said) = ask("id, ts", &[]);
    assert!(said.contains(" of 64 frames, those that ts asks for; id numbers the rows of these"), "{said}");
    let (same, said) = ask("ts, dur, utid", &["--last", "20s"]);
    assert_eq!((same, said.as_str()), (rows, ""), "a window asked for in words reads that window");
}
