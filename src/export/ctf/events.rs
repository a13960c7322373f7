//! The events: their numbers, their fields as TSDL (the metadata's language), and the bytes of those fields.
//!
//! Integers are little-endian and byte-aligned. A comm is 16 bytes, NUL-padded; other text ends in NUL.

use crate::names::{NameId, NameTable};
use crate::sched::event::{BlockStage, Event, EventKind, Tid};
use crate::sched::fold::Utid;
use crate::sched::threads::{IDLE, Threads};

/// Number of an event in the metadata and in each record; the place in [`EVENTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Id {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    Rename,
    Exec,
    Exit,
    Free,
    BlockedReason,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    BlockInsert,
    BlockIssue,
    BlockComplete,
    Frequency,
    Idle,
    Print,
    StatedumpStart,
    StatedumpProcess,
    StatedumpEnd,
    Loss,
    Gap,
}

const COMM: &str = "integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; }";

/// Name and fields of each event. A field is a type letter and a name: `i` 32 bits signed, `u` unsigned, `l` 64 bits
/// signed, `t` unsigned, `c` comm, `s` text.
pub const EVENTS: [(Id, &str, &str); 26] = [
    (Id::Switch, "sched_switch", "c prev_comm,i prev_tid,i prev_prio,l prev_state,c next_comm,i next_tid,i next_prio"),
    (Id::Waking, "sched_waking", "c comm,i tid,i prio,i target_cpu"),
    (Id::Wakeup, "sched_wakeup", "c comm,i tid,i prio,i target_cpu"),
    (Id::WakeupNew, "sched_wakeup_new", "c comm,i tid,i prio,i target_cpu"),
    (Id::Migrate, "sched_migrate_task", "c comm,i tid,i prio,i orig_cpu,i dest_cpu"),
    (Id::Fork, "sched_process_fork", "c parent_comm,i parent_tid,i parent_pid,c child_comm,i child_tid,i child_pid"),
    (Id::Rename, "task_rename", "i tid,c oldcomm,c newcomm"),
    (Id::Exec, "sched_process_exec", "s filename,i tid,i old_tid"),
    (Id::Exit, "sched_process_exit", "c comm,i tid,i prio"),
    (Id::Free, "sched_process_free", "c comm,i tid,i prio"),
    (Id::BlockedReason, "sched_blocked_reason", "i tid,i io_wait,s caller"),
    (Id::IrqEntry, "irq_handler_entry", "i irq,s name"),
    (Id::IrqExit, "irq_handler_exit", "i irq,i ret"),
    (Id::SoftirqEntry, "irq_softirq_entry", "u vec"),
    (Id::SoftirqExit, "irq_softirq_exit", "u vec"),
    (Id::BlockInsert, "block_rq_insert", "u dev,t sector,u nr_sector,u bytes,i tid,s rwbs,c comm"),
    (Id::BlockIssue, "block_rq_issue", "u dev,t sector,u nr_sector,u bytes,i tid,s rwbs,c comm"),
    (Id::BlockComplete, "block_rq_complete", "u dev,t sector,u nr_sector,i error,s rwbs"),
    (Id::Frequency, "power_cpu_frequency", "u state,u cpu_id"),
    (Id::Idle, "power_cpu_idle", "u state,u cpu_id"),
    (Id::Print, "dashcam_mark", "i tid,s text"),
    (Id::StatedumpStart, "lttng_statedump_start", ""),
    (
        Id::StatedumpProcess,
        "lttng_statedump_process_state",
        "i tid,i pid,i ppid,c name,i type,i mode,i submode,i status,u cpu",
    ),
    (Id::StatedumpEnd, "lttng_statedump_end", ""),
    (Id::Loss, "dashcam_loss", "t from,t to,l count"),
    (Id::Gap, "dashcam_gap", "t from,t to"),
];

