//! One CPU's part of the encoder: the pages that wait, the bundle that grows, and who runs.

use std::collections::VecDeque;

use super::Page;
use super::parts::full;
use super::unseen::Unseen;
use crate::kernel::loss::LossMeter;
use crate::kernel::records::Cursor;
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::{BundleBuilder, FullWaking};
use crate::recorder::plan::{SwitchRecord, WakeRecord};
use crate::sched::event::{Loss, Tid};
use crate::store::index::LossCount;

/// The thread that runs where no other does.
const IDLE: Tid = 0;

/// A page that is being walked.
#[derive(Debug)]
pub(super) struct Queued {
    pub page: Page,
    pub cursor: Cursor,
    /// When its next record was written, or a little before, ns of the trace clock.
    pub next: u64,
    /// The loss in front of the page was told, or there is none.
    pub told: bool,
}

#[derive(Debug)]
pub(super) struct Cpu {
    pub id: u32,
    pub pages: VecDeque<Queued>,
    pub bundle: BundleBuilder,
    pub meter: LossMeter,
    /// Loss in front of the bundle.
    pub lost: Option<Loss>,
    /// The next switch is written in full: nobody can know who left.
    full: bool,
    /// Who runs, if known. The next switch or wake-up is nearly always by this thread; now and then the kernel traces no
    /// switch, and compact events would then blame the wrong thread.
    running: Option<Tid>,
    unseen: Unseen,
    pub events: u64,
    pub frame_loss: LossCount,
    pub span: Option<(u64, u64)>,
}

impl Cpu {
    pub fn new(id: u32, stats: &CpuStats) -> Cpu {
        Cpu {
            id,
            pages: VecDeque::new(),
            bundle: BundleBuilder::new(),
            meter: LossMeter::new(id, stats),
            lost: None,
            full: true,
            running: None,
            unseen: Unseen::default(),
            events: 0,
            frame_loss: LossCount::default(),
            span: None,
        }
    }

    /// The next switch is written in full, as at the head of a segment.
    pub fn begin_segment(&mut self) {
        self.full = true;
    }

    /// Events are missing in front of what comes next: who runs is not known.
    pub fn lose(&mut self, loss: Loss) {
        self.lost = Some(loss);
        self.full = true;
        self.running = None;
        self.unseen.lost();
        self.frame_loss.add(loss.count);
    }

    /// Writes a switch at `ts`. True if it tells of another one before it that was not traced.
    #[inline]
    pub fn switch(&mut self, ts: u64, s: &SwitchRecord<'_>, flags: u8) -> bool {
        let ran = self.running.replace(s.next_pid);
        let first = std::mem::take(&mut self.full);
        // After a loss nobody can know; otherwise the kernel traced no switch where there was one.
        let untraced = ran.is_some_and(|ran| ran != s.prev_pid);
        let known = match (first, untraced, ran) {
            (false, false, _) => self.unseen.as_told(s),
            (false, true, Some(IDLE)) => {
                self.unseen.left(s, ts, &mut self.bundle);
                true
            }
            // In which state the thread left that was believed to run nobody can say.
            _ => {
                self.unseen.learn(s);
                false
            }
        };
        if known {
            self.bundle.switch(ts, s.prev_state, s.next_pid, s.next_prio, s.next_comm);
        } else {
            self.bundle.full_switch(ts, flags, &full(s));
        }
        untraced
    }

    /// Writes a wake-up by thread `by`. True if it tells of a switch before it that was not traced.
    #[inline]
    pub fn waking(&mut self, ts: u64, w: &WakeRecord<'_>, by: Tid, flags: u8) -> bool {
        let ran = self.running.replace(by);
        let untraced = ran.is_some_and(|ran| ran != by);
        // Until the next switch, tools that take the last one's word for who runs must be told in each wake-up; unless a
        // stand-in can tell them for good.
        if !self.full && (ran == Some(by) || ran == Some(IDLE) && self.unseen.woke(by, ts, &mut self.bundle)) {
            self.bundle.waking(ts, w.pid, w.target_cpu, w.prio, w.comm, flags);
        } else {
            self.full |= untraced;
            let full = FullWaking { comm: w.comm, pid: w.pid, prio: w.prio, target_cpu: w.target_cpu };
            self.bundle.full_waking(ts, by, flags, &full);
        }
        untraced
    }

    /// Events of one CPU come in time order: the first is the earliest.
    #[inline]
    pub fn seen(&mut self, ts: u64) {
        self.events += 1;
        match &mut self.span {
            Some(span) => span.1 = span.1.max(ts),
            None => self.span = Some((ts, ts)),
        }
    }

    /// The loss meter wants to know where the known events end.
    pub fn tell_meter(&mut self) {
        if let Some((_, last)) = self.span {
            self.meter.saw(last);
        }
    }
}
