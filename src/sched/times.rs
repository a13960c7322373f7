//! How a thread's time is shared out among its states.

use super::event::ThreadNow;
use super::state::TaskState;

/// Time spent in each state within some window or cell; the sum is the window's length times the threads counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateTimes {
    /// On a CPU.
    pub running: u64,
    /// Ready after a wake-up, not running.
    pub runnable: u64,
    /// Ready since it was pushed off.
    pub preempted: u64,
    /// S and I.
    pub sleeping: u64,
    /// D.
    pub uninterruptible: u64,
    /// T, t, X, Z, P.
    pub other: u64,
    /// Not known (loss, gap, not yet seen).
    pub unknown: u64,
    /// Before the thread's birth and after its end, as far as these are known.
    pub absent: u64,
}

impl StateTimes {
    /// Adds `ns` of `state`.
    pub fn add(&mut self, state: ThreadNow, ns: u64) {
        let sum = match state {
            ThreadNow::Running => &mut self.running,
            ThreadNow::Runnable => &mut self.runnable,
            ThreadNow::Preempted => &mut self.preempted,
            ThreadNow::Unknown => &mut self.unknown,
            blocked if blocked.is_uninterruptible() => &mut self.uninterruptible,
            ThreadNow::Blocked(s) if s.contains(TaskState::SLEEPING) || s.contains(TaskState::IDLE) => {
                &mut self.sleeping
            }
            ThreadNow::Blocked(_) => &mut self.other,
        };
        *sum = sum.saturating_add(ns);
    }

    /// Adds all of `more`.
    pub fn merge(&mut self, more: &StateTimes) {
        self.running = self.running.saturating_add(more.running);
        self.runnable = self.runnable.saturating_add(more.runnable);
        self.preempted = self.preempted.saturating_add(more.preempted);
        self.sleeping = self.sleeping.saturating_add(more.sleeping);
        self.uninterruptible = self.uninterruptible.saturating_add(more.uninterruptible);
        self.other = self.other.saturating_add(more.other);
        self.unknown = self.unknown.saturating_add(more.unknown);
        self.absent = self.absent.saturating_add(more.absent);
    }

    /// What is left of `whole` is unknown as far as the thread lived, for `lived` of it; both ns.
    pub fn fill(&mut self, whole: u64, lived: u64) {
        self.unknown = lived.saturating_sub(self.known());
        self.absent = whole.saturating_sub(self.known() + self.unknown);
    }

    /// Ready but not running: after a wake-up or pushed off.
    pub fn ready(&self) -> u64 {
        self.runnable + self.preempted
    }

    /// All states of a thread that is there and known of.
    pub fn known(&self) -> u64 {
        self.running + self.runnable + self.preempted + self.sleeping + self.uninterruptible + self.other
    }

    /// All: the window's length times the threads counted.
    pub fn total(&self) -> u64 {
        self.known() + self.unknown + self.absent
    }
}
