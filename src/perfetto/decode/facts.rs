//! Perfetto's rare packets: clocks, host, process tree, interned symbols, ring-buffer statistics.

use super::Decoder;
use super::packet::Context;
use crate::names::{NameId, NameTable};
use crate::perfetto::messages::{self as m, DashcamPacket, clock_id};
use crate::perfetto::wire::Fields;
use crate::sched::event::{ClockSnapshot, Item, ProcessFact, SystemFact, ThreadFact};
use crate::sched::state::StateLayout;
use prost::Message;
use rustc_hash::FxHashMap;

/// Kernel symbols kept; a kernel has some 200,000.
const MAX_SYMBOLS: usize = 1 << 20;

fn words(what: &'static str) -> impl Fn(prost::DecodeError) -> String {
    move |e| format!("{what}: {e}")
}

impl Decoder {
    pub(super) fn clock_snapshot(
        &mut self,
        bytes: &[u8],
        extension: Option<&DashcamPacket>,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), String> {
        let snapshot = m::ClockSnapshot::decode(bytes).map_err(words("clock snapshot"))?;
        let reading = |id: u32| {
            let clock = snapshot.clocks.iter().find(|c| c.clock_id == Some(id))?;
            let unit = clock.unit_multiplier_ns.filter(|&u| u > 0).unwrap_or(1);
            Some(clock.timestamp.unwrap_or(0).wrapping_mul(unit))
        };
        // Without the boot clock it ties nothing to our time.
        let Some(boot) = reading(clock_id::BOOTTIME) else { return Ok(()) };
        for clock in &snapshot.clocks {
            if let Some(id) = clock.clock_id
                && let Some(value) = reading(id)
            {
                self.clocks.note(id, value, boot);
            }
        }
        if let Some(zone) = extension.and_then(|x| x.zone_offset_minutes) {
            self.zone_offset_minutes = Some(zone);
        }
        sink(Item::Clock(ClockSnapshot {
            boot,
            mono: reading(clock_id::MONOTONIC).unwrap_or(0),
            real: reading(clock_id::REALTIME).unwrap_or(0),
            tai: extension.and_then(|x| x.tai).unwrap_or(0),
            zone_offset_minutes: self.zone_offset_minutes,
        }));
        Ok(())
    }

    pub(super) fn system_info(
        &mut self,
        bytes: &[u8],
        extension: Option<&DashcamPacket>,
        context: Context,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), String> {
        let info = m::SystemInfo::decode(bytes).map_err(words("system info"))?;
        let uts = info.utsname.unwrap_or_default();
        let mut name = |text: &Option<Vec<u8>>| names.intern(&context.name(text.as_deref().unwrap_or_default()));
        let (release, version, machine) = (name(&uts.release), name(&uts.version), name(&uts.machine));
        if info.timezone_off_mins.is_some() {
            self.zone_offset_minutes = info.timezone_off_mins;
        }
        if !release.is_empty() {
            self.layout = StateLayout::for_release(&String::from_utf8_lossy(names.bytes(release)));
        }
        let host = extension.and_then(|x| x.host.as_deref()).unwrap_or_default();
        let host = names.intern(host);
        let (cpus, ram) = (info.num_cpus.unwrap_or(0), info.system_ram_bytes.unwrap_or(0));
        sink(Item::System(SystemFact { host, release, version, machine, cpus, ram }));
        Ok(())
    }

    pub(super) fn process_tree(
        &mut self,
        bytes: &[u8],
        extension: Option<&DashcamPacket>,
        context: Context,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), String> {
        let tree = m::ProcessTree::decode(bytes).map_err(words("process tree"))?;
        // Ours may be stamped with the birth of the process; it says on its own when it was read.
        let ts = tree.collection_end_timestamp.filter(|_| extension.is_some()).unwrap_or(context.ts);
        let (processes, threads) = extension.map_or((&[][..], &[][..]), |x| (&x.processes[..], &x.threads[..]));
        let extra: FxHashMap<i32, &m::ProcessExtra> = processes.iter().map(|p| (p.pid, p)).collect();
        let starts: FxHashMap<i32, u64> = threads.iter().filter_map(|t| Some((t.tid, t.start?))).collect();
        for p in &tree.processes {
            let pid = p.pid.unwrap_or(0);
            let cmdline: Vec<NameId> = p.cmdline.iter().map(|arg| names.intern(&context.name(arg))).collect();
            let comm_only = p.cmdline_is_comm.unwrap_or(false);
            let (name, cgroup) = match extra.get(&pid) {
                Some(extra) => (names.intern(&extra.name), names.intern(&extra.cgroup)),
                None if comm_only => (cmdline.first().copied().unwrap_or_default(), NameId::EMPTY),
                None => (NameId::EMPTY, NameId::EMPTY),
            };
            sink(Item::Process(ProcessFact {
                pid,
                ppid: p.ppid,
                cmdline: if comm_only { Vec::new() } else { cmdline },
                name,
                uid: p.uid.map(|u| u as u32),
                cgroup,
                start: p.process_start_from_boot,
                kernel: p.is_kthread.unwrap_or(false),
                ts,
            }));
        }
        for t in &tree.threads {
            let tid = t.tid.unwrap_or(0);
            sink(Item::Thread(ThreadFact {
                tid,
                pid: t.tgid.unwrap_or(tid),
                name: names.intern(&context.comm(t.name.as_deref().unwrap_or_default())),
                start: starts.get(&tid).copied(),
                ts,
            }));
        }
        Ok(())
    }

    /// `InternedData.kernel_symbols` (26): id and text of functions that events refer to.
    pub(super) fn interned_data(
        &mut self,
        bytes: &[u8],
        context: Context,
        names: &mut NameTable,
    ) -> Result<(), String> {
        let words = |e: crate::perfetto::wire::Malformed| format!("interned data: {}", e.what);
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next().map_err(words)? {
            if field != 26 || self.symbols.len() >= MAX_SYMBOLS {
                continue;
            }
            let (mut id, mut text) = (0, &[][..]);
            let mut symbol = Fields::new(value.bytes());
            while let Some((field, value)) = symbol.next().map_err(words)? {
                match field {
                    1 => id = value.uint(),
                    2 => text = value.bytes(),
                    _ => {}
                }
            }
            self.symbols.insert((context.sequence, id), names.intern(&context.name(text)));
        }
        Ok(())
    }

    /// Counts of lost events become metadata: they speak of the whole recording, not of a place in it.
    pub(super) fn ftrace_stats(
        &mut self,
        bytes: &[u8],
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), String> {
        let stats = m::FtraceStats::decode(bytes).map_err(words("ftrace stats"))?;
        let phase = if stats.phase == Some(2) { "end" } else { "start" };
        for cpu in &stats.cpu_stats {
            let counts = [
                ("overrun", cpu.overrun),
                ("commit_overrun", cpu.commit_overrun),
                ("dropped_events", cpu.dropped_events),
            ];
            for (what, count) in counts {
                let Some(count) = count.filter(|&c| c > 0) else { continue };
                let key = format!("ftrace_stats.{phase}.cpu{}.{what}", cpu.cpu.unwrap_or(0));
                let key = names.intern(key.as_bytes());
                sink(Item::Metadata { key, value: names.intern(count.to_string().as_bytes()) });
            }
        }
        Ok(())
    }
}
