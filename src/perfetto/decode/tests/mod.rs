//! Decoding of hand-made bytes, of our own encoder's, and of damaged ones.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::perfetto::encode::{BundleBuilder, FullSwitch, packets};
use crate::perfetto::messages as m;
use crate::perfetto::wire::{put_bytes, put_uint, put_varint};
use crate::sched::event::*;
use crate::sched::state::TaskState;

mod facts;
mod random;

fn decode(bytes: &[u8]) -> (Vec<Item>, NameTable, Result<(), DecodeError>) {
    let (mut decoder, mut names, mut items) = (Decoder::new(), NameTable::new(), Vec::new());
    let result = decoder.decode(bytes, &mut names, &mut |item| items.push(item));
    (items, names, result)
}

fn whole(bytes: &[u8]) -> (Vec<Item>, NameTable) {
    let (items, names, result) = decode(bytes);
    result.unwrap();
    (items, names)
}

fn events(items: &[Item]) -> Vec<Event> {
    items.iter().filter_map(|i| if let Item::Event(e) = i { Some(*e) } else { None }).collect()
}

fn comm(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

/// Wraps fields of a `TracePacket` in its framing.
fn framed(packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, packet);
    out
}

fn packet_with(field: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, field, message);
    framed(&out)
}

fn packed(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|&v| put_varint(&mut out, v));
    out
}

#[test]
fn compact_rows_of_hand_made_bytes_have_the_right_values() {
    #[rustfmt::skip]
    let bundle = [
        8, 3,                   // cpu 3
        34, 45,                 // compact_sched
        42, 1, b'a', 42, 2, b'b', b'c', // intern table "a", "bc"
        10, 3, 0xe8, 7, 10,     // switch timestamps 1000, +10
        18, 3, 2, 0x80, 2,      // prev_state D, R+
        26, 2, 7, 0,            // next pid 7, 0
        34, 2, 120, 20,         // next prio
        50, 2, 1, 0,            // names "bc", "a"
        58, 2, 0xed, 7,         // waking timestamp 1005
        66, 1, 9, 74, 1, 2, 82, 1, 120, 90, 1, 0, 98, 1, 16, // pid 9 to cpu 2, prio 120, "a", softirq
        // ends 45 bytes after its length
    ];
    let bundle = {
        let mut b = bundle.to_vec();
        b[3] = (b.len() - 4) as u8;
        b
    };
    let (items, names) = whole(&packet_with(1, &bundle));
    let (a, bc) = (names.find(b"a").unwrap(), names.find(b"bc").unwrap());
    let switch = |prev_tid, state, raw, next_tid, next_prio, next_comm| {
        EventKind::Switch(Switch {
            prev_tid,
            prev_prio: None,
            prev_state: state,
            prev_state_raw: raw,
            next_tid,
            next_prio,
            next_comm,
        })
    };
    let event = |ts, emitter, flags, kind| Item::Event(Event { ts, cpu: 3, emitter, flags, kind });
    assert_eq!(
        items,
        [
            event(1000, None, 0, switch(None, TaskState::UNINTERRUPTIBLE, 2, 7, 120, bc)),
            event(1005, None, 16, EventKind::Waking(Wake { tid: 9, prio: 120, comm: a, target_cpu: 2 })),
            event(1010, Some(7), 0, switch(Some(7), TaskState::PREEMPTED, 256, 0, 20, a)),
        ]
    );
}

#[test]
fn columns_split_in_two_or_not_packed_are_joined() {
    let mut compact = Vec::new();
    put_bytes(&mut compact, 5, b"x");
    put_bytes(&mut compact, 1, &packed(&[100]));
    put_uint(&mut compact, 1, 5);
    for (field, value) in [(2, 1), (3, 4), (4, 120), (6, 0)] {
        put_uint(&mut compact, field, value);
        put_bytes(&mut compact, field, &packed(&[value]));
    }
    let mut bundle = Vec::new();
    put_bytes(&mut bundle, 4, &compact);
    put_uint(&mut bundle, 1, 0);
    let (items, _) = whole(&packet_with(1, &bundle));
    assert_eq!(events(&items).iter().map(|e| e.ts).collect::<Vec<_>>(), [100, 105]);
    assert_eq!(items.len(), 2);
}

