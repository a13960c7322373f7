//! The packets at a segment's head and tail, and the small ones of ours between bundles. Each call appends one packet.

use crate::perfetto::messages::{self as m, DashcamPacket, TracePacket, clock_id};
use crate::perfetto::wire::{BYTES, Fields, put_bytes, put_key, put_uint, put_varint};
use crate::perfetto::{SEQUENCE_ID, escape, sys_stats};
use crate::sched::event::{ClockSnapshot, CpuFact, Loss, ThreadNow, Tid};
use prost::Message;

/// The host and its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    /// Node name.
    pub host: Vec<u8>,
    /// Kernel release, e.g. "6.18.44"; without it nobody can tell `prev_state` layouts apart.
    pub release: Vec<u8>,
    /// Kernel version string.
    pub version: Vec<u8>,
    /// Machine, e.g. "x86_64".
    pub machine: Vec<u8>,
    /// CPUs present.
    pub cpus: u32,
    /// RAM, bytes.
    pub ram: u64,
    /// Page size, bytes.
    pub page_size: u32,
    /// Local time minus UTC, minutes.
    pub zone_offset_minutes: i32,
    /// Who wrote the trace, e.g. "dashcam 0.1.0".
    pub recorder: Vec<u8>,
}

/// A process of the process tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Process id.
    pub pid: Tid,
    /// Parent.
    pub ppid: Tid,
    /// Command line; empty for kernel threads.
    pub cmdline: Vec<Vec<u8>>,
    /// Name of the leader.
    pub name: Vec<u8>,
    /// Owner.
    pub uid: Option<u32>,
    /// Path of its cgroup.
    pub cgroup: Vec<u8>,
    /// Start, ns on the boot clock.
    pub start: Option<u64>,
    /// A kernel thread.
    pub kernel: bool,
}

/// A thread of the process tree; leaders too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Its process.
    pub pid: Tid,
    /// Its name.
    pub name: Vec<u8>,
    /// Start, ns on the boot clock.
    pub start: Option<u64>,
}

/// A CPU in the state block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuNow {
    /// The CPU.
    pub cpu: u32,
    /// Who runs.
    pub tid: Tid,
    /// Its priority.
    pub prio: i32,
    /// Since when, ns on the boot clock.
    pub since: u64,
}

/// A thread in the state block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAt {
    /// The thread.
    pub tid: Tid,
    /// What it does.
    pub state: ThreadNow,
    /// Since when, ns on the boot clock.
    pub since: Option<u64>,
    /// On, or last on, this CPU.
    pub cpu: Option<u32>,
}

/// One sample of a counter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CounterSample {
    /// ns on the boot clock.
    pub ts: u64,
    /// Which counter.
    pub name: Vec<u8>,
    /// Of which CPU, if of one.
    pub cpu: Option<u32>,
    /// Its value.
    pub value: f64,
}

/// Which end of the trace ring-buffer statistics belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Head.
    Start,
    /// Tail.
    End,
}

/// Appends `packet` with its framing in the enclosing `Trace`.
pub fn packet(mut packet: TracePacket, out: &mut Vec<u8>) {
    packet.trusted_packet_sequence_id.get_or_insert(SEQUENCE_ID);
    put_key(out, 1, BYTES);
    put_varint(out, packet.encoded_len() as u64);
    // `Vec` grows as needed, so encoding cannot run out of room.
    packet.encode_raw(out);
}

/// Appends a packet that holds nothing but our extension.
pub fn dashcam(extension: DashcamPacket, out: &mut Vec<u8>) {
    packet(TracePacket { dashcam: Some(extension), ..Default::default() }, out);
}

/// Clocks at one instant. Must precede everything that is not on the boot clock.
pub fn clocks(snapshot: &ClockSnapshot, out: &mut Vec<u8>) {
    let clocks = [
        (clock_id::BOOTTIME, snapshot.boot),
        (clock_id::REALTIME, snapshot.real),
        (clock_id::MONOTONIC, snapshot.mono),
    ];
    let clock = |(id, ts)| m::Clock { clock_id: Some(id), timestamp: Some(ts), unit_multiplier_ns: None };
    let clock_snapshot =
        m::ClockSnapshot { clocks: clocks.map(clock).to_vec(), primary_trace_clock: Some(clock_id::BOOTTIME as i32) };
    let extension = DashcamPacket {
        tai: (snapshot.tai != 0).then_some(snapshot.tai),
        zone_offset_minutes: snapshot.zone_offset_minutes,
        ..Default::default()
    };
    packet(TracePacket { clock_snapshot: Some(clock_snapshot), dashcam: Some(extension), ..Default::default() }, out);
}

