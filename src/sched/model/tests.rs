//! Answers of the model on one small story, with values worked out by hand. Times are written in ms.
#![allow(clippy::unwrap_used)]

use super::super::event::{CpuFact, EventKind, Item, Loss, ProcessFact, ThreadFact, ThreadNow};
use super::super::findings::Thresholds;
use super::super::fold::{Consumer, Folding, Utid};
use super::super::seconds::Seconds;
use super::super::summary::{FindingKind, Severity, TrackId, Window};
use super::super::testing::{D, R, RP, S, event, switch, waking, woken_by_interrupt};
use super::timeline::BUNDLE;
use super::{Limits, Model, SearchFor};
use crate::names::{NameId, NameTable};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const FUNCTION: NameId = NameId(1);

fn ms(from: u64, to: u64) -> Window {
    Window { from: from * MS, to: to * MS }
}

/// CPU 0 runs 7, which 8 pushes off, then blocks in D; CPU 1 runs 9 now and then, which 7 wakes.
fn story() -> Vec<Item> {
    let block = |cpu| Item::CpuState { ts: 1, cpu, tid: 0, prio: 120, since: 1 };
    let at = |ms: u64| ms * MS;
    vec![
        Item::Process(ProcessFact { pid: 7, cmdline: vec![NameId(2), NameId(3)], ..ProcessFact::default() }),
        Item::Thread(ThreadFact { tid: 8, pid: 7, name: NameId(4), start: None, ts: 0 }),
        Item::Cpu(CpuFact { cpu: 1, node: 1, online: true, ..CpuFact::default() }),
        Item::OwnThread { tid: 9 },
        block(0),
        block(1),
        switch(at(50), 1, 0, R, 9),
        switch(at(80), 1, 9, S, 0),
        woken_by_interrupt(at(90), 0, 7, 0),
        switch(at(100), 0, 0, R, 7),
        waking(at(250), 0, 8, 0),
        switch(at(300), 0, 7, RP, 8),
        switch(at(600), 0, 8, S, 7),
        waking(at(620), 0, 9, 1),
        switch(at(640), 1, 0, R, 9),
        switch(at(660), 1, 9, S, 0),
        switch(at(700), 0, 7, D, 0),
        event(at(700), 0, EventKind::BlockedReason { tid: 7, io_wait: true, function: FUNCTION }),
        woken_by_interrupt(at(900), 1, 7, 0),
        switch(at(950), 0, 0, R, 7),
        Item::CompleteThrough { ts: at(1000) },
    ]
}

fn told(items: &[Item]) -> Model {
    let mut model = Model::new(Limits::default());
    items.iter().for_each(|i| model.item(i));
    model
}

fn utid(model: &Model, tid: i32) -> Utid {
    model.threads().utid_of(tid).unwrap()
}

#[test]
fn a_thread_row_adds_up() {
    let model = told(&story());
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let rows = model.overview(ms(0, 1000), 10, 10, &Thresholds::default()).threads;
    let row = rows.iter().find(|r| r.utid == seven).unwrap();
    let t = row.times;
    assert_eq!((t.running, t.runnable, t.preempted), (350 * MS, 60 * MS, 300 * MS));
    assert_eq!((t.uninterruptible, t.sleeping, t.unknown, t.total()), (200 * MS, 0, 90 * MS, 1000 * MS));
    let l = row.latency;
    assert_eq!((l.count, l.p50, l.p99, l.max, l.max_at), (3, 50 * MS, 300 * MS, 300 * MS, 300 * MS));
    assert_eq!((row.voluntary, row.involuntary, row.migrations), (1, 1, 0));
    assert_eq!((row.now, row.cpu, row.last_waker), (ThreadNow::Running, Some(0), Some(None)));
    assert_eq!((row.blocked_function, row.blocked_max), (FUNCTION, 200 * MS));
    let (who, share) = row.ran_instead.unwrap();
    assert_eq!(who, eight);
    assert!((share - 300.0 / 360.0).abs() < 1e-9);
    assert_eq!((row.pid, &row.cmdline[..]), (Some(7), &[NameId(2), NameId(3)][..]));
    assert_eq!((row.bar[1].running, row.bar[3].preempted, row.bar[9].runnable), (100 * MS, 100 * MS, 50 * MS));
    assert_eq!((row.bar[0].unknown, row.bar[0].runnable), (90 * MS, 10 * MS));
}

