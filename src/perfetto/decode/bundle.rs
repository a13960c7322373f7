//! One `FtraceEventBundle`: compact rows and full events of one CPU, merged by time.

use super::compact::{Compact, SwitchRow, Switches, WakingRow, Wakings};
use super::packet::Context;
use super::{CpuMemory, Decoder};
use crate::names::{NameId, NameTable};
use crate::perfetto::messages::{DashcamPacket, clock_id};
use crate::perfetto::wire::{Fields, Malformed, Value};
use crate::sched::event::{Event, EventKind, Item, Loss, Switch, Wake};
use crate::sched::order::MAX_CPUS;
use crate::sched::state::StateLayout;

/// Memory reused from bundle to bundle.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    table: Vec<NameId>,
    full: Vec<Event>,
}

/// The parts of a bundle.
struct Parts<'a> {
    cpu: u32,
    lost: bool,
    clock: u64,
    ftrace_ts: Option<u64>,
    boot_ts: Option<u64>,
    compact: Compact<'a>,
    errors: u32,
}

impl Decoder {
    /// Decodes a bundle. What stands before something malformed is delivered.
    pub(super) fn bundle(
        &mut self,
        bytes: &[u8],
        extension: Option<&DashcamPacket>,
        context: Context,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), Malformed> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.table.clear();
        scratch.full.clear();
        let result = self.bundle_with(&mut scratch, bytes, extension, context, names, sink);
        self.scratch = scratch;
        result
    }

    fn bundle_with(
        &mut self,
        scratch: &mut Scratch,
        bytes: &[u8],
        extension: Option<&DashcamPacket>,
        context: Context,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), Malformed> {
        let mut parts = Parts {
            cpu: u32::MAX,
            lost: false,
            clock: 0,
            ftrace_ts: None,
            boot_ts: None,
            compact: Compact::default(),
            errors: 0,
        };
        // A malformed part must not take the whole parts before it along.
        let parsed = self.bundle_parts(&mut parts, scratch, bytes, context, names);
        if parts.cpu >= MAX_CPUS {
            parsed?;
            return Err(Malformed { at: 0, what: "no CPU number, or an impossible one" });
        }
        if parts.errors > 0 {
            let what = format!("its producer could not read {} ring-buffer records", parts.errors);
            self.damage(context.offset, Some(parts.cpu), &what, names, sink);
        }
        let offset = self.clock_offset(&parts);
        if offset.is_none() {
            let what = format!("ftrace clock {} cannot be converted to the boot clock", parts.clock);
            self.damage(context.offset, Some(parts.cpu), &what, names, sink);
        }
        let told_loss = extension.is_some_and(|x| x.losses.iter().any(|l| l.cpu == parts.cpu));
        let stand_ins = extension.map_or(&[][..], |x| &x.stand_ins);
        if scratch.full.windows(2).any(|w| w[0].ts > w[1].ts) {
            scratch.full.sort_by_key(|e| e.ts);
        }
        let memory = self.cpus.entry(parts.cpu).or_default();
        memory.sequence = context.sequence;
        let packets_lost = std::mem::take(&mut memory.lost);
        let merge = Merge {
            cpu: parts.cpu,
            offset: offset.unwrap_or(0),
            layout: self.layout,
            table: &scratch.table,
            full: &scratch.full,
            lost: (parts.lost && !told_loss) || packets_lost,
        };
        let merged = merge.run(&parts.compact, stand_ins, memory, sink);
        let read = parsed.and(merged);
        // How many events were in the rest nobody knows: told as a loss in front of the next ones.
        memory.lost |= read.is_err();
        read
    }

    fn bundle_parts<'a>(
        &mut self,
        parts: &mut Parts<'a>,
        scratch: &mut Scratch,
        bytes: &'a [u8],
        context: Context,
        names: &mut NameTable,
    ) -> Result<(), Malformed> {
        let at = |base: usize| move |e: Malformed| Malformed { at: base + e.at, ..e };
        let mut events = Vec::new();
        let mut fields = Fields::new(bytes);
        let mut result = Ok(());
        loop {
            match fields.next() {
                Ok(None) => break,
                Ok(Some((1, value))) => parts.cpu = value.uint().min(u64::from(u32::MAX)) as u32,
                Ok(Some((2, Value::Bytes(event, from)))) => events.push((event, from)),
                Ok(Some((3, value))) => parts.lost |= value.uint() != 0,
                Ok(Some((4, Value::Bytes(compact, from)))) => {
                    result = parts.compact.add(compact, context, names, &mut scratch.table).map_err(at(from));
                    if result.is_err() {
                        break;
                    }
                }
                Ok(Some((5, value))) => parts.clock = value.uint(),
                Ok(Some((6, value))) => parts.ftrace_ts = Some(value.uint()),
                Ok(Some((7, value))) => parts.boot_ts = Some(value.uint()),
                Ok(Some((8, _))) => parts.errors += 1,
                Ok(Some((11, Value::Bytes(descriptor, _)))) => self.describe(descriptor, names),
                Ok(Some(_)) => {}
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        // After the loop, since descriptors of generic events follow the events.
        for (event, from) in events {
            match self.full_event(event, parts.cpu, context, names) {
                Ok(Some(event)) => scratch.full.push(event),
                Ok(None) => {}
                Err(e) => return Err(at(from)(e)),
            }
        }
        result
    }

    /// What to add to the bundle's timestamps to get boot time (`FtraceClock`: 2 global, 3 local, 4 monotonic raw).
    fn clock_offset(&self, parts: &Parts<'_>) -> Option<u64> {
        match (parts.clock, parts.ftrace_ts, parts.boot_ts) {
            (0, ..) => Some(0),
            (_, Some(ftrace), Some(boot)) => Some(boot.wrapping_sub(ftrace)),
            (4, ..) => self.clocks.offset(clock_id::MONOTONIC_RAW, u64::MAX),
            _ => None,
        }
    }
}

impl CpuMemory {
    /// A thread is seen to run whose coming was not traced.
    fn seen(&mut self, row: SwitchRow) {
        (self.running, self.seen_prio) = (Some(row.next_pid), Some(row.next_prio));
    }

    /// Who runs is not known any more.
    pub(super) fn forget(&mut self) {
        (self.running, self.seen_prio) = (None, None);
    }
}

/// Merges the three streams of a bundle by time.
struct Merge<'a> {
    cpu: u32,
    offset: u64,
    layout: StateLayout,
    table: &'a [NameId],
    full: &'a [Event],
    lost: bool,
}

