//! Hand-made columns for the tests of everything that reads columns.

#![allow(clippy::unwrap_used)]

use super::facts::{Facts, Process, Thread};
use super::{Builder, Columns, Keep};
use crate::names::{NameId, NameTable};
use crate::sched::event::{Event, EventKind, Item, Loss, Switch, ThreadNow};
use crate::sched::fold::{Interval, Sink};
use crate::sched::state::TaskState;
use crate::sched::summary::Window;

/// Two CPUs, worked out by hand (times in ns):
///
/// ```text
/// cpu0  idle 0..100 | loader(1) 100..300 out S | logger(2) 300..700 out R+ | loader 700..(open)
/// cpu1  ckpt(3) 50..150 out D in jbd2_wait
/// loader: running 100..300, S 300..600, R (woken by logger) 600..700, running 700..
/// logger: running 300..700, R+ 700.. (pushed off by loader)
/// ckpt:   running 50..150, D 150..450 (io), R 450.. (interrupt)
/// ```
pub fn columns() -> Columns {
    let mut names = NameTable::new();
    let mut id = |n: &[u8]| names.intern(n);
    let facts = Facts {
        threads: vec![
            Thread { tid: 0, upid: Some(0), name: id(b"swapper"), ..Thread::default() },
            Thread { tid: 11, upid: Some(1), name: id(b"pt_DataLoader:0"), main: Some(false), ..Thread::default() },
            Thread { tid: 12, upid: Some(2), name: id(b"log\x1b[2Jship"), main: Some(true), ..Thread::default() },
            Thread { tid: 13, upid: Some(1), name: id(b"ckpt"), main: Some(false), ..Thread::default() },
        ],
        processes: vec![
            Process::default(),
            Process { pid: 10, name: id(b"train.py"), cgroup: id(b"/pods/train"), ..Process::default() },
            Process { pid: 12, name: id(b"logship"), ..Process::default() },
        ],
        ..Facts::default()
    };
    let function = id(b"jbd2_log_wait_commit");
    let mut b = Builder::new(Keep::Everything);
    let base = |row, utid, start, end, state| Interval {
        row,
        utid,
        start,
        end,
        end_known: true,
        state,
        left: TaskState::RUNNABLE,
        cpu: Some(0),
        prio: None,
        slice: None,
        end_state: None,
        waker: None,
        from_interrupt: None,
        preemptor: None,
        io_wait: None,
        function: NameId::EMPTY,
    };
    let run = |row, slice, utid, cpu, start, end, end_state| Interval {
        cpu: Some(cpu),
        prio: Some(120),
        slice: Some(slice),
        end_state,
        ..base(row, utid, start, end, ThreadNow::Running)
    };
    let (s, d) = (TaskState::SLEEPING, TaskState::UNINTERRUPTIBLE);
    let closed = [
        run(0, 0, 0, 0, 0, Some(100), Some(TaskState::RUNNABLE)),
        run(1, 1, 3, 1, 50, Some(150), Some(d)),
        run(2, 2, 1, 0, 100, Some(300), Some(s)),
        Interval { function, io_wait: Some(true), left: d, ..base(3, 3, 150, Some(450), ThreadNow::Blocked(d)) },
        Interval { left: s, ..base(4, 1, 300, Some(600), ThreadNow::Blocked(s)) },
        run(5, 3, 2, 0, 300, Some(700), Some(TaskState::PREEMPTED)),
        Interval {
            waker: Some((2, Some(5))),
            from_interrupt: Some(false),
            ..base(7, 1, 600, Some(700), ThreadNow::Runnable)
        },
        // Not ended when the data did.
        Interval { waker: Some((0, None)), from_interrupt: Some(true), ..base(6, 3, 450, None, ThreadNow::Runnable) },
        Interval { preemptor: Some(1), left: TaskState::PREEMPTED, ..base(8, 2, 700, None, ThreadNow::Preempted) },
        run(9, 4, 1, 0, 700, None, None),
    ];
    for interval in &closed {
        b.interval(interval);
    }
    let print = |ts, text| Event { ts, cpu: 0, emitter: None, flags: 0, kind: EventKind::Print { text } };
    for (ts, text) in [(110, &b"B|10|step 1"[..]), (200, b"B|10|wait"), (250, b"E|10"), (290, b"E|10"), (900, b"hello")]
    {
        let event = print(ts, id(text));
        b.event(&event, Some(1));
    }
    let next_comm = id(b"x");
    let kind = EventKind::Switch(Switch {
        prev_tid: Some(11),
        prev_prio: Some(120),
        prev_state: s,
        prev_state_raw: 1,
        next_tid: 12,
        next_prio: 119,
        next_comm,
    });
    b.event(&Event { ts: 1000, cpu: 1, emitter: None, flags: 0, kind }, Some(1));
    b.fact(&Item::Loss(Loss { cpu: 1, from: 460, to: 480, count: Some(12) }));
    b.fact(&Item::Loss(Loss { cpu: 0, from: 0, to: 5, count: None }));
    b.finish(names, facts, Some(Window { from: 0, to: 1001 }))
}
