//! Keeps a window of the store as a file of its own: a fresh head, the window's frames copied, a footer.
//!
//! Frames are copied byte by byte (inside the kernel where it can), never decompressed, so five minutes take
//! milliseconds and recording never waits. [`plan`] opens the sources, so retention cannot take them away; the caller
//! then makes a head for [`Plan::window`] and calls [`Plan::write`]. Nobody sees a snapshot before it is whole. Never touches
//! a segment.
//!
//! A recorder shows a snapshot before the disk has it ([`Prepared::show`]), since the disk may take half a second over what
//! took a twentieth of one to copy, and brings it there behind ([`Shown::settle`]). If the recorder dies between, nothing is lost:
//! the kernel has it all. If the machine loses its power between, the file system decides what stands there: it writes a
//! file's blocks before it writes its length (ext4's delayed allocation, XFS), so the file may be missing, empty, or cut; on XFS
//! a part before its end may read as zeros. No such file passes for whole: readers take the frames that are, `verify` and
//! `segments` tell the damage, and the next recorder gives one that was cut a footer that says so ([`super::recover`]). The
//! finished segments it was copied from were brought to the disk on their own.

use super::catalog::{Catalog, byte_run};
use super::error::{StoreError, shown};
use super::footer::{BootId, Footer, SnapshotNote, Summary, Totals};
use super::frame::{FrameCompressor, FrameDecompressor};
use super::index::{self, FrameEntry, FrameFacts, FrameKind};
use super::layout::Store;
use super::merge;
use super::name::SegmentName;
use super::scan;
use super::writer::{Finished, SegmentWriter};
use crate::sched::event::ClockSnapshot;
use crate::sched::summary::Window;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What somebody wants kept, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Boot that the window belongs to.
    pub boot: BootId,
    /// Asked window, ns on CLOCK_BOOTTIME.
    pub window: Window,
    /// Who asked: `key`, `signal`, `command`, `trigger`.
    pub reason: String,
    /// Further words, e.g. the trigger and its value.
    pub detail: String,
    /// Label as given; made safe for the name.
    pub label: String,
    /// When it was asked, ns on CLOCK_BOOTTIME.
    pub requested_at: u64,
}

/// The growing segment as its writer knows it (see [`SegmentWriter::growing`]), so that it need not be scanned.
#[derive(Debug, Clone, PartialEq)]
pub struct Growing {
    /// Its file.
    pub path: PathBuf,
    /// Its frames so far, and what would be in its footer if it ended now.
    pub footer: Footer,
}

/// A snapshot about to be written: its sources are open.
#[derive(Debug)]
pub struct Plan {
    request: Request,
    window: Window,
    holes: Vec<Window>,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    file: File,
    path: PathBuf,
    footer: Footer,
    /// Frames to copy: data of the window, and heads and tails between.
    frames: Range<usize>,
}

/// A snapshot whose frames are all copied and that nobody sees yet. Dropping it deletes the file.
pub struct Prepared {
    writer: SegmentWriter,
    totals: Totals,
    summary: Summary,
}

impl Prepared {
    /// Ends the file, brings it to the disk, and makes it visible: what is there is whole even after a power cut. The disk
    /// may take its time, so not from a thread that must not wait.
    pub fn publish(mut self) -> Result<Taken, StoreError> {
        let file = self.writer.finish(self.totals.clone(), std::mem::take(&mut self.summary))?;
        Ok(Taken { file, totals: self.totals.clone() })
    }

    /// Ends the file and makes it visible, whole; the disk is still to be waited for.
    pub fn show(mut self) -> Result<(Taken, Shown), StoreError> {
        let file = self.writer.show(self.totals.clone(), std::mem::take(&mut self.summary))?;
        Ok((Taken { file, totals: self.totals.clone() }, Shown(self)))
    }
}

/// A snapshot that everybody sees and that a power cut could still take.
pub struct Shown(Prepared);

impl Shown {
    /// Brings it to the disk; may take long. On error it may be gone after a power cut, or after its pages were dropped from
    /// memory: whoever wants to be sure takes another.
    pub fn settle(self) -> Result<(), StoreError> {
        self.0.writer.settle()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.writer.discard();
    }
}

