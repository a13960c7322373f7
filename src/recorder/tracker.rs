//! What every CPU and thread is doing, kept cheaply beside the encoder: for the state block in a segment's head and the
//! per-second summary in its footer.
//!
//! This is not the scheduling model (`sched::fold` is, and everything that is shown of single threads comes from
//! there): it keeps one small record per thread and knows no history. Events of one CPU must come in time order, those
//! of different CPUs may be a little out of order: a wake-up that comes after the run it led to is still paired.
//! Allocates only when it meets a thread for the first time.

mod sampled;

use crate::perfetto::encode::packets::{CpuNow, ThreadAt};
use crate::sched::event::{ThreadNow, Tid};
use crate::sched::state::TaskState;
use crate::store::footer::{CpuLane, Summary, SummaryCell, WorstWait};

/// Length of a cell of the summary, ns.
const STEP: u64 = 1_000_000_000;
/// Cells kept at most: a segment that could not be cut for an hour is summarised up to there.
const MAX_CELLS: usize = 3600;
/// tid → record in two steps, since tids go up to 4 Mi (PID_MAX_LIMIT) but few are in use.
const CHUNK: usize = 256;
const MAX_TID: usize = 1 << 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Now {
    /// Nothing known, or no such thread.
    #[default]
    Unknown,
    Running,
    Ready,
    Preempted,
    Blocked,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    since: u64,
    cpu: u32,
    flags: TaskState,
    now: Now,
    /// Running: it was woken meanwhile. Blocked: that was so when it left.
    woken: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    id: u32,
    known: bool,
    tid: Tid,
    prio: i32,
    since: u64,
    ready: u32,
    blocked: u32,
    /// Up to where busy and known time are booked.
    booked: u64,
    cells: Vec<Cell>,
    /// The last cell looked at, and the time it covers: nearly every event falls into it.
    at: usize,
    from: u64,
    until: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    busy: u64,
    known: u64,
    ready: u32,
    blocked: u32,
    worst: u64,
    lost: u64,
    lost_unknown: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    chunks: Vec<Option<Box<[Thread; CHUNK]>>>,
    /// Sorted by id; ids can be sparse.
    cpus: Vec<Cpu>,
    /// id → place in `cpus`, plus one.
    places: Vec<u16>,
    /// Begin of the summary's first cell.
    start: u64,
    worst: Option<WorstWait>,
    recent: Recent,
}

/// Extremes over some stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recent {
    /// Longest run-queue latency that ended, ns.
    pub wait: u64,
    /// Longest stretch in D that ended, ns.
    pub blocked: u64,
    /// Most threads ready at once on one CPU's queue.
    pub ready: u32,
}

impl Tracker {
    /// Knows nothing yet about these CPUs.
    pub fn new(cpus: &[u32], start: u64) -> Tracker {
        let mut tracker = Tracker {
            chunks: Vec::new(),
            cpus: Vec::new(),
            places: Vec::new(),
            start,
            worst: None,
            recent: Recent::default(),
        };
        cpus.iter().for_each(|&c| tracker.add_cpu(c));
        tracker
    }

    /// Begins to follow a CPU; harmless for a known one.
    pub fn add_cpu(&mut self, id: u32) {
        let at = self.cpus.partition_point(|c| c.id < id);
        if self.cpus.get(at).is_some_and(|c| c.id == id) || id > u32::from(u16::MAX) {
            return;
        }
        self.cpus.insert(at, Cpu { id, booked: self.start, ..Cpu::default() });
        let highest = self.cpus.last().map_or(0, |c| c.id as usize);
        self.places.clear();
        self.places.resize(highest + 1, 0);
        for (i, cpu) in self.cpus.iter().enumerate() {
            self.places[cpu.id as usize] = i as u16 + 1;
        }
    }

    /// sched_switch on `cpu`. `next_comm` is only looked at when this ends the longest wait so far.
    #[inline]
    pub fn switch(&mut self, cpu: u32, ts: u64, prev: (Tid, TaskState), next: (Tid, i32), next_comm: &[u8]) {
        let Some(place) = self.place(cpu) else { return };
        self.book(place, ts);
        let c = &mut self.cpus[place];
        (c.known, c.tid, c.prio, c.since) = (true, next.0, next.1, ts);
        if prev.0 != 0 {
            self.leave(place, cpu, ts, prev.0, prev.1);
        }
        if next.0 != 0 {
            self.enter(place, cpu, ts, next.0, next_comm);
        }
    }

