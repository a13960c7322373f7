//! What is not known: beyond the data, losses, gaps, samples, what was left out or forgotten.

use super::*;
use crate::sched::state::TaskState;

#[test]
fn case_96_windows_beyond_the_data_are_unknown_never_negative() {
    let mut model = told(&story());
    for _ in 0..2 {
        let row = model.thread_rows(ms(900, 2000), 4).into_iter().find(|r| r.tid == 7).unwrap();
        assert_eq!((row.times.running, row.times.runnable), (50 * MS, 50 * MS));
        assert_eq!((row.times.unknown, row.times.total()), (1000 * MS, 1100 * MS));
        let cpu = &model.lanes(ms(900, 2000), 11)[0];
        assert_eq!((cpu.busy, cpu.cells[0].busy, cpu.cells[5].busy), (Some(0.5), Some(0.5), None));
        // The same once the data has ended.
        model.finish();
    }
    assert_eq!(model.bounds().unwrap().to, 1000 * MS);
}

#[test]
fn case_27_what_runs_at_the_end_is_open_and_no_switch() {
    let mut model = told(&story());
    model.finish();
    let span = model.span_at(TrackId::Thread(utid(&model, 7)), 960 * MS, 0).unwrap().span;
    assert_eq!((span.start, span.end, span.end_state), (950 * MS, None, None));
    let row = model.thread_rows(ms(0, 1000), 0).into_iter().find(|r| r.tid == 7).unwrap();
    assert_eq!(row.involuntary, 1);
}

#[test]
fn a_thread_has_no_time_before_its_birth_nor_after_its_end() {
    let model = told(&[
        Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 },
        event(400 * MS, 0, EventKind::NewTask { tid: 9, comm: NameId(5), clone_flags: 0 }),
        switch(410 * MS, 0, 0, R, 9),
        event(419 * MS, 0, EventKind::Exit { tid: 9 }),
        switch(420 * MS, 0, 9, TaskState::ZOMBIE, 0),
        event(600 * MS, 0, EventKind::Free { tid: 9 }),
        Item::CompleteThrough { ts: 1000 * MS },
    ]);
    let nine = model.threads().iter().find(|(_, life)| life.tid == 9).unwrap().0;
    let rows = model.overview(ms(0, 1000), 10, 10, &Thresholds::default()).threads;
    let row = rows.iter().find(|r| r.utid == nine).unwrap();
    let t = row.times;
    assert_eq!((t.runnable, t.running, t.other, t.unknown, t.absent), (10 * MS, 10 * MS, 180 * MS, 0, 800 * MS));
    let cells: Vec<u64> = row.bar.iter().map(|cell| cell.absent / MS).collect();
    assert_eq!(cells, [100, 100, 100, 100, 0, 0, 100, 100, 100, 100]);
    let track = |columns| model.timeline(ms(0, 1000), columns, &[TrackId::Thread(nine)], &NameTable::new()).remove(0);
    let ends: Vec<_> = track(1000).iter().map(|s| (s.start / MS, s.end.map(|e| e / MS))).collect();
    assert_eq!(ends, [(400, Some(410)), (410, Some(420)), (420, Some(600))]);
    // In one column: the bundle ends where the life does, and says what it did while it lived.
    let [bundle] = track(1)[..] else { panic!() };
    assert_eq!((bundle.start, bundle.end), (400 * MS, Some(600 * MS)));
    assert_ne!(bundle.state, ThreadNow::Blocked(TaskState::ZOMBIE));
}

#[test]
fn a_life_of_many_short_runs_is_drawn_as_long_as_it_was() {
    let mut items = vec![
        Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 },
        event(400 * MS, 0, EventKind::NewTask { tid: 9, comm: NameId(5), clone_flags: 0 }),
    ];
    for run in 0..30 {
        items.push(switch((401 + 2 * run) * MS, 0, 0, R, 9));
        items.push(switch((402 + 2 * run) * MS, 0, 9, R, 0));
    }
    items.extend([
        switch(461 * MS, 0, 0, R, 9),
        event(462 * MS, 0, EventKind::Exit { tid: 9 }),
        switch(463 * MS, 0, 9, TaskState::ZOMBIE, 0),
        event(470 * MS, 0, EventKind::Free { tid: 9 }),
        Item::CompleteThrough { ts: 1000 * MS },
    ]);
    let model = told(&items);
    let nine = model.threads().iter().find(|(_, life)| life.tid == 9).unwrap().0;
    let track = model.timeline(ms(0, 1000), 2, &[TrackId::Thread(nine)], &NameTable::new()).remove(0);
    assert_eq!(track.iter().map(|s| (s.start / MS, s.end.map(|e| e / MS))).collect::<Vec<_>>(), [(400, Some(470))]);
}

