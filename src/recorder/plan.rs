//! What to do with each kind of record, resolved once at start from the kernel's format files.
//!
//! The hot path then only adds fixed offsets. A scheduling event whose format is not as expected (a field missing or of
//! another size) is not guessed at: it is written like any other event, and the recorder says so.

use crate::kernel::events::{EventTable, TracedEvent};
use crate::kernel::format::{EventFormat, Field, FieldKind};
use crate::kernel::stack::StackFormat;
use crate::perfetto::encode::{EventEncoder, FieldFormat, FieldKind as Coded};
use crate::sched::event::Tid;

/// What the record of one event id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not asked for, or unknown: counted, not written.
    Unknown,
    /// sched_switch.
    Switch,
    /// sched_waking.
    Waking,
    /// sched_wakeup_new: written in full, and a wake-up for the state block.
    WakeupNew,
    /// task_newtask.
    NewTask,
    /// task_rename.
    Rename,
    /// sched_process_exec.
    Exec,
    /// sched_process_exit.
    Exit,
    /// sched_process_free.
    Free,
    /// ftrace/print: a user marker.
    Print,
    /// ftrace/kernel_stack: of the thread that just left the CPU.
    Stack,
    /// Anything else.
    Other,
}

impl Kind {
    /// Those that tell of the begin, the name and the end of lives.
    const OF_LIVES: [Kind; 5] = [Kind::NewTask, Kind::Rename, Kind::Exec, Kind::Exit, Kind::Free];

    /// True for those.
    pub fn is_of_lives(self) -> bool {
        Kind::OF_LIVES.contains(&self)
    }
}

/// Where the fields of sched_switch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchAt {
    prev_comm: usize,
    prev_pid: usize,
    prev_prio: usize,
    prev_state: usize,
    long: bool,
    next_comm: usize,
    next_pid: usize,
    next_prio: usize,
    /// Bytes a record must have.
    len: usize,
}

/// Where the fields of a wake-up are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeAt {
    comm: usize,
    pid: usize,
    prio: usize,
    target: usize,
    len: usize,
}

impl SwitchAt {
    /// On 64-bit kernels (4.4 to 6.18 in tests/fixtures/kernels) but those of PREEMPT_RT, which have one more common field.
    const USUAL: SwitchAt = SwitchAt {
        prev_comm: 8,
        prev_pid: 24,
        prev_prio: 28,
        prev_state: 32,
        long: true,
        next_comm: 40,
        next_pid: 56,
        next_prio: 60,
        len: 64,
    };

    // Always: a copy of it for the usual places has them as constants.
    #[inline(always)]
    fn read<'r>(&self, data: &'r [u8]) -> Option<SwitchRecord<'r>> {
        let data = data.get(..self.len)?;
        Some(SwitchRecord {
            prev_comm: data[self.prev_comm..].first_chunk()?,
            prev_pid: word(data, self.prev_pid)?,
            prev_prio: word(data, self.prev_prio)?,
            prev_state: match self.long {
                true => i64::from_ne_bytes(*data[self.prev_state..].first_chunk()?),
                false => i64::from(word(data, self.prev_state)?),
            },
            next_comm: data[self.next_comm..].first_chunk()?,
            next_pid: word(data, self.next_pid)?,
            next_prio: word(data, self.next_prio)?,
        })
    }
}

/// Where `pid`, `comm` and what else an event about one thread has are.
#[derive(Debug, Clone, Default)]
pub struct TaskAt {
    pid: Option<Field>,
    comm: Option<Field>,
    other: Option<Field>,
}

/// The whole table.
#[derive(Debug, Default)]
pub struct Plan {
    kinds: Vec<(Kind, u16)>,
    encoders: Vec<EventEncoder>,
    switch: SwitchAt,
    waking: WakeAt,
    /// Their fields are where nearly every kernel has them: reading at places known to the compiler costs half.
    usual_switch: bool,
    usual_waking: bool,
    wakeup_new: WakeAt,
    newtask: TaskAt,
    rename: TaskAt,
    exec: TaskAt,
    exit: TaskAt,
    free: TaskAt,
    print: Option<Field>,
    stack: Option<StackFormat>,
    flags_at: usize,
    pid_at: usize,
    /// Scheduling events whose format is not understood, as `group/name`.
    pub not_understood: Vec<String>,
}