/// A snapshot that is there.
#[derive(Debug)]
pub struct Taken {
    /// Where, how long, which number.
    pub file: Finished,
    /// Its totals, [`Totals::snapshot`] included.
    pub totals: Totals,
}

/// Finds and opens what the request needs. `growing` is the open segment when its writer asks; without it
/// (no recorder runs) left `.part` files are scanned.
pub fn plan(catalog: &Catalog, growing: Option<Growing>, request: Request) -> Result<Plan, StoreError> {
    let asked = request.window;
    let mut sources = Vec::new();
    for piece in catalog.pieces_but(request.boot, asked, growing.as_ref().map(|g| g.footer.totals.sequence))? {
        sources.extend(Source::open(piece.path, piece.footer, asked)?);
    }
    if let Some(growing) = growing.filter(|g| g.footer.totals.boot == request.boot) {
        sources.extend(Source::open(growing.path, growing.footer, asked)?);
    }
    let windows = || sources.iter().map(Source::window);
    let (Some(from), Some(to)) = (windows().map(|w| w.from).min(), windows().map(|w| w.to).max()) else {
        let path = catalog.store().root().to_owned();
        return Err(StoreError::EmptyWindow { path, from: asked.from, to: asked.to });
    };
    let window = Window { from, to };
    let holes = holes(&sources, asked);
    Ok(Plan { request, window, holes, sources })
}

impl Source {
    /// `None` when nothing in it is needed, or retention was faster.
    fn open(path: PathBuf, footer: Footer, asked: Window) -> Result<Option<Self>, StoreError> {
        let mut frames = index::frames_in(&footer.frames, footer.totals.start, asked);
        if frames.is_empty() {
            return Ok(None);
        }
        // A segment whose begin is inside the window keeps its head, one whose end is inside keeps its tail: they hold loss
        // counters and clocks of that moment, and names that its frames refer to.
        if asked.from <= footer.totals.start && footer.frames[..frames.start].iter().all(is_head) {
            frames.start = 0;
        }
        if footer.frames[frames.end..].iter().all(|f| f.facts.kind == FrameKind::Tail) {
            frames.end = footer.frames.len();
        }
        match super::layout::open_recorded(&path) {
            Ok(file) => return Ok(Some(Source { file, path, footer, frames })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(StoreError::io("open", &path, e)),
        }
        Ok(None)
    }

    /// What the frames to copy cover.
    fn window(&self) -> Window {
        let all = index::coverage(&self.footer.frames, self.footer.totals.start);
        let mut cover = all.skip(self.frames.start).take(self.frames.len()).filter(|w| w.from < w.to);
        let first = cover.next().unwrap_or(Window { from: self.footer.totals.start, to: self.footer.totals.start });
        Window { from: first.from, to: cover.last().map_or(first.to, |w| w.to) }
    }
}

fn is_head(frame: &FrameEntry) -> bool {
    frame.facts.kind == FrameKind::Head
}

/// Parts of the asked window that no source covers.
fn holes(sources: &[Source], asked: Window) -> Vec<Window> {
    let mut holes = Vec::new();
    let mut at = asked.from;
    for window in sources.iter().map(Source::window) {
        if window.from > at {
            holes.push(Window { from: at, to: window.from.min(asked.to) });
        }
        at = at.max(window.to);
    }
    if at < asked.to {
        holes.push(Window { from: at, to: asked.to });
    }
    holes
}

impl Plan {
    /// What the snapshot will cover: frame borders around the asked window. A head for it describes its begin.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Bytes to be copied.
    pub fn bytes(&self) -> u64 {
        let runs = self.sources.iter().filter_map(|s| byte_run(&s.footer.frames, &s.frames));
        runs.map(|run| run.end - run.start).sum()
    }

    /// Why it is taken and what it holds, as the footer will say (for the head's own metadata).
    pub fn note(&self) -> SnapshotNote {
        SnapshotNote {
            reason: self.request.reason.clone(),
            detail: self.request.detail.clone(),
            label: self.request.label.clone(),
            requested_at: self.request.requested_at,
            asked: self.request.window,
            real: self.window,
            holes: self.holes.clone(),
        }
    }

