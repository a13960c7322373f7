//! Makes one segment: `.part` while growing, whole frames only, footer and rename at its end.
//!
//! Each frame is one write at a known offset. When a write fails (full disk, I/O error) the file is cut back
//! to its last whole frame and the error tells; the next frame can simply be tried again, so recording resumes
//! by itself when space returns. Nothing here compresses, looks into a frame, or calls fsync unasked.

use super::error::StoreError;
use super::footer::{self, Footer, Summary, Totals};
use super::index::{FrameEntry, FrameFacts};
use super::layout::{FILE_MODE, Store, sync_dir};
use super::name::SegmentName;
use super::snapshot::Growing;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a writer needs of a file; a test's disk can misbehave.
trait Disk: Send {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    fn cut(&self, len: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
    fn share(&self) -> io::Result<File>;
}

impl Disk for Flock<File> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&**self, bytes, offset)
    }
    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn share(&self) -> io::Result<File> {
        self.try_clone()
    }
}

/// A growing segment (or snapshot). Dropping it unfinished leaves the `.part` for [`super::recover`].
pub struct SegmentWriter {
    disk: Box<dyn Disk>,
    path: PathBuf,
    finished_path: PathBuf,
    sequence: u64,
    entries: Vec<FrameEntry>,
    /// End of the last whole frame.
    good: u64,
    /// Bytes may stand behind `good` that a failed cut left there.
    dirty: bool,
    finished: bool,
}

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Where it is now.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Its number.
    pub sequence: u64,
}

/// Flushes a growing file from another thread than the one that writes it.
#[derive(Debug)]
pub struct Syncer {
    file: File,
    path: PathBuf,
}

impl Syncer {
    /// Brings what was written so far to the disk; may take long.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|e| StoreError::io("sync", &self.path, e))
    }
}

impl SegmentWriter {
    /// Begins a segment whose wall-clock begin is `real_ns` (CLOCK_REALTIME), with a number of its own.
    pub fn create(store: &Store, real_ns: u64) -> Result<Self, StoreError> {
        let sequence = store.next_sequence()?;
        Self::begin(&store.segments_dir(), &SegmentName::growing(real_ns, sequence))
    }

    /// Begins any file of the store under `name`, which must not exist.
    pub(super) fn begin(dir: &Path, name: &SegmentName) -> Result<Self, StoreError> {
        let path = dir.join(name.to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&path);
        let file = file.map_err(|e| StoreError::io("create", &path, e))?;
        // Nobody else can have locked a file that did not exist.
        let file = claim(file, &path)?;
        let file = file.ok_or_else(|| StoreError::io("lock", &path, io::ErrorKind::WouldBlock.into()))?;
        Ok(Self::on(Box::new(file), dir, name))
    }

