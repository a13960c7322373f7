//! One `TracePacket`: what stands in it, and in which order it is told.

use super::Decoder;
use crate::names::NameTable;
use crate::perfetto::messages::DashcamPacket;
use crate::perfetto::wire::{Fields, Malformed, Value};
use crate::perfetto::{escape, sys_stats};
use crate::sched::event::Item;
use prost::Message;
use std::borrow::Cow;
use std::io::Read;

/// Compressed packets within compressed packets: deeper than this is hostile.
const MAX_DEPTH: u32 = 3;
/// Bytes that one compressed packet may become. Perfetto compresses batches of some hundred KiB.
const MAX_INFLATED: u64 = 64 << 20;

/// The parts of a packet that mean something to us.
#[derive(Default)]
struct Parts<'a> {
    bundle: Option<&'a [u8]>,
    process_tree: Option<&'a [u8]>,
    clock_snapshot: Option<&'a [u8]>,
    system_info: Option<&'a [u8]>,
    ftrace_stats: Option<&'a [u8]>,
    sys_stats: Option<&'a [u8]>,
    interned_data: Option<&'a [u8]>,
    dashcam: Option<&'a [u8]>,
    zlib: Option<&'a [u8]>,
    zstd: Option<&'a [u8]>,
    timestamp: Option<u64>,
    clock_id: u32,
    sequence: u32,
    flags: u64,
    incremental_state_cleared: bool,
    packets_dropped: bool,
    first_on_sequence: bool,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut parts = Parts::default();
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next()? {
            let slot = match field {
                1 => &mut parts.bundle,
                2 => &mut parts.process_tree,
                6 => &mut parts.clock_snapshot,
                7 => &mut parts.sys_stats,
                12 => &mut parts.interned_data,
                34 => &mut parts.ftrace_stats,
                45 => &mut parts.system_info,
                50 => &mut parts.zlib,
                133 => &mut parts.zstd,
                1500 => &mut parts.dashcam,
                _ => {
                    parts.number(field, value.uint());
                    continue;
                }
            };
            if let Value::Bytes(bytes, _) = value {
                *slot = Some(bytes);
            }
        }
        Ok(parts)
    }

    fn number(&mut self, field: u32, value: u64) {
        match field {
            8 => self.timestamp = Some(value),
            10 => self.sequence = value as u32,
            13 => self.flags = value,
            41 => self.incremental_state_cleared = value != 0,
            42 => self.packets_dropped = value != 0,
            58 => self.clock_id = value as u32,
            87 => self.first_on_sequence = value != 0,
            _ => {}
        }
    }
}

/// What a packet's parts need to know of the packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// Where the packet stands in the trace, for messages.
    pub offset: u64,
    pub sequence: u32,
    /// Its timestamp on the boot clock; 0 = none.
    pub ts: u64,
    /// Its strings are escaped.
    pub escaped: bool,
}

/// More than any kernel's; the rest of a longer one is not kept.
const MAX_COMM: usize = 128;

impl Context {
    /// The bytes of a name in one of the packet's strings.
    pub(super) fn name<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if self.escaped { escape::unescape(text) } else { Cow::Borrowed(text) }
    }

    /// The same of a thread's name, which stands in every line about it: the kernel's have 15 bytes (TASK_COMM_LEN of
    /// include/linux/sched.h), each at most four escaped.
    pub(super) fn comm<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.name(&text[..text.len().min(MAX_COMM)])
    }
}

