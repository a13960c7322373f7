//! What must hold for any story.

use super::*;

proptest! {
    /// Whatever happened: a row's times are the window's length, its bar is the row, the lanes' busy time is the
    /// threads' running time.
    #[test]
    fn times_add_up(
        steps in prop::collection::vec((0..2u32, 0..6i32, 0..5usize, 1..40u64, any::<bool>()), 1..150),
        from in 0..1500u64, len in 1..1500u64, cells in 1..40usize, prune: bool,
    ) {
        let states = [R, RP, S, D, S];
        let mut running = [0i32; 2];
        let mut items = vec![];
        let mut ts = 10;
        for (cpu, tid, state, step, wake) in steps {
            ts += step;
            if wake {
                items.push(waking(ts, cpu, tid, cpu));
            } else if !running.contains(&tid) || tid == 0 {
                items.push(switch(ts, cpu, running[cpu as usize], states[state], tid));
                running[cpu as usize] = tid;
            }
        }
        items.push(Item::CompleteThrough { ts: ts + 7 });
        let mut model = told(&items);
        if prune {
            model.prune_before(from / 2);
        }
        let window = Window { from, to: from + len };
        let rows = model.thread_rows(window, cells);
        for row in &rows {
            prop_assert_eq!(row.times.total(), window.len());
            if !row.bar.is_empty() {
                let mut sum = crate::sched::summary::StateTimes::default();
                row.bar.iter().for_each(|b| sum.merge(b));
                prop_assert_eq!(sum, row.times);
            }
        }
        // Without a bar the sums of whole blocks are used: the same numbers.
        let without: Vec<_> = rows.iter().map(|r| (r.utid, r.times, r.cpu, Default::default())).collect();
        let times = model.thread_times(window).into_iter();
        prop_assert_eq!(times.map(|r| (r.utid, r.times, r.cpu, r.latency)).collect::<Vec<_>>(), without);
        for (summed, counted) in model.thread_rows(window, 0).into_iter().zip(&rows) {
            // The sums remember on which CPU a thread ran before what was pruned.
            let migrations = if prune { counted.migrations } else { summed.migrations };
            let bar = counted.bar.clone();
            prop_assert_eq!(crate::sched::summary::ThreadRow { bar, migrations, ..summed }, counted.clone());
        }
        // The first screen and a thread's own say the same of who ran instead.
        for row in model.overview(window, 1, 1, &Thresholds::default()).threads {
            if row.ran_instead.is_some() {
                prop_assert_eq!(model.thread(row.utid, window, 1).unwrap().row.ran_instead, row.ran_instead);
            }
        }
        let ran: u64 = rows.iter().map(|r| r.times.running).sum();
        let busy: u64 = model.cpus().iter().map(|&c| model.busy_known(c, window).0).sum();
        prop_assert_eq!(ran, busy);
        // Cells tile the window.
        let cells: u64 = (0..cells).map(|i| model.busy_known(0, window.cell(i, cells)).0).sum();
        prop_assert_eq!(cells, model.busy_known(0, window).0);
        // Tracks are in order and do not overlap.
        for track in model.timeline(window, 7, &[TrackId::Cpu(0), TrackId::Thread(1)], &NameTable::new()) {
            let ordered = track.windows(2).all(|w| w[0].end.is_some_and(|e| e <= w[1].start));
            prop_assert!(ordered, "{:?}", track);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Numbers no kernel ever wrote: nothing panics, and what is kept follows the number of items, not their claims.
    #[test]
    fn hostile_numbers(items in prop::collection::vec((any_number(), any_cpu(), -3..5i32, 0..6u8, any_number()), 1..40)) {
        let mut model = Model::new(Limits::default());
        let mut seconds = Folding::new(Seconds::new());
        let mut order = crate::sched::order::TimeOrder::new(32);
        let mut names = NameTable::new();
        let text = names.intern(b"B|1|x");
        let mut take = |i: &Item| {
            model.item(i);
            seconds.item(i);
        };
        for (ts, cpu, tid, what, other) in items {
            let item = match what {
                0 => switch(ts, cpu, tid, RP, 3 - tid),
                1 => waking(ts, cpu, tid, other as u32),
                2 => Item::Loss(Loss { cpu, from: ts, to: other, count: Some(other) }),
                3 => Item::Gap { from: ts, to: other },
                4 => Item::CpuState { ts, cpu, tid, prio: tid, since: other },
                _ => event(ts, cpu, EventKind::Print { text }),
            };
            order.push(item, &mut take);
        }
        order.flush(&mut take);
        let window = Window { from: 0, to: u64::MAX };
        let view = model.overview(window, 7, 3, &Thresholds { starving: 0.0, idle_while_ready: 0, ..Thresholds::default() });
        prop_assert!(view.threads.len() < 100);
        for cpu in model.cpus().into_iter().take(4) {
            model.cpu(cpu, window, 5);
            model.timeline(window, 80, &[TrackId::Cpu(cpu)], &names);
        }
        for utid in 0..4 {
            model.thread(utid, window, 5);
            model.chain(utid, 10);
            model.waited_on(utid, window);
            model.timeline(window, 80, &[TrackId::Thread(utid), TrackId::Marks(utid)], &names);
        }
        seconds.sink.take_before(u64::MAX, &seconds.folder);
        model.prune_before(u64::MAX / 3);
        model.finish();
        for utid in 0..4 {
            model.timeline(window, 80, &[TrackId::Cpu(utid), TrackId::Thread(utid)], &names);
        }
    }
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000u64, any::<u64>(), Just(u64::MAX), Just(1u64 << 60), (0..62u32).prop_map(|s| 1u64 << s)]
}

fn any_cpu() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..3u32, 1 => Just(8191u32), 1 => any::<u32>()]
}
