//! One CPU's events as one `FtraceEventBundle`: scheduling events in Perfetto's compact columns, the rest in full.

use super::columns::Columns;
use super::event::EventEncoder;
use crate::perfetto::wire::{self, put_bytes, put_key, put_uint, put_varint};
use crate::perfetto::{SEQUENCE_ID, escape};
use crate::sched::event::Loss;
use std::hash::Hasher;

/// Field numbers of `FtraceEventBundle.CompactSched`: the columns of [`BundleBuilder::switch`] and
/// [`BundleBuilder::waking`], in the order of their rows.
const SWITCH_FIELDS: [u32; 5] = [1, 2, 3, 4, 6];
const WAKING_FIELDS: [u32; 6] = [7, 8, 9, 10, 11, 12];

/// `TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`: this packet's interned data does not build on earlier ones.
const SEQ_INCREMENTAL_STATE_CLEARED: u64 = 1;

/// Collects events of one CPU, in time order, and writes them as one packet.
///
/// All memory is reused from bundle to bundle. How many events make a bundle is the caller's choice: columns compress
/// better the longer they are, and every name that occurs is written once a bundle.
///
/// Names are the kernel's 16 bytes; what follows the first NUL is not part of them.
#[derive(Debug, Default)]
pub struct BundleBuilder {
    switches: Columns<5>,
    wakings: Columns<6>,
    /// Rows of `switches` that the kernel did not trace, each as varint: how many rows behind the last one (the first: of
    /// all) it is; with it, the row behind the last one.
    stand_ins: Vec<u8>,
    since_stand_in: u32,
    /// Timestamps in a column are differences to the one before, the first to 0.
    last_switch: u64,
    last_waking: u64,
    names: Names,
    /// Encoded `event` fields of the bundle.
    events: Vec<u8>,
    /// Encoded `InternedData.kernel_symbols` fields, and how many.
    symbols: Vec<u8>,
    symbol_names: Vec<Box<[u8]>>,
    scratch: Vec<u8>,
    escaped: bool,
    count: u32,
    first_ts: u64,
    last_ts: u64,
}

/// All that sched_switch says. Written instead of the compact form where a reader cannot know who left: first on a
/// CPU in a segment, and after a loss.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the kernel's event")]
pub struct FullSwitch<'a> {
    pub prev_comm: &'a [u8],
    pub prev_pid: i32,
    pub prev_prio: i32,
    pub prev_state: i64,
    pub next_comm: &'a [u8],
    pub next_pid: i32,
    pub next_prio: i32,
}

/// What a sched_waking in full says.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the kernel's event")]
pub struct FullWaking<'a> {
    pub comm: &'a [u8],
    pub pid: i32,
    pub prio: i32,
    pub target_cpu: i32,
}

impl BundleBuilder {
    /// An empty bundle.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of events in it.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True when nothing was added since the last [`BundleBuilder::finish`].
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About how many bytes [`BundleBuilder::finish`] would write.
    pub fn encoded_len(&self) -> usize {
        let columns = self.switches.about() + self.wakings.about() + self.stand_ins.len();
        columns + self.names.text.len() + self.events.len() + self.symbols.len() + 16
    }

