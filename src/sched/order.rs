//! Merges the events of several CPUs into one sequence by time.
//!
//! Events of one CPU arrive in time order, those of different CPUs do not: the recorder writes CPU after CPU.
//! [`TimeOrder`] holds events back until a watermark ([`Item::CompleteThrough`]) says that nothing older is to
//! come, then gives them out by time; events at the same instant keep the order of their CPU, and between CPUs
//! the lower id goes first, so that the result does not depend on arrival. Never drops an event: one that comes
//! after its time was passed is given out at once, moved to the present, and counted.

use super::event::{Event, Item, Loss, ProcessFact};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// CPU ids from here on are damage, not hardware: the kernel's own limit (NR_CPUS of x86-64 and arm64 at most).
pub const MAX_CPUS: u32 = 8192;

/// Instants are held below this (36 years of uptime), so that no sum of a few can overflow whatever a file holds.
pub const MAX_TIME: u64 = 1 << 60;

/// Counts of what was out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderStats {
    /// Events that came after their time was passed; given out at the then present instant.
    pub late: u64,
    /// The furthest any of them was moved, ns.
    pub late_max: u64,
    /// Events older than their predecessor on the same CPU, put into place.
    pub disordered: u64,
    /// Times the buffer was full before a watermark came.
    pub forced: u64,
}

/// Reorders by time; see the module.
#[derive(Debug)]
pub struct TimeOrder {
    cpus: BTreeMap<u32, Queue>,
    /// Timed items that belong to no CPU's sequence: key (instant, events at it first?, arrival).
    others: BTreeMap<(u64, bool, u64), Item>,
    arrivals: u64,
    held: usize,
    max_held: usize,
    emitted: u64,
    stats: OrderStats,
}

impl Default for TimeOrder {
    fn default() -> Self {
        Self::new(4 << 20)
    }
}

impl TimeOrder {
    /// Holds back at most `max_held` items (about 100 bytes each). Traces without watermarks (foreign ones) lean
    /// on this alone: when it is full, the oldest quarter is given out.
    pub fn new(max_held: usize) -> Self {
        TimeOrder {
            cpus: BTreeMap::new(),
            others: BTreeMap::new(),
            arrivals: 0,
            held: 0,
            max_held: max_held.max(16),
            emitted: 0,
            stats: OrderStats::default(),
        }
    }

    /// What was out of order so far.
    pub fn stats(&self) -> OrderStats {
        self.stats
    }

    /// Items held back now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes one item; calls `out` for every item whose turn has come.
    pub fn push(&mut self, item: Item, out: &mut impl FnMut(&Item)) {
        match item {
            Item::Event(event) => self.event(event, out),
            Item::CompleteThrough { ts } => {
                self.release(ts, out);
                out(&Item::CompleteThrough { ts });
            }
            // A loss belongs where the known events end; where that is not told, after those that stand before it.
            Item::Loss(loss) if loss.from > 0 => self.timed(loss.from, true, item, out),
            Item::Loss(Loss { cpu, .. }) | Item::Damage { cpu: Some(cpu), .. } => {
                let last = self.cpus.get(&cpu).and_then(Queue::last).unwrap_or(self.emitted);
                self.timed(last, true, item, out);
            }
            Item::Gap { from, .. } => self.timed(from, true, item, out),
            Item::CpuState { ts, .. } | Item::ThreadState { ts, .. } | Item::CpuOnline { ts, .. } => {
                self.timed(ts, false, item, out);
            }
            Item::Counter { ts, .. } => self.timed(ts, false, item, out),
            Item::Thread(fact) if fact.ts > 0 => self.timed(fact.ts, false, item, out),
            Item::Process(ProcessFact { ts, .. }) if ts > 0 => self.timed(ts, false, item, out),
            other => out(&other),
        }
        if self.held > self.max_held {
            self.stats.forced += 1;
            let target = self.max_held - self.max_held / 4;
            self.release_until(u64::MAX, target, out);
        }
    }

