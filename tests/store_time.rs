//! Finding by time: boundaries, several boots, a wall clock that is set (CASES 56, 57, 85).
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::catalog::Catalog;
use dashcam::store::footer::BootId;
use dashcam::store::recover;
use std::fs;
use store_support::{BOOT, MIN, Plan, REAL, S, record_row};

fn store() -> (tempfile::TempDir, Store) {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    (tmp, store)
}

#[test]
fn case_85_sixty_segments_every_boundary_and_its_neighbours() {
    let (_tmp, store) = store();
    let plan = Plan { frames: 4, step: 15 * S, ..Plan::default() };
    let plans = record_row(&store, plan, 60);
    let catalog = Catalog::open(&store).unwrap();
    let at = |ts| catalog.frame_at(BOOT, ts).unwrap();
    assert_eq!(at(plans[0].start - 1), None);
    for (segment, plan) in plans.iter().enumerate() {
        for frame in 0..4u64 {
            let begin = plan.start + frame * plan.step;
            // Frame 0 of a file is its head.
            let here = Some((segment, frame as usize + 1));
            let before =
                if frame > 0 { Some((segment, frame as usize)) } else { segment.checked_sub(1).map(|s| (s, 4)) };
            assert_eq!(
                [at(begin - 1), at(begin), at(begin + 1)],
                [before, here, here],
                "segment {segment} frame {frame}"
            );
            assert_eq!(catalog.segment_at(BOOT, begin), Some(segment));
        }
    }
    assert_eq!(at(plans[59].end() - 1), Some((59, 4)));
    assert_eq!(at(plans[59].end()), None);
    assert_eq!(catalog.frame_at(BootId([9; 16]), plans[3].start).unwrap(), None, "another boot's clock");
}

#[test]
fn case_85_a_range_needs_exactly_its_frames() {
    let (_tmp, store) = store();
    let plans = record_row(&store, Plan { frames: 4, step: 15 * S, ..Plan::default() }, 60);
    let catalog = Catalog::open(&store).unwrap();
    let pieces = |from, to| -> Vec<(usize, std::ops::Range<usize>)> {
        let found = catalog.pieces(BOOT, Window { from, to }).unwrap();
        found.into_iter().map(|p| (p.segment, p.frames)).collect()
    };
    let second = plans[1].start;
    assert_eq!(pieces(second, second + 15 * S), [(1, 1..2)]);
    assert_eq!(pieces(second - 1, second + 15 * S + 1), [(0, 4..5), (1, 1..3)]);
    assert_eq!(pieces(second + 1, second + 2), [(1, 1..2)]);
    assert_eq!(pieces(second, second), []);
    assert_eq!(pieces(0, u64::MAX).len(), 60);
    assert_eq!(pieces(plans[59].end(), u64::MAX), []);
}

#[test]
fn case_56_a_wall_clock_set_back_reads_twice_and_one_set_forward_never() {
    let (_tmp, store) = store();
    let hour = 60 * MIN;
    let first = Plan::default();
    let back = Plan { real: first.real + MIN - hour, ..first.next() };
    let again = back.next();
    for plan in [first, back, again] {
        plan.record(&store);
    }
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.at_wall(REAL + 30 * S), [(BOOT, first.start + 30 * S)]);
    assert_eq!(catalog.at_wall(REAL + 90 * S - hour), [(BOOT, back.start + 30 * S)]);
    assert_eq!(catalog.at_wall(REAL + MIN), [], "the clock was set back at this very instant");
    assert_eq!(catalog.holes(), [], "on the boot clock nothing is missing");
    // A minute that the wall clock showed twice: both, newest first.
    let twice = Plan { real: first.real, ..again.next() };
    twice.record(&store);
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.at_wall(REAL + S), [(BOOT, twice.start + S), (BOOT, first.start + S)]);
}

#[test]
fn several_boots_in_one_store_are_kept_apart() {
    let (_tmp, store) = store();
    let first = Plan::default();
    let second = Plan { boot: BootId([2; 16]), start: 20 * S, real: REAL + 10 * MIN, ..first };
    first.record(&store);
    second.record(&store);
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.newest_boot(), Some(second.boot));
    assert_eq!(catalog.segment_at(BOOT, first.start), Some(0));
    assert_eq!(catalog.segment_at(second.boot, second.start), Some(1));
    assert_eq!(catalog.segment_at(second.boot, first.start), None);
    assert_eq!(catalog.at_wall(REAL + 10 * MIN + 5 * S), [(second.boot, 25 * S)]);
    let hole = catalog.holes()[0];
    assert_eq!((hole.from, hole.to), ((BOOT, first.end()), (second.boot, 20 * S)));
    assert_eq!(hole.real, Window { from: REAL + MIN, to: REAL + 10 * MIN });
}

#[test]
fn a_hole_is_told_and_found_by_nobody() {
    let (_tmp, store) = store();
    let first = Plan::default();
    let later = Plan { start: first.end() + 5 * MIN, real: first.real + 6 * MIN, ..first };
    first.record(&store);
    later.record(&store);
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.holes().len(), 1);
    assert_eq!(catalog.segment_at(BOOT, first.end() + MIN), None);
    assert_eq!(catalog.at_wall(REAL + 3 * MIN), []);
}

#[test]
fn refreshing_follows_growth_end_and_deletion() {
    let (_tmp, store) = store();
    let mut catalog = Catalog::open(&store).unwrap();
    let plan = Plan::default();
    let mut writer = plan.begin(&store);
    catalog.refresh().unwrap();
    assert!(catalog.segments()[0].is_growing());
    assert_eq!(catalog.window(0), Some(Window { from: plan.start, to: u64::MAX }));
    assert_eq!(catalog.frame_at(BOOT, plan.start + S).unwrap(), Some((0, 3)), "scanned, since it has no footer yet");
    writer.finish(plan.totals(), plan.summary()).unwrap();
    catalog.refresh().unwrap();
    assert_eq!(catalog.window(0), Some(Window { from: plan.start, to: plan.end() }));
    fs::remove_file(&catalog.segments()[0].path).unwrap();
    catalog.refresh().unwrap();
    assert!(catalog.segments().is_empty());
}

#[test]
fn a_segment_left_by_a_dead_recorder_ends_where_the_next_begins() {
    let (_tmp, store) = store();
    let dead = Plan { frames: 10, ..Plan::default() };
    drop(dead.begin(&store));
    let next = Plan { start: dead.end() + 30 * S, ..Plan::default() };
    next.record(&store);
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.window(0), Some(Window { from: dead.start, to: next.start }));
    assert_eq!(catalog.segment_at(BOOT, next.start + S), Some(1));
    recover::recover(&store, &mut || Box::new(dashcam::store::probe::PacketProbe::new())).unwrap();
    let catalog = Catalog::open(&store).unwrap();
    assert_eq!(catalog.window(0), Some(Window { from: dead.start, to: dead.end() }));
    assert_eq!(catalog.holes().len(), 1);
}

#[test]
fn a_cut_segment_is_listed_with_its_problem_and_still_found() {
    let (_tmp, store) = store();
    let plan = Plan::default();
    let done = plan.record(&store);
    let bytes = fs::read(&done.path).unwrap();
    fs::write(&done.path, &bytes[..bytes.len() / 2]).unwrap();
    let catalog = Catalog::open(&store).unwrap();
    let entry = &catalog.segments()[0];
    assert!(entry.problem.as_deref().unwrap().contains("it has no footer; damaged at byte "), "{:?}", entry.problem);
    assert_eq!(catalog.segment_at(BOOT, plan.start + S), Some(0));
}
