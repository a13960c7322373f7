//! Short ways to write events, for the tests of this floor.

use super::event::{Event, EventKind, Item, Switch, Tid, Wake};
use super::state::TaskState;
use crate::names::NameId;

pub const R: TaskState = TaskState::RUNNABLE;
pub const RP: TaskState = TaskState::PREEMPTED;
pub const S: TaskState = TaskState::SLEEPING;
pub const D: TaskState = TaskState::UNINTERRUPTIBLE;

pub fn event(ts: u64, cpu: u32, kind: EventKind) -> Item {
    Item::Event(Event { ts, cpu, emitter: None, flags: 0, kind })
}

/// `prev` left `cpu` in `state`, `next` came.
pub fn switch(ts: u64, cpu: u32, prev: impl Into<Option<Tid>>, state: TaskState, next: Tid) -> Item {
    let kind = EventKind::Switch(Switch {
        prev_tid: prev.into(),
        prev_prio: None,
        prev_state: state,
        prev_state_raw: 0,
        next_tid: next,
        next_prio: 120,
        next_comm: NameId::EMPTY,
    });
    event(ts, cpu, kind)
}

/// Whoever runs on `cpu` wakes `tid`.
pub fn waking(ts: u64, cpu: u32, tid: Tid, target: u32) -> Item {
    event(ts, cpu, EventKind::Waking(Wake { tid, prio: 120, comm: NameId::EMPTY, target_cpu: target }))
}

/// An interrupt on `cpu` wakes `tid`.
pub fn woken_by_interrupt(ts: u64, cpu: u32, tid: Tid, target: u32) -> Item {
    match waking(ts, cpu, tid, target) {
        Item::Event(e) => Item::Event(Event { flags: 0x08, ..e }),
        other => other,
    }
}
