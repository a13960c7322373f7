//! Ring-buffer pages in, whole trace packets out: the heart of the capture path.
//!
//! Pages wait in one queue per CPU. [`Encoder::run`] encodes all events before an instant and leaves the rest: it goes
//! through the CPUs in steps of two milliseconds, so that after each step nothing older is missing on any CPU, and a zstd
//! frame can be closed there with a watermark. Nothing here allocates per event, takes a lock, reads a file, or waits.

mod cpu;
mod lives;
mod parts;
mod unseen;

use super::live::Dropped;
use super::plan::Kind;
use cpu::{Cpu, Queued};
pub use lives::Lives;
pub(super) use parts::name;
pub use parts::{Counts, EncoderParts, Hint, SegmentMarks, States};

use super::tracker::moves::{Move, Moves};
use super::tracker::{Switch, Tracker};
use crate::kernel::records::{Cursor, Record, Step};
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::packets;
use crate::sched::event::{Loss, Tid};
use crate::store::footer::Foremost;
use crate::store::index::{FrameFacts, FrameKind};

/// Each CPU is encoded this far, ns of recorded time, before the next has its turn and the frame's size is looked at.
const STEP: u64 = 2_000_000;
/// A frame of packets is closed at this size.
const FRAME_BYTES: usize = 256 << 10;
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

/// See the module.
#[derive(Debug)]
pub struct Encoder {
    parts: EncoderParts,
    /// To be added to a record's time to get the boot clock, ns.
    offset: i64,
    cpus: Vec<Cpu>,
    tracker: Tracker,
    /// What the tracker is still to be told; one list for each of `cpus`.
    moves: Moves,
    /// Whole packets of the frame.
    out: Vec<u8>,
    losses: Vec<Loss>,
    marks: Foremost,
    mark_count: u64,
    /// Of the step at work.
    hints: Vec<Hint>,
    missed_hints: bool,
    /// Unless the events that tell of lives are not recorded.
    lives: Option<Lives>,
    free: Vec<Vec<u8>>,
    counts: Counts,
}

impl Encoder {
    /// An encoder for these CPUs; `stats` are the ring-buffer counters before the first page of each.
    pub fn new(parts: EncoderParts, cpus: &[(u32, CpuStats)], start: u64) -> Encoder {
        let ids: Vec<u32> = cpus.iter().map(|c| c.0).collect();
        let lives = parts.plan.tells_lives().then(Lives::default);
        let mut encoder = Encoder {
            parts,
            lives,
            offset: 0,
            cpus: Vec::new(),
            tracker: Tracker::new(&ids, start),
            moves: Moves::default(),
            out: Vec::with_capacity(FRAME_BYTES * 2),
            losses: Vec::new(),
            marks: Foremost::default(),
            mark_count: 0,
            hints: Vec::new(),
            missed_hints: false,
            free: Vec::new(),
            counts: Counts::default(),
        };
        cpus.iter().for_each(|(id, stats)| encoder.add_cpu(*id, stats));
        encoder
    }

    /// Begins to take pages of a CPU that came.
    pub fn add_cpu(&mut self, id: u32, stats: &CpuStats) {
        let Err(at) = self.cpus.binary_search_by_key(&id, |c| c.id) else { return };
        self.tracker.add_cpu(id);
        let cpu = Cpu::new(id, stats);
        self.cpus.insert(at, cpu);
        self.moves.insert(at, id, &self.tracker);
    }

