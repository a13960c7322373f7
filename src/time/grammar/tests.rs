#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// 2026-11-30 14:40:00 UTC.
const NOW: u64 = 1_796_049_600_000_000_000;
const SEC: u64 = 1_000_000_000;

fn utc() -> Reference {
    Reference { now: NOW, on_view: None, zone: Zone::UTC }
}

fn one(text: &str) -> u64 {
    match point(text, &utc()).unwrap() {
        Point::One(t) => t,
        twice => panic!("{text} gave {twice:?}"),
    }
}

fn name(text: &str) -> u64 {
    parse_utc_name(text).unwrap()
}

/// Rules of Europe/London without need of a zone database.
fn london() -> Zone {
    Zone::posix("GMT0BST,M3.5.0/1,M10.5.0").unwrap()
}

/// America/Sao_Paulo's rules as they were until 2019: changes at midnight.
fn sao_paulo() -> Zone {
    Zone::posix("<-03>3<-02>,M11.1.0/0,M2.3.0/0").unwrap()
}

#[test]
fn every_form_of_the_grammar() {
    assert_eq!(one("now"), NOW);
    assert_eq!(one("-5m"), NOW - 300 * SEC);
    assert_eq!(one("-1h30m"), NOW - 5400 * SEC);
    assert_eq!(one("14:32"), name("20261130T143200Z"));
    assert_eq!(one("14:32:05.250"), name("20261130T143205Z") + 250_000_000);
    assert_eq!(one("2026-11-30 14:32"), name("20261130T143200Z"));
    assert_eq!(one("2026-11-29"), name("20261129T000000Z"));
    assert_eq!(one("2026-11-30T14:32:05.5+08:00"), name("20261130T063205Z") + 500_000_000);
    assert_eq!(one("2026-11-30T14:32:05Z"), name("20261130T143205Z"));
    assert_eq!(one("2026-11-30 14:32 -0330"), name("20261130T180200Z"));
    assert_eq!(one("20261130T115500Z"), name("20261130T115500Z"));
}

#[test]
fn a_bare_time_is_the_latest_one_unless_a_day_is_on_view() {
    assert_eq!(one("14:40"), NOW, "now itself is not after now");
    assert_eq!(one("23:50"), name("20261129T235000Z"), "not tonight's");
    let viewing = Reference { on_view: Some(name("20261105T120000Z")), ..utc() };
    assert_eq!(point("23:50", &viewing), Ok(Point::One(name("20261105T235000Z"))));
}

#[test]
fn what_screens_print_reads_back() {
    for zone in [Zone::UTC, london(), sao_paulo()] {
        let at = Reference { now: NOW, on_view: None, zone };
        for real in [NOW, name("20261025T003000Z"), name("20261025T013000Z"), name("20180218T013000Z")] {
            assert_eq!(point(&local(real, &at.zone, Digits::Nanos), &at), Ok(Point::One(real)));
        }
    }
}

#[test]
fn case_57_a_time_that_occurs_twice_gives_both() {
    let at = Reference { now: NOW, on_view: None, zone: london() };
    let both = point("2026-10-25 01:30", &at).unwrap();
    assert_eq!(both, Point::Twice(name("20261025T003000Z"), name("20261025T013000Z")));
    assert_eq!(both.all(), vec![name("20261025T003000Z"), name("20261025T013000Z")]);
    // São Paulo's clocks went back at midnight: 23:30 of 2018-02-17 was -02:00, then -03:00.
    let at = Reference { now: NOW, on_view: Some(name("20180217T150000Z")), zone: sao_paulo() };
    assert_eq!(point("23:30", &at), Ok(Point::Twice(name("20180218T013000Z"), name("20180218T023000Z"))));
}

#[test]
fn case_57_a_range_needs_to_know_which_of_the_two() {
    let at = Reference { now: NOW, on_view: None, zone: london() };
    let err = range(Some("2026-10-25 01:30"), None, None, &at).unwrap_err();
    assert_eq!(
        err.to_string(),
        "2026-10-25 01:30 occurs twice in the local time zone; write \"2026-10-25 01:30:00 +01:00\" or \"2026-10-25 01:30:00 +00:00\""
    );
    // From the first 01:30 on, 01:30 can only be the second.
    let r = range(Some("2026-10-25 01:30 +01:00"), Some("01:30"), None, &at).unwrap();
    assert_eq!(r.to, Some(name("20261025T013000Z")));
}

#[test]
fn case_57_a_time_that_was_skipped_is_refused() {
    let at = Reference { now: NOW, on_view: None, zone: london() };
    assert_eq!(
        point("2026-03-29 01:30", &at).unwrap_err().to_string(),
        "2026-03-29 01:30:00 does not exist in the local time zone: clocks were set forward from 01:00 to 02:00; name a time outside that, or add an offset"
    );
    let at = Reference { zone: sao_paulo(), ..at };
    let err = point("2018-11-04 00:30", &at).unwrap_err();
    assert!(
        matches!(err, TimeError::Skipped { ref last, ref first, .. } if last == "00:00" && first == "01:00"),
        "{err}"
    );
}

