//! Ring-buffer pages in, whole trace packets out: the heart of the capture path.
//!
//! Pages wait in one queue per CPU. [`Encoder::run`] encodes all events before an instant and leaves the rest: it goes
//! through the CPUs in steps of a millisecond, so that after each step nothing older is missing on any CPU, and a zstd
//! frame can be closed there with a watermark. Nothing here allocates per event, takes a lock, reads a file, or waits.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crossbeam_channel::Sender;

use super::blocked::Stacks;
use super::plan::{Kind, Plan};
use super::tracker::Tracker;
use crate::kernel::loss::LossMeter;
use crate::kernel::page::PageLayout;
use crate::kernel::records::{Cursor, Record, Step};
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::{BundleBuilder, FullSwitch, packets};
use crate::sched::event::{Loss, Tid};
use crate::sched::state::{StateLayout, TaskState};
use crate::store::footer::{MAX_MARKS, Mark};
use crate::store::index::{FrameFacts, FrameKind, LossCount};

/// How often the size of the frame is looked at, ns of recorded time.
const STEP: u64 = 1_000_000;
/// A frame of packets is closed at this size.
const FRAME_BYTES: usize = 256 << 10;
/// Bytes of a thread name in the kernel (TASK_COMM_LEN).
pub(super) const NAME: usize = 16;

/// One sub-buffer as read from the kernel.
#[derive(Debug)]
pub struct Page {
    /// The CPU it came from.
    pub cpu: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Ring-buffer counters, read right after it if its header says that events were lost.
    pub stats: Option<CpuStats>,
}

/// What the names thread is told: facts it need not find out from procfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum Hint {
    /// `tid` was created by `parent`; `clone_flags` tell thread from process.
    New { ts: u64, tid: Tid, parent: Tid, clone_flags: u64, comm: [u8; NAME] },
    /// `tid` has a new name.
    Renamed { ts: u64, tid: Tid, comm: [u8; NAME] },
    /// `tid` runs another program; `old_tid` differs when a non-leader did it.
    Exec { ts: u64, tid: Tid, old_tid: Tid },
    /// A look at procfs met `tid` for the first time, or under a new name; `start` tells one life from the next.
    Seen { ts: u64, tid: Tid, pid: Tid, start: u64, comm: [u8; NAME] },
    /// `tid` has ended.
    Gone { ts: u64, tid: Tid },
}

/// `prev_state` to canonical state, worked out once for all values that occur.
#[derive(Debug)]
pub struct States {
    layout: StateLayout,
    known: Box<[TaskState]>,
}

impl From<StateLayout> for States {
    fn from(layout: StateLayout) -> States {
        // TASK_REPORT and the bits above it end below this on every kernel so far.
        States { layout, known: (0..0x400).map(|raw| layout.decode(raw)).collect() }
    }
}

impl States {
    #[inline]
    fn decode(&self, raw: i64) -> TaskState {
        match usize::try_from(raw).ok().and_then(|at| self.known.get(at)) {
            Some(state) => *state,
            None => self.layout.decode(raw),
        }
    }
}

/// What does not change during a recording.
#[derive(Debug)]
pub struct EncoderParts {
    /// Layout of sub-buffers.
    pub layout: PageLayout,
    /// What records mean.
    pub plan: Plan,
    /// What `prev_state` means.
    pub states: States,
    /// Names of blocking functions.
    pub stacks: Stacks,
    /// Where hints go; when it is full they are dropped and [`Encoder::take_missed_hints`] says so.
    pub hints: Sender<Hint>,
}

/// A page that is being walked.
#[derive(Debug)]
struct Queued {
    page: Page,
    cursor: Cursor,
    /// The loss in front of the page was told, or there is none.
    told: bool,
}