    /// The end of the data: gives out everything held.
    pub fn flush(&mut self, out: &mut impl FnMut(&Item)) {
        self.release_until(u64::MAX, 0, out);
    }

    fn event(&mut self, mut event: Event, out: &mut impl FnMut(&Item)) {
        event.ts = event.ts.min(MAX_TIME);
        if event.cpu >= MAX_CPUS {
            // Nothing to be in order with: whoever is next says what it thinks of it.
            out(&Item::Event(event));
            return;
        }
        if event.ts < self.emitted {
            self.stats.late += 1;
            self.stats.late_max = self.stats.late_max.max(self.emitted - event.ts);
            event.ts = self.emitted;
            // It must not overtake older ones of its own CPU that are still held at this very instant.
            if self.cpus.get(&event.cpu).and_then(Queue::oldest).is_none_or(|oldest| oldest > event.ts) {
                out(&Item::Event(event));
                return;
            }
        }
        self.held += 1;
        if !self.cpus.entry(event.cpu).or_default().push(event) {
            self.stats.disordered += 1;
        }
    }

    fn timed(&mut self, ts: u64, after_events: bool, item: Item, out: &mut impl FnMut(&Item)) {
        let ts = ts.min(MAX_TIME);
        if ts < self.emitted {
            out(&item);
            return;
        }
        self.others.insert((ts, after_events, self.arrivals), item);
        self.arrivals += 1;
        self.held += 1;
    }

    fn release(&mut self, watermark: u64, out: &mut impl FnMut(&Item)) {
        self.release_until(watermark, 0, out);
        self.emitted = self.emitted.max(watermark);
    }

    /// Gives out, by time, what is before `watermark` (`u64::MAX`: everything), until only `keep` items are held.
    fn release_until(&mut self, watermark: u64, keep: usize, out: &mut impl FnMut(&Item)) {
        let fronts = self.cpus.iter_mut().filter_map(|(&cpu, queue)| Some(Reverse((queue.first()?, cpu))));
        let mut heads: BinaryHeap<Reverse<(u64, u32)>> = fronts.collect();
        while self.held > keep {
            let head = heads.peek().map(|h| h.0);
            if let Some((ts, after)) = self.others.first_key_value().map(|(k, _)| (k.0, k.1))
                && head.is_none_or(|(at, _)| ts < at || (ts == at && !after))
            {
                if ts >= watermark && watermark != u64::MAX {
                    return;
                }
                self.give_other(ts, out);
                continue;
            }
            let Some((at, cpu)) = head.filter(|h| h.0 < watermark || watermark == u64::MAX) else { return };
            heads.pop();
            let next = heads.peek().map_or(u64::MAX, |h| h.0.0);
            let other = self.others.first_key_value().map_or(u64::MAX, |(k, _)| k.0);
            self.give_run(cpu, at, next.min(other), watermark, keep, out);
            if let Some(first) = self.cpus.get_mut(&cpu).and_then(Queue::first) {
                heads.push(Reverse((first, cpu)));
            }
        }
    }

    fn give_other(&mut self, ts: u64, out: &mut impl FnMut(&Item)) {
        if let Some((_, item)) = self.others.pop_first() {
            self.held -= 1;
            self.emitted = self.emitted.max(ts);
            out(&item);
        }
    }

    /// Gives out the events of one CPU at `at` and on, as far as they stand before all others, which begin at `until`.
    fn give_run(&mut self, cpu: u32, at: u64, until: u64, watermark: u64, keep: usize, out: &mut impl FnMut(&Item)) {
        let Some(queue) = self.cpus.get_mut(&cpu) else { return };
        while let Some(event) = queue.events.front() {
            let ts = event.ts;
            let due = ts == at || ts < until;
            if !due || self.held <= keep || (ts >= watermark && watermark != u64::MAX) {
                break;
            }
            self.held -= 1;
            self.emitted = ts;
            // Straight from the queue: a copy on the way costs as much as the merging.
            out(&Item::Event(*event));
            queue.events.pop_front();
        }
    }
}

