#![allow(clippy::unwrap_used)]

use super::*;
use crate::names::NameTable;
use crate::perfetto::decode::Decoder;
use crate::sched::event::Item;

/// When procfs is asked: after everything that was told.
const NOW: u64 = u64::MAX;

fn comm(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..name.len()].copy_from_slice(name.as_bytes());
    out
}

fn new(ts: u64, tid: Tid, parent: Tid, clone_flags: u64, name: &str) -> Hint {
    Hint::New { ts, tid, parent, clone_flags, comm: comm(name) }
}

fn tree(names: &Names, from: u64) -> (Vec<Tid>, Vec<(Tid, Tid, String)>) {
    let mut out = Vec::new();
    names.write_tree(from, &mut out);
    let (mut pids, mut tids, mut table) = (Vec::new(), Vec::new(), NameTable::new());
    let mut items = Vec::new();
    Decoder::new().decode(&out, &mut table, &mut |item| items.push(item)).unwrap();
    for item in items {
        match item {
            Item::Process(p) => pids.push(p.pid),
            Item::Thread(t) => tids.push((t.tid, t.pid, table.text(t.name))),
            _ => {}
        }
    }
    (pids, tids)
}

#[test]
fn case_50_threads_of_a_sleeping_leader_have_their_process() {
    let mut names = Names::default();
    names.hint(&new(10, 500, 1, 0, "sh"));
    names.hint(&Hint::Renamed { ts: 12, tid: 500, comm: comm("train.py") });
    names.hint(&new(20, 501, 500, CLONE_THREAD, "loader"));
    names.hint(&new(30, 502, 501, CLONE_THREAD, "loader"));
    let (pids, tids) = tree(&names, 100);
    assert_eq!(pids, [500]);
    assert_eq!(tids[2], (502, 500, "loader".into()), "a thread of a thread belongs to the leader");
    assert_eq!(names.process(500).unwrap().name, b"train.py");
}

#[test]
fn case_52_54_a_process_is_read_once_and_not_at_all_if_it_is_gone_by_then() {
    let mut names = Names::default();
    names.hint(&new(0, 7, 1, 0, "a"));
    names.hint(&new(0, 8, 1, 0, "b"));
    names.hint(&Hint::Exec { ts: 5, tid: 7, old_tid: 7 });
    names.hint(&Hint::Gone { ts: 6, tid: 8 });
    assert_eq!(names.next_due(EXEC_DELAY), None);
    assert_eq!(names.next_due(EXEC_DELAY + 5), Some(7));
    assert_eq!(names.next_due(u64::MAX), None);
}

#[test]
fn the_parent_is_that_of_the_birth_until_it_is_gone_and_the_tree_stands_alone() {
    let mut names = Names::default();
    names.hint(&new(5, 400, 1, 0, "sh"));
    names.hint(&new(10, 500, 400, 0, "sh"));
    let read = procfs::Process { pid: 500, ppid: 1, name: b"daemon".to_vec(), ..Default::default() };
    let read = procfs::Process { cmdline: vec![b"daemon".to_vec()], ..read };
    assert!(names.learn_process(&read, NOW));
    assert_eq!(names.process(500).unwrap().ppid, 400, "as the event said, whoever looks after it now");
    let parent = |names: &Names| {
        let (mut out, mut ppid, mut table) = (Vec::new(), None, NameTable::new());
        names.write_tree(20, &mut out);
        let mut take = |item| match item {
            Item::Process(p) if p.pid == 500 => ppid = p.ppid,
            _ => {}
        };
        Decoder::new().decode(&out, &mut table, &mut take).unwrap();
        ppid
    };
    assert_eq!(parent(&names), Some(400));
    names.hint(&Hint::Gone { ts: 15, tid: 400 });
    assert_eq!(parent(&names), Some(1), "400 is in no tree that begins after its end");
}

