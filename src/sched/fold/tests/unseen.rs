//! What was not traced: losses, gaps, switches that the kernel left out.

use super::*;

#[test]
fn case_36_nothing_is_paired_across_a_loss() {
    let loss = Item::Loss(Loss { cpu: 0, from: 200, to: 400, count: None });
    let (rows, _) = fold(&[
        switch(50, 1, 0, R, 9),
        switch(100, 0, 0, R, 8),
        switch(110, 0, 8, D, 6),
        waking(190, 1, 7, 0),
        loss,
        switch(450, 0, 5, S, 7),
        switch(500, 0, 7, S, 0),
    ]);
    let seven = rows.of(7);
    assert_eq!(
        (seven[0].start, seven[0].end, seven[0].end_known),
        (190, Some(200), false),
        "a wait of no known length"
    );
    assert_eq!((seven[1].start, seven[1].end, seven[1].end_known), (450, Some(500), true));
    let (six, eight) = (rows.of(6)[0], rows.of(8)[1]);
    assert_eq!((six.end, six.end_known, six.end_state), (Some(200), false, None), "what ran ends unknown");
    assert_eq!((eight.end, eight.end_known), (Some(200), false), "so does a sleep that began there");
    assert_eq!(rows.of(9)[0].end, None, "the other CPU is not touched");
    assert_eq!(rows.states(5)[0], (450, None, Blocked(S)));
    assert_eq!(rows.queue.last(), Some(&(200, 0, 0)));
}

#[test]
fn case_36_a_sleep_without_wake_up_is_doubtful_after_a_loss_elsewhere() {
    let (rows, _) = fold(&[
        switch(10, 0, 0, R, 7),
        switch(20, 0, 7, S, 0),
        switch(30, 1, 0, R, 9),
        Item::Loss(Loss { cpu: 1, from: 40, to: 60, count: Some(3) }),
        switch(100, 0, 0, R, 7),
    ]);
    let sleep = rows.of(7)[1];
    assert_eq!((sleep.state, sleep.end, sleep.end_known), (Blocked(S), Some(100), false));
}

#[test]
fn after_a_loss_a_compact_switch_tells_who_came() {
    let (rows, _) = fold(&[
        switch(10, 0, 0, R, 7),
        Item::Loss(Loss { cpu: 0, from: 0, to: 0, count: None }),
        waking(20, 0, 6, 0),
        switch(30, 0, None, S, 8),
        switch(40, 0, None, S, 0),
    ]);
    assert_eq!(rows.states(7), [(10, Some(10), Running)], "known to have run at its switch-in only");
    assert_eq!(rows.states(8), [(30, Some(40), Running), (40, None, Blocked(S))]);
    assert_eq!((rows.of(6)[0].state, rows.of(6)[0].waker), (Runnable, None), "woken, but nobody knows by whom");
}

#[test]
fn case_59_a_gap_ends_everything() {
    let (rows, folder) = fold(&[
        switch(10, 0, 0, R, 7),
        switch(20, 0, 7, S, 8),
        Item::Gap { from: 100, to: 700 },
        waking(710, 0, 7, 0),
        switch(720, 0, 8, S, 7),
    ]);
    let (seven, eight) = (rows.of(7), rows.of(8));
    assert_eq!((seven[1].end, seven[1].end_known), (Some(100), false));
    assert_eq!((eight[0].end, eight[0].end_known), (Some(100), false));
    assert_eq!(seven[2].start, 710);
    assert_eq!(eight[1].start, 720);
    assert_eq!(folder.latest(), 720);
}

#[test]
fn a_state_block_after_a_loss_never_reaches_back_over_what_was_told() {
    let (rows, _) = fold(&[
        switch(10, 0, 0, R, 7),
        switch(20, 0, 7, S, 8),
        Item::Loss(Loss { cpu: 0, from: 100, to: 200, count: None }),
        Item::CpuState { ts: 250, cpu: 0, tid: 8, prio: 120, since: 20 },
        Item::ThreadState { ts: 250, tid: 7, state: Blocked(S), since: Some(20), cpu: None },
    ]);
    assert_eq!(rows.states(8), [(20, Some(100), Running), (200, None, Running)]);
    assert_eq!(rows.states(7)[1..], [(20, Some(100), Blocked(S)), (100, None, Blocked(S))]);
}

#[test]
fn a_switch_that_does_not_fit_is_not_bridged() {
    let (rows, folder) =
        fold(&[switch(10, 0, 0, R, 7), event(15, 0, EventKind::Idle { cpu: 0, state: 1 }), switch(30, 0, 8, S, 9)]);
    assert_eq!(folder.stats().mismatched, 1);
    let seven = rows.of(7)[0];
    assert_eq!((seven.end, seven.end_known, seven.end_state), (Some(15), false, None));
    assert_eq!(rows.states(8), [(30, None, Blocked(S))]);
}

#[test]
fn a_wake_up_by_another_than_who_came_tells_of_a_switch_that_was_not_traced() {
    let by = |tid, item| match item {
        Item::Event(e) => Item::Event(Event { emitter: Some(tid), ..e }),
        other => other,
    };
    // 7 runs and wakes 5; then 8, whose coming was not traced, wakes 6 and goes to sleep.
    let (rows, folder) = fold(&[
        switch(10, 0, 0, R, 7),
        by(7, waking(20, 0, 5, 1)),
        by(8, waking(40, 0, 6, 1)),
        waking(45, 0, 4, 1),
        switch(50, 0, None, S, 0),
    ]);
    assert_eq!(folder.stats().mismatched, 1);
    let seven = rows.of(7)[0];
    assert_eq!((seven.start, seven.end, seven.end_known), (10, Some(20), false));
    assert_eq!(rows.of(7).len(), 1, "what it did after 20 nobody knows");
    assert_eq!(rows.states(8), [(40, Some(50), Running), (50, None, Blocked(S))]);
    assert_eq!(rows.of(8)[0].prio, None);
    let (seven, eight) = (rows.utid(7), rows.utid(8));
    let woken: Vec<_> = rows.wakes.iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(woken, [(20, Some(seven)), (40, Some(eight)), (45, Some(eight))]);
}

#[test]
fn a_second_wake_up_tells_that_the_thread_ran_untraced() {
    // Woken by its timer each second; neither its coming nor its going is traced.
    let (rows, folder) = fold(&[
        switch(5, 0, 9, S, 0),
        woken_by_interrupt(10, 0, 7, 0),
        woken_by_interrupt(1010, 0, 7, 0),
        switch(1015, 0, 0, R, 7),
    ]);
    assert_eq!(folder.stats().mismatched, 1);
    assert_eq!(rows.states(7), [(10, Some(10), Runnable), (1010, Some(1015), Runnable), (1015, None, Running)]);
    assert_eq!(rows.of(7).iter().map(|i| i.end_known).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(rows.queue, [(10, 0, 1), (1010, 0, 0), (1010, 0, 1), (1015, 0, 0)]);
}

#[test]
fn impossible_cpus_are_counted_and_change_nothing() {
    let (rows, folder) = fold(&[
        switch(10, u32::MAX, 0, R, 7),
        Item::Loss(Loss { cpu: u32::MAX, from: 1, to: 2, count: None }),
        Item::CpuState { ts: 5, cpu: 1 << 20, tid: 7, prio: 1, since: 1 },
        Item::CpuOnline { ts: 5, cpu: 1 << 20, online: false },
    ]);
    assert_eq!((folder.stats().bad_cpu, rows.intervals.len()), (4, 0));
}
