#![allow(clippy::unwrap_used)]

mod property;
mod summary;

use std::sync::LazyLock;

use super::*;
use crate::kernel::events::{EventTable, TracedEvent};
use crate::kernel::format::EventFormat;
use crate::kernel::page::PageLayout;
use crate::kernel::testing::{Kernel, PageWriter, SwitchRecord, WakingRecord};
use crate::names::NameTable;
use crate::perfetto::decode::Decoder;
use crate::recorder::blocked::Stacks;
use crate::recorder::live::Dropped;
use crate::recorder::plan::Plan;
use crate::sched::event::{EventKind, Item};
use crate::sched::state::StateLayout;
use crate::store::index::LossCount;
use crossbeam_channel::Receiver;

static SWITCH: LazyLock<EventFormat> = LazyLock::new(|| EventFormat::parse(Kernel::V6_18.sched_switch()).unwrap());
static WAKING: LazyLock<EventFormat> = LazyLock::new(|| EventFormat::parse(Kernel::V6_18.sched_waking()).unwrap());

fn switch(prev: i32, state: i64, next: i32) -> Vec<u8> {
    let record = SwitchRecord {
        prev_comm: b"prev",
        prev_pid: prev,
        prev_prio: 120,
        prev_state: state,
        next_comm: b"next",
        next_pid: next,
        next_prio: 110,
    };
    record.encode(&SWITCH)
}

fn waking(waker: i32, pid: i32, target_cpu: i32) -> Vec<u8> {
    let record = WakingRecord { waker, comm: b"wakee", pid, prio: 120, target_cpu };
    record.encode(&WAKING)
}

fn writer(ts: u64, records: &[(u64, Vec<u8>)]) -> PageWriter {
    let mut page = PageWriter::new(PageLayout::USUAL, ts);
    for (at, data) in records {
        assert!(page.data(*at, data), "the page is full");
    }
    page
}

fn page(cpu: u32, ts: u64, records: &[(u64, Vec<u8>)]) -> Page {
    Page { cpu, bytes: writer(ts, records).finish(), stats: None }
}

static NEWTASK: LazyLock<EventFormat> =
    LazyLock::new(|| EventFormat::parse(include_str!("../../../tests/fixtures/kernels/6.18/task_newtask")).unwrap());
static RENAME: LazyLock<EventFormat> =
    LazyLock::new(|| EventFormat::parse(include_str!("../../../tests/fixtures/kernels/6.18/task_rename")).unwrap());

fn encoder(cpus: &[u32]) -> (Encoder, Receiver<Hint>) {
    let mut table = EventTable::new();
    for (group, format) in [("sched", &SWITCH), ("sched", &WAKING), ("task", &NEWTASK), ("task", &RENAME)] {
        table.insert(TracedEvent { group: group.into(), format: (**format).clone() });
    }
    let (hints, receive) = crossbeam_channel::bounded(16);
    let parts = EncoderParts {
        layout: PageLayout::USUAL,
        plan: Plan::new(&table),
        states: StateLayout::SINCE_4_14.into(),
        stacks: Stacks::default(),
        hints,
    };
    let cpus: Vec<_> = cpus.iter().map(|&c| (c, CpuStats::default())).collect();
    (Encoder::new(parts, &cpus, 0), receive)
}

/// Closes the frame and decodes what is in it.
fn frame(encoder: &mut Encoder, through: u64) -> (FrameFacts, Vec<Item>) {
    let (mut raw, mut items) = (Vec::new(), Vec::new());
    let facts = encoder.close_frame(through, &mut raw);
    Decoder::new().decode(&raw, &mut NameTable::new(), &mut |item| items.push(item)).unwrap();
    (facts, items)
}

/// (cpu, ts, who left, who came) of every switch.
fn switches(items: &[Item]) -> Vec<(u32, u64, Option<i32>, i32)> {
    let one = |item: &Item| match item {
        Item::Event(e) => match e.kind {
            EventKind::Switch(s) => Some((e.cpu, e.ts, s.prev_tid, s.next_tid)),
            _ => None,
        },
        _ => None,
    };
    items.iter().filter_map(one).collect()
}