    /// sched_waking (or sched_wakeup_new) of `tid`, to run on `target`.
    #[inline]
    pub fn waking(&mut self, ts: u64, tid: Tid, target: u32) {
        let Some(thread) = self.thread(tid) else { return };
        let before = *thread;
        match before.now {
            Now::Unknown | Now::Blocked if ts >= before.since => {
                *thread = Thread { since: ts, cpu: target, now: Now::Ready, ..Thread::default() };
                if before.now == Now::Blocked {
                    if before.flags.contains(TaskState::UNINTERRUPTIBLE) {
                        self.recent.blocked = self.recent.blocked.max(ts - before.since);
                    }
                    self.unblocked(before);
                }
                self.ready(target, ts);
            }
            // On its way to sleep, or changing its mind: what it does next tells.
            Now::Running if ts >= before.since => thread.woken = true,
            // The run that this wake-up led to was seen first.
            Now::Running if ts < before.since => {
                let wait = before.since - ts;
                if let Some(place) = self.place(before.cpu) {
                    let cell = self.cell(place, before.since);
                    cell.worst = cell.worst.max(wait);
                }
            }
            _ => {}
        }
    }

    /// The thread is gone; its tid can come back as another.
    pub fn gone(&mut self, tid: Tid) {
        let Some(thread) = self.thread(tid) else { return };
        let before = std::mem::take(thread);
        self.uncount(before);
    }

    /// Events are missing on `cpu`: what was known about it and the threads on it is not known any more.
    pub fn loss(&mut self, cpu: u32, from: u64, to: u64) {
        let Some(place) = self.place(cpu) else { return };
        if from > 0 {
            self.book(place, from);
        }
        let c = &mut self.cpus[place];
        (c.known, c.ready, c.blocked) = (false, 0, 0);
        c.booked = c.booked.max(to);
        for thread in self.chunks.iter_mut().flatten().flat_map(|c| c.iter_mut()) {
            if thread.cpu == cpu && thread.now != Now::Unknown {
                *thread = Thread::default();
            }
        }
    }

    /// Books lost events to the second in which they were lost; `None`: some.
    pub fn lost(&mut self, cpu: u32, ts: u64, count: Option<u64>) {
        let Some(place) = self.place(cpu) else { return };
        let cell = self.cell(place, ts);
        match count {
            Some(n) => cell.lost += n,
            None => cell.lost_unknown = true,
        }
    }

    /// Who runs on each CPU; CPUs of which nothing is known are left out.
    pub fn cpus_now(&self, out: &mut Vec<CpuNow>) {
        let known = self.cpus.iter().filter(|c| c.known);
        out.extend(known.map(|c| CpuNow { cpu: c.id, tid: c.tid, prio: c.prio, since: c.since }));
    }

    /// What every known thread does.
    pub fn threads_now(&self, out: &mut Vec<ThreadAt>) {
        for (i, chunk) in self.chunks.iter().enumerate() {
            let threads = chunk.iter().flat_map(|c| c.iter()).enumerate();
            out.extend(threads.filter_map(|(j, t)| {
                let state = match t.now {
                    Now::Unknown => return None,
                    Now::Running => ThreadNow::Running,
                    Now::Ready => ThreadNow::Runnable,
                    Now::Preempted => ThreadNow::Preempted,
                    Now::Blocked => ThreadNow::Blocked(t.flags),
                };
                Some(ThreadAt { tid: (i * CHUNK + j) as Tid, state, since: Some(t.since), cpu: Some(t.cpu) })
            }));
        }
    }

    /// True once it is known who runs on every CPU.
    pub fn covers_all(&self) -> bool {
        self.cpus.iter().all(|c| c.known)
    }

    /// The summary as it would be if it ended at `end`; nothing changes.
    pub fn summary(&mut self, end: u64) -> Summary {
        for place in 0..self.cpus.len() {
            self.book(place, end);
        }
        let lane = |c: &Cpu| CpuLane { cpu: c.id, cells: c.cells.iter().map(|c| c.shown()).collect() };
        Summary { start: self.start, step: STEP, lanes: self.cpus.iter().map(lane).collect(), marks: Vec::new() }
    }

    /// The worst since the last call: what triggers look at.
    pub fn take_recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// Ends the summary at `end` and begins the next there.
    pub fn take_summary(&mut self, end: u64) -> (Summary, Option<WorstWait>) {
        let summary = self.summary(end);
        for c in &mut self.cpus {
            c.cells.clear();
            (c.from, c.until) = (0, 0);
        }
        self.start = end;
        self.cpus.iter_mut().for_each(|c| c.booked = end);
        (summary, self.worst.take())
    }