#[test]
fn threads_together_have_the_percentiles_of_all_their_waits() {
    let model = told(&story());
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    // 7 waited 10, 300 and 50 ms, 8 waited 50 ms.
    let l = model.latency_of(&[seven, eight], ms(0, 1000));
    assert_eq!((l.count, l.p50, l.p99, l.max), (4, 50 * MS, 300 * MS, 300 * MS));
    assert_eq!((l.total, l.max_at), (410 * MS, 300 * MS));
    for window in [ms(0, 1000), ms(0, 600), ms(310, 590), ms(240, 960)] {
        for row in model.thread_rows(window, 0) {
            assert_eq!(model.latency_of(&[row.utid], window), row.latency, "{window:?} {}", row.tid);
        }
    }
    assert_eq!(model.latency_of(&[], ms(0, 1000)).count, 0);
}

#[test]
fn a_blocked_thread_has_the_stack_it_blocked_with() {
    let (first, second) = (NameId(10), NameId(11));
    let mut items = story();
    // They come with their frame, not where they belong, and another thread may block at the same instant.
    items.push(Item::Stack { ts: 700 * MS + 2_000, tid: 8, functions: second });
    items.push(Item::Stack { ts: 700 * MS + 1_000, tid: 7, functions: first });
    items.push(Item::Stack { ts: 950 * MS, tid: 7, functions: second });
    let model = told(&items);
    let at = |tid: i32, ms: u64| model.span_at(TrackId::Thread(utid(&model, tid)), ms * MS, 0).unwrap().stack;
    assert_eq!(at(7, 800), first);
    assert_eq!(at(7, 400), NameId::EMPTY, "it was pushed off there");
    assert_eq!(at(7, 960), NameId::EMPTY, "it runs");
    assert_eq!(at(9, 700), NameId::EMPTY, "none was recorded");
}

#[test]
fn case_39_own_threads_are_told_apart_and_left_out_of_findings() {
    let model = told(&story());
    let rows = model.thread_rows(ms(0, 1000), 0);
    assert!(rows.iter().find(|r| r.tid == 9).unwrap().own);
    assert!(!rows.iter().find(|r| r.tid == 8).unwrap().own);
    let harsh = Thresholds { starving: 0.0, ..Thresholds::default() };
    let found = model.overview(ms(0, 1000), 1, 1, &harsh).findings;
    let starving: Vec<Utid> = found
        .iter()
        .filter_map(|f| if let FindingKind::Starving { utid, .. } = f.kind { Some(utid) } else { None })
        .collect();
    assert_eq!(starving, [utid(&model, 7), utid(&model, 8)], "9 waited 20 ms, but it is the recorder's");
}

