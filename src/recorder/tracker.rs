//! What every CPU and thread is doing, kept cheaply beside the encoder: for the state block in a segment's head and the
//! per-second summary in its footer.
//!
//! This is not the scheduling model (`sched::fold` is, and everything that is shown of single threads comes from
//! there): it keeps one small record per thread and knows no history. A test of the encoder holds its numbers against
//! the fold's. Events come in time order (see [`moves::Moves`]); a wake-up that comes after the run it led to is still paired.
//! Allocates only when it meets a thread for the first time.

mod lane;
pub mod moves;
mod sampled;

use crate::perfetto::encode::packets::{CpuNow, ThreadAt};
use crate::sched::event::{ThreadNow, Tid};
use crate::sched::state::TaskState;
use crate::store::footer::{Summary, WorstWait};
use lane::Lane;

/// tid → record in two steps, since tids go up to 4 Mi (PID_MAX_LIMIT) but few are in use.
const CHUNK: usize = 256;
const MAX_TID: usize = 1 << 22;
/// The place of a CPU that is not followed.
const NOWHERE: u16 = u16::MAX;

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
    /// Of the CPU that it is on or was last.
    place: u16,
    flags: TaskState,
    now: Now,
    /// Running: it was woken meanwhile. Blocked: that was so when it left.
    woken: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    chunks: Vec<Option<Box<[Thread; CHUNK]>>>,
    /// In the order they were met, so that a place stays a CPU's.
    lanes: Vec<Lane>,
    /// CPU id → place in `lanes`; ids can be sparse.
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

/// What sched_switch says, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Who left.
    pub prev: Tid,
    /// In which state it left.
    pub state: TaskState,
    /// Who came.
    pub next: Tid,
    /// With which priority (kernel's scale).
    pub prio: i32,
    /// Name of who came, NUL-padded; only looked at when this ends the longest wait so far.
    pub comm: [u8; 16],
}