    /// Clocks for a fresh head, taken when the first source began; `None` where it does not know them. Not those of now:
    /// the copied frames hold older ones, and Perfetto's tools discard clocks that go back.
    pub fn clocks(&self) -> Option<ClockSnapshot> {
        self.sources.first().map(|s| s.footer.totals.clock).filter(|c| c.boot != 0)
    }

    /// Packets of the first source's own head: what was known when that segment began. The base of a fresh head for
    /// those who have nothing better (no recorder runs).
    pub fn first_head(&self) -> Result<Vec<u8>, StoreError> {
        let Some(source) = self.sources.first() else { return Ok(Vec::new()) };
        let io = |e| StoreError::io("decompress", &source.path, e);
        let mut decompressor = FrameDecompressor::new().map_err(io)?;
        let (mut bytes, mut packets, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for entry in source.footer.frames.iter().take_while(|f| is_head(f)) {
            scan::read_entry(&source.file, &source.path, entry, &mut bytes, &mut decompressor, &mut packets)?
                .map_err(|kind| StoreError::damaged(&source.path, entry.offset, kind))?;
            all.extend_from_slice(&packets);
        }
        Ok(all)
    }

    /// Copies its frames into the store's `snapshots/`, visible there once [`Prepared::publish`] or
    /// [`Prepared::show`] is done. `head`: packets of
    /// the fresh head.
    pub fn prepare(self, store: &Store, head: &[u8], level: i32) -> Result<Prepared, StoreError> {
        let start = self.sources.first().map_or(0, |s| s.footer.totals.real_of(self.window.from));
        let name = SegmentName::snapshot(start, store.next_sequence()?, &self.request.label);
        let writer = SegmentWriter::begin(&store.snapshots_dir(), &name)?;
        self.fill(writer, head, level)
    }

    /// The same and publishes it at once.
    pub fn write(self, store: &Store, head: &[u8], level: i32) -> Result<Taken, StoreError> {
        self.prepare(store, head, level)?.publish()
    }

    /// Writes it to a file of the caller's choice, replacing what stands there; visible there only when whole.
    pub fn write_file(self, path: &Path, head: &[u8], level: i32) -> Result<Taken, StoreError> {
        let sequence = self.sources.last().map_or(0, |s| s.footer.totals.sequence);
        let writer = SegmentWriter::begin_at(path, sequence)?;
        self.fill(writer, head, level)?.publish()
    }

    fn fill(&self, writer: SegmentWriter, head: &[u8], level: i32) -> Result<Prepared, StoreError> {
        // From here on an error deletes what was written.
        let mut made = Prepared { writer, totals: Totals::default(), summary: Summary::default() };
        let writer = &mut made.writer;
        let mut compressor = FrameCompressor::new(level).map_err(|e| StoreError::io("compress", writer.path(), e))?;
        let mut frame = Vec::new();
        compressor.compress(head, &mut frame).map_err(|e| StoreError::io("compress", writer.path(), e))?;
        writer.write_frame(&frame, head.len(), FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() })?;
        for source in &self.sources {
            let entries = &source.footer.frames[source.frames.clone()];
            let Some(run) = byte_run(&source.footer.frames, &source.frames) else { continue };
            writer.copy_frames(&source.file, &source.path, run, entries)?;
        }
        let parts: Vec<(&Totals, &Summary, Window)> =
            self.sources.iter().map(|s| (&s.footer.totals, &s.footer.summary, s.window())).collect();
        let (mut totals, summary) = merge::merge(&parts, self.window);
        totals.snapshot = Some(self.note());
        made.totals = made.writer.complete(totals);
        made.summary = summary;
        Ok(made)
    }
}

impl std::fmt::Display for Taken {
    /// One line for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = (self.totals.end - self.totals.start) as f64 / 1e9;
        write!(f, "{}: {seconds:.1} s, {} events", shown(&self.file.path), self.totals.events)
    }
}