#[test]
fn case_48_one_life_that_a_scan_met_before_its_birth_was_told_is_not_two() {
    let mut names = Names::default();
    let thread =
        procfs::Thread { tid: 501, pid: 500, name: b"loader".to_vec(), start: 120_000_000, ..Default::default() };
    assert!(names.learn_thread(&thread, NOW));
    names.hint(&new(123_456_789, 501, 500, CLONE_THREAD, "python3"));
    assert_eq!(tree(&names, 0).1, [(501, 500, "loader".into())]);
    assert_eq!(names.thread(501).unwrap().start, Some(123_456_789), "exact now");
    assert!(names.dead.is_empty(), "nobody ended");
    names.hint(&new(140_000_000, 501, 500, CLONE_THREAD, "other"));
    assert_eq!(
        (names.dead.len(), names.thread(501).unwrap().name.as_slice()),
        (1, &b"other"[..]),
        "a later one is another"
    );
}

#[test]
fn a_process_met_before_its_birth_was_told_waits_for_it() {
    let mut names = Names::default();
    let s = 1_000_000_000;
    let read = |start| procfs::Process { pid: 500, ppid: 1, name: b"sleep".to_vec(), start, ..Default::default() };
    assert!(!names.is_too_young(&read(10 * s), 0, 12 * s), "its birth would have been told by now");
    assert!(!names.is_too_young(&read(11 * s), 11 * s + ROUNDING, 12 * s), "it was born before the recording");
    assert!(names.is_too_young(&read(11 * s), 11 * s, 12 * s));
    assert!(names.learn_thread(
        &procfs::Thread { tid: 500, pid: 500, name: b"sleep".to_vec(), start: 11 * s, ..Default::default() },
        NOW
    ));
    names.hint(&new(11 * s + 5, 500, 400, 0, "sh"));
    assert_eq!(names.process(500).map(|p| (p.ppid, p.start)), Some((400, Some(11 * s + 5))));
    assert_eq!(names.thread(500).unwrap().name, b"sleep", "what was read is younger than the event");
    assert_eq!(names.next_due(14 * s), Some(500));
    names.learn_process(&read(11 * s), NOW);
    assert_eq!(names.process(500).unwrap().ppid, 400, "whoever looks after it by then");
}

#[test]
fn case_46_a_head_has_the_name_in_effect_at_its_time() {
    let mut names = Names::default();
    names.hint(&new(10, 500, 1, 0, "sh"));
    names.hint(&new(20, 501, 500, CLONE_THREAD, "sh"));
    assert_eq!(tree(&names, 25).1[1], (501, 500, "sh".into()));
    names.hint(&Hint::Renamed { ts: 30, tid: 501, comm: comm("loader:0") });
    assert_eq!(tree(&names, 60).1[1], (501, 500, "loader:0".into()));
    assert_eq!(names.process(500).unwrap().name, b"sh", "a thread's name is not its process's");
}

#[test]
fn case_48_a_snapshot_that_reaches_back_sees_the_life_of_then() {
    let mut names = Names::default();
    names.hint(&new(10, 500, 1, 0, "first"));
    names.hint(&Hint::Gone { ts: 100, tid: 500 });
    names.hint(&new(200, 500, 1, 0, "second"));
    assert_eq!(tree(&names, 50).1, [(500, 500, "first".into())]);
    assert_eq!(tree(&names, 150).1, [(500, 500, "second".into())]);
    names.forget_dead(101);
    assert_eq!(tree(&names, 50).1, [(500, 500, "second".into())]);
}

#[test]
fn who_came_since_and_ended_is_left_to_the_events() {
    let mut names = Names::default();
    names.hint(&new(10, 500, 1, 0, "there"));
    names.hint(&Hint::Gone { ts: 300, tid: 500 });
    names.hint(&new(100, 501, 1, 0, "brief"));
    names.hint(&Hint::Gone { ts: 200, tid: 501 });
    names.hint(&new(150, 502, 1, 0, "young"));
    names.hint(&new(250, 501, 1, 0, "second of its id"));
    assert_eq!(tree(&names, 50).1, [(500, 500, "there".into()), (502, 502, "young".into())]);
    assert_eq!(tree(&names, 220).1.len(), 3, "the second 501 is the first since then");
}

