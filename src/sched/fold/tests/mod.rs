//! The rules of the module page, each on a few events with values worked out by hand.
#![allow(clippy::unwrap_used)]

mod random;
mod unseen;

use super::super::event::{Event, EventKind, Item, Loss, ThreadFact, ThreadNow, Tid, Wake};
use super::super::order::TimeOrder;
use super::super::state::TaskState;
use super::super::testing::{D, R, RP, S, event, switch, waking, woken_by_interrupt};
use super::{Consumer, Folder, Folding, Interval, Sink, Utid};
use crate::names::NameId;

#[derive(Default, Clone, PartialEq, Debug)]
struct Rows {
    intervals: Vec<Interval>,
    tids: Vec<Tid>,
    wakes: Vec<(u64, Option<Utid>, Utid)>,
    queue: Vec<(u64, u32, u32)>,
    in_d: Vec<(u64, u32, u32)>,
    late: Vec<(u32, bool, NameId)>,
}

impl Sink for Rows {
    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(*interval);
    }
    fn wake(&mut self, ts: u64, waker: Option<Utid>, wakee: Utid, _target_cpu: u32) {
        self.wakes.push((ts, waker, wakee));
    }
    fn new_thread(&mut self, _ts: u64, _utid: Utid, tid: Tid) {
        self.tids.push(tid);
    }
    fn queue(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.queue.push((ts, cpu, depth));
    }
    fn uninterruptible(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.in_d.push((ts, cpu, depth));
    }
    fn late_reason(&mut self, _utid: Utid, row: u32, io_wait: bool, function: NameId) {
        self.late.push((row, io_wait, function));
    }
}

impl Rows {
    /// Intervals of a tid, in row order.
    fn of(&self, tid: Tid) -> Vec<Interval> {
        let mut of: Vec<Interval> =
            self.intervals.iter().filter(|i| self.tids[i.utid as usize] == tid).copied().collect();
        of.sort_by_key(|i| i.row);
        of
    }

    /// (start, end, state) of a tid.
    fn states(&self, tid: Tid) -> Vec<(u64, Option<u64>, ThreadNow)> {
        self.of(tid).iter().map(|i| (i.start, i.end, i.state)).collect()
    }

    fn utid(&self, tid: Tid) -> Utid {
        self.tids.iter().position(|&t| t == tid).unwrap() as Utid
    }
}

fn fold(items: &[Item]) -> (Rows, Folder) {
    let mut folding = Folding::new(Rows::default());
    items.iter().for_each(|i| folding.item(i));
    folding.end();
    (folding.sink, folding.folder)
}

use ThreadNow::{Blocked, Preempted, Runnable, Running};

#[test]
fn a_life_of_one_thread() {
    let (rows, folder) = fold(&[
        switch(100, 0, 0, R, 7),
        switch(150, 0, 7, S, 0),
        waking(180, 0, 7, 0),
        switch(200, 0, 0, R, 7),
        switch(260, 0, 7, RP, 8),
        switch(300, 0, 8, D, 7),
    ]);
    assert_eq!(
        rows.states(7),
        [
            (100, Some(150), Running),
            (150, Some(180), Blocked(S)),
            (180, Some(200), Runnable),
            (200, Some(260), Running),
            (260, Some(300), Preempted),
            (300, None, Running),
        ]
    );
    let seven = rows.of(7);
    assert_eq!((seven[0].end_state, seven[3].end_state, seven[5].end_state), (Some(S), Some(RP), None));
    assert_eq!(seven[4].preemptor, Some(rows.utid(8)));
    assert_eq!((seven[4].left, seven[2].waker.unwrap().0, seven[2].cpu), (RP, 0, Some(0)));
    assert_eq!(rows.queue, [(180, 0, 1), (200, 0, 0), (260, 0, 1), (300, 0, 0)]);
    assert_eq!(rows.in_d, [(300, 0, 1)]);
    // Running rows of all threads are numbered by themselves.
    let mut slices: Vec<_> = rows.intervals.iter().filter_map(|i| i.slice).collect();
    slices.sort_unstable();
    assert_eq!(slices, [0, 1, 2, 3, 4]);
    assert_eq!(folder.stats().events, 6);
}

