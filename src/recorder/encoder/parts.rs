//! What the encoder is made of and what it tells: plain values.

use crossbeam_channel::Sender;

use crate::kernel::page::PageLayout;
use crate::perfetto::encode::FullSwitch;
use crate::recorder::blocked::Stacks;
use crate::recorder::plan::{Kind, Plan, SwitchRecord, TaskRecord};
use crate::sched::event::Tid;
use crate::sched::state::{StateLayout, TaskState};
use crate::store::footer::Mark;

/// Bytes of a thread name in the kernel (TASK_COMM_LEN).
pub(in crate::recorder) const NAME: usize = 16;

/// What the names thread is told: facts it need not find out from procfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum Hint {
    /// `tid` was created by `parent`; `clone_flags` tell thread from process.
    New { ts: u64, tid: Tid, parent: Tid, clone_flags: u64, comm: [u8; NAME] },
    /// `tid` has a new name.
    Renamed { ts: u64, tid: Tid, comm: [u8; NAME] },
    /// `tid` runs another program; `old_tid` differs when a non-leader did it.
    Exec { ts: u64, tid: Tid, old_tid: Tid },
    /// A look at procfs met `tid` for the first time, or under a new name; `start` tells one life from the next.
    Seen { ts: u64, tid: Tid, pid: Tid, start: u64, comm: [u8; NAME] },
    /// `tid` has ended.
    Gone { ts: u64, tid: Tid },
}

impl Hint {
    /// What an event about `task`, written by `parent`, tells of names; `None`: nothing.
    pub(super) fn of(kind: Kind, ts: u64, parent: Tid, task: &TaskRecord<'_>) -> Option<Hint> {
        let (tid, comm) = (task.tid, name(task.comm));
        Some(match kind {
            Kind::NewTask => Hint::New { ts, tid, parent, clone_flags: task.other as u64, comm },
            Kind::Rename => Hint::Renamed { ts, tid, comm },
            Kind::Exec => Hint::Exec { ts, tid, old_tid: task.other as Tid },
            Kind::Free => Hint::Gone { ts, tid },
            _ => return None,
        })
    }

    /// When it happened, ns, boot.
    pub(super) fn ts(&self) -> u64 {
        match *self {
            Hint::New { ts, .. }
            | Hint::Renamed { ts, .. }
            | Hint::Exec { ts, .. }
            | Hint::Seen { ts, .. }
            | Hint::Gone { ts, .. } => ts,
        }
    }
}

/// `prev_state` to canonical state, worked out once for all values that occur.
#[derive(Debug)]
pub struct States {
    layout: StateLayout,
    known: Box<[TaskState]>,
}

impl From<StateLayout> for States {
    fn from(layout: StateLayout) -> States {
        // TASK_REPORT and the bits above it end below this on every kernel so far.
        States { layout, known: (0..0x400).map(|raw| layout.decode(raw)).collect() }
    }
}

impl States {
    #[inline]
    pub(super) fn decode(&self, raw: i64) -> TaskState {
        match usize::try_from(raw).ok().and_then(|at| self.known.get(at)) {
            Some(state) => *state,
            None => self.layout.decode(raw),
        }
    }
}

/// What does not change during a recording.
#[derive(Debug)]
pub struct EncoderParts {
    /// Layout of sub-buffers.
    pub layout: PageLayout,
    /// What records mean.
    pub plan: Plan,
    /// What `prev_state` means.
    pub states: States,
    /// Names of blocking functions.
    pub stacks: Stacks,
    /// Where hints go; when it is full they are dropped and [`Encoder::take_missed_hints`] says so.
    pub hints: Sender<Hint>,
}

/// Running totals since the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events written.
    pub events: u64,
    /// Records whose event was not asked for or is not known.
    pub unknown: u64,
    /// Sub-buffers whose rest could not be read.
    pub damaged: u64,
    /// Switches that must have been, since another thread left a CPU or woke somebody than had come, but were not traced.
    pub untraced: u64,
    /// Sub-buffers read.
    pub pages: u64,
}

/// What the encoder gives a frame's writer besides the packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentMarks {
    /// User markers, the [`Foremost`](crate::store::footer::Foremost) of them.
    pub marks: Vec<Mark>,
    /// How many there were.
    pub count: u64,
}

/// The switch as it stands in the ring buffer, for the form that tells everything.
pub(super) fn full<'r>(s: &SwitchRecord<'r>) -> FullSwitch<'r> {
    FullSwitch {
        prev_comm: s.prev_comm,
        prev_pid: s.prev_pid,
        prev_prio: s.prev_prio,
        prev_state: s.prev_state,
        next_comm: s.next_comm,
        next_pid: s.next_pid,
        next_prio: s.next_prio,
    }
}

/// At most 15 bytes and a NUL, as the kernel keeps names.
pub(in crate::recorder) fn name(text: &[u8]) -> [u8; NAME] {
    let mut out = [0; NAME];
    let len = text.len().min(NAME - 1);
    out[..len].copy_from_slice(&text[..len]);
    out
}
