//! The formats of proc(5), from bytes. Names and paths are hostile: any byte but NUL may be in them.

use crate::kernel::topology::parse_cpu_list;
use crate::sched::event::Tid;

/// What `stat` says of one thread (or process).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    /// Id: the first field.
    pub tid: Tid,
    /// Name between the first `(` and the last `)` of the file. Longer than 15 bytes for some kernel threads.
    pub comm: Vec<u8>,
    /// State letter.
    pub state: u8,
    /// Parent's process id.
    pub ppid: Tid,
    /// PF_* (include/linux/sched.h).
    pub flags: u64,
    /// User time, clock ticks.
    pub utime_ticks: u64,
    /// System time, clock ticks.
    pub stime_ticks: u64,
    /// Kernel priority, 0–139, as in sched_switch.
    pub prio: i32,
    /// Start, clock ticks since boot.
    pub start_ticks: u64,
    /// Resident pages.
    pub rss_pages: u64,
    /// CPU it last ran on.
    pub cpu: Option<u32>,
}

/// PF_KTHREAD of include/linux/sched.h.
pub const PF_KTHREAD: u64 = 0x0020_0000;
/// PF_WQ_WORKER: procfs appends what the worker does to its name (wq_worker_comm in kernel/workqueue.c).
const PF_WQ_WORKER: u64 = 0x0000_0020;
/// TASK_COMM_LEN less its NUL: longer names exist in procfs only.
const COMM_LEN: usize = 15;

impl Stat {
    /// A kernel thread.
    pub fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// The name as trace events have it: without what procfs adds to kernel threads, at most 15 bytes.
    pub fn event_name(&self) -> &[u8] {
        let mut name = self.comm.as_slice();
        if self.flags & PF_WQ_WORKER != 0 {
            // "kworker/0:1-events", "kworker/u8:2+flush-259:0": the pool's name ends at the first - or + after its colon.
            let colon = name.iter().position(|b| *b == b':').unwrap_or(name.len());
            let end = name.iter().skip(colon).position(|b| matches!(b, b'-' | b'+')).map_or(name.len(), |n| colon + n);
            name = &name[..end];
        }
        &name[..name.len().min(COMM_LEN)]
    }
}

/// `/proc/PID/stat`: fields after the name are counted from its last `)`, since the name may hold anything.
pub fn stat(text: &[u8]) -> Result<Stat, &'static str> {
    let open = text.iter().position(|b| *b == b'(').ok_or("no ( before the name")?;
    let close = text.iter().rposition(|b| *b == b')').filter(|c| *c > open).ok_or("no ) after the name")?;
    let tid = number(text[..open].trim_ascii()).ok_or("the id is no number")?;
    let rest: Vec<&[u8]> = text[close + 1..].split(u8::is_ascii_whitespace).filter(|f| !f.is_empty()).collect();
    // proc(5) counts fields from 1, and the state after the name is the third.
    let field = |n: usize| rest.get(n - 3).copied().ok_or("too few fields");
    let num = |n: usize| field(n).and_then(|f| number::<i64>(f).ok_or("a field is no number"));
    let unsigned = |n: usize| field(n).and_then(|f| number::<u64>(f).ok_or("a field is no number"));
    let state = match field(3)? {
        [letter] => *letter,
        _ => return Err("the state is no letter"),
    };
    Ok(Stat {
        tid,
        comm: text[open + 1..close].to_vec(),
        state,
        ppid: Tid::try_from(num(4)?).map_err(|_| "the parent is no process id")?,
        flags: unsigned(9)?,
        utime_ticks: unsigned(14)?,
        stime_ticks: unsigned(15)?,
        // task_prio() subtracts MAX_RT_PRIO, 100 (kernel/sched/syscalls.c).
        prio: i32::try_from(num(18)?.saturating_add(100)).map_err(|_| "the priority is out of bounds")?,
        start_ticks: unsigned(22)?,
        rss_pages: unsigned(24)?,
        cpu: rest.get(39 - 3).and_then(|f| number(f)),
    })
}

/// What `status` says; everything is optional, since kernels differ in what they print.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Process id.
    pub tgid: Option<Tid>,
    /// Parent's process id.
    pub ppid: Option<Tid>,
    /// Real user id.
    pub uid: Option<u32>,
    /// CPUs it may run on.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Resident memory, bytes.
    pub rss: Option<u64>,
    /// Switches because it went to sleep.
    pub voluntary: Option<u64>,
    /// Switches while it still wanted to run.
    pub involuntary: Option<u64>,
}

/// `/proc/PID/status`. The kernel escapes the name there, so lines are lines.
pub fn status(text: &[u8]) -> Result<Status, &'static str> {
    let mut s = Status::default();
    for line in text.split(|b| *b == b'\n') {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let value = line[colon + 1..].trim_ascii();
        let first = value.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        match &line[..colon] {
            b"Tgid" => s.tgid = number(first),
            b"PPid" => s.ppid = number(first),
            b"Uid" => s.uid = number(first),
            b"VmRSS" => s.rss = number::<u64>(first).and_then(|kib| kib.checked_mul(1024)),
            b"Cpus_allowed_list" => {
                s.allowed_cpus = std::str::from_utf8(value).ok().and_then(|v| parse_cpu_list(v).ok())
            }
            b"voluntary_ctxt_switches" => s.voluntary = number(first),
            b"nonvoluntary_ctxt_switches" => s.involuntary = number(first),
            _ => {}
        }
    }
    if s.tgid.is_none() { Err("it has no Tgid line") } else { Ok(s) }
}

/// Exact scheduler sums of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedstat {
    /// Time on a CPU, ns.
    pub run_ns: u64,
    /// Time ready but not running, ns.
    pub wait_ns: u64,
    /// Times it was put on a CPU.
    pub slices: u64,
}

/// `/proc/PID/task/TID/schedstat`.
pub fn schedstat(text: &[u8]) -> Result<Schedstat, &'static str> {
    let mut fields = text.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty());
    let mut next = || fields.next().and_then(number).ok_or("it is not three numbers");
    Ok(Schedstat { run_ns: next()?, wait_ns: next()?, slices: next()? })
}

/// `/proc/PID/cmdline`: arguments end in NUL; a process that rewrote its title may have left just text. At most 256
/// arguments are kept.
pub fn cmdline(text: &[u8]) -> Vec<Vec<u8>> {
    let end = text.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    if end == 0 {
        return Vec::new();
    }
    text[..end].split(|b| *b == 0).take(256).map(<[u8]>::to_vec).collect()
}

/// `/proc/PID/cgroup`: the path that tells most: of the unified tree, else of the cpu controller, else of systemd's tree,
/// else any; the first of these that is not the root.
pub fn cgroup_path(text: &[u8]) -> &[u8] {
    // (rank, path); lower is better.
    let mut best: Option<(u8, &[u8])> = None;
    for line in text.split(|b| *b == b'\n') {
        let mut parts = line.splitn(3, |b| *b == b':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        // A removed group is marked so behind its path (kernel/cgroup/cgroup.c, proc_cgroup_show).
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let kind = match controllers {
            b"" if id == b"0" => 0,
            c if c.split(|b| *b == b',').any(|c| c == b"cpu") => 1,
            b"name=systemd" => 2,
            _ => 3,
        };
        let rank = if path == b"/" { kind + 4 } else { kind };
        if best.is_none_or(|(r, _)| rank < r) {
            best = Some((rank, path));
        }
    }
    best.map_or(&[], |(_, path)| path)
}

/// A whole field as a number.
fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
