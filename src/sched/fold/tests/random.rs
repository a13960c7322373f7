//! Stories that nobody wrote: whatever comes, the intervals stay in order and add up.

use super::*;
use proptest::prelude::*;

fn any_item() -> impl Strategy<Value = Item> {
    let state = prop::sample::select(vec![R, RP, S, D, TaskState::DEAD]);
    let tid = 0..6i32;
    let now = prop::sample::select(vec![Running, Runnable, Preempted, Blocked(S), Blocked(D), ThreadNow::Unknown]);
    let cpu = 0..3u32;
    prop_oneof![
        8 => (cpu.clone(), prop::option::weighted(0.8, tid.clone()), state, tid.clone())
            .prop_map(|(cpu, prev, state, next)| switch(0, cpu, prev, state, next)),
        4 => (cpu.clone(), tid.clone(), cpu.clone()).prop_map(|(cpu, tid, target)| waking(0, cpu, tid, target)),
        1 => (tid.clone(), cpu.clone()).prop_map(|(tid, to)| event(0, 0, EventKind::Migrate { tid, from_cpu: 0, to_cpu: to })),
        1 => (tid.clone(), 0..2u64).prop_map(|(tid, thread)| {
            event(0, 0, EventKind::NewTask { tid, comm: NameId(1), clone_flags: thread << 16 })
        }),
        1 => tid.clone().prop_map(|tid| event(0, 0, EventKind::Exit { tid })),
        1 => tid.clone().prop_map(|tid| event(0, 0, EventKind::Free { tid })),
        1 => (tid.clone(), tid.clone()).prop_map(|(tid, old_tid)| {
            event(0, 0, EventKind::Exec { tid, old_tid, filename: NameId(1) })
        }),
        1 => (cpu.clone(), 0..40u64).prop_map(|(cpu, back)| Item::Loss(Loss { cpu, from: back, to: 0, count: None })),
        1 => (0..40u64).prop_map(|back| Item::Gap { from: back, to: 0 }),
        1 => (cpu.clone(), tid.clone(), 0..90u64).prop_map(|(cpu, tid, since)| {
            Item::CpuState { ts: 0, cpu, tid, prio: 120, since }
        }),
        1 => (tid, now, prop::option::of(0..90u64), prop::option::of(cpu.clone())).prop_map(|(tid, state, since, cpu)| {
            Item::ThreadState { ts: 0, tid, state, since, cpu }
        }),
        1 => (cpu, any::<bool>()).prop_map(|(cpu, online)| Item::CpuOnline { ts: 0, cpu, online }),
    ]
}

/// Puts an item at `at`; numbers drawn for `from` and `since` count backwards from there.
fn placed(mut item: Item, at: u64) -> Item {
    match &mut item {
        Item::Event(e) => e.ts = at,
        Item::Loss(l) => (l.from, l.to) = (at.saturating_sub(l.from), at),
        Item::Gap { from, to } => (*from, *to) = (at.saturating_sub(*from), at),
        Item::CpuState { ts, since, .. } => (*ts, *since) = (at, at.saturating_sub(*since)),
        Item::ThreadState { ts, since, .. } => (*ts, *since) = (at, since.map(|s| at.saturating_sub(s))),
        Item::CpuOnline { ts, .. } => *ts = at,
        _ => {}
    }
    item
}

proptest! {
    /// Whatever is told, in whatever order: rows are dense, no thread is in two states at once, no CPU runs two threads
    /// at once, queues never count below zero nor anything that is over.
    #[test]
    fn intervals_never_overlap(items in prop::collection::vec((any_item(), 0..30u64), 1..120)) {
        let mut at = 100;
        let mut folding = Folding::new(Rows::default());
        for (item, step) in items {
            at += step;
            folding.item(&placed(item, at));
        }
        folding.end();
        let rows = &folding.sink.intervals;
        let mut numbers: Vec<u32> = rows.iter().map(|i| i.row).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..rows.len() as u32).collect::<Vec<_>>());
        let no_overlap = |mut list: Vec<&Interval>| {
            list.sort_by_key(|i| (i.start, i.end.unwrap_or(u64::MAX), i.row));
            list.windows(2).all(|w| w[0].end.is_some_and(|end| end <= w[1].start))
        };
        for utid in 1..folding.sink.tids.len() as Utid {
            let of: Vec<&Interval> = rows.iter().filter(|i| i.utid == utid).collect();
            prop_assert!(no_overlap(of.clone()), "{:?}", of);
        }
        for cpu in 0..3 {
            let of: Vec<&Interval> = rows.iter().filter(|i| i.state == Running && i.cpu == Some(cpu)).collect();
            prop_assert!(no_overlap(of.clone()), "{:?}", of);
        }
        prop_assert!(rows.iter().all(|i| i.end.is_none_or(|end| end >= i.start)));
        prop_assert!(rows.iter().all(|i| i.state != ThreadNow::Unknown));
        prop_assert!(folding.sink.queue.iter().all(|q| q.2 < 6), "six threads cannot make a longer queue");
    }
}