impl Tracker {
    /// Knows nothing yet about these CPUs.
    pub fn new(cpus: &[u32], start: u64) -> Tracker {
        let mut tracker = Tracker {
            chunks: Vec::new(),
            lanes: Vec::new(),
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
        if self.place(id).is_some() || id >= u32::from(NOWHERE) {
            return;
        }
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, NOWHERE);
        }
        self.places[id as usize] = self.lanes.len() as u16;
        self.lanes.push(Lane::new(id, self.start));
    }

    /// sched_switch on the CPU of that [`Tracker::place`].
    #[inline]
    fn switch(&mut self, place: u16, ts: u64, switch: &Switch) {
        let Some(lane) = self.lanes.get_mut(usize::from(place)) else { return };
        if lane.known && lane.tid != switch.prev {
            left_out(lane, &mut self.chunks, place, ts);
        }
        lane.book(ts);
        (lane.known, lane.tid, lane.prio, lane.since) = (true, switch.next, switch.prio, ts);
        // One step: who comes leaves the queue before who was pushed off joins it, or its depth would peak for no time.
        if switch.next != 0 {
            self.enter(place, ts, switch.next, &switch.comm);
        }
        if switch.prev != 0 {
            self.leave(place, ts, switch.prev, switch.state);
        }
    }

    /// A switch on that CPU was not traced: nothing is known of the time since the last event there, until the next switch.
    fn untraced(&mut self, place: u16, ts: u64) {
        if let Some(lane) = self.lanes.get_mut(usize::from(place)) {
            left_out(lane, &mut self.chunks, place, ts);
        }
    }

    /// sched_waking (or sched_wakeup_new) of `tid`, to run on `target`.
    #[inline]
    fn waking(&mut self, ts: u64, tid: Tid, target: u32) {
        let place = self.place(target).unwrap_or(NOWHERE);
        let Some(thread) = slot(&mut self.chunks, tid) else { return };
        let before = *thread;
        match before.now {
            Now::Unknown | Now::Blocked if ts >= before.since => {
                *thread = Thread { since: ts, place, now: Now::Ready, ..Thread::default() };
                if before.now == Now::Blocked && before.flags.contains(TaskState::UNINTERRUPTIBLE) {
                    self.recent.blocked = self.recent.blocked.max(ts - before.since);
                    self.uncount(before);
                }
                self.ready(place, ts);
            }
            // It ran and slept unseen (as in `sched::fold`): it waits anew.
            Now::Ready if ts >= before.since => {
                *thread = Thread { since: ts, place, now: Now::Ready, ..Thread::default() };
                self.uncount(before);
                self.ready(place, ts);
            }
            // On its way to sleep, or changing its mind: what it does next tells.
            Now::Running if ts >= before.since => thread.woken = true,
            // The run that this wake-up led to was seen first.
            Now::Running => {
                if let Some(lane) = self.lanes.get_mut(usize::from(before.place)) {
                    let cell = lane.cell(before.since);
                    cell.worst = cell.worst.max(before.since - ts);
                }
            }
            _ => {}
        }
    }

    /// The thread is gone; its tid can come back as another.
    fn gone(&mut self, tid: Tid) {
        let Some(thread) = slot(&mut self.chunks, tid) else { return };
        let before = std::mem::take(thread);
        self.uncount(before);
    }

    /// Events are missing on a CPU: what was known about it and the threads on it is not known any more. They are booked
    /// to the second in which they were lost; `None`: some.
    fn loss(&mut self, place: u16, from: u64, to: u64, count: Option<u64>) {
        let Some(lane) = self.lanes.get_mut(usize::from(place)) else { return };
        if from > 0 {
            lane.book(from);
        }
        lane.forget(to);
        let cell = lane.cell(from);
        match count {
            Some(n) => cell.lost += n,
            None => cell.lost_unknown = true,
        }
        for thread in self.chunks.iter_mut().flatten().flat_map(|c| c.iter_mut()) {
            if thread.place == place && thread.now != Now::Unknown {
                *thread = Thread::default();
            }
        }
    }

    /// Who runs on each CPU, by CPU; those of which nothing is known are left out.
    pub fn cpus_now(&self, out: &mut Vec<CpuNow>) {
        let begin = out.len();
        out.extend(self.lanes.iter().filter_map(Lane::now));
        out[begin..].sort_by_key(|c| c.cpu);
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
                let cpu = self.lanes.get(usize::from(t.place)).map(|lane| lane.id);
                Some(ThreadAt { tid: (i * CHUNK + j) as Tid, state, since: Some(t.since), cpu })
            }));
        }
    }

    /// True once it is known who runs on every CPU.
    pub fn covers_all(&self) -> bool {
        self.lanes.iter().all(|lane| lane.known)
    }

    /// The summary as it would be if it ended at `end`; nothing changes.
    pub fn summary(&mut self, end: u64) -> Summary {
        self.lanes.iter_mut().for_each(|lane| lane.book(end));
        let mut lanes: Vec<_> = self.lanes.iter().map(Lane::shown).collect();
        lanes.sort_by_key(|lane| lane.cpu);
        Summary { start: self.start, step: lane::STEP, lanes, marks: Vec::new() }
    }

    /// The worst since the last call: what triggers look at.
    pub fn take_recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// Ends the summary at `end` and begins the next there.
    pub fn take_summary(&mut self, end: u64) -> (Summary, Option<WorstWait>) {
        let summary = self.summary(end);
        self.start = end;
        self.lanes.iter_mut().for_each(|lane| lane.begin(end));
        (summary, self.worst.take())
    }

    #[inline]
    fn leave(&mut self, place: u16, ts: u64, tid: Tid, state: TaskState) {
        let Some(thread) = slot(&mut self.chunks, tid) else { return };
        let before = *thread;
        // A later run elsewhere was seen first.
        if ts < before.since {
            return;
        }
        let now = match () {
            () if state.contains(TaskState::DEAD) => Now::Unknown,
            () if state.contains(TaskState::PREEMPTED) => Now::Preempted,
            () if state.is_runnable() => Now::Ready,
            () => Now::Blocked,
        };
        let woken = before.now == Now::Running && before.woken;
        *thread = match now {
            Now::Unknown => Thread::default(),
            _ => Thread { since: ts, place, flags: state, now, woken },
        };
        if before.now != Now::Running {
            // It ran, so whatever else it was thought to be (after a loss, before the first look) is over.
            self.uncount(before);
        }
        match now {
            Now::Preempted | Now::Ready => self.ready(place, ts),
            Now::Blocked if state.contains(TaskState::UNINTERRUPTIBLE) => {
                self.lanes[usize::from(place)].add_blocked(ts);
            }
            _ => {}
        }
    }

    #[inline]
    fn enter(&mut self, place: u16, ts: u64, tid: Tid, comm: &[u8; 16]) {
        let Some(thread) = slot(&mut self.chunks, tid) else { return };
        let before = *thread;
        if ts < before.since {
            return;
        }
        *thread = Thread { since: ts, place, now: Now::Running, ..Thread::default() };
        // Woken while it was still leaving, and by nobody since: it was ready from when it left (as in `sched::fold`).
        let ready = match before.now {
            Now::Ready | Now::Preempted => true,
            Now::Blocked => before.woken,
            Now::Running | Now::Unknown => return,
        };
        self.uncount(before);
        if !ready {
            return;
        }
        let dur = ts - before.since;
        self.recent.wait = self.recent.wait.max(dur);
        // Where it was sent, like its wait in `sched::fold`.
        let sent = usize::from(if before.place == NOWHERE { place } else { before.place });
        let cell = self.lanes[sent].cell(ts);
        cell.worst = cell.worst.max(dur);
        if self.worst.as_ref().is_none_or(|w| dur > w.dur) {
            let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
            self.worst = Some(WorstWait { dur, at: before.since, tid, name: comm[..end].to_vec() });
        }
    }

    #[inline]
    fn ready(&mut self, place: u16, ts: u64) {
        let Some(lane) = self.lanes.get_mut(usize::from(place)) else { return };
        self.recent.ready = self.recent.ready.max(lane.add_ready(ts));
    }

    /// The thread does not wait any more where it did.
    #[inline]
    fn uncount(&mut self, before: Thread) {
        let Some(lane) = self.lanes.get_mut(usize::from(before.place)) else { return };
        match before.now {
            Now::Ready | Now::Preempted => lane.ready = lane.ready.saturating_sub(1),
            Now::Blocked if before.flags.contains(TaskState::UNINTERRUPTIBLE) => {
                lane.blocked = lane.blocked.saturating_sub(1);
            }
            Now::Blocked | Now::Running | Now::Unknown => {}
        }
    }

    /// Where a CPU's lane is, for good; nowhere for one that is not followed.
    #[inline]
    fn place(&self, cpu: u32) -> Option<u16> {
        self.places.get(cpu as usize).copied().filter(|&place| place != NOWHERE)
    }

    fn lane(&mut self, cpu: u32) -> Option<&mut Lane> {
        let place = self.place(cpu)?;
        self.lanes.get_mut(usize::from(place))
    }
}

