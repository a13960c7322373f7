//! Frames of our own files, decompressed on all cores and handed over in order.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{Receiver, bounded};

use super::{FeedError, SourceFile};
use crate::names::printable;
use crate::sched::event::ClockSnapshot;
use crate::sched::summary::Window;
use crate::store::footer::{BootId, SnapshotNote};
use crate::store::frame::{FrameDecompressor, ReadAt};
use crate::store::index::{FrameEntry, LossCount};
use crate::store::probe::PacketProbe;
use crate::store::reader::SegmentReader;
use crate::store::scan::{self, FrameProbe};

/// Frames each decompressing thread may be ahead.
const AHEAD: usize = 2;

/// One run of frames that belongs together: a segment, or one of several that `cat` joined.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub frames: Vec<FrameEntry>,
    /// Its footer told what is in the frames; without one all have to be read.
    pub indexed: bool,
    pub window: Window,
    pub boot: BootId,
    pub clocks: Vec<ClockSnapshot>,
    /// From its footer: events, events lost.
    pub counts: Option<(u64, LossCount)>,
    /// From its footer: why it was kept, if it is a snapshot.
    pub note: Option<SnapshotNote>,
}

/// A file of ours, opened.
#[derive(Debug)]
pub(super) struct OurFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub parts: Vec<Part>,
    pub damage: Option<String>,
}

impl OurFile {
    /// What it holds, as far as its footers say.
    pub(super) fn told(&self) -> SourceFile {
        let counts = self.parts.iter().map(|p| p.counts).reduce(|sum, part| {
            let ((events, loss), (more, lost)) = sum.zip(part)?;
            let known = loss.known.saturating_add(lost.known);
            Some((events.saturating_add(more), LossCount { known, unknown: loss.unknown || lost.unknown }))
        });
        SourceFile {
            path: self.path.clone(),
            bytes: self.bytes,
            window: self.parts.iter().map(|p| p.window).reduce(join),
            counts: counts.flatten(),
            note: self.parts.iter().find_map(|p| p.note.clone()),
        }
    }

    /// Opens `path`; `None` if it is not one of ours.
    pub(super) fn open(path: &Path) -> Result<Option<OurFile>, FeedError> {
        let file = crate::store::layout::open_recorded(path).map_err(|e| FeedError::open(path, e))?;
        let bytes = file.metadata().map_err(|e| FeedError::open(path, e))?.len();
        if crate::store::reader::read_totals(path)?.is_some() {
            return OurFile::with_footers(path, bytes).map(Some);
        }
        OurFile::growing(path, file, bytes)
    }

    fn with_footers(path: &Path, bytes: u64) -> Result<OurFile, FeedError> {
        let reader = SegmentReader::open(path)?;
        let parts = reader.parts().iter().map(|p| Part {
            frames: reader.frames()[p.frames.clone()].to_vec(),
            indexed: true,
            window: Window { from: p.totals.start, to: p.totals.end },
            boot: p.totals.boot,
            clocks: [p.totals.clock, p.totals.clock_end].into_iter().filter(|c| c.boot > 0).collect(),
            counts: Some((p.totals.events, p.totals.loss)),
            note: p.totals.snapshot.clone(),
        });
        let damage = reader.damage().map(|d| d.to_string());
        Ok(OurFile { path: path.to_owned(), bytes, parts: parts.collect(), damage })
    }

    /// A file without footer: still growing, or its recorder died. Only the first and the last frame are looked into.
    fn growing(path: &Path, file: File, bytes: u64) -> Result<Option<OurFile>, FeedError> {
        let outline = scan::outline(&file, path, 0, bytes)?;
        let mut frames = Frames::new(file)?;
        let mut probe = PacketProbe::new();
        let entries = outline.footer.frames;
        let Some(first) = entries.first() else { return Ok(None) };
        let Ok(packets) = frames.read(first) else { return Ok(None) };
        probe.frame(&packets);
        if !probe.is_ours() {
            return Ok(None);
        }
        let mut end = 0;
        for entry in entries.iter().skip(1).rev() {
            let Ok(packets) = frames.read(entry) else { continue };
            end = probe.frame(&packets).complete_through;
            if end > 0 {
                break;
            }
        }
        let mut footer = crate::store::footer::Footer::default();
        probe.conclude(&mut footer);
        let totals = footer.totals;
        let part = Part {
            frames: entries,
            indexed: false,
            window: Window { from: totals.start, to: end.max(totals.start) },
            boot: totals.boot,
            clocks: [totals.clock].into_iter().filter(|c| c.boot > 0).collect(),
            counts: None,
            note: None,
        };
        let damage = outline.damage.map(|d| d.to_string());
        Ok(Some(OurFile { path: path.to_owned(), bytes, parts: vec![part], damage }))
    }
}

pub(super) fn told(path: &Path, what: &str) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("{}: {what}", printable(path.as_os_str().as_bytes()))
}

/// From the begin of the first to the end of the last.
pub(super) fn join(a: Window, b: Window) -> Window {
    Window { from: a.from.min(b.from), to: a.to.max(b.to) }
}

/// Reads and undoes single frames of one file.
struct Frames {
    file: File,
    undo: FrameDecompressor,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(file: File) -> Result<Frames, FeedError> {
        let undo = FrameDecompressor::new().map_err(|e| FeedError::open(Path::new("zstd"), e))?;
        Ok(Frames { file, undo, bytes: Vec::new() })
    }

