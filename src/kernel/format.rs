//! Event formats: the text of `events/GROUP/NAME/format`, parsed into field offsets.
//!
//! All that is known about a record's bytes comes from here, since offsets differ between kernels and
//! configurations (PREEMPT_RT adds common fields). Takes text, never opens a file.

use std::fmt;

/// Why a format file could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A mandatory line is not there.
    #[error("event format has no `{0}` line; this kernel's tracefs is not one dashcam knows")]
    Missing(&'static str),
    /// A line does not follow the grammar.
    #[error("event format line {line} is not understood: `{}`", crate::names::printable(.text.as_bytes()))]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
}

/// One event's record layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Event name, e.g. `sched_switch`.
    pub name: String,
    /// The number that stands in `common_type` of each record of this event.
    pub id: u16,
    /// `common_*` fields; normally type, flags, preempt_count and pid, more on PREEMPT_RT kernels.
    pub common: Vec<Field>,
    /// The event's own fields, in file order.
    pub fields: Vec<Field>,
    /// The `print fmt` expression, as it stands.
    pub print_fmt: String,
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name without array brackets.
    pub name: String,
    /// C type as it stands, without the name, e.g. `unsigned long`, `__data_loc char[]`.
    pub type_text: String,
    /// Byte offset from the start of the record's data.
    pub offset: usize,
    /// Bytes; 0 for an array that reaches to the record's end.
    pub size: usize,
    /// Whether the kernel calls the (element) type signed.
    pub signed: bool,
    /// How the bytes are to be read.
    pub kind: FieldKind,
}

/// How a field's bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// One number of 1, 2, 4 or 8 bytes (or an opaque struct of any other size).
    Scalar,
    /// `count` elements in place.
    Array {
        /// Number of elements.
        count: usize,
    },
    /// Size 0: elements up to the end of the record (`char buf[]`).
    Rest,
    /// `__data_loc`: a u32, length << 16 | offset from the start of the record.
    DataLoc,
    /// `__rel_loc`: a u32, length << 16 | offset from the end of this field.
    RelLoc,
}

impl Field {
    /// The field as an unsigned number, native byte order; `None` beyond the record or for sizes other than 1, 2, 4, 8.
    #[inline]
    pub fn u64(&self, record: &[u8]) -> Option<u64> {
        let raw = record.get(self.offset..)?;
        Some(match self.size {
            1 => u64::from(*raw.first()?),
            2 => u64::from(u16::from_ne_bytes(*raw.first_chunk()?)),
            4 => u64::from(u32::from_ne_bytes(*raw.first_chunk()?)),
            8 => u64::from_ne_bytes(*raw.first_chunk()?),
            _ => return None,
        })
    }

    /// The field as a signed number (sign-extended from its size, whatever `signed` says).
    #[inline]
    pub fn i64(&self, record: &[u8]) -> Option<i64> {
        let raw = record.get(self.offset..)?;
        Some(match self.size {
            1 => i64::from(*raw.first()? as i8),
            2 => i64::from(i16::from_ne_bytes(*raw.first_chunk()?)),
            4 => i64::from(i32::from_ne_bytes(*raw.first_chunk()?)),
            8 => i64::from_ne_bytes(*raw.first_chunk()?),
            _ => return None,
        })
    }

    /// All bytes of the field: in place, or where its `__data_loc` points. `None` if they leave the record.
    #[inline]
    pub fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        match self.kind {
            FieldKind::Scalar | FieldKind::Array { .. } => record.get(self.offset..self.offset.checked_add(self.size)?),
            FieldKind::Rest => record.get(self.offset..),
            FieldKind::DataLoc | FieldKind::RelLoc => {
                let word = u32::from_ne_bytes(*record.get(self.offset..)?.first_chunk()?);
                let mut start = (word & 0xffff) as usize;
                if self.kind == FieldKind::RelLoc {
                    start = start.checked_add(self.offset)?.checked_add(4)?;
                }
                record.get(start..start.checked_add((word >> 16) as usize)?)
            }
        }
    }

    /// The bytes up to the first NUL: what a `char` array holds as a string. Not necessarily UTF-8.
    #[inline]
    pub fn string<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let bytes = self.bytes(record)?;
        Some(&bytes[..text_len(bytes)])
    }

    /// The field for fast reading in a loop; `None` unless it is a number of 1, 2, 4 or 8 bytes.
    pub fn number(&self) -> Option<Number> {
        let end = self.offset.checked_add(self.size)?;
        if self.kind != FieldKind::Scalar || !matches!(self.size, 1 | 2 | 4 | 8) {
            return None;
        }
        let start = end.saturating_sub(8);
        let behind = 8 * (start + 8 - end) as u32;
        Some(Number { start, drop: behind, keep: 64 - 8 * self.size as u32 })
    }

    /// True for arrays of `char` in any form: the field is text.
    pub fn is_text(&self) -> bool {
        let element = self.type_text.trim_start_matches("__data_loc ").trim_start_matches("__rel_loc ");
        self.kind != FieldKind::Scalar && matches!(element.trim_end_matches("[]").trim(), "char" | "const char")
    }
}

