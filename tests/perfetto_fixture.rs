//! A trace recorded by Perfetto's own tracebox decodes to what trace_processor says of it.
#![allow(clippy::unwrap_used)]

use dashcam::names::NameTable;
use dashcam::perfetto::decode::{Decoder, stream::decode_stream};
use dashcam::sched::event::{Event, EventKind, Item};
use dashcam::sched::state::StateLayout;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

const TRACE: &[u8] = include_bytes!("fixtures/perfetto/training-like.pftrace.zst");

fn decode(bytes: &[u8]) -> (Vec<Item>, NameTable) {
    let (mut decoder, mut names, mut items) = (Decoder::new(), NameTable::new(), Vec::new());
    decode_stream(bytes, &mut decoder, &mut names, &mut |item| items.push(item)).unwrap();
    (items, names)
}

fn events(items: &[Item]) -> impl Iterator<Item = &Event> {
    items.iter().filter_map(|i| if let Item::Event(e) = i { Some(e) } else { None })
}

/// The sched table by the simplest of folds: from a switch on a CPU to the next one there. The first switch of each
/// CPU is left out, as trace_processor does.
fn sched_table(items: &[Item], layout: StateLayout) -> String {
    let mut running: HashMap<u32, Option<(u64, i32, i32)>> = HashMap::new();
    let mut rows = Vec::new();
    for event in events(items) {
        let EventKind::Switch(switch) = event.kind else { continue };
        assert_eq!(switch.prev_state, layout.decode(switch.prev_state_raw));
        match running.get(&event.cpu) {
            None => {
                running.insert(event.cpu, None);
                continue;
            }
            Some(None) => {}
            Some(Some((start, tid, prio))) => {
                assert_eq!(switch.prev_tid, Some(*tid), "who left is who came before");
                let state = switch.prev_state.letters();
                rows.push((*start, format!("{start},{},{},{tid},\"{state}\",{prio}", event.ts - start, event.cpu)));
            }
        }
        running.insert(event.cpu, Some((event.ts, switch.next_tid, switch.next_prio)));
    }
    for (cpu, last) in running {
        if let Some((start, tid, prio)) = last {
            rows.push((start, format!("{start},-1,{cpu},{tid},\"[NULL]\",{prio}")));
        }
    }
    rows.sort();
    rows.into_iter()
        .fold("\"ts\",\"dur\",\"cpu\",\"tid\",\"end_state\",\"priority\"\n".into(), |t, (_, r)| t + &r + "\n")
}

#[test]
fn the_sched_table_is_trace_processors_row_by_row() {
    let (items, _) = decode(TRACE);
    let expected = include_str!("fixtures/perfetto/expected/sched.csv");
    let ours = sched_table(&items, StateLayout::SINCE_4_14);
    for (ours, theirs) in ours.lines().zip(expected.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.lines().count(), expected.lines().count());
}

#[test]
fn every_event_of_every_kind_is_there() {
    let (items, names) = decode(TRACE);
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for event in events(&items) {
        let kind = format!("{:?}", event.kind);
        let end = kind.find(|c: char| !c.is_alphanumeric()).unwrap_or(kind.len());
        *kinds.entry(kind[..end].to_owned()).or_default() += 1;
    }
    // Counted with Perfetto's own Python protos.
    let counted = [
        ("Block", 614 + 561 + 500),
        ("Exec", 42),
        ("Exit", 89),
        ("Free", 89),
        ("Idle", 2389),
        ("IrqEntry", 230),
        ("IrqExit", 230),
        ("NewTask", 87),
        ("Print", 380),
        ("Rename", 46),
        ("SoftirqEntry", 1020),
        ("SoftirqExit", 1020),
        ("Switch", 3752),
        ("WakeupNew", 87),
        ("Waking", 2236),
    ];
    assert_eq!(kinds, counted.iter().map(|&(k, n)| (k.to_owned(), n)).collect());
    assert!(!items.iter().any(|i| matches!(i, Item::Damage { .. } | Item::Loss(_))));
    let system = items.iter().find_map(|i| if let Item::System(s) = i { Some(s.clone()) } else { None }).unwrap();
    assert_eq!(names.text(system.release), "6.18.44-fc-v669");
    assert_eq!((system.cpus, system.ram), (2, 25_276_502_016));
    let clocks: Vec<_> = items.iter().filter_map(|i| if let Item::Clock(c) = i { Some(*c) } else { None }).collect();
    assert_eq!((clocks.len(), clocks[0].boot, clocks[0].mono), (6, 2_318_913_621_454, 2_318_913_621_544));
    let block = events(&items).find_map(|e| if let EventKind::Block(b) = e.kind { Some(b) } else { None }).unwrap();
    assert_eq!(block.dev, 254 << 20, "in the kernel's form: 254:0 is vda");
}

#[test]
fn events_of_one_cpu_are_in_time_order() {
    let mut last: HashMap<u32, u64> = HashMap::new();
    for event in events(&decode(TRACE).0) {
        let before = last.insert(event.cpu, event.ts).unwrap_or(0);
        assert!(before <= event.ts);
    }
}

#[test]
fn plain_gzip_and_zstd_with_skippable_frames_read_the_same() {
    let plain = zstd::stream::decode_all(TRACE).unwrap();
    let expected = decode(TRACE).0;
    assert_eq!(decode(&plain).0, expected);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    assert_eq!(decode(&gzip.finish().unwrap()).0, expected);
    // Two frames, cut within a packet, with a skippable frame first, between and last.
    let skippable = [0x5d, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let (a, b) = plain.split_at(plain.len() / 2);
    let (a, b) = (zstd::bulk::compress(a, 3).unwrap(), zstd::bulk::compress(b, 3).unwrap());
    let frames = [&skippable[..], &a, &skippable, &b, &skippable].concat();
    assert_eq!(decode(&frames).0, expected);
}

#[test]
fn a_file_cut_short_gives_what_stands_before_and_says_where() {
    let plain = zstd::stream::decode_all(TRACE).unwrap();
    let (mut decoder, mut names, mut items) = (Decoder::new(), NameTable::new(), 0);
    let cut = &plain[..plain.len() * 2 / 3];
    let error = decode_stream(cut, &mut decoder, &mut names, &mut |_| items += 1).unwrap_err();
    assert!(items > 1000);
    assert!(error.to_string().starts_with("the trace ends within the packet at byte "), "{error}");
    let error = decode_stream(&TRACE[..TRACE.len() / 2], &mut Decoder::new(), &mut names, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("decompressed"), "{error}");
    let error = decode_stream(&b"{\"traceEvents\":[]}"[..], &mut Decoder::new(), &mut names, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("at byte 0"), "{error}");
}
