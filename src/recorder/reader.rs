//! The thread that empties the kernel's ring buffers.
//!
//! It works in cycles. A cycle begins by reading the clock: all events before that instant (less a margin) are on their
//! way to the encoder when the cycle ends, so the encoder can say "nothing older is missing". Between cycles it sleeps
//! until the next is due, a buffer is half full, or somebody asks for something. It never waits for the disk: when the
//! encoder lags, the pool of page buffers runs dry, this thread waits, the kernel's buffers fill, and what they then
//! drop the kernel counts.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use nix::sys::eventfd::EventFd;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::clock;
use super::encoder::Page;
use super::pipeline::Produce;
use crate::kernel::cpu_reader::{self, CpuReader, ReadOutcome};
use crate::kernel::instance::TraceClock;
use crate::kernel::page::{Missed, PageHeader, PageLayout};
use crate::kernel::stats::CpuStats;
use crate::sched::event::ClockSnapshot;
use crate::store::snapshot::Growing;

/// Time between cycles when nothing presses.
pub const PERIOD: Duration = Duration::from_millis(500);
/// An event is in its buffer at most this long after its time stamp was taken, ns: it is written with preemption off,
/// so only interrupts (and a hypervisor) come between.
const MARGIN: u64 = 1_000_000;
/// Bytes read in one round, all CPUs together, before they are handed on.
const ROUND: usize = 1 << 20;
/// Sub-buffers that one CPU may be read ahead in one round.
const MOST_AHEAD: usize = 16;

/// Asked of the capture path; answered once everything recorded before the request is in the file.
#[derive(Debug)]
pub enum Command {
    /// Write out what there is and say what the growing segment holds; `None` while nothing can be written.
    Flush(Sender<Option<Growing>>),
    /// Cut the segment.
    Rotate(Sender<()>),
    /// Write out what there is, finish the segment and end.
    Stop,
}

/// What was read, on its way to the encoder.
#[derive(Debug)]
pub struct Batch<I = Page> {
    /// Sub-buffers, those of one CPU in order; or what was sampled.
    pub inputs: Vec<I>,
    /// All events before this instant (ns, boot) stand in inputs up to here.
    pub limit: u64,
    /// The cycle is over.
    pub end: Option<CycleEnd>,
}

impl<I> Default for Batch<I> {
    fn default() -> Self {
        Batch { inputs: Vec::new(), limit: 0, end: None }
    }
}

/// What happens at the end of a cycle.
#[derive(Debug, Default)]
pub struct CycleEnd {
    /// A segment ends exactly at the limit.
    pub cut: bool,
    /// When the next segment ends by time, ns on CLOCK_BOOTTIME.
    pub next_cut: u64,
    /// Requests to answer.
    pub commands: Vec<Command>,
    /// Added to record times to get the boot clock, for the pages of the next cycle.
    pub offset: i64,
    /// Ring-buffer counters, at a cut or the end.
    pub stats: Vec<(u32, CpuStats)>,
    /// The machine slept (boot clock ran on, monotonic did not): from, to.
    pub gap: Option<(u64, u64)>,
    /// CPUs that came or went.
    pub online: Vec<(u32, bool)>,
    /// CPUs of which nothing could be read in this cycle.
    pub unread: Vec<Unread>,
}

/// A CPU whose buffer the kernel did not let us read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The CPU.
    pub cpu: u32,
    /// What it did from here on, up to the end of the cycle, is not in the recording, ns on CLOCK_BOOTTIME.
    pub from: u64,
    /// What the kernel said.
    pub why: String,
}

/// Where pages and counters come from: the instance, or a stand-in.
pub struct Source {
    /// One reader per CPU.
    pub readers: Vec<CpuReader>,
    /// A CPU's counters.
    pub stats: Box<dyn Fn(u32) -> Option<CpuStats> + Send>,
    /// Layout of sub-buffers.
    pub layout: PageLayout,
    /// Poll may be given the readers.
    pub wakes: bool,
    /// What record times mean.
    pub clock: TraceClock,
}

/// Channels and settings of the reader.
pub struct ReaderParts<I = Page> {
    /// To the encoder.
    pub batches: Sender<Batch<I>>,
    /// Emptied page buffers from the encoder.
    pub free: Receiver<Vec<Vec<u8>>>,
    /// Requests.
    pub commands: Receiver<Command>,
    /// Readable when there is a request.
    pub wake: Arc<EventFd>,
    /// Length of a segment; `None`: never cut by time.
    pub segment: Option<Duration>,
}

