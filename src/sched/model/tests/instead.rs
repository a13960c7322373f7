//! Who ran instead, where there are too many waits to look at each.

use super::*;

#[test]
fn three_long_waits_among_thousands_of_short_ones_say_who_ran_instead() {
    const US: u64 = 1_000;
    let mut items = vec![Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 }, switch(MS, 0, 0, R, 7)];
    let mut at = MS;
    for i in 0..20_000 {
        let (by, lasts) = if [1001, 2501, 16_001].contains(&i) { (9, 1000 * MS) } else { (8, 2 * US) };
        items.push(switch(at + US, 0, 7, RP, by));
        items.push(switch(at + US + lasts, 0, by, S, 7));
        at += US + lasts;
    }
    items.push(Item::CompleteThrough { ts: at + US });
    let model = told(&items);
    let window = Window { from: 0, to: at + US };
    let overview = model.overview(window, 10, 10, &Thresholds::default());
    let (seven, nine) = (utid(&model, 7), utid(&model, 9));
    let row = overview.threads.iter().find(|r| r.utid == seven).unwrap();
    assert_eq!((row.latency.count, row.times.preempted), (20_000, 3000 * MS + 19_997 * 2 * US));
    let most = row.ran_instead.unwrap();
    assert_eq!((most.utid, most.estimated), (nine, true));
    // 3 s of 3.039994 s, reckoned from 1,024 instants.
    assert!((most.share - 3.0 / 3.039994).abs() < 2.0 / 1024.0, "{}", most.share);
    // On the thread's own screen each is looked at.
    let most = model.thread(seven, window, 1).unwrap().row.ran_instead.unwrap();
    assert_eq!((most.utid, most.estimated), (nine, false));
    assert!((most.share - 3.0 / 3.039994).abs() < 1e-12, "{}", most.share);
    let starving = overview.findings.iter().find_map(|f| match &f.kind {
        FindingKind::Starving { utid, instead, .. } if *utid == seven => Some(instead.unwrap().utid),
        _ => None,
    });
    assert_eq!(starving, Some(nine));
}

/// However many stretches there were beside its first waits.
#[test]
fn who_runs_in_the_second_half_counts_as_in_the_first() {
    const US: u64 = 1_000;
    let mut items = vec![Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 }, switch(MS, 0, 0, R, 7)];
    let mut at = 2 * MS;
    let mut runs = 7;
    let mut run = |at: u64, next: i32| {
        let state = if runs == 7 { RP } else { S };
        items.push(switch(at, 0, runs, state, next));
        runs = next;
    };
    // 100 waits of 1 ms, in which 8 and 10 take turns of 2 µs; then one of 300 ms, in which 9 runs.
    for _ in 0..100 {
        for turn in 0..500 {
            run(at + turn * 2 * US, if turn % 2 == 0 { 8 } else { 10 });
        }
        run(at + MS, 7);
        at += 2 * MS;
    }
    run(at, 9);
    run(at + 300 * MS, 7);
    items.push(Item::CompleteThrough { ts: at + 301 * MS });
    let model = told(&items);
    let window = Window { from: 0, to: at + 301 * MS };
    let rows = model.overview(window, 10, 10, &Thresholds::default()).threads;
    let row = rows.iter().find(|r| r.tid == 7).unwrap();
    assert_eq!(row.times.preempted, 400 * MS);
    let most = row.ran_instead.unwrap();
    assert_eq!((most.utid, most.estimated), (utid(&model, 9), true));
    assert!((most.share - 0.75).abs() < 2.0 / 1024.0, "{}", most.share);
    let (who, estimated) = model.ran_instead(row.utid, window);
    let who: Vec<(Option<Utid>, u64)> = who.iter().map(|s| (s.utid, s.amount)).collect();
    let of = |tid: i32, ms: u64| (Some(utid(&model, tid)), ms * MS);
    assert_eq!((who, estimated), (vec![of(9, 300), of(8, 50), of(10, 50)], false));
}

#[test]
fn who_ran_during_a_wait_is_told_by_how_long() {
    let turns = [(8, 10), (10, 20), (8, 10), (9, 1000), (10, 20)];
    let mut items = vec![Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 }, switch(MS, 0, 0, R, 7)];
    let (mut at, mut runs) = (2 * MS, 7);
    for (next, lasts) in turns {
        items.push(switch(at, 0, runs, if runs == 7 { RP } else { S }, next));
        (at, runs) = (at + lasts * 1000, next);
    }
    items.extend([switch(at, 0, 10, S, 7), Item::CompleteThrough { ts: at + MS }]);
    let model = told(&items);
    let wait = model.worst_wait(utid(&model, 7), Window { from: 0, to: at }).unwrap();
    let of = |tid: i32, us: u64| (utid(&model, tid), us * 1000);
    assert_eq!((wait.dur, wait.meanwhile), (Some(1_060_000), vec![of(9, 1000), of(10, 40), of(8, 20)]));
}