#[test]
fn case_9_a_wake_race_is_woken_not_preempted() {
    let (rows, _) = fold(&[
        switch(900, 1, 0, R, 9),
        switch(1_000, 0, 0, R, 7),
        waking(90_000, 1, 7, 0),
        switch(92_000, 0, 7, R, 8),
        switch(99_000, 0, 8, S, 7),
        waking(99_500, 1, 7, 0),
        switch(199_500, 0, 7, R, 8),
    ]);
    let seven = rows.of(7);
    assert_eq!((seven[1].state, seven[1].waker.map(|w| w.0)), (Runnable, Some(rows.utid(9))));
    assert_eq!(seven[1].preemptor, None);
    assert_eq!(seven[3].state, Preempted, "100 us later the wake-up explains nothing");
    assert_eq!(seven[3].preemptor, Some(rows.utid(8)));
}

#[test]
fn case_24_order_of_arrival_does_not_matter() {
    let items = [switch(100, 0, 0, R, 7), switch(120, 0, 7, S, 0), switch(80, 1, 0, R, 9), waking(90, 1, 7, 0)];
    let mut folding = Folding::new(Rows::default());
    let mut order = TimeOrder::new(100);
    for item in items {
        order.push(item, &mut |i| folding.item(i));
    }
    order.push(Item::CompleteThrough { ts: 1_000 }, &mut |i| folding.item(i));
    folding.end();
    let wait = folding.sink.of(7)[0];
    assert_eq!((wait.state, wait.start, wait.end), (Runnable, 90, Some(100)));
}

#[test]
fn case_26_valid_from_is_where_all_cpus_are_covered() {
    let (_, folder) = fold(&[switch(10, 0, 0, R, 7), switch(20, 0, 7, S, 0), switch(50_000, 1, 0, R, 8)]);
    assert_eq!(folder.valid_from(), 50_000);
}

#[test]
fn case_27_what_still_runs_at_the_end_has_no_end_and_was_not_preempted() {
    let (rows, _) = fold(&[switch(100, 0, 0, R, 7), event(900, 0, EventKind::Rename { tid: 7, comm: NameId(1) })]);
    let seven = rows.of(7);
    assert_eq!((seven.len(), seven[0].end, seven[0].end_state, seven[0].end_known), (1, None, None, true));
}

#[test]
fn case_28_a_state_block_says_who_runs_where_nothing_happens() {
    let (rows, folder) = fold(&[
        Item::CpuState { ts: 1_000, cpu: 3, tid: 7, prio: 100, since: 400 },
        Item::ThreadState { ts: 1_000, tid: 8, state: Blocked(D), since: Some(300), cpu: Some(3) },
        switch(1_500, 0, 0, R, 9),
    ]);
    assert_eq!(rows.states(7), [(400, None, Running)]);
    assert_eq!((rows.of(7)[0].prio, rows.of(7)[0].cpu), (Some(100), Some(3)));
    assert_eq!(rows.states(8), [(300, None, Blocked(D))]);
    assert_eq!(folder.covered_since(3), Some(400));
}

#[test]
fn case_30_a_wake_up_before_the_sleep_began_means_it_never_slept() {
    let wake = [switch(50, 1, 0, R, 9), switch(60, 0, 0, R, 7), waking(100, 1, 7, 0), switch(101, 0, 7, S, 0)];
    let (rows, _) = fold(&[&wake[..], &[switch(150, 0, 0, R, 7)]].concat());
    let ready = rows.of(7)[1];
    assert_eq!((ready.state, ready.start, ready.end), (Runnable, 101, Some(150)));
    assert_eq!(ready.waker, Some((rows.utid(9), Some(rows.of(9)[0].row))));
    // Another wake-up follows: the first was taken back by the thread itself, and it did sleep.
    let (rows, _) = fold(&[&wake[..], &[waking(140, 1, 7, 0), switch(150, 0, 0, R, 7)]].concat());
    assert_eq!(rows.states(7)[1..3], [(101, Some(140), Blocked(S)), (140, Some(150), Runnable)]);
    // While it is not decided, it counts as ready.
    let mut folder = Folder::new();
    wake.iter().for_each(|i| folder.push(i, &mut ()));
    assert_eq!(folder.now(folder.threads().utid_of(7).unwrap()), Runnable);
}