/// What is held of one CPU.
#[derive(Debug, Default)]
struct Queue {
    /// By time; but where `behind` is set, the later ones still have to be put into place.
    events: VecDeque<Event>,
    /// The oldest of these, ns.
    behind: Option<u64>,
    /// The youngest, ns.
    last: u64,
}

impl Queue {
    /// An event that is so much out of place is put there with all others like it: to move what stands between for each
    /// of them would take for ever where a trace goes through a time twice.
    const NEAR: usize = 64;

    /// False if it is older than one before.
    #[inline]
    fn push(&mut self, event: Event) -> bool {
        if self.events.is_empty() || event.ts >= self.last {
            self.last = event.ts;
            self.events.push_back(event);
            return true;
        }
        let at = if self.behind.is_some() { 0 } else { self.events.partition_point(|e| e.ts <= event.ts) };
        if self.behind.is_none() && self.events.len() - at <= Self::NEAR {
            self.events.insert(at, event);
        } else {
            self.behind = Some(self.behind.map_or(event.ts, |oldest| oldest.min(event.ts)));
            self.events.push_back(event);
        }
        false
    }

    fn last(&self) -> Option<u64> {
        (!self.events.is_empty()).then_some(self.last)
    }

    /// When the oldest was, whatever still has to be put into place.
    fn oldest(&self) -> Option<u64> {
        self.events.front().map(|e| e.ts).into_iter().chain(self.behind).min()
    }

    /// When the oldest was; afterwards all are in place.
    #[inline]
    fn first(&mut self) -> Option<u64> {
        if self.behind.take().is_some() {
            // Those of one instant keep their order.
            self.events.make_contiguous().sort_by_key(|e| e.ts);
        }
        self.events.front().map(|e| e.ts)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::event::EventKind;
    use super::super::testing::{R, switch};
    use super::*;
    use proptest::prelude::*;

    /// Late ones and ones out of place in turn: each of the former once put all of the latter into place, which took a minute.
    #[test]
    fn a_trace_that_goes_through_a_time_again_and_again_is_read_in_a_moment() {
        let begin = std::time::Instant::now();
        let mut order = TimeOrder::new(200_000);
        let mut given = 0;
        let mut take = |_: &Item| given += 1;
        (0..200_001).for_each(|ts| order.push(at(1000 + ts, 0), &mut take));
        for n in 0..20_000 {
            order.push(at(100_000 + n, 0), &mut take);
            order.push(at(1, 0), &mut take);
        }
        order.flush(&mut take);
        assert_eq!((given, order.held()), (240_001, 0));
        assert!(order.stats().late >= 20_000);
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    }

    fn at(ts: u64, cpu: u32) -> Item {
        // Who comes tells events of one instant apart.
        switch(ts, cpu, 0, R, ts as i32)
    }

    fn run(order: &mut TimeOrder, items: Vec<Item>) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let mut take = |i: &Item| {
            if let Item::Event(e) = i {
                out.push((e.ts, e.cpu));
            }
        };
        for item in items {
            order.push(item, &mut take);
        }
        out
    }

    #[test]
    fn case_24_by_time_up_to_the_watermark() {
        let mut order = TimeOrder::new(100);
        let items = vec![at(100, 0), at(120, 0), at(90, 1), at(110, 1), Item::CompleteThrough { ts: 110 }];
        assert_eq!(run(&mut order, items), [(90, 1), (100, 0)], "110 itself may have company still to come");
        assert_eq!(run(&mut order, vec![at(110, 0), Item::CompleteThrough { ts: 120 }]), [(110, 0), (110, 1)]);
        assert_eq!(order.held(), 1);
    }

    #[test]
    fn late_events_are_moved_never_lost() {
        let mut order = TimeOrder::new(100);
        let mut got = run(&mut order, vec![at(10, 0), Item::CompleteThrough { ts: 100 }, at(40, 1)]);
        got.extend(run(&mut order, vec![at(200, 0), Item::CompleteThrough { ts: 300 }]));
        assert_eq!(got, [(10, 0), (100, 1), (200, 0)]);
        assert_eq!((order.stats().late, order.stats().late_max), (1, 60));
    }

