//! Follows the segments as they grow: frame after frame, over the end of one segment into the next.
//!
//! Gives whole frames only: it stops before a half-written one and goes on when it is whole. Never waits;
//! the caller polls. Holds the file it reads open, so a rename or deletion does not disturb it.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::VARIANT;
use super::frame::{self, Found, FrameDecompressor};
use super::index::{FrameEntry, FrameFacts};
use super::layout::{Store, StoredFile, may_be_file};
use super::name::SegmentName;
use super::scan;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Time stamps of a folder are as coarse as the kernel's tick; a listing this soon after a change may have missed another.
const SETTLED: Duration = Duration::from_secs(1);

/// What [`TailReader::poll`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tailed {
    /// A segment begins; its frames follow.
    Segment(SegmentName),
    /// The packets of one more frame were put into the caller's buffer; `offset` is where it stands in the file.
    Frame {
        /// Byte offset in the segment.
        offset: u64,
        /// Bytes in the file.
        compressed: u64,
    },
    /// Nothing new yet.
    Idle,
    /// The segment is finished: its footer was reached.
    Finished(PathBuf),
    /// Part of the segment is not whole. Reading goes on behind it, or with the next segment.
    Damaged(Damage),
}

/// A position in the stream of all segments.
pub struct TailReader {
    store: Store,
    /// Number of the segment being read, or of the last one read.
    sequence: u64,
    current: Option<Current>,
    listed: Option<SystemTime>,
    decompressor: FrameDecompressor,
    bytes: Vec<u8>,
}

struct Current {
    file: File,
    path: PathBuf,
    offset: u64,
}

impl TailReader {
    /// Follows from the begin of the newest segment there is (or of the first there will be).
    pub fn newest(store: &Store) -> Result<Self, StoreError> {
        let last = store.segments()?.last().map_or(0, |f| f.name.sequence);
        Self::after(store, last.saturating_sub(1))
    }

    /// Follows from the begin of the first segment with a number above `sequence`.
    pub fn after(store: &Store, sequence: u64) -> Result<Self, StoreError> {
        let decompressor = FrameDecompressor::new().map_err(|e| StoreError::io("decompress", store.root(), e))?;
        Ok(TailReader { store: store.clone(), sequence, current: None, listed: None, decompressor, bytes: Vec::new() })
    }

    /// Number of the segment being read, or of the last one read.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The file being read, under the name it had when it was opened, and the offset reached.
    pub fn position(&self) -> Option<(&Path, u64)> {
        self.current.as_ref().map(|c| (c.path.as_path(), c.offset))
    }

    /// The next thing that happened; fills `packets` on [`Tailed::Frame`] only.
    pub fn poll(&mut self, packets: &mut Vec<u8>) -> Result<Tailed, StoreError> {
        packets.clear();
        let Some(current) = &mut self.current else { return self.open_next() };
        if let Some(found) = current.advance(&mut self.bytes, &mut self.decompressor, packets)? {
            if !matches!(found, Tailed::Frame { .. }) {
                self.leave_unless_more(&found);
            }
            return Ok(found);
        }
        // Nothing whole here. If a newer segment exists, this one's writer is through with it; it may have
        // written its last frames since we looked, so look once more before leaving.
        let Some(_) = self.following()? else { return Ok(Tailed::Idle) };
        let Some(current) = &mut self.current else { return Ok(Tailed::Idle) };
        if let Some(found) = current.advance(&mut self.bytes, &mut self.decompressor, packets)? {
            self.leave_unless_more(&found);
            return Ok(found);
        }
        let (offset, len) = (current.offset, current.len()?);
        self.current = None;
        if len > offset {
            return Ok(Tailed::Damaged(Damage { offset, kind: DamageKind::Cut }));
        }
        self.open_next()
    }

    fn leave_unless_more(&mut self, found: &Tailed) {
        let goes_on = match found {
            Tailed::Finished(_) => false,
            Tailed::Damaged(d) => !matches!(d.kind, DamageKind::NotAFrame | DamageKind::TooLarge),
            _ => true,
        };
        if !goes_on {
            self.current = None;
        }
    }

    fn open_next(&mut self) -> Result<Tailed, StoreError> {
        let Some(next) = self.following()? else { return Ok(Tailed::Idle) };
        self.listed = None;
        match super::layout::open_recorded(&next.path) {
            Ok(file) => {
                self.sequence = next.name.sequence;
                self.current = Some(Current { file, path: next.path, offset: 0 });
                Ok(Tailed::Segment(next.name))
            }
            // Renamed or deleted since the listing: the next poll lists again.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Tailed::Idle),
            Err(e) => Err(StoreError::io("open", &next.path, e)),
        }
    }

    /// The segment after the current one. Lists the folder only when it changed since the last fruitless listing.
    fn following(&mut self) -> Result<Option<StoredFile>, StoreError> {
        let changed = fs::metadata(self.store.segments_dir()).and_then(|m| m.modified()).ok();
        if changed.is_some() && changed == self.listed {
            return Ok(None);
        }
        let next = self.store.segments()?.into_iter().find(|f| f.name.sequence > self.sequence && may_be_file(&f.path));
        let settled = |at: SystemTime| SystemTime::now().duration_since(at).is_ok_and(|age| age > SETTLED);
        self.listed = changed.filter(|&at| next.is_none() && settled(at));
        Ok(next)
    }
}