    /// First and last timestamp added, ns; `None` when empty.
    pub fn time_range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.first_ts, self.last_ts))
    }

    #[inline]
    fn seen(&mut self, ts: u64) {
        if self.count == 0 {
            self.first_ts = ts;
        }
        self.last_ts = ts;
        self.count += 1;
    }

    /// Adds a sched_switch in the compact form. `prev_state` is raw, as the kernel wrote it.
    #[inline]
    pub fn switch(&mut self, ts: u64, prev_state: i64, next_pid: i32, next_prio: i32, next_comm: &[u8; 16]) {
        self.switch_row(ts, prev_state, next_pid, next_prio, next_comm);
        self.seen(ts);
    }

    #[inline]
    fn switch_row(&mut self, ts: u64, prev_state: i64, next_pid: i32, next_prio: i32, next_comm: &[u8; 16]) {
        let name = self.names.index(next_comm);
        let since = ts.wrapping_sub(std::mem::replace(&mut self.last_switch, ts));
        let (pid, prio) = (i64::from(next_pid) as u64, i64::from(next_prio) as u64);
        self.switches.push([since, prev_state as u64, pid, prio, u64::from(name)]);
        self.since_stand_in += 1;
    }

    /// Adds what stands for a switch that the kernel made and did not trace: from idle to `next_pid`, which is seen to run
    /// at `ts`, when the next event is written. It is no event: dashcam reads no more from it than that the next
    /// event's thread is this one. For other tools it is a sched_switch, since they know who runs from switches alone.
    pub fn stand_in(&mut self, ts: u64, next_pid: i32, next_prio: i32, next_comm: &[u8; 16]) {
        put_varint(&mut self.stand_ins, u64::from(std::mem::take(&mut self.since_stand_in)));
        // The idle thread always leaves ready to run (state 0).
        self.switch_row(ts, 0, next_pid, next_prio, next_comm);
    }

    /// Adds a sched_waking in the compact form. It does not say who woke: that is whoever runs on the bundle's CPU.
    #[inline]
    pub fn waking(&mut self, ts: u64, pid: i32, target_cpu: i32, prio: i32, comm: &[u8; 16], common_flags: u8) {
        let name = self.names.index(comm);
        let since = ts.wrapping_sub(std::mem::replace(&mut self.last_waking, ts));
        let (pid, prio) = (i64::from(pid) as u64, i64::from(prio) as u64);
        let (cpu, flags) = (i64::from(target_cpu) as u64, u64::from(common_flags));
        self.wakings.push([since, pid, cpu, prio, u64::from(name), flags]);
        self.seen(ts);
    }

    /// Adds a sched_switch with everything in it.
    pub fn full_switch(&mut self, ts: u64, common_flags: u8, switch: &FullSwitch<'_>) {
        self.message(ts, switch.prev_pid, common_flags, 4, |out| {
            let escaped = put_name(out, 1, switch.prev_comm);
            put_uint(out, 2, i64::from(switch.prev_pid) as u64);
            put_uint(out, 3, i64::from(switch.prev_prio) as u64);
            put_uint(out, 4, switch.prev_state as u64);
            let escaped = put_name(out, 5, switch.next_comm) | escaped;
            put_uint(out, 6, i64::from(switch.next_pid) as u64);
            put_uint(out, 7, i64::from(switch.next_prio) as u64);
            escaped
        });
    }

    /// Adds a sched_waking that says who woke: `by`, whoever else is thought to run there.
    pub fn full_waking(&mut self, ts: u64, by: i32, common_flags: u8, waking: &FullWaking<'_>) {
        self.message(ts, by, common_flags, 20, |out| {
            let escaped = put_name(out, 1, waking.comm);
            put_uint(out, 2, i64::from(waking.pid) as u64);
            put_uint(out, 3, i64::from(waking.prio) as u64);
            put_uint(out, 5, i64::from(waking.target_cpu) as u64);
            escaped
        });
    }

    /// Adds a sched_blocked_reason: thread `pid`, just switched out, blocked in kernel function `function`
    /// (empty = not known). `emitter` is the thread it is booked on, the one that left the CPU.
    ///
    /// The function's name goes into this packet's own interned symbols, where Perfetto looks for it.
    pub fn blocked_reason(&mut self, ts: u64, emitter: i32, pid: i32, io_wait: bool, function: &[u8]) {
        let symbol = self.symbol(function);
        self.message(ts, emitter, 0, 18, |out| {
            put_uint(out, 1, i64::from(pid) as u64);
            if symbol != 0 {
                put_uint(out, 2, symbol);
            }
            put_uint(out, 3, u64::from(io_wait));
            false
        });
    }

    /// Adds an ftrace/print, as `trace_marker` writes them; a newline at the end is customary.
    pub fn print(&mut self, ts: u64, emitter: i32, common_flags: u8, text: &[u8]) {
        self.message(ts, emitter, common_flags, 3, |out| put_name(out, 2, text));
    }

    /// Adds any other event: `record` is the event's bytes in the ring buffer, common fields included.
    pub fn event(&mut self, ts: u64, emitter: i32, common_flags: u8, encoder: &EventEncoder, record: &[u8]) {
        self.message(ts, emitter, common_flags, encoder.field(), |out| encoder.encode(record, out));
    }

    /// Adds one `FtraceEvent` whose message in `field` is what `write` appends; it returns whether it escaped a name.
    ///
    /// Timestamp, pid, then the message: trace_processor has a fast path for just that order.
    fn message(&mut self, ts: u64, pid: i32, flags: u8, field: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        self.escaped |= write(&mut body);
        let pid = i64::from(pid) as u64;
        let mut len = 1 + wire::varint_len(ts) + 1 + wire::varint_len(pid) + wire::bytes_field_len(field, body.len());
        if flags != 0 {
            len += 1 + wire::varint_len(u64::from(flags));
        }
        let out = &mut self.events;
        put_key(out, 2, wire::BYTES);
        put_varint(out, len as u64);
        put_uint(out, 1, ts);
        put_uint(out, 2, pid);
        put_bytes(out, field, &body);
        if flags != 0 {
            put_uint(out, 5, u64::from(flags));
        }
        self.scratch = body;
        self.seen(ts);
    }

    /// Id of a kernel symbol in this bundle; 0 for none. There are few distinct ones, so a list is enough.
    fn symbol(&mut self, name: &[u8]) -> u64 {
        if name.is_empty() {
            return 0;
        }
        if let Some(at) = self.symbol_names.iter().position(|s| **s == *name) {
            return at as u64 + 1;
        }
        self.symbol_names.push(name.into());
        let id = self.symbol_names.len() as u64;
        let (text, escaped) = escape::escape(name);
        self.escaped |= escaped;
        put_key(&mut self.symbols, 26, wire::BYTES);
        put_varint(&mut self.symbols, (1 + wire::varint_len(id) + wire::bytes_field_len(2, text.len())) as u64);
        put_uint(&mut self.symbols, 1, id);
        put_bytes(&mut self.symbols, 2, &text);
        id
    }

    /// Writes the bundle as one packet and empties it. `lost`: events are missing on this CPU before the bundle.
    ///
    /// Writes nothing when there is neither an event nor a loss.
    pub fn finish(&mut self, cpu: u32, lost: Option<Loss>, out: &mut Vec<u8>) {
        if self.is_empty() && lost.is_none() {
            return;
        }
        let escaped = self.escaped || self.names.escaped;
        let extension = super::packets::bundle_extension(escaped, lost, &self.stand_ins);
        let compact = self.compact_len();
        let mut bundle = 1 + wire::varint_len(u64::from(cpu)) + self.events.len();
        bundle += if lost.is_some() { 2 } else { 0 };
        bundle += if compact > 0 { wire::bytes_field_len(4, compact) } else { 0 };
        let mut packet = wire::bytes_field_len(1, bundle) + 1 + wire::varint_len(u64::from(SEQUENCE_ID));
        if !self.symbols.is_empty() {
            packet += wire::bytes_field_len(12, self.symbols.len()) + 2;
        }
        if !extension.is_empty() {
            packet += wire::bytes_field_len(1500, extension.len());
        }

        put_key(out, 1, wire::BYTES);
        put_varint(out, packet as u64);
        let start = out.len();
        put_key(out, 1, wire::BYTES);
        put_varint(out, bundle as u64);
        put_uint(out, 1, u64::from(cpu));
        out.extend_from_slice(&self.events);
        if lost.is_some() {
            put_uint(out, 3, 1);
        }
        if compact > 0 {
            self.write_compact(compact, out);
        }
        put_uint(out, 10, u64::from(SEQUENCE_ID));
        if !self.symbols.is_empty() {
            put_bytes(out, 12, &self.symbols);
            put_uint(out, 13, SEQ_INCREMENTAL_STATE_CLEARED);
        }
        if !extension.is_empty() {
            put_bytes(out, 1500, &extension);
        }
        debug_assert_eq!(out.len() - start, packet);
        self.clear();
    }

    fn compact_len(&mut self) -> usize {
        let (switches, wakings) = (self.switches.encoded(), self.wakings.encoded());
        let columns = columns(switches, wakings).map(|(field, column)| wire::bytes_field_len(field, column.len()));
        columns.sum::<usize>() + self.names.text.len()
    }

    fn write_compact(&mut self, len: usize, out: &mut Vec<u8>) {
        put_key(out, 4, wire::BYTES);
        put_varint(out, len as u64);
        out.extend_from_slice(&self.names.text);
        let (switches, wakings) = (self.switches.encoded(), self.wakings.encoded());
        columns(switches, wakings).for_each(|(field, column)| put_bytes(out, field, column));
    }

    fn clear(&mut self) {
        self.switches.clear();
        self.wakings.clear();
        self.stand_ins.clear();
        self.since_stand_in = 0;
        self.names.clear();
        self.events.clear();
        self.symbols.clear();
        self.symbol_names.clear();
        (self.last_switch, self.last_waking) = (0, 0);
        (self.count, self.escaped) = (0, false);
    }
}

