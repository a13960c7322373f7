//! Loading a window from any mix of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::damage::{CUT_PACKET, NO_PACKET, torn_at};
use super::frames::{Job, OurFile, Part, join, last_packet, read_in_order, told};
use super::lives::Reading;
use super::pipeline::{self, Ended, Remote};
use super::pump::{Pump, note_clock};
use super::{Consumer, FeedError, Loaded, OnProgress, Progress, SourceFile, Survey, Window};
use crate::memory;
use crate::names::NameTable;
use crate::perfetto::decode::{DecodeError, Decoder, stream};
use crate::sched::event::Item;
use crate::store::footer::BootId;
use crate::store::index::{FrameKind, frames_in};
use crate::store::{Store, StoreError};
use crate::time::ClockMap;
use crate::units::show;

/// What was named, opened and put in order.
pub(super) struct Sources {
    pub ours: Vec<OurFile>,
    pub foreign: Vec<(PathBuf, u64)>,
    notes: Vec<String>,
    /// The first file of a store that could not be opened: no answer is due to it, unless there is nothing else.
    refused: Option<FeedError>,
}

/// Says what `paths` (stores, segments, snapshots, foreign traces) hold.
pub fn survey(paths: &[PathBuf]) -> Result<Survey, FeedError> {
    let sources = Sources::open(paths)?;
    let mut clocks = ClockMap::default();
    let mut window: Option<Window> = None;
    let mut files = Vec::new();
    for file in &sources.ours {
        let told = file.told();
        file.parts.iter().flat_map(|p| &p.clocks).for_each(|c| note_clock(&mut clocks, c));
        window = [window, told.window].into_iter().flatten().reduce(join);
        files.push(told);
    }
    let unknown = |(path, bytes)| SourceFile { path, bytes, window: None, counts: None, note: None };
    files.extend(sources.foreign.into_iter().map(unknown));
    let mut snapshots = Vec::new();
    for path in paths.iter().filter(|p| p.is_dir()) {
        for stored in Store::open(path)?.snapshots()? {
            // One that cannot be read is told when it is asked for by name.
            snapshots.extend(OurFile::open(&stored.path).ok().flatten().map(|file| file.told()));
        }
    }
    Ok(Survey { files, snapshots, window, clocks, notes: sources.notes })
}

/// Loads what `paths` say about `window` (all, if `None`) into `consumer`.
///
/// Of our own files whole zstd frames are loaded, so that events a little outside of the window come too; foreign
/// traces are loaded whole.
pub fn load<C: Consumer>(
    paths: &[PathBuf],
    window: Option<Window>,
    consumer: &mut C,
    progress: OnProgress<'_>,
) -> Result<Loaded, FeedError> {
    load_stretch(paths, window.map_or(Stretch::All, Stretch::Window), NameTable::new(), consumer, progress)
}

/// Which part of the time is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// All of it.
    All,
    /// The frames that hold a part of it, and facts from before.
    Window(Window),
    /// From so long before that the state of every thread is known when it begins, until [`Consumer::has_enough`].
    Whole(Window),
}

/// The same of any stretch; names are added to `names`.
pub fn load_stretch<C: Consumer>(
    paths: &[PathBuf],
    stretch: Stretch,
    names: NameTable,
    consumer: &mut C,
    progress: OnProgress<'_>,
) -> Result<Loaded, FeedError> {
    let sources = Sources::open(paths)?;
    let enough = AtomicBool::new(false);
    let read = |remote: &mut Remote, progress: OnProgress<'_>| -> Result<(Pump, bool), FeedError> {
        let mut pump = Pump::new(names);
        for file in &sources.ours {
            file.damage.iter().for_each(|what| pump.damage.note(Some(&file.path), what.clone()));
        }
        let mut complete = load_ours(&sources.ours, (stretch, &enough), &mut pump, remote, &mut *progress)?;
        for (path, bytes) in &sources.foreign {
            complete = complete && load_foreign(path, *bytes, &mut pump, remote, &mut *progress)?;
        }
        pump.finish(remote);
        Ok((pump, complete))
    };
    let (read, ended) = pipeline::run(consumer, progress, &enough, &memory::shortage, read);
    let (pump, complete) = read?;
    if let Ended::Full(room) = ended {
        return Err(FeedError::Memory { events: pump.events, room });
    }
    let seen = pump.seen.map(|(from, to)| Window { from, to: to.max(pump.through).max(from + 1) });
    Ok(Loaded {
        damage: sources.notes.into_iter().chain(pump.unread()).collect(),
        names: pump.names,
        clocks: pump.clocks,
        window: seen,
        events: pump.events,
        frames: pump.frames,
        complete: complete && ended == Ended::Whole,
    })
}