/// The host.
pub fn system(system: &System, out: &mut Vec<u8>) {
    let mut names = Names::default();
    let utsname = m::Utsname {
        sysname: Some(b"Linux".to_vec()),
        version: Some(names.put(&system.version)),
        release: Some(names.put(&system.release)),
        machine: Some(names.put(&system.machine)),
    };
    let info = m::SystemInfo {
        utsname: Some(utsname),
        tracing_service_version: Some(names.put(&system.recorder)),
        page_size: (system.page_size != 0).then_some(system.page_size),
        timezone_off_mins: Some(system.zone_offset_minutes),
        num_cpus: Some(system.cpus),
        system_ram_bytes: Some(system.ram),
    };
    let extension =
        DashcamPacket { escaped_names: names.escaped, host: Some(system.host.clone()), ..Default::default() };
    packet(TracePacket { system_info: Some(info), dashcam: Some(extension), ..Default::default() }, out);
}

/// CPU topology; also the number of CPUs and `model` (as in /proc/cpuinfo) for Perfetto's own CPU table.
///
/// Perfetto numbers CPUs by position, so absent ids get empty entries; ids from 1024 on (its limit) are only in ours.
pub fn topology(cpus: &[CpuFact], model: &[u8], out: &mut Vec<u8>) {
    let mut names = Names::default();
    let model = names.put(model);
    let known = cpus.iter().map(|c| c.cpu).filter(|&c| c < 1024).max().map_or(0, |c| c as usize + 1);
    let mut info = m::CpuInfo { cpus: vec![m::CpuInfoCpu::default(); known] };
    for cpu in cpus {
        if let Some(entry) = info.cpus.get_mut(cpu.cpu as usize) {
            entry.processor = Some(model.clone());
        }
    }
    let place =
        |c: &CpuFact| m::CpuTopology { cpu: c.cpu, node: c.node, package: c.package, core: c.core, online: c.online };
    let extension = DashcamPacket {
        escaped_names: names.escaped,
        topology: cpus.iter().map(place).collect(),
        ..Default::default()
    };
    packet(TracePacket { cpu_info: Some(info), dashcam: Some(extension), ..Default::default() }, out);
}

/// Processes and threads known at `ts` (ns, boot), or learnt by then.
pub fn process_tree(ts: u64, processes: &[Process], threads: &[Thread], out: &mut Vec<u8>) {
    tree((ts, ts), processes, threads, out);
}

/// What procfs said at `ts` (ns, boot) of some processes and threads.
///
/// Who was born less than a minute before is told in a packet that is stamped with its birth. Perfetto's trace processor takes a
/// process whose parent is another than it knows for a new one, and a parent that is gone for another: so this is told as of the
/// moment when the parent certainly lived.
pub fn people_read(ts: u64, processes: &[Process], threads: &[Thread], out: &mut Vec<u8>) {
    let born = |start: Option<u64>| start.is_some_and(|start| birth(start).saturating_add(60_000_000_000) > ts);
    let (young, old) = processes.iter().cloned().partition::<Vec<_>, _>(|p| born(p.start));
    let (young_threads, old_threads) = threads.iter().cloned().partition::<Vec<_>, _>(|t| born(t.start));
    if !old.is_empty() || !old_threads.is_empty() {
        process_tree(ts, &old, &old_threads, out);
    }
    born_lately(ts, &young, &young_threads, out);
}

/// An instant, ns, at which someone with this `start` certainly lived: right after the event that told it, or at the end of the
/// 10 ms to which procfs rounds it down (USER_HZ is 100).
pub fn birth(start: u64) -> u64 {
    const TICK: u64 = 10_000_000;
    start.saturating_add(if start.is_multiple_of(TICK) { TICK } else { 1 })
}

/// Processes and threads as they were at `ts` (ns, boot), each in a packet that is stamped with its birth, just before or after,
/// for the reason that [`people_read`] gives.
pub fn born_lately(ts: u64, processes: &[Process], threads: &[Thread], out: &mut Vec<u8>) {
    let stamp = |start: Option<u64>| start.map_or(ts, birth);
    for process in processes {
        tree((stamp(process.start), ts), std::slice::from_ref(process), &[], out);
    }
    for thread in threads {
        tree((stamp(thread.start), ts), &[], std::slice::from_ref(thread), out);
    }
}

