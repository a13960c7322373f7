//! Round trips of random events, and random damage.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Row {
    Switch {
        state: i64,
        pid: i32,
        prio: i32,
        name: Vec<u8>,
    },
    Waking {
        pid: i32,
        cpu: i32,
        prio: i32,
        name: Vec<u8>,
        flags: u8,
    },
    Full {
        state: i64,
        prev: i32,
        pid: i32,
        name: Vec<u8>,
    },
    Print {
        text: Vec<u8>,
        pid: i32,
    },
    /// Stands in for a switch, and the wake-up that told of it.
    StandIn {
        pid: i32,
        prio: i32,
        name: Vec<u8>,
    },
}

fn row() -> impl Strategy<Value = Row> {
    // Few distinct names, as on a real CPU, of any bytes but NUL.
    let name = || prop_oneof![prop::collection::vec(1u8..=255, 0..=15), Just(b"same".to_vec())];
    let prio = -1i32..140;
    prop_oneof![
        (any::<i64>(), any::<i32>(), prio.clone(), name()).prop_map(|(state, pid, prio, name)| Row::Switch {
            state,
            pid,
            prio,
            name
        }),
        (any::<i32>(), 0i32..4096, prio, name(), any::<u8>()).prop_map(|(pid, cpu, prio, name, flags)| Row::Waking {
            pid,
            cpu,
            prio,
            name,
            flags
        }),
        (any::<i64>(), any::<i32>(), any::<i32>(), name()).prop_map(|(state, prev, pid, name)| Row::Full {
            state,
            prev,
            pid,
            name
        }),
        (name(), any::<i32>()).prop_map(|(text, pid)| Row::Print { text, pid }),
        (any::<i32>(), -1i32..140, name()).prop_map(|(pid, prio, name)| Row::StandIn { pid, prio, name }),
    ]
}

fn padded(name: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..name.len()].copy_from_slice(name);
    out
}

proptest! {
    #[test]
    fn whatever_is_encoded_comes_back(rows in prop::collection::vec((1u64..1 << 40, row()), 1..80), start in any::<u64>().prop_map(|v| v >> 1), cut in 1usize..20) {
        let mut out = Vec::new();
        let mut builder = BundleBuilder::new();
        let mut ts = start;
        for (i, (step, row)) in rows.iter().enumerate() {
            ts += step;
            match row {
                Row::Switch { state, pid, prio, name } => builder.switch(ts, *state, *pid, *prio, &padded(name)),
                Row::Waking { pid, cpu, prio, name, flags } => builder.waking(ts, *pid, *cpu, *prio, &padded(name), *flags),
                Row::Full { state, prev, pid, name } => builder.full_switch(ts, 0, &FullSwitch { prev_comm: name, prev_pid: *prev, prev_prio: 1, prev_state: *state, next_comm: name, next_pid: *pid, next_prio: 2 }),
                Row::Print { text, pid } => builder.print(ts, *pid, 1, text),
                Row::StandIn { pid, prio, name } => {
                    builder.stand_in(ts, *pid, *prio, &padded(name));
                    builder.waking(ts, *pid, 0, 120, &padded(name), 0);
                }
            }
            if i % cut == 0 {
                builder.finish(7, None, &mut out);
            }
        }
        builder.finish(7, None, &mut out);
        let (items, names) = whole(&out);
        prop_assert_eq!(items.len(), rows.len());
        let (mut ts, mut running, mut seen) = (start, None, None);
        for (item, (step, row)) in items.iter().zip(&rows) {
            ts += step;
            let Item::Event(event) = item else { panic!("{item:?}") };
            prop_assert_eq!((event.ts, event.cpu), (ts, 7));
            match (row, event.kind) {
                (Row::Switch { state, pid, prio, name }, EventKind::Switch(s)) => {
                    prop_assert_eq!((s.prev_tid, s.prev_state_raw, s.next_tid, s.next_prio), (running, *state, *pid, *prio));
                    prop_assert_eq!(s.prev_prio, std::mem::take(&mut seen));
                    prop_assert_eq!(names.bytes(s.next_comm), name.as_slice());
                    running = Some(*pid);
                }
                (Row::Full { state, prev, pid, name }, EventKind::Switch(s)) => {
                    prop_assert_eq!((s.prev_tid, s.prev_state_raw, s.next_tid, s.prev_prio), (Some(*prev), *state, *pid, Some(1)));
                    prop_assert_eq!(names.bytes(s.next_comm), name.as_slice());
                    (running, seen) = (Some(*pid), None);
                }
                (Row::StandIn { pid, prio, name }, EventKind::Waking(w)) => {
                    prop_assert_eq!((event.emitter, w.tid, names.bytes(w.comm)), (Some(*pid), *pid, name.as_slice()));
                    (running, seen) = (Some(*pid), Some(*prio));
                }
                (Row::Waking { pid, cpu, prio, name, flags }, EventKind::Waking(w)) => {
                    prop_assert_eq!(event.emitter, running.filter(|_| seen.is_some()));
                    prop_assert_eq!((w.tid, w.target_cpu as i32, w.prio, event.flags), (*pid, *cpu, *prio, *flags));
                    prop_assert_eq!(names.bytes(w.comm), name.as_slice());
                }
                (Row::Print { text, pid }, EventKind::Print { text: got }) => {
                    prop_assert_eq!(names.bytes(got), text.strip_suffix(b"\n").unwrap_or(text));
                    prop_assert_eq!(event.emitter, Some(*pid));
                }
                _ => prop_assert!(false, "{:?} came back as {:?}", row, event),
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
        let _ = decode(&packet_with(1, &bytes));
        let _ = decode(&framed(&bytes));
    }

    #[test]
    fn flipped_bytes_are_survived(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut out = Vec::new();
        let mut b = BundleBuilder::new();
        for i in 0..20u64 {
            b.switch(i * 1000, 1, i as i32, 120, &comm("name"));
            b.waking(i * 1000 + 1, 4, 0, 120, &comm("other"), 0);
            b.blocked_reason(i * 1000 + 2, 1, 2, true, b"f");
        }
        b.finish(0, Some(Loss { cpu: 0, from: 0, to: 0, count: None }), &mut out);
        packets::process_tree(1, &[packets::Process::default()], &[packets::Thread::default()], &mut out);
        for (at, byte) in flips {
            let at = at.index(out.len());
            out[at] = byte;
        }
        let _ = decode(&out);
    }
}