/// What a failed read leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// The last read failed.
    Lasts(String),
    /// Reading works again, but what was written before this instant (ns, boot) has been told as lost: its pages are late.
    Over(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Start time of the last page read in this cycle, record clock; 0 = none yet.
    frontier: u64,
    /// Nothing before the cycle's limit is left in the kernel's buffer.
    drained: bool,
    online: bool,
}

/// See the module.
pub struct ReaderThread {
    readers: Vec<CpuReader>,
    /// One per reader.
    lanes: Vec<Lane>,
    /// One per reader.
    failures: Vec<Option<Failure>>,
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
            lanes: source.readers.iter().map(|r| Lane { online: !r.is_offline(), ..Lane::default() }).collect(),
            failures: vec![None; source.readers.len()],
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
        for lane in &mut self.lanes {
            (lane.frontier, lane.drained) = (0, false);
        }
        let mut batch = Batch::default();
        while let Some(behind) = self.lanes.iter().filter(|l| !l.drained).map(|l| l.frontier).min() {
            for at in 0..self.lanes.len() {
                let lane = self.lanes[at];
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
        let unread = self.unread();
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
                        Err(e) => self.failed(at, e.to_string()),
                        _ => self.works(at),
                    }
                    self.spare.push(bytes);
                    self.lanes[at].drained = true;
                    return Some(());
                }
            }
            self.works(at);
            let after_failure = self.failures[at].is_some();
            if self.is_late(at, &mut bytes) {
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

    /// A read failed. Told once in the log, and in each cycle to those who read the recording or ask for the status.
    fn failed(&mut self, at: usize, why: String) {
        if !matches!(self.failures[at], Some(Failure::Lasts(_))) {
            tracing::warn!("{why}; what happens there counts as lost until it can be read again");
        }
        self.failures[at] = Some(Failure::Lasts(why));
    }

    /// A read did not fail.
    fn works(&mut self, at: usize) {
        if let Some(Failure::Lasts(_)) = self.failures[at] {
            tracing::info!(cpu = self.readers[at].cpu(), "the ring buffer can be read again");
            self.failures[at] = Some(Failure::Over(self.last));
        }
    }

    /// True of a page that begins in a time which was told as lost already: with it, events would come after their time. The
    /// first page behind them says that some are missing in front of it.
    fn is_late(&mut self, at: usize, page: &mut [u8]) -> bool {
        let Some(Failure::Over(told)) = self.failures[at] else { return false };
        let begin = PageHeader::read(&self.layout, page).map_or(0, |h| h.timestamp);
        if begin.saturating_add_signed(self.offset) < told {
            return true;
        }
        PageHeader::mark_missed(&self.layout, page);
        self.failures[at] = None;
        false
    }

    /// CPUs that could not be read to the end of this cycle.
    fn unread(&self) -> Vec<Unread> {
        let lasts = |(reader, failure): (&CpuReader, &Option<Failure>)| match failure {
            Some(Failure::Lasts(why)) => Some(Unread { cpu: reader.cpu(), from: self.last, why: why.clone() }),
            _ => None,
        };
        self.readers.iter().zip(&self.failures).filter_map(lasts).collect()
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
        sleep_within(self.last, boot, self.slept.saturating_sub(before))
    }

    fn came_or_went(&mut self) -> Vec<(u32, bool)> {
        let mut changed = Vec::new();
        for (lane, reader) in self.lanes.iter_mut().zip(&self.readers) {
            let online = !reader.is_offline();
            if std::mem::replace(&mut lane.online, online) != online {
                changed.push((reader.cpu(), online));
            }
        }
        changed
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

/// Of a sleep of `slept` ns somewhere between `from` and `to`, what lies in it wherever it began; `None` if too short.
pub(super) fn sleep_within(from: u64, to: u64, slept: u64) -> Option<(u64, u64)> {
    let awake = to.saturating_sub(from).checked_sub(slept)?;
    (slept >= 1_000_000_000 && awake < slept).then(|| (from + awake, from + slept))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::PageWriter;
    use crossbeam_channel::unbounded;
    use std::collections::VecDeque;
    use std::io::{self, Read};

    const S: u64 = 1_000_000_000;

    /// Answers reads from a list: a page, or an errno; then with EAGAIN.
    struct Script(VecDeque<Result<Vec<u8>, i32>>);

    impl Read for Script {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let page = self.0.pop_front().unwrap_or(Err(libc::EAGAIN)).map_err(io::Error::from_raw_os_error)?;
            buf[..page.len()].copy_from_slice(&page);
            Ok(page.len())
        }
    }

    /// A reader of one CPU, 3, whose counters say that 40 events were overwritten; and what it hands on.
    fn reader(script: Vec<Result<Vec<u8>, i32>>) -> (ReaderThread, Receiver<Batch>) {
        let size = PageLayout::USUAL.sub_buffer_size();
        let source = Source {
            readers: vec![CpuReader::from_source(3, size, Box::new(Script(script.into())), Duration::ZERO)],
            stats: Box::new(|_| Some(CpuStats { overrun: 40, ..CpuStats::default() })),
            layout: PageLayout::USUAL,
            wakes: false,
            clock: TraceClock::Boot,
        };
        let ((batches, out), (_, free), (_, commands)) = (unbounded(), unbounded(), unbounded());
        let wake = Arc::new(EventFd::new().unwrap());
        let parts = ReaderParts { batches, free, commands, wake, segment: None };
        let began = ClockSnapshot { boot: 50, mono: 50, ..ClockSnapshot::default() };
        (ReaderThread::new(source, parts, &began), out)
    }

    fn page(ts: u64) -> Vec<u8> {
        let mut page = PageWriter::new(PageLayout::USUAL, ts);
        assert!(page.data(ts, &[1; 8]));
        page.finish()
    }

    /// Pages of a cycle (when each begins, its loss, whether counters are with it) and CPUs it could not read.
    fn cycle(reader: &mut ReaderThread, out: &Receiver<Batch>, limit: u64) -> (Vec<(u64, Missed, bool)>, Vec<Unread>) {
        reader.cycle(limit, false, Vec::new()).unwrap();
        let batches: Vec<Batch> = out.try_iter().collect();
        let pages = batches.iter().flat_map(|b| &b.inputs).map(|page| {
            let header = PageHeader::read(&PageLayout::USUAL, &page.bytes).unwrap();
            (header.timestamp, header.missed, page.stats.is_some())
        });
        (pages.collect(), batches.iter().filter_map(|b| b.end.as_ref()).flat_map(|e| e.unread.clone()).collect())
    }

    #[test]
    fn a_buffer_that_cannot_be_read_any_more_is_told_and_never_bridged() {
        let refused = || Err(libc::EPERM);
        let empty = || Err(libc::EAGAIN);
        let script = vec![
            Ok(page(100)),
            empty(),
            refused(),
            refused(),
            // Written while nothing could be read: told as lost by then.
            Ok(page(250)),
            Ok(page(390)),
            Ok(page(450)),
            Ok(page(460)),
            empty(),
        ];
        let (mut reader, out) = reader(script);
        assert_eq!(cycle(&mut reader, &out, 200), (vec![(100, Missed::None, false)], vec![]));
        for (from, limit) in [(200, 300), (300, 400)] {
            let (pages, unread) = cycle(&mut reader, &out, limit);
            assert_eq!((pages.len(), unread[0].cpu, unread[0].from), (0, 3, from));
            assert!(unread[0].why.contains("cpu 3") && unread[0].why.contains("not permitted"), "{unread:?}");
        }
        let (pages, unread) = cycle(&mut reader, &out, 500);
        assert_eq!(pages, [(450, Missed::Some, false), (460, Missed::None, false)], "how many is not known");
        assert_eq!(unread, []);
    }

    #[test]
    fn a_buffer_found_empty_after_a_refusal_is_on_time_again() {
        let (mut reader, out) = reader(vec![Err(libc::EIO), Err(libc::EAGAIN), Ok(page(150)), Ok(page(310))]);
        assert_eq!(cycle(&mut reader, &out, 200).1.len(), 1);
        assert_eq!(cycle(&mut reader, &out, 300), (vec![], vec![]));
        let (pages, unread) = cycle(&mut reader, &out, 400);
        assert_eq!((pages, unread), (vec![(310, Missed::Some, false)], vec![]), "what began before 200 is late");
    }

    #[test]
    fn case_59_a_suspend_is_a_gap_and_slewing_is_not() {
        assert_eq!(sleep_within(100 * S, 700 * S + S / 2, 600 * S), Some((100 * S + S / 2, 700 * S)));
        assert_eq!(sleep_within(100 * S, 100 * S + S / 2, 3), None);
        assert_eq!(sleep_within(100 * S, 101 * S, 2 * S), None, "more than the time between: clocks read apart");
    }
}