/// `stamp`: of the packet; `read`: when it was so.
fn tree((stamp, read): (u64, u64), processes: &[Process], threads: &[Thread], out: &mut Vec<u8>) {
    let mut names = Names::default();
    let mut tree = m::ProcessTree { collection_end_timestamp: Some(read), ..Default::default() };
    let mut extension = DashcamPacket::default();
    for p in processes {
        let comm_only = p.cmdline.is_empty();
        let cmdline: Vec<_> = p.cmdline.iter().map(|arg| names.put(arg)).collect();
        tree.processes.push(m::ProcessTreeProcess {
            pid: Some(p.pid),
            ppid: Some(p.ppid),
            cmdline: if comm_only { vec![names.put(&p.name)] } else { cmdline },
            uid: p.uid.map(|u| u as i32),
            process_start_from_boot: p.start,
            is_kthread: Some(p.kernel),
            cmdline_is_comm: comm_only.then_some(true),
        });
        extension.processes.push(m::ProcessExtra { pid: p.pid, name: p.name.clone(), cgroup: p.cgroup.clone() });
    }
    for t in threads {
        let name = Some(names.put(&t.name));
        tree.threads.push(m::ProcessTreeThread { tid: Some(t.tid), name, tgid: Some(t.pid) });
        if t.start.is_some() {
            extension.threads.push(m::ThreadExtra { tid: t.tid, start: t.start });
        }
    }
    extension.escaped_names = names.escaped;
    let tree = TracePacket {
        process_tree: Some(tree),
        timestamp: Some(stamp),
        dashcam: Some(extension),
        ..Default::default()
    };
    packet(tree, out);
}

/// The state block: what every CPU and thread did at `ts` (ns, boot).
pub fn state(ts: u64, cpus: &[CpuNow], threads: &[ThreadAt], out: &mut Vec<u8>) {
    let cpu = |c: &CpuNow| m::CpuState { cpu: c.cpu, tid: c.tid, prio: c.prio, since: c.since };
    let thread = |t: &ThreadAt| {
        let (state, flags) = match t.state {
            ThreadNow::Unknown => (0, 0),
            ThreadNow::Running => (1, 0),
            ThreadNow::Runnable => (2, 0),
            ThreadNow::Preempted => (3, 0),
            ThreadNow::Blocked(state) => (4, u32::from(state.0)),
        };
        m::ThreadState { tid: t.tid, state, flags, since: t.since, cpu: t.cpu }
    };
    dashcam(
        DashcamPacket {
            state_ts: Some(ts),
            cpu_states: cpus.iter().map(cpu).collect(),
            thread_states: threads.iter().map(thread).collect(),
            ..Default::default()
        },
        out,
    );
}

/// Ring-buffer statistics of every CPU.
pub fn ftrace_stats(phase: Phase, cpus: &[m::FtraceCpuStats], out: &mut Vec<u8>) {
    let phase = if phase == Phase::Start { 1 } else { 2 };
    let stats = m::FtraceStats { phase: Some(phase), cpu_stats: cpus.to_vec() };
    packet(TracePacket { ftrace_stats: Some(stats), ..Default::default() }, out);
}

/// The trace's identity.
pub fn uuid(id: u128, out: &mut Vec<u8>) {
    let uuid = m::TraceUuid { msb: Some((id >> 64) as i64), lsb: Some(id as i64) };
    packet(TracePacket { trace_uuid: Some(uuid), ..Default::default() }, out);
}

/// The events that were asked for ("group/name"), as a `TraceConfig` that Perfetto's tools show.
pub fn trace_config(events: &[&str], out: &mut Vec<u8>) {
    let mut ftrace = Vec::new();
    for event in events {
        put_bytes(&mut ftrace, 1, event.as_bytes());
    }
    let mut compact = Vec::new();
    put_uint(&mut compact, 1, 1);
    put_bytes(&mut ftrace, 12, &compact);
    let (mut config, mut source, mut trace) = (Vec::new(), Vec::new(), Vec::new());
    put_bytes(&mut config, 1, b"linux.ftrace");
    put_bytes(&mut config, 100, &ftrace);
    put_bytes(&mut source, 1, &config);
    put_bytes(&mut trace, 2, &source);
    packet(TracePacket { trace_config: Some(trace), ..Default::default() }, out);
}

/// Watermark: all events of all CPUs before `ts` (ns, boot) stand before this packet.
pub fn complete_through(ts: u64, out: &mut Vec<u8>) {
    dashcam(DashcamPacket { complete_through: Some(ts), ..Default::default() }, out);
}

/// A kernel stack (functions, innermost first, a newline between two) and who blocked with it, when (ns, boot).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stack {
    /// The functions.
    pub functions: Vec<u8>,
    /// Who and when.
    pub blocked: Vec<(Tid, u64)>,
}

/// Kernel stacks.
pub fn stacks(stacks: &[Stack], out: &mut Vec<u8>) {
    let record = |stack: &Stack| {
        let before = std::iter::once(0).chain(stack.blocked.iter().map(|b| b.1));
        m::StackRecord {
            functions: stack.functions.clone(),
            tids: stack.blocked.iter().map(|b| b.0).collect(),
            times: stack.blocked.iter().zip(before).map(|(b, before)| b.1.wrapping_sub(before) as i64).collect(),
        }
    };
    dashcam(DashcamPacket { stacks: stacks.iter().map(record).collect(), ..Default::default() }, out);
}