#[test]
fn columns_of_different_lengths_give_the_whole_rows_and_damage() {
    let mut compact = Vec::new();
    put_bytes(&mut compact, 1, &packed(&[100, 5, 5]));
    for field in [2, 3, 4, 6] {
        put_bytes(&mut compact, field, &packed(&[1, 1]));
    }
    let mut bundle = Vec::new();
    put_uint(&mut bundle, 1, 0);
    put_bytes(&mut bundle, 4, &compact);
    let (items, _) = whole(&packet_with(1, &bundle));
    assert_eq!(events(&items).len(), 2);
    assert!(matches!(items.last(), Some(Item::Damage { .. })));
}

/// A bundle in which every kind of row occurs, out of which the decoder has to make one order.
#[test]
fn a_bundle_is_merged_by_time_and_prev_tid_follows() {
    let mut b = BundleBuilder::new();
    let full = FullSwitch {
        prev_comm: b"old\0junk",
        prev_pid: 5,
        prev_prio: 98,
        prev_state: 1,
        next_comm: b"new",
        next_pid: 6,
        next_prio: 120,
    };
    b.full_switch(10, 0, &full);
    b.waking(12, 7, 1, 120, &comm("seven"), 8);
    b.switch(15, 2, 7, 120, &comm("seven"));
    b.blocked_reason(15, 6, 6, true, b"io_schedule");
    b.print(16, 7, 1, b"B|7|step\n");
    b.switch(20, 256, 0, 120, &comm("swapper/0"));
    assert_eq!((b.len(), b.time_range()), (6, Some((10, 20))));
    let mut out = Vec::new();
    let about = b.encoded_len();
    b.finish(0, None, &mut out);
    assert!(out.len() <= about && about <= out.len() + 64, "{about} for {}", out.len());
    assert!(b.is_empty() && b.time_range().is_none());
    let (items, names) = whole(&out);
    let got = events(&items);
    assert_eq!(got.len(), items.len());
    assert_eq!(
        got.iter().map(|e| (e.ts, e.emitter, e.flags)).collect::<Vec<_>>(),
        [(10, Some(5), 0), (12, None, 8), (15, Some(6), 0), (15, Some(6), 0), (16, Some(7), 1), (20, Some(7), 0)]
    );
    let EventKind::Switch(first) = got[0].kind else { panic!() };
    assert_eq!((first.prev_tid, first.prev_prio, first.prev_state), (Some(5), Some(98), TaskState::SLEEPING));
    let EventKind::Switch(second) = got[2].kind else { panic!() };
    assert_eq!((second.prev_tid, second.prev_prio, second.prev_state), (Some(6), None, TaskState::UNINTERRUPTIBLE));
    assert_eq!(
        got[3].kind,
        EventKind::BlockedReason { tid: 6, io_wait: true, function: names.find(b"io_schedule").unwrap() }
    );
    assert_eq!(got[4].kind, EventKind::Print { text: names.find(b"B|7|step").unwrap() });
    assert!(got[1].in_interrupt());
}

