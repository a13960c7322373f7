//! Traces that another Perfetto producer might write, made with Perfetto's own Python package, decode to one story.
#![allow(clippy::unwrap_used)]

use dashcam::names::NameTable;
use dashcam::perfetto::decode::{Decoder, stream::decode_stream};
use dashcam::sched::event::{EventKind, Item};
use std::collections::BTreeMap;
use std::process::Command;

fn foreign(variant: &str) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/foreign.py");
    let out = Command::new("python3").args([script, variant]).output().expect("python3 is needed");
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "foreign.py failed (needed: pip install perfetto zstandard): {error}");
    out.stdout
}

/// What one thread did on one CPU: start, length, CPU, who, its name, its priority, the letters of its end.
type Slice = (u64, u64, u32, i32, String, i32, String);

#[derive(Debug, PartialEq)]
struct Story {
    slices: Vec<Slice>,
    wakings: Vec<(u64, u32, i32, u32, String, u8)>,
    processes: Vec<i32>,
    release: String,
}

fn read(bytes: &[u8]) -> Story {
    let (mut names, mut items) = (NameTable::new(), Vec::new());
    decode_stream(bytes, &mut Decoder::new(), &mut names, &mut |item| items.push(item)).unwrap();
    let mut story = Story { slices: Vec::new(), wakings: Vec::new(), processes: Vec::new(), release: String::new() };
    let mut running: BTreeMap<u32, (u64, i32, String, i32)> = BTreeMap::new();
    for item in &items {
        match item {
            Item::Event(event) => match event.kind {
                EventKind::Switch(s) => {
                    let next = (event.ts, s.next_tid, names.text(s.next_comm), s.next_prio);
                    if let Some((start, tid, name, prio)) = running.insert(event.cpu, next) {
                        assert_eq!(s.prev_tid, Some(tid));
                        let end = s.prev_state.letters().into_owned();
                        story.slices.push((start, event.ts - start, event.cpu, tid, name, prio, end));
                    }
                }
                EventKind::Waking(w) => {
                    let name = names.text(w.comm);
                    story.wakings.push((event.ts, event.cpu, w.tid, w.target_cpu, name, event.flags));
                }
                _ => panic!("{event:?}"),
            },
            Item::Process(p) => story.processes.push(p.pid),
            Item::System(s) => story.release = names.text(s.release),
            Item::Damage { what, .. } => panic!("{}", names.text(*what)),
            _ => {}
        }
    }
    story.slices.sort();
    story.wakings.sort();
    story
}

#[test]
fn every_way_to_write_it_gives_the_same_slices() {
    let story = read(&foreign("compact"));
    assert_eq!(
        (story.slices.len(), story.processes.as_slice(), story.release.as_str()),
        (398, &[7][..], "6.1.0-foreign")
    );
    assert!(story.wakings.len() > 200);
    for tid in [0, 7, 8, 9] {
        assert!(story.slices.iter().any(|s| s.3 == tid));
    }
    for end in ["R", "S", "D", "R+"] {
        assert!(story.slices.iter().any(|s| s.6 == end));
    }
    for variant in ["full", "mixed", "shuffled", "unknown", "sequences", "zlib", "zstd", "late-system"] {
        assert_eq!(read(&foreign(variant)), story, "{variant}");
    }
}