    fn leave(&mut self, place: usize, cpu: u32, ts: u64, tid: Tid, state: TaskState) {
        let Some(thread) = self.thread(tid) else { return };
        // A later run elsewhere was seen first.
        if ts < thread.since {
            return;
        }
        // It ran, so whatever else it was thought to be (after a loss, before the first look) is over.
        let before = std::mem::take(thread);
        self.uncount(before);
        let woken = before.now == Now::Running && before.woken;
        if state.contains(TaskState::DEAD) {
            return;
        }
        let now = match () {
            () if state.contains(TaskState::PREEMPTED) => Now::Preempted,
            () if state.is_runnable() => Now::Ready,
            () => Now::Blocked,
        };
        if let Some(thread) = self.thread(tid) {
            *thread = Thread { since: ts, cpu, flags: state, now, woken };
        }
        if now != Now::Blocked {
            self.ready(cpu, ts);
        } else if state.contains(TaskState::UNINTERRUPTIBLE) {
            let c = &mut self.cpus[place];
            c.blocked += 1;
            let blocked = c.blocked;
            let cell = self.cell(place, ts);
            cell.blocked = cell.blocked.max(blocked);
        }
    }

    fn enter(&mut self, place: usize, cpu: u32, ts: u64, tid: Tid, comm: &[u8]) {
        let Some(thread) = self.thread(tid) else { return };
        let before = *thread;
        if ts < before.since {
            return;
        }
        *thread = Thread { since: ts, cpu, now: Now::Running, ..Thread::default() };
        self.uncount(before);
        // Woken while it was still leaving, and by nobody since: it was ready from when it left (as in `sched::fold`).
        let ready = matches!(before.now, Now::Ready | Now::Preempted) || (before.now == Now::Blocked && before.woken);
        if !ready {
            return;
        }
        let dur = ts - before.since;
        self.recent.wait = self.recent.wait.max(dur);
        let cell = self.cell(place, ts);
        cell.worst = cell.worst.max(dur);
        if self.worst.as_ref().is_none_or(|w| dur > w.dur) {
            let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
            self.worst = Some(WorstWait { dur, at: before.since, tid, name: comm[..end].to_vec() });
        }
    }

    fn ready(&mut self, cpu: u32, ts: u64) {
        let Some(place) = self.place(cpu) else { return };
        let c = &mut self.cpus[place];
        c.ready += 1;
        let ready = c.ready;
        self.recent.ready = self.recent.ready.max(ready);
        let cell = self.cell(place, ts);
        cell.ready = cell.ready.max(ready);
    }

    fn uncount(&mut self, before: Thread) {
        match before.now {
            Now::Ready | Now::Preempted => {
                if let Some(place) = self.place(before.cpu) {
                    let c = &mut self.cpus[place];
                    c.ready = c.ready.saturating_sub(1);
                }
            }
            Now::Blocked => self.unblocked(before),
            Now::Running | Now::Unknown => {}
        }
    }

    fn unblocked(&mut self, before: Thread) {
        if before.flags.contains(TaskState::UNINTERRUPTIBLE)
            && let Some(place) = self.place(before.cpu)
        {
            let c = &mut self.cpus[place];
            c.blocked = c.blocked.saturating_sub(1);
        }
    }

    /// Books the time since the last event of this CPU.
    #[inline]
    fn book(&mut self, place: usize, ts: u64) {
        let c = &mut self.cpus[place];
        if ts <= c.booked {
            return;
        }
        if c.booked >= c.from && ts <= c.until {
            let spent = if c.known { ts - c.booked } else { 0 };
            let cell = &mut c.cells[c.at];
            cell.known += spent;
            cell.busy += if c.tid != 0 { spent } else { 0 };
            c.booked = ts;
            return;
        }
        self.book_over_cells(place, ts);
    }

    /// The same over the borders of cells.
    #[cold]
    fn book_over_cells(&mut self, place: usize, ts: u64) {
        let c = &self.cpus[place];
        let (mut from, busy, known) = (c.booked, c.tid != 0, c.known);
        while known && from < ts {
            let until = ts.min(self.start + ((from - self.start) / STEP + 1) * STEP);
            let cell = self.cell(place, from);
            cell.known += until - from;
            cell.busy += if busy { until - from } else { 0 };
            from = until;
        }
        self.cpus[place].booked = ts;
    }

