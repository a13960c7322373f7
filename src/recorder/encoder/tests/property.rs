//! Pages → encoder → decoder, over any pages: valid ones come back exactly, others do no harm.

use proptest::prelude::*;

use super::*;

/// What a reader makes of one record.
#[derive(Debug, Clone, PartialEq)]
enum Record {
    Switch { prev: i32, prev_prio: i32, state: i64, next: i32, prio: i32, comm: [u8; 16] },
    Waking { by: i32, tid: i32, prio: i32, target: u32, comm: [u8; 16] },
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        match self {
            Record::Switch { prev, prev_prio, state, next, prio, comm } => SwitchRecord {
                prev_comm: if *prev_prio < 120 { b"real-time" } else { b"left" },
                prev_pid: *prev,
                prev_prio: *prev_prio,
                prev_state: *state,
                next_comm: comm,
                next_pid: *next,
                next_prio: *prio,
            }
            .encode(&SWITCH),
            Record::Waking { by, tid, prio, target, comm } => {
                WakingRecord { waker: *by, comm, pid: *tid, prio: *prio, target_cpu: *target as i32 }.encode(&WAKING)
            }
        }
    }
}

/// One step of a CPU: how much later, what; and whether the page ends before it, with or without a loss.
#[derive(Debug, Clone)]
struct Move {
    later: u64,
    record: Record,
    page: Option<Option<Option<u64>>>,
}

