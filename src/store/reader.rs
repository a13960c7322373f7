//! Opens a finished (or left) file: index from its footer, or from a scan when it has none.
//!
//! Gives back every whole frame and tells at which byte a file stops being whole. Files joined by `cat` open as
//! one: each part's footer is found from the end. Reads zstd files of ours; plain and gzip Perfetto traces are `feed`'s.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::{Footer, Locator, Summary, Tail, Totals};
use super::frame::{FrameDecompressor, ReadAt};
use super::index::FrameEntry;
use super::layout::open_recorded;
use super::probe::PacketProbe;
use super::scan::{self, FrameProbe};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Largest footer read, bytes: an hour of 1,024 CPUs has room in it.
const MAX_FOOTER: u64 = 64 << 20;
/// Read at once from the end of a file: totals fit nearly always.
const TAIL: usize = 4096;

/// An open file with its index.
pub struct SegmentReader {
    file: File,
    path: PathBuf,
    len: u64,
    frames: Vec<FrameEntry>,
    parts: Vec<Part>,
    damage: Option<Damage>,
    decompressor: FrameDecompressor,
    bytes: Vec<u8>,
}

/// One segment within a file: the whole file, unless several were joined.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its frames, as a run of [`SegmentReader::frames`].
    pub frames: std::ops::Range<usize>,
    /// What its footer (or the scan) says.
    pub totals: Totals,
    /// For drawing; empty after a scan that could not tell.
    pub summary: Summary,
    /// False when there was no footer and the frames were scanned.
    pub has_footer: bool,
}

impl SegmentReader {
    /// Opens `path`; where a footer lacks, the frames are decompressed and their packets looked into.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, &mut PacketProbe::default())
    }

    /// The same with another probe.
    pub fn open_with(path: &Path, probe: &mut dyn FrameProbe) -> Result<Self, StoreError> {
        let file = open_recorded(path).map_err(|e| StoreError::io("open", path, e))?;
        let len = file.metadata().map_err(|e| StoreError::io("read", path, e))?.len();
        let decompressor = FrameDecompressor::new().map_err(|e| StoreError::io("decompress", path, e))?;
        let (footers, rest) = footers_from_end(&file, path, len)?;
        let mut reader = SegmentReader {
            file,
            path: path.to_owned(),
            len,
            frames: Vec::new(),
            parts: Vec::new(),
            damage: None,
            decompressor,
            bytes: Vec::new(),
        };
        if rest > 0 || footers.is_empty() {
            let scanned = scan::scan(&reader.file, path, 0, rest, probe)?;
            reader.damage = scanned.damage;
            reader.push(0, scanned.footer, false);
        }
        for (base, footer) in footers.into_iter().rev() {
            reader.push(base, footer, true);
        }
        Ok(reader)
    }

    fn push(&mut self, base: u64, footer: Footer, has_footer: bool) {
        let from = self.frames.len();
        self.frames.extend(footer.frames.into_iter().map(|mut f| {
            f.offset += base;
            f
        }));
        let frames = from..self.frames.len();
        self.parts.push(Part { frames, totals: footer.totals, summary: footer.summary, has_footer });
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file when it was opened.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// All frames in file order.
    pub fn frames(&self) -> &[FrameEntry] {
        &self.frames
    }

    /// The segments in it, in file order; one, unless files were joined.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Totals of the first segment in it.
    pub fn totals(&self) -> &Totals {
        &self.parts[0].totals // `open` pushes at least one part
    }

    /// The first damage that opening found. Content of frames under a footer is checked on reading only.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Replaces `packets` by the content of frame `i`, checksum checked.
    pub fn read_frame(&mut self, i: usize, packets: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(entry) = self.frames.get(i) else {
            return Err(StoreError::damaged(&self.path, self.len, DamageKind::Cut));
        };
        scan::read_entry(&self.file, &self.path, entry, &mut self.bytes, &mut self.decompressor, packets)?
            .map_err(|kind| StoreError::damaged(&self.path, entry.offset, kind))
    }

    /// Another reader of the same file with its own buffers, for reading frames in parallel.
    pub fn try_clone(&self) -> Result<Self, StoreError> {
        let io = |what| move |e| StoreError::io(what, &self.path, e);
        Ok(SegmentReader {
            file: self.file.try_clone().map_err(io("share"))?,
            path: self.path.clone(),
            len: self.len,
            frames: self.frames.clone(),
            parts: self.parts.clone(),
            damage: self.damage,
            decompressor: FrameDecompressor::new().map_err(io("decompress"))?,
            bytes: Vec::new(),
        })
    }
}

/// Footers from the last to the first with the offset where their segment begins, and how many bytes at the begin of the file
/// no footer answers for. A footer that does not fit is as good as none.
fn footers_from_end(file: &File, path: &Path, len: u64) -> Result<(Vec<(u64, Footer)>, u64), StoreError> {
    let mut footers = Vec::new();
    let mut end = len;
    while end > 0 {
        let tail = tail_of(file, path, end, Locator::LEN as u64)?;
        let locator = match Locator::read(&tail) {
            Tail::None => break,
            Tail::Newer(found) => return Err(StoreError::NewerFormat { path: path.to_owned(), found }),
            Tail::Footer(locator) => locator,
        };
        let span = locator.offset.saturating_add(locator.frame_len());
        if span > end || locator.frame_len() > MAX_FOOTER {
            break;
        }
        let Ok(footer) = locator.footer(&tail_of(file, path, end, locator.frame_len())?) else { break };
        end -= span;
        footers.push((end, footer));
    }
    Ok((footers, end))
}

/// The last `want` of the first `end` bytes of a file (fewer when there are fewer).
fn tail_of(file: &File, path: &Path, end: u64, want: u64) -> Result<Vec<u8>, StoreError> {
    let want = want.min(end);
    let mut bytes = vec![0; usize::try_from(want).unwrap_or(0)];
    let got = file.read_full_at(&mut bytes, end - want).map_err(|e| StoreError::io("read", path, e))?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Totals of a file from its footer with one small read; `None` when it has none (or a damaged one).
pub fn read_totals(path: &Path) -> Result<Option<Totals>, StoreError> {
    read_section(path, Locator::totals_len, Locator::totals)
}

/// Summary of a file from its footer; `None` when it has none (or a damaged one).
pub fn read_summary(path: &Path) -> Result<Option<Summary>, StoreError> {
    read_section(path, Locator::summary_len, Locator::summary)
}

/// Whole footer of a file; `None` when it has none (or a damaged one).
pub fn read_footer(path: &Path) -> Result<Option<Footer>, StoreError> {
    read_section(path, Locator::frame_len, Locator::footer)
}

fn read_section<T>(
    path: &Path,
    length: impl Fn(&Locator) -> u64,
    decode: impl Fn(&Locator, &[u8]) -> Result<T, DamageKind>,
) -> Result<Option<T>, StoreError> {
    let file = open_recorded(path).map_err(|e| StoreError::io("open", path, e))?;
    let len = file.metadata().map_err(|e| StoreError::io("read", path, e))?.len();
    let mut tail = tail_of(&file, path, len, TAIL as u64)?;
    let locator = match Locator::read(&tail) {
        Tail::None => return Ok(None),
        Tail::Newer(found) => return Err(StoreError::NewerFormat { path: path.to_owned(), found }),
        Tail::Footer(locator) => locator,
    };
    let need = length(&locator);
    if need > len || need > MAX_FOOTER {
        return Ok(None);
    }
    if need > tail.len() as u64 || need == locator.frame_len() {
        tail = tail_of(&file, path, len, need)?;
    }
    Ok(decode(&locator, &tail).ok())
}
