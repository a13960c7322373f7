//! The answers on columns worked out by hand (see `query::testing`).

#![allow(clippy::unwrap_used)]

use super::pick::{Filter, Picked, Roles};
use super::wakes::Waker;
use super::*;
use crate::query::testing::columns;
use crate::sched::state::TaskState;
use crate::sched::summary::Window;
use crate::time::{ClockMap, Zone};

/// The loader's utid in the hand-made columns; 2 is the logger, 3 the checkpoint writer.
const LOADER: u32 = 1;

#[test]
fn cpu_busy_is_a_share_of_what_is_known() {
    let c = columns();
    let rows = cpu::rows(&c, &Picked::everything(&c));
    // Window 110..1000. cpu0: loader 110..300 and 700..1000, logger 300..700. cpu1: ckpt 110..150, then nothing known.
    assert_eq!((rows[0].known, rows[0].busy, rows[0].top), (890, 890, Some((LOADER, 490))));
    assert_eq!((rows[1].known, rows[1].busy, rows[1].slices), (40, 40, 1));
    assert_eq!((rows[0].lost, rows[1].lost), (None, Some(Some(12))), "the loss on cpu0 was over before the window");
}

#[test]
fn states_add_up_to_the_window() {
    let c = columns();
    let rows = states::rows(&c, &Picked::everything(&c));
    let of = |utid| rows.iter().find(|r| r.utid == utid).unwrap();
    let t = of(LOADER).times;
    assert_eq!((t.running, t.sleeping, t.runnable, t.unknown), (190 + 300, 300, 100, 0));
    let t = of(2).times;
    assert_eq!((t.running, t.preempted, t.unknown), (400, 300, 190), "before 300 nothing is known of the logger");
    assert_eq!((of(2).voluntary, of(2).involuntary), (0, 1));
    let t = of(3).times;
    assert_eq!((t.running, t.uninterruptible, t.runnable), (40, 300, 550));
    assert_eq!(rows[0].utid, 3, "who waited longest stands first");
}

#[test]
fn latency_counts_waits_that_ended() {
    let c = columns();
    let (rows, histogram) = latency::rows(&c, &Picked::everything(&c));
    assert_eq!(rows.len(), 1, "the other two waits have not ended");
    assert_eq!((rows[0].utid, rows[0].all.count, rows[0].all.max, rows[0].all.max_at), (LOADER, 1, 100, 600));
    // ckpt is ready since 450, the logger since 700; the data ends at 1000.
    assert_eq!(latency::open_waits(&c, &Picked::everything(&c)), Some((2, 3, 550)));
    assert_eq!(latency::cause(&c, rows[0].worst), "woken by log\\x1b[2Jship [12]");
    // 100 ns lies in [64, 128).
    assert_eq!(histogram.counts.iter().position(|n| *n == (1, 0)), Some(6));
}

#[test]
fn sampled_data_answers_with_sums_and_makes_nothing_up() {
    let mut c = columns();
    c.facts.sampled_hz = Some(20);
    let picked = Picked::everything(&c);
    for kind in [Kind::Latency, Kind::Preempt, Kind::Wakes] {
        for t in make(kind, &c, &picked, 10, None) {
            assert!(
                t.rows.is_empty() && t.notes == ["not known: the data was sampled 20 times a second, not traced"],
                "{t:?}"
            );
        }
    }
    let t = &make(Kind::States, &c, &picked, 10, None)[0];
    let of = |key: &str| &t.rows[0][t.columns.iter().position(|column| column.0 == key).unwrap()];
    assert_eq!(
        (of("running_ns"), of("pushed_off"), of("involuntary")),
        (&Cell::Ns(40), &Cell::Unknown, &Cell::Unknown)
    );
    let t = &make(Kind::Cpu, &c, &picked, 10, None)[0];
    assert_eq!(t.rows[0][0], Cell::Count(0));
    assert!(t.notes.iter().any(|n| n.starts_with("– is not known")), "{t:?}");
}