#[test]
fn a_lane_says_how_busy_and_with_whom() {
    let model = told(&story());
    let lanes = model.overview(ms(0, 1000), 10, 1, &Thresholds::default()).cpus;
    let busy: Vec<Option<f32>> = lanes[0].cells.iter().map(|c| c.busy).collect();
    let mut expected = [Some(1.0); 10];
    (expected[0], expected[7], expected[8], expected[9]) = (Some(0.0), Some(0.0), Some(0.0), Some(0.5));
    // The state block speaks of the first instant after 0: the first cell is known but for 1 ns.
    assert_eq!(busy, expected);
    assert!((lanes[0].busy.unwrap() - 650.0 * MS as f64 / (1000.0 * MS as f64 - 1.0)).abs() < 1e-12);
    assert_eq!(lanes[0].cells[1].top, model.threads().get(utid(&model, 7)).unwrap().upid);
    assert_eq!((lanes[0].cells[0].top, lanes[0].cells[3].ready_max), (None, 1));
    assert_eq!((lanes[1].node, lanes[1].online, lanes[1].cells.len()), (1, true, 10));
    assert_eq!(lanes[0].running, Some((utid(&model, 7), 950 * MS)));
    assert_eq!((lanes[0].ready_now, lanes[0].lost), (0, None));
    assert_eq!(model.overview(ms(0, 500), 1, 1, &Thresholds::default()).cpus[0].ready_now, 1, "7 waits at 500 ms");
}

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
fn findings_carry_their_numbers() {
    let model = told(&story());
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let thresholds = Thresholds { blocked: 150 * MS, pushed_off_per_s: 0.5, ..Thresholds::default() };
    let found = model.overview(ms(0, 1000), 1, 1, &thresholds).findings;
    assert_eq!(found.len(), 4, "{found:?}");
    let FindingKind::Starving { utid, share, latency, instead } = &found[0].kind else { panic!("{found:?}") };
    assert_eq!((*utid, latency.max, instead.unwrap().0), (seven, 300 * MS, eight));
    assert!((share - 0.36).abs() < 1e-9);
    assert_eq!((found[0].at, found[0].severity), (ms(300, 600), Severity::Warning));
    let blocked = FindingKind::LongBlocked { utid: seven, longest: 200 * MS, count: 1, function: FUNCTION };
    assert_eq!((&found[1].kind, found[1].at), (&blocked, ms(700, 900)));
    let idle = FindingKind::IdleWhileReady { cpu: 1, idle_ns: 360 * MS, utid: seven, ready_cpu: 0 };
    assert_eq!((&found[2].kind, found[2].at, found[2].severity), (&idle, ms(300, 600), Severity::Note));
    assert_eq!(found[3].kind, FindingKind::PushedOff { utid: seven, per_s: 1.0, by: Some((eight, 1.0)) });
    assert_eq!(model.overview(ms(0, 0), 1, 1, &thresholds).findings, [], "no time, no findings");
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
fn one_thread_with_a_cpu_while_others_wait_there() {
    let model = told(&story());
    // From 300 to 600 ms thread 8 has CPU 0 and 7 waits there.
    let found = model.overview(ms(300, 600), 1, 1, &Thresholds::default()).findings;
    let at_fault = found.iter().find_map(|f| match f.kind {
        FindingKind::Monopolised { cpu, utid, share, ready_ns } => Some((cpu, utid, share, ready_ns)),
        _ => None,
    });
    let (cpu, who, share, ready_ns) = at_fault.unwrap();
    assert_eq!((cpu, who, share), (0, utid(&model, 8), 1.0));
    // Counted in cells of 134 ms, so a little of the neighbourhood is in it.
    assert!((300 * MS..440 * MS).contains(&ready_ns), "{ready_ns}");
}

#[test]
fn the_thread_screen_splits_wakeups_from_preemption() {
    let model = told(&story());
    let (seven, eight, nine) = (utid(&model, 7), utid(&model, 8), utid(&model, 9));
    let detail = model.thread(seven, ms(0, 1000), 10).unwrap();
    assert_eq!((detail.wakeup.count, detail.wakeup.max), (2, 50 * MS));
    assert_eq!((detail.preemption.count, detail.preemption.max_at), (1, 300 * MS));
    assert_eq!(detail.histogram.len(), 29, "300 ms are between 2^28 and 2^29 ns");
    assert_eq!((detail.histogram[28], detail.histogram[25], detail.histogram[23]), ((1, 1), (1, 0), (1, 0)));
    assert_eq!(detail.woken_by.iter().map(|s| (s.utid, s.amount)).collect::<Vec<_>>(), [(None, 2)]);
    assert_eq!(
        detail.wakes.iter().map(|s| (s.utid, s.amount)).collect::<Vec<_>>(),
        [(Some(eight), 1), (Some(nine), 1)]
    );
    assert_eq!(detail.blocked, [(FUNCTION, 200 * MS, 1, 200 * MS)]);
    assert_eq!((detail.prio, detail.worst.len()), (Some(120), 3));
    let worst = &detail.worst[0];
    assert_eq!((worst.start, worst.dur, worst.preemptor), (300 * MS, Some(300 * MS), Some(eight)));
    assert_eq!(worst.meanwhile, [(eight, 300 * MS)]);
    assert!(model.thread(99, ms(0, 1000), 1).is_none());
}

#[test]
fn the_cpu_screen_says_who_used_it() {
    let model = told(&story());
    let cpu = model.cpu(0, ms(0, 1000), 10).unwrap();
    let used: Vec<(Option<Utid>, u64)> = cpu.used_by.iter().map(|s| (s.utid, s.amount)).collect();
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    assert_eq!(used, [(Some(seven), 350 * MS), (Some(0), 350 * MS - 1), (Some(eight), 300 * MS)]);
    assert_eq!(cpu.slices.iter().map(|s| s.start / MS).collect::<Vec<_>>(), [950, 700, 600, 300, 100, 0]);
    assert_eq!((cpu.slices[0].end, cpu.slices[2].end_state), (None, Some(D)));
    assert_eq!((cpu.switches, cpu.irq_ns), (6, None));
}

#[test]
fn selection_tells_before_next_waker_and_latency() {
    let model = told(&story());
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let on_cpu = model.span_at(TrackId::Cpu(0), 350 * MS, 0).unwrap();
    assert_eq!((on_cpu.span.utid, on_cpu.before, on_cpu.next), (eight, Some(seven), Some(seven)));
    assert_eq!((on_cpu.latency, on_cpu.waker), (Some(50 * MS), Some(Some(seven))));
    assert_eq!(on_cpu.waker_state, Some(ThreadNow::Running));
    let next = model.span_at(TrackId::Thread(seven), 350 * MS, 1).unwrap();
    assert_eq!((next.span.start, next.span.state), (600 * MS, ThreadNow::Running));
    let blocked = model.span_at(TrackId::Thread(seven), 350 * MS, 2).unwrap();
    assert_eq!((blocked.waker, blocked.io_wait, blocked.wait.unwrap().function), (Some(None), Some(true), FUNCTION));
    assert_eq!(model.span_at(TrackId::Thread(seven), 350 * MS, 4).unwrap().span.end, None);
    assert!(model.span_at(TrackId::Thread(seven), 350 * MS, 5).is_none());
    assert!(model.span_at(TrackId::Thread(seven), 350 * MS, -3).is_none());
    let idle = model.span_at(TrackId::Cpu(0), 800 * MS, 0).unwrap();
    assert_eq!((idle.span.utid, idle.before, idle.next), (0, Some(seven), Some(seven)));
    assert_eq!(model.worst_wait(seven, ms(0, 1000)).unwrap().start, 300 * MS);
    assert_eq!(model.wait_at(seven, 650 * MS), None, "it ran");
}

#[test]
fn a_chain_leads_back_to_who_ran() {
    let model = told(&story());
    let (seven, eight, nine) = (utid(&model, 7), utid(&model, 8), utid(&model, 9));
    let links = model.chain(nine, 200 * MS);
    let short: Vec<_> = links.iter().map(|l| (l.depth, l.utid, l.state, (l.share * 540.0).round() as u64)).collect();
    assert_eq!(
        short,
        [
            (0, Some(nine), ThreadNow::Blocked(S), 540),
            (1, Some(seven), ThreadNow::Running, 220),
            (1, Some(seven), ThreadNow::Preempted, 300),
            (2, Some(eight), ThreadNow::Running, 300),
        ]
    );
    assert_eq!(links[2].preemptor, Some(eight));
    let io = model.chain(seven, 800 * MS);
    assert_eq!((io[0].function, io[1].utid, io[1].share), (FUNCTION, None, 1.0));
    assert!(model.chain(seven, 650 * MS).is_empty());
    let on = model.waited_on(nine, ms(0, 1000));
    assert_eq!(on.total, 540 * MS + 20 * MS + 340 * MS);
    assert_eq!((on.wakers[0].utid, on.wakers[0].amount), (Some(seven), 540 * MS));
    assert_eq!(on.roots.iter().map(|s| s.utid).collect::<Vec<_>>(), [Some(eight), Some(seven)]);
    let on = model.waited_on(seven, ms(0, 1000));
    assert_eq!((on.preemptors[0].utid, on.preemptors[0].amount), (Some(eight), 300 * MS));
    assert_eq!((on.functions[0].0, on.wakers[0].utid), (FUNCTION, None));
}

#[test]
fn the_time_line_bundles_what_is_shorter_than_a_column() {
    let model = told(&story());
    let names = NameTable::new();
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let tracks = [TrackId::Cpu(0), TrackId::Thread(seven)];
    let fine = model.timeline(ms(0, 1000), 1000, &tracks, &names);
    assert_eq!(fine[0].iter().map(|s| s.utid).collect::<Vec<_>>(), [0, seven, eight, seven, 0, seven]);
    assert_eq!(fine[1].len(), 7);
    assert_eq!((fine[1][2].end_state, fine[1][1].end_state), (None, Some(RP)));
    let coarse = model.timeline(ms(0, 1000), 2, &tracks, &names);
    assert_eq!(
        coarse[0].iter().map(|s| (s.start / MS, s.end.map(|e| e / MS), s.utid, s.row)).collect::<Vec<_>>(),
        [(0, Some(600), eight, BUNDLE), (600, None, 0, BUNDLE),]
    );
}

#[test]
fn markers_nest_and_reach_over_the_window() {
    let mut names = NameTable::new();
    let mut print = |ms: u64, text: &[u8]| event(ms * MS, 0, EventKind::Print { text: names.intern(text) });
    let prints =
        [print(110, b"B|7|a"), print(120, b"B|7|b"), print(130, b"E|7"), print(140, b"hello"), print(620, b"E|7")];
    let mut items = story();
    for (at, item) in [(10, &prints[0]), (11, &prints[1]), (12, &prints[2]), (13, &prints[3]), (18, &prints[4])] {
        items.insert(at, item.clone());
    }
    let model = told(&items);
    let marks = |w| {
        let of = model.marks(w, &names).into_iter();
        of.map(|m| (m.start / MS, m.end.unwrap() / MS, m.depth, String::from_utf8(m.name.into()).unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(marks(ms(125, 128)), [(110, 620, 0, "a".into()), (120, 130, 1, "b".into())]);
    assert_eq!(marks(ms(135, 300)), [(110, 620, 0, "a".into()), (140, 140, 1, "hello".into())]);
    let hit = model.search(&SearchFor::Mark("ell".into()), 0, true, &names).unwrap();
    assert_eq!((hit.at.from, hit.utid), (140 * MS, Some(utid(&model, 7))));
}

#[test]
fn search_finds_the_nearest_both_ways() {
    let model = told(&story());
    let mut names = NameTable::new();
    for name in ["f", "x", "y", "worker/8"] {
        names.intern(name.as_bytes());
    }
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let find = |what: SearchFor, from: u64, forward| {
        model.search(&what, from * MS, forward, &names).map(|h| (h.utid.unwrap(), h.at.from / MS))
    };
    assert_eq!(find(SearchFor::WaitOver(250 * MS), 0, true), Some((seven, 300)));
    assert_eq!(find(SearchFor::WaitOver(150 * MS), 1000, false), Some((seven, 700)));
    assert_eq!(find(SearchFor::WaitOver(250 * MS), 300, true), None);
    assert_eq!(find(SearchFor::State(ThreadNow::Blocked(S), Some(eight)), 0, true), Some((eight, 600)));
    assert_eq!(find(SearchFor::State(ThreadNow::Running, None), 950, false), Some((utid(&model, 9), 640)));
    assert_eq!(find(SearchFor::Thread("work*8".into()), 0, true), Some((eight, 250)));
    assert_eq!(find(SearchFor::Thread("7".into()), 960, false), Some((seven, 950)));
    assert_eq!(find(SearchFor::Thread("nobody".into()), 0, true), None);
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
fn seconds_for_the_footer() {
    let mut folding = Folding::new(Seconds::new());
    let mut items = story();
    items.pop();
    items.insert(12, Item::Loss(Loss { cpu: 1, from: 350 * MS, to: 360 * MS, count: Some(4) }));
    items.push(switch(1_200 * MS, 0, 7, S, 0));
    for item in &items {
        folding.item(item);
    }
    let taken = folding.sink.take_before(2_000 * MS, &folding.folder);
    assert_eq!(taken.iter().map(|s| (s.start / MS, s.cpu)).collect::<Vec<_>>(), [(0, 0), (0, 1), (1000, 0), (1000, 1)]);
    let zero = taken[0];
    assert_eq!((zero.busy_ns, zero.known_ns), (650 * MS, 1000 * MS - 1));
    assert_eq!((zero.ready_ns, zero.ready_max, zero.blocked_ns, zero.blocked_max), (410 * MS, 1, 200 * MS, 1));
    assert_eq!((zero.worst_wait, zero.worst_tid, zero.worst_at), (300 * MS, 7, 300 * MS));
    assert_eq!((zero.events, zero.loss, taken[1].loss, taken[1].lost), (9, false, true, 4));
    assert_eq!((taken[2].busy_ns, taken[2].known_ns, taken[2].events), (200 * MS, 1000 * MS, 1));
    // What was counted open is not counted again when it closes.
    folding.item(&switch(2_500 * MS, 0, 0, R, 7));
    let more = folding.sink.take_before(3_000 * MS, &folding.folder);
    let cpu0 = more.iter().find(|s| s.cpu == 0).unwrap();
    assert_eq!((cpu0.busy_ns, cpu0.known_ns), (500 * MS, 1000 * MS));
}

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
                let mut sum = super::super::summary::StateTimes::default();
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
            prop_assert_eq!(super::super::summary::ThreadRow { bar, migrations, ..summed }, counted.clone());
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
        let mut order = super::super::order::TimeOrder::new(32);
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
    }
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000u64, any::<u64>(), Just(u64::MAX), Just(1u64 << 60), (0..62u32).prop_map(|s| 1u64 << s)]
}

fn any_cpu() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..3u32, 1 => Just(8191u32), 1 => any::<u32>()]
}
