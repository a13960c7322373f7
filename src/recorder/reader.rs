//! The thread that empties the kernel's ring buffers.
//!
//! It works in cycles. A cycle begins by reading the clock: all events before that instant (less a margin) are on their
//! way to the encoder when the cycle ends, so the encoder can say "nothing older is missing". Between cycles it sleeps
//! until the next is due, a buffer is half full, or somebody asks for something. It never waits for the disk: when the
//! encoder lags, the pool of page buffers runs dry, this thread waits, the kernel's buffers fill, and what they then
//! drop the kernel counts.

mod batch;
mod lane;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::time::Duration;

pub use batch::{Batch, Command, CycleEnd, ReaderParts, Source, Unread};
use lane::Lane;

use super::clock;
use super::encoder::Page;
use super::pipeline::Produce;
use crate::kernel::cpu_reader::{self, CpuReader, ReadOutcome};
use crate::kernel::instance::TraceClock;
use crate::kernel::page::{Missed, PageHeader, PageLayout};
use crate::kernel::stats::CpuStats;
use crate::sched::event::ClockSnapshot;

/// Time between cycles when nothing presses.
pub const PERIOD: Duration = Duration::from_millis(500);
/// An event is in its buffer at most this long after its time stamp was taken, ns: it is written with preemption off,
/// so only interrupts (and a hypervisor) come between.
const MARGIN: u64 = 1_000_000;
/// Bytes read in one round, all CPUs together, before they are handed on.
const ROUND: usize = 1 << 20;
/// Sub-buffers that one CPU may be read ahead in one round.
const MOST_AHEAD: usize = 16;

/// See the module.
pub struct ReaderThread {
    readers: Vec<CpuReader>,
    /// One per reader.
    lanes: Vec<Lane>,
    wakes: bool,
    stats: Box<dyn Fn(u32) -> Option<CpuStats> + Send>,
    layout: PageLayout,
    clock: TraceClock,
    parts: ReaderParts,
    spare: Vec<Vec<u8>>,
    allocated: usize,
    most: usize,
    ahead: usize,
    offset: i64,
    next_cut: u64,
    /// Boot clock less monotonic clock: grows when the machine sleeps.
    slept: u64,
    last: u64,
}

impl ReaderThread {
    /// Takes over the source. `began`: when the first segment begins.
    pub fn new(source: Source, parts: ReaderParts, began: &ClockSnapshot) -> ReaderThread {
        let sub_buffer = source.layout.sub_buffer_size().max(1);
        let cpus = source.readers.len().max(1);
        let ahead = (ROUND / sub_buffer / cpus).clamp(1, MOST_AHEAD);
        let mut thread = ReaderThread {
            lanes: source.readers.iter().map(|r| Lane::new(r.cpu(), !r.is_offline())).collect(),
            readers: source.readers,
            wakes: source.wakes,
            stats: source.stats,
            layout: source.layout,
            clock: source.clock,
            spare: Vec::new(),
            allocated: 0,
            most: (cpus * ahead * 4).max(32),
            ahead,
            offset: 0,
            next_cut: u64::MAX,
            slept: began.boot.saturating_sub(began.mono),
            last: began.boot,
            parts,
        };
        thread.next_cut = thread.cut_after(began, Duration::from_secs(1));
        thread.offset = thread.clock_offset();
        thread
    }

    fn work(mut self) {
        loop {
            self.wait();
            let mut commands: Vec<Command> = self.parts.commands.try_iter().collect();
            let stop = commands.iter().any(|c| matches!(c, Command::Stop));
            // A request is about everything that happened before it: let what is being written get written.
            if !commands.is_empty() {
                std::thread::sleep(Duration::from_nanos(2 * MARGIN));
            }
            let asked = clock::boot_now().saturating_sub(MARGIN);
            // A cut that is due comes first, exactly where it belongs.
            while asked >= self.next_cut {
                let limit = self.next_cut;
                self.next_cut = self.cut_after(&clock::snapshot(), self.least());
                if self.cycle(limit, true, Vec::new()).is_none() {
                    return;
                }
            }
            let cut = commands.iter().any(|c| matches!(c, Command::Rotate(_)));
            if self.cycle(asked, cut, std::mem::take(&mut commands)).is_none() || stop {
                return;
            }
        }
    }

    /// No segment but the first is cut by time before half its length.
    fn least(&self) -> Duration {
        self.parts.segment.unwrap_or_default() / 2
    }

    fn cut_after(&self, now: &ClockSnapshot, least: Duration) -> u64 {
        self.parts.segment.map_or(u64::MAX, |s| clock::next_cut(now, s, least.min(s / 2)))
    }

    fn wait(&mut self) {
        let due = self.next_cut.saturating_add(2 * MARGIN).saturating_sub(clock::boot_now());
        let timeout = PERIOD.min(Duration::from_nanos(due));
        let polled: &[CpuReader] = if self.wakes { &self.readers } else { &[] };
        if let Err(e) = cpu_reader::wait(polled, Some(self.parts.wake.as_fd()), timeout) {
            tracing::warn!("waiting for the ring buffers failed: {e}; looking by time alone");
            self.wakes = false;
            std::thread::sleep(timeout);
        }
        // Non-blocking: nothing to read is no error.
        let _ = self.parts.wake.read();
    }

