//! What is said about stretches rather than events: losses, gaps, state blocks, CPUs coming and going.

use super::super::event::{Loss, ThreadNow, Tid};
use super::super::order::{MAX_CPUS, MAX_TIME};
use super::super::threads::IDLE;
use super::{Folder, Interval, Sink};

impl Folder {
    pub(super) fn loss(&mut self, loss: &Loss, sink: &mut impl Sink) {
        if loss.cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        let now = *self.cpu_mut(loss.cpu);
        let known = if loss.from > 0 { loss.from.min(MAX_TIME) } else { now.last_ts };
        let to = loss.to.min(MAX_TIME);
        self.forget_cpu(loss.cpu, known, to, sink);
        self.last_loss = self.last_loss.max(to).max(known);
    }

    pub(super) fn gap(&mut self, from: u64, to: u64, sink: &mut impl Sink) {
        for cpu in 0..self.cpus.len() as u32 {
            self.forget_cpu(cpu, from, to, sink);
        }
        for utid in 1..self.live.len() as u32 {
            self.close_at_loss(utid, from, sink);
        }
        self.last_loss = self.last_loss.max(to);
        self.now = self.now.max(to);
    }

    /// From `known` to `until` nothing is known of `cpu`, nor of the threads last seen there.
    pub(super) fn forget_cpu(&mut self, cpu: u32, known: u64, until: u64, sink: &mut impl Sink) {
        if let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, known, None, false, sink);
        }
        for utid in 1..self.live.len() as u32 {
            let live = &self.live[utid as usize];
            let elsewhere = live.open.is_some_and(|i| i.state == ThreadNow::Running);
            if live.last_cpu == Some(cpu) && !elsewhere {
                self.close_at_loss(utid, known, sink);
            }
        }
        let now = &mut self.cpus[cpu as usize];
        now.running = None;
        now.prio = None;
        now.unknown_until = now.unknown_until.max(until).max(known).max(1);
    }

    pub(super) fn cpu_state(&mut self, ts: u64, cpu: u32, tid: Tid, prio: i32, since: u64, sink: &mut impl Sink) {
        if cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.now = self.now.max(ts);
        let now = *self.cpu_mut(cpu);
        let start = if since > 0 { since.min(ts) } else { ts }.max(now.unknown_until).max(now.last_end);
        self.cpus[cpu as usize].covered_since.get_or_insert(start.min(ts));
        self.first_ts.get_or_insert(ts);
        if self.sampled {
            self.sample_cpu(ts, cpu, tid, prio, sink);
            return;
        }
        if now.running.is_some() || start > ts {
            return;
        }
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if utid != IDLE && self.live[utid as usize].open.is_some_and(|i| i.state == ThreadNow::Running) {
            return;
        }
        let told = self.live[utid as usize];
        let start = start.max(told.last_end).max(told.open.map_or(0, |i| i.start));
        self.enter(start, cpu, utid, Some(prio), sink);
    }

    pub(super) fn sample_cpu(&mut self, ts: u64, cpu: u32, tid: Tid, prio: i32, sink: &mut impl Sink) {
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        if self.cpus[cpu as usize].running == Some(utid) {
            return;
        }
        if let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, ts, None, true, sink);
        }
        self.enter(ts, cpu, utid, Some(prio), sink);
    }

    pub(super) fn thread_state(
        &mut self,
        ts: u64,
        tid: Tid,
        state: ThreadNow,
        since: Option<u64>,
        cpu: Option<u32>,
        sink: &mut impl Sink,
    ) {
        self.now = self.now.max(ts);
        let utid = self.threads.ensure(tid);
        self.announce(sink);
        let told_elsewhere = matches!(state, ThreadNow::Running | ThreadNow::Unknown);
        let open = self.live[utid as usize].open;
        if utid == IDLE || told_elsewhere && !self.sampled {
            return;
        }
        let cpu = cpu.filter(|&c| c < MAX_CPUS);
        match open {
            Some(open) if self.sampled && open.state != state => match open.cpu {
                Some(cpu) if open.state == ThreadNow::Running => self.stop_running(cpu, utid, ts, None, true, sink),
                _ => self.close(utid, ts, true, sink),
            },
            Some(_) => return,
            None => {}
        }
        if told_elsewhere {
            return;
        }
        let floor = cpu.and_then(|c| self.cpus.get(c as usize)).map_or(0, |c| c.unknown_until);
        let start = if open.is_some() {
            ts
        } else {
            since.unwrap_or(ts).min(ts).max(floor).max(self.live[utid as usize].last_end)
        };
        let mut interval = Interval::new(self.take_row(), utid, start, state);
        interval.cpu = cpu;
        if let ThreadNow::Blocked(left) = state {
            interval.left = left;
        }
        let live = &mut self.live[utid as usize];
        live.open = Some(interval);
        live.last_cpu = cpu.or(live.last_cpu);
        match cpu {
            Some(cpu) if state.is_ready() => self.enqueue(start, utid, cpu, sink),
            Some(cpu) if state.is_uninterruptible() => self.enter_d(start, utid, cpu, sink),
            _ => {}
        }
    }

    pub(super) fn cpu_online(&mut self, ts: u64, cpu: u32, online: bool, sink: &mut impl Sink) {
        if cpu >= MAX_CPUS {
            self.stats.bad_cpu += 1;
            return;
        }
        self.now = self.now.max(ts);
        let now = self.cpu_mut(cpu);
        now.offline = !online;
        now.covered_since.get_or_insert(ts);
        if !online && let Some(ran) = self.cpus[cpu as usize].running {
            self.stop_running(cpu, ran, ts, None, true, sink);
        }
    }
}