/// sched_switch, read.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the kernel's event")]
pub struct SwitchRecord<'r> {
    pub prev_comm: &'r [u8; 16],
    pub prev_pid: Tid,
    pub prev_prio: i32,
    pub prev_state: i64,
    pub next_comm: &'r [u8; 16],
    pub next_pid: Tid,
    pub next_prio: i32,
}

/// sched_waking or sched_wakeup_new, read.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the kernel's event")]
pub struct WakeRecord<'r> {
    pub comm: &'r [u8; 16],
    pub pid: Tid,
    pub prio: i32,
    pub target_cpu: i32,
}

/// An event about one thread, read.
#[derive(Debug, Clone, Copy)]
pub struct TaskRecord<'r> {
    /// The thread.
    pub tid: Tid,
    /// Its name, if the event has one.
    pub comm: &'r [u8],
    /// clone_flags of task_newtask, old_pid of sched_process_exec.
    pub other: i64,
}

impl Plan {
    /// Resolves every event of the table.
    pub fn new(table: &EventTable) -> Plan {
        let mut plan = Plan::default();
        for event in table.iter() {
            plan.add(event);
        }
        plan
    }

    fn add(&mut self, event: &TracedEvent) {
        let f = &event.format;
        for (name, at) in [("common_flags", &mut self.flags_at), ("common_pid", &mut self.pid_at)] {
            *at = f.field(name).map_or(*at, |field| field.offset);
        }
        let path = event.path();
        let mut kind = kind_of(&path);
        let understood = match kind {
            Kind::Switch => {
                switch_at(f).map(|at| (self.switch, self.usual_switch) = (at, at == SwitchAt::USUAL)).is_some()
            }
            Kind::Waking => wake_at(f).map(|at| (self.waking, self.usual_waking) = (at, at == WakeAt::USUAL)).is_some(),
            Kind::WakeupNew => wake_at(f).map(|at| self.wakeup_new = at).is_some(),
            Kind::NewTask => self.newtask.fill(f, "comm", "clone_flags"),
            Kind::Rename => self.rename.fill(f, "newcomm", ""),
            Kind::Exec => self.exec.fill(f, "", "old_pid"),
            Kind::Exit => self.exit.fill(f, "comm", ""),
            Kind::Free => self.free.fill(f, "comm", ""),
            Kind::Print => keep(&mut self.print, f.field("buf")),
            Kind::Stack => {
                self.stack = StackFormat::of(f);
                self.stack.is_some()
            }
            Kind::Other | Kind::Unknown => true,
        };
        if !understood {
            self.not_understood.push(path);
            kind = Kind::Other;
        }
        let id = usize::from(f.id);
        if self.kinds.len() <= id {
            self.kinds.resize(id + 1, (Kind::Unknown, 0));
        }
        let fields: Vec<FieldFormat> = f.fields.iter().map(|field| coded(field, &event.group)).collect();
        self.kinds[id] = (kind, u16::try_from(self.encoders.len()).unwrap_or(u16::MAX));
        self.encoders.push(EventEncoder::new(&event.group, &f.name, &fields));
    }

    /// What a record with this id is.
    #[inline]
    pub fn kind(&self, id: u16) -> Kind {
        self.kinds.get(usize::from(id)).map_or(Kind::Unknown, |k| k.0)
    }

    /// Whether every event that tells of lives is recorded and understood.
    pub fn tells_lives(&self) -> bool {
        Kind::OF_LIVES.iter().all(|kind| self.kinds.iter().any(|k| k.0 == *kind))
    }

    /// The encoder of a known id.
    pub fn encoder(&self, id: u16) -> Option<&EventEncoder> {
        let (_, at) = self.kinds.get(usize::from(id))?;
        self.encoders.get(usize::from(*at))
    }

    /// `common_flags`.
    #[inline]
    pub fn flags(&self, data: &[u8]) -> u8 {
        data.get(self.flags_at).copied().unwrap_or(0)
    }

    /// `common_pid`: who was running.
    #[inline]
    pub fn pid(&self, data: &[u8]) -> Tid {
        data.get(self.pid_at..).and_then(|d| d.first_chunk()).map_or(0, |b| i32::from_ne_bytes(*b))
    }