/// Bytes in front of the first NUL. Thread names, 16 bytes in nearly every record, are searched as one word.
#[inline]
fn text_len(bytes: &[u8]) -> usize {
    const ONES: u128 = u128::MAX / 255;
    match <[u8; 16]>::try_from(bytes) {
        Ok(comm) => {
            let word = u128::from_le_bytes(comm);
            // Bit 7 of each zero byte; above the lowest it may be wrong, but that one is what counts.
            let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
            (zeros.trailing_zeros() / 8) as usize
        }
        Err(_) => bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()),
    }
}

/// A number's place, made for the capture path: one bounds check and two shifts, whatever its size.
///
/// Reads the eight bytes that end where the field ends, so that a record's last field needs no special case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    start: usize,
    /// Bits of the eight bytes that lie behind the field (fields within the first eight bytes only).
    drop: u32,
    /// 64 less the field's bits.
    keep: u32,
}

impl Number {
    #[inline]
    fn raw(&self, record: &[u8]) -> Option<u64> {
        let bytes: [u8; 8] = *record.get(self.start..)?.first_chunk()?;
        // Aligned to the top: on little-endian machines what lies behind is above, on big-endian ones below.
        Some(if cfg!(target_endian = "little") {
            u64::from_le_bytes(bytes) << self.drop
        } else {
            u64::from_be_bytes(bytes) >> self.drop << self.keep
        })
    }

    /// Unsigned.
    #[inline]
    pub fn u64(&self, record: &[u8]) -> Option<u64> {
        Some(self.raw(record)? >> self.keep)
    }

    /// Sign-extended from the field's size.
    #[inline]
    pub fn i64(&self, record: &[u8]) -> Option<i64> {
        Some(self.raw(record)? as i64 >> self.keep)
    }
}

impl EventFormat {
    /// Parses the whole text of a `format` file.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let (mut name, mut id, mut print_fmt) = (None, None, String::new());
        let (mut common, mut fields) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let bad = || FormatError::Line { line: at + 1, text: line.chars().take(200).collect() };
            let trimmed = line.trim();
            if let Some(rest) = trimmed.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = trimmed.strip_prefix("ID:") {
                id = Some(rest.trim().parse().map_err(|_| bad())?);
            } else if let Some(rest) = trimmed.strip_prefix("field:") {
                let field = parse_field(rest).ok_or_else(bad)?;
                if field.name.starts_with("common_") { common.push(field) } else { fields.push(field) }
            } else if let Some(rest) = trimmed.strip_prefix("print fmt:") {
                rest.trim().clone_into(&mut print_fmt);
            }
        }
        Ok(EventFormat {
            name: name.ok_or(FormatError::Missing("name:"))?,
            id: id.ok_or(FormatError::Missing("ID:"))?,
            common,
            fields,
            print_fmt,
        })
    }

    /// A field by name, common ones included.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().chain(&self.common).find(|f| f.name == name)
    }

    /// Bytes of a record that every field in place needs.
    pub fn min_size(&self) -> usize {
        let end = |f: &Field| f.offset.saturating_add(f.size);
        self.fields.iter().chain(&self.common).map(end).max().unwrap_or(0)
    }
}

impl fmt::Display for EventFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (id {})", self.name, self.id)
    }
}

/// `DECLARATION; offset:N; size:N; signed:N;`. `signed` is missing before 2.6.32.
pub(super) fn parse_field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", n)) => offset = Some(n.trim().parse::<u32>().ok()? as usize),
            Some(("size", n)) => size = Some(n.trim().parse::<u32>().ok()? as usize),
            Some(("signed", n)) => signed = n.trim() != "0",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    let (declaration, brackets) = match declaration.strip_suffix(']') {
        Some(rest) => {
            let (before, count) = rest.rsplit_once('[')?;
            (before.trim_end(), Some(count))
        }
        None => (declaration, None),
    };
    let mut ends = declaration.char_indices().rev();
    let before_name = ends.find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_'));
    let name_at = before_name.map_or(0, |(i, c)| i + c.len_utf8());
    let (type_text, name) = declaration.split_at(name_at);
    let type_text = type_text.trim();
    if name.is_empty() || type_text.is_empty() {
        return None;
    }
    let kind = if type_text.starts_with("__data_loc") {
        FieldKind::DataLoc
    } else if type_text.starts_with("__rel_loc") {
        FieldKind::RelLoc
    } else {
        match brackets {
            None => FieldKind::Scalar,
            Some(_) if size == 0 => FieldKind::Rest,
            // The number may be a macro's name or an expression: then the element type's size tells.
            Some(count) => FieldKind::Array {
                count: count.trim().parse().unwrap_or_else(|_| size / element_size(type_text).clamp(1, size)),
            },
        }
    };
    Some(Field { name: name.to_owned(), type_text: type_text.to_owned(), offset, size, signed, kind })
}

