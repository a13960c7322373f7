//! One full `FtraceEvent`.

use super::Decoder;
use super::packet::Context;
use crate::names::{NameId, NameTable};
use crate::perfetto::event_table;
use crate::perfetto::wire::{Fields, Malformed, Value};
use crate::sched::event::{BlockRequest, BlockStage, Event, EventKind, Switch, Wake};
use std::borrow::Cow;

/// Fields 1 to 15 of an event's message; no event we look into has a needed field beyond.
struct Message<'a> {
    values: [Value<'a>; 16],
}

impl<'a> Message<'a> {
    fn of(bytes: &'a [u8], base: usize) -> Result<Self, Malformed> {
        let mut values = [Value::Uint(0); 16];
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next().map_err(|e| Malformed { at: base + e.at, ..e })? {
            if let Some(slot) = values.get_mut(field as usize) {
                *slot = value;
            }
        }
        Ok(Message { values })
    }

    fn u64(&self, field: usize) -> u64 {
        self.values[field].uint()
    }

    fn u32(&self, field: usize) -> u32 {
        self.u64(field) as u32
    }

    fn i32(&self, field: usize) -> i32 {
        self.u64(field) as i32
    }

    fn text(&self, field: usize) -> &'a [u8] {
        self.values[field].bytes()
    }
}

impl Decoder {
    /// Decodes one event; `None` when it says neither when nor what.
    pub(super) fn full_event(
        &self,
        bytes: &[u8],
        cpu: u32,
        context: Context,
        names: &mut NameTable,
    ) -> Result<Option<Event>, Malformed> {
        let (mut ts, mut pid, mut flags, mut what) = (None, None, 0, None);
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Uint(value)) => ts = Some(value),
                (2, Value::Uint(value)) => pid = Some(value as i32),
                (5, Value::Uint(value)) => flags = value as u8,
                (_, Value::Bytes(message, from)) if what.is_none() => what = Some((field, message, from)),
                _ => {}
            }
        }
        let (Some(ts), Some((field, message, from))) = (ts, what) else { return Ok(None) };
        let message = Message::of(message, from)?;
        let kind = self.kind(field, &message, context, names);
        Ok(Some(Event { ts, cpu, emitter: pid, flags, kind }))
    }

    /// What the message in field `field` of `FtraceEvent` says (numbers: see `event_table`).
    fn kind(&self, field: u32, m: &Message<'_>, context: Context, names: &mut NameTable) -> EventKind {
        let mut name = |text: Cow<'_, [u8]>| names.intern(&text);
        match field {
            3 => {
                let text = m.text(2);
                EventKind::Print { text: name(context.name(text.strip_suffix(b"\n").unwrap_or(text))) }
            }
            4 => EventKind::Switch(Switch {
                prev_tid: Some(m.i32(2)),
                prev_prio: Some(m.i32(3)),
                prev_state: self.layout.decode(m.u64(4) as i64),
                prev_state_raw: m.u64(4) as i64,
                next_tid: m.i32(6),
                next_prio: m.i32(7),
                next_comm: name(context.comm(m.text(5))),
            }),
            17 | 20 | 114 => {
                let wake =
                    Wake { tid: m.i32(2), prio: m.i32(3), comm: name(context.comm(m.text(1))), target_cpu: m.u32(5) };
                match field {
                    17 => EventKind::Wakeup(wake),
                    20 => EventKind::Waking(wake),
                    _ => EventKind::WakeupNew(wake),
                }
            }
            491 => EventKind::Migrate { tid: m.i32(2), from_cpu: m.u32(4), to_cpu: m.u32(5) },
            235 => EventKind::NewTask { tid: m.i32(1), comm: name(context.comm(m.text(2))), clone_flags: m.u64(3) },
            236 => EventKind::Rename { tid: m.i32(1), comm: name(context.comm(m.text(3))) },
            237 => EventKind::Exec { tid: m.i32(2), old_tid: m.i32(3), filename: name(context.name(m.text(1))) },
            238 => EventKind::Exit { tid: m.i32(2) },
            240 => EventKind::Free { tid: m.i32(2) },
            18 => {
                let function = self.symbols.get(&(context.sequence, m.u64(2))).copied().unwrap_or_default();
                EventKind::BlockedReason { tid: m.i32(1), io_wait: m.u64(3) != 0, function }
            }
            36 => EventKind::IrqEntry { irq: m.i32(1), name: name(context.name(m.text(2))) },
            37 => EventKind::IrqExit { irq: m.i32(1) },
            24 => EventKind::SoftirqEntry { vec: m.u32(1) },
            25 => EventKind::SoftirqExit { vec: m.u32(1) },
            11 => EventKind::Frequency { khz: m.u32(1), cpu: m.u32(2) },
            13 => EventKind::Idle { state: m.u32(1), cpu: m.u32(2) },
            126 => EventKind::Block(block(m, BlockStage::Insert, name(context.name(m.text(5))), 0)),
            45 => EventKind::Block(block(m, BlockStage::Issue, name(context.name(m.text(5))), 0)),
            // `errors` until 4.20, `error` (field 7) since.
            125 => EventKind::Block(block(m, BlockStage::Complete, name(context.name(m.text(5))), m.i32(7) | m.i32(4))),
            327 => EventKind::Other { name: name(context.name(m.text(1))) },
            _ => EventKind::Other { name: self.event_name(field, names) },
        }
    }

    fn event_name(&self, field: u32, names: &mut NameTable) -> NameId {
        if let Some(known) = event_table::by_field(field) {
            return names.intern(known.name.as_bytes());
        }
        match self.described.get(&field) {
            Some(name) => *name,
            None => names.intern(format!("ftrace_event_{field}").as_bytes()),
        }
    }

    /// Notes a `GenericEventDescriptor`: a field number, and a `DescriptorProto` whose name is the event's.
    pub(super) fn describe(&mut self, descriptor: &[u8], names: &mut NameTable) {
        let (mut id, mut proto) = (0, None);
        let mut fields = Fields::new(descriptor);
        while let Ok(Some((field, value))) = fields.next() {
            match field {
                1 => id = value.uint() as u32,
                2 => proto = Some(value.bytes()),
                _ => {}
            }
        }
        let mut fields = Fields::new(proto.unwrap_or_default());
        while let Ok(Some((field, value))) = fields.next() {
            if field == 1 && self.described.len() < 65_536 {
                self.described.insert(id, names.intern(value.bytes()));
            }
        }
    }
}

fn block(m: &Message<'_>, stage: BlockStage, rwbs: NameId, error: i32) -> BlockRequest {
    BlockRequest { stage, dev: kernel_device(m.u64(1)), sector: m.u64(2), sectors: m.u32(3), rwbs, error }
}

/// The kernel's form (major << 20 | minor) of the user-space device number that Perfetto's messages hold.
fn kernel_device(dev: u64) -> u64 {
    let major = dev >> 8 & 0xfff | dev >> 32 & 0xffff_f000;
    let minor = dev & 0xff | dev >> 12 & 0xfff00;
    major << 20 | minor
}