    /// Reads a sched_switch; `None` if the record is too short.
    #[inline]
    pub fn switch<'r>(&self, data: &'r [u8]) -> Option<SwitchRecord<'r>> {
        if self.usual_switch { SwitchAt::USUAL.read(data) } else { self.switch.read(data) }
    }

    /// Reads a sched_waking; `None` if the record is too short.
    #[inline]
    pub fn waking<'r>(&self, data: &'r [u8]) -> Option<WakeRecord<'r>> {
        if self.usual_waking { WakeAt::USUAL.read(data) } else { self.waking.read(data) }
    }

    /// Reads a sched_wakeup_new; `None` if the record is too short.
    pub fn wakeup_new<'r>(&self, data: &'r [u8]) -> Option<WakeRecord<'r>> {
        self.wakeup_new.read(data)
    }

    /// Reads an event about one thread; `None` for other kinds and records that are too short.
    pub fn task<'r>(&self, kind: Kind, data: &'r [u8]) -> Option<TaskRecord<'r>> {
        match kind {
            Kind::NewTask => self.newtask.read(data),
            Kind::Rename => self.rename.read(data),
            Kind::Exec => self.exec.read(data),
            Kind::Exit => self.exit.read(data),
            Kind::Free => self.free.read(data),
            _ => None,
        }
    }

    /// The text of a marker, as written.
    pub fn print<'r>(&self, data: &'r [u8]) -> Option<&'r [u8]> {
        self.print.as_ref()?.string(data)
    }

    /// The return addresses of a kernel stack, innermost first.
    pub fn stack<'r>(&self, data: &'r [u8]) -> impl Iterator<Item = u64> + use<'r> {
        self.stack.map(|format| format.frames(data)).into_iter().flatten()
    }
}

fn kind_of(path: &str) -> Kind {
    match path {
        "sched/sched_switch" => Kind::Switch,
        "sched/sched_waking" => Kind::Waking,
        "sched/sched_wakeup_new" => Kind::WakeupNew,
        "task/task_newtask" => Kind::NewTask,
        "task/task_rename" => Kind::Rename,
        "sched/sched_process_exec" => Kind::Exec,
        "sched/sched_process_exit" => Kind::Exit,
        "sched/sched_process_free" => Kind::Free,
        "ftrace/print" => Kind::Print,
        "ftrace/kernel_stack" => Kind::Stack,
        _ => Kind::Other,
    }
}

#[inline]
fn word(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*data.get(at..)?.first_chunk()?))
}

/// The offset of a field in place of exactly `size` bytes.
fn at(f: &EventFormat, name: &str, size: usize) -> Option<usize> {
    let field = f.field(name).filter(|field| field.size == size)?;
    matches!(field.kind, FieldKind::Scalar | FieldKind::Array { .. }).then_some(field.offset)
}

fn switch_at(f: &EventFormat) -> Option<SwitchAt> {
    let (state, long) = match at(f, "prev_state", 8) {
        Some(state) => (state, true),
        None => (at(f, "prev_state", 4)?, false),
    };
    Some(SwitchAt {
        prev_comm: at(f, "prev_comm", 16)?,
        prev_pid: at(f, "prev_pid", 4)?,
        prev_prio: at(f, "prev_prio", 4)?,
        prev_state: state,
        long,
        next_comm: at(f, "next_comm", 16)?,
        next_pid: at(f, "next_pid", 4)?,
        next_prio: at(f, "next_prio", 4)?,
        len: f.min_size(),
    })
}

fn wake_at(f: &EventFormat) -> Option<WakeAt> {
    let pid = at(f, "pid", 4)?;
    let (prio, target) = (at(f, "prio", 4)?, at(f, "target_cpu", 4)?);
    Some(WakeAt { comm: at(f, "comm", 16)?, pid, prio, target, len: f.min_size() })
}

impl WakeAt {
    /// As above, since the field `success` went that stood in front of `target_cpu` (4.9 has it).
    const USUAL: WakeAt = WakeAt { comm: 8, pid: 24, prio: 28, target: 32, len: 36 };

    #[inline(always)]
    fn read<'r>(&self, data: &'r [u8]) -> Option<WakeRecord<'r>> {
        let data = data.get(..self.len)?;
        Some(WakeRecord {
            comm: data[self.comm..].first_chunk()?,
            pid: word(data, self.pid)?,
            prio: word(data, self.prio)?,
            target_cpu: word(data, self.target)?,
        })
    }
}

impl TaskAt {
    fn fill(&mut self, f: &EventFormat, comm: &str, other: &str) -> bool {
        // task_rename had no pid of its own before 6.14: there it is the thread that writes the event.
        let pid = f.field("pid").or_else(|| f.field("common_pid"));
        *self = TaskAt { pid: pid.cloned(), comm: f.field(comm).cloned(), other: f.field(other).cloned() };
        self.pid.is_some() && (comm.is_empty() || self.comm.is_some())
    }