/// Whoever was believed to run there has gone, and nobody saw when.
fn left_out(lane: &mut Lane, chunks: &mut Vec<Option<Box<[Thread; CHUNK]>>>, place: u16, ts: u64) {
    lane.leave_out(ts);
    if let Some(thread) = slot(chunks, lane.tid).filter(|t| t.now == Now::Running && t.place == place) {
        *thread = Thread::default();
    }
}

/// A thread's record; `None` for idle and for numbers that no thread can have.
#[inline]
fn slot(chunks: &mut Vec<Option<Box<[Thread; CHUNK]>>>, tid: Tid) -> Option<&mut Thread> {
    let tid = tid as usize;
    if !matches!(chunks.get(tid / CHUNK), Some(Some(_))) {
        make_room(chunks, tid);
    }
    let chunk = chunks.get_mut(tid / CHUNK)?.as_mut()?;
    (tid > 0).then(|| &mut chunk[tid % CHUNK])
}

/// Nothing for a number that no thread can have; negative ones are beyond all others.
#[cold]
fn make_room(chunks: &mut Vec<Option<Box<[Thread; CHUNK]>>>, tid: usize) {
    if tid >= MAX_TID {
        return;
    }
    if tid / CHUNK >= chunks.len() {
        chunks.resize_with(tid / CHUNK + 1, || None);
    }
    chunks[tid / CHUNK] = Some(Box::new([Thread::default(); CHUNK]));
}

#[cfg(test)]
mod tests;