impl Current {
    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.file.metadata().map_err(|e| StoreError::io("read", &self.path, e))?.len())
    }

    /// The next whole thing in the file, if there is one.
    fn advance(
        &mut self,
        bytes: &mut Vec<u8>,
        decompressor: &mut FrameDecompressor,
        packets: &mut Vec<u8>,
    ) -> Result<Option<Tailed>, StoreError> {
        loop {
            let offset = self.offset;
            let damaged = |kind| Ok(Some(Tailed::Damaged(Damage { offset, kind })));
            let end = self.len()?;
            match frame::look(&self.file, offset, end).map_err(|e| StoreError::io("read", &self.path, e))? {
                Found::End | Found::Cut => return Ok(None),
                Found::NotAFrame => return damaged(DamageKind::NotAFrame),
                Found::TooLarge => return damaged(DamageKind::TooLarge),
                Found::Skippable { len, variant } => {
                    self.offset += len;
                    if variant == VARIANT {
                        return Ok(Some(Tailed::Finished(finished_path(&self.path))));
                    }
                }
                Found::Zstd { len, .. } => {
                    self.offset += len;
                    let entry = FrameEntry { offset, compressed: len, raw: 0, facts: FrameFacts::default() };
                    return match scan::read_entry(&self.file, &self.path, &entry, bytes, decompressor, packets)? {
                        Ok(()) => Ok(Some(Tailed::Frame { offset, compressed: len })),
                        Err(kind) => damaged(kind),
                    };
                }
            }
        }
    }
}

fn finished_path(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|e| e == "part") { path.with_extension("") } else { path.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::footer::{Summary, Totals};
    use super::super::frame::FrameCompressor;
    use super::super::writer::SegmentWriter;
    use super::*;
    use std::io::Write;

    fn write(writer: &mut SegmentWriter, text: &[u8]) {
        let mut frame = Vec::new();
        FrameCompressor::new(1).unwrap().compress(text, &mut frame).unwrap();
        writer.write_frame(&frame, text.len(), FrameFacts::default()).unwrap();
    }

    fn next_frame(tail: &mut TailReader) -> Vec<u8> {
        let mut packets = Vec::new();
        let found = tail.poll(&mut packets).unwrap();
        assert!(matches!(found, Tailed::Frame { .. }), "{found:?}");
        packets
    }

    #[test]
    fn case_68_a_growing_segment_is_followed_to_its_end_and_into_the_next() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let mut tail = TailReader::newest(&store).unwrap();
        let mut buf = Vec::new();
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle, "an empty store");
        let mut first = SegmentWriter::create(&store, 0).unwrap();
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Segment(SegmentName::growing(0, 1)));
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle);
        write(&mut first, b"one");
        assert_eq!(next_frame(&mut tail), b"one");
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle);
        write(&mut first, b"two");
        let mut second = SegmentWriter::create(&store, 60_000_000_000).unwrap();
        write(&mut second, b"three");
        let done = first.finish(Totals::default(), Summary::default()).unwrap();
        assert_eq!(next_frame(&mut tail), b"two", "what the old one still had comes first");
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Finished(done.path));
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Segment(SegmentName::growing(60_000_000_000, 2)));
        assert_eq!(next_frame(&mut tail), b"three");
        assert_eq!((tail.poll(&mut buf).unwrap(), tail.sequence()), (Tailed::Idle, 2));
    }

    #[test]
    fn case_68_a_half_written_frame_waits_until_it_is_whole() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let path = store.segments_dir().join(SegmentName::growing(0, 1).to_string());
        let mut frame = Vec::new();
        FrameCompressor::new(1).unwrap().compress(b"a frame", &mut frame).unwrap();
        let mut file = File::create(&path).unwrap();
        let mut tail = TailReader::newest(&store).unwrap();
        let mut buf = Vec::new();
        assert!(matches!(tail.poll(&mut buf).unwrap(), Tailed::Segment(_)));
        for byte in &frame[..frame.len() - 1] {
            file.write_all(&[*byte]).unwrap();
            assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle);
        }
        file.write_all(&frame[frame.len() - 1..]).unwrap();
        assert_eq!(next_frame(&mut tail), b"a frame");
    }

    #[test]
    fn what_is_no_file_is_passed_by() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let at = |sequence| store.segments_dir().join(SegmentName::growing(0, sequence).finished().to_string());
        let mut first = SegmentWriter::create(&store, 0).unwrap();
        write(&mut first, b"one");
        nix::unistd::mkfifo(&at(2), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(at(3)).unwrap();
        std::os::unix::fs::symlink(at(4), at(4)).unwrap();
        std::os::unix::fs::symlink("none", at(5)).unwrap();
        let mut tail = TailReader::after(&store, 0).unwrap();
        let mut buf = Vec::new();
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Segment(SegmentName::growing(0, 1)));
        assert_eq!(next_frame(&mut tail), b"one");
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle, "the first still grows");
        let mut next = SegmentWriter::create(&store, 0).unwrap();
        write(&mut next, b"two");
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Segment(SegmentName::growing(0, 6)));
        assert_eq!(next_frame(&mut tail), b"two");
    }

    #[test]
    fn a_segment_left_by_a_dead_recorder_is_left_when_a_newer_one_begins() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let mut dead = SegmentWriter::create(&store, 0).unwrap();
        write(&mut dead, b"one");
        let whole = dead.bytes();
        let path = dead.path().to_owned();
        drop(dead);
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(&[0x28, 0xB5, 0x2F]).unwrap();
        let mut tail = TailReader::newest(&store).unwrap();
        let mut buf = Vec::new();
        assert!(matches!(tail.poll(&mut buf).unwrap(), Tailed::Segment(_)));
        assert_eq!(next_frame(&mut tail), b"one");
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Idle);
        let _next = SegmentWriter::create(&store, 0).unwrap();
        let cut = Damage { offset: whole, kind: DamageKind::Cut };
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Damaged(cut));
        assert_eq!(tail.poll(&mut buf).unwrap(), Tailed::Segment(SegmentName::growing(0, 2)));
    }
}