/// The seed's question: the largest time from a thread's switch-out in S to its next run.
#[test]
fn the_largest_blocking_time_of_a_thread() {
    let c = columns();
    let filter = Filter { thread: Some("*DataLoader*".into()), ..Filter::default() };
    let rows = blocked::threads(&c, &filter.pick(&c, &Roles::new()).unwrap());
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].state, rows[0].times, rows[0].longest.0), (TaskState::SLEEPING, 1, 300));
    assert_eq!(rows[0].off_cpu, Some((400, 300)), "slept 300..600, ready until 700");
}

#[test]
fn blocked_functions_know_io_waits() {
    let c = columns();
    let rows = blocked::functions(&c, &Picked::everything(&c));
    assert_eq!(rows.len(), 1, "a sleep without a function is no row");
    assert_eq!(c.names.text(rows[0].function), "jbd2_log_wait_commit");
    assert_eq!((rows[0].times, rows[0].io_waits, rows[0].total, rows[0].utid), (1, Some(1), 300, 3));
    let threads = blocked::threads(&c, &Picked::everything(&c));
    assert_eq!(threads.iter().find(|r| r.utid == 3).unwrap().off_cpu, None, "it never ran again");
}

#[test]
fn preemptions_and_wakeups_name_both_sides() {
    let c = columns();
    let all = Picked::everything(&c);
    let rows = preempt::rows(&c, &all);
    assert_eq!((rows[0].victim, rows[0].by, rows[0].times, rows[0].waited), (2, Some(LOADER), 1, 0));
    let rows = wakes::rows(&c, &all);
    let pairs: Vec<_> = rows.iter().map(|r| (r.waker, r.wakee, r.waited)).collect();
    assert_eq!(pairs, [(Waker::Thread(2), LOADER, 100), (Waker::Interrupt, 3, 0)]);
}

#[test]
fn of_thousands_of_cpus_the_first_are_shown_and_the_rest_are_counted() {
    let c = columns();
    let rows: Vec<_> = (0..8192).map(|cpu| cpu::Row { cpu, ..cpu::Row::default() }).collect();
    let table = cpu::table(&rows, &c, 128);
    assert_eq!((table.rows.len(), table.rows[127][0].clone()), (128, Cell::Count(127)));
    assert_eq!(table.notes[0], "8,064 more rows are left out (--limit)");
    assert_eq!(cpu::table(&rows[..128], &c, 128).notes.len(), 1, "nothing is left out");
}

#[test]
fn filters_by_process_cgroup_role_cpu_and_time() {
    let c = columns();
    let roles = Roles::from([("loader".to_owned(), vec!["nothing*".to_owned(), "pt_*".to_owned()])]);
    let threads = |f: Filter| f.pick(&c, &roles).unwrap().threads().collect::<Vec<_>>();
    assert_eq!(threads(Filter { process: Some("train*".into()), ..Filter::default() }), [1, 3]);
    assert_eq!(threads(Filter { process: Some("12".into()), ..Filter::default() }), [2]);
    assert_eq!(threads(Filter { cgroup: Some("/pods/*".into()), ..Filter::default() }), [1, 3]);
    assert_eq!(threads(Filter { role: Some("loader".into()), ..Filter::default() }), [1]);
    assert_eq!(threads(Filter { thread: Some("13".into()), ..Filter::default() }), [3]);
    let e = Filter { role: Some("x".into()), ..Filter::default() }.pick(&c, &roles).unwrap_err();
    assert!(e.contains("there are: loader"), "{e}");
    let e = Filter { role: Some("x".into()), ..Filter::default() }.pick(&c, &Roles::new()).unwrap_err();
    assert!(e.ends_with("it has none (live.roles)"), "{e}");
    let on_one = Filter { cpu: Some(1), ..Filter::default() }.pick(&c, &roles).unwrap();
    assert_eq!(cpu::rows(&c, &on_one).iter().map(|r| r.cpu).collect::<Vec<_>>(), [1]);
    let mut c = columns();
    c.ask(Window { from: 200, to: 400 });
    let rows = states::rows(&c, &Picked::everything(&c));
    let t = rows.iter().find(|r| r.utid == LOADER).unwrap().times;
    assert_eq!((t.running, t.sleeping, t.runnable), (100, 100, 0));
}