#[derive(Debug)]
struct Cpu {
    id: u32,
    pages: VecDeque<Queued>,
    bundle: BundleBuilder,
    meter: LossMeter,
    /// Loss in front of the bundle.
    lost: Option<Loss>,
    /// The next switch is written in full: nobody can know who left.
    full: bool,
    /// Who came with the last switch. The next one is nearly always of this thread; now and then the kernel traces none
    /// (seen on 6.18, with perf as well), and a compact switch would then blame the wrong thread.
    running: Tid,
    events: u64,
    frame_loss: LossCount,
    span: Option<(u64, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct Encoder {
    parts: EncoderParts,
    /// To be added to a record's time to get the boot clock, ns.
    offset: i64,
    cpus: Vec<Cpu>,
    /// What the CPUs and threads are doing.
    pub tracker: Tracker,
    /// Whole packets of the frame.
    out: Vec<u8>,
    losses: Vec<Loss>,
    marks: Vec<Mark>,
    mark_count: u64,
    missed_hints: bool,
    free: Vec<Vec<u8>>,
    /// When each CPU's next record was written, or a little before, ns, boot; kept for its memory.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
    counts: Counts,
}

/// Running totals since the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events written.
    pub events: u64,
    /// Records whose event was not asked for or is not known.
    pub unknown: u64,
    /// Sub-buffers whose rest could not be read.
    pub damaged: u64,
    /// Switches that must have been, since another thread left a CPU than had come, but were not traced.
    pub untraced: u64,
    /// Sub-buffers read.
    pub pages: u64,
}

/// What the encoder gives a frame's writer besides the packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentMarks {
    /// User markers, the first [`MAX_MARKS`].
    pub marks: Vec<Mark>,
    /// How many there were.
    pub count: u64,
}

impl Encoder {
    /// An encoder for these CPUs; `stats` are the ring-buffer counters before the first page of each.
    pub fn new(parts: EncoderParts, cpus: &[(u32, CpuStats)], start: u64) -> Encoder {
        let ids: Vec<u32> = cpus.iter().map(|c| c.0).collect();
        let mut encoder = Encoder {
            parts,
            offset: 0,
            cpus: Vec::new(),
            tracker: Tracker::new(&ids, start),
            out: Vec::with_capacity(FRAME_BYTES * 2),
            losses: Vec::new(),
            marks: Vec::new(),
            mark_count: 0,
            missed_hints: false,
            free: Vec::new(),
            turns: BinaryHeap::new(),
            counts: Counts::default(),
        };
        cpus.iter().for_each(|(id, stats)| encoder.add_cpu(*id, stats));
        encoder
    }

    /// Begins to take pages of a CPU that came.
    pub fn add_cpu(&mut self, id: u32, stats: &CpuStats) {
        let Err(at) = self.cpus.binary_search_by_key(&id, |c| c.id) else { return };
        self.tracker.add_cpu(id);
        let cpu = Cpu {
            id,
            pages: VecDeque::new(),
            bundle: BundleBuilder::new(),
            meter: LossMeter::new(id, stats),
            lost: None,
            full: true,
            running: 0,
            events: 0,
            frame_loss: LossCount::default(),
            span: None,
        };
        self.cpus.insert(at, cpu);
    }

    /// Sets what is to be added to records' times to get the boot clock (0 when the trace clock is `boot`).
    pub fn set_clock_offset(&mut self, offset: i64) {
        self.offset = offset;
    }

    /// Queues a page behind the others of its CPU.
    pub fn add_page(&mut self, page: Page) {
        self.counts.pages += 1;
        let Ok(at) = self.cpus.binary_search_by_key(&page.cpu, |c| c.id) else {
            self.free.push(page.bytes);
            return;
        };
        match Cursor::open(&self.parts.layout, &page.bytes) {
            Ok(cursor) => {
                let told = !cursor.header().missed.any();
                self.cpus[at].pages.push_back(Queued { page, cursor, told });
            }
            Err(error) => {
                self.damaged(at, &error.to_string());
                self.free.push(page.bytes);
            }
        }
    }