impl Decoder {
    /// Decodes one packet; what is wrong inside becomes [`Item::Damage`].
    pub(super) fn packet(
        &mut self,
        bytes: &[u8],
        offset: u64,
        depth: u32,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) {
        let parts = match Parts::of(bytes) {
            Ok(parts) => parts,
            Err(e) => return self.damage(offset, None, &format!("{} (byte {} of it)", e.what, e.at), names, sink),
        };
        let extension = match parts.dashcam.map(DashcamPacket::decode) {
            Some(Ok(extension)) => Some(extension),
            Some(Err(e)) => {
                self.damage(offset, None, &format!("dashcam's extension: {e}"), names, sink);
                None
            }
            None => None,
        };
        let ts = parts.timestamp.map_or(0, |ts| self.clocks.to_boot(parts.clock_id, ts).unwrap_or(ts));
        let escaped = extension.as_ref().is_some_and(|x| x.escaped_names);
        let context = Context { offset, sequence: parts.sequence, ts, escaped };
        if parts.flags & 1 != 0 || parts.incremental_state_cleared {
            self.symbols.retain(|(sequence, _), _| *sequence != parts.sequence);
        }
        // Perfetto's buffers dropped packets of this sequence: which CPUs' bundles were among them it does not say.
        if parts.packets_dropped && !parts.first_on_sequence {
            let of_sequence = |m: &&mut super::CpuMemory| m.sequence == parts.sequence;
            self.cpus.values_mut().filter(of_sequence).for_each(|m| m.lost = true);
        }
        let told = self.parts(&parts, extension.as_ref(), context, names, sink);
        if let Err(e) = told {
            self.damage(offset, None, &e, names, sink);
        }
        for (inflated, what) in [(parts.zlib.map(inflate), "zlib"), (parts.zstd.map(unzstd), "zstd")] {
            match inflated {
                Some(Ok(packets)) => self.nested(&packets, offset, depth, names, sink),
                Some(Err(e)) => self.damage(offset, None, &format!("compressed packets ({what}): {e}"), names, sink),
                None => {}
            }
        }
    }

    /// Facts first, then losses, then events, then what speaks of the events before.
    fn parts(
        &mut self,
        parts: &Parts<'_>,
        extension: Option<&DashcamPacket>,
        context: Context,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), String> {
        if let Some(bytes) = parts.interned_data {
            self.interned_data(bytes, context, names)?;
        }
        if let Some(bytes) = parts.clock_snapshot {
            self.clock_snapshot(bytes, extension, sink)?;
        }
        if let Some(bytes) = parts.system_info {
            self.system_info(bytes, extension, context, names, sink)?;
        }
        if let Some(bytes) = parts.process_tree {
            self.process_tree(bytes, extension, context, names, sink)?;
        }
        if let Some(bytes) = parts.ftrace_stats {
            self.ftrace_stats(bytes, names, sink)?;
        }
        if let Some(bytes) = parts.sys_stats {
            let counter = |name: &str, value| {
                let name = names.intern(name.as_bytes());
                sink(Item::Counter { ts: context.ts, name, cpu: None, value });
            };
            sys_stats::read(bytes, counter).map_err(|e| format!("system statistics: {}", e.what))?;
        }
        if let Some(extension) = extension {
            self.losses(extension, sink);
        }
        let broken = match parts.bundle {
            Some(bytes) => self.bundle(bytes, extension, context, names, sink),
            None => Ok(()),
        };
        if let Some(extension) = extension {
            self.extension(extension, names, sink);
        }
        broken.map_err(|e| format!("ftrace bundle: {} (byte {} of it)", e.what, e.at))
    }

    fn nested(&mut self, packets: &[u8], offset: u64, depth: u32, names: &mut NameTable, sink: &mut impl FnMut(Item)) {
        if depth >= MAX_DEPTH {
            return self.damage(offset, None, "compressed packets nested too deep", names, sink);
        }
        let mut at = 0;
        while at < packets.len() {
            match super::next_packet(packets, at) {
                Ok(super::Frame::Packet { from, end }) => {
                    self.packet(&packets[from..end], offset, depth + 1, names, sink);
                    at = end;
                }
                Ok(super::Frame::Partial) => {
                    return self.damage(offset, None, "its compressed packets are cut short", names, sink);
                }
                Err(what) => return self.damage(offset, None, what, names, sink),
            }
        }
    }
}

fn inflate(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    read_limited(flate2::read::ZlibDecoder::new(bytes))
}

fn unzstd(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    read_limited(zstd::stream::read::Decoder::with_buffer(bytes)?)
}

fn read_limited(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    reader.take(MAX_INFLATED + 1).read_to_end(&mut out)?;
    if out.len() as u64 > MAX_INFLATED {
        return Err(std::io::Error::other("they become more than 64 MiB"));
    }
    Ok(out)
}
