//! Formats of known kernels, and records of their sched_switch and sched_waking.

use crate::kernel::format::EventFormat;

/// A kernel whose formats are kept in `tests/fixtures/kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// 4.4: prev_state in the layout before 4.8.
    V4_4,
    /// 4.9: prev_state in the layout of 4.8 to 4.13.
    V4_9,
    /// 5.4.
    V5_4,
    /// 5.15.
    V5_15,
    /// 6.6 with PREEMPT_RT: one common field more, all offsets moved.
    V6_6Rt,
    /// 6.18, copied from a running kernel.
    V6_18,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 6] =
        [Kernel::V4_4, Kernel::V4_9, Kernel::V5_4, Kernel::V5_15, Kernel::V6_6Rt, Kernel::V6_18];

    /// Release as `uname -r` would say.
    pub fn release(self) -> &'static str {
        match self {
            Kernel::V4_4 => "4.4.302",
            Kernel::V4_9 => "4.9.0-13-amd64",
            Kernel::V5_4 => "5.4.0-150-generic",
            Kernel::V5_15 => "5.15.0-91-generic",
            Kernel::V6_6Rt => "6.6.30-rt30",
            Kernel::V6_18 => "6.18.44",
        }
    }

    /// Text of sched_switch's format file.
    pub fn sched_switch(self) -> &'static str {
        match self {
            Kernel::V4_4 => include_str!("../../../tests/fixtures/kernels/4.4/sched_switch"),
            Kernel::V4_9 => include_str!("../../../tests/fixtures/kernels/4.9/sched_switch"),
            Kernel::V5_4 => include_str!("../../../tests/fixtures/kernels/5.4/sched_switch"),
            Kernel::V5_15 => include_str!("../../../tests/fixtures/kernels/5.15/sched_switch"),
            Kernel::V6_6Rt => include_str!("../../../tests/fixtures/kernels/6.6-rt/sched_switch"),
            Kernel::V6_18 => include_str!("../../../tests/fixtures/kernels/6.18/sched_switch"),
        }
    }

    /// Text of sched_waking's format file.
    pub fn sched_waking(self) -> &'static str {
        match self {
            Kernel::V6_6Rt => include_str!("../../../tests/fixtures/kernels/6.6-rt/sched_waking"),
            Kernel::V4_4 | Kernel::V4_9 => include_str!("../../../tests/fixtures/kernels/4.9/sched_waking"),
            _ => include_str!("../../../tests/fixtures/kernels/6.18/sched_waking"),
        }
    }

    /// All formats kept of it, by `group/name`.
    pub fn formats(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = [("sched/sched_switch", self.sched_switch()), ("sched/sched_waking", self.sched_waking())];
        own.into_iter().chain(OTHERS)
    }
}

/// Formats whose offsets did not change over the kernels here; common fields as in 6.18.
const OTHERS: [(&str, &str); 18] = [
    ("sched/sched_wakeup_new", include_str!("../../../tests/fixtures/kernels/6.18/sched_wakeup_new")),
    ("sched/sched_process_exec", include_str!("../../../tests/fixtures/kernels/6.18/sched_process_exec")),
    ("sched/sched_process_exit", include_str!("../../../tests/fixtures/kernels/6.18/sched_process_exit")),
    ("sched/sched_process_free", include_str!("../../../tests/fixtures/kernels/6.18/sched_process_free")),
    ("task/task_newtask", include_str!("../../../tests/fixtures/kernels/6.18/task_newtask")),
    ("task/task_rename", include_str!("../../../tests/fixtures/kernels/6.18/task_rename")),
    ("ftrace/print", include_str!("../../../tests/fixtures/kernels/6.18/print")),
    ("ftrace/kernel_stack", include_str!("../../../tests/fixtures/kernels/6.18/kernel_stack")),
    ("irq/irq_handler_entry", include_str!("../../../tests/fixtures/kernels/6.18/irq_handler_entry")),
    ("irq/irq_handler_exit", include_str!("../../../tests/fixtures/kernels/6.18/irq_handler_exit")),
    ("irq/softirq_entry", include_str!("../../../tests/fixtures/kernels/6.18/softirq_entry")),
    ("irq/softirq_exit", include_str!("../../../tests/fixtures/kernels/6.18/softirq_exit")),
    ("block/block_rq_insert", include_str!("../../../tests/fixtures/kernels/6.18/block_rq_insert")),
    ("block/block_rq_issue", include_str!("../../../tests/fixtures/kernels/6.18/block_rq_issue")),
    ("block/block_rq_complete", include_str!("../../../tests/fixtures/kernels/6.18/block_rq_complete")),
    ("power/cpu_frequency", include_str!("../../../tests/fixtures/kernels/6.18/cpu_frequency")),
    ("power/cpu_idle", include_str!("../../../tests/fixtures/kernels/6.18/cpu_idle")),
    ("raw_syscalls/sys_enter", include_str!("../../../tests/fixtures/kernels/6.18/sys_enter")),
];

