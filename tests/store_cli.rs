//! `segments` and `verify` from outside, on stores of known content.
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::catalog::Catalog;
use dashcam::store::snapshot::{Request, plan};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use store_support::{BOOT, MIN, Plan, record_row};

fn dashcam(args: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    command.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_DIR").env("TZ", "Asia/Singapore");
    command.arg("--dir").arg(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Two segments, five minutes of nothing, one that grows, and a snapshot of the first minute.
fn example() -> (tempfile::TempDir, Store) {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let plans = record_row(&store, Plan::default(), 2);
    let window = Window { from: plans[0].start, to: plans[0].end() };
    let request = Request {
        boot: BOOT,
        window,
        reason: "trigger".to_owned(),
        detail: "p99 = 9 ms".to_owned(),
        label: "p99 \x1b[2Jalert".to_owned(),
        requested_at: window.to,
    };
    let planned = plan(&Catalog::open(&store).unwrap(), None, request).unwrap();
    planned.write(&store, &plans[0].head(), 3).unwrap();
    let later = Plan { start: plans[1].end() + 5 * MIN, real: plans[1].real + 6 * MIN, ..plans[1] };
    drop(later.begin(&store));
    (tmp, store)
}

#[test]
fn segments_lists_by_time_with_gaps_growth_and_snapshots() {
    let (tmp, _store) = example();
    let out = dashcam(&["segments"], tmp.path());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let lines: Vec<String> =
        text(&out.stdout).lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines[1].starts_with("2026-11-30 19:55:00 +08:00 1m00s "), "{}", lines[1]);
    assert!(lines[1].contains(" 1.2 k none 50.0 % – 1.0 µs w [7]"), "{}", lines[1]);
    assert_eq!(lines[3], "2026-11-30 19:57:00 +08:00 5m00s not recorded");
    assert!(lines[4].starts_with("2026-11-30 20:02:00 +08:00 – ") && lines[4].ends_with("growing"), "{}", lines[4]);
    assert!(lines[5].contains("snapshot \"p99 \\x1b[2Jalert\"; trigger p99 = 9 ms"), "{}", lines[5]);
    assert!(!text(&out.stdout).contains('\x1b'));
    assert!(text(&out.stderr).starts_with("3 segments, 1 snapshot, "), "{}", text(&out.stderr));
    assert!(text(&out.stderr).trim_end().ends_with(", 1 gap, no loss"));
}

#[test]
fn segments_json_is_one_object_a_line_with_exact_numbers() {
    let (tmp, store) = example();
    let out = dashcam(&["segments", "--json"], tmp.path());
    let lines: Vec<serde_json::Value> = text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["segment", "segment", "gap", "growing", "snapshot"]);
    assert_eq!(lines[0]["start"], "2026-11-30T11:55:00.000000000Z");
    assert_eq!(lines[0]["events"], 1200);
    assert_eq!(lines[0]["worst_wait"]["dur_ns"], 1000);
    assert_eq!(lines[2]["end_ns"].as_u64().unwrap() - lines[2]["start_ns"].as_u64().unwrap(), 5 * MIN);
    assert_eq!(lines[3]["end_ns"], serde_json::Value::Null);
    assert_eq!(lines[4]["snapshot"]["detail"], "p99 = 9 ms");
    assert!(text(&out.stderr).is_empty());
    // A single file, by its path.
    let file = store.segments().unwrap()[1].path.clone();
    let out = dashcam(&["segments", "--json", file.to_str().unwrap()], tmp.path());
    let one: serde_json::Value = serde_json::from_str(&text(&out.stdout)).unwrap();
    assert_eq!((&one["sequence"], &one["events"]), (&2.into(), &1200.into()));
}

#[test]
fn verify_passes_a_whole_store_and_names_the_damaged_byte() {
    let (tmp, store) = example();
    let out = dashcam(&["verify"], tmp.path());
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    assert_eq!(text(&out.stdout).lines().count(), 4);
    assert!(text(&out.stdout).contains("; 122 frames, "), "{}", text(&out.stdout));
    let first = store.segments().unwrap()[0].path.clone();
    let at = dashcam::store::reader::read_footer(&first).unwrap().unwrap().frames[5].clone();
    let mut bytes = fs::read(&first).unwrap();
    bytes[(at.offset + at.compressed - 2) as usize] ^= 1;
    fs::write(&first, bytes).unwrap();
    let out = dashcam(&["verify"], tmp.path());
    assert_eq!(out.status.code(), Some(1));
    let damaged = format!("NOT whole, 121 of 122 frames are; damaged at byte {}: wrong checksum", at.offset);
    assert!(text(&out.stdout).contains(&damaged), "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("1 of 4 files are not whole"), "{}", text(&out.stderr));
    let out = dashcam(&["verify", "--json", first.to_str().unwrap()], tmp.path());
    let object: serde_json::Value = serde_json::from_str(&text(&out.stdout)).unwrap();
    assert_eq!((&object["whole"], &object["damage"][0]["offset"]), (&false.into(), &at.offset.into()));
}

#[test]
fn what_is_no_store_or_empty_is_told_with_the_mend() {
    let tmp = tempfile::tempdir().unwrap();
    let out = dashcam(&["segments"], &tmp.path().join("nowhere"));
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("--dir"), "{}", text(&out.stderr));
    Store::create(tmp.path()).unwrap();
    let out = dashcam(&["segments"], tmp.path());
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("nothing is recorded in"), "{}", text(&out.stderr));
}