#[test]
fn what_stands_in_for_a_switch_is_no_event_and_tells_who_runs() {
    let mut b = BundleBuilder::new();
    b.switch(10, 1, 0, 120, &comm("swapper/0"));
    // 7 came untraced: first seen when it wakes 8, then when it leaves.
    b.stand_in(20, 7, 98, &comm("seven"));
    b.waking(20, 8, 0, 120, &comm("eight"), 0);
    b.waking(25, 9, 0, 120, &comm("nine"), 0);
    b.switch(30, 1, 0, 120, &comm("swapper/0"));
    b.stand_in(40, 7, 97, &comm("seven"));
    b.switch(40, 2, 8, 120, &comm("eight"));
    b.waking(45, 7, 0, 98, &comm("seven"), 0);
    b.switch(50, 1, 0, 120, &comm("swapper/0"));
    assert_eq!((b.len(), b.time_range()), (7, Some((10, 50))));
    let mut out = Vec::new();
    b.finish(3, None, &mut out);
    let (items, _) = whole(&out);
    let told: Vec<_> = events(&items)
        .iter()
        .map(|e| match e.kind {
            EventKind::Switch(s) => (e.ts, e.emitter, s.prev_tid, s.prev_prio, s.next_tid),
            EventKind::Waking(w) => (e.ts, e.emitter, None, None, w.tid),
            _ => panic!("{e:?}"),
        })
        .collect();
    let seven = Some(7);
    let expected = [
        (10, None, None, None, 0),
        (20, seven, None, None, 8),
        (25, seven, None, None, 9),
        (30, seven, seven, Some(98), 0),
        (40, seven, seven, Some(97), 8),
        // 8 came as switches do: what it does is told by what stands before.
        (45, None, None, None, 7),
        (50, Some(8), Some(8), None, 0),
    ];
    assert_eq!(told, expected);
    // Numbers that cannot be harm nobody.
    for stand_ins in [vec![0, 0, 0], vec![u32::MAX, 1], vec![2, 0]] {
        let hostile = DashcamPacket { stand_ins, ..Default::default() };
        let mut bundle = BundleBuilder::new();
        bundle.switch(10, 1, 5, 120, &comm("five"));
        bundle.switch(20, 1, 6, 120, &comm("six"));
        let mut out = Vec::new();
        bundle.finish(0, None, &mut out);
        let mut packet = out[2..].to_vec();
        put_bytes(&mut packet, 1500, &hostile.encode_to_vec());
        let _ = whole(&framed(&packet));
    }
}

#[test]
fn a_watermark_that_no_clock_reaches_is_damage() {
    let mut out = Vec::new();
    packets::complete_through(u64::MAX, &mut out);
    packets::complete_through(5_000, &mut out);
    let (items, _) = whole(&out);
    assert!(matches!(items[..], [Item::Damage { cpu: None, .. }, Item::CompleteThrough { ts: 5_000 }]), "{items:?}");
}

#[test]
fn a_cpu_that_no_kernel_has_is_told_and_not_left_out_in_silence() {
    use crate::sched::order::MAX_CPUS;
    let mut out = Vec::new();
    for cpu in [MAX_CPUS - 1, MAX_CPUS, u32::MAX] {
        let mut bundle = BundleBuilder::new();
        bundle.full_waking(
            10,
            7,
            0,
            &crate::perfetto::encode::FullWaking { comm: b"x", pid: 8, prio: 120, target_cpu: 0 },
        );
        bundle.finish(cpu, None, &mut out);
    }
    let (items, names) = whole(&out);
    assert_eq!(events(&items).iter().map(|e| e.cpu).collect::<Vec<_>>(), [8191]);
    let told =
        items.iter().filter_map(|i| if let Item::Damage { what, .. } = i { Some(names.text(*what)) } else { None });
    assert_eq!(told.filter(|what| what.contains("no CPU number, or an impossible one")).count(), 2);
}

#[test]
fn a_name_that_no_kernel_has_is_cut() {
    let mut bundle = BundleBuilder::new();
    let comm = &vec![b'x'; 200_000];
    bundle.full_waking(10, 7, 0, &crate::perfetto::encode::FullWaking { comm, pid: 8, prio: 120, target_cpu: 0 });
    let mut bytes = Vec::new();
    bundle.finish(0, None, &mut bytes);
    let (items, names) = whole(&bytes);
    let EventKind::Waking(w) = events(&items)[0].kind else { panic!("{items:?}") };
    assert_eq!(names.bytes(w.comm).len(), 128);
}

