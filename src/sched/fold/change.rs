//! The small steps that all rules are made of: closing, counting queues, telling of new lives.

use super::super::event::ThreadNow;
use super::super::order::MAX_CPUS;
use super::super::state::TaskState;
use super::super::threads::IDLE;
use super::{CpuNow, Folder, Interval, Live, Sink, Utid};

impl Folder {
    /// Ends the running stretch of `utid` on `cpu`; `cpu` runs nobody known until told.
    pub(super) fn stop_running(
        &mut self,
        cpu: u32,
        utid: Utid,
        end: u64,
        state: Option<TaskState>,
        end_known: bool,
        sink: &mut impl Sink,
    ) {
        let now = &mut self.cpus[cpu as usize];
        now.running = None;
        now.prio = None;
        let slot = if utid == IDLE { &mut now.idle } else { &mut self.live[utid as usize].open };
        if let Some(mut open) = slot.take_if(|i| i.state == ThreadNow::Running && i.cpu == Some(cpu)) {
            open.end = Some(end.max(open.start));
            open.end_known = end_known;
            open.end_state = state;
            now.last_end = end.max(open.start);
            if utid != IDLE {
                self.live[utid as usize].last_end = now.last_end;
            }
            sink.interval(&open);
        }
    }

    pub(super) fn close(&mut self, utid: Utid, end: u64, end_known: bool, sink: &mut impl Sink) {
        self.dequeue(end, utid, sink);
        if let Some(mut open) = self.live[utid as usize].open.take() {
            open.end = Some(end.max(open.start));
            open.end_known &= end_known;
            self.live[utid as usize].last_end = end.max(open.start);
            sink.interval(&open);
        }
    }

    pub(super) fn close_any(&mut self, ts: u64, utid: Utid, sink: &mut impl Sink) {
        match self.live[utid as usize].open {
            Some(open) if open.state == ThreadNow::Running => {
                if let Some(cpu) = open.cpu {
                    self.stop_running(cpu, utid, ts, None, true, sink);
                }
            }
            Some(_) => self.close(utid, ts, true, sink),
            None => {}
        }
    }

    pub(super) fn close_at_loss(&mut self, utid: Utid, known: u64, sink: &mut impl Sink) {
        self.live[utid as usize].pending = None;
        self.live[utid as usize].last_blocked = None;
        self.close(utid, known, false, sink);
    }

    /// A life is over: its open interval (Z or X, mostly) never ends.
    pub(super) fn forget(&mut self, utid: Utid, sink: &mut impl Sink) {
        if utid == IDLE || utid as usize >= self.live.len() {
            return;
        }
        self.dequeue(self.now, utid, sink);
        if let Some(Interval { state: ThreadNow::Running, cpu: Some(cpu), .. }) = self.live[utid as usize].open {
            // It cannot be over while it runs: something was missed.
            self.stop_running(cpu, utid, self.now, None, false, sink);
        } else if let Some(open) = self.live[utid as usize].open.take() {
            sink.interval(&open);
        }
        self.live[utid as usize] = Live::default();
        // A CPU's first switch may have told of it without making a slice.
        for cpu in self.cpus.iter_mut().filter(|c| c.running == Some(utid)) {
            cpu.running = None;
        }
    }

    pub(super) fn enqueue(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        self.live[utid as usize].queued = Some(cpu);
        let now = self.cpu_mut(cpu);
        now.ready += 1;
        let depth = now.ready;
        sink.queue(ts, cpu, depth);
    }

    pub(super) fn enter_d(&mut self, ts: u64, utid: Utid, cpu: u32, sink: &mut impl Sink) {
        self.live[utid as usize].in_d = Some(cpu);
        let now = self.cpu_mut(cpu);
        now.in_d += 1;
        let depth = now.in_d;
        sink.uninterruptible(ts, cpu, depth);
    }

    /// The thread is ready, or in D, no longer.
    pub(super) fn dequeue(&mut self, ts: u64, utid: Utid, sink: &mut impl Sink) {
        let live = &mut self.live[utid as usize];
        if let Some(cpu) = live.queued.take() {
            let now = self.cpu_mut(cpu);
            now.ready = now.ready.saturating_sub(1);
            let depth = now.ready;
            sink.queue(ts, cpu, depth);
        } else if let Some(cpu) = live.in_d.take() {
            let now = self.cpu_mut(cpu);
            now.in_d = now.in_d.saturating_sub(1);
            let depth = now.in_d;
            sink.uninterruptible(ts, cpu, depth);
        }
    }

    /// Tells the sink of lives that began, and makes room for them.
    #[inline]
    pub(super) fn announce(&mut self, sink: &mut impl Sink) {
        if self.live.len() < self.threads.len() {
            self.announce_new(sink);
        }
    }

    #[cold]
    pub(super) fn announce_new(&mut self, sink: &mut impl Sink) {
        let known = self.live.len();
        self.live.resize_with(self.threads.len(), Live::default);
        for utid in known..self.live.len() {
            let utid = utid as Utid;
            if let Some(life) = self.threads.get(utid) {
                sink.new_thread(self.now, utid, life.tid);
            }
        }
    }

    pub(super) fn cpu_mut(&mut self, cpu: u32) -> &mut CpuNow {
        let cpu = cpu.min(MAX_CPUS) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, CpuNow::default);
        }
        &mut self.cpus[cpu]
    }

    pub(super) fn take_row(&mut self) -> u32 {
        let row = self.next_row;
        self.next_row = self.next_row.wrapping_add(1);
        row
    }
}
