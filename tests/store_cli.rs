//! `segments` and `verify` from outside, on stores of known content.
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::sched::summary::Window;
use dashcam::store::Store;
use dashcam::store::catalog::Catalog;
use dashcam::store::index::{FrameFacts, FrameKind, LossCount};
use dashcam::store::lock::{Holder, RecorderLock};
use dashcam::store::snapshot::{Request, plan};
use dashcam::store::writer::SegmentWriter;
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
    let (tmp, store) = example();
    let line_4 = || {
        let out = dashcam(&["segments"], tmp.path());
        text(&out.stdout).lines().nth(4).unwrap().to_owned()
    };
    assert!(line_4().ends_with(" left by a recorder that died"), "{}", line_4());
    let _recorder = RecorderLock::acquire(&store, &Holder::default()).unwrap();
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
fn segments_invents_no_times_for_what_cannot_be_read() {
    let (tmp, store) = example();
    let file = tmp.path().join("garbage.pftrace.zst");
    for (bytes, what) in [
        (&b"no trace at all"[..], "damaged at byte 0: no zstd frame starts here"),
        (b"\x28\xb5\x2f\xfd\x04", "damaged at byte 0: the file ends inside a zstd frame"),
        (b"", "the file is empty"),
    ] {
        fs::write(&file, bytes).unwrap();
        let out = dashcam(&["segments", file.to_str().unwrap()], tmp.path());
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), "dashcam: 1 file cannot be read\n".to_owned()));
        let row = text(&out.stdout).lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.starts_with("– – ") && row.ends_with(&format!("cannot be read as a segment: {what}")), "{row}");
        let out = dashcam(&["segments", "--json", file.to_str().unwrap()], tmp.path());
        let object: serde_json::Value = serde_json::from_str(&text(&out.stdout)).unwrap();
        let told = [&object["kind"], &object["problem"], &object["start"], &object["sequence"]];
        assert_eq!(told, [&"unreadable".into(), &what.into(), &serde_json::Value::Null, &serde_json::Value::Null]);
        assert_eq!(out.status.code(), Some(1));
    }
    // In a store it has the time of its name, and the others are listed.
    fs::write(store.segments_dir().join("20261130T120500Z-000099.pftrace.zst"), b"garbage").unwrap();
    let out = dashcam(&["segments"], tmp.path());
    assert_eq!(out.status.code(), Some(0));
    let rows = text(&out.stdout);
    let row = rows.lines().find(|l| l.contains("cannot be read")).unwrap();
    assert!(row.starts_with("2026-11-30 20:05:00 +08:00 "), "{rows}");
    let last = text(&out.stderr);
    assert!(
        last.starts_with("3 segments, 1 snapshot, ") && last.ends_with("no loss; 1 file cannot be read\n"),
        "{last}"
    );
}

#[test]
fn segments_json_is_one_object_a_line_with_exact_numbers() {
    let (tmp, store) = example();
    let out = dashcam(&["segments", "--json"], tmp.path());
    let lines: Vec<serde_json::Value> = text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["segment", "segment", "gap", "left", "snapshot"]);
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

/// Exit code and first line of `verify` of one file.
fn verdict(path: &Path) -> (Option<i32>, String) {
    let out = dashcam(&["verify", path.to_str().unwrap()], path.parent().unwrap());
    let said = if out.stdout.is_empty() { &out.stderr } else { &out.stdout };
    (out.status.code(), text(said).lines().next().unwrap_or_default().to_owned())
}

#[test]
fn verify_says_in_a_clear_word_what_is_wrong_with_a_file() {
    let (tmp, store) = example();
    let whole = store.segments().unwrap()[0].path.clone();
    let bytes = fs::read(&whole).unwrap();
    let frames = dashcam::store::reader::read_footer(&whole).unwrap().unwrap().frames;
    let good = frames.last().map(|f| f.offset + f.compressed).unwrap();
    let file = tmp.path().join("x.pftrace.zst");
    let says = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let (code, line) = verdict(&file);
        assert!(code == Some(1) && line.contains(what), "{code:?} {line}");
    };
    says(b"", "NOT whole; damaged at byte 0: the file is empty");
    says(&bytes[..good as usize], &format!("NOT whole; damaged at byte {good}: the footer is missing"));
    says(&bytes[..bytes.len() - 1], &format!("damaged at byte {good}: the file ends inside a zstd frame"));
    says(&bytes[..good as usize - 1], "121 of 122 frames are; damaged at byte");
    says(b"not a trace at all", "NOT whole, 0 of 1 frames are; damaged at byte 0: no zstd frame starts here");
    says(&[&bytes[..], &bytes[..]].concat()[..bytes.len() + good as usize], "the footer is missing");
    let (code, line) = verdict(&whole);
    assert!(
        code == Some(0) && line.contains(": whole; 122 frames, ") && line.ends_with("; 1,200 events, no loss"),
        "{line}"
    );
    let (code, line) = verdict(&tmp.path().join("nowhere"));
    let missing = format!(
        "dashcam: {}: no such file or directory (another store: --dir DIR)",
        tmp.path().join("nowhere").display()
    );
    assert_eq!((code, line), (Some(1), missing));
    let (code, line) = verdict(&store.segments_dir());
    assert!(code == Some(1) && line.contains("is not a dashcam store"), "{line}");
}