/// The fields of an event in TSDL. Names get an underscore before them, which readers take off: some are keywords.
pub fn tsdl(fields: &str) -> String {
    let mut out = String::new();
    for field in fields.split(',').filter(|f| !f.is_empty()) {
        let (kind, name) = field.split_once(' ').unwrap_or(("i", field));
        let line = match kind {
            "c" => format!("\t\t{COMM} _{name}[16];\n"),
            "s" => format!("\t\tstring {{ encoding = UTF8; }} _{name};\n"),
            _ => {
                let size = if matches!(kind, "l" | "t") { 64 } else { 32 };
                let signed = u8::from(matches!(kind, "l" | "i"));
                format!("\t\tinteger {{ size = {size}; align = 8; signed = {signed}; base = 10; }} _{name};\n")
            }
        };
        out.push_str(&line);
    }
    out
}

/// The number of an event; `None` for those whose fields are not recorded.
pub fn id(kind: &EventKind) -> Option<Id> {
    Some(match kind {
        EventKind::Switch(_) => Id::Switch,
        EventKind::Waking(_) => Id::Waking,
        EventKind::Wakeup(_) => Id::Wakeup,
        EventKind::WakeupNew(_) => Id::WakeupNew,
        EventKind::Migrate { .. } => Id::Migrate,
        EventKind::NewTask { .. } => Id::Fork,
        EventKind::Rename { .. } => Id::Rename,
        EventKind::Exec { .. } => Id::Exec,
        EventKind::Exit { .. } => Id::Exit,
        EventKind::Free { .. } => Id::Free,
        EventKind::BlockedReason { .. } => Id::BlockedReason,
        EventKind::IrqEntry { .. } => Id::IrqEntry,
        EventKind::IrqExit { .. } => Id::IrqExit,
        EventKind::SoftirqEntry { .. } => Id::SoftirqEntry,
        EventKind::SoftirqExit { .. } => Id::SoftirqExit,
        EventKind::Block(r) => match r.stage {
            BlockStage::Insert => Id::BlockInsert,
            BlockStage::Issue => Id::BlockIssue,
            BlockStage::Complete => Id::BlockComplete,
        },
        EventKind::Frequency { .. } => Id::Frequency,
        EventKind::Idle { .. } => Id::Idle,
        EventKind::Print { .. } => Id::Print,
        EventKind::Other { .. } => return None,
    })
}

/// A comm: valid UTF-8, cut at a character's end, NUL-padded to 16 bytes.
pub fn comm(out: &mut Vec<u8>, name: &[u8]) {
    let text = String::from_utf8_lossy(name);
    let mut end = text.len().min(15);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let at = out.len();
    out.extend(text.as_bytes()[..end].iter().take_while(|b| **b != 0));
    out.resize(at + 16, 0);
}

/// Text up to its first NUL, which ends it.
fn text(out: &mut Vec<u8>, name: &[u8]) {
    let text = String::from_utf8_lossy(name);
    out.extend(text.bytes().take_while(|b| *b != 0));
    out.push(0);
}

/// Who and what an event's fields are looked up in.
struct Scene<'a> {
    threads: &'a Threads,
    names: &'a NameTable,
    ts: u64,
    emitter: Option<Utid>,
}

impl Scene<'_> {
    fn name(&self, tid: Tid) -> &[u8] {
        let is_emitter = |utid: &Utid| self.threads.get(*utid).is_some_and(|t| t.tid == tid);
        match self.emitter.filter(is_emitter).or_else(|| self.threads.utid_of(tid)) {
            Some(IDLE) => b"swapper",
            Some(utid) => self.names.bytes(self.threads.shown_name(utid, self.ts)),
            None => b"",
        }
    }

    fn emitter(&self) -> Tid {
        self.emitter.and_then(|utid| self.threads.get(utid)).map_or(-1, |t| t.tid)
    }

    fn pid(&self, tid: Tid) -> Tid {
        let owner = self.threads.utid_of(tid).and_then(|utid| self.threads.owner(utid));
        owner.map_or(tid, |p| p.pid)
    }

    fn bytes(&self, id: NameId) -> &[u8] {
        self.names.bytes(id)
    }
}