    /// Encodes events before `limit` (ns, boot) until the frame is full: gives back the instant that was reached. When it
    /// is before `limit`, close the frame and call again.
    ///
    /// CPUs take turns in the order of their next records, so that the tracker meets a wake-up before the run it led to
    /// and after the sleep it ended, whichever CPUs wrote them.
    pub fn run(&mut self, from: u64, limit: u64) -> u64 {
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        turns.extend((0..).zip(&self.cpus).filter_map(|(at, c)| {
            let front = c.pages.front()?;
            Some(Reverse((front.cursor.ts().saturating_add_signed(self.offset).max(from), at)))
        }));
        let mut reached = limit;
        let mut look = from.saturating_add(STEP);
        while let Some(Reverse((ts, at))) = turns.pop() {
            if ts >= limit {
                break;
            }
            if ts >= look {
                if self.frame_len() >= FRAME_BYTES {
                    reached = ts;
                    break;
                }
                look = ts.saturating_add(STEP);
            }
            let others = turns.peek().map_or(limit, |Reverse((next, _))| *next);
            if let Some(next) = self.run_cpu(at, limit.min(others.max(ts + 1))) {
                turns.push(Reverse((next.max(ts), at)));
            }
        }
        self.turns = turns;
        reached
    }

    /// Bytes of packets so far in this frame.
    pub fn frame_len(&self) -> usize {
        self.out.len()
            + self.cpus.iter().filter(|c| !c.bundle.is_empty()).map(|c| c.bundle.encoded_len()).sum::<usize>()
    }

    /// Room for packets other than events, in front of those still in bundles.
    pub fn packets(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Ends the frame: its packets are in `raw` (what it held before is kept as memory for the next).
    pub fn close_frame(&mut self, complete_through: u64, raw: &mut Vec<u8>) -> FrameFacts {
        let mut facts = FrameFacts { kind: FrameKind::Data, complete_through, ..FrameFacts::default() };
        for cpu in &mut self.cpus {
            cpu.bundle.finish(cpu.id, cpu.lost.take(), &mut self.out);
            if cpu.events > 0 {
                facts.events.push((cpu.id, std::mem::take(&mut cpu.events)));
            }
            let loss = std::mem::take(&mut cpu.frame_loss);
            if !loss.is_none() {
                facts.loss.push((cpu.id, loss));
            }
            cpu.tell_meter();
            if let Some((min, max)) = cpu.span.take() {
                facts.span = Some(facts.span.map_or((min, max), |(a, b)| (a.min(min), b.max(max))));
            }
        }
        self.parts.stacks.write(&mut self.out);
        if complete_through > 0 {
            packets::complete_through(complete_through, &mut self.out);
        }
        raw.clear();
        std::mem::swap(raw, &mut self.out);
        facts
    }

    /// The next switch of each CPU is written in full, as at the head of a segment.
    pub fn begin_segment(&mut self) {
        self.cpus.iter_mut().for_each(|c| c.full = true);
    }

    /// Loss that only the counters tell (end of a segment, CPU gone offline).
    pub fn rest_of_loss(&mut self, id: u32, stats: &CpuStats, now: u64) {
        let Ok(at) = self.cpus.binary_search_by_key(&id, |c| c.id) else { return };
        self.cpus[at].tell_meter();
        // Pages still queued may tell it themselves.
        if self.cpus[at].pages.is_empty()
            && let Some(loss) = self.cpus[at].meter.rest(stats, now)
        {
            self.lost(at, loss);
        }
    }

    /// Events that were encoded but could not be written (full disk): they count as lost.
    pub fn lost_after_all(&mut self, id: u32, from: u64, to: u64, count: u64) {
        if let Ok(at) = self.cpus.binary_search_by_key(&id, |c| c.id) {
            self.lost(at, Loss { cpu: id, from, to, count: Some(count) });
        }
    }

    /// Emptied page buffers, for the reader.
    pub fn take_free(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.free)
    }

    /// Losses since the last call.
    pub fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    /// User markers since the last call.
    pub fn take_marks(&mut self) -> SegmentMarks {
        SegmentMarks { marks: std::mem::take(&mut self.marks), count: std::mem::take(&mut self.mark_count) }
    }

