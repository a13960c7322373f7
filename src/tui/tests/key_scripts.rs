//! What keys, clicks and pastes do, step by step.

use super::*;
use crate::sched::summary::Window;
use crate::tui::answers::{Ask, Question};
use crate::tui::cursor::Cursor;
use crate::tui::deeds::MarkRow;

#[test]
fn enter_goes_to_the_thread_and_escape_comes_back() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "down enter");
    assert_eq!(s.screen, Screen::Thread(7), "the second by ready time");
    assert!(s.thread.data.is_none(), "the made-up answer is of another thread and must not be shown for this one");
    press(&mut s, "esc");
    assert_eq!(s.screen, Screen::Overview);
    assert_eq!(s.overview.selected, Some(7));
}

#[test]
fn the_selection_stays_on_its_thread_when_the_order_changes() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "down");
    assert_eq!((s.overview.row, s.selected_thread().unwrap().utid), (1, 7));
    press(&mut s, "r");
    assert_eq!(s.selected_thread().unwrap().utid, 7);
    assert_ne!(s.overview.row, 1);
}

#[test]
fn sorting_goes_through_the_columns_on_screen() {
    let mut s = full(80, 24, "mono");
    assert_eq!(s.overview.sort, Column::Ready);
    press(&mut s, "<");
    assert_eq!(s.overview.sort, Column::Run);
    assert_eq!(s.selected_thread().unwrap().utid, 4, "logship ran most");
    press(&mut s, "> >");
    assert_ne!(s.overview.sort, Column::Run);
}

#[test]
fn filter_while_typing_and_escape_clears_it() {
    let mut s = full(120, 40, "mono");
    let all = s.overview.order.len();
    press(&mut s, "/");
    for c in "loader".chars() {
        update(&mut s, Msg::Key(crate::tui::keys::Key::char(c)));
    }
    assert_eq!(s.overview.order.len(), 2, "both loaders, before Enter");
    press(&mut s, "enter");
    assert!(s.popup.is_none());
    assert_eq!(s.overview.order.len(), 2);
    press(&mut s, "esc");
    assert_eq!(s.overview.order.len(), all);
}

#[test]
fn filter_finds_tid_and_state() {
    for (what, utid) in [("48230", 3), ("logship", 4)] {
        let mut s = full(120, 40, "mono");
        press(&mut s, "/");
        type_line(&mut s, what);
        assert_eq!(s.selected_thread().unwrap().utid, utid, "{what}");
    }
}

#[test]
fn pause_step_and_back_to_now() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "space");
    assert_eq!(s.cursor.mode, Mode::Paused { at: demo::EDGE });
    press(&mut s, "[");
    assert_eq!(s.cursor.mode, Mode::Replay { at: demo::EDGE - 10 * demo::S });
    press(&mut s, "left");
    assert_eq!(s.cursor.mode, Mode::Replay { at: demo::EDGE - 11 * demo::S });
    press(&mut s, "end");
    assert!(s.cursor.is_live());
    press(&mut s, "w");
    assert_eq!(s.cursor.span, 60 * demo::S);
    press(&mut s, "w w");
    assert_eq!(s.cursor.span, 10 * demo::S);
}

#[test]
fn a_paused_screen_asks_nothing_when_time_goes_on() {
    let mut s = full(120, 40, "mono");
    assert!(!update(&mut s, Msg::Tick).is_empty(), "live does");
    let mut s = full(120, 40, "mono");
    press(&mut s, "space");
    assert_eq!(update(&mut s, Msg::Tick), []);
}

#[test]
fn one_question_is_out_at_a_time_while_time_goes_on() {
    let mut s = full(120, 40, "mono");
    let asked: usize = (0..10).map(|_| update(&mut s, Msg::Tick).len()).sum();
    assert_eq!(asked, 1, "a slow worker is not flooded");
}