/// The bytes of an event's fields, in the order of [`EVENTS`]. A number that is not recorded is -1.
pub fn fields(out: &mut Vec<u8>, event: &Event, emitter: Option<Utid>, threads: &Threads, names: &NameTable) {
    let scene = Scene { threads, names, ts: event.ts, emitter };
    let int = |out: &mut Vec<u8>, n: i32| out.extend_from_slice(&n.to_le_bytes());
    match event.kind {
        EventKind::Switch(s) => {
            let prev = s.prev_tid.unwrap_or_else(|| scene.emitter());
            comm(out, scene.name(prev));
            int(out, prev);
            int(out, s.prev_prio.unwrap_or(-1));
            out.extend_from_slice(&s.prev_state_raw.to_le_bytes());
            comm(out, if s.next_tid == 0 { b"swapper" } else { scene.bytes(s.next_comm) });
            int(out, s.next_tid);
            int(out, s.next_prio);
        }
        EventKind::Waking(w) | EventKind::Wakeup(w) | EventKind::WakeupNew(w) => {
            comm(out, scene.bytes(w.comm));
            int(out, w.tid);
            int(out, w.prio);
            int(out, w.target_cpu as i32);
        }
        EventKind::Migrate { tid, from_cpu, to_cpu } => {
            comm(out, scene.name(tid));
            int(out, tid);
            int(out, -1);
            int(out, from_cpu as i32);
            int(out, to_cpu as i32);
        }
        EventKind::NewTask { tid, comm: name, .. } => {
            let parent = scene.emitter();
            comm(out, scene.name(parent));
            int(out, parent);
            int(out, scene.pid(parent));
            comm(out, scene.bytes(name));
            int(out, tid);
            int(out, scene.pid(tid));
        }
        EventKind::Rename { tid, comm: new } => {
            int(out, tid);
            comm(out, scene.name(tid));
            comm(out, scene.bytes(new));
        }
        EventKind::Exec { tid, old_tid, filename } => {
            text(out, scene.bytes(filename));
            int(out, tid);
            int(out, old_tid);
        }
        EventKind::Exit { tid } | EventKind::Free { tid } => {
            comm(out, scene.name(tid));
            int(out, tid);
            int(out, -1);
        }
        EventKind::BlockedReason { tid, io_wait, function } => {
            int(out, tid);
            int(out, io_wait.into());
            text(out, scene.bytes(function));
        }
        EventKind::IrqEntry { irq, name } => {
            int(out, irq);
            text(out, scene.bytes(name));
        }
        EventKind::IrqExit { irq } => {
            int(out, irq);
            int(out, -1);
        }
        EventKind::SoftirqEntry { vec } | EventKind::SoftirqExit { vec } => out.extend_from_slice(&vec.to_le_bytes()),
        EventKind::Block(r) => {
            out.extend_from_slice(&(r.dev as u32).to_le_bytes());
            out.extend_from_slice(&r.sector.to_le_bytes());
            out.extend_from_slice(&r.sectors.to_le_bytes());
            if r.stage == BlockStage::Complete {
                int(out, r.error);
                text(out, scene.bytes(r.rwbs));
            } else {
                out.extend_from_slice(&r.sectors.saturating_mul(512).to_le_bytes());
                int(out, scene.emitter());
                text(out, scene.bytes(r.rwbs));
                comm(out, scene.name(scene.emitter()));
            }
        }
        EventKind::Frequency { cpu, khz: state } | EventKind::Idle { cpu, state } => {
            out.extend_from_slice(&state.to_le_bytes());
            out.extend_from_slice(&cpu.to_le_bytes());
        }
        EventKind::Print { text: mark } => {
            int(out, scene.emitter());
            text(out, scene.bytes(mark));
        }
        EventKind::Other { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_table() {
        for (n, (id, ..)) in EVENTS.iter().enumerate() {
            assert_eq!(*id as usize, n);
        }
    }

    #[test]
    fn case_43_comms_are_16_bytes_of_valid_utf8() {
        let make = |name: &[u8]| {
            let mut out = Vec::new();
            comm(&mut out, name);
            out
        };
        assert_eq!(make(b"loader"), b"loader\0\0\0\0\0\0\0\0\0\0");
        // 7 characters of 3 bytes are 21: 5 fit whole into 15.
        assert_eq!(make("数数数数数数数".as_bytes()), ["数".repeat(5).as_bytes(), b"\0"].concat());
        assert_eq!(std::str::from_utf8(&make(b"\xff\xfe")).map(|t| t.trim_end_matches('\0')), Ok("\u{fffd}\u{fffd}"));
    }
}
