//! Any ftrace event from its ring-buffer record: the fields are mapped once per event, at start, not per record.

use super::bundle::put_name;
use crate::perfetto::escape;
use crate::perfetto::event_table::{self, KnownField};
use crate::perfetto::wire::{self, BYTES, put_bytes, put_key, put_uint, put_varint};

/// `FtraceEvent.generic`.
const GENERIC: u32 = 327;

/// One field of an event, as its `format` file describes it. Offsets count from the record's first common field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFormat {
    /// Name.
    pub name: String,
    /// Offset in the record, bytes.
    pub offset: usize,
    /// Size in the record, bytes; of all elements of an array.
    pub size: usize,
    /// Integers: signed.
    pub signed: bool,
    /// How to read it.
    pub kind: FieldKind,
}

/// How a field's bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of 1, 2, 4 or 8 bytes: also pointers, enums and bools.
    Integer,
    /// `dev_t` as the kernel has it (major << 20 | minor).
    Device,
    /// An array of integers of this many bytes each.
    Integers(usize),
    /// `char name[N]`: text up to a NUL.
    Text,
    /// `__data_loc char[]`: 4 bytes, offset from the record's start and length << 16.
    DataLoc,
    /// `__rel_loc char[]`: the same, but the offset counts from the end of the field.
    RelLoc,
    /// `char buf[]` at the end of the record.
    Tail,
}

/// Writes records of one event as the message Perfetto has for it, or as a `GenericFtraceEvent`.
#[derive(Debug, Clone)]
pub struct EventEncoder {
    field: u32,
    /// Generic events: the encoded `event_name` field.
    head: Vec<u8>,
    steps: Vec<Step>,
    escaped_names: bool,
}

#[derive(Debug, Clone)]
struct Step {
    format: FieldFormat,
    into: Into,
}

/// Where a field's value goes.
#[derive(Debug, Clone)]
enum Into {
    Integer(u32),
    String(u32),
    /// A `GenericFtraceEvent.Field`, of which this is the encoded name.
    Generic(Vec<u8>),
}

impl EventEncoder {
    /// An encoder for the event `group/name` with these fields (those of its format that are not common ones).
    ///
    /// Fields that the event's Perfetto message has no place for are left out, as Perfetto does; events without a
    /// message keep all of them.
    pub fn new(group: &str, name: &str, fields: &[FieldFormat]) -> Self {
        match event_table::by_name(group, name) {
            Some(known) => {
                let wanted: Vec<KnownField> = known.fields().collect();
                let steps = fields.iter().filter_map(|f| known_step(f, &wanted)).collect();
                EventEncoder { field: known.field, head: Vec::new(), steps, escaped_names: false }
            }
            None => Self::generic(name, fields),
        }
    }

    fn generic(name: &str, fields: &[FieldFormat]) -> Self {
        let mut head = Vec::new();
        let mut escaped_names = put_name(&mut head, 1, name.as_bytes());
        let mut steps = Vec::new();
        for format in fields {
            let mut field_name = Vec::new();
            escaped_names |= put_name(&mut field_name, 1, format.name.as_bytes());
            steps.push(Step { format: format.clone(), into: Into::Generic(field_name) });
        }
        EventEncoder { field: GENERIC, head, steps, escaped_names }
    }

    /// Field number of the message in `FtraceEvent`.
    pub(super) fn field(&self) -> u32 {
        self.field
    }

    /// Appends the event's message; true when a string had to be escaped. Fields beyond the record are left out.
    pub(super) fn encode(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.head);
        let mut escaped = self.escaped_names;
        for step in &self.steps {
            escaped |= step.write(record, out);
        }
        escaped
    }
}

fn known_step(format: &FieldFormat, wanted: &[KnownField]) -> Option<Step> {
    let field = wanted.iter().find(|w| w.name == format.name)?;
    // A field that changed its type between kernels does not fit; leaving it out beats writing nonsense.
    let into = match (field.string, format.is_text()) {
        (true, true) => Into::String(field.number),
        (false, false) => Into::Integer(field.number),
        _ => return None,
    };
    Some(Step { format: format.clone(), into })
}

impl Step {
    fn write(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        match &self.into {
            Into::Integer(number) => {
                for value in self.format.integers(record) {
                    put_uint(out, *number, value);
                }
                false
            }
            Into::String(number) => self.format.text(record).is_some_and(|t| put_name(out, *number, t)),
            Into::Generic(name) if self.format.is_text() => match self.format.text(record) {
                Some(text) => {
                    let (text, escaped) = escape::escape(text);
                    put_generic(out, name, wire::bytes_field_len(3, text.len()));
                    put_bytes(out, 3, &text);
                    escaped
                }
                None => false,
            },
            Into::Generic(name) => {
                let number = if self.format.signed { 4 } else { 5 };
                for value in self.format.integers(record) {
                    put_generic(out, name, 1 + wire::varint_len(value));
                    put_uint(out, number, value);
                }
                false
            }
        }
    }
}

/// Begins a `GenericFtraceEvent.Field` whose value will take `value_len` bytes.
fn put_generic(out: &mut Vec<u8>, name: &[u8], value_len: usize) {
    put_key(out, 2, BYTES);
    put_varint(out, (name.len() + value_len) as u64);
    out.extend_from_slice(name);
}

impl FieldFormat {
    fn is_text(&self) -> bool {
        matches!(self.kind, FieldKind::Text | FieldKind::DataLoc | FieldKind::RelLoc | FieldKind::Tail)
    }

