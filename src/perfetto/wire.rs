//! The protobuf wire format, by hand: what the hot paths of the codec need and prost would allocate for.
//!
//! Facts: protobuf.dev/programming-guides/encoding. Never panics on any input; a reader that meets something
//! malformed says where and stops.

/// Wire type of a field that holds a varint.
pub(super) const VARINT: u32 = 0;
/// Wire type of a field that holds eight bytes.
pub(super) const FIXED64: u32 = 1;
/// Wire type of a field that holds a length and that many bytes.
pub(super) const BYTES: u32 = 2;
/// Wire type of a field that holds four bytes.
pub(super) const FIXED32: u32 = 5;

/// Appends a varint. One to three bytes, which is nearly all of them, are single stores: a copy of a length that is
/// only known at run time would be a call.
// Always: a call costs as much as the stores, and the encoder makes eleven of them for a wake-up and its run.
#[inline(always)]
pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 1 << 7 {
        out.push(value as u8);
    } else if value < 1 << 14 {
        out.push(value as u8 | 0x80);
        out.push((value >> 7) as u8);
    } else if value < 1 << 21 {
        out.push(value as u8 | 0x80);
        out.push((value >> 7) as u8 | 0x80);
        out.push((value >> 14) as u8);
    } else {
        put_long_varint(out, value);
    }
}

/// The same for values whose length changes from one to the next (times, thread ids): nothing is left to branch
/// prediction, whose misses would cost more than all the rest.
#[inline(always)]
pub(super) fn put_varied_varint(out: &mut Vec<u8>, value: u64) {
    if value >= u64::from(SHORT) {
        return put_long_varint(out, value);
    }
    let (bytes, len) = short_varint(value as u32);
    let end = out.len() + len as usize;
    out.extend_from_slice(&bytes.to_le_bytes());
    out.truncate(end);
}

/// Values below this have a varint of at most four bytes.
pub(super) const SHORT: u32 = 1 << 28;

/// The varint of a value below [`SHORT`], the first byte lowest, and how many bytes it has; found without a branch, and with
/// nothing that a processor could not do for several values at once.
#[inline(always)]
pub(super) fn short_varint(value: u32) -> (u32, u32) {
    let groups = value & 0x7f | (value & 0x3f80) << 1 | (value & 0x1f_c000) << 2 | (value & 0xfe0_0000) << 3;
    // All ones where another byte follows.
    let follows = |least: i32| -> u32 { if value as i32 >= least { u32::MAX } else { 0 } };
    let (second, third, fourth) = (follows(1 << 7), follows(1 << 14), follows(1 << 21));
    let more = second & 0x80 | third & 0x8000 | fourth & 0x80_0000;
    let len = 1u32.wrapping_sub(second).wrapping_sub(third).wrapping_sub(fourth);
    (groups | more, len)
}

#[cold]
#[inline(never)]
fn put_long_varint(out: &mut Vec<u8>, mut value: u64) {
    let mut buf = [0u8; 10];
    let mut len = 0;
    while value >= 0x80 {
        buf[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    buf[len] = value as u8;
    out.extend_from_slice(&buf[..=len]);
}

/// Bytes that [`put_varint`] writes.
#[inline]
pub(super) fn varint_len(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Appends a field's key; of a field number known at compile time, one store.
#[inline(always)]
pub(super) fn put_key(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    put_varint(out, u64::from(field << 3 | wire_type));
}

/// Appends a varint field. Negative numbers are sign-extended to 64 bits first, as `int32`/`int64` are.
#[inline(always)]
pub(super) fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    put_key(out, field, VARINT);
    put_varint(out, value);
}

/// Appends a bytes, string or message field.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_key(out, field, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that [`put_bytes`] writes for a field of `len` bytes.
pub(super) fn bytes_field_len(field: u32, len: usize) -> usize {
    varint_len(u64::from(field << 3)) + varint_len(len as u64) + len
}

/// Malformed bytes: where, counted from the start of the slice given to the reader, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Offset in the slice the reader was made of.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Reads one varint at `*at`.
#[inline]
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, Malformed> {
    match bytes.get(*at) {
        Some(&first) if first < 0x80 => {
            *at += 1;
            Ok(u64::from(first))
        }
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: &mut usize) -> Result<u64, Malformed> {
    let start = *at;
    let mut value = 0u64;
    for (i, &byte) in bytes.get(start..).unwrap_or_default().iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * i as u32).unwrap_or(0);
        if byte < 0x80 {
            *at = start + i + 1;
            return Ok(value);
        }
    }
    let what =
        if bytes.len() - start.min(bytes.len()) >= 10 { "a varint longer than 10 bytes" } else { "a varint cut short" };
    Err(Malformed { at: start, what })
}

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint.
    Uint(u64),
    /// Four or eight bytes, as their bits.
    Fixed(u64),
    /// A string, message or packed column, and where it starts in the slice the reader was made of.
    Bytes(&'a [u8], usize),
}

impl<'a> Value<'a> {
    /// The number, or 0 for bytes (a field of the wrong type reads as not set).
    pub(super) fn uint(self) -> u64 {
        match self {
            Value::Uint(v) | Value::Fixed(v) => v,
            Value::Bytes(..) => 0,
        }
    }

    /// The bytes, or none for a number.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(b, _) => b,
            _ => &[],
        }
    }
}