#[test]
fn ranges() {
    let r = |f, t, l| range(f, t, l, &utc());
    let some = |from, to| Ok(RealRange { from: Some(from), to: Some(to) });
    assert_eq!(r(None, None, None), Ok(RealRange::default()));
    assert_eq!(r(None, None, Some(Span::secs(60))), some(NOW - 60 * SEC, NOW));
    assert_eq!(r(Some("13:00"), None, Some(Span::secs(60))), some(NOW - 6000 * SEC, NOW - 5940 * SEC));
    assert_eq!(r(None, Some("13:00"), Some(Span::secs(60))), some(NOW - 6060 * SEC, NOW - 6000 * SEC));
    assert_eq!(r(Some("-10m"), None, None), Ok(RealRange { from: Some(NOW - 600 * SEC), to: None }));
    assert_eq!(
        r(Some("2026-11-28 23:50"), Some("00:10"), None),
        some(name("20261128T235000Z"), name("20261129T001000Z")),
        "a bare end counts from the start on, over midnight"
    );
    assert_eq!(
        r(Some("-5m"), Some("-10m"), None).unwrap_err(),
        TimeError::Empty { from: "2026-11-30 14:35:00.000 +00:00".into(), to: "2026-11-30 14:30:00.000 +00:00".into() }
    );
    assert_eq!(r(Some("-5m"), Some("now"), Some(Span::secs(1))), Err(TimeError::TooMany));
    let nothing = r(None, None, Some(Span::secs(0))).unwrap_err().to_string();
    assert_eq!(nothing, "--last must be longer than nothing: write a length such as 5m");
}

#[test]
fn an_end_before_the_begin_is_taken_over_midnight_only_where_that_can_be_meant() {
    // Now is 2026-11-30 14:40.
    let r = |f, t| range(Some(f), Some(t), None, &utc());
    let some = |from, to| Ok(RealRange { from: Some(name(from)), to: Some(name(to)) });
    assert_eq!(
        r("13:48", "13:47").unwrap_err().to_string(),
        "--to 13:47 is before --from, and over midnight the range would go from 2026-11-30 13:48:00 +00:00 to \
         2026-12-01 13:47:00 +00:00: swap the two, or write --to with its date"
    );
    // The night that has passed, and no longer one.
    assert_eq!(r("20:00", "08:00"), some("20261129T200000Z", "20261130T080000Z"));
    assert!(matches!(r("20:00", "08:01"), Err(TimeError::Backwards { .. })));
    // Of a night that is yet to come nothing was recorded.
    assert!(matches!(r("14:00", "01:00"), Err(TimeError::Backwards { .. })));
    // The end of one that is under way may be.
    let at = Reference { now: name("20261130T000500Z"), ..utc() };
    let night = range(Some("23:50"), Some("00:10"), None, &at);
    assert_eq!(night, some("20261129T235000Z", "20261130T001000Z"));
    // On one day the end may lie ahead, and with its date it may lie wherever it was put.
    assert_eq!(r("14:00", "15:00"), some("20261130T140000Z", "20261130T150000Z"));
    assert_eq!(r("13:48", "2026-12-01 13:47"), some("20261130T134800Z", "20261201T134700Z"));
    assert!(matches!(r("13:48", "2026-11-30 13:47"), Err(TimeError::Empty { .. })));
}

#[test]
fn errors_say_what_to_write() {
    let msg = |t: &str| point(t, &utc()).unwrap_err().to_string();
    let tail = "; write now, -5m, 14:32, 14:32:05.250, 2026-11-30 14:32 or RFC 3339";
    assert_eq!(
        msg("yesterday"),
        format!("\"yesterday\" is not a point in time: its time is not HH:MM, HH:MM:SS or HH:MM:SS.fff{tail}")
    );
    assert_eq!(
        msg("2026-02-30"),
        format!("\"2026-02-30\" is not a point in time: there is no such day in the calendar{tail}")
    );
    assert!(msg("25:00").contains("there is no such time of day"));
    assert!(msg("-5").contains("the unit is missing"));
    assert!(msg("14:32 PM").contains("not Z or an offset"));
    assert!(msg("1969-12-31").contains("before 1970"));
    assert!(msg("").contains("is not a point in time"));
    assert!(!msg("\u{1b}[2J").contains('\u{1b}'));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = point(&text, &utc());
        let _ = range(Some(&text), Some(&text), None, &utc());
    }

    #[test]
    fn time_like_text_never_panics(text in "[0-9]{0,5}[-: T]?[0-9]{0,4}[-:]?[0-9]{0,3}[ T]?[0-9:.+Z-]{0,20}") {
        let _ = point(&text, &Reference { zone: london(), ..utc() });
    }

    #[test]
    fn any_instant_reads_back_from_its_print(real in 0u64..1 << 63) {
        let at = Reference { zone: london(), ..utc() };
        prop_assert_eq!(point(&local(real, &at.zone, Digits::Nanos), &at), Ok(Point::One(real)));
    }
}