#[test]
fn case_32_a_wake_up_from_interrupt_blames_nobody() {
    let (rows, _) = fold(&[switch(50, 0, 0, R, 9), woken_by_interrupt(100, 0, 7, 0)]);
    let ready = rows.of(7)[0];
    assert_eq!((ready.from_interrupt, ready.waker.map(|w| w.0)), (Some(true), Some(rows.utid(9))));
    assert_eq!(rows.wakes, [(100, None, rows.utid(7))]);
}

#[test]
fn case_33_the_queue_follows_a_migration_the_label_stays() {
    let (rows, _) = fold(&[
        switch(10, 3, 0, R, 9),
        switch(10, 7, 0, R, 0),
        waking(20, 3, 7, 3),
        event(30, 3, EventKind::Migrate { tid: 7, from_cpu: 3, to_cpu: 7 }),
        switch(40, 7, 0, R, 7),
    ]);
    assert_eq!(rows.queue, [(20, 3, 1), (30, 3, 0), (30, 7, 1), (40, 7, 0)]);
    assert_eq!((rows.of(7)[0].cpu, rows.of(7)[1].cpu), (Some(3), Some(7)));
}

#[test]
fn case_35_the_state_belongs_to_the_thread_that_left() {
    // Compact: nobody says who left first.
    let (rows, folder) = fold(&[switch(100, 0, None, D, 2), switch(200, 0, None, S, 1), switch(300, 0, None, D, 2)]);
    assert_eq!(folder.stats().skipped_switches, 1);
    assert_eq!(rows.states(2), [(200, Some(300), Blocked(S)), (300, None, Running)]);
    assert_eq!(rows.states(1), [(200, Some(300), Running), (300, None, Blocked(D))]);
}

#[test]
fn case_97_state_blocks_in_a_continuous_stream_change_nothing() {
    let first = [switch(10, 0, 0, R, 7), switch(20, 0, 7, S, 8), switch(25, 1, 0, R, 9), waking(30, 1, 7, 0)];
    let second = [switch(60, 0, 8, RP, 7), switch(70, 1, 9, S, 0)];
    let block = [
        Item::CpuState { ts: 50, cpu: 0, tid: 8, prio: 120, since: 20 },
        Item::CpuState { ts: 50, cpu: 1, tid: 9, prio: 120, since: 25 },
        Item::ThreadState { ts: 50, tid: 7, state: Runnable, since: Some(30), cpu: Some(0) },
        Item::Thread(ThreadFact { tid: 7, pid: 7, name: NameId::EMPTY, start: None, ts: 50 }),
    ];
    let with = fold(&[&first[..], &block[..], &second[..]].concat()).0;
    let without = fold(&[&first[..], &second[..]].concat()).0;
    assert_eq!(with.intervals, without.intervals);
    assert_eq!(with.queue, without.queue);
    // And a segment alone begins where its block says.
    let alone = fold(&[&block[..], &second[..]].concat()).0;
    assert_eq!(alone.states(8)[0], (20, Some(60), Running));
    assert_eq!(alone.states(7)[0], (30, Some(60), Runnable));
}