impl Sources {
    pub fn open(paths: &[PathBuf]) -> Result<Sources, FeedError> {
        let mut sources = Sources { ours: Vec::new(), foreign: Vec::new(), notes: Vec::new(), refused: None };
        let mut empty = None;
        for path in paths {
            if path.is_dir() {
                let store = Store::open(path)?;
                let left_out = store.misnamed().into_iter().filter(|(path, _)| path.starts_with(store.segments_dir()));
                sources.notes.extend(left_out.map(|(path, why)| told(&path, &format!("left out: {why}"))));
                for stored in store.segments()? {
                    sources.add_stored(&stored.path);
                }
            } else if let Some(file) = OurFile::open(path).map_err(|e| missing(path, e))? {
                sources.ours.push(file);
            } else {
                match path.metadata().map_err(|e| FeedError::open(path, e))?.len() {
                    0 => {
                        sources.notes.push(told(path, "is empty"));
                        empty.get_or_insert(path);
                    }
                    bytes => sources.foreign.push((path.clone(), bytes)),
                }
            }
        }
        sources.ours.retain(|f| !f.parts.is_empty());
        if sources.ours.is_empty() && sources.foreign.is_empty() {
            return Err(match (sources.refused, empty, paths.first()) {
                (Some(refused), ..) => refused,
                (_, Some(path), _) => FeedError::Empty(path.clone()),
                (_, None, first) => FeedError::Nothing(first.cloned().unwrap_or_default()),
            });
        }
        sources.one_boot();
        sources.ours.sort_by_key(|f| f.parts.first().map(|p| p.window.from));
        Ok(sources)
    }

    /// A file of a store: one that vanished since the listing, that is damaged from its begin, that this user may not read or
    /// that is none (somebody's pipe or folder under such a name) spoils nothing.
    fn add_stored(&mut self, path: &Path) {
        let gone = || std::fs::symlink_metadata(path).is_err();
        match OurFile::open(path) {
            Ok(Some(file)) => self.ours.push(file),
            Ok(None) => self.notes.push(told(path, "holds no whole frame yet")),
            Err(FeedError::Open { why, .. }) if why.kind() == io::ErrorKind::NotFound && gone() => {}
            Err(e) => {
                self.notes.push(e.to_string());
                if matches!(e, FeedError::Open { .. } | FeedError::Store(StoreError::Denied { .. })) {
                    self.refused.get_or_insert(e);
                }
            }
        }
    }

    /// Boot clocks of different boots cannot be put on one time line: the latest boot counts.
    fn one_boot(&mut self) {
        let newest = self.ours.iter().flat_map(|f| &f.parts).max_by_key(|p| p.clocks.first().map_or(0, |c| c.real));
        let Some(boot) = newest.map(|p| p.boot) else { return };
        let before = self.ours.len();
        let same = |p: &Part| p.boot == boot || p.boot == BootId::default();
        self.ours.iter_mut().for_each(|f| f.parts.retain(same));
        self.ours.retain(|f| !f.parts.is_empty());
        let left_out = before - self.ours.len();
        if left_out > 0 {
            self.notes.push(format!(
                "{} files of earlier boots are left out; open them by themselves",
                show::grouped(left_out as u64)
            ));
        }
    }
}