/// Who lived in a segment: whole packets (facts, events) that stand in its frames too, for [`crate::perfetto::decode::lives`].
pub fn lives(packets: Vec<u8>, out: &mut Vec<u8>) {
    dashcam(DashcamPacket { lives: Some(packets), ..Default::default() }, out);
}

/// Whether the first of these packets is a process tree.
pub fn is_process_tree(packets: &[u8]) -> bool {
    let first = |bytes| Fields::new(bytes).next().ok().flatten();
    first(packets).is_some_and(|(_, packet)| first(packet.bytes()).is_some_and(|(field, _)| field == 2))
}

/// Losses that belong to no bundle.
pub fn losses(losses: &[Loss], out: &mut Vec<u8>) {
    dashcam(DashcamPacket { losses: losses.iter().map(loss_record).collect(), ..Default::default() }, out);
}

/// No recording between two instants, ns on the boot clock.
pub fn gap(from: u64, to: u64, out: &mut Vec<u8>) {
    dashcam(DashcamPacket { gaps: vec![m::Gap { from, to }], ..Default::default() }, out);
}

/// The recorder's own threads.
pub fn own_threads(tids: &[Tid], out: &mut Vec<u8>) {
    dashcam(DashcamPacket { own_threads: tids.to_vec(), ..Default::default() }, out);
}

/// Facts about the trace itself, key and value.
pub fn metadata(pairs: &[(&str, &[u8])], out: &mut Vec<u8>) {
    let pair = |&(k, v): &(&str, &[u8])| m::KeyValue { key: k.as_bytes().to_vec(), value: v.to_vec() };
    dashcam(DashcamPacket { metadata: pairs.iter().map(pair).collect(), ..Default::default() }, out);
}

/// Counter samples: those Perfetto has fields for there, so that its tools draw them, the others in our extension.
pub fn counters(samples: &[CounterSample], out: &mut Vec<u8>) {
    for group in samples.chunk_by(|a, b| a.ts == b.ts) {
        let (mut theirs, mut ours) = (Vec::new(), DashcamPacket::default());
        for c in group {
            if c.cpu.is_some() || !sys_stats::put(&c.name, c.value, &mut theirs) {
                let sample = m::CounterSample { ts: c.ts, name: c.name.clone(), cpu: c.cpu, value: c.value };
                ours.counters.push(sample);
            }
        }
        packet(
            TracePacket {
                timestamp: group.first().map(|c| c.ts),
                sys_stats: (!theirs.is_empty()).then_some(theirs),
                dashcam: (!ours.counters.is_empty()).then_some(ours),
                ..Default::default()
            },
            out,
        );
    }
}

/// The data is sampled from procfs, `hz` times a second: there are no events.
pub fn sampled(hz: u32, out: &mut Vec<u8>) {
    dashcam(DashcamPacket { sampled_hz: Some(hz), ..Default::default() }, out);
}

/// A CPU came or went at `ts` (ns, boot), or its recording began.
pub fn cpu_online(ts: u64, cpu: u32, online: bool, out: &mut Vec<u8>) {
    dashcam(DashcamPacket { cpu_online: vec![m::CpuOnline { ts, cpu, online }], ..Default::default() }, out);
}

/// Something of the input could not be read.
pub fn damage(cpu: Option<u32>, what: &str, out: &mut Vec<u8>) {
    let record = m::DamageRecord { cpu, what: what.as_bytes().to_vec() };
    dashcam(DashcamPacket { damage: vec![record], ..Default::default() }, out);
}

fn loss_record(loss: &Loss) -> m::LossRecord {
    m::LossRecord { cpu: loss.cpu, from: loss.from, to: loss.to, count: loss.count }
}

/// What a bundle's packet says beyond the bundle; empty in nearly all of them. `stand_ins`: the packed field of that name.
pub(super) fn bundle_extension(escaped_names: bool, lost: Option<Loss>, stand_ins: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if escaped_names || lost.is_some() {
        let losses = lost.iter().map(loss_record).collect();
        out = DashcamPacket { escaped_names, losses, ..Default::default() }.encode_to_vec();
    }
    if !stand_ins.is_empty() {
        put_bytes(&mut out, 22, stand_ins);
    }
    out
}

/// Escapes names for one packet and remembers whether any needed it.
#[derive(Default)]
struct Names {
    escaped: bool,
}

impl Names {
    fn put(&mut self, name: &[u8]) -> Vec<u8> {
        let (text, escaped) = escape::escape(name);
        self.escaped |= escaped;
        text.into_owned()
    }
}
