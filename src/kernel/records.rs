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
    /// The next record is at or after the limit, at this time (ns of the instance's clock); it stays to be taken later.
    Later(u64),
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
                return Step::Later(ts);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::PageWriter;
    use proptest::prelude::*;

    const LAYOUT: PageLayout = PageLayout::USUAL;

    /// Times and first data bytes of all records, and the damage if any.
    fn walk(layout: &PageLayout, page: &[u8]) -> (Vec<(u64, u8)>, Option<AbiError>) {
        let mut cursor = Cursor::open(layout, page).unwrap();
        let (mut seen, mut damage) = (Vec::new(), None);
        loop {
            match cursor.next(page) {
                Step::Record(record) => seen.push((record.ts, record.data[0])),
                Step::Damaged(error) => damage = Some(error),
                Step::Later(_) => panic!("no limit was given"),
                Step::End => return (seen, damage),
            }
        }
    }

    fn writer(ts: u64) -> PageWriter {
        PageWriter::new(LAYOUT, ts)
    }

    #[test]
    fn case_1_extends_add_and_stamps_replace() {
        let mut w = writer(1000);
        assert!(w.data(1010, &[1; 8]));
        assert!(w.time_extend(1 << 30));
        assert!(w.data(1010 + (1 << 30) + 5, &[2; 8]));
        assert!(w.time_stamp(0x7ff_ffff_ffff_fff0));
        assert!(w.data(0x7ff_ffff_ffff_fff2, &[3; 8]));
        assert!(w.time_stamp(123), "a stamp may go back: it replaces");
        assert!(w.data(125, &[4; 8]));
        let (seen, damage) = walk(&LAYOUT, &w.finish());
        assert_eq!(seen, [(1010, 1), (1_073_742_839, 2), (0x7ff_ffff_ffff_fff2, 3), (125, 4)]);
        assert_eq!(damage, None);
    }

    #[test]
    fn case_1_a_stamp_keeps_the_upper_five_bits() {
        let upper = 3_u64 << STAMP_BITS;
        assert_eq!(absolute(500, upper | 400), upper | 500);
        assert_eq!(absolute(300, upper | 400), (4 << STAMP_BITS) | 300, "59 bits went round");
        assert_eq!(absolute(300, 400), 300);
    }

    #[test]
    fn case_2_padding_skips_exactly_its_length() {
        let mut w = writer(100);
        assert!(w.data(110, &[1; 4]));
        assert!(w.padding(1, 40), "a discarded event whose delta was 0");
        assert!(w.data(120, &[2; 4]));
        assert!(w.padding(30, 8), "a discarded event 30 ns later");
        assert!(w.data(121, &[3; 4]));
        assert!(w.end_padding());
        assert!(w.data(999, &[4; 4]), "behind the end: must not be seen");
        assert_eq!(walk(&LAYOUT, &w.finish()), (vec![(110, 1), (120, 2), (151, 3)], None));
    }

    #[test]
    fn case_2_padding_that_cannot_be() {
        let bad = |length: u32| {
            let mut w = writer(0);
            assert!(w.raw(&[(2 << 5 | 29_u32).to_le_bytes(), length.to_le_bytes()].concat()));
            walk(&LAYOUT, &w.finish()).1
        };
        if cfg!(target_endian = "little") {
            assert_eq!(bad(0), Some(AbiError::InvalidPaddingLength));
            assert_eq!(bad(3), Some(AbiError::InvalidPaddingLength));
            assert_eq!(bad(4), None);
            assert_eq!(bad(8), Some(AbiError::InvalidPaddingLength));
            assert_eq!(bad(u32::MAX), Some(AbiError::InvalidPaddingLength));
        }
    }

    #[test]
    fn case_3_a_page_that_turns_to_zeros_loses_its_rest_only() {
        let mut w = writer(5);
        assert!(w.data(6, &[1; 40]));
        assert!(w.data(7, &[2; 40]));
        let whole = w.finish_with(0, Some(4000));
        assert_eq!(walk(&LAYOUT, &whole), (vec![(6, 1), (7, 2)], Some(AbiError::ZeroDataLength)));
        assert_eq!(AbiError::ZeroDataLength.status(), 12);
    }

    #[test]
    fn case_3_records_cut_off_by_the_end() {
        let mut w = writer(5);
        assert!(w.data(6, &[1; 64]));
        let cut = |len| walk(&LAYOUT, &w.clone().finish_with(0, Some(len))).1;
        assert_eq!(cut(68), None);
        assert_eq!(cut(67), Some(AbiError::EndOverflow));
        assert_eq!(cut(3), Some(AbiError::ShortEventHeader));
        let mut w = writer(5);
        assert!(w.data(6, &[1; 200]));
        assert_eq!(walk(&LAYOUT, &w.clone().finish_with(0, Some(4))).1, Some(AbiError::ShortDataLength));
        assert_eq!(walk(&LAYOUT, &w.finish_with(0, Some(100))).1, Some(AbiError::EndOverflow));
        for (kind, error) in [(30, AbiError::ShortTimeExtend), (31, AbiError::ShortTimeStamp)] {
            let mut w = writer(5);
            assert!(if kind == 30 { w.time_extend(9) } else { w.time_stamp(9) });
            assert_eq!(walk(&LAYOUT, &w.finish_with(0, Some(4))).1, Some(error));
        }
    }

    #[test]
    fn case_5_every_sub_buffer_size() {
        for kb in [4, 8, 16, 64] {
            let layout = PageLayout::of_size(kb * 1024);
            let mut w = PageWriter::new(layout, 0);
            let mut written = 0;
            while w.data(written * 10, &[7; 64]) {
                written += 1;
            }
            // 4 bytes of header and 64 of data each.
            assert_eq!(written as usize, (kb * 1024 - 16) / 68);
            let (seen, damage) = walk(&layout, &w.finish());
            assert_eq!((seen.len() as u64, damage), (written, None));
            assert_eq!(seen.last().unwrap().0, (written - 1) * 10);
        }
    }

    #[test]
    fn stops_at_a_time_and_goes_on_later() {
        let mut w = writer(0);
        for (ts, byte) in [(10, 1), (20, 2), (1 << 40, 3), ((1 << 40) + 1, 4)] {
            assert!(w.data(ts, &[byte; 4]));
        }
        let page = w.finish();
        let mut cursor = Cursor::open(&LAYOUT, &page).unwrap();
        let mut take = |limit| match cursor.next_before(&page, limit) {
            Step::Record(record) => Some((record.ts, record.data[0])),
            Step::Later(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(take(20), Some((10, 1)));
        assert_eq!(take(20), None);
        assert_eq!(take(20), None, "asking again changes nothing");
        assert_eq!(take(21), Some((20, 2)));
        assert_eq!(take(1 << 40), None, "the time extend in front may be taken, the record stays");
        assert_eq!(take((1 << 40) + 1), Some((1 << 40, 3)));
        assert_eq!(take(u64::MAX), Some(((1 << 40) + 1, 4)));
        assert_eq!(cursor.next_before(&page, u64::MAX), Step::End);
        assert!(cursor.is_done());
    }

    #[test]
    fn long_records_and_their_id() {
        let mut w = writer(0);
        let mut data = vec![9; 1000];
        data[..2].copy_from_slice(&372_u16.to_ne_bytes());
        assert!(w.data(3, &data));
        let page = w.finish();
        let mut cursor = Cursor::open(&LAYOUT, &page).unwrap();
        let Step::Record(record) = cursor.next(&page) else { panic!("one record") };
        assert_eq!((record.ts, record.id(), record.data), (3, 372, &data[..]));
    }

    proptest! {
        #[test]
        fn case_3_random_pages_never_panic_nor_leave_the_page(
            page in prop::collection::vec(any::<u8>(), 0..600), commit in 0_u32..600, flags in 0_u32..4, limit: u64,
        ) {
            let mut page = page;
            if let Some(place) = page.get_mut(8..16) {
                place.copy_from_slice(&u64::from(commit | flags << 30).to_ne_bytes());
            }
            let Ok(mut cursor) = Cursor::open(&LAYOUT, &page) else { return Ok(()) };
            let range = page.as_ptr_range();
            for _ in 0..page.len() + 2 {
                match cursor.next_before(&page, limit) {
                    Step::Record(record) => {
                        let data = record.data.as_ptr_range();
                        prop_assert!(range.start <= data.start && data.end <= range.end);
                        prop_assert!(record.ts < limit);
                        prop_assert!(record.data.len() >= 4);
                    }
                    Step::Damaged(_) => prop_assert!(cursor.is_done()),
                    Step::Later(_) | Step::End => return Ok(()),
                }
            }
            prop_assert!(false, "the walk must end");
        }

        #[test]
        fn what_is_written_is_read_back(deltas in prop::collection::vec((0_u64..1 << 34, 1_usize..200, any::<u8>()), 0..60)) {
            let mut w = writer(7);
            let (mut ts, mut expected) = (7, Vec::new());
            for (delta, len, byte) in deltas {
                ts += delta;
                if w.data(ts, &vec![byte; len]) {
                    expected.push((ts, byte));
                } else {
                    ts = w.ts();
                }
            }
            prop_assert_eq!(walk(&LAYOUT, &w.finish()), (expected, None));
        }
    }
}