#[test]
fn loss_is_unknown_time_and_says_so() {
    let mut items = story();
    items.insert(12, Item::Loss(Loss { cpu: 0, from: 400 * MS, to: 500 * MS, count: Some(9) }));
    let model = told(&items);
    let view = model.overview(ms(0, 1000), 10, 10, &Thresholds::default());
    let cell = view.cpus[0].cells[4];
    assert_eq!((cell.busy, cell.loss), (None, true));
    assert_eq!(view.cpus[0].lost, Some(Some(9)));
    assert!(!view.cpus[0].cells[2].loss && !view.cpus[1].cells[4].loss);
    let row = view.threads.iter().find(|r| r.tid == 7).unwrap();
    assert_eq!(row.times.preempted, 100 * MS, "known to wait up to the loss only");
    assert_eq!(row.latency.count, 2, "a wait cut by a loss has no length");
    let lost = view.findings.iter().find(|f| matches!(f.kind, FindingKind::Lost { .. })).unwrap();
    assert_eq!(lost.kind, FindingKind::Lost { cpu: 0, count: Some(9), ns: 100 * MS });
    assert_eq!(lost.at, ms(400, 500));
}

#[test]
fn sampled_data_has_shares_and_no_waits() {
    let on = |ts, cpu, tid| Item::CpuState { ts: ts * MS, cpu, tid, prio: 120, since: ts * MS };
    let ready = |ts| Item::ThreadState { ts: ts * MS, tid: 8, state: ThreadNow::Runnable, since: None, cpu: Some(0) };
    let mut items = vec![Item::Sampled { hz: 20 }, on(0, 0, 7), on(0, 1, 0), ready(0)];
    for ts in (0..1000).step_by(100) {
        items.extend([ready(ts), on(ts + 50, 0, 8), on(ts + 100, 0, 7), ready(ts + 100)]);
    }
    items.push(Item::CompleteThrough { ts: 1000 * MS });
    let model = told(&items);
    let eight = utid(&model, 8);
    let view = model.overview(ms(0, 1000), 10, 10, &Thresholds::default());
    let row = view.threads.iter().find(|r| r.tid == 8).unwrap();
    assert_eq!((row.times.running, row.times.runnable), (500 * MS, 500 * MS));
    assert_eq!((row.latency.count, row.ran_instead, row.last_waker, row.sampled), (0, None, None, true));
    let kinds: Vec<_> = view.findings.iter().map(|f| (&f.kind, f.at)).collect();
    let starving = FindingKind::Starving { utid: eight, share: 0.5, latency: Default::default(), instead: None };
    assert_eq!(
        kinds,
        [(&starving, ms(0, 1000))],
        "nobody is blamed, no worst wait, and CPU 1 was not seen to be idle just then"
    );
    let detail = model.thread(eight, ms(0, 1000), 10).unwrap();
    assert!(detail.worst.is_empty() && detail.ran_instead.is_empty() && detail.histogram.iter().all(|h| *h == (0, 0)));
}