/// That nothing has the name that was given, said with what to do.
fn missing(path: &Path, error: FeedError) -> FeedError {
    match error {
        FeedError::Open { why, .. } if why.kind() == io::ErrorKind::NotFound => StoreError::reading(path, why).into(),
        other => other,
    }
}

/// How long before a stretch reading begins at least, ns: what was under way when a head was written (a wake-up of a thread
/// that still ran) has long ended by then.
const BEFORE: u64 = 1_000_000_000;

/// How much of a frame is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    All,
    Facts,
    /// No index told: its watermark decides.
    Look,
    /// Only who lived, as the end of the segment says.
    Lives,
}

fn load_ours<C: Consumer>(
    files: &[OurFile],
    (stretch, enough): (Stretch, &AtomicBool),
    pump: &mut Pump,
    consumer: &mut C,
    progress: OnProgress<'_>,
) -> Result<bool, FeedError> {
    let window = if let Stretch::Window(window) = stretch { Some(window) } else { None };
    let (mut jobs, mut wants) = (Vec::new(), Vec::new());
    for (i, file) in files.iter().enumerate() {
        for part in &file.parts {
            let frames = match stretch {
                Stretch::Whole(window) => from_head(part, window),
                Stretch::All | Stretch::Window(_) => wanted(part, window),
            };
            for (want, entry) in frames {
                jobs.push(Job { file: i, entry: entry.clone() });
                wants.push((want, part.window.from));
            }
        }
    }
    pump.frames = (0, files.iter().flat_map(|f| &f.parts).map(|p| p.frames.len() as u64).sum());
    let mut at = Progress { done: 0, total: jobs.iter().map(|j| j.entry.compressed).sum() };
    let (mut complete, mut skipped) = (true, None);
    read_in_order(files, &jobs, |(i, packets)| {
        let job = &jobs[i];
        pump.frames.0 += 1;
        match packets {
            Ok(packets) => {
                let (want, begin) = wants[i];
                match settle(want, &packets, window) {
                    Want::Facts => {
                        let skipped = skipped.get_or_insert_with(|| Skipped::of(begin));
                        skipped.facts(&packets, want == Want::Look, pump, consumer);
                    }
                    Want::Lives => {
                        let skipped = skipped.get_or_insert_with(|| Skipped::of(begin));
                        skipped.reading.take_lives(&packets, &mut pump.names);
                    }
                    Want::All | Want::Look => {
                        if let Some(skipped) = skipped.take() {
                            pump.reset_through();
                            pump.tell(skipped.reading.born(skipped.begin, skipped.through), consumer);
                        }
                        pump.frame(&packets, consumer);
                    }
                }
            }
            Err(what) => {
                pump.damage.note(Some(&files[job.file].path), what);
                // Of a frame from before the window only names are missing.
                if wants[i].0 == Want::All {
                    pump.missing();
                }
            }
        }
        at.done += job.entry.compressed;
        complete = progress(at).is_continue();
        complete && !enough.load(Ordering::Relaxed)
    })?;
    Ok(complete)
}

/// All frames of a part that ends later than a little before the window: its head says what every thread did then, and by
/// the time the window begins what a head cannot say is over.
fn from_head(part: &Part, window: Window) -> Vec<(Want, &crate::store::index::FrameEntry)> {
    if part.window.to.saturating_add(BEFORE) <= window.from {
        return Vec::new();
    }
    part.frames.iter().map(|f| (Want::All, f)).collect()
}

/// The frames of a part that are needed for the window, and how much of each.
fn wanted(part: &Part, window: Option<Window>) -> Vec<(Want, &crate::store::index::FrameEntry)> {
    let Some(window) = window else { return part.frames.iter().map(|f| (Want::All, f)).collect() };
    if part.window.to <= window.from || part.window.from >= window.to {
        return Vec::new();
    }
    if !part.indexed {
        return part.frames.iter().map(|f| (Want::Look, f)).collect();
    }
    let range = frames_in(&part.frames, part.window.from, window);
    if range.is_empty() {
        return Vec::new();
    }
    // From the segment's first event on, its head's state block holds; later it would be stale.
    let from_begin = range.start <= 1;
    let before = part.frames[..range.start].iter().map(|f| (if from_begin { Want::All } else { Want::Facts }, f));
    let end = part.frames[range.end..].last().filter(|f| f.facts.kind == FrameKind::Tail && !from_begin);
    let lives = end.into_iter().map(|f| (Want::Lives, f));
    before.chain(lives).chain(part.frames[range.clone()].iter().map(|f| (Want::All, f))).collect()
}