#[test]
fn case_40_to_43_hostile_names_keep_their_bytes() {
    let hostile: [&[u8]; 6] = [b"(sd-pam)", b"a) R 1 (b", b"new\nline", b"\xff\xfe\xc3(", b"\x1b[2J", br"lit\xff"];
    let mut b = BundleBuilder::new();
    for (i, name) in hostile.iter().enumerate() {
        let mut raw = [0; 16];
        raw[..name.len()].copy_from_slice(name);
        b.switch(i as u64, 0, i as i32, 120, &raw);
        b.print(i as u64, 1, 0, name);
    }
    let mut out = Vec::new();
    b.finish(0, None, &mut out);
    packets::process_tree(
        1,
        &[packets::Process {
            pid: 9,
            name: hostile[3].to_vec(),
            cmdline: vec![hostile[3].to_vec(), hostile[5].to_vec()],
            cgroup: b"/\xff".to_vec(),
            ..Default::default()
        }],
        &[packets::Thread { tid: 9, pid: 9, name: hostile[3].to_vec(), start: Some(3) }],
        &mut out,
    );
    let (items, names) = whole(&out);
    for (i, name) in hostile.iter().enumerate() {
        let EventKind::Switch(s) = events(&items)[2 * i].kind else { panic!("{items:?}") };
        assert_eq!(names.bytes(s.next_comm), *name);
        let EventKind::Print { text } = events(&items)[2 * i + 1].kind else { panic!() };
        assert_eq!(names.bytes(text), *name);
    }
    let process = items.iter().find_map(|i| if let Item::Process(p) = i { Some(p) } else { None }).unwrap();
    assert_eq!(names.bytes(process.name), hostile[3]);
    assert_eq!(process.cmdline.iter().map(|n| names.bytes(*n)).collect::<Vec<_>>(), [hostile[3], hostile[5]]);
    assert_eq!(names.bytes(process.cgroup), b"/\xff");
    let thread = items.iter().find_map(|i| if let Item::Thread(t) = i { Some(t) } else { None }).unwrap();
    assert_eq!((names.bytes(thread.name), thread.start, thread.ts), (hostile[3], Some(3), 1));
}

#[test]
fn strings_of_other_producers_are_not_unescaped() {
    let mut compact = Vec::new();
    put_bytes(&mut compact, 5, br"lit\x41");
    for (field, value) in [(1, 9), (2, 0), (3, 1), (4, 120), (6, 0)] {
        put_bytes(&mut compact, field, &packed(&[value]));
    }
    let mut bundle = Vec::new();
    put_uint(&mut bundle, 1, 0);
    put_bytes(&mut bundle, 4, &compact);
    let (_, names) = whole(&packet_with(1, &bundle));
    assert!(names.find(br"lit\x41").is_some());
}

#[test]
fn case_4_losses_with_and_without_a_count_and_nobody_runs_after_one() {
    let mut out = Vec::new();
    let mut b = BundleBuilder::new();
    b.switch(100, 1, 4, 120, &comm("a"));
    b.finish(2, None, &mut out);
    for count in [Some(17), None] {
        b.switch(300, 1, 5, 120, &comm("b"));
        b.finish(2, Some(Loss { cpu: 2, from: 110, to: 290, count }), &mut out);
    }
    // Perfetto's own way: only a flag.
    let (mut bundle, mut event, mut wake) = (Vec::new(), Vec::new(), Vec::new());
    put_uint(&mut wake, 2, 1);
    put_uint(&mut event, 1, 400);
    put_bytes(&mut event, 20, &wake);
    put_uint(&mut bundle, 1, 2);
    put_bytes(&mut bundle, 2, &event);
    put_uint(&mut bundle, 3, 1);
    out.extend(packet_with(1, &bundle));
    b.switch(500, 1, 6, 120, &comm("c"));
    b.finish(2, None, &mut out);
    let (items, _) = whole(&out);
    let losses: Vec<Loss> = items.iter().filter_map(|i| if let Item::Loss(l) = i { Some(*l) } else { None }).collect();
    let loss = |from, to, count| Loss { cpu: 2, from, to, count };
    assert_eq!(losses, [loss(110, 290, Some(17)), loss(110, 290, None), loss(300, 400, None)]);
    let prev: Vec<Option<Tid>> = events(&items)
        .iter()
        .filter_map(|e| if let EventKind::Switch(s) = e.kind { Some(s.prev_tid) } else { None })
        .collect();
    assert_eq!(prev, [None, None, None, None]);
    assert!(matches!(items[1], Item::Loss(_)), "a loss is told before the events after it");
}