    /// The text of the field, up to a NUL; `None` when it lies outside of the record.
    fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = match self.kind {
            FieldKind::Text => record.get(self.offset..self.offset.checked_add(self.size)?)?,
            FieldKind::Tail => record.get(self.offset..)?,
            FieldKind::DataLoc | FieldKind::RelLoc => {
                let word = integer(record.get(self.offset..self.offset.checked_add(4)?)?, false) as usize;
                let base = if self.kind == FieldKind::RelLoc { self.offset + 4 } else { 0 };
                let from = base + (word & 0xffff);
                record.get(from..from + (word >> 16))?
            }
            _ => return None,
        };
        Some(bytes.split(|&b| b == 0).next().unwrap_or_default())
    }

    /// The values of an integer field (none when it lies outside of the record), sign-extended to 64 bits.
    fn integers(&self, record: &[u8]) -> impl Iterator<Item = u64> {
        let bytes = self.offset.checked_add(self.size).and_then(|end| record.get(self.offset..end)).unwrap_or_default();
        let width = match self.kind {
            FieldKind::Integers(width) => width,
            _ => self.size,
        };
        let device = self.kind == FieldKind::Device;
        let signed = self.signed;
        bytes.chunks_exact(width.clamp(1, 8)).map(move |b| {
            let value = integer(b, signed);
            if device { device_number(value) } else { value }
        })
    }
}

fn integer(bytes: &[u8], signed: bool) -> u64 {
    let mut buf = [0u8; 8];
    buf[..bytes.len()].copy_from_slice(bytes);
    // Records are in the byte order of the machine that reads them.
    let value = if cfg!(target_endian = "big") {
        u64::from_be_bytes(buf) >> (64 - 8 * bytes.len())
    } else {
        u64::from_le_bytes(buf)
    };
    let unused = 64 - 8 * bytes.len() as u32;
    if signed && unused < 64 { ((value << unused) as i64 >> unused) as u64 } else { value }
}

/// The user-space form of a device number, which is what Perfetto's messages hold (as glibc's `makedev`).
fn device_number(kernel: u64) -> u64 {
    let (major, minor) = (kernel >> 20 & 0xfff, kernel & 0xf_ffff);
    major << 8 | (minor & 0xfff00) << 12 | minor & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format(name: &str, offset: usize, size: usize, kind: FieldKind) -> FieldFormat {
        FieldFormat { name: name.into(), offset, size, signed: true, kind }
    }

    #[test]
    fn known_events_take_the_fields_their_message_has_and_no_others() {
        let fields = [
            format("comm", 0, 4, FieldKind::DataLoc),
            format("pid", 4, 4, FieldKind::Integer),
            format("group_dead", 8, 1, FieldKind::Integer),
            format("prio", 9, 2, FieldKind::Text),
        ];
        let encoder = EventEncoder::new("sched", "sched_process_exit", &fields);
        let mut record = (11u32 | 3 << 16).to_ne_bytes().to_vec();
        record.extend((-5i32).to_ne_bytes());
        record.extend(b"\x01zzcat");
        let mut out = Vec::new();
        assert!(!encoder.encode(&record, &mut out));
        // comm = 1, pid = 2 sign-extended; `prio` is text here, which its message cannot hold.
        assert_eq!(out, [10, 3, b'c', b'a', b't', 16, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(encoder.field(), 238);
    }

    #[test]
    fn integers_of_every_width_keep_their_sign() {
        for (bytes, signed, value) in [
            (&[0xfe][..], true, -2i64 as u64),
            (&[0xfe], false, 0xfe),
            (&(-3i16).to_ne_bytes(), true, -3i64 as u64),
            (&u64::MAX.to_ne_bytes(), false, u64::MAX),
            (&[], true, 0),
        ] {
            assert_eq!(integer(bytes, signed), value);
        }
        assert_eq!(device_number(254 << 20), 65_024, "vda as the fixture's block events have it");
        assert_eq!(device_number(259 << 20 | 300), 259 << 8 | 0x100 << 12 | 44);
    }

    fn any_field() -> impl Strategy<Value = FieldFormat> {
        let kind = prop_oneof![
            Just(FieldKind::Integer),
            Just(FieldKind::Device),
            (0usize..20).prop_map(FieldKind::Integers),
            Just(FieldKind::Text),
            Just(FieldKind::DataLoc),
            Just(FieldKind::RelLoc),
            Just(FieldKind::Tail),
        ];
        let place = prop_oneof![0usize..64, any::<usize>()];
        (place.clone(), place, any::<bool>(), kind).prop_map(|(offset, size, signed, kind)| FieldFormat {
            name: "f".into(),
            offset,
            size,
            signed,
            kind,
        })
    }

    proptest! {
        #[test]
        fn any_format_on_any_record_makes_a_message(
            fields in prop::collection::vec(any_field(), 0..6),
            record in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut out = Vec::new();
            EventEncoder::new("any", "thing", &fields).encode(&record, &mut out);
            let mut message = wire::Fields::new(&out);
            while let Some((number, value)) = message.next().map_err(|e| TestCaseError::fail(e.what))? {
                let mut field = wire::Fields::new(if number == 2 { value.bytes() } else { &[] });
                let mut numbers = Vec::new();
                while let Some((number, value)) = field.next().map_err(|e| TestCaseError::fail(e.what))? {
                    prop_assert!(std::str::from_utf8(value.bytes()).is_ok());
                    numbers.push(number);
                }
                prop_assert!(number == 1 || matches!(numbers[..], [1, 3..=5]), "{numbers:?}");
            }
        }
    }
}