    #[test]
    fn a_time_that_is_gone_through_twice_is_put_in_order() {
        let mut order = TimeOrder::new(1 << 20);
        let twice = (0..2u32).flat_map(|round| (0..1000u64).map(move |ts| switch(ts, 0, 0, R, round as i32)));
        let mut got = Vec::new();
        for item in twice.chain([Item::CompleteThrough { ts: 2000 }]) {
            order.push(item, &mut |i| {
                if let Item::Event(Event { ts, kind: EventKind::Switch(s), .. }) = i {
                    got.push((*ts, s.next_tid));
                }
            });
        }
        let expected: Vec<_> = (0..1000).flat_map(|ts| [(ts, 0), (ts, 1)]).collect();
        assert_eq!((got, order.stats().disordered), (expected, 999));
    }

    #[test]
    fn a_full_buffer_gives_out_the_oldest() {
        let mut order = TimeOrder::new(16);
        let got = run(&mut order, (0..17).rev().map(|ts| at(ts, ts as u32 % 2)).collect());
        assert_eq!(got, (0..5).map(|ts| (ts, ts as u32 % 2)).collect::<Vec<_>>());
        assert_eq!((order.stats().forced, order.held()), (1, 12));
        assert_eq!(order.stats().disordered, 15);
    }

    #[test]
    fn a_loss_stands_after_the_last_known_event_and_a_block_before_its_instant() {
        let mut order = TimeOrder::new(100);
        let loss = |from| Item::Loss(Loss { cpu: 0, from, to: 90, count: None });
        let block = Item::CpuState { ts: 50, cpu: 0, tid: 1, prio: 1, since: 1 };
        let mut out = Vec::new();
        for item in [at(50, 0), loss(0), at(95, 0), at(50, 1), block, loss(60), at(70, 1), at(99, 1)] {
            order.push(item, &mut |i| out.push(i.clone()));
        }
        order.flush(&mut |i| out.push(i.clone()));
        let kinds: Vec<(u64, &str)> = out
            .iter()
            .map(|i| match i {
                Item::Event(e) => (e.ts, "event"),
                Item::Loss(l) => (l.from, "loss"),
                _ => (50, "block"),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                (50, "block"),
                (50, "event"),
                (50, "event"),
                (0, "loss"),
                (60, "loss"),
                (70, "event"),
                (95, "event"),
                (99, "event"),
            ]
        );
    }

    proptest! {
        /// However the CPUs' sequences are cut and mixed, everything comes out once, by time, each CPU in its order.
        #[test]
        fn any_mix_comes_out_sorted(
            steps in prop::collection::vec((0..4u32, 0..20u64), 1..200),
            marks in prop::collection::vec(0..400u64, 0..5),
        ) {
            let mut clocks = [0u64; 4];
            let mut items = Vec::new();
            for (cpu, step) in steps {
                clocks[cpu as usize] += step;
                items.push(at(clocks[cpu as usize], cpu));
            }
            let mut expected: Vec<(u64, u32)> =
                items.iter().map(|i| if let Item::Event(e) = i { (e.ts, e.cpu) } else { unreachable!() }).collect();
            expected.sort_by_key(|e| *e);
            // Watermarks that hold: no event after one is older than it.
            let n = items.len();
            for mark in marks {
                let place = (mark as usize) % (items.len() + 1);
                let oldest = items[place..].iter().filter_map(|i| if let Item::Event(e) = i { Some(e.ts) } else { None }).min();
                items.insert(place, Item::CompleteThrough { ts: oldest.unwrap_or(u64::MAX - 1) });
            }
            let mut order = TimeOrder::new(n + 16);
            let mut got = run(&mut order, items);
            order.flush(&mut |i| if let Item::Event(e) = i { got.push((e.ts, e.cpu)) });
            prop_assert_eq!(got, expected);
            prop_assert_eq!(order.stats().late, 0);
        }
    }
}