#[test]
fn snapshot_keys() {
    let mut s = full(120, 40, "mono");
    assert_eq!(press(&mut s, "s"), [Effect::Do(Deed::Snapshot { last: None, label: String::new() })]);
    press(&mut s, "S");
    let done = type_line(&mut s, "p99 alert");
    let want = Deed::Snapshot { last: Some(300 * demo::S), label: "p99 alert".into() };
    assert_eq!(done, [Effect::Do(want)], "the line begins with the configured minutes");
    let effects = update(&mut s, Msg::Done(Done::Snapshot("/x/y.zst".into())));
    assert_eq!(effects, [Effect::Copy("/x/y.zst".into())]);
    assert!(text(&demo::drawn(&s)).contains("kept /x/y.zst"));
    s.may_copy = false;
    assert_eq!(update(&mut s, Msg::Done(Done::Snapshot("/x/z.zst".into()))), []);
}

#[test]
fn mark_and_palette() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "m");
    assert_eq!(type_line(&mut s, "step 9"), [Effect::Do(Deed::Mark("step 9".into()))]);
    press(&mut s, ":");
    assert_eq!(type_line(&mut s, "mark from the palette"), [Effect::Do(Deed::Mark("from the palette".into()))]);
    press(&mut s, ":");
    assert_eq!(type_line(&mut s, "quit"), [Effect::Quit]);
    press(&mut s, ":");
    type_line(&mut s, "xyzzy");
    assert!(s.notice.as_ref().unwrap().bad);
}

#[test]
fn marks_of_the_growing_segment_are_listed_before_any_footer_has_them() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f4");
    let texts = |s: &State| s.snapshots.kept.marks.iter().map(|m| m.text.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&s), ["deploy 17", "epoch 2", "step 813", "step 812"]);
    assert_eq!(s.snapshots.kept.marked, 9_682);
    let shown = text(&demo::drawn(&s));
    assert!(shown.contains("deploy 17") && !shown.contains("without those of the growing"), "{shown}");
    // The next one, whoever set it: the worker is asked at each tick, in the past, too.
    s.cursor = Cursor::on(Window { from: demo::EDGE - 20 * demo::S, to: demo::EDGE - 10 * demo::S });
    let effects = update(&mut s, Msg::Tick);
    assert!(matches!(&effects[..], [Effect::Ask(Question { ask: Ask::Growing { .. }, .. })]), "{effects:?}");
    // Once a footer has them they are listed once.
    let mut view = demo::kept();
    view.growing = Some(demo::EDGE);
    view.marks.insert(0, MarkRow { at_real: demo::REAL - 2 * demo::S, text: "deploy 17".into(), plain: true });
    update(&mut s, Msg::Done(Done::Kept(Box::new(view))));
    assert_eq!(texts(&s).iter().filter(|text| *text == "deploy 17").count(), 1);
}

#[test]
fn where_nothing_live_has_the_growing_segment_its_marks_are_told_to_be_missing() {
    let mut s = full(120, 40, "mono");
    s.has_live = false;
    press(&mut s, "f4");
    let shown = text(&demo::drawn(&s));
    assert!(!shown.contains("deploy 17") && shown.contains("without those of the growing segment"), "{shown}");
}

#[test]
fn the_list_of_segments_keeps_up_while_something_records() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f3");
    let asked = |s: &mut State| {
        let effects: Vec<Effect> = (0..80).flat_map(|_| update(s, Msg::Tick)).collect();
        effects.iter().filter(|e| matches!(e, Effect::Do(Deed::Store { .. }))).count()
    };
    assert_eq!(asked(&mut s), 2);
    s.has_live = false;
    assert_eq!(asked(&mut s), 0);
}

#[test]
fn the_list_of_snapshots_keeps_up_while_something_records() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f4");
    let asked = |s: &mut State| {
        let effects: Vec<Effect> = (0..80).flat_map(|_| update(s, Msg::Tick)).collect();
        effects.iter().filter(|e| matches!(e, Effect::Do(Deed::Kept))).count()
    };
    assert_eq!(asked(&mut s), 2);
    s.has_live = false;
    assert_eq!(asked(&mut s), 0);
}

#[test]
fn the_quit_key_types_a_letter_in_a_line() {
    let mut s = full(120, 40, "mono");
    assert_eq!(press(&mut s, "m q"), []);
    assert!(matches!(&s.popup, Some(Popup::Prompt(p)) if p.text() == "q"));
    assert_eq!(press(&mut s, "esc q"), [Effect::Quit]);
}