    /// True once if hints were dropped since the last call.
    pub fn take_missed_hints(&mut self) -> bool {
        std::mem::take(&mut self.missed_hints)
    }

    /// Totals since the beginning.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of pages that wait for their time.
    pub fn held(&self) -> usize {
        self.cpus.iter().map(|c| c.pages.iter().map(|p| p.page.bytes.len()).sum::<usize>()).sum()
    }

    /// Encodes what one CPU wrote before `limit`; gives back when its next record was written, if it is here.
    fn run_cpu(&mut self, at: usize, limit: u64) -> Option<u64> {
        let raw_limit = limit.saturating_add_signed(self.offset.saturating_neg());
        while let Some(Queued { page, mut cursor, mut told }) = self.cpus[at].pages.pop_front() {
            loop {
                match cursor.next_before(&page.bytes, raw_limit) {
                    Step::Record(record) => {
                        if !std::mem::replace(&mut told, true) {
                            self.page_loss(at, &page, &cursor, record.ts);
                        }
                        self.record(at, record);
                    }
                    Step::Later(next) => {
                        self.cpus[at].pages.push_front(Queued { page, cursor, told });
                        return Some(next.saturating_add_signed(self.offset));
                    }
                    Step::End => break,
                    Step::Damaged(error) => {
                        self.damaged(at, &error.to_string());
                        break;
                    }
                }
            }
            self.free.push(page.bytes);
        }
        None
    }

    fn page_loss(&mut self, at: usize, page: &Page, cursor: &Cursor, first_ts: u64) {
        let first_ts = first_ts.saturating_add_signed(self.offset);
        self.cpus[at].tell_meter();
        let loss = self.cpus[at].meter.page(cursor.header(), first_ts, || page.stats);
        if let Some(loss) = loss {
            self.lost(at, loss);
        }
    }

    /// Ends the bundle and notes the loss in front of the next one.
    fn lost(&mut self, at: usize, loss: Loss) {
        let cpu = &mut self.cpus[at];
        if !cpu.bundle.is_empty() || cpu.lost.is_some() {
            cpu.bundle.finish(cpu.id, cpu.lost.take(), &mut self.out);
        }
        cpu.lost = Some(loss);
        cpu.full = true;
        cpu.frame_loss.add(loss.count);
        self.tracker.loss(cpu.id, loss.from, loss.to);
        self.tracker.lost(cpu.id, loss.from, loss.count);
        self.losses.push(loss);
    }

    #[cold]
    fn damaged(&mut self, at: usize, what: &str) {
        self.counts.damaged += 1;
        let (cpu, from) = (self.cpus[at].id, self.cpus[at].span.map_or(0, |s| s.1));
        packets::damage(Some(cpu), what, &mut self.out);
        // How many events stood in the rest of the page nobody knows.
        self.lost(at, Loss { cpu, from, to: from, count: None });
    }

    #[inline]
    fn record(&mut self, at: usize, record: Record<'_>) {
        let ts = record.ts.saturating_add_signed(self.offset);
        let (plan, data, cpu) = (&self.parts.plan, record.data, &mut self.cpus[at]);
        let kind = plan.kind(record.id());
        match kind {
            Kind::Switch => {
                let Some(s) = plan.switch(data) else { return self.short(at) };
                let follows = std::mem::replace(&mut cpu.running, s.next_pid) == s.prev_pid;
                let told = std::mem::take(&mut cpu.full);
                // After a loss nobody can know; otherwise the kernel traced no switch where there was one.
                self.counts.untraced += u64::from(!follows && !told);
                if told || !follows {
                    cpu.bundle.full_switch(ts, plan.flags(data), &full(&s));
                } else {
                    cpu.bundle.switch(ts, s.prev_state, s.next_pid, s.next_prio, s.next_comm);
                }
                let state = self.parts.states.decode(s.prev_state);
                self.tracker.switch(cpu.id, ts, (s.prev_pid, state), (s.next_pid, s.next_prio), s.next_comm);
            }
            Kind::Waking => {
                let Some(w) = plan.waking(data) else { return self.short(at) };
                cpu.bundle.waking(ts, w.pid, w.target_cpu, w.prio, w.comm, plan.flags(data));
                self.tracker.waking(ts, w.pid, w.target_cpu as u32);
            }
            _ => return self.rare(at, ts, kind, record),
        }
        cpu.seen(ts);
        self.counts.events += 1;
    }

