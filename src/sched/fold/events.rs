//! Events: switches, wake-ups, migrations, lives; the rules of the module page.

use super::super::event::{Event, EventKind, Switch, ThreadNow, Tid, Wake};
use super::super::order::MAX_CPUS;
use super::super::state::TaskState;
use super::super::threads::IDLE;
use super::{Folder, Interval, PendingWake, Sink, Utid, WAKE_RACE_NS, become_woken};
use crate::names::NameId;

impl Folder {
    pub(super) fn event(&mut self, event: &Event, sink: &mut impl Sink) {
        if event.cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.stats.events += 1;
        self.now = self.now.max(event.ts);
        self.first_ts.get_or_insert(event.ts);
        let cpu = self.cpu_mut(event.cpu);
        cpu.covered_since.get_or_insert(event.ts);
        let ran = cpu.running;
        match &event.kind {
            EventKind::Switch(switch) => self.switch(event, switch, sink),
            EventKind::Waking(wake) => self.waking(event, wake, sink),
            EventKind::Wakeup(wake) | EventKind::WakeupNew(wake) => self.wakeup(event, wake, sink),
            EventKind::Migrate { tid, to_cpu, .. } => self.migrate(event.ts, *tid, *to_cpu, sink),
            EventKind::NewTask { tid, comm, clone_flags } => {
                let creator = self.emitter(event);
                let (utid, replaced) = self.threads.new_task(event.ts, *tid, *comm, *clone_flags, creator);
                if let Some(old) = replaced {
                    self.forget(old, sink);
                }
                self.announce(sink);
                if utid != IDLE {
                    let wake = self.pending_wake(event, creator);
                    self.become_ready(event.ts, utid, wake, None, sink);
                }
            }
            EventKind::Rename { tid, comm } => {
                self.threads.rename(event.ts, *tid, *comm);
                self.announce(sink);
            }
            EventKind::Exec { tid, old_tid, .. } => {
                if let Some(old) = self.threads.exec(event.ts, *tid, *old_tid) {
                    self.forget(old, sink);
                }
            }
            EventKind::Exit { tid } => self.threads.exit(*tid),
            EventKind::Free { tid } => {
                if let Some(utid) = self.threads.free(event.ts, *tid) {
                    self.forget(utid, sink);
                }
            }
            EventKind::BlockedReason { tid, io_wait, function } => {
                self.blocked_reason(*tid, *io_wait, *function, sink);
            }
            EventKind::IrqEntry { .. }
            | EventKind::IrqExit { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::SoftirqExit { .. }
            | EventKind::Block(_)
            | EventKind::Frequency { .. }
            | EventKind::Idle { .. }
            | EventKind::Print { .. }
            | EventKind::Other { .. } => {}
        }
        self.cpus[event.cpu as usize].last_ts = event.ts;
        sink.event(event, event.emitter.map_or(ran, |tid| self.threads.utid_of(tid)));
    }

    pub(super) fn switch(&mut self, event: &Event, switch: &Switch, sink: &mut impl Sink) {
        let (ts, cpu) = (event.ts, event.cpu);
        let next = self.threads.seen(ts, switch.next_tid, switch.next_comm);
        let ran = self.cpus[cpu as usize].running;
        let prev = match switch.prev_tid {
            Some(tid) => Some(self.threads.ensure(tid)),
            None => ran,
        };
        self.announce(sink);
        let first = !std::mem::replace(&mut self.cpus[cpu as usize].switched, true);
        let Some(prev) = prev else {
            if first {
                self.stats.skipped_switches += 1;
                let now = &mut self.cpus[cpu as usize];
                now.running = Some(next);
                now.prio = Some(switch.next_prio);
            } else {
                // After a loss: who left is unknown, who came is not.
                self.enter(ts, cpu, next, Some(switch.next_prio), sink);
            }
            return;
        };
        self.expect(cpu, prev, sink);
        // One step: who comes leaves the queue before who was pushed off joins it, or its depth would peak for no time.
        self.dequeue(ts, next, sink);
        self.leave(ts, cpu, prev, next, switch.prev_state, sink);
        self.enter(ts, cpu, next, Some(switch.next_prio), sink);
    }

    /// A record says that `found` runs on `cpu`. If another thread was thought to, a switch was not traced some time after
    /// the last event here. True then.
    fn expect(&mut self, cpu: u32, found: Utid, sink: &mut impl Sink) -> bool {
        let now = &self.cpus[cpu as usize];
        let Some(ran) = now.running.filter(|&ran| ran != found) else { return false };
        let last = now.last_ts;
        self.stats.mismatched += 1;
        self.stop_running(cpu, ran, last, None, false, sink);
        true
    }

    /// `prev` leaves `cpu` in `state`.
    pub(super) fn leave(&mut self, ts: u64, cpu: u32, prev: Utid, next: Utid, state: TaskState, sink: &mut impl Sink) {
        if prev == IDLE {
            self.stop_running(cpu, prev, ts, Some(state), true, sink);
            return;
        }
        let live = &self.live[prev as usize];
        match live.open {
            Some(open) if open.state == ThreadNow::Running => {
                if open.cpu != Some(cpu) {
                    // It was seen on another CPU meanwhile (clock skew): that later news stands.
                    return;
                }
                self.stop_running(cpu, prev, ts, Some(state), true, sink);
            }
            // It cannot have left without having run: its switch-in is missing.
            Some(open) => self.close(prev, open.start, false, sink),
            None => {}
        }
        let pushed_off = state.is_runnable() || state.contains(TaskState::PREEMPTED);
        let row = self.take_row();
        let mut interval = Interval::new(row, prev, ts, ThreadNow::Blocked(state));
        interval.cpu = Some(cpu);
        interval.left = state;
        let live = &mut self.live[prev as usize];
        live.last_cpu = Some(cpu);
        if pushed_off {
            let raced = live
                .pending
                .filter(|w| !state.contains(TaskState::PREEMPTED) && ts.saturating_sub(w.ts) <= WAKE_RACE_NS);
            live.pending = None;
            interval.state = ThreadNow::Preempted;
            interval.preemptor = (next != IDLE && next != prev).then_some(next);
            if let Some(wake) = raced {
                become_woken(&mut interval, wake);
            }
            live.open = Some(interval);
            self.enqueue(ts, prev, cpu, sink);
        } else {
            live.last_blocked = Some(row);
            live.open = Some(interval);
            if interval.state.is_uninterruptible() {
                self.enter_d(ts, prev, cpu, sink);
            }
        }
    }

    /// `next` begins to run on `cpu`.
    pub(super) fn enter(&mut self, ts: u64, cpu: u32, next: Utid, prio: Option<i32>, sink: &mut impl Sink) {
        if next != IDLE {
            self.settle(ts, next);
            self.close_any(ts, next, sink);
        }
        let mut interval = Interval::new(self.take_row(), next, ts, ThreadNow::Running);
        interval.cpu = Some(cpu);
        interval.prio = prio;
        interval.slice = Some(self.next_slice);
        self.next_slice = self.next_slice.wrapping_add(1);
        let now = &mut self.cpus[cpu as usize];
        now.running = Some(next);
        now.prio = prio;
        if next == IDLE {
            now.idle = Some(interval);
            return;
        }
        let live = &mut self.live[next as usize];
        live.pending = None;
        live.last_blocked = None;
        live.last_cpu = Some(cpu);
        live.open = Some(interval);
    }

    /// A sleep that no wake-up ended: either the wake-up that came while the thread still ran was the one, or it
    /// was lost.
    pub(super) fn settle(&mut self, ts: u64, utid: Utid) {
        let loss = self.last_loss;
        let live = &mut self.live[utid as usize];
        let Some(open) = live.open.as_mut().filter(|i| matches!(i.state, ThreadNow::Blocked(_))) else { return };
        if let Some(wake) = live.pending {
            become_woken(open, wake);
        } else if loss >= open.start && loss > 0 && ts >= loss {
            open.end_known = false;
        }
    }

    pub(super) fn waking(&mut self, event: &Event, wake: &Wake, sink: &mut impl Sink) {
        let emitter = self.emitter(event);
        let now = &self.cpus[event.cpu as usize];
        if emitter.is_none() && now.unknown_until == 0 {
            self.stats.skipped_wakings += 1;
            return;
        }
        let utid = self.threads.seen(event.ts, wake.tid, wake.comm);
        self.announce(sink);
        // Who wakes runs (`current` changes with interrupts off, so no wake-up comes between a switch and its record).
        if let Some(waker) = emitter
            && self.expect(event.cpu, waker, sink)
        {
            self.enter(event.ts, event.cpu, waker, None, sink);
        }
        if utid == IDLE {
            return;
        }
        let pending = self.pending_wake(event, emitter);
        sink.wake(event.ts, emitter.filter(|_| !pending.from_interrupt), utid, wake.target_cpu);
        let live = &mut self.live[utid as usize];
        match live.open.map(|i| i.state) {
            None | Some(ThreadNow::Blocked(_) | ThreadNow::Unknown) => {
                self.become_ready(event.ts, utid, pending, Some(wake.target_cpu), sink);
            }
            Some(ThreadNow::Running) => live.pending = Some(pending),
            Some(ThreadNow::Runnable) => {
                // try_to_wake_up writes its event for a thread that sleeps only: this one ran and went to sleep unseen.
                self.stats.mismatched += 1;
                let start = live.open.map_or(event.ts, |i| i.start);
                self.dequeue(event.ts, utid, sink);
                self.close(utid, start, false, sink);
                self.become_ready(event.ts, utid, pending, Some(wake.target_cpu), sink);
            }
            Some(ThreadNow::Preempted) => {}
        }
    }

    /// `sched_wakeup` adds nothing where `sched_waking` was recorded. Where it was not, it tells when the thread
    /// became ready, but not by whom: it may be written on the target CPU.
    pub(super) fn wakeup(&mut self, event: &Event, wake: &Wake, sink: &mut impl Sink) {
        let utid = self.threads.seen(event.ts, wake.tid, wake.comm);
        self.announce(sink);
        if utid == IDLE {
            return;
        }
        match self.live[utid as usize].open.map(|i| i.state) {
            None | Some(ThreadNow::Blocked(_) | ThreadNow::Unknown) => {
                let new = matches!(event.kind, EventKind::WakeupNew(_));
                let emitter = if new { self.emitter(event) } else { None };
                let pending = self.pending_wake(event, emitter);
                self.become_ready(event.ts, utid, pending, Some(wake.target_cpu), sink);
            }
            Some(ThreadNow::Runnable) => self.requeue(event.ts, utid, wake.target_cpu, sink),
            Some(ThreadNow::Running | ThreadNow::Preempted) => {}
        }
    }

    pub(super) fn become_ready(
        &mut self,
        ts: u64,
        utid: Utid,
        wake: PendingWake,
        target: Option<u32>,
        sink: &mut impl Sink,
    ) {
        self.close_any(ts, utid, sink);
        let mut interval = Interval::new(self.take_row(), utid, ts, ThreadNow::Runnable);
        interval.waker = wake.waker;
        interval.from_interrupt = Some(wake.from_interrupt);
        interval.cpu = target.filter(|&c| c < MAX_CPUS);
        let live = &mut self.live[utid as usize];
        live.pending = None;
        live.open = Some(interval);
        if let Some(cpu) = interval.cpu {
            live.last_cpu = Some(cpu);
            self.enqueue(ts, utid, cpu, sink);
        }
    }

    pub(super) fn migrate(&mut self, ts: u64, tid: Tid, to_cpu: u32, sink: &mut impl Sink) {
        if to_cpu >= MAX_CPUS {
            return;
        }
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if utid != IDLE {
            self.requeue(ts, utid, to_cpu, sink);
        }
    }

    /// A ready thread moves to another CPU's queue; its wait keeps the CPU it was sent to first.
    pub(super) fn requeue(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        let live = &self.live[utid as usize];
        let ready = live.open.is_some_and(|i| i.state.is_ready());
        if cpu < MAX_CPUS && ready && live.queued != Some(cpu) {
            self.dequeue(ts, utid, sink);
            self.enqueue(ts, utid, cpu, sink);
            if let Some(open) = &mut self.live[utid as usize].open {
                open.cpu.get_or_insert(cpu);
            }
        }
    }

    pub(super) fn blocked_reason(&mut self, tid: Tid, io_wait: bool, function: NameId, sink: &mut impl Sink) {
        let Some(utid) = self.threads.utid_of(tid).filter(|&u| u != IDLE) else { return };
        let Some(live) = self.live.get_mut(utid as usize) else { return };
        match &mut live.open {
            Some(open) if matches!(open.state, ThreadNow::Blocked(_)) => {
                // procfs knows the function, not what it is waited for.
                open.io_wait = (!self.sampled).then_some(io_wait);
                open.function = function;
            }
            _ => {
                if let Some(row) = live.last_blocked {
                    sink.late_reason(utid, row, io_wait, function);
                }
            }
        }
    }

    /// Who wrote the event: as recorded, else who runs there.
    pub(super) fn emitter(&mut self, event: &Event) -> Option<Utid> {
        match event.emitter {
            Some(0) => Some(IDLE),
            Some(tid) => Some(self.threads.ensure(tid)),
            None => self.cpus[event.cpu as usize].running,
        }
    }

    pub(super) fn pending_wake(&self, event: &Event, waker: Option<Utid>) -> PendingWake {
        let row = |utid: Utid| {
            let open = self.live.get(utid as usize)?.open?;
            (open.state == ThreadNow::Running).then_some(open.row)
        };
        PendingWake { ts: event.ts, waker: waker.map(|u| (u, row(u))), from_interrupt: event.in_interrupt() }
    }
}