#[test]
fn worst_wait_waker_and_preemptor() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "enter x");
    assert_eq!(s.screen, Screen::Timeline);
    let slice = s.timeline.slice.as_ref().unwrap();
    assert_eq!(slice.track, TrackId::Thread(1));
    assert_eq!(s.timeline.data.as_ref().unwrap().tracks[s.timeline.track].id, TrackId::Thread(1));
    let effects = update(&mut s, Msg::Key(crate::tui::keys::Key::char('P')));
    let asked = effects.iter().any(|e| {
        matches!(e, Effect::Ask(q)
        if matches!(q.ask, Ask::Slice { track: TrackId::Thread(4), .. }))
    });
    assert!(asked, "logship pushed it off: {effects:?}");
    let mut s = full(120, 40, "mono");
    press(&mut s, "enter x");
    let effects = update(&mut s, Msg::Key(crate::tui::keys::Key::char('W')));
    let asked = effects.iter().any(|e| {
        matches!(e, Effect::Ask(q)
        if matches!(q.ask, Ask::Slice { track: TrackId::Thread(6), .. }))
    });
    assert!(asked, "rsyslogd woke it: {effects:?}");
}

#[test]
fn the_time_line_takes_the_selection_of_the_other_screens_along() {
    use crate::tui::answers::{Ask, Reply, Tracks};
    let asks = |effects: &[Effect], f: &dyn Fn(&Ask) -> bool| {
        effects.iter().any(|e| matches!(e, Effect::Ask(question) if f(&question.ask)))
    };
    for way in ["f2", "enter f2"] {
        let mut s = full(120, 40, "mono");
        press(&mut s, way);
        assert_eq!((s.screen, s.timeline.tracks), (Screen::Timeline, Tracks::Around(1)), "{way}");
        assert_eq!(s.timeline.slice.as_ref().map(|slice| slice.track), Some(TrackId::Thread(1)), "{way}");
        assert_eq!(s.timeline.data.as_ref().unwrap().tracks[s.timeline.track].id, TrackId::Thread(1), "{way}");
        // Whatever is about a selection works at once.
        for key in ["n", "p", "W", "P", "x"] {
            let mut s = s.clone();
            let effects = update(&mut s, Msg::Key(crate::tui::keys::Key::parse_sequence(key).unwrap()[0]));
            let picks = |ask: &Ask| matches!(ask, Ask::Slice { .. } | Ask::WorstWait { .. });
            assert!(asks(&effects, &picks) && s.notice.is_none(), "{way} {key}: {effects:?} {:?}", s.notice);
        }
        for key in ["c", "e"] {
            let effects = update(&mut s.clone(), Msg::Key(crate::tui::keys::Key::char(key.chars().next().unwrap())));
            assert!(asks(&effects, &|ask| matches!(ask, Ask::Chain { .. } | Ask::Events { .. })), "{way} {key}");
        }
    }
    // The lane that has the focus, or whose screen it is.
    for way in ["tab f2", "tab enter f2"] {
        let mut s = full(120, 40, "mono");
        press(&mut s, way);
        assert!(matches!(s.pick.asked, Some(Ask::Slice { track: TrackId::Cpu(0), .. })), "{way}: {:?}", s.pick.asked);
    }
    // A live window goes on with it; of a thread that is gone the last is taken.
    let mut s = full(120, 40, "mono");
    update(&mut s, Msg::Key(crate::tui::keys::Key::parse_sequence("f2").unwrap()[0]));
    let (id, Some(Ask::Slice { at, step: 0, .. })) = (s.pick.open.unwrap(), s.pick.asked.clone()) else { panic!() };
    let mut slice = demo::slice();
    (slice.detail.span.start, slice.detail.span.end) = (at, Some(at + 1));
    let answer = demo::answer(id, Reply::Slice(Some(Box::new(slice))), &s);
    let mut live = s.clone();
    update(&mut live, Msg::Answer(Box::new(answer)));
    assert!(live.timeline.cursor.is_live() && live.timeline.slice.is_some());
    let none = demo::answer(id, Reply::Slice(None), &s);
    let effects = update(&mut s, Msg::Answer(Box::new(none)));
    assert!(asks(&effects, &|ask| matches!(ask, Ask::Slice { track: TrackId::Thread(1), step: -1, .. })));
    assert!(s.notice.is_none());
}

