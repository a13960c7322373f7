//! SIGKILL at random moments while a segment is written (CASE 65).
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::store::Store;
use dashcam::store::probe::PacketProbe;
use dashcam::store::reader::SegmentReader;
use dashcam::store::recover::{Outcome, recover};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use store_support::Plan;

const DIR: &str = "DASHCAM_TEST_KILL_DIR";
const RUNS: u64 = 200;

/// Not a test: what is killed. Writes segments of four frames one after another and says each frame that is in the file.
#[test]
#[ignore = "the child process of the test below"]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { panic!("only as a child") };
    let store = Store::create(Path::new(&dir)).unwrap();
    let mut plan = Plan { frames: 0, events: 400, ..Plan::default() };
    loop {
        let mut writer = plan.begin(&store);
        for i in 0..4 {
            let (packets, facts) = plan.data(i);
            store_support::write(&mut writer, &packets, facts);
            println!("frame {} {}", writer.sequence(), i + 1);
            std::io::stdout().flush().unwrap();
        }
        plan.frames = 4;
        writer.finish(plan.totals(), plan.summary()).unwrap();
        plan = Plan { frames: 0, ..plan.next() };
    }
}

#[test]
fn case_65_killed_two_hundred_times_every_file_opens_and_no_written_frame_is_missing() {
    let mut delay = 65u64;
    for run in 0..RUNS {
        let tmp = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(DIR, tmp.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said: Vec<String> = said
            .by_ref()
            .find(|l| l.contains("frame "))
            .into_iter()
            .chain({
                delay = (delay * 1_103_515_245 + 12_345) % (1 << 31);
                std::thread::sleep(Duration::from_micros(delay % 6000));
                child.kill().unwrap();
                child.wait().unwrap();
                said
            })
            .collect();
        // The last line may be cut by the kill.
        said.retain(|l| l.split_whitespace().count() >= 3);
        check(run, tmp.path(), said.iter().rev().find_map(|l| last_frame(l)).unwrap());
    }
}

/// `frame SEQUENCE NUMBER` at the end of a line (the harness writes in front of the first one).
fn last_frame(line: &str) -> Option<(u64, usize)> {
    let mut words = line[line.find("frame ")?..].split_whitespace().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn check(run: u64, dir: &Path, (sequence, frames): (u64, usize)) {
    let store = Store::open(dir).unwrap();
    for one in recover(&store, &mut || Box::new(PacketProbe::new())).unwrap() {
        assert!(!matches!(one.outcome, Outcome::Left(_)), "run {run}: {one:?}");
    }
    let files = store.segments().unwrap();
    for file in &files {
        assert!(!file.name.part, "run {run}: {file:?}");
        let mut reader = SegmentReader::open(&file.path).unwrap();
        assert_eq!(reader.damage(), None, "run {run}: {file:?}");
        assert!(reader.parts()[0].has_footer);
        for i in 0..reader.frames().len() {
            reader.read_frame(i, &mut Vec::new()).unwrap();
        }
        let data = reader.frames().len() - 1; // the head
        let expected = if file.name.sequence < sequence { 4 } else { frames };
        if file.name.sequence <= sequence {
            assert!(data >= expected, "run {run}: {data} of {expected} frames in {file:?}");
        }
    }
    assert!(files.iter().any(|f| f.name.sequence == sequence), "run {run}: the segment being written is there");
}
