//! The thread that puts frames into files, and the keeper beside it that does what may take long: fsync, finishing,
//! deleting.
//!
//! A frame that cannot be written (full disk) is dropped, its events are counted and told as loss in the next frame
//! that can; the file stays whole. Writing is tried again with every frame, a new segment every few seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::live::{Dropped, Live};
use super::status::OpenSegment;
use crate::store::catalog::Catalog;
use crate::store::footer::{Summary, Totals};
use crate::store::index::{FrameFacts, LossCount};
use crate::store::retention::{self, Clocks, Limits};
use crate::store::snapshot::Growing;
use crate::store::writer::{SegmentWriter, Syncer};
use crate::store::{Store, StoreError};

/// Between two tries to begin a segment where the last failed.
const RETRY: Duration = Duration::from_secs(2);
/// Between two sweeps that are asked for because the disk is full.
const SWEEP: Duration = Duration::from_secs(2);
/// Between two sweeps that nobody asked for.
const ROUTINE: Duration = Duration::from_secs(30);

/// One zstd frame.
#[derive(Debug, Default)]
pub struct Frame {
    /// Compressed.
    pub bytes: Vec<u8>,
    /// Length of its content.
    pub raw: usize,
    /// What is in it.
    pub facts: FrameFacts,
}

/// What the encoder tells the writer.
#[derive(Debug)]
pub enum ToWriter {
    /// A segment begins.
    Begin {
        /// Wall clock at its begin, ns since 1970.
        real: u64,
        /// Its begin, ns on CLOCK_BOOTTIME.
        from: u64,
        /// Its head.
        head: Frame,
    },
    /// A frame of events.
    Data(Frame),
    /// The segment ends.
    End {
        /// Its tail.
        tail: Frame,
        /// For its footer.
        totals: Box<Totals>,
        /// For its footer.
        summary: Summary,
        /// To be told once the file has its final name.
        done: Vec<Sender<()>>,
    },
    /// What would the file be if it ended now?
    Growing {
        /// Totals up to now.
        totals: Box<Totals>,
        /// Summary up to now.
        summary: Summary,
        /// Who asks; `None` if nothing is open.
        reply: Sender<Option<Growing>>,
    },
}

/// What the keeper is asked.
enum Chore {
    Finish(Box<SegmentWriter>, Box<Totals>, Summary, Vec<Sender<()>>),
    Sync(Syncer),
    MakeRoom,
}

/// See the module.
pub struct WriterThread {
    store: Store,
    live: Arc<Live>,
    segment: Duration,
    sync_interval: Duration,
    chores: Sender<Chore>,
    open: Option<Box<SegmentWriter>>,
    failed_at: Option<Instant>,
    synced: Instant,
    /// Watermark of the frame before.
    through: u64,
    /// That of the last one written, if those after it were not.
    nothing_since: Option<u64>,
}

/// See the module.
pub struct KeeperThread {
    store: Store,
    live: Arc<Live>,
    clocks: Box<dyn Fn() -> Clocks + Send>,
    chores: Receiver<Chore>,
    /// Kept between sweeps: it remembers what it read of finished segments.
    catalog: Option<Catalog>,
    unfinished: Vec<(Box<SegmentWriter>, Box<Totals>, Summary)>,
    swept: Option<Instant>,
}

/// The two threads of a store. `clocks` says how age is measured now.
pub fn threads(
    store: &Store,
    live: &Arc<Live>,
    (segment, sync_interval): (Duration, Duration),
    clocks: Box<dyn Fn() -> Clocks + Send>,
) -> (WriterThread, KeeperThread) {
    let (send, receive) = crossbeam_channel::bounded(16);
    let writer = WriterThread {
        store: store.clone(),
        live: live.clone(),
        segment,
        sync_interval,
        chores: send,
        open: None,
        failed_at: None,
        synced: Instant::now(),
        through: 0,
        nothing_since: None,
    };
    let keeper = KeeperThread {
        store: store.clone(),
        live: live.clone(),
        clocks,
        chores: receive,
        catalog: None,
        unfinished: Vec::new(),
        swept: None,
    };
    (writer, keeper)
}

impl WriterThread {
    /// Works until the encoder is gone.
    pub fn run(mut self, frames: &Receiver<ToWriter>) {
        for message in frames {
            match message {
                ToWriter::Begin { real, from, head } => self.begin(real, from, head),
                ToWriter::Data(frame) => self.data(frame),
                ToWriter::End { tail, totals, summary, done } => self.end(tail, totals, summary, done),
                ToWriter::Growing { totals, summary, reply } => {
                    let growing = self.open.as_ref().map(|w| w.growing(*totals, summary));
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(growing);
                }
            }
            self.reopen_in_time();
        }
    }

