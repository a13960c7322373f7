//! Packets to items in time order: what a load and a tail have in common.

use std::io::Read;

use crate::memory::{self, Room};
use crate::names::{NameId, NameTable};
use crate::perfetto::decode::Decoder;
use crate::perfetto::decode::stream::{Steps, StreamError};
use crate::sched::event::{ClockSnapshot, Item};
use crate::sched::fold::Consumer;
use crate::sched::order::{MAX_TIME, TimeOrder};
use crate::store::probe::KEY_START;
use crate::time::{ClockMap, ClockPair};
use crate::units::show;

use super::damage::Damage;
use super::frames;
use super::times::Times;

/// Decoder, time order and clocks of one stream.
#[derive(Debug)]
pub(super) struct Pump {
    pub decoder: Decoder,
    pub names: NameTable,
    pub clocks: ClockMap,
    pub order: TimeOrder,
    pub events: u64,
    /// Frames to be read, of all there are.
    pub frames: (u64, u64),
    /// All events before this instant were given to the consumer.
    pub through: u64,
    /// First and last instant met.
    pub seen: Option<(u64, u64)>,
    pub damage: Damage,
    unreadable: Unreadable,
    times: Times,
    /// A frame before the next one could not be read.
    broken: bool,
    scratch: Vec<u8>,
}

/// What the decoder gives out passes through here on its way to the time order.
struct Gate<'a> {
    order: &'a mut TimeOrder,
    clocks: &'a mut ClockMap,
    events: &'a mut u64,
    through: &'a mut u64,
    seen: &'a mut Option<(u64, u64)>,
    unreadable: &'a mut Unreadable,
    times: &'a mut Times,
    /// Only facts: states, counters and watermarks of a skipped frame say nothing about the window.
    facts_only: bool,
}

/// Packets that did not read to their end, and what the recorder told of pages like that.
#[derive(Debug, Default)]
struct Unreadable {
    first: Option<NameId>,
    more: u64,
}

impl Unreadable {
    fn note(&mut self, what: NameId) {
        match self.first {
            None => self.first = Some(what),
            Some(_) => self.more += 1,
        }
    }
}

impl Pump {
    pub(super) fn new(names: NameTable) -> Pump {
        Pump {
            decoder: Decoder::new(),
            names,
            clocks: ClockMap::default(),
            order: TimeOrder::new(held_at_most(memory::room())),
            events: 0,
            frames: (0, 0),
            through: 0,
            seen: None,
            damage: Damage::default(),
            unreadable: Unreadable::default(),
            times: Times::default(),
            broken: false,
            scratch: Vec::new(),
        }
    }

    /// Takes one frame's packets.
    pub(super) fn frame<C: Consumer>(&mut self, packets: &[u8], consumer: &mut C) {
        if std::mem::take(&mut self.broken) {
            self.bridge(packets, consumer);
        }
        self.decode(packets, false, consumer);
    }

    /// A frame could not be read: what follows must not be joined to what was before.
    pub(super) fn missing(&mut self) {
        self.broken = true;
    }

    /// Between what is complete so far and the first instant in this frame nothing is known.
    fn bridge<C: Consumer>(&mut self, packets: &[u8], consumer: &mut C) {
        let mut first = u64::MAX;
        // Anything unreadable here is met again, and told, when the frame is decoded.
        let _ = Decoder::new().decode(packets, &mut NameTable::new(), &mut |item| match item {
            Item::Event(event) => first = first.min(event.ts),
            Item::CompleteThrough { ts } | Item::CpuState { ts, .. } => first = first.min(ts),
            _ => {}
        });
        // A file whose watermarks were taken out is known as far as its events go.
        let known = if self.through > 0 { self.through } else { self.seen.map_or(0, |(_, last)| last) };
        if known > 0 && first != u64::MAX && first > known {
            self.order.push(Item::Gap { from: known, to: first }, &mut |item| consumer.item(item));
            self.through = first;
        }
        self.decoder.forget_cpus();
    }

    /// Takes what a frame says besides events and states of its moment; these packets are given back.
    pub(super) fn facts<C: Consumer>(&mut self, packets: &[u8], consumer: &mut C) -> Vec<u8> {
        let mut facts = std::mem::take(&mut self.scratch);
        frames::without_bundles(packets, &mut facts);
        self.decode(&facts, true, consumer);
        facts
    }

    /// What could not be read so far: a line for each file, and one for everything within packets.
    pub(super) fn unread(&self) -> Vec<String> {
        let mut words = self.damage.words();
        if let Some(first) = self.unreadable.first {
            let more = match self.unreadable.more {
                0 => String::new(),
                n => format!(", and {} more like it", show::grouped(n)),
            };
            words.push(format!("{}{more}", self.names.text(first)));
        }
        words.extend(self.times.words(self.seen));
        words
    }

    /// Memory that is of use again.
    pub(super) fn give_back(&mut self, memory: Vec<u8>) {
        self.scratch = memory;
    }

    /// Takes what is known otherwise than from a frame.
    pub(super) fn tell<C: Consumer>(&mut self, items: Vec<Item>, consumer: &mut C) {
        for item in items {
            self.order.push(item, &mut |item| consumer.item(item));
        }
    }

