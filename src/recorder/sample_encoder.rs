//! Looks at procfs in, whole trace packets out: the encoder of a recording without ftrace.
//!
//! States go into our extension of the packets (there are no switches to tell of), marked as sampled; names, functions in
//! which threads wait, and user markers into Perfetto's own messages. Does no I/O.

use crossbeam_channel::Sender;

use super::encode::Encode;
use super::encoder::{Counts, Hint, SegmentMarks, name};
use super::tracker::Tracker;
use crate::kernel::sampler::{Round, ThreadSample};
use crate::perfetto::encode::BundleBuilder;
use crate::perfetto::encode::packets::{self, CpuNow, Thread, ThreadAt};
use crate::sched::event::{Item, Tid};
use crate::store::footer::{Foremost, Mark};
use crate::store::index::{FrameFacts, FrameKind};

/// One look at procfs, laid out in time.
#[derive(Debug)]
pub struct Look {
    /// What was measured.
    pub round: Round,
    /// The same as states, in time order.
    pub items: Vec<Item>,
    /// User markers since the look before.
    pub marks: Vec<Mark>,
    /// Looks per second from here on.
    pub hz: u32,
    /// Everybody is met for the first time: the names come from a scan of their own.
    pub first: bool,
}

/// See the module.
#[derive(Debug)]
pub struct SampleEncoder {
    tracker: Tracker,
    hints: Sender<Hint>,
    hz: u32,
    /// The process markers are written by.
    own: Tid,
    bundle: BundleBuilder,
    out: Vec<u8>,
    events: Vec<(u32, u64)>,
    span: Option<(u64, u64)>,
    marks: Foremost,
    mark_count: u64,
    missed_hints: bool,
    counts: Counts,
}

impl SampleEncoder {
    /// Begins at `start` (ns, boot) with so many looks per second.
    pub fn new(start: u64, hz: u32, hints: Sender<Hint>) -> SampleEncoder {
        SampleEncoder {
            tracker: Tracker::new(&[], start),
            hints,
            hz,
            own: Tid::try_from(std::process::id()).unwrap_or(0),
            bundle: BundleBuilder::new(),
            out: Vec::new(),
            events: Vec::new(),
            span: None,
            marks: Foremost::default(),
            mark_count: 0,
            missed_hints: false,
            counts: Counts::default(),
        }
    }

    fn names(&mut self, look: &Look) {
        let mut threads = Vec::new();
        let ts = look.round.to;
        for t in &look.round.threads {
            let Some(named) = &t.named else { continue };
            let hint = Hint::Seen { ts, tid: t.tid, pid: t.pid, start: named.start, comm: name(&named.name) };
            self.missed_hints |= self.hints.try_send(hint).is_err();
            let (name, start) = (named.name.clone(), Some(named.start));
            threads.push(Thread { tid: t.tid, pid: t.pid, name, start });
        }
        for &tid in &look.round.gone {
            self.missed_hints |= self.hints.try_send(Hint::Gone { ts, tid }).is_err();
        }
        if !look.first && !threads.is_empty() {
            packets::process_tree(look.round.from, &[], &threads, &mut self.out);
        }
    }

    /// States of one instant share a packet.
    fn states(&mut self, items: &[Item]) {
        for group in items.chunk_by(|a, b| instant(a) == instant(b)) {
            let (mut cpus, mut threads, mut ts) = (Vec::new(), Vec::new(), 0);
            for item in group {
                self.tracker.sampled(item);
                match *item {
                    Item::CpuState { ts: at, cpu, tid, prio, since } => {
                        ts = at;
                        cpus.push(CpuNow { cpu, tid, prio, since });
                    }
                    Item::ThreadState { ts: at, tid, state, since, cpu } => {
                        ts = at;
                        threads.push(ThreadAt { tid, state, since, cpu });
                    }
                    Item::CpuOnline { ts, cpu, online } => packets::cpu_online(ts, cpu, online, &mut self.out),
                    // The layout makes nothing else.
                    _ => {}
                }
            }
            if !cpus.is_empty() || !threads.is_empty() {
                packets::state(ts, &cpus, &threads, &mut self.out);
            }
        }
        self.counts.events += items.len() as u64;
    }

    fn blocked(&mut self, ts: u64, t: &ThreadSample) {
        if t.wchan.is_empty() {
            return;
        }
        // Whether it waits for I/O procfs does not tell.
        self.bundle.blocked_reason(ts, t.tid, t.tid, false, &t.wchan);
        self.event(ts, t.cpu.unwrap_or(0));
    }

    fn mark(&mut self, mark: Mark) {
        let mut line = mark.text.clone();
        line.push(b'\n');
        self.bundle.print(mark.ts, self.own, 0, &line);
        self.event(mark.ts, 0);
        self.mark_count += 1;
        self.marks.offer(mark.ts, &mark.text);
    }

    /// Writes out the one event that stands in the bundle: they are rare and of any CPU.
    fn event(&mut self, ts: u64, cpu: u32) {
        self.bundle.finish(cpu, None, &mut self.out);
        self.span = Some(self.span.map_or((ts, ts), |(min, max)| (min.min(ts), max.max(ts))));
        match self.events.iter_mut().find(|e| e.0 == cpu) {
            Some(e) => e.1 += 1,
            None => self.events.push((cpu, 1)),
        }
    }
}

fn instant(item: &Item) -> u64 {
    match item {
        Item::CpuState { ts, .. } | Item::ThreadState { ts, .. } | Item::CpuOnline { ts, .. } => *ts,
        _ => 0,
    }
}

impl Encode for SampleEncoder {
    type Input = Look;