/// Those columns that hold anything, each with its field's number.
fn columns<'c>(switches: &'c [Vec<u8>; 5], wakings: &'c [Vec<u8>; 6]) -> impl Iterator<Item = (u32, &'c Vec<u8>)> {
    let switches = SWITCH_FIELDS.into_iter().zip(switches);
    switches.chain(WAKING_FIELDS.into_iter().zip(wakings)).filter(|(_, column)| !column.is_empty())
}

/// Appends a name as a string field, cut at the first NUL; true when it had to be escaped.
#[inline]
pub(super) fn put_name(out: &mut Vec<u8>, field: u32, name: &[u8]) -> bool {
    if let Ok(comm) = <&[u8; 16]>::try_from(name)
        && let Some(len) = plain_len(comm)
    {
        put_bytes(out, field, &comm[..len]);
        return false;
    }
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let (text, escaped) = escape::escape(&name[..end]);
    put_bytes(out, field, &text);
    escaped
}

/// Length up to the first NUL of a kernel's `comm` that is ASCII without a backslash, as nearly all are: all sixteen bytes
/// looked at together. `None`: another name.
#[inline]
fn plain_len(comm: &[u8; 16]) -> Option<usize> {
    const ONES: u128 = u128::MAX / 0xff;
    const HIGHS: u128 = ONES << 7;
    // Marks every zero byte, and sometimes a byte above one: the lowest mark is always right.
    let zeros = |word: u128| word.wrapping_sub(ONES) & !word & HIGHS;
    let word = u128::from_le_bytes(*comm);
    let len = zeros(word).trailing_zeros() as usize / 8;
    let name = if len < 16 { (1 << (8 * len)) - 1 } else { u128::MAX };
    let special = (word & HIGHS) | zeros(word ^ (ONES * u128::from(b'\\')));
    (special & name == 0).then_some(len)
}