#[test]
fn events_before_the_limit_are_written_and_the_others_wait() {
    let (mut e, _hints) = encoder(&[0, 1]);
    e.add_page(page(0, 100, &[(110, switch(1, 1, 2)), (190, waking(2, 1, 1)), (300, switch(2, 1, 3))]));
    e.add_page(page(1, 100, &[(120, switch(0, 0, 5)), (250, switch(5, 2, 0))]));
    assert_eq!(e.run(0, 200), 200);
    let (facts, items) = frame(&mut e, 200);
    assert_eq!(switches(&items), [(0, 110, Some(1), 2), (1, 120, Some(0), 5)]);
    assert!(matches!(items.last(), Some(Item::CompleteThrough { ts: 200 })));
    assert_eq!((facts.span, facts.complete_through), (Some((110, 190)), 200));
    assert_eq!(facts.events, [(0, 2), (1, 1)]);
    assert_eq!(e.take_free().len(), 0, "both pages are still needed");
    e.run(200, 400);
    let (_, items) = frame(&mut e, 400);
    // Compact now: who left is not in the record, and this decoder saw nothing before.
    assert_eq!(switches(&items), [(0, 300, None, 3), (1, 250, None, 0)]);
    assert_eq!((e.take_free().len(), e.held()), (2, 0));
}

#[test]
fn case_24_cpus_take_turns_by_time_so_that_no_wait_is_missed() {
    let (mut e, _hints) = encoder(&[0, 1]);
    // CPU 1: thread 7 runs until 130 and again from 900. CPU 0 wakes it at 150: it waited 750 ns.
    e.add_page(page(0, 100, &[(150, waking(4, 7, 1)), (950, switch(4, 1, 0))]));
    e.add_page(page(1, 100, &[(110, switch(0, 0, 7)), (130, switch(7, 1, 0)), (900, switch(0, 0, 7))]));
    assert_eq!(e.run(0, 1000), 1000);
    let worst = e.tracker().take_summary(1000).1.expect("a wait");
    assert_eq!((worst.dur, worst.at, worst.tid), (750, 150, 7));
}

#[test]
fn case_35_the_first_switch_of_a_segment_says_who_left() {
    let (mut e, _hints) = encoder(&[0]);
    e.add_page(page(0, 100, &[(110, switch(1, 1, 2)), (120, switch(2, 1, 3))]));
    e.run(0, 115);
    assert_eq!(switches(&frame(&mut e, 115).1), [(0, 110, Some(1), 2)]);
    e.begin_segment();
    e.run(115, 130);
    assert_eq!(switches(&frame(&mut e, 130).1), [(0, 120, Some(2), 3)]);
}

#[test]
fn a_switch_that_does_not_follow_the_one_before_says_who_left() {
    let (mut e, _hints) = encoder(&[0]);
    // Who came at 110 is 2; that 7 came after it was not traced.
    e.add_page(page(0, 100, &[(110, switch(1, 1, 2)), (120, switch(7, 1, 3)), (130, switch(3, 1, 4))]));
    e.run(0, 200);
    let (_, items) = frame(&mut e, 200);
    assert_eq!(switches(&items), [(0, 110, Some(1), 2), (0, 120, Some(7), 3), (0, 130, Some(3), 4)]);
    assert!(!items.iter().any(|i| matches!(i, Item::Loss(_))), "nobody says that events were lost");
}