impl Merge<'_> {
    fn run(
        mut self,
        compact: &Compact<'_>,
        stand_ins: &[u32],
        memory: &mut CpuMemory,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), Malformed> {
        let mut switches: Switches<'_> = compact.switches(stand_ins);
        let mut wakings: Wakings<'_> = compact.wakings();
        let mut full = self.full.iter();
        let mut result = Ok(());
        let mut keep = |row: Result<Option<SwitchRow>, Malformed>| row.map_err(|e| result = Err(e)).unwrap_or(None);
        let mut next_switch = keep(switches.next());
        let mut waking_result = Ok(());
        let mut keep_waking =
            |row: Result<Option<WakingRow>, Malformed>| row.map_err(|e| waking_result = Err(e)).unwrap_or(None);
        let mut next_waking = keep_waking(wakings.next());
        let mut next_full = full.next();
        loop {
            let switch_ts = next_switch.map_or(u64::MAX, |r| r.ts);
            let waking_ts = next_waking.map_or(u64::MAX, |r| r.ts);
            let full_ts = next_full.map_or(u64::MAX, |e| e.ts);
            // At one instant: who is seen to run, wake-ups, then the switch they may cause, then what speaks of it.
            if let Some(row) = next_switch
                && row.stands_in
                && switch_ts <= waking_ts
                && switch_ts <= full_ts
            {
                memory.seen(row);
                next_switch = keep(switches.next());
            } else if let Some(row) = next_waking
                && waking_ts <= switch_ts
                && waking_ts <= full_ts
            {
                self.emit(self.waking(row, memory), memory, sink);
                next_waking = keep_waking(wakings.next());
            } else if let Some(row) = next_switch
                && switch_ts <= full_ts
            {
                self.emit(self.switch(row, memory), memory, sink);
                next_switch = keep(switches.next());
            } else if let Some(event) = next_full {
                self.emit(*event, memory, sink);
                next_full = full.next();
            } else {
                break;
            }
        }
        if self.lost {
            // No event tells where the loss ends.
            self.tell_loss(memory.last_ts, memory, sink);
        }
        result.and(waking_result)
    }

    fn name(&self, index: u32) -> NameId {
        self.table.get(index as usize).copied().unwrap_or_default()
    }

    fn switch(&self, row: SwitchRow, memory: &CpuMemory) -> Event {
        let running = if self.lost { None } else { memory.running };
        Event {
            ts: row.ts,
            cpu: self.cpu,
            emitter: running,
            flags: 0,
            kind: EventKind::Switch(Switch {
                prev_tid: running,
                prev_prio: memory.seen_prio.filter(|_| !self.lost),
                prev_state: self.layout.decode(row.prev_state),
                prev_state_raw: row.prev_state,
                next_tid: row.next_pid,
                next_prio: row.next_prio,
                next_comm: self.name(row.comm),
            }),
        }
    }

    fn waking(&self, row: WakingRow, memory: &CpuMemory) -> Event {
        let kind = EventKind::Waking(Wake {
            tid: row.pid,
            prio: row.prio,
            comm: self.name(row.comm),
            target_cpu: row.target_cpu as u32,
        });
        // Nobody else says that the thread runs which was seen to.
        let emitter = memory.running.filter(|_| memory.seen_prio.is_some() && !self.lost);
        Event { ts: row.ts, cpu: self.cpu, emitter, flags: row.flags, kind }
    }

    #[inline]
    fn emit(&mut self, mut event: Event, memory: &mut CpuMemory, sink: &mut impl FnMut(Item)) {
        event.ts = event.ts.wrapping_add(self.offset);
        if self.lost {
            self.tell_loss(event.ts, memory, sink);
        }
        if let EventKind::Switch(switch) = event.kind {
            memory.running = Some(switch.next_tid);
            memory.seen_prio = None;
        }
        memory.last_ts = event.ts;
        sink(Item::Event(event));
    }

    #[cold]
    fn tell_loss(&mut self, to: u64, memory: &mut CpuMemory, sink: &mut impl FnMut(Item)) {
        self.lost = false;
        memory.forget();
        sink(Item::Loss(Loss { cpu: self.cpu, from: memory.last_ts.min(to), to, count: None }));
    }
}