#[test]
fn a_loss_without_events_is_told_too() {
    let mut out = Vec::new();
    BundleBuilder::new().finish(1, Some(Loss { cpu: 1, from: 5, to: 9, count: Some(3) }), &mut out);
    let mut empty = Vec::new();
    BundleBuilder::new().finish(1, None, &mut empty);
    assert!(empty.is_empty());
    out.extend(packet_with(1, &[8, 4, 24, 1]));
    assert_eq!(
        whole(&out).0,
        [
            Item::Loss(Loss { cpu: 1, from: 5, to: 9, count: Some(3) }),
            Item::Loss(Loss { cpu: 4, from: 0, to: 0, count: None })
        ]
    );
}

#[test]
fn packets_that_perfetto_dropped_are_a_loss_on_every_cpu_of_the_sequence() {
    let bundle = |cpu: u32, sequence: u64, ts: u64, extra: &[(u32, u64)]| {
        let (mut bundle, mut event, mut packet) = (Vec::new(), Vec::new(), Vec::new());
        put_uint(&mut event, 1, ts);
        put_bytes(&mut event, 24, &[8, 1]);
        put_uint(&mut bundle, 1, u64::from(cpu));
        put_bytes(&mut bundle, 2, &event);
        put_bytes(&mut packet, 1, &bundle);
        put_uint(&mut packet, 10, sequence);
        extra.iter().for_each(|&(field, value)| put_uint(&mut packet, field, value));
        framed(&packet)
    };
    let mut out = bundle(0, 2, 10, &[(42, 1), (87, 1)]);
    out.extend(bundle(1, 2, 11, &[]));
    out.extend(bundle(2, 3, 12, &[]));
    out.extend(bundle(0, 2, 20, &[(42, 1)]));
    out.extend(bundle(1, 2, 21, &[]));
    out.extend(bundle(2, 3, 22, &[]));
    out.extend(bundle(0, 2, 30, &[]));
    let losses: Vec<Item> = whole(&out).0.into_iter().filter(|i| matches!(i, Item::Loss(_))).collect();
    let loss = |cpu, from, to| Item::Loss(Loss { cpu, from, to, count: None });
    assert_eq!(losses, [loss(0, 10, 20), loss(1, 11, 21)]);
}

#[test]
fn case_66_cut_at_every_byte_gives_all_whole_packets_and_the_offset() {
    let mut out = Vec::new();
    let mut ends = vec![0];
    let mut b = BundleBuilder::new();
    for i in 0..4 {
        b.switch(i * 10, 1, i as i32, 120, &comm("abc"));
        b.finish(0, None, &mut out);
        ends.push(out.len());
    }
    for cut in 0..out.len() {
        let (items, _, result) = decode(&out[..cut]);
        let whole_packets = ends.iter().filter(|&&e| e > 0 && e <= cut).count();
        assert_eq!(items.len(), whole_packets);
        let offset = ends[whole_packets] as u64;
        assert_eq!(result, if ends.contains(&cut) { Ok(()) } else { Err(DecodeError::Truncated { offset }) });
    }
    out[ends[2]] = 0x12;
    let (items, _, result) = decode(&out);
    assert_eq!(items.len(), 2);
    assert!(matches!(result, Err(DecodeError::Framing { offset, .. }) if offset == ends[2] as u64));
}