    #[inline]
    fn cell(&mut self, place: usize, ts: u64) -> &mut Cell {
        let c = &self.cpus[place];
        if ts < c.from || ts >= c.until {
            self.turn_to(place, ts);
        }
        let c = &mut self.cpus[place];
        &mut c.cells[c.at]
    }

    /// Makes the cell of `ts` the one that is looked at.
    #[cold]
    fn turn_to(&mut self, place: usize, ts: u64) {
        let at = ((ts.saturating_sub(self.start) / STEP) as usize).min(MAX_CELLS - 1);
        let c = &mut self.cpus[place];
        if c.cells.len() <= at {
            // What stays ready or blocked over a border counts in the new cell too.
            let carried = Cell { ready: c.ready, blocked: c.blocked, ..Cell::default() };
            c.cells.resize(at + 1, carried);
        }
        c.at = at;
        c.from = self.start + at as u64 * STEP;
        // The last cell takes everything that comes after it.
        c.until = if at == MAX_CELLS - 1 { u64::MAX } else { c.from + STEP };
    }

    #[inline]
    fn place(&self, cpu: u32) -> Option<usize> {
        (*self.places.get(cpu as usize)? as usize).checked_sub(1)
    }

    #[inline]
    fn thread(&mut self, tid: Tid) -> Option<&mut Thread> {
        let tid = usize::try_from(tid).ok().filter(|&t| t > 0 && t < MAX_TID)?;
        if tid / CHUNK >= self.chunks.len() {
            self.chunks.resize_with(tid / CHUNK + 1, || None);
        }
        let chunk = self.chunks[tid / CHUNK].get_or_insert_with(|| Box::new([Thread::default(); CHUNK]));
        Some(&mut chunk[tid % CHUNK])
    }
}

