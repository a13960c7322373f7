#![allow(clippy::unwrap_used)]

use super::*;

const S: TaskState = TaskState::SLEEPING;
const D: TaskState = TaskState::UNINTERRUPTIBLE;
const R_PLUS: TaskState = TaskState::PREEMPTED;

impl Tracker {
    fn on(&self, cpu: u32) -> u16 {
        self.place(cpu).unwrap_or(NOWHERE)
    }
}

fn switch(prev: (Tid, TaskState), next: (Tid, i32), name: &[u8]) -> Switch {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    Switch { prev: prev.0, state: prev.1, next: next.0, prio: next.1, comm }
}

fn states(t: &Tracker) -> Vec<(Tid, ThreadNow, u64)> {
    let mut out = Vec::new();
    t.threads_now(&mut out);
    out.into_iter().map(|t| (t.tid, t.state, t.since.unwrap())).collect()
}

#[test]
fn case_28_a_cpu_without_a_switch_is_busy_in_the_next_summary() {
    let mut t = Tracker::new(&[0], 0);
    t.switch(t.on(0), 500_000_000, &switch((0, TaskState::RUNNABLE), (7, 120), b"spin\0"));
    let (first, _) = t.take_summary(1_000_000_000);
    assert_eq!(first.lanes[0].cells[0].busy, Some(1.0), "nothing is known of the time before the first switch");
    let (second, _) = t.take_summary(3_000_000_000);
    assert_eq!(second.lanes[0].cells.iter().map(|c| c.busy).collect::<Vec<_>>(), [Some(1.0), Some(1.0)]);
    let mut now = Vec::new();
    t.cpus_now(&mut now);
    assert_eq!(now, [CpuNow { cpu: 0, tid: 7, prio: 120, since: 500_000_000 }]);
}

#[test]
fn states_follow_switches_and_wakings() {
    let mut t = Tracker::new(&[0, 1], 0);
    t.switch(t.on(0), 10, &switch((5, S), (6, 120), b"b"));
    t.switch(t.on(0), 20, &switch((6, R_PLUS), (7, 120), b"c"));
    assert_eq!(
        states(&t),
        [(5, ThreadNow::Blocked(S), 10), (6, ThreadNow::Preempted, 20), (7, ThreadNow::Running, 20)]
    );
    t.waking(30, 5, 1);
    t.switch(t.on(1), 45, &switch((0, TaskState::RUNNABLE), (5, 120), b"a"));
    assert_eq!(states(&t)[0], (5, ThreadNow::Running, 45));
    t.gone(6);
    assert_eq!(states(&t).len(), 2);
    let (_, worst) = t.take_summary(50);
    assert_eq!(worst, Some(WorstWait { dur: 15, at: 30, tid: 5, name: b"a".to_vec() }));
}

#[test]
fn case_24_a_wake_up_delivered_after_its_run_still_counts() {
    let mut t = Tracker::new(&[0, 1], 0);
    t.switch(t.on(0), 10, &switch((5, S), (0, 120), b""));
    t.switch(t.on(0), 100, &switch((0, TaskState::RUNNABLE), (5, 120), b"a"));
    t.waking(90, 5, 0);
    assert_eq!(states(&t), [(5, ThreadNow::Running, 100)]);
    assert_eq!(t.take_summary(200).0.lanes[0].cells[0].worst_wait, 10);
}

#[test]
fn ready_and_blocked_counts_are_the_greatest_at_once() {
    let mut t = Tracker::new(&[0], 0);
    for (ts, tid) in [(1, 11), (2, 12), (3, 13)] {
        t.waking(ts, tid, 0);
    }
    t.switch(t.on(0), 4, &switch((9, D), (11, 120), b""));
    t.switch(t.on(0), 5, &switch((11, D), (12, 120), b""));
    t.waking(6, 9, 0);
    t.switch(t.on(0), 7, &switch((12, S), (13, 120), b""));
    let cell = t.take_summary(10).0.lanes[0].cells[0];
    assert_eq!((cell.ready, cell.blocked), (3, 2));
}

#[test]
fn what_ran_without_a_wake_up_is_not_counted_twice() {
    let mut t = Tracker::new(&[0, 1], 0);
    // 11 is woken, then seen to leave CPU 0 although its coming was not recorded; three times over.
    for ts in [10, 20, 30] {
        t.waking(ts, 11, 1);
        t.switch(t.on(0), ts + 5, &switch((11, TaskState::PREEMPTED), (0, 120), b""));
    }
    t.switch(t.on(0), 40, &switch((0, TaskState::RUNNABLE), (11, 120), b""));
    t.waking(41, 12, 0);
    let cells: Vec<_> = t.take_summary(50).0.lanes.iter().map(|l| l.cells[0].ready).collect();
    assert_eq!(cells, [1, 1], "never more than one thread at once was ready on either CPU");
}

#[test]
fn a_second_wake_up_begins_the_wait_anew() {
    let mut t = Tracker::new(&[0], 0);
    t.waking(10, 7, 0);
    t.waking(1010, 7, 0);
    t.switch(t.on(0), 1015, &switch((0, TaskState::RUNNABLE), (7, 120), b"a"));
    let (summary, worst) = t.take_summary(2000);
    assert_eq!((worst.unwrap().dur, summary.lanes[0].cells[0].ready), (5, 1));
}

#[test]
fn case_30_woken_while_it_leaves_it_was_ready_since_it_left() {
    let mut t = Tracker::new(&[0], 0);
    t.switch(t.on(0), 50, &switch((0, TaskState::RUNNABLE), (7, 120), b""));
    t.waking(100, 7, 0);
    t.switch(t.on(0), 101, &switch((7, S), (8, 120), b""));
    t.switch(t.on(0), 150, &switch((8, S), (7, 120), b"seven\0"));
    let worst = t.take_summary(200).1.expect("there was a wait");
    assert_eq!((worst.dur, worst.at, worst.tid, worst.name.as_slice()), (49, 101, 7, &b"seven"[..]));
}

#[test]
fn case_36_a_loss_forgets_what_was_on_that_cpu() {
    let mut t = Tracker::new(&[0, 1], 0);
    t.switch(t.on(0), 10, &switch((5, S), (6, 120), b""));
    t.switch(t.on(1), 10, &switch((0, TaskState::RUNNABLE), (8, 120), b""));
    t.waking(20, 5, 0);
    t.loss(t.on(0), 30, 50, Some(12));
    t.loss(t.on(0), 50, 50, None);
    assert_eq!(states(&t), [(8, ThreadNow::Running, 10)]);
    assert!(!t.covers_all());
    t.switch(t.on(0), 60, &switch((6, S), (5, 120), b"x"));
    let (summary, worst) = t.take_summary(100);
    assert_eq!(worst, None, "no wait is paired across the loss");
    assert_eq!(summary.lanes[0].cells[0].loss.known, 12);
    assert!(summary.lanes[0].cells[0].loss.unknown);
    // Known: 10..30 and 60..100, all busy.
    assert_eq!(summary.lanes[0].cells[0].busy, Some(1.0));
}

#[test]
fn case_19_sparse_and_hostile_ids() {
    let mut t = Tracker::new(&[0, 3, 1025], 0);
    t.switch(t.on(1025), 10, &switch((-5, S), (i32::MAX, 120), b""));
    t.switch(t.on(2), 10, &switch((1, S), (2, 120), b""));
    let mut now = Vec::new();
    t.cpus_now(&mut now);
    assert_eq!(now.len(), 1);
    assert_eq!(t.take_summary(20).0.lanes.iter().map(|l| l.cpu).collect::<Vec<_>>(), [0, 3, 1025]);
}