    /// Reads everything before `limit` and hands it on; `None` when the encoder is gone.
    fn cycle(&mut self, limit: u64, cut: bool, commands: Vec<Command>) -> Option<()> {
        let limit = limit.max(self.last);
        self.lanes.iter_mut().for_each(Lane::begin);
        let mut batch = Batch::default();
        while let Some(behind) = self.lanes.iter().filter(|l| !l.drained).map(|l| l.frontier).min() {
            for at in 0..self.lanes.len() {
                let lane = &self.lanes[at];
                if !lane.drained && lane.frontier == behind {
                    self.read_ahead(at, limit, &mut batch)?;
                }
            }
            if self.lanes.iter().any(|l| !l.drained) {
                self.send(&mut batch, limit)?;
            }
        }
        let stop = commands.iter().any(|c| matches!(c, Command::Stop));
        let cpus = self.readers.iter().map(CpuReader::cpu);
        let stats = cpus.filter(|_| cut || stop).filter_map(|c| Some((c, (self.stats)(c)?))).collect();
        let (gap, online) = (self.gap(), self.came_or_went());
        self.offset = self.clock_offset();
        batch.limit = limit;
        let unread = self.lanes.iter().filter_map(|l| l.unread(self.last)).collect();
        let (next_cut, offset) = (self.next_cut, self.offset);
        batch.end = Some(CycleEnd { cut, next_cut, commands, offset, stats, gap, online, unread });
        self.last = limit;
        self.parts.batches.send(batch).ok()
    }

    /// Reads some sub-buffers of one CPU.
    fn read_ahead(&mut self, at: usize, limit: u64, batch: &mut Batch) -> Option<()> {
        for _ in 0..self.ahead {
            let mut bytes = self.buffer(batch, limit)?;
            let cpu = self.readers[at].cpu();
            match self.readers[at].read(&mut bytes) {
                Ok(ReadOutcome::Page(len)) => bytes.truncate(len),
                other => {
                    match other {
                        Err(e) => self.lanes[at].failed(e.to_string()),
                        _ => self.lanes[at].works(self.last),
                    }
                    self.spare.push(bytes);
                    self.lanes[at].drained = true;
                    return Some(());
                }
            }
            let lane = &mut self.lanes[at];
            lane.works(self.last);
            let after_failure = lane.is_after_failure();
            if lane.is_late(&mut bytes, &self.layout, self.offset) {
                self.spare.push(bytes);
                continue;
            }
            let header = PageHeader::read(&self.layout, &bytes).ok();
            // The counters know nothing of pages that were left out.
            let missed = header.is_some_and(|h| h.missed == Missed::Some) && !after_failure;
            let stats = if missed { (self.stats)(cpu) } else { None };
            batch.inputs.push(Page { cpu, bytes, stats });
            let lane = &mut self.lanes[at];
            lane.frontier = header.map_or(lane.frontier, |h| h.timestamp.max(lane.frontier));
            if lane.frontier.saturating_add_signed(self.offset) >= limit {
                lane.drained = true;
                return Some(());
            }
        }
        Some(())
    }

    /// Hands on what was read; the encoder may go as far as every CPU has been read.
    fn send(&mut self, batch: &mut Batch, limit: u64) -> Option<()> {
        let reached = self.lanes.iter().filter(|l| !l.drained).map(|l| l.frontier).min();
        let reached = reached.map_or(limit, |f| f.saturating_add_signed(self.offset).min(limit));
        let full = std::mem::replace(batch, Batch { limit, ..Batch::default() });
        self.parts.batches.send(Batch { limit: reached, ..full }).ok()
    }

    /// An empty buffer of a sub-buffer's size. Waits for the encoder when all are under way.
    fn buffer(&mut self, batch: &mut Batch, limit: u64) -> Option<Vec<u8>> {
        let size = self.layout.sub_buffer_size();
        self.spare.extend(self.parts.free.try_iter().flatten());
        if self.spare.is_empty() && self.allocated >= self.most {
            // The encoder can only give buffers back if it gets what stands here.
            self.send(batch, limit)?;
            while self.spare.is_empty() {
                self.spare.extend(self.parts.free.recv().ok()?);
            }
        }
        if self.spare.is_empty() {
            self.allocated += 1;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(size, 0);
        Some(bytes)
    }

    fn clock_offset(&self) -> i64 {
        match self.clock {
            TraceClock::Boot => 0,
            TraceClock::Mono => clock::boot_now().wrapping_sub(clock::mono_now()) as i64,
            // The ring buffer itself says what its clock reads; between the two readings lie microseconds.
            TraceClock::Global => {
                let now = self.readers.first().and_then(|r| (self.stats)(r.cpu())).and_then(|s| s.now_ts);
                now.map_or(self.offset, |now| clock::boot_now().wrapping_sub(now) as i64)
            }
        }
    }

    /// The machine slept within the last cycle: what certainly lies in the sleep, whenever in the cycle it began.
    fn gap(&mut self) -> Option<(u64, u64)> {
        let (boot, mono) = (clock::boot_now(), clock::mono_now());
        let before = std::mem::replace(&mut self.slept, boot.saturating_sub(mono));
        clock::sleep_within(self.last, boot, self.slept.saturating_sub(before))
    }

    fn came_or_went(&mut self) -> Vec<(u32, bool)> {
        let now = self.lanes.iter_mut().zip(&self.readers);
        now.filter_map(|(lane, reader)| lane.came_or_went(!reader.is_offline())).collect()
    }
}

impl Produce for ReaderThread {
    const NAME: &str = "dc-reader";

    fn offset(&self) -> i64 {
        self.offset
    }

    /// Works until told to stop, or until the encoder is gone.
    fn run(self) {
        self.work();
    }
}
