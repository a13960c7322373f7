//! What is really drawn, and what keys really do, on made-up data.

#![allow(clippy::unwrap_used)]

use super::cursor::Mode;
use super::deeds::{Deed, Done};
use super::demo::{self, full, press, text, type_line};
use super::screens::columns::Column;
use super::state::{Effect, Msg, Pane, Popup, Screen, State};
use super::update::update;
use crate::sched::summary::TrackId;
use proptest::prelude::*;

/// Every screen and pop-up: a name and the keys that lead there from the overview.
const PLACES: [(&str, &str); 16] = [
    ("overview", ""),
    ("thread", "enter"),
    ("cpu", "shift-tab shift-tab enter"),
    ("timeline", "f2 n"),
    ("stack", "f2 down n"),
    ("chain", "f2 n c"),
    ("events", "f2 n e"),
    ("segments", "f3"),
    ("snapshots", "f4"),
    ("help", "?"),
    ("compare", "a b"),
    ("queries", "Q down"),
    ("answer", "Q enter"),
    ("palette", ":"),
    ("prompt", "S"),
    ("filter", "/"),
];

fn at(place: &str, w: u16, h: u16, theme: &str) -> State {
    let keys = PLACES.iter().find(|(n, _)| *n == place).unwrap().1;
    let mut state = full(w, h, theme);
    press_maybe(&mut state, keys);
    state
}

fn press_maybe(state: &mut State, keys: &str) {
    if !keys.is_empty() {
        press(state, keys);
    }
}

#[test]
fn every_screen_as_drawn() {
    for (place, _) in PLACES {
        for (w, h) in [(80, 24), (120, 40), (200, 60)] {
            for theme in ["dark", "mono"] {
                let state = at(place, w, h, theme);
                let buffer = demo::drawn(&state);
                let mut out = text(&buffer);
                if theme == "dark" && w < 200 {
                    out.push_str("──── looks\n");
                    out.push_str(&demo::looks(&buffer, &state.theme));
                }
                insta::assert_snapshot!(format!("{place}_{w}x{h}_{theme}"), out);
            }
        }
    }
}

#[test]
fn many_cpus_as_drawn() {
    for (cpus, w, h) in [(20, 120, 40), (128, 120, 40), (256, 200, 60), (1024, 200, 60), (64, 80, 24)] {
        let mut state = full(w, h, "dark");
        let data = demo::overview(cpus, 60, 40);
        state.overview.crowd = super::answers::Crowd::of(&data.threads);
        state.overview.data = Some(Box::new(data));
        update(&mut state, Msg::Resize(w, h));
        state.overview.focus = Pane::Cpus;
        state.overview.cpu = cpus as usize / 2;
        super::update::settle(&mut state);
        insta::assert_snapshot!(format!("cpus_{cpus}_{w}x{h}"), text(&demo::drawn(&state)));
    }
}

#[test]
fn before_any_data_as_drawn() {
    for keys in ["", "enter", "f2", "f3", "f4"] {
        let mut state = demo::empty(80, 24, "mono");
        for key in super::keys::Key::parse_sequence(keys).unwrap_or_default() {
            update(&mut state, Msg::Key(key));
        }
        let name = format!("empty_{}", if keys.is_empty() { "start" } else { keys });
        insta::assert_snapshot!(name, text(&demo::drawn(&state)));
    }
}

#[test]
fn the_figures_of_a_thread_are_never_cut_within_a_word() {
    for (w, h) in [(200, 60), (120, 40), (100, 30), (90, 30), (80, 24), (60, 24)] {
        for theme in ["dark", "mono"] {
            let shown = text(&demo::drawn(&at("thread", w, h, theme)));
            let lines: Vec<&str> = shown.lines().collect();
            let shares = lines.iter().position(|l| l.contains("41.2 %")).unwrap();
            let (shares, switches) = (lines[shares].trim_end(), lines[shares + 1].trim_end());
            // Every state with its share, and the longest wait with its unit.
            assert!(shares.matches(" %").count() >= 5 && shares.ends_with(" %"), "{w}x{h}: {shares}");
            assert!(switches.contains("p99 4.1 ms, ") && switches.ends_with(" 12 ms"), "{w}x{h}: {switches}");
        }
    }
    insta::assert_snapshot!("thread_100x30_mono", text(&demo::drawn(&at("thread", 100, 30, "mono"))));
}