/// Size of a C element type by name; a pointer or `long` counts as 8, since only 64-bit kernels are recorded.
fn element_size(type_text: &str) -> usize {
    let base = type_text.trim_start_matches("const ").trim_start_matches("unsigned ").trim();
    match base {
        "char" | "u8" | "s8" | "__u8" | "__s8" | "bool" | "uint8_t" | "int8_t" => 1,
        "short" | "u16" | "s16" | "__u16" | "__s16" | "uint16_t" | "int16_t" => 2,
        "int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" | "pid_t" | "uint32_t" | "int32_t" => 4,
        _ => 8,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Kernel, SwitchRecord};
    use proptest::prelude::*;

    fn fixture(name: &str) -> EventFormat {
        let path = format!("{}/tests/fixtures/kernels/6.18/{name}", env!("CARGO_MANIFEST_DIR"));
        EventFormat::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn field(text: &str) -> Field {
        parse_field(text).unwrap()
    }

    #[test]
    fn offsets_follow_the_kernel() {
        for (kernel, prev_state, next_pid) in
            [(Kernel::V4_4, 32, 56), (Kernel::V6_6Rt, 40, 64), (Kernel::V6_18, 32, 56)]
        {
            let format = EventFormat::parse(kernel.sched_switch()).unwrap();
            assert_eq!(format.field("prev_state").unwrap().offset, prev_state, "{kernel:?}");
            assert_eq!(format.field("next_pid").unwrap().offset, next_pid, "{kernel:?}");
            assert_eq!(format.field("common_pid").unwrap().offset, 4, "{kernel:?}");
        }
        let rt = EventFormat::parse(Kernel::V6_6Rt.sched_switch()).unwrap();
        assert_eq!(rt.common.len(), 5, "PREEMPT_RT adds common_preempt_lazy_count");
        assert_eq!((rt.id, rt.name.as_str()), (323, "sched_switch"));
    }

    #[test]
    fn kinds_of_fields() {
        let comm = field("char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;");
        assert_eq!((comm.kind, comm.type_text.as_str()), (FieldKind::Array { count: 16 }, "char"));
        assert!(comm.is_text());
        let args = field("unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!(args.kind, FieldKind::Array { count: 6 });
        let named = field("int v[MAX_OF * 2];\toffset:16;\tsize:16;\tsigned:1;");
        assert_eq!(named.kind, FieldKind::Array { count: 4 });
        let buf = field("char buf[];\toffset:16;\tsize:0;\tsigned:0;");
        assert_eq!(buf.kind, FieldKind::Rest);
        let loc = field("__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;");
        assert_eq!((loc.kind, loc.name.as_str()), (FieldKind::DataLoc, "name"));
        assert!(loc.is_text());
        let pointer = field("char * buf;\toffset:24;\tsize:8;\tsigned:0;");
        assert_eq!((pointer.kind, pointer.type_text.as_str()), (FieldKind::Scalar, "char *"));
        assert!(!pointer.is_text());
        assert_eq!(field("u64 x; offset:0; size:8;").kind, FieldKind::Scalar, "`signed` is missing on old kernels");
    }

    #[test]
    fn reads_numbers_and_text_in_place() {
        let format = fixture("sched_switch");
        let record = SwitchRecord {
            prev_comm: b"a) R 1 (b",
            prev_pid: -7,
            prev_prio: 120,
            prev_state: 0x100,
            next_comm: b"\xffx",
            next_pid: 42,
            next_prio: 98,
        }
        .encode(&format);
        let get = |name: &str| format.field(name).unwrap();
        assert_eq!(get("prev_comm").string(&record), Some(&b"a) R 1 (b"[..]));
        assert_eq!(get("prev_pid").i64(&record), Some(-7));
        assert_eq!(get("prev_pid").u64(&record), Some(0xffff_fff9));
        assert_eq!(get("prev_state").i64(&record), Some(0x100));
        assert_eq!(get("next_comm").string(&record), Some(&b"\xffx"[..]));
        assert_eq!(get("common_type").u64(&record), Some(372));
        assert_eq!(get("next_prio").u64(&record[..60]), None, "a short record has no such field");
    }

    #[test]
    fn data_loc_is_followed_within_the_record_only() {
        let format = fixture("sched_process_exec");
        let file = format.field("filename").unwrap();
        let mut record = vec![0_u8; 20];
        record[8..12].copy_from_slice(&(8_u32 << 16 | 20).to_ne_bytes());
        record.extend(b"/bin/ls\0");
        assert_eq!(file.string(&record), Some(&b"/bin/ls"[..]));
        record[8..12].copy_from_slice(&(9_u32 << 16 | 20).to_ne_bytes());
        assert_eq!(file.bytes(&record), None, "reaches beyond");
        record[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(file.bytes(&record), None);
        let relative = Field { kind: FieldKind::RelLoc, ..file.clone() };
        // The field ends at 12; the text is at 20, so 8 further on.
        record[8..12].copy_from_slice(&(8_u32 << 16 | 8).to_ne_bytes());
        assert_eq!(relative.string(&record), Some(&b"/bin/ls"[..]));
    }

    #[test]
    fn names_end_at_the_first_nul() {
        for (bytes, len) in [
            (&b"kworker/0:1\0\0\0\0\0"[..], 11),
            (b"\0swapper\0\0\0\0\0\0\0\0", 0),
            (b"fifteen-bytes-x\0", 15),
            (b"sixteen-bytes-xx", 16),
            (b"\x01\x80\x81\xff\0\x01\0\x01\0\x01\0\x01\0\x01\0\x01", 4),
            (b"\x01\x01\0", 2),
            (b"", 0),
        ] {
            assert_eq!(text_len(bytes), len, "{bytes:?}");
        }
    }

    #[test]
    fn a_declaration_that_is_not_ascii_is_taken_apart_between_characters() {
        let field = parse_field("int \u{65c}x; offset:8; size:4; signed:1;").unwrap();
        assert_eq!((field.name.as_str(), field.type_text.as_str()), ("x", "int \u{65c}"));
        assert_eq!(parse_field("int x\u{65c}; offset:8; size:4; signed:1;"), None, "no name");
    }

    #[test]
    fn every_fixture_parses() {
        let folder = format!("{}/tests/fixtures/kernels", env!("CARGO_MANIFEST_DIR"));
        let mut parsed = 0;
        for kernel in std::fs::read_dir(folder).unwrap().flatten().filter(|e| e.path().is_dir()) {
            for file in std::fs::read_dir(kernel.path()).unwrap().flatten() {
                if file.file_name() != "header_page" {
                    let format = EventFormat::parse(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
                    assert_eq!(format.name.as_str(), file.file_name().to_str().unwrap());
                    parsed += 1;
                }
            }
        }
        assert!(parsed >= 28, "{parsed}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        assert_eq!(EventFormat::parse(""), Err(FormatError::Missing("name:")));
        assert_eq!(EventFormat::parse("name: x\n"), Err(FormatError::Missing("ID:")));
        let wrong = EventFormat::parse("name: x\nID: 70000\n").unwrap_err();
        assert_eq!(wrong, FormatError::Line { line: 2, text: "ID: 70000".to_owned() });
        let field = EventFormat::parse("name: x\nID: 7\n\tfield:int \x1b[2J;\toffset:8;\n").unwrap_err();
        assert!(!field.to_string().contains('\x1b'), "{field}");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "(name: a\nID: 3\n)?(\\PC{0,40}|\tfield:[a-z \\[\\]0-9_;:]{0,60}\n){0,6}") {
            if let Ok(format) = EventFormat::parse(&text) {
                let record = [0xff_u8; 64];
                for field in &format.fields {
                    let _ = (field.u64(&record), field.i64(&record), field.string(&record));
                }
                let _ = format.min_size();
            }
        }

        #[test]
        fn a_number_reads_as_its_field(
            offset in 0_usize..40, size in prop::sample::select(vec![1_usize, 2, 4, 8]), record in prop::collection::vec(any::<u8>(), 8..48),
        ) {
            let kind = FieldKind::Scalar;
            let field = Field { name: "f".into(), type_text: "x".into(), offset, size, signed: false, kind };
            let number = field.number().unwrap();
            prop_assert_eq!(number.u64(&record), field.u64(&record));
            prop_assert_eq!(number.i64(&record), field.i64(&record));
        }

        #[test]
        fn fields_never_leave_the_record(
            offset in 0_usize..100, size in 0_usize..20, loc: bool, record in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let kind = if loc { FieldKind::DataLoc } else { FieldKind::Scalar };
            let field = Field { name: "f".into(), type_text: "x".into(), offset, size, signed: false, kind };
            if let Some(bytes) = field.bytes(&record) {
                let range = record.as_ptr_range();
                prop_assert!(range.contains(&bytes.as_ptr()) || bytes.is_empty());
                prop_assert!(bytes.as_ptr_range().end <= range.end);
            }
            prop_assert_eq!(field.u64(&record).is_some(), matches!(size, 1 | 2 | 4 | 8) && offset + size <= record.len());
        }
    }
}