    /// Begins a file that will be `path`; until it is whole it has `.part` behind its name, and a left-over of that name
    /// is replaced.
    pub(super) fn begin_at(path: &Path, sequence: u64) -> Result<Self, StoreError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&part);
        let file = claim(file.map_err(|e| StoreError::io("create", &part, e))?, &part)?;
        let file = file.ok_or_else(|| StoreError::io("lock", &part, io::ErrorKind::WouldBlock.into()))?;
        let mut writer = Self::at(Box::new(file), part, path.to_owned(), sequence);
        writer.cut_back()?;
        Ok(writer)
    }

    fn on(disk: Box<dyn Disk>, dir: &Path, name: &SegmentName) -> Self {
        let (part, whole) = (dir.join(name.to_string()), dir.join(name.finished().to_string()));
        Self::at(disk, part, whole, name.sequence)
    }

    fn at(disk: Box<dyn Disk>, path: PathBuf, finished_path: PathBuf, sequence: u64) -> Self {
        SegmentWriter {
            disk,
            path,
            finished_path,
            sequence,
            entries: Vec::new(),
            good: 0,
            dirty: false,
            finished: false,
        }
    }

    /// Goes on with a file that is whole up to the end of `entries`; what stands behind is cut off.
    pub(super) fn resume(
        file: Flock<File>,
        dir: &Path,
        name: &SegmentName,
        entries: Vec<FrameEntry>,
    ) -> Result<Self, StoreError> {
        let mut writer = Self::on(Box::new(file), dir, name);
        writer.good = entries.last().map_or(0, |e| e.offset + e.compressed);
        writer.entries = entries;
        writer.cut_back()?;
        Ok(writer)
    }

    /// Appends one whole zstd frame with one write. `raw` is the length of its content.
    ///
    /// On [`StoreError::NoSpace`] or an I/O error the frame is not in the file and the file is whole
    /// without it: count it as lost (or keep it) and go on.
    pub fn write_frame(&mut self, frame: &[u8], raw: usize, facts: FrameFacts) -> Result<(), StoreError> {
        if frame.is_empty() {
            return Ok(()); // what could not be compressed; an entry for nothing would read as damage
        }
        self.append(frame)?;
        let compressed = frame.len() as u64;
        self.entries.push(FrameEntry { offset: self.good, compressed, raw: raw as u64, facts });
        self.good += compressed;
        Ok(())
    }

    /// Appends whole frames of another file byte by byte: `run` of `source`, which holds exactly `entries`.
    pub(super) fn copy_frames(
        &mut self,
        source: &File,
        from: &Path,
        run: Range<u64>,
        entries: &[FrameEntry],
    ) -> Result<(), StoreError> {
        let len = run.end - run.start;
        // std copies from file to file inside the kernel (copy_file_range, sendfile) and knows every case it cannot.
        let copy = |source: &File, mut own: File, good: u64| -> io::Result<u64> {
            let mut source = source;
            source.seek(SeekFrom::Start(run.start))?;
            own.seek(SeekFrom::Start(good))?;
            io::copy(&mut Read::take(source, len), &mut own)
        };
        match self.disk.share().and_then(|own| copy(source, own, self.good)) {
            Ok(copied) if copied == len => {}
            Ok(copied) => {
                self.dirty = true;
                return Err(StoreError::damaged(from, run.start + copied, super::error::DamageKind::Cut));
            }
            Err(e) => return self.failed(e),
        }
        let good = self.good;
        let moved = |e: &FrameEntry| FrameEntry { offset: e.offset - run.start + good, ..e.clone() };
        self.entries.extend(entries.iter().map(moved));
        self.good += len;
        Ok(())
    }

    /// Deletes the unfinished file.
    pub fn discard(&mut self) {
        if !self.finished {
            // Nothing can be done about a failure, and recovery deletes it at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Writes at the good end without moving it.
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.disk.write_at(&bytes[done..], self.good + done as u64) {
                Ok(0) => return self.failed(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.failed(e),
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: io::Error) -> Result<(), StoreError> {
        self.dirty = true;
        // A failed cut is tried again before the footer; until then the next frame overwrites the rest.
        let _ = self.cut_back();
        Err(StoreError::io("write", &self.path, error))
    }

    fn cut_back(&mut self) -> Result<(), StoreError> {
        self.disk.cut(self.good).map_err(|e| StoreError::io("cut back", &self.path, e))?;
        self.dirty = false;
        Ok(())
    }

    /// Brings what was written so far to the disk; may take long, so not from a thread that must not block.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync().map_err(|e| StoreError::io("sync", &self.path, e))
    }

    /// A handle to do the same from another thread.
    pub fn syncer(&self) -> Result<Syncer, StoreError> {
        let file = self.disk.share().map_err(|e| StoreError::io("share", &self.path, e))?;
        Ok(Syncer { file, path: self.path.clone() })
    }

    /// Ends the file: footer, fsync, rename, fsync of the folder. The index and the totals that follow from it (sequence, format,
    /// events, loss) are put in here. Sends well to another thread, as the fsync may take long.
    ///
    /// On error the file is a whole `.part` without a footer; call again, or drop the writer
    /// and leave the file to [`super::recover`].
    pub fn finish(&mut self, totals: Totals, summary: Summary) -> Result<Finished, StoreError> {
        if !self.finished {
            self.end(totals, summary, true)?;
            self.sync_name()?;
        }
        Ok(self.done())
    }

    /// The same without waiting for the disk: everybody sees the whole file, but only after [`SegmentWriter::settle`] does
    /// it survive a power cut.
    pub(super) fn show(&mut self, totals: Totals, summary: Summary) -> Result<Finished, StoreError> {
        if !self.finished {
            self.end(totals, summary, false)?;
        }
        Ok(self.done())
    }

    /// Brings a file that is shown to the disk, and its name; may take long.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        self.sync()?;
        self.sync_name()
    }

    /// Footer and name.
    fn end(&mut self, totals: Totals, summary: Summary, sync: bool) -> Result<(), StoreError> {
        let footer = Footer { totals: self.complete(totals), summary, frames: std::mem::take(&mut self.entries) };
        let bytes = footer::encode(&footer, self.good);
        self.entries = footer.frames;
        if self.dirty {
            self.cut_back()?;
        }
        self.append(&bytes)?;
        if sync && let Err(e) = self.sync() {
            self.cut_back()?;
            return Err(e);
        }
        if let Err(e) = fs::rename(&self.path, &self.finished_path) {
            self.cut_back()?;
            return Err(StoreError::io("rename", &self.path, e));
        }
        self.finished = true;
        self.good += bytes.len() as u64;
        Ok(())
    }

    fn sync_name(&self) -> Result<(), StoreError> {
        self.finished_path.parent().map_or(Ok(()), sync_dir)
    }

    fn done(&self) -> Finished {
        Finished { path: self.finished_path.clone(), bytes: self.good, sequence: self.sequence }
    }

    /// What follows from the index is taken from the index.
    pub(super) fn complete(&self, mut totals: Totals) -> Totals {
        totals.format = footer::FormatVersion::CURRENT;
        totals.sequence = self.sequence;
        totals.events = self.entries.iter().fold(0, |n: u64, e| n.saturating_add(e.events()));
        totals.loss = Default::default();
        self.entries.iter().for_each(|e| totals.loss.merge(e.loss()));
        totals
    }

    /// What a snapshot needs to know of it: its footer, if it ended now.
    pub fn growing(&self, totals: Totals, summary: Summary) -> Growing {
        let footer = Footer { totals: self.complete(totals), summary, frames: self.entries.clone() };
        Growing { path: self.path().to_owned(), footer }
    }

    /// Where it grows.
    pub fn path(&self) -> &Path {
        if self.finished { &self.finished_path } else { &self.path }
    }

    /// Its number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Length of what is whole.
    pub fn bytes(&self) -> u64 {
        self.good
    }

    /// Frames written so far.
    pub fn frames(&self) -> &[FrameEntry] {
        &self.entries
    }
}