    /// What the CPUs and threads are doing after everything encoded so far.
    pub fn tracker(&mut self) -> &mut Tracker {
        self.moves.tell(&mut self.tracker);
        &mut self.tracker
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
                self.cpus[at].pages.push_back(Queued { page, next: cursor.ts(), cursor, told });
            }
            Err(error) => {
                self.damaged(at, &error.to_string());
                self.free.push(page.bytes);
            }
        }
    }

    /// Encodes events before `limit` (ns, boot) until the frame is full: gives back the instant that was reached. When it
    /// is before `limit`, close the frame and call again.
    pub fn run(&mut self, from: u64, limit: u64) -> u64 {
        let mut reached = from;
        while let Some(next) = self.next_ts().filter(|&next| next < limit) {
            if reached > from && self.frame_len() >= FRAME_BYTES {
                return reached;
            }
            // Where nothing happened no step is needed.
            reached = next.max(reached).saturating_add(STEP).min(limit);
            for at in 0..self.cpus.len() {
                self.run_cpu(at, reached);
            }
            self.moves.tell(&mut self.tracker);
            self.pass_hints_on();
        }
        limit
    }

    /// When the oldest record was written that waits here, or a little before, ns, boot.
    fn next_ts(&self) -> Option<u64> {
        let fronts = self.cpus.iter().filter_map(|c| c.pages.front());
        fronts.map(|front| front.next).min().map(|next| next.saturating_add_signed(self.offset))
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
        self.cpus.iter_mut().for_each(Cpu::begin_segment);
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

    /// Events that could not be read: they count as lost.
    pub fn not_read(&mut self, id: u32, from: u64, to: u64) {
        if let Ok(at) = self.cpus.binary_search_by_key(&id, |c| c.id) {
            self.cpus[at].tell_meter();
            // Where reading failed half-way, what came before that is there.
            let from = from.max(self.cpus[at].meter.last()).min(to);
            self.lost(at, Loss { cpu: id, from, to, count: None });
        }
    }

    /// Events that were encoded but could not be written (full disk): they count as lost. With them went the losses that were
    /// told there: those are in all counts but in no file, so they are told once more, and not counted.
    pub fn not_written(&mut self, dropped: &Dropped) {
        let Ok(at) = self.cpus.binary_search_by_key(&dropped.cpu, |c| c.id) else { return };
        self.cpus[at].tell_meter();
        let (cpu, (from, to)) = (dropped.cpu, dropped.span);
        let from = from.min(to);
        if dropped.told.unknown {
            self.tell_loss(at, Loss { cpu, from, to, count: None });
        }
        let known = dropped.count.saturating_add(dropped.told.known);
        if known > 0 {
            self.tell_loss(at, Loss { cpu, from, to, count: Some(known) });
        }
        if dropped.count > 0 {
            self.count_loss(at, Loss { cpu, from, to, count: Some(dropped.count) });
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
        SegmentMarks { marks: self.marks.take(), count: std::mem::take(&mut self.mark_count) }
    }

    /// Who lived in this segment, if that is recorded.
    pub fn lives(&mut self) -> Option<&mut Lives> {
        self.lives.as_mut()
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

    /// Encodes what one CPU wrote before `limit`.
    fn run_cpu(&mut self, at: usize, limit: u64) {
        let raw_limit = limit.saturating_add_signed(self.offset.saturating_neg());
        while self.cpus[at].pages.front().is_some_and(|queued| queued.next < raw_limit)
            && let Some(mut queued) = self.cpus[at].pages.pop_front()
        {
            let Queued { page, cursor, told, next } = &mut queued;
            let later = loop {
                match cursor.next_before(&page.bytes, raw_limit) {
                    Step::Record(record) => {
                        if !std::mem::replace(told, true) {
                            self.page_loss(at, page, cursor, record.ts);
                        }
                        self.record(at, record);
                    }
                    Step::Later(ts) => {
                        *next = ts;
                        break true;
                    }
                    Step::End => break false,
                    Step::Damaged(error) => {
                        self.damaged(at, &error.to_string());
                        break false;
                    }
                }
            };
            if later {
                self.cpus[at].pages.push_front(queued);
                return;
            }
            self.free.push(queued.page.bytes);
        }
    }

    fn page_loss(&mut self, at: usize, page: &Page, cursor: &Cursor, first_ts: u64) {
        let first_ts = first_ts.saturating_add_signed(self.offset);
        self.cpus[at].tell_meter();
        let loss = self.cpus[at].meter.page(cursor.header(), first_ts, || page.stats);
        if let Some(loss) = loss {
            self.lost(at, loss);
        }
    }

    fn lost(&mut self, at: usize, loss: Loss) {
        self.tell_loss(at, loss);
        self.count_loss(at, loss);
    }

    /// Ends the bundle and notes the loss in front of the next one.
    fn tell_loss(&mut self, at: usize, loss: Loss) {
        let cpu = &mut self.cpus[at];
        if !cpu.bundle.is_empty() || cpu.lost.is_some() {
            cpu.bundle.finish(cpu.id, cpu.lost.take(), &mut self.out);
        }
        cpu.lose(loss);
    }

    fn count_loss(&mut self, at: usize, loss: Loss) {
        self.moves.add(at, loss.from, Move::Loss { to: loss.to, count: loss.count });
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
        // With the boot clock, as nearly always, there is nothing to add.
        let ts = if self.offset == 0 { record.ts } else { record.ts.saturating_add_signed(self.offset) };
        let (plan, data, cpu) = (&self.parts.plan, record.data, &mut self.cpus[at]);
        let kind = plan.kind(record.id());
        match kind {
            Kind::Switch => {
                let Some(s) = plan.switch(data) else { return self.short(at) };
                self.counts.untraced += u64::from(cpu.switch(ts, &s, plan.flags(data)));
                let (prev, next, prio) = (s.prev_pid, s.next_pid, s.next_prio);
                let state = self.parts.states.decode(s.prev_state);
                self.moves.add(at, ts, Move::Switch(Switch { prev, state, next, prio, comm: *s.next_comm }));
            }
            Kind::Waking => {
                let Some(w) = plan.waking(data) else { return self.short(at) };
                if cpu.waking(ts, &w, plan.pid(data), plan.flags(data)) {
                    self.counts.untraced += 1;
                    self.moves.add(at, ts, Move::Untraced);
                }
                self.moves.add(at, ts, Move::Waking { tid: w.pid, target: w.target_cpu as u32 });
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
                self.marks.offer(ts, text.strip_suffix(b"\n").unwrap_or(text));
            }
            _ => {
                let Some(encoder) = plan.encoder(record.id()) else { return };
                cpu.bundle.event(ts, pid, flags, encoder, data);
                if kind.is_of_lives()
                    && let Some(lives) = &mut self.lives
                {
                    lives.event(ts, pid, encoder, data);
                }
                match kind {
                    Kind::WakeupNew => {
                        let wake = plan.wakeup_new(data);
                        let told = wake.map(|w| Move::Waking { tid: w.pid, target: w.target_cpu as u32 });
                        told.into_iter().for_each(|told| self.moves.add(at, ts, told));
                    }
                    Kind::Other => {}
                    _ => self.hint(at, kind, ts, pid, data),
                }
            }
        }
        self.cpus[at].seen(ts);
        self.counts.events += 1;
    }

    fn hint(&mut self, at: usize, kind: Kind, ts: u64, parent: Tid, data: &[u8]) {
        let Some(task) = self.parts.plan.task(kind, data) else { return };
        if kind == Kind::Free {
            self.moves.add(at, ts, Move::Gone(task.tid));
        }
        self.hints.extend(Hint::of(kind, ts, parent, &task));
    }

    /// Passes on what the events of a step tell of names, in their order over all CPUs: a thread is born on one CPU and
    /// gives itself a name on another.
    fn pass_hints_on(&mut self) {
        self.hints.sort_by_key(Hint::ts);
        for hint in self.hints.drain(..) {
            self.missed_hints |= self.parts.hints.try_send(hint).is_err();
        }
    }

    #[cold]
    fn short(&mut self, at: usize) {
        self.damaged(at, "a record shorter than its event's format says");
    }
}

#[cfg(test)]
mod tests;