/// Fields of a sched_switch record to write.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the kernel's own field names")]
pub struct SwitchRecord<'a> {
    pub prev_comm: &'a [u8],
    pub prev_pid: i32,
    pub prev_prio: i32,
    pub prev_state: i64,
    pub next_comm: &'a [u8],
    pub next_pid: i32,
    pub next_prio: i32,
}

impl SwitchRecord<'_> {
    /// The record's bytes in the given format; fields that the format lacks are left out.
    pub fn encode(&self, format: &EventFormat) -> Vec<u8> {
        let mut record = start(format, self.prev_pid);
        put_bytes(format, &mut record, "prev_comm", self.prev_comm);
        put(format, &mut record, "prev_pid", i64::from(self.prev_pid));
        put(format, &mut record, "prev_prio", i64::from(self.prev_prio));
        put(format, &mut record, "prev_state", self.prev_state);
        put_bytes(format, &mut record, "next_comm", self.next_comm);
        put(format, &mut record, "next_pid", i64::from(self.next_pid));
        put(format, &mut record, "next_prio", i64::from(self.next_prio));
        record
    }
}

/// Fields of a sched_waking record to write.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the kernel's own field names")]
pub struct WakingRecord<'a> {
    pub waker: i32,
    pub comm: &'a [u8],
    pub pid: i32,
    pub prio: i32,
    pub target_cpu: i32,
}

impl WakingRecord<'_> {
    /// The record's bytes in the given format; fields that the format lacks are left out.
    pub fn encode(&self, format: &EventFormat) -> Vec<u8> {
        let mut record = start(format, self.waker);
        put_bytes(format, &mut record, "comm", self.comm);
        put(format, &mut record, "pid", i64::from(self.pid));
        put(format, &mut record, "prio", i64::from(self.prio));
        put(format, &mut record, "success", 1);
        put(format, &mut record, "target_cpu", i64::from(self.target_cpu));
        record
    }
}

fn start(format: &EventFormat, common_pid: i32) -> Vec<u8> {
    let mut record = vec![0; format.min_size().next_multiple_of(4)];
    put(format, &mut record, "common_type", i64::from(format.id));
    put(format, &mut record, "common_pid", i64::from(common_pid));
    record
}

/// Writes a number into the field of that name, if the format has it.
fn put(format: &EventFormat, record: &mut [u8], name: &str, value: i64) {
    if let Some(field) = format.field(name)
        && let Some(place) = record.get_mut(field.offset..field.offset + field.size)
    {
        let bytes = value.to_le_bytes();
        let size = place.len().min(8);
        place[..size].copy_from_slice(&bytes[..size]);
        if cfg!(target_endian = "big") {
            place[..size].reverse();
        }
    }
}

/// Writes a NUL-terminated name into the field of that name, cut to its size.
fn put_bytes(format: &EventFormat, record: &mut [u8], name: &str, value: &[u8]) {
    if let Some(field) = format.field(name)
        && let Some(place) = record.get_mut(field.offset..field.offset + field.size)
    {
        let size = value.len().min(place.len().saturating_sub(1));
        place[..size].copy_from_slice(&value[..size]);
    }
}