#[test]
fn every_report_prints_in_every_form_and_no_name_gets_through_raw() {
    let c = columns();
    let clocks = table::Clocks { map: ClockMap::default(), zone: Zone::UTC };
    for (word, kind) in Kind::ALL {
        assert_eq!(Kind::of(word), Some(kind));
        for t in make(kind, &c, &Picked::everything(&c), 5, None) {
            for text in [t.text(&clocks), t.markdown(&clocks)] {
                assert!(!text.contains('\x1b'), "{word}: {text:?}");
                assert!(!text.is_empty());
            }
            assert!(t.rows.iter().all(|r| r.len() == t.columns.len()), "{word}");
            assert_eq!(t.json_lines(&clocks).len(), t.rows.len());
        }
    }
}

#[test]
fn the_default_metrics_can_be_measured() {
    let metrics = check::metrics(check::DEFAULT_METRICS).unwrap();
    let mut engine = crate::query::Engine::open(std::sync::Arc::new(columns())).unwrap();
    let measured = check::measure(&mut engine, &metrics).unwrap();
    let of = |name: &str| measured.iter().find(|m| m.0 == name).unwrap().1;
    assert_eq!(of("wait_max_ms"), Some(100.0 / 1e6));
    assert_eq!(of("cpu_busy_percent"), Some(100.0));
    assert_eq!(of("lost_events"), Some(13.0), "12 counted and one loss of unknown number");
}

/// The summary of a made-up second: thread 7 is pushed off by 8 for 300 of 1000 ms, ready for 360 ms in all.
#[test]
fn the_summary_says_what_the_screens_say_with_numbers_and_instants() {
    use crate::query::{Builder, Keep};
    use crate::sched::fold::{Consumer, Folding};
    use crate::sched::model::Model;
    use crate::sched::testing::{R, S, switch, waking};
    const MS: u64 = 1_000_000;
    let items = [
        switch(0, 0, 0, R, 8),
        waking(50 * MS, 0, 7, 0),
        switch(100 * MS, 0, 8, S, 7),
        switch(300 * MS, 0, 7, TaskState::PREEMPTED, 8),
        switch(600 * MS, 0, 8, S, 7),
        switch(1000 * MS, 0, 7, S, 0),
    ];
    let (mut names, mut model) = (crate::names::NameTable::new(), Model::default());
    let mut folding = Folding::new(Builder::new(Keep::Nothing));
    for item in &items {
        folding.item(item);
        model.item(item);
    }
    folding.end();
    model.end();
    let facts = crate::query::facts::Facts::of_lives(folding.folder.threads(), &mut names, u64::MAX);
    let c = folding.sink.finish(names, facts, None);
    let detector = Detector { model: &model, thresholds: Default::default() };
    let t = &make(Kind::Summary, &c, &Picked::everything(&c), 8, Some(detector))[1];
    assert_eq!((t.name, t.rows.len()), ("findings", 1), "{t:?}");
    let clocks = table::Clocks { map: ClockMap::default(), zone: Zone::UTC };
    let sentence = "[7] was ready but not running 35 % of the last 1 s (p99 300 ms, worst 300 ms); [8] ran instead for 100 % of that";
    let text = t.text(&clocks);
    assert!(text.contains(&format!("warning  0.300000 s  300.000 ms  {sentence}")), "{text}");
    let markdown = t.markdown(&clocks);
    assert!(markdown.contains("| warning | 0.300000 s | 300.000 ms | \\[7\\] was ready"), "{markdown}");
    let json = &t.json_lines(&clocks)[0];
    assert_eq!((&json["kind"], &json["at"], &json["ns"]), (&"starving".into(), &(300 * MS).into(), &(300 * MS).into()));
    assert_eq!((&json["utid"], &json["share"], &json["count"]), (&2.into(), &0.35.into(), &2.into()));
    let nobody = Filter { thread: Some("nobody".into()), ..Filter::default() }.pick(&c, &Roles::new()).unwrap();
    assert_eq!(make(Kind::Summary, &c, &nobody, 8, Some(detector))[1].rows.len(), 0);
}