#[test]
fn verify_tells_a_growing_segment_from_one_that_a_dead_recorder_left_torn() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let plan = Plan { frames: 3, ..Plan::default() };
    let torn = |plan: &Plan| {
        let writer = plan.begin(&store);
        let (path, good) = (writer.path().to_owned(), writer.bytes());
        drop(writer);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&bytes.clone()[..20]);
        fs::write(&path, bytes).unwrap();
        (path, good)
    };
    let (path, good) = torn(&plan);
    let (code, line) = verdict(&path);
    let cut = format!("NOT whole, 4 of 5 frames are; damaged at byte {good}: the file ends inside a zstd frame; ");
    assert!(code == Some(1) && line.contains(&cut), "{line}");
    let mend = "left by a recorder that died; the next start of the recorder finishes it and keeps every whole frame";
    assert!(line.ends_with(mend), "{line}");
    // The same bytes while a recorder has the store.
    let recorder = |started| RecorderLock::acquire(&store, &Holder { pid: 1, started, note: String::new() }).unwrap();
    let lock = recorder(plan.real);
    let (code, line) = verdict(&path);
    assert!(code == Some(0) && line.contains(": whole; 4 frames, ") && line.ends_with("; still growing"), "{line}");
    // It goes on with the next while the first one gets its end.
    let (next, _) = torn(&plan.next());
    let both = [verdict(&path), verdict(&next)];
    assert!(both.iter().all(|(code, line)| *code == Some(0) && line.ends_with("; still growing")), "{both:?}");
    drop(lock);
    // A younger recorder grows the second, and the first is none of its own.
    let _lock = recorder(plan.next().real);
    let (code, line) = verdict(&path);
    assert!(code == Some(1) && line.contains(&cut) && line.ends_with(mend), "{line}");
    assert_eq!(verdict(&next).0, Some(0));
    let out = dashcam(&["verify", "--json"], tmp.path());
    let objects: Vec<serde_json::Value> = text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let states: Vec<_> = objects.iter().map(|o| (o["whole"].as_bool(), o["unfinished"].as_str())).collect();
    assert_eq!(states, [(Some(false), Some("left")), (Some(true), Some("growing"))]);
    // A copy elsewhere is nobody's.
    let copy = tmp.path().join("copy.pftrace.zst.part");
    fs::copy(&path, &copy).unwrap();
    let (code, line) = verdict(&copy);
    assert!(code == Some(1) && line.ends_with("; never finished; its whole frames can be read as they are"), "{line}");
}

#[test]
fn verify_leaves_out_a_snapshot_that_is_being_made() {
    let (tmp, store) = example();
    let half = store.snapshots_dir().join("20261130T115500Z-000099-x.pftrace.zst.part");
    fs::write(&half, b"\x28\xb5\x2f\xfd").unwrap();
    let out = dashcam(&["verify"], tmp.path());
    assert_eq!((out.status.code(), text(&out.stdout).lines().count()), (Some(0), 4), "{}", text(&out.stderr));
    let note = format!("note: {} is left out: a snapshot that is being made, or was never finished", half.display());
    assert!(text(&out.stderr).contains(&note), "{}", text(&out.stderr));
}

