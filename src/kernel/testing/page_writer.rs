//! Writes ring-buffer sub-buffers as the kernel would: any size, record type and flag.

use crate::kernel::page::PageLayout;

/// Builds one sub-buffer. Records that do not fit are refused ([`PageWriter::data`] returns false).
#[derive(Debug, Clone)]
pub struct PageWriter {
    layout: PageLayout,
    page: Vec<u8>,
    at: usize,
    ts: u64,
}

impl PageWriter {
    /// An empty sub-buffer whose header says `ts`.
    pub fn new(layout: PageLayout, ts: u64) -> PageWriter {
        let mut page = vec![0; layout.sub_buffer_size()];
        page[layout.timestamp_at()..][..8].copy_from_slice(&ts.to_ne_bytes());
        PageWriter { layout, page, at: layout.header_size(), ts }
    }

    /// The running time.
    pub fn ts(&self) -> u64 {
        self.ts
    }

    /// Bytes of records so far.
    pub fn len(&self) -> usize {
        self.at - self.layout.header_size()
    }

    /// True while no record was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, words: &[u32], data: &[u8]) -> bool {
        let size = words.len() * 4 + data.len().next_multiple_of(4);
        if self.at + size > self.page.len() {
            return false;
        }
        for (i, word) in words.iter().enumerate() {
            self.page[self.at + i * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        self.page[self.at + words.len() * 4..][..data.len()].copy_from_slice(data);
        self.at += size;
        true
    }

    fn word(kind: u32, delta: u64) -> u32 {
        let delta = (delta & ((1 << 27) - 1)) as u32;
        if cfg!(target_endian = "little") { delta << 5 | kind } else { kind << 27 | delta }
    }

    /// A data record at `ts` (not before the running time), with a time extend in front if the delta needs one.
    pub fn data(&mut self, ts: u64, data: &[u8]) -> bool {
        let saved = (self.at, self.ts);
        let mut delta = ts.saturating_sub(self.ts);
        if delta >= 1 << 27 {
            if !self.time_extend(delta) {
                return false;
            }
            delta = 0;
        }
        let fits = match data.len().div_ceil(4) {
            words @ 1..=28 => self.push(&[Self::word(words as u32, delta)], data),
            words => self.push(&[Self::word(0, delta), (words * 4 + 4) as u32], data),
        };
        if fits {
            self.ts = ts;
        } else {
            (self.at, self.ts) = saved;
        }
        fits
    }

    /// A type-30 record: adds `delta` (up to 59 bits) to the running time.
    pub fn time_extend(&mut self, delta: u64) -> bool {
        let fits = self.push(&[Self::word(30, delta), (delta >> 27) as u32], &[]);
        if fits {
            self.ts += delta;
        }
        fits
    }

    /// A type-31 record: sets the running time.
    pub fn time_stamp(&mut self, ts: u64) -> bool {
        let fits = self.push(&[Self::word(31, ts), (ts >> 27) as u32], &[]);
        if fits {
            self.ts = ts;
        }
        fits
    }

    /// A type-29 record of `total` bytes (a discarded event; a multiple of 4, at least 8), with this delta.
    pub fn padding(&mut self, delta: u64, total: usize) -> bool {
        self.push(&[Self::word(29, delta), (total - 4) as u32], &vec![0xaa; total - 8])
    }

    /// A type-29 record with delta 0: the rest of the page is void.
    pub fn end_padding(&mut self) -> bool {
        self.push(&[Self::word(29, 0)], &[])
    }

    /// Raw bytes in the place of a record (rounded up to 4).
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.push(&[], bytes)
    }

    /// The whole sub-buffer, nothing lost in front of it.
    pub fn finish(self) -> Vec<u8> {
        self.finish_with(0, None)
    }

    /// Events were lost in front of it: with their count if given and if there is room behind the data.
    pub fn finish_missed(mut self, count: Option<u64>) -> Vec<u8> {
        let long = self.layout.long_size();
        let room = self.page.len() - self.at >= long;
        match count.filter(|_| room) {
            Some(count) => {
                let bytes =
                    if long == 8 { count.to_ne_bytes().to_vec() } else { (count as u32).to_ne_bytes().to_vec() };
                self.page[self.at..][..long].copy_from_slice(&bytes);
                self.finish_with(1 << 31 | 1 << 30, None)
            }
            None => self.finish_with(1 << 31, None),
        }
    }

    /// The sub-buffer with these flags in its commit word, and another length than the true one if given.
    pub fn finish_with(mut self, flags: u32, len: Option<u32>) -> Vec<u8> {
        let commit = len.unwrap_or(self.len() as u32) | flags;
        let at = self.layout.commit_at();
        match self.layout.long_size() {
            8 => self.page[at..][..8].copy_from_slice(&u64::from(commit).to_ne_bytes()),
            _ => self.page[at..][..4].copy_from_slice(&commit.to_ne_bytes()),
        }
        self.page
    }
}