    fn read(&mut self, entry: &FrameEntry) -> Result<Vec<u8>, String> {
        let at = |what: &dyn std::fmt::Display| format!("damaged at byte {}: {what}", entry.offset);
        let len = usize::try_from(entry.compressed).map_err(|e| at(&e))?;
        // An index entry may lie; the file cannot be longer than it is.
        let end = self.file.metadata().map_err(|e| at(&e))?.len();
        if entry.offset.saturating_add(entry.compressed) > end {
            return Err(at(&"the file ends inside a zstd frame"));
        }
        self.bytes.resize(len, 0);
        let got = self.file.read_full_at(&mut self.bytes, entry.offset).map_err(|e| at(&e))?;
        let mut packets = Vec::new();
        self.undo.decompress(&self.bytes[..got], &mut packets).map_err(|kind| at(&kind))?;
        Ok(packets)
    }
}

/// One frame to be read: which file of the list, and where.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub file: usize,
    pub entry: FrameEntry,
}

/// A frame that was read: its job, and its packets or what is wrong with it.
pub(super) type Done = (usize, Result<Vec<u8>, String>);

/// Reads the jobs on all cores; `each` gets the results in the order of the jobs and returns false to stop early.
pub(super) fn read_in_order(
    files: &[OurFile],
    jobs: &[Job],
    mut each: impl FnMut(Done) -> bool,
) -> Result<(), FeedError> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(jobs.len()).clamp(1, 16);
    thread::scope(|scope| {
        let mut lanes: Vec<Receiver<Done>> = Vec::new();
        for worker in 0..workers {
            let (send, receive) = bounded(AHEAD);
            lanes.push(receive);
            scope.spawn(move || {
                let mut open: Option<(usize, Result<Frames, String>)> = None;
                for (i, job) in jobs.iter().enumerate().skip(worker).step_by(workers) {
                    let frames = match &mut open {
                        Some((file, frames)) if *file == job.file => frames,
                        place => {
                            let frames =
                                crate::store::layout::open_recorded(&files[job.file].path).map_err(|e| e.to_string());
                            let frames = frames.and_then(|f| Frames::new(f).map_err(|e| e.to_string()));
                            &mut place.insert((job.file, frames)).1
                        }
                    };
                    let packets = match frames {
                        Ok(frames) => frames.read(&job.entry),
                        Err(e) => Err(e.clone()),
                    };
                    // The receiver is gone when the load was ended early.
                    if send.send((i, packets)).is_err() {
                        return;
                    }
                }
            });
        }
        for i in 0..jobs.len() {
            // A lane gives exactly its share of jobs, in order, unless its thread panicked: then the scope panics too.
            let Ok(done) = lanes[i % workers].recv() else { break };
            if !each(done) {
                break;
            }
        }
        drop(lanes);
    });
    Ok(())
}

/// The packets of a frame that hold no events: facts that must not be missed when the frame itself is skipped.
///
/// Our bundles are the packets whose first field is `ftrace_events` (1).
pub(super) fn without_bundles(packets: &[u8], out: &mut Vec<u8>) {
    out.clear();
    each_packet(packets, |whole, body| {
        if body.first() != Some(&0x0a) {
            out.extend_from_slice(whole);
        }
    });
}

/// The last packet of a frame, framing included: where the watermark stands.
pub(super) fn last_packet(packets: &[u8]) -> &[u8] {
    let mut last: (usize, usize) = (0, 0);
    let base = packets.as_ptr() as usize;
    each_packet(packets, |whole, _| last = (whole.as_ptr() as usize - base, whole.len()));
    &packets[last.0..last.0 + last.1]
}

fn each_packet<'p>(packets: &'p [u8], mut each: impl FnMut(&'p [u8], &'p [u8])) {
    let mut at = 0;
    while packets.get(at) == Some(&0x0a) {
        let (mut len, mut shift, mut body) = (0u64, 0u32, at + 1);
        loop {
            let Some(&byte) = packets.get(body) else { return };
            body += 1;
            len |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let Some(end) = usize::try_from(len).ok().and_then(|l| body.checked_add(l)).filter(|&e| e <= packets.len())
        else {
            return;
        };
        each(&packets[at..end], &packets[body..end]);
        at = end;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::perfetto::encode::{BundleBuilder, packets};
    use proptest::prelude::*;

    #[test]
    fn facts_survive_where_events_are_skipped() {
        let mut all = Vec::new();
        packets::own_threads(&[7], &mut all);
        let facts = all.clone();
        let mut bundle = BundleBuilder::new();
        bundle.print(10, 1, 0, b"x");
        bundle.finish(0, None, &mut all);
        let before_mark = all.len();
        packets::complete_through(500, &mut all);
        let mut out = Vec::new();
        without_bundles(&all, &mut out);
        assert_eq!(out[..facts.len()], facts);
        assert_eq!(out[facts.len()..], all[before_mark..]);
        assert_eq!(last_packet(&all), &all[before_mark..]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            without_bundles(&bytes, &mut out);
            prop_assert!(out.len() <= bytes.len());
            prop_assert!(last_packet(&bytes).len() <= bytes.len());
        }
    }
}