#[test]
fn pruning_forgets_what_ended_and_keeps_what_reaches_over() {
    let mut model = told(&story());
    let before = model.len();
    model.prune_before(650 * MS);
    assert!(model.len() < before);
    let seven = utid(&model, 7);
    assert_eq!(model.state_at(seven, 620 * MS), ThreadNow::Running);
    assert_eq!(model.state_at(seven, 400 * MS), ThreadNow::Unknown);
    assert_eq!(model.bounds(), Some(ms(650, 1000)));
    assert!((model.lanes(ms(650, 750), 1)[0].busy.unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn limits_bound_what_is_kept() {
    let mut model = Model::new(Limits { intervals: 1000, time: 50 * MS });
    model.item(&switch(1, 0, 0, R, 7));
    for i in 1..200_000u64 {
        let on = if i % 2 == 0 { (8, 7) } else { (7, 8) };
        model.item(&switch(i * 1000, 0, on.0, RP, on.1));
    }
    assert!(model.len() <= 1000, "{}", model.len());
    assert!(model.bounds().unwrap().len() <= 60 * MS);
}

#[test]
fn case_28_a_pinned_cpu_without_a_switch_is_busy_not_empty() {
    let model = told(&[
        Item::CpuState { ts: 60_000 * MS, cpu: 3, tid: 7, prio: 120, since: 10 * MS },
        Item::CompleteThrough { ts: 120_000 * MS },
    ]);
    let lanes = model.lanes(ms(60_000, 120_000), 60);
    let lane = lanes.iter().find(|l| l.cpu == 3).unwrap();
    assert_eq!(lane.busy, Some(1.0));
    assert!(lane.cells.iter().all(|c| c.busy == Some(1.0)));
    assert_eq!(lane.running, Some((utid(&model, 7), 10 * MS)));
    let row = &model.thread_rows(ms(60_000, 120_000), 0)[0];
    assert_eq!(row.times.running, 60_000 * MS);
}

#[test]
fn case_59_a_suspend_is_a_gap_not_idleness() {
    let mut items = story();
    items.push(Item::Gap { from: 1_000 * MS, to: 601_000 * MS });
    items.push(switch(601_500 * MS, 0, 7, S, 0));
    items.push(Item::CompleteThrough { ts: 602_000 * MS });
    let model = told(&items);
    let lane = &model.lanes(ms(900, 602_000), 1)[0];
    // Known: 50 ms idle and 50 ms of 7 before, 500 ms idle after.
    assert!((lane.busy.unwrap() - 50.0 / 600.0).abs() < 1e-9, "{:?}", lane.busy);
    assert_eq!(model.lanes(ms(2_000, 600_000), 1)[0].busy, None);
    assert_eq!(model.gaps(ms(0, 602_000)), [ms(1_000, 601_000)]);
    let row = model.thread_rows(ms(0, 602_000), 0).into_iter().find(|r| r.tid == 7).unwrap();
    assert_eq!((row.times.running, row.times.sleeping), (350 * MS, 500 * MS), "nothing is said of the gap");
}

#[test]
fn case_26_numbers_are_valid_from_where_all_cpus_are_covered() {
    let model = told(&[switch(10 * MS, 0, 0, R, 7), switch(50_000 * MS, 1, 0, R, 8)]);
    let view = model.overview(ms(0, 60_000), 6, 0, &Thresholds::default());
    assert_eq!(view.valid_from, 50_000 * MS);
    assert_eq!(view.cpus[1].cells[2].busy, None, "not idle: not recorded");
}

#[test]
fn a_wait_beside_an_idle_cpu_is_doubted_where_switches_are_left_out() {
    // 7 is woken for CPU 1, which stays idle; that somebody else than who came last leaves CPU 0 tells of the holes.
    let whole = [
        switch(10 * MS, 0, 0, R, 8),
        switch(10 * MS, 1, 9, S, 0),
        woken_by_interrupt(20 * MS, 1, 7, 1),
        switch(30 * MS, 0, 8, S, 0),
        Item::CompleteThrough { ts: 420 * MS },
    ];
    let mut holed = whole.clone();
    holed[3] = switch(30 * MS, 0, 6, S, 0);
    let ready = |items: &[Item]| {
        let model = told(items);
        let view = model.overview(ms(20, 420), 1, 1, &Thresholds::default());
        let row = view.threads.iter().find(|r| r.tid == 7).unwrap().clone();
        let starving = view.findings.iter().any(|f| matches!(f.kind, FindingKind::Starving { .. }));
        (row.now, row.times.runnable, row.times.unknown, starving)
    };
    assert_eq!(ready(&whole), (ThreadNow::Runnable, 400 * MS, 0, true), "a quota can do that");
    assert_eq!(ready(&holed), (ThreadNow::Unknown, 0, 400 * MS, false));
}

#[test]
fn a_thread_whose_runs_were_left_out_has_moved_all_the_same() {
    let mut items = vec![switch(10 * MS, 0, 0, R, 7), switch(11 * MS, 0, 7, S, 0)];
    items.extend((20..40).map(|at| woken_by_interrupt(at * MS, 0, 7, 0)));
    items.extend([switch(50 * MS, 1, 0, R, 7), Item::CompleteThrough { ts: 60 * MS }]);
    let rows = told(&items).thread_rows(ms(45, 60), 0);
    assert_eq!(rows.iter().map(|r| (r.tid, r.migrations)).collect::<Vec<_>>(), [(7, 1)]);
}