#[test]
fn a_wake_up_by_another_than_who_came_is_written_in_full() {
    let (mut e, _hints) = encoder(&[0]);
    // Who came at 110 is 2; that 7 came after it was not traced.
    let records = [(110, switch(1, 1, 2)), (115, waking(2, 5, 0)), (120, waking(7, 6, 0)), (125, waking(7, 4, 0))];
    e.add_page(page(0, 100, &records));
    e.add_page(page(0, 128, &[(130, switch(7, 1, 3)), (135, waking(3, 8, 0))]));
    e.run(0, 200);
    let (_, items) = frame(&mut e, 200);
    let wakers: Vec<_> = items
        .iter()
        .filter_map(|i| match i {
            Item::Event(e) if matches!(e.kind, EventKind::Waking(_)) => Some((e.ts, e.emitter)),
            _ => None,
        })
        .collect();
    // trace_processor learns who runs from switches alone: until the next one each wake-up says who woke.
    assert_eq!(wakers, [(115, None), (120, Some(7)), (125, Some(7)), (135, None)]);
    assert_eq!(e.counts().untraced, 1);
    // Of 110..130, 5 ns are known to be busy; of what came after 115 the tracker knows nothing until 130.
    let summary = e.tracker().summary(140);
    assert_eq!(summary.lanes[0].cells[0].busy, Some(1.0));
    let (mut cpus, mut threads) = (Vec::new(), Vec::new());
    e.tracker().cpus_now(&mut cpus);
    e.tracker().threads_now(&mut threads);
    assert_eq!(cpus[0].tid, 3);
    assert!(!threads.iter().any(|t| t.tid == 2), "what became of 2 nobody knows");
}

/// On 6.18 in some virtual machines: on one CPU no switch away from idle is traced.
#[test]
fn a_run_that_begins_untraced_on_an_idle_cpu_is_told_in_columns_once_the_thread_is_known() {
    let (mut e, _hints) = encoder(&[0]);
    let left = |prev_prio: i32| SwitchRecord { prev_prio, ..left_for_idle() }.encode(&SWITCH);
    let records = [
        (100, switch(5, 1, 0)),
        // 7 is not known yet: what tells of it is written in full.
        (110, waking(7, 6, 0)),
        (120, left(120)),
        (130, waking(7, 6, 0)),
        (135, waking(7, 8, 0)),
        (140, left(120)),
        // Nothing between: its coming is told where it leaves.
        (150, left(120)),
        (160, waking(7, 6, 0)),
        // It has another priority than when it was met.
        (170, left(98)),
        (180, waking(7, 6, 0)),
        (190, left(98)),
    ];
    e.add_page(page(0, 90, &records));
    e.run(0, 200);
    let mut raw = Vec::new();
    e.close_frame(200, &mut raw);
    let mut items = Vec::new();
    Decoder::new().decode(&raw, &mut NameTable::new(), &mut |item| items.push(item)).unwrap();
    let mut told = Vec::new();
    for item in &items {
        let Item::Event(e) = item else { continue };
        match e.kind {
            EventKind::Switch(s) => told.push((e.ts, s.prev_tid, s.prev_prio)),
            _ => told.push((e.ts, e.emitter, None)),
        }
    }
    let seven = Some(7);
    let expected = [
        (100, Some(5), Some(120)),
        (110, seven, None),
        (120, seven, Some(120)),
        (130, seven, None),
        (135, seven, None),
        (140, seven, Some(120)),
        (150, seven, Some(120)),
        (160, seven, None),
        (170, seven, Some(98)),
        (180, seven, None),
        (190, seven, Some(98)),
    ];
    assert_eq!(told, expected);
    assert_eq!((e.counts().events, e.counts().untraced), (11, 5));
    // In full: the switch that told of 7 first, and the one with another priority. Else its name stands in the table once.
    assert_eq!(raw.windows(5).filter(|w| w == b"seven").count(), 3);
}

fn left_for_idle() -> SwitchRecord<'static> {
    SwitchRecord {
        prev_comm: b"seven",
        prev_pid: 7,
        prev_prio: 120,
        prev_state: 1,
        next_comm: b"swapper/0",
        next_pid: 0,
        next_prio: 120,
    }
}