#[test]
fn clocks_other_than_boot_are_converted() {
    let clock = |id, ts| m::Clock { clock_id: Some(id), timestamp: Some(ts), unit_multiplier_ns: None };
    let snapshot = m::ClockSnapshot {
        clocks: vec![clock(6, 10_000), clock(5, 4_000), clock(3, 9_000), clock(1, 77)],
        primary_trace_clock: Some(6),
    };
    let mut out = Vec::new();
    packets::packet(m::TracePacket { clock_snapshot: Some(snapshot), ..Default::default() }, &mut out);
    let bundle = |clock: u64, pair: Option<(u64, u64)>| {
        let (mut bundle, mut event) = (Vec::new(), Vec::new());
        put_uint(&mut event, 1, 4_100);
        put_bytes(&mut event, 24, &[8, 1]);
        put_uint(&mut bundle, 1, 0);
        put_bytes(&mut bundle, 2, &event);
        put_uint(&mut bundle, 5, clock);
        if let Some((ftrace, boot)) = pair {
            put_uint(&mut bundle, 6, ftrace);
            put_uint(&mut bundle, 7, boot);
        }
        packet_with(1, &bundle)
    };
    out.extend(bundle(4, None));
    out.extend(bundle(2, Some((4_000, 50_000))));
    out.extend(bundle(0, None));
    out.extend(bundle(3, None));
    let tree = m::ProcessTree {
        threads: vec![m::ProcessTreeThread { tid: Some(3), ..Default::default() }],
        ..Default::default()
    };
    packets::packet(
        m::TracePacket {
            process_tree: Some(tree),
            timestamp: Some(9_500),
            timestamp_clock_id: Some(3),
            ..Default::default()
        },
        &mut out,
    );
    let (items, _) = whole(&out);
    assert_eq!(
        items[0],
        Item::Clock(ClockSnapshot { boot: 10_000, mono: 9_000, real: 77, tai: 0, zone_offset_minutes: None })
    );
    assert_eq!(events(&items).iter().map(|e| e.ts).collect::<Vec<_>>(), [10_100, 50_100, 4_100, 4_100]);
    assert!(
        items.iter().any(|i| matches!(i, Item::Damage { cpu: Some(0), .. })),
        "a local clock cannot be converted, and that is said"
    );
    assert!(matches!(items.last(), Some(Item::Thread(ThreadFact { ts: 10_500, tid: 3, pid: 3, .. }))));
}

#[test]
fn compressed_packets_are_looked_into_but_not_for_ever() {
    use std::io::Write;
    let zlib = |bytes: &[u8]| {
        let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        z.write_all(bytes).unwrap();
        packet_with(50, &z.finish().unwrap())
    };
    let mut inner = Vec::new();
    packets::gap(5, 6, &mut inner);
    let gap = [Item::Gap { from: 5, to: 6 }];
    assert_eq!(whole(&zlib(&inner)).0, gap);
    assert_eq!(whole(&packet_with(133, &zstd::bulk::compress(&inner, 3).unwrap())).0, gap);
    assert_eq!(whole(&zlib(&zlib(&zlib(&inner)))).0, gap);
    let (items, names) = whole(&zlib(&zlib(&zlib(&zlib(&inner)))));
    let [Item::Damage { what, .. }] = items[..] else { panic!("{items:?}") };
    assert!(names.text(what).ends_with("nested too deep"));
    let bomb = zlib(&vec![0; 70 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert!(matches!(whole(&bomb).0[..], [Item::Damage { .. }]));
    assert!(matches!(whole(&packet_with(50, b"not zlib")).0[..], [Item::Damage { .. }]));
}