    /// Everything but switch and waking.
    fn rare(&mut self, at: usize, ts: u64, kind: Kind, record: Record<'_>) {
        let (plan, data, cpu) = (&self.parts.plan, record.data, &mut self.cpus[at]);
        let (pid, flags) = (plan.pid(data), plan.flags(data));
        match kind {
            Kind::Unknown => {
                self.counts.unknown += 1;
                return;
            }
            Kind::Stack => {
                let found = self.parts.stacks.seen(ts, pid, plan.stack(data));
                cpu.bundle.blocked_reason(ts, pid, pid, found.io_wait, &found.function);
            }
            Kind::Print => {
                let text = plan.print(data).unwrap_or_default();
                cpu.bundle.print(ts, pid, flags, text);
                self.mark_count += 1;
                if self.marks.len() < MAX_MARKS {
                    let text = text.strip_suffix(b"\n").unwrap_or(text).to_vec();
                    self.marks.push(Mark { ts, text });
                }
            }
            _ => {
                let Some(encoder) = plan.encoder(record.id()) else { return };
                cpu.bundle.event(ts, pid, flags, encoder, data);
                if kind == Kind::WakeupNew
                    && let Some(w) = plan.wakeup_new(data)
                {
                    self.tracker.waking(ts, w.pid, w.target_cpu as u32);
                } else if kind != Kind::Other {
                    self.hint(kind, ts, pid, data);
                }
            }
        }
        self.cpus[at].seen(ts);
        self.counts.events += 1;
    }

    fn hint(&mut self, kind: Kind, ts: u64, parent: Tid, data: &[u8]) {
        let Some(task) = self.parts.plan.task(kind, data) else { return };
        let (tid, comm) = (task.tid, name(task.comm));
        let hint = match kind {
            Kind::NewTask => Hint::New { ts, tid, parent, clone_flags: task.other as u64, comm },
            Kind::Rename => Hint::Renamed { ts, tid, comm },
            Kind::Exec => Hint::Exec { ts, tid, old_tid: task.other as Tid },
            Kind::Free => Hint::Gone { ts, tid },
            _ => return,
        };
        if kind == Kind::Free {
            self.tracker.gone(tid);
        }
        self.missed_hints |= self.parts.hints.try_send(hint).is_err();
    }

    #[cold]
    fn short(&mut self, at: usize) {
        self.damaged(at, "a record shorter than its event's format says");
    }
}

impl Cpu {
    /// Events of one CPU come in time order: the first is the earliest.
    #[inline]
    fn seen(&mut self, ts: u64) {
        self.events += 1;
        match &mut self.span {
            Some(span) => span.1 = span.1.max(ts),
            None => self.span = Some((ts, ts)),
        }
    }

    /// The loss meter wants to know where the known events end.
    fn tell_meter(&mut self) {
        if let Some((_, last)) = self.span {
            self.meter.saw(last);
        }
    }
}

fn full<'r>(s: &super::plan::SwitchRecord<'r>) -> FullSwitch<'r> {
    FullSwitch {
        prev_comm: s.prev_comm,
        prev_pid: s.prev_pid,
        prev_prio: s.prev_prio,
        prev_state: s.prev_state,
        next_comm: s.next_comm,
        next_pid: s.next_pid,
        next_prio: s.next_prio,
    }
}

/// At most 15 bytes and a NUL, as the kernel keeps names.
pub(super) fn name(text: &[u8]) -> [u8; NAME] {
    let mut out = [0; NAME];
    let len = text.len().min(NAME - 1);
    out[..len].copy_from_slice(&text[..len]);
    out
}

#[cfg(test)]
mod tests;