#[test]
fn case_48_two_lives_of_one_tid_share_nothing() {
    let (rows, _) = fold(&[
        switch(10, 0, 0, R, 1),
        event(20, 0, EventKind::NewTask { tid: 500, comm: NameId(1), clone_flags: 0 }),
        switch(30, 0, 1, S, 500),
        event(40, 0, EventKind::Exit { tid: 500 }),
        switch(50, 0, 500, TaskState::DEAD, 1),
        event(60, 0, EventKind::Free { tid: 500 }),
        event(70, 0, EventKind::NewTask { tid: 500, comm: NameId(2), clone_flags: 0 }),
        switch(80, 0, 1, S, 500),
    ]);
    let of = rows.of(500);
    let lives: Vec<Utid> = of.iter().map(|i| i.utid).collect();
    assert_eq!(lives, [lives[0], lives[0], lives[0], lives[3], lives[3]]);
    assert_ne!(lives[0], lives[3]);
    assert_eq!((of[2].state, of[2].end), (Blocked(TaskState::DEAD), None), "death has no end");
    assert_eq!(of[3].waker.map(|w| w.0), Some(rows.utid(1)), "the creator woke it");
}

#[test]
fn the_idle_thread_is_one_life_on_all_cpus() {
    let (rows, folder) =
        fold(&[switch(10, 0, 7, S, 0), switch(12, 1, 8, S, 0), switch(20, 0, 0, R, 7), switch(22, 1, 0, R, 8)]);
    let idle = rows.of(0);
    assert_eq!(
        idle.iter().map(|i| (i.start, i.end, i.cpu)).collect::<Vec<_>>(),
        [(10, Some(20), Some(0)), (12, Some(22), Some(1)),]
    );
    assert!(idle.iter().all(|i| i.utid == 0 && i.state == Running && i.end_state == Some(R)));
    assert_eq!(folder.threads().len(), 3);
}

#[test]
fn one_thread_on_two_cpus_is_cut_where_the_later_begins() {
    // CPU 1's clock is 2 ns ahead: the switch-in there comes before the switch-out here.
    let (rows, _) = fold(&[
        switch(10, 0, 0, R, 7),
        switch(11, 1, 0, R, 9),
        switch(20, 1, 9, S, 7),
        switch(22, 0, 7, R, 0),
        switch(40, 1, 7, S, 0),
    ]);
    assert_eq!(rows.states(7), [(10, Some(20), Running), (20, Some(40), Running), (40, None, Blocked(S))]);
}

#[test]
fn the_blocked_function_reaches_an_open_and_a_closed_sleep() {
    let reason = |ts| event(ts, 0, EventKind::BlockedReason { tid: 7, io_wait: true, function: NameId(5) });
    let begin = [switch(10, 0, 0, R, 7), switch(20, 0, 7, D, 8)];
    let (rows, _) = fold(&[&begin[..], &[reason(20)]].concat());
    assert_eq!((rows.of(7)[1].io_wait, rows.of(7)[1].function), (Some(true), NameId(5)));
    let (rows, _) = fold(&[&begin[..], &[waking(30, 0, 7, 0), reason(31)]].concat());
    assert_eq!(rows.late, [(rows.of(7)[1].row, true, NameId(5))]);
}

#[test]
fn sched_wakeup_alone_tells_when_but_not_by_whom() {
    let wakeup = |ts| event(ts, 0, EventKind::Wakeup(Wake { tid: 7, prio: 120, comm: NameId(3), target_cpu: 1 }));
    let (rows, folder) = fold(&[switch(10, 0, 0, R, 9), wakeup(20), wakeup(21)]);
    assert_eq!(rows.states(7), [(20, None, Runnable)]);
    assert_eq!((rows.of(7)[0].waker, rows.of(7)[0].cpu), (None, Some(1)));
    assert_eq!(folder.threads().get(rows.utid(7)).unwrap().name(), NameId(3));
}

#[test]
fn sampling_sees_states_change_but_no_waits() {
    let state = |ts, state| Item::ThreadState { ts, tid: 7, state, since: None, cpu: Some(0) };
    let on = |ts, tid| Item::CpuState { ts, cpu: 0, tid, prio: 120, since: 0 };
    let (rows, _) = fold(&[
        Item::Sampled { hz: 20 },
        on(0, 7),
        on(50, 7),
        state(100, Blocked(S)),
        on(100, 0),
        state(150, Blocked(S)),
        state(200, Blocked(D)),
    ]);
    assert_eq!(rows.states(7), [(0, Some(100), Running), (100, Some(200), Blocked(S)), (200, None, Blocked(D))]);
}