impl Cell {
    fn shown(self) -> SummaryCell {
        let mut cell = SummaryCell {
            busy: (self.known > 0).then(|| (self.busy as f64 / self.known as f64) as f32),
            ready: self.ready,
            blocked: self.blocked,
            worst_wait: self.worst,
            ..SummaryCell::default()
        };
        if self.lost > 0 {
            cell.loss.add(Some(self.lost));
        }
        if self.lost_unknown {
            cell.loss.add(None);
        }
        cell
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const S: TaskState = TaskState::SLEEPING;
    const D: TaskState = TaskState::UNINTERRUPTIBLE;
    const R_PLUS: TaskState = TaskState::PREEMPTED;

    fn states(t: &Tracker) -> Vec<(Tid, ThreadNow, u64)> {
        let mut out = Vec::new();
        t.threads_now(&mut out);
        out.into_iter().map(|t| (t.tid, t.state, t.since.unwrap())).collect()
    }

    #[test]
    fn case_28_a_cpu_without_a_switch_is_busy_in_the_next_summary() {
        let mut t = Tracker::new(&[0], 0);
        t.switch(0, 500_000_000, (0, TaskState::RUNNABLE), (7, 120), b"spin\0");
        let (first, _) = t.take_summary(1_000_000_000);
        assert_eq!(first.lanes[0].cells[0].busy, Some(1.0), "nothing is known of the time before the first switch");
        let (second, _) = t.take_summary(3_000_000_000);
        assert_eq!(second.lanes[0].cells.iter().map(|c| c.busy).collect::<Vec<_>>(), [Some(1.0), Some(1.0)]);
        let mut now = Vec::new();
        t.cpus_now(&mut now);
        assert_eq!(now, [CpuNow { cpu: 0, tid: 7, prio: 120, since: 500_000_000 }]);
    }

    #[test]
    fn states_follow_switches_and_wakings() {
        let mut t = Tracker::new(&[0, 1], 0);
        t.switch(0, 10, (5, S), (6, 120), b"b");
        t.switch(0, 20, (6, R_PLUS), (7, 120), b"c");
        assert_eq!(
            states(&t),
            [(5, ThreadNow::Blocked(S), 10), (6, ThreadNow::Preempted, 20), (7, ThreadNow::Running, 20)]
        );
        t.waking(30, 5, 1);
        t.switch(1, 45, (0, TaskState::RUNNABLE), (5, 120), b"a");
        assert_eq!(states(&t)[0], (5, ThreadNow::Running, 45));
        t.gone(6);
        assert_eq!(states(&t).len(), 2);
        let (_, worst) = t.take_summary(50);
        assert_eq!(worst, Some(WorstWait { dur: 15, at: 30, tid: 5, name: b"a".to_vec() }));
    }

    #[test]
    fn case_24_a_wake_up_delivered_after_its_run_still_counts() {
        let mut t = Tracker::new(&[0, 1], 0);
        t.switch(0, 10, (5, S), (0, 120), b"");
        t.switch(0, 100, (0, TaskState::RUNNABLE), (5, 120), b"a");
        t.waking(90, 5, 0);
        assert_eq!(states(&t), [(5, ThreadNow::Running, 100)]);
        assert_eq!(t.take_summary(200).0.lanes[0].cells[0].worst_wait, 10);
    }

    #[test]
    fn ready_and_blocked_counts_are_the_greatest_at_once() {
        let mut t = Tracker::new(&[0], 0);
        for (ts, tid) in [(1, 11), (2, 12), (3, 13)] {
            t.waking(ts, tid, 0);
        }
        t.switch(0, 4, (9, D), (11, 120), b"");
        t.switch(0, 5, (11, D), (12, 120), b"");
        t.waking(6, 9, 0);
        t.switch(0, 7, (12, S), (13, 120), b"");
        let cell = t.take_summary(10).0.lanes[0].cells[0];
        assert_eq!((cell.ready, cell.blocked), (3, 2));
    }

    #[test]
    fn what_ran_without_a_wake_up_is_not_counted_twice() {
        let mut t = Tracker::new(&[0, 1], 0);
        // 11 is woken, then seen to leave CPU 0 although its coming was not recorded; three times over.
        for ts in [10, 20, 30] {
            t.waking(ts, 11, 1);
            t.switch(0, ts + 5, (11, TaskState::PREEMPTED), (0, 120), b"");
        }
        t.switch(0, 40, (0, TaskState::RUNNABLE), (11, 120), b"");
        t.waking(41, 12, 0);
        let cells: Vec<_> = t.take_summary(50).0.lanes.iter().map(|l| l.cells[0].ready).collect();
        assert_eq!(cells, [1, 1], "never more than one thread at once was ready on either CPU");
    }

    #[test]
    fn case_30_woken_while_it_leaves_it_was_ready_since_it_left() {
        let mut t = Tracker::new(&[0], 0);
        t.switch(0, 50, (0, TaskState::RUNNABLE), (7, 120), b"");
        t.waking(100, 7, 0);
        t.switch(0, 101, (7, S), (8, 120), b"");
        t.switch(0, 150, (8, S), (7, 120), b"seven\0");
        let worst = t.take_summary(200).1.expect("there was a wait");
        assert_eq!((worst.dur, worst.at, worst.tid, worst.name.as_slice()), (49, 101, 7, &b"seven"[..]));
    }

    #[test]
    fn case_36_a_loss_forgets_what_was_on_that_cpu() {
        let mut t = Tracker::new(&[0, 1], 0);
        t.switch(0, 10, (5, S), (6, 120), b"");
        t.switch(1, 10, (0, TaskState::RUNNABLE), (8, 120), b"");
        t.waking(20, 5, 0);
        t.loss(0, 30, 50);
        t.lost(0, 30, Some(12));
        t.lost(0, 31, None);
        assert_eq!(states(&t), [(8, ThreadNow::Running, 10)]);
        assert!(!t.covers_all());
        t.switch(0, 60, (6, S), (5, 120), b"x");
        let (summary, worst) = t.take_summary(100);
        assert_eq!(worst, None, "no wait is paired across the loss");
        assert_eq!(summary.lanes[0].cells[0].loss.known, 12);
        assert!(summary.lanes[0].cells[0].loss.unknown);
        // Known: 10..30 and 60..100, all busy.
        assert_eq!(summary.lanes[0].cells[0].busy, Some(1.0));
    }

    #[test]
    fn case_19_sparse_and_hostile_ids() {
        let mut t = Tracker::new(&[0, 3, 1025], 0);
        t.switch(1025, 10, (-5, S), (i32::MAX, 120), b"");
        t.switch(2, 10, (1, S), (2, 120), b"");
        let mut now = Vec::new();
        t.cpus_now(&mut now);
        assert_eq!(now.len(), 1);
        assert_eq!(t.take_summary(20).0.lanes.iter().map(|l| l.cpu).collect::<Vec<_>>(), [0, 3, 1025]);
    }
}
