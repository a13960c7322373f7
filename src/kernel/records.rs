//! Walking the records of a sub-buffer: a pull-style cursor that allocates nothing and never panics.
//!
//! The cursor does not borrow the page: it can stop at a point in time, be put aside with the page's
//! buffer, and go on in a later cycle of the recorder. Knows record types and times, not events.

use super::page::{AbiError, PageHeader, PageLayout, read_u32};

// ring_buffer_type of include/linux/ring_buffer.h; 0..=28 are data.
const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// Absolute stamps carry 59 bits; the upper five are the running time's (TS_MSB of ring_buffer.c).
const STAMP_BITS: u32 = 59;

/// One data record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'p> {
    /// ns of the instance's clock.
    pub ts: u64,
    /// The event's bytes; offsets of [`super::format::Field`]s count from here. At least 4 bytes.
    pub data: &'p [u8],
}

impl Record<'_> {
    /// `common_type`: which event (see [`super::format::EventFormat::id`]).
    #[inline]
    pub fn id(&self) -> u16 {
        match self.data.first_chunk() {
            Some(id) => u16::from_ne_bytes(*id),
            None => 0,
        }
    }
}

/// What [`Cursor::next_before`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'p> {
    /// A record, before the limit.
    Record(Record<'p>),
    /// The next record is at or after the limit; it stays to be taken later.
    Later,
    /// No more records in this sub-buffer.
    End,
    /// The rest of this sub-buffer cannot be read and is dropped; told once, then `End`.
    Damaged(AbiError),
}

/// A position in one sub-buffer. Every call takes the same page that [`Cursor::open`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    at: usize,
    end: usize,
    ts: u64,
    header: PageHeader,
}

impl Cursor {
    /// Reads the page's header and stands in front of its first record.
    pub fn open(layout: &PageLayout, page: &[u8]) -> Result<Cursor, AbiError> {
        let header = PageHeader::read(layout, page)?;
        let at = layout.header_size();
        Ok(Cursor { at, end: at + header.len, ts: header.timestamp, header })
    }

    /// The header of the page, with the loss in front of it.
    pub fn header(&self) -> &PageHeader {
        &self.header
    }

    /// The running time: the last record's (or time extend's), at first the page's.
    pub fn ts(&self) -> u64 {
        self.ts
    }

    /// True when nothing is left.
    pub fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Bytes of records not yet walked.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// The next record, whenever it happened.
    #[inline]
    pub fn next<'p>(&mut self, page: &'p [u8]) -> Step<'p> {
        self.step(page, None)
    }

    /// The next record if its time is before `limit`; otherwise [`Step::Later`], and the record stays.
    #[inline]
    pub fn next_before<'p>(&mut self, page: &'p [u8], limit: u64) -> Step<'p> {
        self.step(page, Some(limit))
    }

    #[inline]
    fn step<'p>(&mut self, page: &'p [u8], limit: Option<u64>) -> Step<'p> {
        // A caller that hands a shorter page than the opened one gets a short walk, not a panic.
        let Some(bytes) = page.get(..self.end) else { return self.damaged(AbiError::PartialPageRead) };
        while self.at < self.end {
            let Some(word) = read_u32(bytes, self.at) else { return self.damaged(AbiError::ShortEventHeader) };
            let (kind, delta) = split(word);
            let body = self.at + 4;
            let (start, len) = match kind {
                1..TYPE_PADDING => (body, (kind * 4) as usize),
                0 => match long_record(bytes, body) {
                    Ok(len) => (body + 4, len),
                    Err(error) => return self.damaged(error),
                },
                _ => {
                    if let Err(error) = self.special(bytes, kind, delta) {
                        return self.damaged(error);
                    }
                    continue;
                }
            };
            let ts = self.ts.wrapping_add(delta);
            if limit.is_some_and(|limit| ts >= limit) {
                return Step::Later;
            }
            let Some(data) = bytes.get(start..start + len) else { return self.damaged(AbiError::EndOverflow) };
            self.ts = ts;
            self.at = start + len;
            return Step::Record(Record { ts, data });
        }
        Step::End
    }

    /// Padding and the two kinds of time records.
    #[inline]
    fn special(&mut self, bytes: &[u8], kind: u32, delta: u64) -> Result<(), AbiError> {
        let second = read_u32(bytes, self.at + 4);
        match kind {
            TYPE_TIME_EXTEND => {
                let high = u64::from(second.ok_or(AbiError::ShortTimeExtend)?);
                self.ts = self.ts.wrapping_add(high << DELTA_BITS | delta);
                self.at += 8;
            }
            TYPE_TIME_STAMP => {
                let high = u64::from(second.ok_or(AbiError::ShortTimeStamp)?);
                self.ts = absolute(high << DELTA_BITS | delta, self.ts);
                self.at += 8;
            }
            // Padding without a delta fills the page up to its end.
            _ if delta == 0 => self.at = self.end,
            _ => {
                // A discarded event. Its time counts for those behind it, unless it is the 1 that the kernel puts
                // where there was 0 (rb_event_discard and rb_read_data_buffer of ring_buffer.c).
                let length = second.ok_or(AbiError::ShortPaddingLength)? as usize;
                let next = self.at + 4 + length;
                if length < 4 || next > self.end {
                    return Err(AbiError::InvalidPaddingLength);
                }
                if delta != 1 {
                    self.ts = self.ts.wrapping_add(delta);
                }
                self.at = next;
            }
        }
        Ok(())
    }

    #[cold]
    fn damaged<'p>(&mut self, error: AbiError) -> Step<'p> {
        self.at = self.end;
        Step::Damaged(error)
    }
}

/// Type and time delta of a record's first word (a C bit-field: its order is the machine's byte order).
#[inline]
fn split(word: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (word & 31, u64::from(word >> 5))
    } else {
        (word >> DELTA_BITS, u64::from(word & ((1 << DELTA_BITS) - 1)))
    }
}

/// Data length of a record of type 0: the length word counts itself; the kernel rounds up to 4.
#[inline]
fn long_record(bytes: &[u8], at: usize) -> Result<usize, AbiError> {
    match read_u32(bytes, at).ok_or(AbiError::ShortDataLength)? as usize {
        0 => Err(AbiError::ZeroDataLength),
        length if length < 4 + 2 => Err(AbiError::ShortEventId),
        length => Ok((length - 4).next_multiple_of(4)),
    }
}

/// An absolute stamp's 59 bits completed by the running time's upper five (rb_fix_abs_ts of ring_buffer.c).
#[inline]
fn absolute(stamp: u64, running: u64) -> u64 {
    let upper = running >> STAMP_BITS << STAMP_BITS;
    let full = upper | stamp;
    if upper != 0 && full < running { full.wrapping_add(1 << STAMP_BITS) } else { full }
}