    fn add(&mut self, look: Look) {
        if std::mem::replace(&mut self.hz, look.hz) != look.hz {
            packets::sampled(look.hz, &mut self.out);
        }
        self.names(&look);
        self.states(&look.items);
        for t in &look.round.threads {
            self.blocked(look.round.to, t);
        }
        look.marks.into_iter().for_each(|m| self.mark(m));
    }

    /// A look is in its frame whole, so there is nothing to wait for.
    fn run(&mut self, _from: u64, limit: u64) -> u64 {
        limit
    }

    fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    fn packets(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn close_frame(&mut self, complete_through: u64, raw: &mut Vec<u8>) -> FrameFacts {
        if complete_through > 0 {
            packets::complete_through(complete_through, &mut self.out);
        }
        raw.clear();
        std::mem::swap(raw, &mut self.out);
        let (events, span) = (std::mem::take(&mut self.events), self.span.take());
        FrameFacts { kind: FrameKind::Data, complete_through, events, span, ..FrameFacts::default() }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn take_marks(&mut self) -> SegmentMarks {
        SegmentMarks { marks: self.marks.take(), count: std::mem::take(&mut self.mark_count) }
    }

    fn take_missed_hints(&mut self) -> bool {
        std::mem::take(&mut self.missed_hints)
    }

    /// Readers forget everything at a gap, and sleepers would not be told of again for long: they are now.
    fn gap(&mut self, from: u64, to: u64) {
        packets::gap(from, to, &mut self.out);
        let (mut cpus, mut threads) = (Vec::new(), Vec::new());
        self.tracker.cpus_now(&mut cpus);
        self.tracker.threads_now(&mut threads);
        packets::state(to, &cpus, &threads, &mut self.out);
    }

    fn sampled_hz(&self) -> Option<u32> {
        Some(self.hz)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::sampler::Named;
    use crate::names::NameTable;
    use crate::perfetto::decode::Decoder;
    use crate::sched::event::{EventKind, ThreadNow};
    use crate::sched::state::TaskState;

    fn look() -> Look {
        let named = Some(Named { name: b"train".to_vec(), start: 70 });
        let thread = ThreadSample {
            tid: 9,
            pid: 8,
            state: b'D',
            cpu: Some(3),
            wchan: b"io_schedule".to_vec(),
            named,
            ..ThreadSample::default()
        };
        let blocked = ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE);
        Look {
            round: Round { from: 100, to: 200, threads: vec![thread], gone: vec![77], ..Round::default() },
            items: vec![
                Item::CpuOnline { ts: 100, cpu: 3, online: true },
                Item::CpuState { ts: 100, cpu: 3, tid: 9, prio: 120, since: 100 },
                Item::CpuState { ts: 160, cpu: 3, tid: 0, prio: 120, since: 160 },
                Item::ThreadState { ts: 160, tid: 9, state: blocked, since: None, cpu: Some(3) },
            ],
            marks: vec![Mark { ts: 150, text: b"step 1".to_vec() }],
            hz: 10,
            first: false,
        }
    }

    #[test]
    fn a_look_is_told_whole_and_marked_as_sampled() {
        let (send, hints) = crossbeam_channel::unbounded();
        let mut encoder = SampleEncoder::new(100, 20, send);
        assert_eq!(encoder.sampled_hz(), Some(20));
        encoder.add(look());
        assert_eq!(encoder.sampled_hz(), Some(10), "it became slower");
        let mut raw = Vec::new();
        let facts = encoder.close_frame(200, &mut raw);
        assert_eq!((facts.events, facts.span, facts.complete_through), (vec![(3, 1), (0, 1)], Some((150, 200)), 200));
        assert_eq!(encoder.take_marks().count, 1);
        let (mut table, mut items) = (NameTable::new(), Vec::new());
        Decoder::new().decode(&raw, &mut table, &mut |i| items.push(i)).unwrap();
        assert!(items.contains(&Item::Sampled { hz: 10 }));
        assert!(look().items.iter().all(|i| items.contains(i)), "{items:?}");
        let has = |what: &dyn Fn(&Item) -> bool| items.iter().any(what);
        assert!(has(&|i| matches!(i, Item::Thread(t) if t.tid == 9 && table.text(t.name) == "train")));
        assert!(has(
            &|i| matches!(i, Item::Event(e) if matches!(e.kind, EventKind::Print { text } if table.text(text) == "step 1"))
        ));
        assert!(has(&|i| matches!(i, Item::Event(e) if e.cpu == 3
            && matches!(e.kind, EventKind::BlockedReason { tid: 9, function, .. } if table.text(function) == "io_schedule"))));
        let told: Vec<Hint> = hints.try_iter().collect();
        assert_eq!(told[0], Hint::Seen { ts: 200, tid: 9, pid: 8, start: 70, comm: name(b"train") });
        assert_eq!(told[1], Hint::Gone { ts: 200, tid: 77 });
    }

    #[test]
    fn case_62_what_could_not_be_written_is_a_gap_after_which_all_is_told_again() {
        let (send, _hints) = crossbeam_channel::unbounded();
        let mut encoder = SampleEncoder::new(100, 20, send);
        encoder.add(look());
        encoder.close_frame(200, &mut Vec::new());
        encoder.gap(100, 200);
        let mut raw = Vec::new();
        encoder.close_frame(300, &mut raw);
        let (mut table, mut items) = (NameTable::new(), Vec::new());
        Decoder::new().decode(&raw, &mut table, &mut |i| items.push(i)).unwrap();
        let blocked = ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE);
        assert_eq!(
            items,
            [
                Item::Gap { from: 100, to: 200 },
                Item::CpuState { ts: 200, cpu: 3, tid: 0, prio: 120, since: 160 },
                Item::ThreadState { ts: 200, tid: 9, state: blocked, since: Some(160), cpu: Some(3) },
                Item::CompleteThrough { ts: 300 },
            ]
        );
    }
}
