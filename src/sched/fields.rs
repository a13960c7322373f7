//! An event's name and fields under the kernel's own names: what text, CTF and `args` show of it.
//!
//! Names and order follow each event's `format` file (include/trace/events/{sched,task,irq,power,block}.h).
//! Fields that the recording does not keep (stacks, `success`, `bytes`) are left out, never invented.

use super::event::{BlockStage, Event, EventKind, Tid};
use crate::names::NameId;

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field {
    /// A number.
    Int(i64),
    /// Text of the recording.
    Name(NameId),
    /// A fixed word.
    Word(&'static str),
}

/// The kernel's name of an event; `None` for one that carries its own ([`EventKind::Other`]).
pub fn event_name(kind: &EventKind) -> Option<&'static str> {
    Some(match kind {
        EventKind::Switch(_) => "sched_switch",
        EventKind::Waking(_) => "sched_waking",
        EventKind::Wakeup(_) => "sched_wakeup",
        EventKind::WakeupNew(_) => "sched_wakeup_new",
        EventKind::Migrate { .. } => "sched_migrate_task",
        EventKind::NewTask { .. } => "task_newtask",
        EventKind::Rename { .. } => "task_rename",
        EventKind::Exec { .. } => "sched_process_exec",
        EventKind::Exit { .. } => "sched_process_exit",
        EventKind::Free { .. } => "sched_process_free",
        EventKind::BlockedReason { .. } => "sched_blocked_reason",
        EventKind::IrqEntry { .. } => "irq_handler_entry",
        EventKind::IrqExit { .. } => "irq_handler_exit",
        EventKind::SoftirqEntry { .. } => "softirq_entry",
        EventKind::SoftirqExit { .. } => "softirq_exit",
        EventKind::Block(r) => match r.stage {
            BlockStage::Insert => "block_rq_insert",
            BlockStage::Issue => "block_rq_issue",
            BlockStage::Complete => "block_rq_complete",
        },
        EventKind::Frequency { .. } => "cpu_frequency",
        EventKind::Idle { .. } => "cpu_idle",
        EventKind::Print { .. } => "print",
        EventKind::Other { .. } => return None,
    })
}

/// Calls `field` with each field in the kernel's order. `comm` names a tid at that moment (EMPTY if unknown).
pub fn each_field(event: &Event, comm: impl Fn(Tid) -> NameId, mut field: impl FnMut(&'static str, Field)) {
    let int = |n: i64| Field::Int(n);
    match event.kind {
        EventKind::Switch(s) => {
            if let Some(prev) = s.prev_tid {
                field("prev_comm", Field::Name(comm(prev)));
                field("prev_pid", int(prev.into()));
            }
            if let Some(prio) = s.prev_prio {
                field("prev_prio", int(prio.into()));
            }
            field("prev_state", int(s.prev_state_raw));
            field("next_comm", Field::Name(s.next_comm));
            field("next_pid", int(s.next_tid.into()));
            field("next_prio", int(s.next_prio.into()));
        }
        EventKind::Waking(w) | EventKind::Wakeup(w) | EventKind::WakeupNew(w) => {
            field("comm", Field::Name(w.comm));
            field("pid", int(w.tid.into()));
            field("prio", int(w.prio.into()));
            field("target_cpu", int(w.target_cpu.into()));
        }
        EventKind::Migrate { tid, from_cpu, to_cpu } => {
            field("comm", Field::Name(comm(tid)));
            field("pid", int(tid.into()));
            field("orig_cpu", int(from_cpu.into()));
            field("dest_cpu", int(to_cpu.into()));
        }
        EventKind::NewTask { tid, comm, clone_flags } => {
            field("pid", int(tid.into()));
            field("comm", Field::Name(comm));
            field("clone_flags", int(clone_flags as i64));
        }
        EventKind::Rename { tid, comm: new } => {
            field("pid", int(tid.into()));
            field("oldcomm", Field::Name(comm(tid)));
            field("newcomm", Field::Name(new));
        }
        EventKind::Exec { tid, old_tid, filename } => {
            field("filename", Field::Name(filename));
            field("pid", int(tid.into()));
            field("old_pid", int(old_tid.into()));
        }
        EventKind::Exit { tid } | EventKind::Free { tid } => {
            field("comm", Field::Name(comm(tid)));
            field("pid", int(tid.into()));
        }
        EventKind::BlockedReason { tid, io_wait, function } => {
            field("pid", int(tid.into()));
            field("io_wait", int(io_wait.into()));
            field("function", Field::Name(function));
        }
        EventKind::IrqEntry { irq, name } => {
            field("irq", int(irq.into()));
            field("name", Field::Name(name));
        }
        EventKind::IrqExit { irq } => field("irq", int(irq.into())),
        EventKind::SoftirqEntry { vec } | EventKind::SoftirqExit { vec } => {
            field("vec", int(vec.into()));
            if let Some(action) = SOFTIRQS.get(vec as usize) {
                field("action", Field::Word(action));
            }
        }
        EventKind::Block(r) => {
            field("dev", int(r.dev as i64));
            field("sector", int(r.sector as i64));
            field("nr_sector", int(r.sectors.into()));
            if r.stage == BlockStage::Complete {
                field("error", int(r.error.into()));
            }
            field("rwbs", Field::Name(r.rwbs));
        }
        EventKind::Frequency { cpu, khz } => {
            field("state", int(khz.into()));
            field("cpu_id", int(cpu.into()));
        }
        EventKind::Idle { cpu, state } => {
            field("state", int(state.into()));
            field("cpu_id", int(cpu.into()));
        }
        EventKind::Print { text } => field("buf", Field::Name(text)),
        EventKind::Other { .. } => {}
    }
}

/// Names of the softirq vectors, by number (include/linux/interrupt.h).
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::event::Switch;
    use crate::sched::state::TaskState;

    #[test]
    fn a_switch_that_does_not_tell_who_left_says_nothing_of_it() {
        let switch = Switch {
            prev_tid: None,
            prev_prio: None,
            prev_state: TaskState::SLEEPING,
            prev_state_raw: 1,
            next_tid: 7,
            next_prio: 120,
            next_comm: NameId(3),
        };
        let event = Event { ts: 1, cpu: 0, emitter: None, flags: 0, kind: EventKind::Switch(switch) };
        let mut seen = Vec::new();
        each_field(&event, |_| NameId(9), |name, value| seen.push((name, value)));
        assert_eq!(
            seen,
            [
                ("prev_state", Field::Int(1)),
                ("next_comm", Field::Name(NameId(3))),
                ("next_pid", Field::Int(7)),
                ("next_prio", Field::Int(120))
            ]
        );
    }
}