#[test]
fn threads_without_a_value_are_last_in_both_orders() {
    let mut s = full(120, 40, "mono");
    let data = s.overview.data.as_mut().unwrap();
    for (i, row) in data.threads.iter_mut().enumerate() {
        row.latency.count = if i % 3 == 0 { 0 } else { 7 };
        row.last_waker = if i % 3 == 0 { None } else { row.last_waker.or(Some(None)) };
    }
    for column in [Column::P99, Column::Max, Column::Waker] {
        s.overview.sort = column;
        for descending in [true, false] {
            s.overview.descending = descending;
            crate::tui::update::resort(&mut s);
            let data = s.overview.data.as_ref().unwrap();
            let known: Vec<bool> =
                s.overview.order.iter().map(|&i| data.threads[i as usize].latency.count > 0).collect();
            assert!(known.contains(&true) && known.contains(&false));
            assert!(known.is_sorted_by(|a, b| a >= b), "{column:?} {descending}: {known:?}");
        }
    }
}

#[test]
fn groups_and_threads_are_counted_apart() {
    let rule = |s: &State| text(&demo::drawn(s)).lines().find(|l| l.contains("─ sort ")).unwrap().to_string();
    let mut s = full(120, 40, "mono");
    let (threads, now) = (s.overview.crowd.threads, s.overview.crowd);
    assert!(rule(&s).starts_with(&format!("─ Threads {threads} ─")), "{}", rule(&s));
    press(&mut s, "g");
    // A group for each thread that runs, and for no other: the numbers of threads stay what they were.
    let data = s.overview.data.as_mut().unwrap();
    data.threads.retain(|row| row.now == crate::sched::event::ThreadNow::Running);
    let groups = data.threads.len();
    crate::tui::update::resort(&mut s);
    assert!(groups > 1 && groups < threads);
    let shown = rule(&s);
    assert!(shown.starts_with(&format!("─ {groups} groups of {threads} threads ─")), "{shown}");
    let told = format!(
        "now {} running, {} ready, {} pushed off, {} in D",
        now.running, now.ready, now.pushed_off, now.blocked
    );
    assert!(now.running + now.ready + now.pushed_off > 1 && shown.contains(&told), "{told}: {shown}");
}

#[test]
fn a_finding_jumps_to_its_thread() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "1");
    assert_eq!(s.screen, Screen::Timeline);
    assert_eq!(s.timeline.tracks, crate::tui::answers::Tracks::Around(1));
}

#[test]
fn goto_reads_the_grammar_and_says_what_is_wrong() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "@");
    type_line(&mut s, "14:02:00");
    // 14:02:37 +08 is the edge: 37 s before it, in the middle of 10 s.
    assert_eq!(s.cursor.mode, Mode::Replay { at: demo::EDGE - 32 * demo::S });
    press(&mut s, "@");
    type_line(&mut s, "yesterday");
    assert!(s.notice.as_ref().unwrap().bad);
    press(&mut s, "@");
    type_line(&mut s, "2020-01-01 10:00");
    assert!(s.notice.as_ref().unwrap().bad);
}

#[test]
fn a_ready_query_is_asked_of_the_window_on_view() {
    let answered = |s: &State, name: &str| match &s.popup {
        Some(Popup::Query { view, top: 0 }) => {
            assert!(view.title.starts_with(name) && view.within == s.window(), "{view:?}")
        }
        other => panic!("{name}: {other:?}"),
    };
    let mut s = full(120, 40, "mono");
    press(&mut s, "Q");
    assert_eq!(type_line(&mut s, "worst_wa"), []);
    answered(&s, "worst_waits: ");
    press(&mut s, "q");
    assert!(s.popup.is_none(), "q closes what is on top");
    // From the palette with its name, or as the second of the list.
    press(&mut s, ":");
    type_line(&mut s, "query top_running");
    answered(&s, "top_running: ");
    press(&mut s, "q Q down enter");
    answered(&s, "blocked_functions: ");
    press(&mut s, "down down esc Q");
    assert_eq!(type_line(&mut s, "no such thing at all"), []);
    assert!(s.popup.is_none() && s.notice.as_ref().unwrap().bad);
}