#[test]
fn case_4_36_loss_is_told_with_its_count_and_the_next_switch_is_full() {
    let (mut e, _hints) = encoder(&[0]);
    e.add_page(page(0, 100, &[(110, switch(1, 1, 2))]));
    let counted = writer(500, &[(510, switch(7, 1, 8))]).finish_missed(Some(12));
    e.add_page(Page { cpu: 0, bytes: counted, stats: None });
    let uncounted = writer(600, &[(610, switch(8, 1, 9))]).finish_missed(None);
    let stats = CpuStats { overrun: 20, ..CpuStats::default() };
    e.add_page(Page { cpu: 0, bytes: uncounted, stats: Some(stats) });
    let unknown = writer(700, &[(710, switch(9, 1, 7))]).finish_missed(None);
    e.add_page(Page { cpu: 0, bytes: unknown, stats: None });
    e.run(0, 1000);
    let (facts, items) = frame(&mut e, 1000);
    assert_eq!(
        switches(&items),
        [(0, 110, Some(1), 2), (0, 510, Some(7), 8), (0, 610, Some(8), 9), (0, 710, Some(9), 7)]
    );
    let losses: Vec<Loss> = items.iter().filter_map(|i| if let Item::Loss(l) = i { Some(*l) } else { None }).collect();
    let loss = |from, to, count| Loss { cpu: 0, from, to, count };
    assert_eq!(losses, [loss(110, 510, Some(12)), loss(510, 610, Some(8)), loss(610, 710, None)]);
    assert_eq!(facts.loss, [(0, LossCount { known: 20, unknown: true })]);
    assert_eq!(e.take_losses(), losses);
}

#[test]
fn a_loss_in_front_of_a_page_is_told_once_even_if_the_page_waits() {
    let (mut e, _hints) = encoder(&[0]);
    let bytes = writer(100, &[(200, switch(1, 1, 2)), (300, switch(2, 1, 3))]).finish_missed(Some(5));
    e.add_page(Page { cpu: 0, bytes, stats: None });
    for limit in [150, 250, 350] {
        e.run(limit - 100, limit);
    }
    assert_eq!(e.take_losses(), [Loss { cpu: 0, from: 0, to: 200, count: Some(5) }]);
}

#[test]
fn case_3_a_damaged_page_costs_only_its_rest() {
    let (mut e, _hints) = encoder(&[0]);
    let mut broken = writer(100, &[(110, switch(1, 1, 2))]);
    // A long record whose length says that it ends beyond the page.
    assert!(broken.raw(&[0, 0, 0, 0, 0xff, 0xff, 0, 0]));
    e.add_page(Page { cpu: 0, bytes: broken.finish(), stats: None });
    e.add_page(Page { cpu: 0, bytes: vec![0xff; 7], stats: None });
    e.add_page(page(0, 200, &[(210, switch(3, 1, 4))]));
    e.run(0, 300);
    let (_, items) = frame(&mut e, 300);
    assert_eq!(switches(&items), [(0, 110, Some(1), 2), (0, 210, Some(3), 4)]);
    assert_eq!(items.iter().filter(|i| matches!(i, Item::Damage { cpu: Some(0), .. })).count(), 2);
    assert_eq!(e.counts().damaged, 2);
    assert!(e.take_losses().iter().all(|l| l.count.is_none()));
}

#[test]
fn a_full_frame_is_closed_where_nothing_older_is_missing() {
    let (mut e, _hints) = encoder(&[0, 1]);
    // 64 switches a page, one every 20 µs, on both CPUs.
    for cpu in [0, 1] {
        for p in 0..800u64 {
            let start = p * 64 * 20_000;
            let records: Vec<_> = (0..40).map(|i| (start + i * 32_000, switch(1, 1, 2 + (i as i32)))).collect();
            e.add_page(page(cpu, start, &records));
        }
    }
    let end = 800 * 64 * 20_000;
    let (mut reached, mut frames, mut seen) = (0, 0, 0);
    while reached < end {
        let before = reached;
        reached = e.run(before, end);
        let (facts, items) = frame(&mut e, reached);
        assert!(reached > before, "each frame gets on");
        let outside = |i: &Item| matches!(i, Item::Event(e) if e.ts < before || e.ts >= reached);
        assert!(!items.iter().any(outside), "frames part the time cleanly");
        seen += facts.events.iter().map(|e| e.1).sum::<u64>();
        frames += 1;
    }
    assert_eq!(seen, 2 * 800 * 40);
    assert!(frames > 1, "64,000 events are more than one frame");
}