#[test]
fn verify_counts_anew_and_finds_a_footer_that_lies() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let plan = Plan { frames: 3, ..Plan::default() };
    type Lie<'a> = (&'a str, &'a dyn Fn(&mut FrameFacts));
    let lies: [Lie; 6] = [
        ("the footer says 7 events of one CPU, the frames hold 5", &|f| f.events[1].1 = 7),
        ("the footer says 0 events of one CPU, the frames hold 5", &|f| f.events[0].1 = 0),
        ("the footer says 3 lost events, the frames hold 0", &|f| {
            f.loss.push((0, LossCount { known: 3, unknown: false }))
        }),
        ("the footer says 1 losses of unknown size, the frames hold 0", &|f| {
            f.loss.push((1, LossCount { known: 0, unknown: true }))
        }),
        ("ns as the time of the last event, the frames hold 1001450000000", &|f| {
            f.span = f.span.map(|s| (s.0, s.1 + 1))
        }),
        ("ns as the instant up to which all is there, the frames hold 1001500000000", &|f| f.complete_through -= 1),
    ];
    for (what, lie) in lies {
        let mut writer = SegmentWriter::create(&store, plan.real).unwrap();
        store_support::write(&mut writer, &plan.head(), FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
        for i in 0..3 {
            let (packets, mut facts) = plan.data(i);
            if i == 2 {
                lie(&mut facts);
            }
            store_support::write(&mut writer, &packets, facts);
        }
        let offset = writer.frames()[3].offset;
        let done = writer.finish(plan.totals(), plan.summary()).unwrap();
        let (code, line) = verdict(&done.path);
        let damage = format!("NOT whole; damaged at byte {offset}: ");
        assert!(code == Some(1) && line.contains(&damage) && line.contains(what), "{what}: {line}");
        assert!(line.contains("; 30 events, no loss"), "what is there, not what the footer says: {line}");
    }
    // Every frame as told, and yet another sum.
    let done = plan.record(&store);
    let mut footer = dashcam::store::reader::read_footer(&done.path).unwrap().unwrap();
    footer.totals.events += 1;
    let good = footer.frames.last().map(|f| f.offset + f.compressed).unwrap();
    let mut bytes = fs::read(&done.path).unwrap();
    bytes.truncate(good as usize);
    bytes.extend(dashcam::store::footer::encode(&footer, good));
    fs::write(&done.path, bytes).unwrap();
    let (code, line) = verdict(&done.path);
    assert_eq!(code, Some(1));
    assert!(line.contains("the footer says 31 events in all, the frames hold 30"), "{line}");
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

#[test]
fn what_is_no_file_among_the_segments_spoils_no_answer() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    record_row(&store, Plan::default(), 2);
    let ask = |args: &[&str]| {
        let out = dashcam(args, tmp.path());
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let count = ["query", "--format", "csv", "SELECT count(*) FROM sched"];
    let commands: [&[&str]; 4] =
        [&count, &["report", "cpu"], &["export", "--format", "text"], &["export", "--format", "json", "--last", "30s"]];
    let before: Vec<_> = commands.iter().map(|args| ask(args)).collect();
    let at = |number: u64| store.segments_dir().join(format!("20261201T053434Z-{number:06}.pftrace.zst"));
    nix::unistd::mkfifo(&at(4), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(at(5)).unwrap();
    std::os::unix::fs::symlink(at(6), at(6)).unwrap();
    std::os::unix::fs::symlink("none", at(7)).unwrap();
    for (args, before) in commands.iter().zip(before) {
        let (code, out, words) = ask(args);
        assert_eq!((code, out), (before.0, before.1), "{words}");
        for number in 4..8 {
            let note = format!("dashcam: note: cannot read {}: ", at(number).display());
            assert_eq!(words.matches(&note).count(), 1, "{words}");
        }
    }
    let (code, listed, words) = ask(&["segments"]);
    assert_eq!((code, listed.matches("cannot be read as a segment").count()), (Some(0), 4), "{listed}");
    assert!(words.contains("2 segments") && words.contains("4 files cannot be read"), "{words}");
    let (code, _, words) = ask(&["verify"]);
    assert_eq!((code, words.contains("4 of 6 files are not whole")), (Some(1), true), "{words}");
    // With nothing else there, that is the answer.
    let alone = tempfile::tempdir().unwrap();
    let store = Store::create(alone.path()).unwrap();
    nix::unistd::mkfifo(&store.segments_dir().join(at(4).file_name().unwrap()), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let out = dashcam(&count, alone.path());
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("not a regular file"), "{}", text(&out.stderr));
}

#[test]
fn what_no_recorder_named_so_is_left_out_with_a_word() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    let plans = record_row(&store, Plan::default(), 2);
    let first = store.segments().unwrap()[0].path.clone();
    let names = [
        ("segments/20261332T053434Z-000007.pftrace.zst", "there is no such date or time as its name says"),
        ("segments/20261201T053434Z-18446744073709551615.pftrace.zst", "no recorder counts to the number in its name"),
        ("segments/20261201T053434Z-99999999999999999999.pftrace.zst", "no recorder counts to the number in its name"),
        ("snapshots/20261301T053434Z-000009-x.pftrace.zst", "there is no such date or time as its name says"),
    ];
    for (name, _) in names {
        fs::copy(&first, tmp.path().join(name)).unwrap();
    }
    fs::write(store.segments_dir().join("core"), b"").unwrap();
    for command in [&["segments"][..], &["verify"], &["segments", "--json"]] {
        let out = dashcam(command, tmp.path());
        let (listed, words) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(0), "{words}");
        for (name, why) in names {
            let path = tmp.path().join(name);
            let note = format!("dashcam: note: {} is left out: {why}; it can be read by itself", path.display());
            assert_eq!(words.matches(&note).count(), 1, "{words}");
            assert!(!listed.contains(name), "{listed}");
        }
        assert_eq!(words.matches("note:").count(), 4, "{words}");
    }
    let out = dashcam(&["query", "--format", "csv", "SELECT count(*) FROM sched"], tmp.path());
    assert_eq!((out.status.code(), text(&out.stderr).matches(": left out: ").count()), (Some(0), 3));
    // The next segment comes after those that count.
    assert!(store.next_sequence().unwrap() <= 1 + plans.len() as u64);
}