/// Locks a `.part` for as long as it is open, so that recovery can tell one that grows from one that was left;
/// `None` when somebody writes it. (flock(2): the lock goes with the open file, also after SIGKILL.)
pub(super) fn claim(file: File, path: &Path) -> Result<Option<Flock<File>>, StoreError> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(Some(file)),
        Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
        Err((_, e)) => Err(StoreError::io("lock", path, e.into())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::frame::FrameCompressor;
    use super::super::index::{FrameKind, LossCount};
    use super::super::reader::SegmentReader;
    use super::super::scan::Unprobed;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A disk that fails with `errno` once `left` more bytes were written; writes what still fits, as a real one does.
    struct Failing {
        file: File,
        left: Arc<AtomicI64>,
        errno: i32,
        sync_errno: Option<i32>,
    }

    impl Disk for Failing {
        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            let left = self.left.load(Ordering::Relaxed);
            if left == 0 {
                return Err(io::Error::from_raw_os_error(self.errno));
            }
            let n = bytes.len().min(usize::try_from(left).unwrap());
            self.left.fetch_sub(n as i64, Ordering::Relaxed);
            FileExt::write_at(&self.file, &bytes[..n], offset)
        }
        fn cut(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }
        fn sync(&self) -> io::Result<()> {
            self.sync_errno.map_or(Ok(()), |e| Err(io::Error::from_raw_os_error(e)))
        }
        fn share(&self) -> io::Result<File> {
            self.file.try_clone()
        }
    }

    fn on_failing(dir: &Path, errno: i32, sync_errno: Option<i32>) -> (SegmentWriter, Arc<AtomicI64>) {
        let name = SegmentName::growing(0, 1);
        let file = File::create_new(dir.join(name.to_string())).unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let disk = Failing { file, left: left.clone(), errno, sync_errno };
        (SegmentWriter::on(Box::new(disk), dir, &name), left)
    }

    fn frame(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        FrameCompressor::new(1).unwrap().compress(text, &mut out).unwrap();
        out
    }

    fn facts(events: u64, loss: Option<u64>) -> FrameFacts {
        let loss = vec![(0, LossCount { known: loss.unwrap_or(0), unknown: loss.is_none() })];
        FrameFacts { kind: FrameKind::Data, events: vec![(0, events)], loss, ..FrameFacts::default() }
    }

    #[test]
    fn case_62_a_full_disk_cuts_back_to_the_last_frame_and_recording_goes_on() {
        for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO] {
            let tmp = tempfile::tempdir().unwrap();
            let (mut w, left) = on_failing(tmp.path(), errno, None);
            w.write_frame(&frame(b"one"), 3, facts(1, Some(0))).unwrap();
            let whole = w.bytes();
            left.store(7, Ordering::Relaxed); // seven bytes of the next frame still fit
            let error = w.write_frame(&frame(b"two"), 3, facts(1, Some(0))).unwrap_err();
            assert_eq!(error.is_full(), errno != libc::EIO, "{error}");
            assert_eq!(fs::metadata(w.path()).unwrap().len(), whole, "cut back");
            assert!(w.finish(Totals::default(), Summary::default()).is_err(), "no room for a footer either");
            assert_eq!(fs::metadata(w.path()).unwrap().len(), whole, "and still whole");
            left.store(i64::MAX, Ordering::Relaxed); // space returns
            w.write_frame(&frame(b"three"), 5, facts(2, None)).unwrap();
            let done = w.finish(Totals::default(), Summary::default()).unwrap();
            let mut reader = SegmentReader::open_with(&done.path, &mut Unprobed).unwrap();
            let mut packets = Vec::new();
            reader.read_frame(1, &mut packets).unwrap();
            assert_eq!((packets.as_slice(), reader.frames().len(), reader.damage()), (&b"three"[..], 2, None));
            let totals = reader.totals();
            assert_eq!((totals.events, totals.loss), (3, LossCount { known: 0, unknown: true }));
            assert_eq!(totals.sequence, 1);
        }
    }

    #[test]
    fn a_failing_fsync_leaves_a_whole_part_that_can_be_finished_later() {
        let tmp = tempfile::tempdir().unwrap();
        let (mut w, _) = on_failing(tmp.path(), libc::EIO, Some(libc::EIO));
        w.write_frame(&frame(b"one"), 3, facts(1, Some(0))).unwrap();
        let whole = w.bytes();
        assert!(w.finish(Totals::default(), Summary::default()).is_err());
        assert_eq!(fs::metadata(w.path()).unwrap().len(), whole);
        assert!(w.path().to_string_lossy().ends_with(".part"));
    }

    #[test]
    fn a_shown_file_is_whole_at_once_and_a_failing_fsync_is_told_afterwards() {
        let tmp = tempfile::tempdir().unwrap();
        let (mut w, _) = on_failing(tmp.path(), libc::EIO, Some(libc::EIO));
        w.write_frame(&frame(b"one"), 3, facts(1, Some(0))).unwrap();
        let shown = w.show(Totals::default(), Summary::default()).unwrap();
        assert_eq!(fs::metadata(&shown.path).unwrap().len(), shown.bytes);
        assert!(super::super::reader::read_footer(&shown.path).unwrap().is_some());
        let error = w.settle().unwrap_err().to_string();
        assert!(error.contains("sync") && error.contains("pftrace.zst"), "{error}");
        assert!(shown.path.exists(), "it stays: what is in memory may reach the disk yet");
        assert_eq!(w.show(Totals::default(), Summary::default()).unwrap(), shown, "showing twice is once");
    }

    #[test]
    fn a_finished_file_has_its_name_and_rights_and_finishing_twice_is_once() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let mut w = SegmentWriter::create(&store, 1_796_039_700_000_000_000).unwrap();
        w.write_frame(&frame(b"one"), 3, facts(1, Some(0))).unwrap();
        w.syncer().unwrap().sync().unwrap();
        let done = w.finish(Totals::default(), Summary::default()).unwrap();
        assert_eq!(done, w.finish(Totals::default(), Summary::default()).unwrap());
        assert_eq!(done.path.file_name().unwrap(), "20261130T115500Z-000001.pftrace.zst");
        let meta = fs::metadata(&done.path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777 & !0o640, 0);
        assert_eq!(meta.len(), done.bytes);
        assert_eq!(zstd::stream::decode_all(File::open(&done.path).unwrap()).unwrap(), b"one", "as zstd -dc sees it");
    }

    #[test]
    fn case_56_names_do_not_collide_when_the_wall_clock_goes_back() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let hour = 3_600_000_000_000u64;
        let walls = [100 * hour, 99 * hour, 100 * hour, 124 * hour, 100 * hour];
        let paths: Vec<PathBuf> = walls
            .iter()
            .map(|&real| {
                let mut w = SegmentWriter::create(&store, real).unwrap();
                w.write_frame(&frame(b"x"), 1, facts(1, Some(0))).unwrap();
                w.finish(Totals::default(), Summary::default()).unwrap().path
            })
            .collect();
        let listed: Vec<PathBuf> = store.segments().unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(listed, paths, "in the order of recording, whatever the wall clock said");
    }
}
