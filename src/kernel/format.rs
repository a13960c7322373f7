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
        Some(match bytes.iter().position(|b| *b == 0) {
            Some(end) => &bytes[..end],
            None => bytes,
        })
    }

    /// True for arrays of `char` in any form: the field is text.
    pub fn is_text(&self) -> bool {
        let element = self.type_text.trim_start_matches("__data_loc ").trim_start_matches("__rel_loc ");
        self.kind != FieldKind::Scalar && matches!(element.trim_end_matches("[]").trim(), "char" | "const char")
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
    let name_at = declaration.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
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
