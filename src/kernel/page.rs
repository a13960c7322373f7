//! Sub-buffers: their geometry (from `events/header_page`) and the header in front of each one's records.
//!
//! A sub-buffer is what one read of `trace_pipe_raw` gives. The layout is that of the *instance*, read after
//! its sub-buffer size was set. Looks at bytes only; walking the records is [`super::records`]'s part.

use super::format::{FormatError, parse_field};

/// Where things stand in a sub-buffer of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    timestamp_at: usize,
    commit_at: usize,
    commit_size: usize,
    data_at: usize,
    size: usize,
}

impl PageLayout {
    /// What nearly every 64-bit kernel has: 4 KiB, 8-byte time, 8-byte commit word, data from 16.
    pub const USUAL: PageLayout = PageLayout::of_size(4096);

    /// The 64-bit layout for another sub-buffer size in bytes (at least 32).
    pub const fn of_size(size: usize) -> PageLayout {
        PageLayout {
            timestamp_at: 0,
            commit_at: 8,
            commit_size: 8,
            data_at: 16,
            size: if size < 32 { 32 } else { size },
        }
    }

    /// Parses the text of the instance's `events/header_page`.
    pub fn parse(text: &str) -> Result<PageLayout, FormatError> {
        let fields: Vec<_> =
            text.lines().filter_map(|l| l.trim().strip_prefix("field:")).filter_map(parse_field).collect();
        let find = |name| fields.iter().find(|f| f.name == name).ok_or(FormatError::Missing(name));
        let (timestamp, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let size = data.offset.checked_add(data.size).filter(|s| *s <= MAX_SUB_BUFFER);
        let fits = |end: usize| end <= data.offset;
        match (timestamp.size, commit.size, size) {
            (8, commit_size @ (4 | 8), Some(size))
                if data.size >= 8 && fits(timestamp.offset + 8) && fits(commit.offset + commit_size) =>
            {
                Ok(PageLayout {
                    timestamp_at: timestamp.offset,
                    commit_at: commit.offset,
                    commit_size,
                    data_at: data.offset,
                    size,
                })
            }
            _ => Err(FormatError::Line { line: 1, text: text.chars().take(200).collect() }),
        }
    }

    /// Bytes of one sub-buffer, header included: what to read at once.
    pub fn sub_buffer_size(&self) -> usize {
        self.size
    }

    /// Bytes in front of the records.
    pub fn header_size(&self) -> usize {
        self.data_at
    }

    /// Bytes of the kernel's `unsigned long` (and `local_t`): 8, or 4 on a 32-bit kernel.
    pub fn long_size(&self) -> usize {
        self.commit_size
    }

    pub(super) fn timestamp_at(&self) -> usize {
        self.timestamp_at
    }

    pub(super) fn commit_at(&self) -> usize {
        self.commit_at
    }
}

/// The kernel caps sub-buffers at 128 pages of 64 KiB; anything larger is a misread file.
const MAX_SUB_BUFFER: usize = 128 * 64 * 1024;

/// Events lost between the previous sub-buffer of this CPU and this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// None.
    #[default]
    None,
    /// Some; how many the page had no room to say (normal after a wrap, `stats` knows).
    Some,
    /// This many.
    Count(u64),
}

impl Missed {
    /// True if events were lost.
    pub fn any(self) -> bool {
        self != Missed::None
    }
}

/// The header of one sub-buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// Time from which the first record's delta counts, ns of the instance's clock.
    pub timestamp: u64,
    /// Bytes of records that follow the header.
    pub len: usize,
    /// Loss in front of this sub-buffer.
    pub missed: Missed,
}

/// RB_MISSED_EVENTS and RB_MISSED_STORED of kernel/trace/ring_buffer.c.
pub(super) const MISSED_EVENTS: u32 = 1 << 31;
pub(super) const MISSED_STORED: u32 = 1 << 30;

impl PageHeader {
    /// Makes the header of `page` say that events are missing in front of it, how many is not known: for a reader that had to
    /// leave out what came before.
    pub fn mark_missed(layout: &PageLayout, page: &mut [u8]) {
        let size = if layout.commit_size == 8 { 8 } else { 4 };
        let Some(place) = page.get_mut(layout.commit_at..layout.commit_at + size) else { return };
        let low = if cfg!(target_endian = "big") { size - 4 } else { 0 };
        if let Some(word) = place[low..].first_chunk_mut::<4>() {
            *word = (u32::from_ne_bytes(*word) & !MISSED_STORED | MISSED_EVENTS).to_ne_bytes();
        }
    }

