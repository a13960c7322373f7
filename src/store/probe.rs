//! The [`FrameProbe`] that reads our own packets: what a footer would say of a file that has none.
//!
//! The keys under which a segment's head states facts that Perfetto has no field for are here too, so that writer and
//! reader cannot disagree. [`super::summarise`] adds what needs thread states.

use super::footer::{BootId, Footer, Foremost, FormatVersion};
use super::index::{FrameFacts, FrameKind, LossCount};
use super::scan::FrameProbe;
use crate::names::NameTable;
use crate::perfetto::decode::Decoder;
use crate::perfetto::encode::packets;
use crate::sched::event::{ClockSnapshot, Event, EventKind, Item};
use crate::sched::summary::Window;
use std::collections::BTreeMap;

/// Metadata key: format of the file, `MAJOR.MINOR`.
pub const KEY_FORMAT: &str = "dashcam.format";
/// Metadata key: the kernel's boot id as text.
pub const KEY_BOOT: &str = "dashcam.boot_id";
/// Metadata key: version of the recorder.
pub const KEY_RECORDER: &str = "dashcam.version";
/// Metadata key: first instant the segment answers for, ns on CLOCK_BOOTTIME, decimal.
pub const KEY_START: &str = "dashcam.segment_start";

/// Most gaps kept of one file; a hostile one may claim more.
const MAX_GAPS: usize = 256;
/// Most metadata and marks looked at in one frame; a real head has some twenty.
const MAX_NAMED: usize = 4096;
/// Names grow with hostile input; a real segment has some ten thousand.
const MAX_NAMES: usize = 1 << 20;

/// Appends the packet by which a file says what it is. Every head begins with it, so that a file without a
/// footer can be placed, and a newer format is seen before anything else is read. `start`: first instant the
/// file answers for, ns on CLOCK_BOOTTIME.
pub fn identity(boot: BootId, recorder: &str, start: u64, out: &mut Vec<u8>) {
    let (format, boot, start) = (FormatVersion::CURRENT.to_string(), boot.to_string(), start.to_string());
    let pairs = [(KEY_FORMAT, &*format), (KEY_BOOT, &*boot), (KEY_RECORDER, recorder), (KEY_START, &*start)];
    packets::metadata(&pairs.map(|(key, value)| (key, value.as_bytes())), out);
}

/// Decodes frames as they are shown to it.
#[derive(Debug, Default)]
pub struct PacketProbe {
    decoder: Decoder,
    names: NameTable,
    found: Found,
}

#[derive(Debug, Default)]
struct Found {
    /// A frame with events or a watermark was met: the head is over.
    data: bool,
    format: Option<FormatVersion>,
    boot: BootId,
    recorder: String,
    host: Vec<u8>,
    start: Option<u64>,
    cpus: u32,
    marks: u64,
    sampled_hz: Option<u32>,
    clocks: Option<(ClockSnapshot, ClockSnapshot)>,
    gaps: Vec<Window>,
    texts: Foremost,
}

impl PacketProbe {
    /// At the begin of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// True once a head of ours was met.
    pub fn is_ours(&self) -> bool {
        self.found.format.is_some()
    }

    /// Every name met so far.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// As [`FrameProbe::frame`], and shows `watch` every item of the frame, in the order of the packets.
    pub fn watched(&mut self, packets: &[u8], watch: &mut dyn FnMut(&Item)) -> FrameFacts {
        if self.names.len() > MAX_NAMES {
            self.names = NameTable::new();
            self.decoder = Decoder::new(); // it holds ids of the old table
        }
        let mut facts = FrameFacts::default();
        let mut events: BTreeMap<u32, u64> = BTreeMap::new();
        let mut losses: BTreeMap<u32, LossCount> = BTreeMap::new();
        let mut named = Vec::new();
        let found = &mut self.found;
        // What stands before broken framing counts; the rest of the frame says nothing.
        let _ = self.decoder.decode(packets, &mut self.names, &mut |item| {
            match &item {
                Item::Event(e) => {
                    facts.span = Some(facts.span.map_or((e.ts, e.ts), |(a, b)| (a.min(e.ts), b.max(e.ts))));
                    *events.entry(e.cpu).or_default() += 1;
                }
                Item::Loss(l) => losses.entry(l.cpu).or_default().add(l.count),
                Item::CompleteThrough { ts } => facts.complete_through = facts.complete_through.max(*ts),
                _ => {}
            }
            watch(&item);
            // The decoder holds the names meanwhile: what needs them is looked at afterwards.
            if !found.note(&item) && named.len() < MAX_NAMED {
                named.push(item);
            }
        });
        for item in &named {
            self.found.note_named(item, &self.names);
        }
        let data = facts.complete_through > 0 || facts.span.is_some();
        facts.kind = match (self.found.data, data) {
            (_, true) => FrameKind::Data,
            (false, false) => FrameKind::Head, // a large process tree takes several frames
            (true, false) => FrameKind::Tail,
        };
        self.found.data |= data;
        facts.events = events.into_iter().collect();
        facts.loss = losses.into_iter().collect();
        facts
    }
}

impl FrameProbe for PacketProbe {
    fn frame(&mut self, packets: &[u8]) -> FrameFacts {
        self.watched(packets, &mut |_| {})
    }