/// What is known of the frames of a segment before the window.
struct Skipped {
    /// Where the segment begins.
    begin: u64,
    /// Up to where they reach.
    through: u64,
    reading: Reading,
}

impl Skipped {
    fn of(begin: u64) -> Skipped {
        Skipped { begin, through: begin, reading: Reading::default() }
    }

    /// Takes the facts of a frame; with `lives` also who is born in it, where no end of the segment says so yet.
    fn facts<C: Consumer>(&mut self, packets: &[u8], lives: bool, pump: &mut Pump, consumer: &mut C) {
        self.through = watermark(packets).unwrap_or(self.through);
        let facts = pump.facts(packets, consumer);
        self.reading.take(if lives { packets } else { &facts }, &mut pump.names);
        pump.give_back(facts);
    }
}

fn settle(want: Want, packets: &[u8], window: Option<Window>) -> Want {
    let (Want::Look, Some(window)) = (want, window) else { return want };
    match watermark(packets) {
        Some(through) if through <= window.from => Want::Facts,
        // A head, read before it is known where the window lies in this segment: its states may be stale.
        None if window.from > 0 => Want::Facts,
        _ => Want::All,
    }
}

/// The watermark at the end of a frame.
pub(super) fn watermark(packets: &[u8]) -> Option<u64> {
    let mut through = None;
    // Anything unreadable here is met again, and told, when the frame is decoded.
    let _ = Decoder::new().decode(last_packet(packets), &mut NameTable::new(), &mut |item| {
        if let Item::CompleteThrough { ts } = item {
            through = Some(ts);
        }
    });
    through
}

/// Counts what is read of a file, for progress; a cancelled load reads as the end of the file.
struct Counted<'p, 'c> {
    file: File,
    at: Progress,
    progress: &'p mut OnProgress<'c>,
    cancelled: &'p mut bool,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if *self.cancelled {
            return Ok(0);
        }
        let n = self.file.read(buf)?;
        self.at.done += n as u64;
        *self.cancelled = (self.progress)(self.at).is_break();
        Ok(n)
    }
}

fn load_foreign<C: Consumer>(
    path: &Path,
    bytes: u64,
    pump: &mut Pump,
    consumer: &mut C,
    mut progress: OnProgress<'_>,
) -> Result<bool, FeedError> {
    let file = crate::store::layout::open_recorded(path).map_err(|e| FeedError::open(path, e))?;
    let mut cancelled = false;
    let at = Progress { done: 0, total: bytes };
    let reader = Counted { file, at, progress: &mut progress, cancelled: &mut cancelled };
    if let Err(e) = pump.stream(reader, consumer)
        && !cancelled
    {
        match e {
            // The disk's answer, not the file's content.
            stream::StreamError::Io { source, .. } if source.raw_os_error().is_some() => {
                return Err(FeedError::open(path, source));
            }
            e => pump.damage.note(Some(path), torn(path, &e)),
        }
    }
    Ok(!cancelled)
}

/// Where a foreign trace stops being readable.
fn torn(path: &Path, error: &stream::StreamError) -> String {
    let (offset, why) = match error {
        stream::StreamError::Io { offset, source } => (*offset, source.to_string()),
        stream::StreamError::Decode(DecodeError::Framing { offset, .. }) => (*offset, NO_PACKET.into()),
        stream::StreamError::Decode(DecodeError::Truncated { offset }) => (*offset, CUT_PACKET.into()),
    };
    torn_at(path, offset, &why)
}
