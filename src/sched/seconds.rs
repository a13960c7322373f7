//! One summary per CPU and second: what a segment's footer keeps, so that hours can be drawn without reading events.
//!
//! A [`Sink`]: fold into it beside others (or alone) and take the finished seconds. What a stretch spans is split over
//! the seconds it covers; a wait counts whole, in the second in which it ended. Never holds more than the open second
//! and those not yet taken.

use super::event::{Event, Item, Loss, ThreadNow, Tid};
use super::fold::{Folder, Interval, Sink, Utid};
use super::order::{MAX_CPUS, MAX_TIME};
use super::summary::SecondSummary;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// No stretch is spread over more than an hour: longer ones are jumps of the clock.
const LONGEST: u64 = 3600 * SECOND;

/// Seconds kept until taken, all CPUs together. A recorder takes them every segment (60 s).
const MAX_HELD: usize = 1 << 18;

/// Gathers [`SecondSummary`]s.
#[derive(Debug, Clone, Default)]
pub struct Seconds {
    held: BTreeMap<(u64, u32), SecondSummary>,
    /// Per CPU: threads ready on its queue, threads in D that last ran there.
    levels: Vec<[Level; 2]>,
    tids: Vec<Tid>,
    /// Up to here open stretches have been counted; closing them adds only the rest.
    counted: u64,
}

const QUEUE: usize = 0;
const IN_D: usize = 1;

/// A number of threads that changes with time on one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    depth: u32,
    since: u64,
}

impl Seconds {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts what is still open up to `ts` and gives out all seconds that begin before it, by time and CPU. `folder` is
    /// the fold this sink was fed by.
    pub fn take_before(&mut self, ts: u64, folder: &Folder) -> Vec<SecondSummary> {
        let ts = ts.min(MAX_TIME);
        for open in folder.open_intervals().filter(|i| i.state == ThreadNow::Running) {
            self.stretch(&open, ts);
        }
        for cpu in 0..self.levels.len() {
            let [queue, in_d] = self.levels[cpu];
            self.level(ts, cpu as u32, QUEUE, queue.depth);
            self.level(ts, cpu as u32, IN_D, in_d.depth);
        }
        self.counted = self.counted.max(ts);
        let rest = self.held.split_off(&(ts.div_ceil(SECOND) * SECOND, 0));
        std::mem::replace(&mut self.held, rest).into_values().collect()
    }

    fn at(&mut self, ts: u64, cpu: u32) -> &mut SecondSummary {
        let start = ts / SECOND * SECOND;
        if self.held.len() >= MAX_HELD {
            self.held.pop_first();
        }
        self.held.entry((start, cpu)).or_insert(SecondSummary { start, cpu, ..SecondSummary::default() })
    }

    /// Adds the part of a stretch after what was counted before.
    fn stretch(&mut self, interval: &Interval, until: u64) {
        let (Some(cpu), start) = (interval.cpu, interval.start.max(self.counted)) else { return };
        let end = interval.end.unwrap_or(until);
        let start = start.max(end.saturating_sub(LONGEST));
        self.each(start, end, cpu, |s, ns| {
            s.known_ns += ns;
            s.busy_ns += if interval.utid == 0 { 0 } else { ns };
        });
    }

    fn each(&mut self, start: u64, end: u64, cpu: u32, mut add: impl FnMut(&mut SecondSummary, u64)) {
        let mut at = start;
        while at < end {
            let stop = end.min((at / SECOND + 1) * SECOND);
            add(self.at(at, cpu), stop - at);
            at = stop;
        }
    }

    fn level(&mut self, ts: u64, cpu: u32, which: usize, depth: u32) {
        if cpu as usize >= self.levels.len() {
            self.levels.resize(cpu as usize + 1, [Level::default(); 2]);
        }
        let was = self.levels[cpu as usize][which];
        let since = was.since.min(ts).max(ts.saturating_sub(LONGEST));
        let fields = move |s: &mut SecondSummary, ns: u64, depth: u32| {
            let (sum, max) = match which {
                QUEUE => (&mut s.ready_ns, &mut s.ready_max),
                _ => (&mut s.blocked_ns, &mut s.blocked_max),
            };
            *sum += ns * u64::from(depth);
            *max = (*max).max(depth);
        };
        if was.depth > 0 {
            self.each(since, ts, cpu, |s, ns| fields(s, ns, was.depth));
        }
        // A peak that lasts no time still is one.
        if depth > was.depth {
            fields(self.at(ts, cpu), 0, depth);
        }
        self.levels[cpu as usize][which] = Level { depth, since: ts.max(was.since) };
    }

    fn wait_ended(&mut self, interval: &Interval) {
        let (Some(end), Some(cpu), true) = (interval.end, interval.cpu, interval.end_known) else { return };
        let tid = self.tids.get(interval.utid as usize).copied().unwrap_or_default();
        let ns = end - interval.start;
        let second = self.at(end, cpu);
        if ns > second.worst_wait {
            second.worst_wait = ns;
            second.worst_tid = tid;
            second.worst_at = interval.start;
        }
    }

    fn loss(&mut self, loss: &Loss) {
        if loss.cpu >= MAX_CPUS {
            return;
        }
        let (from, to) = (loss.from.min(MAX_TIME), loss.to.min(MAX_TIME));
        let second = self.at(to.max(from), loss.cpu);
        second.loss = true;
        second.lost = second.lost.saturating_add(loss.count.unwrap_or(0));
        if from > 0 {
            self.each(from.max(to.saturating_sub(LONGEST)), to, loss.cpu, |s, _| s.loss = true);
        }
    }
}

impl Sink for Seconds {
    fn interval(&mut self, interval: &Interval) {
        match interval.state {
            ThreadNow::Running => self.stretch(interval, interval.start),
            state if state.is_ready() => self.wait_ended(interval),
            _ => {}
        }
    }

    fn event(&mut self, event: &Event, _emitter: Option<Utid>) {
        self.at(event.ts, event.cpu).events += 1;
    }

    fn fact(&mut self, item: &Item) {
        if let Item::Loss(loss) = item {
            self.loss(loss);
        }
    }

    fn new_thread(&mut self, _ts: u64, utid: Utid, tid: Tid) {
        if utid as usize >= self.tids.len() {
            self.tids.resize(utid as usize + 1, 0);
        }
        self.tids[utid as usize] = tid;
    }

    fn queue(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.level(ts, cpu, QUEUE, depth);
    }

    fn uninterruptible(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.level(ts, cpu, IN_D, depth);
    }
}