#[test]
fn a_growing_segment_has_the_live_models_figures_and_none_where_nothing_is_live() {
    let growing = |state: &State| {
        let shown = text(&demo::drawn(state));
        let line = shown.lines().find(|l| l.contains("growing")).unwrap().to_string();
        line.split_whitespace().skip(4).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(growing(&at("segments", 120, 40, "mono")), "– 62.4 4 21 ms ckpt_writer growing");
    let mut state = full(120, 40, "mono");
    state.has_live = false;
    press(&mut state, "f3");
    assert_eq!(growing(&state), "– – – – growing");
}

#[test]
fn case_91_every_place_at_every_small_size_and_a_huge_one() {
    for (place, keys) in PLACES {
        for theme in ["dark", "mono"] {
            let mut state = full(120, 40, theme);
            press_maybe(&mut state, keys);
            for w in 0..=40 {
                for h in 0..=15 {
                    update(&mut state, Msg::Resize(w, h));
                    demo::drawn(&state);
                }
            }
            update(&mut state, Msg::Resize(500, 200));
            demo::drawn(&state);
            let mut small = full(30, 9, theme);
            press_maybe(&mut small, keys);
            assert!(!text(&demo::drawn(&small)).trim().is_empty(), "{place}");
        }
    }
    let tiny = text(&demo::drawn(&full(20, 5, "mono")));
    assert!(tiny.contains("too small: 20×5"), "{tiny}");
}

#[test]
fn loss_and_gap_are_on_every_screen_that_shows_time() {
    for place in ["overview", "thread", "cpu", "timeline", "chain", "segments"] {
        for theme in ["dark", "mono"] {
            let buffer = demo::drawn(&at(place, 120, 40, theme));
            assert!(text(&buffer).contains('╱'), "{place} {theme}");
        }
    }
}

/// Names in the data hold escape sequences, newlines and reordering marks: none may reach the terminal.
#[test]
fn case_43_hostile_names_never_reach_the_terminal_raw() {
    for (place, keys) in PLACES {
        let mut state = full(200, 60, "dark");
        press_maybe(&mut state, keys);
        let buffer = demo::drawn(&state);
        for cell in &buffer.content {
            let bad = cell
                .symbol()
                .chars()
                .any(|c| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'));
            assert!(!bad, "{place}: {:?}", cell.symbol());
        }
    }
    let shown = text(&demo::drawn(&full(200, 60, "dark")));
    assert!(shown.contains("\\x1b[2J\\x0aevil"), "the name is there, made visible");
    let mut ascii = full(200, 60, "mono");
    ascii.theme.ascii = true;
    for (_, keys) in PLACES {
        let mut state = ascii.clone();
        press_maybe(&mut state, keys);
        for cell in &demo::drawn(&state).content {
            assert!(cell.symbol().is_ascii(), "{:?} in ASCII mode", cell.symbol());
        }
    }
}

#[test]
fn what_could_not_be_read_stands_below_the_header() {
    let mut state = full(120, 40, "mono");
    let mut answer = demo::answer(0, super::answers::Reply::Failed("x".into()), &state);
    answer.notes = ["/store/a: damaged at byte 7: cut".into(), "/store/b: cut".into()].into();
    update(&mut state, Msg::Answer(Box::new(answer)));
    let shown = text(&demo::drawn(&state));
    assert!(shown.contains("! /store/a: damaged at byte 7: cut (and 1 more)"), "{shown}");
}

#[test]
fn no_line_overlaps_another_part() {
    // The table's titles stand on one line, whole, at the sizes of the sketches.
    for (w, h) in [(80, 24), (120, 40), (200, 60)] {
        let shown = text(&demo::drawn(&full(w, h, "mono")));
        assert!(shown.lines().any(|l| l.contains("PROCESS · THREAD") && l.contains("READY %")), "{w}×{h}");
        assert_eq!(shown.lines().count(), usize::from(h));
    }
}

mod key_scripts;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Any keys at any sizes, answers coming or not: no panic, and what is drawn stays inside.
    #[test]
    fn case_91_random_keys_and_resizes(steps in proptest::collection::vec((0usize..64, 0u16..130, 0u16..50, any::<bool>()), 1..40)) {
        let mut state = full(100, 30, "dark");
        let keys: Vec<_> = state.keymap.bindings().iter().map(|b| b.keys.clone()).collect();
        for (pick, w, h, answered) in steps {
            let effects = match pick % 5 {
                0 => update(&mut state, Msg::Resize(w, h)),
                1 => update(&mut state, Msg::Click(w, h)),
                2 => update(&mut state, Msg::Wheel(w, h, answered)),
                _ => {
                    let mut all = Vec::new();
                    for key in &keys[(pick * 7 + usize::from(w)) % keys.len()] {
                        all.extend(update(&mut state, Msg::Key(*key)));
                    }
                    all
                }
            };
            if answered {
                demo::settle(&mut state, effects);
            }
            demo::drawn(&state);
        }
    }
}

#[test]
fn the_axis_of_a_few_seconds_says_each_second_once() {
    use super::deeds::{Done, StoreView};
    let mut state = full(80, 24, "mono");
    let whole = demo::store();
    let short = StoreView { to_real: whole.from_real + 3_000_000_000, ..whole };
    press(&mut state, "f3");
    update(&mut state, Msg::Done(Done::Store(Box::new(short))));
    let drawn = text(&demo::drawn(&state));
    let axis = drawn.lines().find(|l| l.contains('▲')).unwrap_or_default();
    let times: Vec<&str> = axis.split([' ', '▲']).filter(|word| !word.is_empty()).collect();
    let mut different = times.clone();
    different.dedup();
    assert!(times.len() >= 2, "{axis}");
    assert_eq!(times, different);
}

#[test]
fn single_files_say_that_they_are_no_store() {
    use super::deeds::{Done, KeptView, StoreView};
    let mut state = full(80, 24, "mono");
    let one = StoreView { single: true, segments: demo::store().segments[..1].to_vec(), ..demo::store() };
    press(&mut state, "f3");
    update(&mut state, Msg::Done(Done::Store(Box::new(one))));
    insta::assert_snapshot!("segments_of_a_file", text(&demo::drawn(&state)));
    let none = StoreView { single: true, unplaced: vec!["/tmp/foreign.pftrace".into()], ..StoreView::default() };
    update(&mut state, Msg::Done(Done::Store(Box::new(none))));
    insta::assert_snapshot!("segments_of_a_foreign_file", text(&demo::drawn(&state)));
    press(&mut state, "f4");
    update(&mut state, Msg::Done(Done::Kept(Box::new(KeptView { single: true, ..KeptView::default() }))));
    insta::assert_snapshot!("kept_of_a_file", text(&demo::drawn(&state)));
    // A trace of another tool has marks, but no footer that would list them.
    let foreign = KeptView { single: true, marked: 380, marks_cut: true, ..KeptView::default() };
    update(&mut state, Msg::Done(Done::Kept(Box::new(foreign))));
    let shown = text(&demo::drawn(&state));
    assert!(shown.contains("0 of 380 marks") && shown.contains("all stand on the time line (/ #TEXT)"), "{shown}");
}