#[test]
fn a_range_is_kept_and_two_windows_compared() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f2 v");
    press(&mut s, "right K");
    let done = type_line(&mut s, "bad minute");
    assert!(
        matches!(&done[..], [Effect::Do(Deed::Keep { label, window })] if label == "bad minute" && !window.is_empty()),
        "{done:?}"
    );
    let mut s = full(120, 40, "mono");
    press(&mut s, "a");
    assert!(s.popup.is_none() && s.notice.is_some());
    let mut elsewhere = s.clone();
    press(&mut elsewhere, "f3");
    assert!(elsewhere.notice.is_none() && elsewhere.compare[0].is_some(), "the keys have their line again");
    press(&mut s, "[ b");
    assert!(s.notice.is_none());
    assert!(matches!(&s.popup, Some(Popup::Compare { windows: [a, b], .. }) if a.to == b.to + 10 * demo::S));
    press(&mut s, "q");
    assert!(s.popup.is_none(), "q closes what is on top");
}

#[test]
fn zooming_stands_still_and_goes_down_to_a_microsecond() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f2 +");
    assert!(!s.timeline.cursor.is_live());
    assert_eq!(s.timeline.cursor.span, 5 * demo::S);
    for _ in 0..40 {
        press(&mut s, "+");
    }
    assert_eq!(s.timeline.cursor.span, 1_000);
    for _ in 0..60 {
        press(&mut s, "-");
    }
    assert_eq!(s.timeline.cursor.span, 3600 * demo::S);
    assert_eq!(s.cursor.span, 10 * demo::S, "the tables keep their own window");
}

#[test]
fn a_segment_opens_on_its_own_minute() {
    let mut s = full(120, 40, "mono");
    press(&mut s, "f3 down down enter");
    assert_eq!(s.screen, Screen::Overview);
    assert_eq!(s.cursor.mode, Mode::Replay { at: demo::EDGE - 120 * demo::S });
    assert_eq!(s.cursor.span, 60 * demo::S);
}

#[test]
fn mouse_selects_sorts_and_scrolls() {
    let mut s = full(120, 40, "mono");
    let plan = crate::tui::screens::overview::plan(&s);
    update(&mut s, Msg::Click(20, plan.table_y + 3));
    assert_eq!(s.overview.row, 1);
    update(&mut s, Msg::Wheel(20, plan.table_y + 3, false));
    assert_eq!(s.overview.row, 4);
    update(&mut s, Msg::Click(10, plan.cpu_y + 2));
    assert_eq!((s.overview.focus, s.overview.cpu), (Pane::Cpus, 1));
    let effects = update(&mut s, Msg::Click(10, plan.cpu_y + 2));
    demo::settle(&mut s, effects);
    assert_eq!(s.screen, Screen::Cpu(1), "a click on what is selected opens it");
}

#[test]
fn pasted_text_never_acts_as_keys() {
    let mut s = full(120, 40, "mono");
    assert_eq!(update(&mut s, Msg::Paste("q".into())), []);
    press(&mut s, "m");
    update(&mut s, Msg::Paste("one\nq\u{1b}".into()));
    assert!(matches!(&s.popup, Some(Popup::Prompt(p)) if p.text() == "one"));
}

#[test]
fn thread_numbers_given_out_anew_are_found_again() {
    use crate::tui::labels::{NewLabels, ThreadLabel};
    let mut s = full(120, 40, "mono");
    press(&mut s, "enter");
    assert_eq!(s.screen, Screen::Thread(1));
    let labels = NewLabels {
        reset: true,
        generation: 2,
        threads: vec![(77, ThreadLabel::new(48213, Some(48190), b"pt_loader:0", b"train.py"))],
        ..NewLabels::default()
    };
    let mut answer = demo::answer(0, crate::tui::answers::Reply::Failed("x".into()), &s);
    answer.labels = labels;
    let effects = update(&mut s, Msg::Answer(Box::new(answer)));
    assert_eq!(s.screen, Screen::Thread(77));
    assert!(
        matches!(&effects[..], [Effect::Ask(q)] if q.generation == 2),
        "it is asked in the new numbers: {effects:?}"
    );
}

#[test]
fn no_script_here_presses_a_dead_key() {
    use crate::tui::actions::Context;
    for (key, context) in
        [("x", Context::Thread), ("c", Context::Timeline), ("K", Context::Segments), ("1", Context::Overview)]
    {
        let s = full(80, 24, "mono");
        assert!(demo::bound(&s, key, context), "{key}");
    }
}