    fn begin(&mut self, real: u64, from: u64, head: Frame) {
        let begun = SegmentWriter::create(&self.store, real).and_then(|mut writer| {
            writer.write_frame(&head.bytes, head.raw, head.facts).inspect_err(|_| writer_gone(&writer))?;
            Ok(writer)
        });
        match begun {
            Ok(writer) => {
                let until = from.saturating_add(u64::try_from(self.segment.as_nanos()).unwrap_or(u64::MAX));
                let path = writer.path().to_owned();
                let open = OpenSegment { path, sequence: writer.sequence(), from, until, bytes: writer.bytes() };
                let mut live = self.live.lock();
                (live.segment, live.problem, live.reopen) = (Some(open), None, false);
                live.written += writer.bytes();
                self.failed_at = None;
                self.open = Some(Box::new(writer));
            }
            Err(e) => {
                self.failed_at = Some(Instant::now());
                self.trouble(&e);
                let mut live = self.live.lock();
                (live.segment, live.reopen) = (None, false);
            }
        }
    }

    fn data(&mut self, frame: Frame) {
        let Frame { bytes, raw, facts } = frame;
        let before = std::mem::replace(&mut self.through, facts.complete_through);
        let Some(writer) = &mut self.open else { return self.dropped(before, &facts) };
        match writer.write_frame(&bytes, raw, facts.clone()) {
            Ok(()) => {
                self.nothing_since = None;
                let mut live = self.live.lock();
                live.problem = None;
                live.written += bytes.len() as u64;
                if let Some(open) = &mut live.segment {
                    open.bytes = writer.bytes();
                }
            }
            Err(e) => {
                self.dropped(before, &facts);
                self.trouble(&e);
            }
        }
        self.sync_in_time();
    }

    fn end(&mut self, tail: Frame, totals: Box<Totals>, summary: Summary, done: Vec<Sender<()>>) {
        self.live.lock().segment = None;
        let Some(mut writer) = self.open.take() else { return };
        if let Err(e) = writer.write_frame(&tail.bytes, tail.raw, tail.facts.clone()) {
            self.dropped(self.through, &tail.facts);
            self.trouble(&e);
        }
        // The keeper ends after this thread, so it is there.
        let _ = self.chores.send(Chore::Finish(writer, totals, summary, done));
    }

    /// A frame that began where the one before ended, at `before`, is not in any file.
    fn dropped(&mut self, before: u64, facts: &FrameFacts) {
        let since = *self.nothing_since.get_or_insert(before);
        let mut live = self.live.lock();
        if facts.events.is_empty() {
            live.hole = Some((live.hole.map_or(before, |h| h.0), facts.complete_through));
        }
        let (first, last) = facts.span.unwrap_or((facts.complete_through, facts.complete_through));
        // At the very first frame nothing tells since when.
        let span = (if since == 0 { first } else { since.min(first) }, last.max(facts.complete_through));
        for &(cpu, count) in &facts.events {
            live.not_written(Dropped { cpu, span, count, told: LossCount::default() });
        }
        for &(cpu, told) in &facts.loss {
            live.not_written(Dropped { cpu, span, count: 0, told });
        }
    }

    fn trouble(&mut self, e: &StoreError) {
        let mut live = self.live.lock();
        let text = e.to_string();
        if live.problem.as_ref() != Some(&text) {
            tracing::error!("not writing: {text}");
            live.problem = Some(text);
        }
        drop(live);
        if e.is_full() {
            let _ = self.chores.try_send(Chore::MakeRoom);
        }
        // Somebody cleaned the store away. What was in it is gone; what comes from now on need not be.
        if e.is_missing() && Store::create(self.store.root()).is_ok() {
            tracing::warn!("made the folders of {} again: they were taken away", self.store.root().display());
        }
    }

    /// Without an open segment, asks for a head now and then.
    fn reopen_in_time(&mut self) {
        if self.open.is_none() && self.failed_at.is_some_and(|at| at.elapsed() >= RETRY) {
            self.failed_at = Some(Instant::now());
            self.live.lock().reopen = true;
        }
    }

    fn sync_in_time(&mut self) {
        if self.sync_interval.is_zero() || self.synced.elapsed() < self.sync_interval {
            return;
        }
        self.synced = Instant::now();
        if let Some(Ok(syncer)) = self.open.as_ref().map(|w| w.syncer()) {
            // A keeper that is still busy syncing will do so again.
            let _ = self.chores.try_send(Chore::Sync(syncer));
        }
    }
}