    /// Reads the header of `page`, which may be shorter than a whole sub-buffer.
    pub fn read(layout: &PageLayout, page: &[u8]) -> Result<PageHeader, AbiError> {
        let timestamp = read_u64(page, layout.timestamp_at).ok_or(AbiError::PartialPageRead)?;
        // Only the low half counts: old kernels add the flags as a negative int, which sets all upper bits too.
        let commit = match layout.commit_size {
            8 => read_u64(page, layout.commit_at).map(|c| c as u32),
            _ => read_u32(page, layout.commit_at),
        }
        .ok_or(AbiError::PartialPageRead)?;
        let len = (commit & !(MISSED_EVENTS | MISSED_STORED)) as usize;
        let room = page.len().min(layout.size).checked_sub(layout.data_at).ok_or(AbiError::PartialPageRead)?;
        if len > room {
            let whole = len <= layout.size - layout.data_at;
            return Err(if whole { AbiError::PartialPageRead } else { AbiError::InvalidPageHeader });
        }
        let count_at = layout.data_at + len;
        let missed = match (commit & MISSED_EVENTS != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::None,
            (true, false) => Missed::Some,
            (true, true) => {
                let count = match layout.commit_size {
                    8 => read_u64(page, count_at),
                    _ => read_u32(page, count_at).map(u64::from),
                };
                count.map_or(Missed::Some, Missed::Count)
            }
        };
        Ok(PageHeader { timestamp, len, missed })
    }
}

/// What is wrong with a sub-buffer. Names and numbers are those of Perfetto's `FtraceParseStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AbiError {
    /// The read failed in a way that is not expected.
    #[error("the ring buffer could not be read")]
    UnexpectedReadError,
    /// Fewer bytes than the header promises.
    #[error("the sub-buffer was read in part only")]
    PartialPageRead,
    /// The header promises more than a sub-buffer holds.
    #[error("the sub-buffer's header is not valid")]
    InvalidPageHeader,
    /// A record's first word is cut off.
    #[error("a record's header is cut off")]
    ShortEventHeader,
    /// A padding record's length is cut off.
    #[error("a padding record is cut off")]
    ShortPaddingLength,
    /// A padding record reaches beyond the sub-buffer or has no length.
    #[error("a padding record's length is not valid")]
    InvalidPaddingLength,
    /// A time extend is cut off.
    #[error("a time extend is cut off")]
    ShortTimeExtend,
    /// An absolute time stamp is cut off.
    #[error("an absolute time stamp is cut off")]
    ShortTimeStamp,
    /// A long record's length is cut off.
    #[error("a long record's length is cut off")]
    ShortDataLength,
    /// A long record has no length (a sub-buffer that turned to zeros).
    #[error("a record has length zero")]
    ZeroDataLength,
    /// A record has no room for the id of its event.
    #[error("a record has no room for its event id")]
    ShortEventId,
    /// A record reaches beyond the sub-buffer's data.
    #[error("a record reaches beyond the sub-buffer")]
    EndOverflow,
}

impl AbiError {
    /// The number of `FtraceParseStatus` (perfetto, protos/perfetto/common/ftrace_descriptor and ftrace_stats).
    pub fn status(self) -> i32 {
        match self {
            AbiError::UnexpectedReadError => 2,
            AbiError::PartialPageRead => 3,
            AbiError::InvalidPageHeader => 4,
            AbiError::ShortEventHeader => 5,
            AbiError::ShortPaddingLength => 7,
            AbiError::InvalidPaddingLength => 8,
            AbiError::ShortTimeExtend => 9,
            AbiError::ShortTimeStamp => 10,
            AbiError::ShortDataLength => 11,
            AbiError::ZeroDataLength => 12,
            AbiError::ShortEventId => 14,
            AbiError::EndOverflow => 15,
        }
    }
}

