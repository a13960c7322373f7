//! Loading a window from any mix of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::frames::{Job, OurFile, Part, join, last_packet, read_in_order, told};
use super::pipeline::{self, Remote};
use super::pump::{Pump, note_clock};
use super::{Consumer, FeedError, Loaded, OnProgress, Progress, SourceFile, Survey, Window};
use crate::names::NameTable;
use crate::perfetto::decode::{Decoder, stream};
use crate::sched::event::Item;
use crate::store::Store;
use crate::store::footer::BootId;
use crate::store::index::frames_in;
use crate::time::ClockMap;

/// What was named, opened and put in order.
struct Sources {
    ours: Vec<OurFile>,
    foreign: Vec<(PathBuf, u64)>,
    notes: Vec<String>,
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
    let sources = Sources::open(paths)?;
    let read = |remote: &mut Remote, progress: OnProgress<'_>| -> Result<(Pump, bool), FeedError> {
        let mut pump = Pump::new();
        for file in &sources.ours {
            file.damage.iter().for_each(|what| pump.damage.note(Some(&file.path), what.clone()));
        }
        let mut complete = load_ours(&sources.ours, window, &mut pump, remote, &mut *progress)?;
        for (path, bytes) in &sources.foreign {
            complete = complete && load_foreign(path, *bytes, &mut pump, remote, &mut *progress)?;
        }
        pump.finish(remote);
        Ok((pump, complete))
    };
    let (read, wanted_all) = pipeline::run(consumer, progress, read);
    let (pump, complete) = read?;
    let seen = pump.seen.map(|(from, to)| Window { from, to: to.max(pump.through).max(from + 1) });
    Ok(Loaded {
        names: pump.names,
        clocks: pump.clocks,
        window: seen,
        events: pump.events,
        frames: pump.frames,
        damage: sources.notes.into_iter().chain(pump.damage.words()).collect(),
        complete: complete && wanted_all,
    })
}

impl Sources {
    fn open(paths: &[PathBuf]) -> Result<Sources, FeedError> {
        let mut sources = Sources { ours: Vec::new(), foreign: Vec::new(), notes: Vec::new() };
        for path in paths {
            if path.is_dir() {
                for stored in Store::open(path)?.segments()? {
                    sources.add_stored(&stored.path)?;
                }
            } else if let Some(file) = OurFile::open(path)? {
                sources.ours.push(file);
            } else {
                let bytes = path.metadata().map_err(|e| FeedError::open(path, e))?.len();
                sources.foreign.push((path.clone(), bytes));
            }
        }
        sources.ours.retain(|f| !f.parts.is_empty());
        if sources.ours.is_empty() && sources.foreign.is_empty() {
            return Err(FeedError::Nothing(paths.first().cloned().unwrap_or_default()));
        }
        sources.one_boot();
        sources.ours.sort_by_key(|f| f.parts.first().map(|p| p.window.from));
        Ok(sources)
    }

    /// A file of a store: one that vanished since the listing, or that is damaged from its begin, spoils nothing.
    fn add_stored(&mut self, path: &Path) -> Result<(), FeedError> {
        match OurFile::open(path) {
            Ok(Some(file)) => self.ours.push(file),
            Ok(None) => self.notes.push(told(path, "holds no whole frame yet")),
            Err(FeedError::Open { why, .. }) if why.kind() == io::ErrorKind::NotFound => {}
            Err(e @ FeedError::Open { .. }) => return Err(e),
            Err(e) => self.notes.push(e.to_string()),
        }
        Ok(())
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
            self.notes.push(format!("{left_out} files of earlier boots are left out; open them by themselves"));
        }
    }
}

/// How much of a frame is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    All,
    Facts,
    /// No index told: its watermark decides.
    Look,
}

fn load_ours<C: Consumer>(
    files: &[OurFile],
    window: Option<Window>,
    pump: &mut Pump,
    consumer: &mut C,
    progress: OnProgress<'_>,
) -> Result<bool, FeedError> {
    let (mut jobs, mut wants) = (Vec::new(), Vec::new());
    for (i, file) in files.iter().enumerate() {
        for part in &file.parts {
            for (want, entry) in wanted(part, window) {
                jobs.push(Job { file: i, entry: entry.clone() });
                wants.push(want);
            }
        }
    }
    pump.frames = (jobs.len() as u64, files.iter().flat_map(|f| &f.parts).map(|p| p.frames.len() as u64).sum());
    let mut at = Progress { done: 0, total: jobs.iter().map(|j| j.entry.compressed).sum() };
    let (mut complete, mut skipped) = (true, false);
    read_in_order(files, &jobs, |(i, packets)| {
        let job = &jobs[i];
        match packets {
            Ok(packets) => {
                let want = settle(wants[i], &packets, window);
                if want == Want::Facts {
                    pump.facts(&packets, consumer);
                    skipped = true;
                } else {
                    if std::mem::take(&mut skipped) {
                        pump.reset_through();
                    }
                    pump.frame(&packets, consumer);
                }
            }
            Err(what) => {
                pump.damage.note(Some(&files[job.file].path), what);
                // Of a frame from before the window only names are missing.
                if wants[i] == Want::All {
                    pump.missing();
                }
            }
        }
        at.done += job.entry.compressed;
        complete = progress(at).is_continue();
        complete
    })?;
    Ok(complete)
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
    before.chain(part.frames[range.clone()].iter().map(|f| (Want::All, f))).collect()
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
    let (before, result) = (pump.events, pump.stream(reader, consumer));
    if let Err(e) = result
        && !cancelled
    {
        if let stream::StreamError::Io { source, .. } = e
            && pump.events == before
        {
            return Err(FeedError::open(path, source));
        }
        pump.damage.note(Some(path), "the rest of the trace cannot be read".into());
    }
    Ok(!cancelled)
}