    fn decode<C: Consumer>(&mut self, packets: &[u8], facts_only: bool, consumer: &mut C) {
        let start_key = self.names.intern(KEY_START.as_bytes());
        let mut gate = Gate {
            order: &mut self.order,
            clocks: &mut self.clocks,
            events: &mut self.events,
            through: &mut self.through,
            seen: &mut self.seen,
            unreadable: &mut self.unreadable,
            times: &mut self.times,
            facts_only,
        };
        // Metadata is text in the name table, which the decoder holds meanwhile: looked at afterwards.
        let mut starts = Vec::new();
        let result = self.decoder.decode(packets, &mut self.names, &mut |item| {
            if let Item::Metadata { key, value } = item
                && key == start_key
            {
                starts.push(value);
            }
            gate.pass(item, consumer);
        });
        if let Err(e) = result {
            self.damage.note(None, e.to_string());
        }
        consumer.checkpoint(&self.names);
        for value in starts {
            let start = std::str::from_utf8(self.names.bytes(value)).ok().and_then(|t| t.parse().ok());
            self.begins_at(start.unwrap_or(0), facts_only, consumer);
        }
    }

    /// A segment begins: between it and what was before nothing may have been recorded.
    fn begins_at<C: Consumer>(&mut self, start: u64, facts_only: bool, consumer: &mut C) {
        if !facts_only && self.through > 0 && start > self.through {
            let from = self.through;
            self.order.push(Item::Gap { from, to: start }, &mut |item| consumer.item(item));
            self.decoder.forget_cpus();
        }
    }

    /// Takes a whole foreign trace.
    pub(super) fn stream<C: Consumer>(&mut self, reader: impl Read, consumer: &mut C) -> Result<(), StreamError> {
        self.times.foreign = true;
        let mut decoder = Decoder::new();
        let mut gate = Gate {
            order: &mut self.order,
            clocks: &mut self.clocks,
            events: &mut self.events,
            through: &mut self.through,
            seen: &mut self.seen,
            unreadable: &mut self.unreadable,
            times: &mut self.times,
            facts_only: false,
        };
        let mut steps = Steps::open(reader)?;
        while steps.step(&mut decoder, &mut self.names, &mut |item| gate.pass(item, consumer))? {
            consumer.checkpoint(&self.names);
            // A few bytes that were read may hold millions of events.
            if consumer.has_enough() {
                break;
            }
        }
        Ok(())
    }

    /// Where all frames from here on begin: what was skipped before is not missing.
    pub(super) fn reset_through(&mut self) {
        self.through = 0;
        self.decoder.forget_cpus();
    }

    /// Everything has been read.
    pub(super) fn finish<C: Consumer>(&mut self, consumer: &mut C) {
        self.order.flush(&mut |item| consumer.item(item));
        consumer.checkpoint(&self.names);
        consumer.end();
    }
}

/// Items that may wait to be put in order: four millions, or what takes a quarter of the memory there is room for.
fn held_at_most(room: Option<Room>) -> usize {
    const MOST: usize = 4 << 20;
    /// An item, and what its place costs.
    const BYTES: u64 = 128;
    let fit = room.map_or(MOST, |room| usize::try_from(room.usable() / 4 / BYTES).unwrap_or(MOST));
    fit.clamp(1 << 16, MOST)
}

impl Gate<'_> {
    #[inline]
    fn pass<C: Consumer>(&mut self, item: Item, consumer: &mut C) {
        match &item {
            Item::Event(event) => {
                if event.ts >= MAX_TIME {
                    self.times.impossible += 1;
                    return;
                }
                *self.events += 1;
                let (min, max) = self.seen.unwrap_or((event.ts, event.ts));
                self.times.note(event.ts, (min, max));
                *self.seen = Some((min.min(event.ts), max.max(event.ts)));
            }
            Item::Clock(clock) => note_clock(self.clocks, clock),
            Item::Damage { what, .. } => self.unreadable.note(*what),
            Item::CompleteThrough { ts } if !self.facts_only => *self.through = *ts,
            Item::CompleteThrough { .. }
            | Item::CpuState { .. }
            | Item::ThreadState { .. }
            | Item::Counter { .. }
            | Item::Stack { .. }
            | Item::Loss(_)
                if self.facts_only =>
            {
                return;
            }
            _ => {}
        }
        self.order.push(item, &mut |item| consumer.item(item));
    }
}

pub(super) fn note_clock(clocks: &mut ClockMap, clock: &ClockSnapshot) {
    if clock.real > 0 {
        clocks.add(ClockPair { boot: clock.boot, real: clock.real });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_to_be_put_in_order_fits_into_the_memory_there_is() {
        let room = |left| Some(Room { left, total: 1 << 30, whose: "a test" });
        assert_eq!(held_at_most(None), 4 << 20);
        assert_eq!(held_at_most(room(8 << 30)), 4 << 20);
        let reserve = (1 << 30) / 20;
        assert_eq!(held_at_most(room(reserve + (512 << 20))), 1 << 20, "128 MiB of 512");
        assert_eq!(held_at_most(room(0)), 1 << 16, "enough for any recording with watermarks");
    }
}