    fn format(&self) -> Option<FormatVersion> {
        self.found.format
    }

    fn conclude(&mut self, footer: &mut Footer) {
        let (found, totals) = (&self.found, &mut footer.totals);
        totals.format = found.format.unwrap_or_default();
        totals.boot = found.boot;
        totals.recorder.clone_from(&found.recorder);
        totals.host.clone_from(&found.host);
        totals.cpus = found.cpus;
        totals.marks = found.marks;
        totals.sampled_hz = found.sampled_hz;
        totals.gaps.clone_from(&found.gaps);
        let clock = found.clocks.map(|(first, _)| first.boot);
        if let Some(start) = found.start.or(clock).filter(|&s| totals.start == 0 || s <= totals.start) {
            totals.start = start;
        }
        totals.end = totals.end.max(totals.start);
        totals.valid_from = totals.start;
        if let Some((first, last)) = found.clocks {
            totals.clock = first;
            totals.clock_end = if last == first { ClockSnapshot::default() } else { last };
        }
        footer.summary.marks = found.texts.clone().take();
    }
}

impl Found {
    /// Takes what can be understood without names; false for what cannot.
    fn note(&mut self, item: &Item) -> bool {
        match item {
            Item::Metadata { .. } | Item::System(_) => return false,
            Item::Event(Event { kind: EventKind::Print { .. }, .. }) => {
                self.marks += 1;
                return false;
            }
            Item::Clock(c) => self.clocks = Some((self.clocks.map_or(*c, |(first, _)| first), *c)),
            Item::Gap { from, to } if self.gaps.len() < MAX_GAPS => self.gaps.push(Window { from: *from, to: *to }),
            Item::Sampled { hz } => self.sampled_hz = Some(*hz),
            _ => {}
        }
        true
    }

    fn note_named(&mut self, item: &Item, names: &NameTable) {
        match item {
            Item::Metadata { key, value } => self.metadata(names.bytes(*key), names.bytes(*value)),
            Item::System(s) => {
                self.host = names.bytes(s.host).to_vec();
                self.cpus = s.cpus;
            }
            Item::Event(Event { ts, kind: EventKind::Print { text }, .. }) => {
                self.texts.offer(*ts, names.bytes(*text));
            }
            _ => {}
        }
    }

    /// The first word counts: segments joined by `cat` begin with the first one's head.
    fn metadata(&mut self, key: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match key {
            k if k == KEY_FORMAT.as_bytes() && self.format.is_none() => {
                let parts = text.split_once('.').map(|(major, minor)| (major.parse().ok(), minor.parse().ok()));
                if let Some((Some(major), Some(minor))) = parts {
                    self.format = Some(FormatVersion { major, minor });
                }
            }
            k if k == KEY_BOOT.as_bytes() && self.boot == BootId::default() => self.boot = BootId::parse(&text),
            k if k == KEY_RECORDER.as_bytes() && self.recorder.is_empty() => {
                self.recorder = text.chars().take(64).collect()
            }
            k if k == KEY_START.as_bytes() && self.start.is_none() => self.start = text.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::footer::Mark;
    use super::*;
    use crate::perfetto::encode::BundleBuilder;

    fn head() -> Vec<u8> {
        let mut out = Vec::new();
        identity(BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb"), "0.1.0", 900, &mut out);
        out
    }

    #[test]
    fn a_file_without_footer_tells_what_its_footer_would() {
        let mut probe = PacketProbe::new();
        assert_eq!(probe.frame(&head()).kind, FrameKind::Head);
        assert_eq!(probe.frame(b"").kind, FrameKind::Head, "a head of several frames");
        let mut bundle = BundleBuilder::new();
        bundle.switch(1000, 1, 7, 120, b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bundle.print(1010, 7, 0, b"step\n");
        let mut data = Vec::new();
        bundle.finish(3, None, &mut data);
        packets::complete_through(1500, &mut data);
        let facts = probe.frame(&data);
        assert_eq!(facts.kind, FrameKind::Data);
        assert_eq!((facts.span, facts.complete_through), (Some((1000, 1010)), 1500));
        assert_eq!(facts.events, [(3, 2)]);
        let mut footer = Footer::default();
        footer.totals.start = 1000;
        footer.totals.end = 1500;
        probe.conclude(&mut footer);
        assert_eq!(probe.frame(&head()).kind, FrameKind::Tail);
        assert_eq!((footer.totals.start, footer.totals.marks), (900, 1));
        assert_eq!(footer.summary.marks, [Mark { ts: 1010, text: b"step".to_vec() }]);
        assert_eq!(footer.totals.boot.to_string(), "0c1d2e3f-0011-2233-4455-66778899aabb");
        assert!(probe.is_ours());
    }

    #[test]
    fn case_76_a_newer_format_is_told() {
        let mut newer = Vec::new();
        packets::metadata(&[(KEY_FORMAT, b"2.3")], &mut newer);
        let mut probe = PacketProbe::new();
        probe.frame(&newer);
        assert_eq!(probe.format(), Some(FormatVersion { major: 2, minor: 3 }));
        assert!(!probe.format().unwrap().is_readable());
    }
}
