//! The tracker's other source: states seen at procfs, which come without the switches and wake-ups between them.
//!
//! Waits are not exact there, so none is booked: neither the summary's worst waits nor the triggers see any.

use super::{Now, Thread, Tracker, slot};
use crate::sched::event::{Item, ThreadNow, Tid};
use crate::sched::state::TaskState;

impl Tracker {
    /// Takes a `CpuState`, `ThreadState` or `CpuOnline` that was just seen. Those of one CPU must come in time order.
    pub fn sampled(&mut self, item: &Item) {
        match *item {
            Item::CpuState { ts, cpu, tid, prio, .. } => self.seen_on(cpu, ts, tid, prio),
            Item::ThreadState { ts, tid, state, cpu, .. } => self.seen_in(ts, tid, state, cpu),
            Item::CpuOnline { ts, cpu, online } => {
                self.add_cpu(cpu);
                let Some(lane) = self.lane(cpu).filter(|_| !online) else { return };
                lane.book(ts);
                lane.forget(ts);
                lane.tid = 0;
            }
            _ => {}
        }
    }

    fn seen_on(&mut self, cpu: u32, ts: u64, tid: Tid, prio: i32) {
        self.add_cpu(cpu);
        let Some(place) = self.place(cpu) else { return };
        let lane = &mut self.lanes[usize::from(place)];
        lane.book(ts);
        let left = std::mem::replace(&mut lane.tid, tid);
        (lane.known, lane.prio, lane.since) = (true, prio, ts);
        if let Some(thread) = slot(&mut self.chunks, left).filter(|t| t.now == Now::Running && t.place == place) {
            // What it does now is told next.
            *thread = Thread { since: ts, place, ..Thread::default() };
        }
        if let Some(thread) = slot(&mut self.chunks, tid) {
            let before = std::mem::replace(thread, Thread { since: ts, place, now: Now::Running, ..Thread::default() });
            self.uncount(before);
        }
    }

    fn seen_in(&mut self, ts: u64, tid: Tid, state: ThreadNow, cpu: Option<u32>) {
        let place = cpu.and_then(|cpu| self.place(cpu));
        let Some(thread) = slot(&mut self.chunks, tid) else { return };
        let before = *thread;
        let (now, flags) = match state {
            ThreadNow::Unknown => (Now::Unknown, TaskState::default()),
            ThreadNow::Running => (Now::Running, TaskState::default()),
            ThreadNow::Runnable => (Now::Ready, TaskState::default()),
            ThreadNow::Preempted => (Now::Preempted, TaskState::PREEMPTED),
            ThreadNow::Blocked(flags) => (Now::Blocked, flags),
        };
        let place = place.unwrap_or(before.place);
        if (before.now, before.flags, before.place) == (now, flags, place) {
            return;
        }
        *thread = Thread { since: ts, place, flags, now, woken: false };
        self.uncount(before);
        match now {
            Now::Ready | Now::Preempted => self.ready(place, ts),
            Now::Blocked if flags.contains(TaskState::UNINTERRUPTIBLE) => {
                if let Some(lane) = self.lanes.get_mut(usize::from(place)) {
                    lane.add_blocked(ts);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::perfetto::encode::packets::CpuNow;

    const S: u64 = 1_000_000_000;

    fn on(ts: u64, tid: Tid) -> Item {
        Item::CpuState { ts, cpu: 0, tid, prio: 120, since: ts }
    }

    fn thread(ts: u64, tid: Tid, state: ThreadNow) -> Item {
        Item::ThreadState { ts, tid, state, since: None, cpu: Some(0) }
    }

    #[test]
    fn busy_time_and_queues_are_booked_and_waits_are_not() {
        let mut t = Tracker::new(&[], 0);
        let d = ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE);
        for item in [
            Item::CpuOnline { ts: 0, cpu: 0, online: true },
            on(0, 7),
            thread(0, 8, ThreadNow::Runnable),
            thread(0, 9, ThreadNow::Runnable),
            thread(0, 9, ThreadNow::Runnable),
            thread(S / 4, 9, d),
            on(S / 2, 8),
            thread(S / 2, 7, ThreadNow::Runnable),
            on(3 * S / 4, 0),
            thread(3 * S / 4, 8, ThreadNow::Blocked(TaskState::SLEEPING)),
        ] {
            t.sampled(&item);
        }
        let (mut cpus, mut threads) = (Vec::new(), Vec::new());
        t.cpus_now(&mut cpus);
        t.threads_now(&mut threads);
        assert_eq!(cpus, [CpuNow { cpu: 0, tid: 0, prio: 120, since: 3 * S / 4 }]);
        let states: Vec<_> = threads.iter().map(|t| (t.tid, t.state, t.since.unwrap())).collect();
        let sleeping = ThreadNow::Blocked(TaskState::SLEEPING);
        assert_eq!(states, [(7, ThreadNow::Runnable, S / 2), (8, sleeping, 3 * S / 4), (9, d, S / 4)]);
        let (summary, worst) = t.take_summary(S);
        let cell = &summary.lanes[0].cells[0];
        assert_eq!((cell.busy, cell.ready, cell.blocked, cell.worst_wait), (Some(0.75), 2, 1, 0));
        assert!(worst.is_none());
        assert_eq!(t.take_recent().wait, 0);
    }

    #[test]
    fn a_cpu_that_went_is_not_known() {
        let mut t = Tracker::new(&[], 0);
        t.sampled(&on(0, 7));
        t.sampled(&Item::CpuOnline { ts: S, cpu: 0, online: false });
        let mut cpus = Vec::new();
        t.cpus_now(&mut cpus);
        assert!(cpus.is_empty());
        assert_eq!(t.summary(3 * S).lanes[0].cells.len(), 1);
    }
}