#[inline]
pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[inline]
pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::{PageWriter, header_page};

    #[test]
    fn case_5_geometry_comes_from_header_page() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernels/6.18/header_page"))
                .unwrap();
        assert_eq!(PageLayout::parse(&text), Ok(PageLayout::USUAL));
        for kb in [4, 8, 16, 64] {
            let layout = PageLayout::parse(&header_page(kb * 1024)).unwrap();
            assert_eq!(layout.sub_buffer_size(), kb * 1024);
            assert_eq!(layout.header_size(), 16);
        }
        // A 32-bit kernel: local_t of 4 bytes, data from 12.
        let small = text
            .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        let small = PageLayout::parse(&small).unwrap();
        assert_eq!((small.long_size(), small.header_size(), small.sub_buffer_size()), (4, 12, 4096));
    }

    #[test]
    fn impossible_geometry_is_refused() {
        let good = header_page(4096);
        assert_eq!(PageLayout::parse(""), Err(FormatError::Missing("timestamp")));
        for (from, to) in [
            ("size:4080", "size:4294967295"),
            ("offset:16", "offset:4"),
            ("size:4080", "size:0"),
            ("local_t commit;\toffset:8;\tsize:8", "local_t commit;\toffset:8;\tsize:2"),
        ] {
            assert!(PageLayout::parse(&good.replace(from, to)).is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn case_4_missed_events_yes_no_and_how_many() {
        let layout = PageLayout::USUAL;
        let read = |page: &[u8]| PageHeader::read(&layout, page).unwrap();
        let mut writer = PageWriter::new(layout, 77);
        assert!(writer.data(80, b"12345678"));
        assert_eq!(read(&writer.clone().finish()), PageHeader { timestamp: 77, len: 12, missed: Missed::None });
        assert_eq!(read(&writer.clone().finish_missed(None)).missed, Missed::Some);
        assert_eq!(read(&writer.clone().finish_missed(Some(1234))).missed, Missed::Count(1234));
        assert_eq!(
            read(&writer.clone().finish_with(MISSED_STORED, None)).missed,
            Missed::None,
            "bit 30 alone says nothing"
        );
        // 4080 bytes of data: no room for a count. The writer leaves it out, a kernel that lies is believed for "some".
        let mut full = PageWriter::new(layout, 0);
        assert!(full.raw(&[0; 4080]));
        assert_eq!(read(&full.clone().finish_missed(Some(9))).missed, Missed::Some);
        assert_eq!(read(&full.finish_with(MISSED_EVENTS | MISSED_STORED, None)).missed, Missed::Some);
    }

    #[test]
    fn case_4_flags_added_as_a_negative_int() {
        let mut page = PageWriter::new(PageLayout::USUAL, 1).finish();
        page[8..16].copy_from_slice(&0xffff_ffff_8000_0010_u64.to_ne_bytes());
        let header = PageHeader::read(&PageLayout::USUAL, &page).unwrap();
        assert_eq!((header.len, header.missed), (16, Missed::Some));
    }

    #[test]
    fn case_4_counts_of_a_32_bit_kernel() {
        let layout = PageLayout { commit_size: 4, data_at: 12, ..PageLayout::USUAL };
        let page = PageWriter::new(layout, 5).finish_missed(Some(6));
        assert_eq!(PageHeader::read(&layout, &page), Ok(PageHeader { timestamp: 5, len: 0, missed: Missed::Count(6) }));
    }

    #[test]
    fn case_5_short_reads_and_lying_headers() {
        let layout = PageLayout::USUAL;
        let mut writer = PageWriter::new(layout, 1);
        assert!(writer.data(2, &[1; 100]));
        let page = writer.clone().finish();
        assert_eq!(PageHeader::read(&layout, &page[..7]), Err(AbiError::PartialPageRead));
        assert_eq!(PageHeader::read(&layout, &page[..15]), Err(AbiError::PartialPageRead));
        assert_eq!(PageHeader::read(&layout, &page[..100]), Err(AbiError::PartialPageRead));
        assert_eq!(PageHeader::read(&layout, &page[..120]).map(|h| h.len), Ok(104));
        let lies = writer.finish_with(0, Some(4081));
        assert_eq!(PageHeader::read(&layout, &lies), Err(AbiError::InvalidPageHeader));
    }
}
