//! Answers of the model on one small story, with values worked out by hand. Times are written in ms.
#![allow(clippy::unwrap_used)]

mod instead;
mod properties;
mod unknown;

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
    let (who, share) = row.ran_instead.map(|most| (most.utid, most.share)).unwrap();
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
fn findings_carry_their_numbers() {
    let model = told(&story());
    let (seven, eight) = (utid(&model, 7), utid(&model, 8));
    let thresholds = Thresholds { blocked: 150 * MS, pushed_off_per_s: 0.5, ..Thresholds::default() };
    let found = model.overview(ms(0, 1000), 1, 1, &thresholds).findings;
    assert_eq!(found.len(), 4, "{found:?}");
    let FindingKind::Starving { utid, share, latency, instead } = &found[0].kind else { panic!("{found:?}") };
    assert_eq!((*utid, latency.max, instead.unwrap().utid), (seven, 300 * MS, eight));
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
fn one_thread_with_a_cpu_while_others_wait_there() {
    let model = told(&story());
    // From 300 to 600 ms thread 8 has CPU 0 and 7 waits there; before that 7 ran.
    let found = model.overview(ms(280, 600), 1, 1, &Thresholds::default()).findings;
    let at_fault = found.iter().find_map(|f| match f.kind {
        FindingKind::Monopolised { cpu, utid, share, ready_ns } => Some((cpu, utid, share, ready_ns, f.at)),
        _ => None,
    });
    let (cpu, who, share, ready_ns, at) = at_fault.unwrap();
    assert_eq!((cpu, who, share), (0, utid(&model, 8), 300.0 / 320.0));
    assert_eq!(at, ms(300, 600), "where it ran, to jump to");
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
    // The end of the data ends nothing: its last run is short, and open, still.
    let mut ended = told(&story());
    ended.finish();
    for columns in [2, 1000] {
        let whole = model.timeline(ms(0, 1000), columns, &tracks[1..], &names);
        assert_eq!(ended.timeline(ms(0, 1000), columns, &tracks[1..], &names), whole);
    }
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
    let spread = |most| {
        let kept = model.marks_spread(ms(100, 200), most, &names).into_iter();
        kept.map(|m| String::from_utf8(m.name.into()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(spread(3), ["a", "b", "hello"]);
    assert_eq!(spread(2), ["hello"], "all of them are in the first half, and it stands by itself");
    let hit = model.search(&SearchFor::Mark("ell".into()), 0, true, &names).unwrap();
    assert_eq!((hit.at.from, hit.utid), (140 * MS, Some(utid(&model, 7))));
    let texts: Vec<_> = model.marker_texts(ms(120, 620)).map(|(ts, text)| (ts / MS, names.bytes(text))).collect();
    assert_eq!(texts, [(120, &b"B|7|b"[..]), (130, b"E|7"), (140, b"hello")]);
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
fn a_stretch_has_the_figures_that_its_seconds_give_a_footer() {
    let items = story();
    let mut folding = Folding::new(Seconds::new());
    items.iter().for_each(|item| folding.item(item));
    let model = told(&items);
    let edge = model.bounds().unwrap().to;
    let seconds = folding.sink.take_before(edge, &folding.folder);
    let whole = Window { from: 0, to: edge };
    let figures = model.stretch(whole).unwrap();
    let (busy, known) = seconds.iter().fold((0, 0), |sum, s| (sum.0 + s.busy_ns, sum.1 + s.known_ns));
    assert_eq!(figures.busy, Some((busy as f64 / known as f64) as f32));
    let first = seconds.iter().filter(|s| s.start == 0).map(|s| s.ready_max).sum::<u32>();
    assert_eq!((figures.ready, first), (Some(first), 2), "both CPUs in the first second");
    let worst = seconds.iter().max_by_key(|s| s.worst_wait).unwrap();
    assert_eq!((worst.worst_wait, worst.worst_tid), (300 * MS, 7));
    assert_eq!(figures.worst, Some((300 * MS, utid(&model, 7))));
    // 650 ms of CPU 0 and 50 ms of CPU 1.
    assert!((figures.busy.unwrap() - 0.35).abs() < 1e-6);
    // A wait counts where it ends: before 590 ms the longest is the 50 ms of thread 8.
    assert_eq!(model.stretch(ms(0, 590)).unwrap().worst, Some((50 * MS, utid(&model, 8))));
    // What the model does not reach back to is not told.
    let mut later = items;
    later.pop();
    later.extend([switch(5_000 * MS, 0, 7, S, 0), Item::CompleteThrough { ts: 6_000 * MS }]);
    let mut forgetful = told(&later);
    assert!(forgetful.stretch(ms(0, 6_000)).is_some());
    forgetful.prune_before(3_000 * MS);
    assert_eq!(forgetful.stretch(ms(0, 6_000)), None);
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
