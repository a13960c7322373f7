//! From the packets of a Perfetto trace, ours or anybody's, to [`Item`]s.
//!
//! [`Decoder`] takes whole packets and calls back with items in the order the packets stand; [`stream`] feeds it from
//! a reader, compressed or not. Input is not trusted: nothing panics, nothing recurses without limit, memory is
//! bounded by the largest packet. A packet that is broken inside becomes an [`Item::Damage`] and decoding goes on; a
//! broken framing ends it with an error that says where, after everything before it was delivered.
//!
//! What it never does: order events of different CPUs by time, or judge what they mean.

mod bundle;
mod clocks;
mod compact;
mod event;
mod extension;
mod facts;
mod packet;
pub mod stream;

use crate::names::{NameId, NameTable};
use crate::perfetto::messages::DashcamPacket;
use crate::perfetto::wire::{self, Fields, Malformed};
use crate::sched::event::{Item, Tid};
use crate::sched::state::StateLayout;
use clocks::Clocks;
use prost::Message;
use rustc_hash::FxHashMap;

/// A packet larger than this is taken for damage (the largest real ones, process trees, are a few MiB).
pub const MAX_PACKET: usize = 256 << 20;

/// Why decoding stopped. Everything before the offset was delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message speaks for the fields")]
pub enum DecodeError {
    /// The framing of the trace is broken.
    #[error("not a whole trace packet at byte {offset}: {what}; what stands before it was read")]
    Framing { offset: u64, what: &'static str },
    /// The input ends within a packet.
    #[error("the trace ends within the packet at byte {offset}; what stands before it was read")]
    Truncated { offset: u64 },
}

/// Turns packets into items. One decoder per trace: it remembers clocks, kernel symbols and who runs on each CPU.
///
/// All calls of one decoder take the same [`NameTable`]: it keeps ids of that one.
#[derive(Debug)]
pub struct Decoder {
    offset: u64,
    cpus: FxHashMap<u32, CpuMemory>,
    layout: StateLayout,
    clocks: Clocks,
    /// Kernel symbols by packet sequence and id.
    symbols: FxHashMap<(u32, u64), NameId>,
    /// Names of events that have no fixed field number (Perfetto v50+ describes them in the bundle).
    described: FxHashMap<u32, NameId>,
    zone_offset_minutes: Option<i32>,
    damages: u32,
    scratch: bundle::Scratch,
}

/// What is known of one CPU from the packets before.
#[derive(Debug, Clone, Copy, Default)]
struct CpuMemory {
    running: Option<Tid>,
    /// Its priority, where it came untraced and was seen to run since (`stand_ins` of the extension).
    seen_prio: Option<i32>,
    last_ts: u64,
    /// The packet sequence its bundles come on, and whether that lost packets since the last of them.
    sequence: u32,
    lost: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a trace.
    pub fn new() -> Self {
        Decoder {
            offset: 0,
            cpus: FxHashMap::default(),
            layout: StateLayout::SINCE_4_14,
            clocks: Clocks::default(),
            symbols: FxHashMap::default(),
            described: FxHashMap::default(),
            zone_offset_minutes: None,
            damages: 0,
            scratch: bundle::Scratch::default(),
        }
    }

    /// Forgets who runs on each CPU: for going on at another place of the same trace.
    pub fn forget_cpus(&mut self) {
        self.cpus.clear();
    }

    /// Decodes `bytes`, which hold whole packets (one zstd frame of a segment, or a whole trace).
    ///
    /// # Errors
    /// Broken framing or a packet cut short, with its offset since the decoder was made.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), DecodeError> {
        let used = self.decode_available(bytes, names, sink)?;
        if used < bytes.len() {
            return Err(DecodeError::Truncated { offset: self.offset });
        }
        Ok(())
    }

    /// Decodes the whole packets at the start of `bytes` and says how many bytes they took; the rest, the beginning
    /// of a packet, has to be given again with more bytes after it.
    ///
    /// # Errors
    /// Broken framing, with its offset since the decoder was made.
    pub fn decode_available(
        &mut self,
        bytes: &[u8],
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<usize, DecodeError> {
        let mut at = 0;
        while at < bytes.len() {
            match next_packet(bytes, at) {
                Ok(Frame::Packet { from, end }) => {
                    self.packet(&bytes[from..end], self.offset, 0, names, sink);
                    self.offset += (end - at) as u64;
                    at = end;
                }
                Ok(Frame::Partial) => break,
                Err(what) => return Err(DecodeError::Framing { offset: self.offset, what }),
            }
        }
        Ok(at)
    }

    /// Reports something unreadable, up to a number that no honest trace reaches.
    fn damage(
        &mut self,
        packet: u64,
        cpu: Option<u32>,
        what: &str,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) {
        const MOST: u32 = 256;
        self.damages = self.damages.saturating_add(1);
        if self.damages <= MOST {
            let what = names.intern(format!("packet at byte {packet}: {what}").as_bytes());
            sink(Item::Damage { cpu, what });
        } else if self.damages == MOST + 1 {
            sink(Item::Damage { cpu: None, what: names.intern(b"more damage follows, not listed") });
        }
    }
}

/// What the end of a segment says of everybody who lived during it: packets to be decoded like any others, which stand
/// elsewhere in the segment too. `None` if this frame does not say.
pub fn lives(packets: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let mut frame = Fields::new(packets);
    while let Ok(Some((1, packet))) = frame.next() {
        let mut fields = Fields::new(packet.bytes());
        while let Ok(Some((number, value))) = fields.next() {
            if number == 1500
                && let Ok(DashcamPacket { lives: Some(lives), .. }) = DashcamPacket::decode(value.bytes())
            {
                found = Some(lives);
            }
        }
    }
    found
}

enum Frame {
    Packet { from: usize, end: usize },
    Partial,
}

/// The frame of the packet at `at`: `Trace.packet`, field 1. A trace holds nothing else.
fn next_packet(bytes: &[u8], at: usize) -> Result<Frame, &'static str> {
    if bytes[at] != (1 << 3 | wire::BYTES) as u8 {
        return Err("the byte there does not begin a packet");
    }
    let mut from = at + 1;
    let len = match wire::varint(bytes, &mut from) {
        Ok(len) => len,
        Err(Malformed { what, .. }) if bytes.len() - at > 10 => return Err(what),
        Err(_) => return Ok(Frame::Partial),
    };
    match usize::try_from(len) {
        Ok(len) if len <= MAX_PACKET => {
            let end = from + len;
            Ok(if end <= bytes.len() { Frame::Packet { from, end } } else { Frame::Partial })
        }
        _ => Err("a packet larger than any real one"),
    }
}

#[cfg(test)]
mod tests;