fn comm() -> impl Strategy<Value = [u8; 16]> {
    // Names that repeat, as they do, and such as no program should have.
    prop_oneof![
        4 => (0..6u8).prop_map(|n| {
            let mut name = [0; 16];
            name[..6].copy_from_slice(b"worker");
            name[6] = b'0' + n;
            name
        }),
        1 => any::<[u8; 16]>(),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let state = prop_oneof![Just(0), Just(1), Just(2), Just(0x80), Just(0x100), 0..0x10000i64, any::<i64>()];
    let prev_prio = prop_oneof![8 => Just(120), 1 => 118..122i32];
    let next = prop_oneof![Just(0), 0..9i32];
    let switch =
        (0..9i32, prev_prio, state, next, -1..140i32, comm()).prop_map(|(prev, prev_prio, state, next, prio, comm)| {
            Record::Switch { prev, prev_prio, state, next, prio, comm }
        });
    let waking = (0..9i32, 1..4_194_304i32, -1..140i32, 0..5000u32, comm())
        .prop_map(|(by, tid, prio, target, comm)| Record::Waking { by, tid, prio, target, comm });
    prop_oneof![2 => switch, 1 => waking]
}

fn step() -> impl Strategy<Value = Move> {
    // Now and then more than the 27 bits of a record's own delta (134 ms).
    let later = prop_oneof![8 => 1..50_000u64, 1 => 1..400_000_000u64];
    let page = prop_oneof![8 => Just(None), 1 => Just(Some(None)), 1 => any::<Option<u16>>().prop_map(|n| Some(Some(n.map(u64::from))))];
    (later, record(), page).prop_map(|(later, record, page)| Move { later, record, page })
}

/// When, what, and whether events were lost in front of it.
type Written = (u64, Record, bool);

/// The pages of one CPU, and what stands in them.
fn pages(moves: &[Move]) -> (Vec<Vec<u8>>, Vec<Written>) {
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    let mut ts = 1_000_000_000;
    let (mut page, mut missed) = (PageWriter::new(PageLayout::USUAL, ts), None);
    let mut close = |page: PageWriter, missed: Option<Option<u64>>| {
        out.push(missed.map_or_else(|| page.clone().finish(), |count| page.clone().finish_missed(count)));
    };
    for one in moves {
        ts += one.later;
        let data = one.record.encode();
        let mut lost = false;
        let next = one.page.filter(|_| !page.is_empty());
        if next.is_some() || !page.data(ts, &data) {
            close(page, missed);
            missed = next.flatten();
            lost = missed.is_some();
            page = PageWriter::new(PageLayout::USUAL, ts);
            assert!(page.data(ts, &data));
        }
        expected.push((ts, one.record.clone(), lost));
    }
    close(page, missed);
    (out, expected)
}

/// Up to its first NUL, as a C string; the kernel's last byte is one.
fn text(comm: &[u8; 16]) -> &[u8] {
    comm[..15].split(|&b| b == 0).next().unwrap()
}

/// Runs the encoder over pages of several CPUs in frames that end at `ends`, and decodes all of it with one decoder.
fn through(cpus: &[Vec<Vec<u8>>], ends: &[u64]) -> (Vec<Item>, NameTable, u64) {
    let ids: Vec<u32> = (0..cpus.len() as u32).collect();
    let (mut e, _hints) = encoder(&ids);
    for (cpu, pages) in ids.iter().zip(cpus) {
        pages.iter().for_each(|bytes| e.add_page(Page { cpu: *cpu, bytes: bytes.clone(), stats: None }));
    }
    let (mut decoder, mut names, mut items, mut raw) = (Decoder::new(), NameTable::new(), Vec::new(), Vec::new());
    let (mut from, mut told) = (0, 0);
    for &end in ends.iter().chain([&u64::MAX]) {
        let end = end.max(from);
        while from < end {
            from = e.run(from, end);
            let facts = e.close_frame(from, &mut raw);
            told += facts.events.iter().map(|e| e.1).sum::<u64>();
            decoder.decode(&raw, &mut names, &mut |item| items.push(item)).unwrap();
        }
    }
    assert_eq!(e.counts().events, told, "the index counts what was encoded");
    (items, names, told)
}

proptest! {
    #[test]
    fn valid_pages_come_back_exactly(
        moves in prop::collection::vec(prop::collection::vec(step(), 1..120), 1..4),
        ends in prop::collection::btree_set(1_000_000_000..1_100_000_000u64, 0..4),
    ) {
        let made: Vec<_> = moves.iter().map(|m| pages(m)).collect();
        let cpus: Vec<_> = made.iter().map(|m| m.0.clone()).collect();
        let (items, names, told) = through(&cpus, &ends.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(told, made.iter().map(|m| m.1.len() as u64).sum::<u64>());
        for (cpu, (_, expected)) in made.iter().enumerate() {
            let mut events: Vec<_> = items.iter().filter_map(|i| match i {
                Item::Event(e) if e.cpu as usize == cpu => Some(*e),
                _ => None,
            }).collect();
            events.sort_by_key(|e| e.ts);
            prop_assert_eq!(events.len(), expected.len());
            // Who runs, as far as a reader of the events can know.
            let mut running: Option<i32> = None;
            for (event, (ts, record, lost)) in events.iter().zip(expected) {
                prop_assert_eq!(event.ts, *ts);
                if *lost {
                    running = None;
                }
                match (event.kind, record) {
                    (EventKind::Switch(s), Record::Switch { prev, prev_prio, state, next, prio, comm }) => {
                        prop_assert_eq!(s.prev_tid.or(running), Some(*prev), "who left is told or known");
                        prop_assert_eq!(s.prev_prio.unwrap_or(*prev_prio), *prev_prio);
                        prop_assert_eq!((s.prev_state_raw, s.next_tid, s.next_prio), (*state, *next, *prio));
                        prop_assert_eq!(names.bytes(s.next_comm), text(comm));
                        running = Some(*next);
                    }
                    (EventKind::Waking(w), Record::Waking { by, tid, prio, target, comm }) => {
                        prop_assert_eq!(event.emitter.or(running), Some(*by), "who woke is told or known");
                        prop_assert_eq!((w.tid, w.prio, w.target_cpu), (*tid, *prio, *target));
                        prop_assert_eq!(names.bytes(w.comm), text(comm));
                        running = Some(*by);
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let losses: Vec<_> = items.iter().filter_map(|i| match i {
                Item::Loss(l) if l.cpu as usize == cpu => Some(l.to),
                _ => None,
            }).collect();
            let lost: Vec<u64> = expected.iter().filter(|e| e.2).map(|e| e.0).collect();
            prop_assert_eq!(losses, lost, "each loss where it is, and no other");
        }
    }

    #[test]
    fn pages_with_wrong_bytes_do_no_harm(
        moves in prop::collection::vec(prop::collection::vec(step(), 1..80), 1..3),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..40),
        end in any::<u64>(),
    ) {
        let mut cpus: Vec<_> = moves.iter().map(|m| pages(m).0).collect();
        for (page, at, byte) in wrong {
            let mut all: Vec<&mut Vec<u8>> = cpus.iter_mut().flatten().collect();
            let at = at.index(PageLayout::USUAL.sub_buffer_size());
            page.get_mut(&mut all)[at] = byte;
        }
        through(&cpus, &[end]);
    }

    #[test]
    fn any_bytes_as_pages_do_no_harm(
        bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4),
        length in prop::option::of(0..5000u32),
        end in any::<u64>(),
    ) {
        let layout = PageLayout::USUAL;
        let page = |bytes: &Vec<u8>| {
            let mut page = bytes.clone();
            if let Some(length) = length {
                page.resize(layout.sub_buffer_size(), 0);
                // The commit word, behind the time stamp.
                page[8..12].copy_from_slice(&length.to_ne_bytes());
            }
            page
        };
        through(&[bytes.iter().map(page).collect()], &[end]);
    }
}