/// The bundle's name table: an open-addressing hash of 16-byte names, and the encoded `intern_table` fields.
#[derive(Debug, Default)]
struct Names {
    /// Index + 1 into `known`; 0 = free. A power of two, at most half full.
    slots: Vec<u16>,
    known: Vec<[u8; 16]>,
    text: Vec<u8>,
    escaped: bool,
    /// A CPU mostly meets the name it just met, or the one before: a thread and idle, or two threads that take turns.
    last: u16,
    before: u16,
}

impl Names {
    #[inline]
    fn index(&mut self, name: &[u8; 16]) -> u16 {
        if self.known.get(usize::from(self.last)) == Some(name) {
            return self.last;
        }
        if self.known.get(usize::from(self.before)) == Some(name) {
            std::mem::swap(&mut self.last, &mut self.before);
            return self.last;
        }
        self.find(name)
    }

    fn find(&mut self, name: &[u8; 16]) -> u16 {
        self.before = self.last;
        if self.known.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash(name) & mask;
        loop {
            match self.slots[at] {
                0 => return self.add(at, name),
                slot if self.known[slot as usize - 1] == *name => {
                    self.last = slot - 1;
                    return self.last;
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Names differ in all 16 bytes here; bytes after the NUL only make an extra entry with the same text.
    fn add(&mut self, at: usize, name: &[u8; 16]) -> u16 {
        let index = self.known.len();
        if index >= usize::from(u16::MAX) - 1 {
            // Never reached by a bundle of sane size: further names share the last entry.
            return self.last;
        }
        self.slots[at] = index as u16 + 1;
        self.known.push(*name);
        self.escaped |= put_name(&mut self.text, 5, name);
        self.last = index as u16;
        self.last
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(256);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (i, name) in self.known.iter().enumerate() {
            let mut at = hash(name) & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = i as u16 + 1;
        }
    }

    fn clear(&mut self) {
        self.slots.fill(0);
        self.known.clear();
        self.text.clear();
        (self.escaped, self.last, self.before) = (false, 0, 0);
    }
}

#[inline]
fn hash(name: &[u8; 16]) -> usize {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_u128(u128::from_le_bytes(*name));
    hasher.finish() as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The quick way and the thorough one write the same.
        #[test]
        fn a_name_of_sixteen_bytes_is_written_as_any_other(
            name in prop::array::uniform16(prop_oneof![8 => b'a'..=b'z', 1 => Just(0u8), 1 => Just(b'\\'), 1 => any::<u8>()]),
        ) {
            let (mut quick, mut thorough) = (Vec::new(), Vec::new());
            let end = name.iter().position(|&b| b == 0).unwrap_or(16);
            // Not sixteen bytes: never the quick way.
            let longer = [&name[..end], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"].concat();
            prop_assert_eq!(put_name(&mut quick, 1, &name), put_name(&mut thorough, 1, &longer));
            prop_assert_eq!(quick, thorough);
            let plain = name[..end].is_ascii() && !name[..end].contains(&b'\\');
            prop_assert_eq!(plain_len(&name), plain.then_some(end));
        }
    }

    #[test]
    fn plain_names_are_known_by_their_length() {
        assert_eq!(plain_len(b"swapper/0\0\0\0\0\0\0\0"), Some(9));
        assert_eq!(plain_len(b"a\0\xff\\\0\x01\0\0\0\0\0\0\0\0\0\0"), Some(1), "what stands after the NUL is no name");
        assert_eq!(plain_len(b"sixteen_bytes_xx"), Some(16));
        assert_eq!(plain_len(&[0; 16]), Some(0));
        assert_eq!(plain_len(b"back\\slash\0\0\0\0\0\0"), None);
        assert_eq!(plain_len(b"caf\xc3\xa9\0\0\0\0\0\0\0\0\0\0\0"), None);
    }
}
