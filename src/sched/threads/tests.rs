#![allow(clippy::unwrap_used)]

use super::*;

const A: NameId = NameId(1);
const B: NameId = NameId(2);

#[test]
fn case_46_the_name_in_effect_at_a_time() {
    let mut t = Threads::new();
    let u = t.seen(10, 500, A);
    t.rename(30, 500, B);
    let life = t.get(u).unwrap();
    assert_eq!((life.name_at(5), life.name_at(29), life.name_at(30), life.name()), (A, A, B, B));
    // A later head repeats the new name: nothing changes, the old one still held before 30.
    t.thread_fact(&ThreadFact { tid: 500, pid: 500, name: B, start: None, ts: 60 });
    assert_eq!(t.get(u).unwrap().names(), &[(10, A), (30, B)]);
}

#[test]
fn case_48_a_tid_freed_and_reused_is_two_lives() {
    let mut t = Threads::new();
    let one = t.new_task(10, 500, A, 0, None).0;
    t.exit(500);
    assert_eq!(t.free(20, 500), Some(one));
    let two = t.new_task(30, 500, B, 0, None).0;
    assert_ne!(one, two);
    assert_eq!((t.get(one).unwrap().end, t.get(two).unwrap().start), (Some(20), Some(30)));
    assert_ne!(t.get(one).unwrap().upid, t.get(two).unwrap().upid);
}

#[test]
fn case_48_across_segments_a_head_tells_of_another_owner() {
    let mut t = Threads::new();
    let one = t.thread_fact(&ThreadFact { tid: 500, pid: 400, name: A, start: None, ts: 0 }).0;
    let again = t.thread_fact(&ThreadFact { tid: 500, pid: 400, name: A, start: None, ts: 60 }).0;
    assert_eq!(one, again, "the same owner is the same life");
    let (two, replaced) = t.thread_fact(&ThreadFact { tid: 500, pid: 410, name: B, start: None, ts: 120 });
    assert_eq!(replaced, Some(one));
    assert_eq!(t.owner(two).unwrap().pid, 410);
    assert_eq!(t.owner(one).unwrap().pid, 400);
}

#[test]
fn case_48_a_late_free_does_not_end_the_next_life() {
    let mut t = Threads::new();
    let one = t.new_task(10, 500, A, 0, None).0;
    t.exit(500);
    let two = t.new_task(20, 500, B, 0, None).0;
    assert_eq!(t.free(21, 500), None);
    assert_eq!(t.utid_of(500), Some(two));
    assert_eq!(t.get(one).unwrap().end, Some(20));
}

#[test]
fn case_50_the_owner_is_known_while_the_leader_sleeps() {
    let mut t = Threads::new();
    t.process_fact(&ProcessFact { pid: 100, name: A, ..ProcessFact::default() });
    t.thread_fact(&ThreadFact { tid: 101, pid: 100, name: B, start: None, ts: 0 });
    let worker = t.seen(5, 101, B);
    let spawned = t.new_task(6, 102, B, CLONE_THREAD, Some(worker)).0;
    let upid = t.get(spawned).unwrap().upid.unwrap();
    assert_eq!(t.process(upid).unwrap().pid, 100);
    assert_eq!(t.process_name(upid), A);
}

#[test]
fn exec_by_another_thread_keeps_its_life_under_the_leaders_tid() {
    let mut t = Threads::new();
    let leader = t.new_task(1, 100, A, 0, None).0;
    let worker = t.new_task(2, 101, A, CLONE_THREAD, Some(leader)).0;
    assert_eq!(t.exec(3, 100, 101), Some(leader));
    assert_eq!((t.utid_of(100), t.utid_of(101)), (Some(worker), None));
    assert_eq!(t.get(leader).unwrap().end, Some(3));
    assert!(t.owner(worker).unwrap().end.is_none());
}

#[test]
fn hostile_tids_and_endless_renames_stay_bounded() {
    let mut t = Threads::new();
    for (i, tid) in [-5, i32::MIN, i32::MAX, 1 << 22].into_iter().enumerate() {
        assert_eq!(t.seen(1, tid, A), i as u32 + 1);
    }
    for i in 0..10_000u32 {
        t.rename(u64::from(i) + 2, -5, NameId(i % 7 + 1));
    }
    let life = t.get(1).unwrap();
    assert!(life.names().len() <= MAX_NAMES);
    assert_eq!(life.name_at(0), A, "the first name stays");
    assert_eq!(life.name(), NameId(9_999 % 7 + 1));
}