/// A file without even a head is of no use.
fn writer_gone(writer: &SegmentWriter) {
    if writer.frames().is_empty() {
        let _ = std::fs::remove_file(writer.path());
    }
}

impl KeeperThread {
    /// Works until the writer is gone.
    pub fn run(mut self) {
        self.sweep();
        loop {
            match self.chores.recv_timeout(ROUTINE) {
                Ok(Chore::Finish(writer, totals, summary, done)) => {
                    self.finish(writer, totals, summary);
                    for d in done {
                        // Whoever asked may have stopped waiting.
                        let _ = d.send(());
                    }
                    self.sweep();
                }
                Ok(Chore::Sync(syncer)) => {
                    if let Err(e) = syncer.sync() {
                        tracing::warn!("{e}");
                    }
                }
                Ok(Chore::MakeRoom) => {
                    if self.swept.is_none_or(|at| at.elapsed() >= SWEEP) {
                        self.sweep();
                        self.retry();
                    }
                }
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                    self.retry();
                    self.sweep();
                }
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return self.retry(),
            }
        }
    }

    fn finish(&mut self, mut writer: Box<SegmentWriter>, totals: Box<Totals>, summary: Summary) {
        match writer.finish((*totals).clone(), summary.clone()) {
            Ok(finished) => {
                let mut live = self.live.lock();
                live.finished += 1;
                live.last_finished = Some(finished.path);
            }
            Err(e) => {
                tracing::error!("{e}; trying again later");
                self.unfinished.push((writer, totals, summary));
            }
        }
    }

    /// Tries once more what could not be finished.
    fn retry(&mut self) {
        for (writer, totals, summary) in std::mem::take(&mut self.unfinished) {
            self.finish(writer, totals, summary);
        }
    }

    /// The limits as they are configured now, the free share in bytes of this file system.
    fn limits(&self) -> Limits {
        let (keep, free_share) = self.live.lock().limits;
        let total = self.store.disk_usage().map_or(0, |u| u.total);
        Limits { min_free: Some((total as f64 * free_share) as u64), ..keep }
    }

    fn sweep(&mut self) {
        self.swept = Some(Instant::now());
        let mut limits = self.limits();
        // A disk that others filled: give back what is above the free share, too.
        if self.live.lock().problem.is_some() {
            limits.min_free = Some(limits.min_free.unwrap_or(0).max(1 << 20));
        }
        let catalog = match &mut self.catalog {
            Some(catalog) => catalog,
            place => match Catalog::open(&self.store) {
                Ok(catalog) => place.insert(catalog),
                Err(e) => return tracing::warn!("{e}"),
            },
        };
        let sweep = match retention::sweep(&self.store, catalog, &limits, &(self.clocks)()) {
            Ok(sweep) => sweep,
            Err(e) => return tracing::warn!("{e}"),
        };
        sweep.failed.iter().for_each(|e| tracing::warn!("{e}"));
        let mut live = self.live.lock();
        let kept = &mut live.kept;
        kept.segments = catalog.segments().iter().filter(|s| !s.is_growing()).count() as u64;
        kept.bytes = sweep.usage.segments;
        kept.free = sweep.usage.free;
        let oldest = catalog.segments().iter().filter_map(|s| s.totals.as_ref()).next();
        kept.oldest_unix = oldest.map(|t| t.real_of(t.start));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::frame::FrameCompressor;

    #[test]
    fn a_store_that_somebody_took_away_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let (store, live) = (Store::create(&root).unwrap(), Arc::new(Live::default()));
        let times = (Duration::from_secs(60), Duration::ZERO);
        let (mut writer, _keeper) = threads(&store, &live, times, Box::new(|| unreachable!("nothing is swept")));
        let begin = |writer: &mut WriterThread| {
            let mut bytes = Vec::new();
            FrameCompressor::new(1).unwrap().compress(b"head", &mut bytes).unwrap();
            writer.begin(1_700_000_000_000_000_000, 1, Frame { bytes, raw: 4, facts: FrameFacts::default() });
            (writer.open.take().is_some(), live.lock().problem.take())
        };
        assert_eq!(begin(&mut writer), (true, None));
        std::fs::remove_dir_all(&root).unwrap();
        let (open, problem) = begin(&mut writer);
        assert!(!open && problem.unwrap().contains("No such file or directory"), "told");
        assert_eq!(begin(&mut writer), (true, None), "and the next one is written");
        assert_eq!(store.segments().unwrap().len(), 1);
    }
}
