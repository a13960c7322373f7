//! Who ran instead, where there are too many waits to look at each.

use super::*;

#[test]
fn three_long_waits_among_thousands_of_short_ones_say_who_ran_instead() {
    const US: u64 = 1_000;
    let mut items = vec![Item::CpuState { ts: 1, cpu: 0, tid: 0, prio: 120, since: 1 }, switch(MS, 0, 0, R, 7)];
    let mut at = MS;
    for i in 0..5000 {
        // Not each third one, nor each 20th.
        let (by, lasts) = if [1001, 2501, 4001].contains(&i) { (9, 1000 * MS) } else { (8, 2 * US) };
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
    assert_eq!((row.latency.count, row.times.preempted), (5000, 3000 * MS + 4997 * 2 * US));
    let most = row.ran_instead.unwrap();
    assert_eq!((most.utid, most.estimated), (nine, true));
    // 3 s of 3.009994 s; the short ones are reckoned from 250 of them.
    assert!((most.share - 3.0 / 3.009994).abs() < 1e-5, "{}", most.share);
    // On the thread's own screen each is looked at.
    let most = model.thread(seven, window, 1).unwrap().row.ran_instead.unwrap();
    assert_eq!((most.utid, most.estimated), (nine, false));
    assert!((most.share - 3.0 / 3.009994).abs() < 1e-12, "{}", most.share);
    let starving = overview.findings.iter().find_map(|f| match &f.kind {
        FindingKind::Starving { utid, instead, .. } if *utid == seven => Some(instead.unwrap().utid),
        _ => None,
    });
    assert_eq!(starving, Some(nine));
}