    fn read<'r>(&self, data: &'r [u8]) -> Option<TaskRecord<'r>> {
        Some(TaskRecord {
            tid: self.pid.as_ref()?.i64(data)? as Tid,
            comm: self.comm.as_ref().map_or(Some(&[][..]), |f| f.string(data))?,
            other: self.other.as_ref().map_or(Some(0), |f| f.i64(data))?,
        })
    }
}

fn keep(place: &mut Option<Field>, field: Option<&Field>) -> bool {
    *place = field.cloned();
    place.is_some()
}

/// The kernel's description of a field in the words of the encoder.
fn coded(field: &Field, group: &str) -> FieldFormat {
    let text = field.is_text();
    let kind = match field.kind {
        FieldKind::Array { .. } if text => Coded::Text,
        FieldKind::Array { count } => Coded::Integers(field.size / count.max(1)),
        FieldKind::DataLoc if text => Coded::DataLoc,
        FieldKind::RelLoc if text => Coded::RelLoc,
        FieldKind::Rest if text => Coded::Tail,
        // dev_t is what block events call it; its width is that of an unsigned int.
        FieldKind::Scalar if field.type_text == "dev_t" && group == "block" => Coded::Device,
        _ => Coded::Integer,
    };
    FieldFormat { name: field.name.clone(), offset: field.offset, size: field.size, signed: field.signed, kind }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Kernel, SwitchRecord as Made, WakingRecord};

    /// Ids of fixtures taken from different kernels can be the same: one plan for one event.
    fn plan(format: &EventFormat) -> Plan {
        let mut table = EventTable::new();
        table.insert(TracedEvent { group: "sched".into(), format: format.clone() });
        let plan = Plan::new(&table);
        assert!(plan.not_understood.is_empty(), "{format}");
        plan
    }

    #[test]
    fn every_known_kernel_is_understood_without_guessing() {
        for kernel in Kernel::ALL {
            let format = EventFormat::parse(kernel.sched_switch()).unwrap();
            let made = Made {
                prev_comm: b"old",
                prev_pid: 7,
                prev_prio: 120,
                prev_state: 2,
                next_comm: b"train",
                next_pid: 9,
                next_prio: 120,
            };
            let data = made.encode(&format);
            let read = plan(&format).switch(&data).unwrap();
            assert_eq!((read.prev_pid, read.prev_state, read.next_pid), (7, 2, 9), "{kernel:?}");
            assert_eq!(&read.next_comm[..6], b"train\0");
            assert!(plan(&format).switch(&data[..data.len() - 1]).is_none(), "a short record is not read");
            let format = EventFormat::parse(kernel.sched_waking()).unwrap();
            let data = WakingRecord { waker: 1, comm: b"w", pid: 11, prio: 120, target_cpu: 3 }.encode(&format);
            let plan = plan(&format);
            let read = plan.waking(&data).unwrap();
            assert_eq!((read.pid, read.target_cpu), (11, 3), "{kernel:?}");
        }
    }

    #[test]
    fn the_usual_places_are_those_of_this_kernel_and_not_of_rt() {
        let usual = |kernel: Kernel| {
            let format = |text: &str| EventFormat::parse(text).unwrap();
            (plan(&format(kernel.sched_switch())).usual_switch, plan(&format(kernel.sched_waking())).usual_waking)
        };
        assert_eq!(usual(Kernel::V6_18), (true, true));
        assert_eq!(usual(Kernel::V6_6Rt), (false, false), "one more common field moves them all");
        assert_eq!(usual(Kernel::V4_9), (true, false), "`success` stands in front of the target CPU");
    }

    #[test]
    fn a_switch_of_another_shape_is_written_like_any_event() {
        let text = Kernel::V6_18.sched_switch().replace("prev_pid", "prev_tid");
        let mut table = EventTable::new();
        let format = EventFormat::parse(&text).unwrap();
        let id = format.id;
        table.insert(TracedEvent { group: "sched".into(), format });
        let plan = Plan::new(&table);
        assert_eq!(plan.not_understood, ["sched/sched_switch"]);
        assert_eq!(plan.kind(id), Kind::Other);
        assert_eq!(plan.kind(u16::MAX), Kind::Unknown);
    }
}