#[test]
fn case_19_pages_of_an_unknown_cpu_are_left_alone() {
    let (mut e, _hints) = encoder(&[0, 9]);
    e.add_page(page(4, 100, &[(110, switch(1, 1, 2))]));
    e.run(0, 200);
    assert_eq!(switches(&frame(&mut e, 200).1), []);
    e.add_cpu(4, &CpuStats::default());
    e.add_page(page(4, 100, &[(310, switch(1, 1, 2))]));
    e.run(200, 400);
    assert_eq!(switches(&frame(&mut e, 400).1).len(), 1);
}

#[test]
fn times_of_another_clock_are_moved_to_the_boot_clock() {
    let (mut e, _hints) = encoder(&[0]);
    e.set_clock_offset(1000);
    e.add_page(page(0, 100, &[(110, switch(1, 1, 2)), (210, switch(2, 1, 3))]));
    e.run(0, 1200);
    assert_eq!(switches(&frame(&mut e, 1200).1), [(0, 1110, Some(1), 2)]);
}

#[test]
fn what_a_full_disk_took_is_loss_in_the_next_frame() {
    let (mut e, _hints) = encoder(&[0]);
    let known = |known| LossCount { known, unknown: false };
    e.not_written(&Dropped { cpu: 0, span: (100, 900), count: 55, told: known(0) });
    let (facts, items) = frame(&mut e, 1000);
    let loss = |from, to, count| Loss { cpu: 0, from, to, count };
    assert!(items.contains(&Item::Loss(loss(100, 900, Some(55)))), "{items:?}");
    assert_eq!((facts.loss, e.take_losses()), (vec![(0, known(55))], vec![loss(100, 900, Some(55))]));
    // That frame was not written either: its loss is told again, and counted once.
    e.not_written(&Dropped { cpu: 0, span: (100, 1000), count: 7, told: known(55) });
    let (facts, items) = frame(&mut e, 1000);
    assert!(items.contains(&Item::Loss(loss(100, 1000, Some(62)))), "{items:?}");
    assert_eq!((facts.loss, e.take_losses()), (vec![(0, known(62))], vec![loss(100, 1000, Some(7))]));
    e.not_written(&Dropped { cpu: 0, span: (100, 1000), count: 0, told: LossCount { known: 62, unknown: true } });
    let (facts, _) = frame(&mut e, 1000);
    assert_eq!((facts.loss, e.take_losses()), (vec![(0, LossCount { known: 62, unknown: true })], vec![]));
    // What could not even be read.
    e.not_read(0, 1000, 2000);
    let (facts, items) = frame(&mut e, 2000);
    assert!(items.contains(&Item::Loss(Loss { cpu: 0, from: 1000, to: 2000, count: None })), "{items:?}");
    assert_eq!(facts.loss, [(0, LossCount { known: 0, unknown: true })]);
}

#[test]
fn names_are_told_in_the_order_of_events_whatever_cpu_they_come_from() {
    // `offset`, as the formats have it: common_type at 0, common_pid at 4, pid at 8, comm at 12, newcomm at 28.
    let record = |format: &EventFormat, pid: i32, tid: i32, names: [(usize, &[u8]); 1]| {
        let mut data = vec![0; 48];
        data[..2].copy_from_slice(&format.id.to_le_bytes());
        data[4..8].copy_from_slice(&pid.to_le_bytes());
        data[8..12].copy_from_slice(&tid.to_le_bytes());
        names.iter().for_each(|(at, name)| data[*at..at + name.len()].copy_from_slice(name));
        data
    };
    let (mut e, hints) = encoder(&[0, 1]);
    // 5 makes 6 on CPU 1; 6 begins on CPU 0 and gives itself a name there.
    e.add_page(page(0, 100, &[(120, record(&RENAME, 6, 6, [(28, b"own")]))]));
    e.add_page(page(1, 100, &[(110, record(&NEWTASK, 5, 6, [(12, b"parent")]))]));
    e.run(0, 200);
    let told: Vec<Hint> = hints.try_iter().collect();
    let [Hint::New { ts: 110, tid: 6, parent: 5, .. }, Hint::Renamed { ts: 120, tid: 6, comm }] = told[..] else {
        panic!("{told:?}")
    };
    assert!(comm.starts_with(b"own\0"));
}