/// Walks the fields of one message in order, known or not.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0 }
    }

    /// Number and value of the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let start = self.at;
        let key = varint(self.bytes, &mut self.at)?;
        let field = u32::try_from(key >> 3).unwrap_or(0);
        if field == 0 {
            return Err(Malformed { at: start, what: "a field number of 0 or beyond 32 bits" });
        }
        let value = match key as u32 & 7 {
            VARINT => Value::Uint(varint(self.bytes, &mut self.at)?),
            BYTES => {
                let len = varint(self.bytes, &mut self.at)?;
                let from = self.at;
                Value::Bytes(self.take(len, start)?, from)
            }
            FIXED32 => Value::Fixed(little_endian(self.take(4, start)?)),
            FIXED64 => Value::Fixed(little_endian(self.take(8, start)?)),
            _ => return Err(Malformed { at: start, what: "an unknown wire type" }),
        };
        Ok(Some((field, value)))
    }

    fn take(&mut self, len: u64, field_start: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        match usize::try_from(len).ok().and_then(|n| rest.get(..n)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(Malformed { at: field_start, what: "a field that ends beyond its message" }),
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |acc, &b| acc << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varints_of_the_documentation() {
        let mut out = Vec::new();
        put_varint(&mut out, 150);
        assert_eq!(out, [0x96, 0x01]);
        out.clear();
        put_uint(&mut out, 1, -1i64 as u64);
        assert_eq!(out, [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!((varint_len(0), varint_len(127), varint_len(128), varint_len(u64::MAX)), (1, 1, 2, 10));
    }

    #[test]
    fn malformed_bytes_say_where() {
        assert_eq!(varint(&[0x80], &mut 0), Err(Malformed { at: 0, what: "a varint cut short" }));
        assert_eq!(varint(&[0xff; 11], &mut 0), Err(Malformed { at: 0, what: "a varint longer than 10 bytes" }));
        assert_eq!(varint(&[], &mut 5), Err(Malformed { at: 5, what: "a varint cut short" }));
        let mut f = Fields::new(&[8, 1, 0x12, 3, b'a']);
        assert_eq!(f.next(), Ok(Some((1, Value::Uint(1)))));
        assert_eq!(f.next(), Err(Malformed { at: 2, what: "a field that ends beyond its message" }));
        assert!(Fields::new(&[0x0b]).next().is_err(), "groups are not in any of these messages");
        assert!(Fields::new(&[0x00, 0x00]).next().is_err());
    }

    proptest! {
        #[test]
        fn varints_round_trip(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut same = Vec::new();
            put_varied_varint(&mut same, value);
            prop_assert_eq!(&same, &out);
            let mut at = 0;
            prop_assert_eq!(varint(&out, &mut at), Ok(value));
            prop_assert_eq!(at, out.len());
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut fields = Fields::new(&bytes);
            while let Ok(Some(_)) = fields.next() {}
        }
    }
}