#[test]
fn an_end_told_while_procfs_was_read_is_not_undone() {
    let mut names = Names::default();
    names.hint(&new(10, 7, 1, 0, "sh"));
    let process = procfs::Process { pid: 7, ppid: 1, name: b"sh".to_vec(), start: 5, ..Default::default() };
    let thread = procfs::Thread { tid: 7, pid: 7, name: b"sh".to_vec(), start: 5, ..Default::default() };
    names.hint(&Hint::Gone { ts: 100, tid: 7 });
    assert!(!names.learn_process(&process, 90) && !names.learn_thread(&thread, 100));
    assert_eq!((names.process(7), names.thread(7)), (None, None));
    assert!(names.learn_process(&process, 101) && names.learn_thread(&thread, 101), "another life under this id");
}

#[test]
fn a_name_told_while_procfs_was_read_is_not_undone() {
    let mut names = Names::default();
    names.hint(&new(10, 7, 1, 0, "sh"));
    let process = procfs::Process { pid: 7, ppid: 1, name: b"sh".to_vec(), start: 5, ..Default::default() };
    let process = procfs::Process { cmdline: vec![b"train.py".to_vec()], ..process };
    let thread = procfs::Thread { tid: 7, pid: 7, name: b"sh".to_vec(), start: 5, ..Default::default() };
    names.hint(&Hint::Renamed { ts: 100, tid: 7, comm: comm("train.py") });
    assert!(names.learn_process(&process, 90), "its command line is news all the same");
    assert!(!names.learn_thread(&thread, 100));
    let known = (names.process(7).unwrap().name.as_slice(), names.thread(7).unwrap().name.as_slice());
    assert_eq!(known, (&b"train.py"[..], &b"train.py"[..]));
    assert!(
        names.learn_process(&process, 101) && names.learn_thread(&thread, 101),
        "read later, so it is as procfs says"
    );
    assert_eq!(names.thread(7).unwrap().name, b"sh");
}

#[test]
fn a_scan_ends_lives_whose_end_was_missed() {
    let mut names = Names::default();
    names.hint(&new(10, 7, 1, 0, "a"));
    names.hint(&new(900, 8, 1, 0, "younger"));
    names.only_these(&FxHashSet::default(), 500);
    assert!(names.thread(7).is_none() && names.thread(8).is_some());
}

#[test]
fn what_procfs_says_is_news_once_and_keeps_the_exact_start() {
    let mut names = Names::default();
    names.hint(&new(123_456_789, 7, 1, 0, "sh"));
    let read = procfs::Process { pid: 7, ppid: 1, name: b"sh".to_vec(), start: 120_000_000, ..Default::default() };
    let read = procfs::Process { cmdline: vec![b"sh".to_vec()], ..read };
    assert!(names.learn_process(&read, NOW));
    assert!(!names.learn_process(&read, NOW));
    assert_eq!(names.process(7).unwrap().start, Some(123_456_789));
}

#[test]
fn command_lines_cannot_blow_up_a_head() {
    let mut names = Names::default();
    for pid in 1..=4000 {
        let cmdline = vec![vec![b'x'; 4000]];
        names.processes.insert(pid, Process { pid, cmdline, name: b"x".to_vec(), ..Process::default() });
    }
    let mut out = Vec::new();
    names.write_tree(0, &mut out);
    assert!((8 << 20..9 << 20).contains(&out.len()), "{} bytes of 16 MB", out.len());
    assert_eq!(tree(&names, 0).0.len(), 4000, "everybody is named all the same");
}
