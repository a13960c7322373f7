//! How far one CPU has been read, and what a failed read leaves behind.

use super::batch::Unread;
use crate::kernel::page::{PageHeader, PageLayout};

/// One CPU's reading, within a cycle and beyond.
#[derive(Debug, Default)]
pub(super) struct Lane {
    cpu: u32,
    /// Start time of the last page read in this cycle, record clock; 0 = none yet.
    pub frontier: u64,
    /// Nothing before the cycle's limit is left in the kernel's buffer.
    pub drained: bool,
    online: bool,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// The last read failed.
    Lasts(String),
    /// Reading works again, but what was written before this instant (ns, boot) has been told as lost: its pages are late.
    Over(u64),
}

impl Lane {
    pub fn new(cpu: u32, online: bool) -> Lane {
        Lane { cpu, online, ..Lane::default() }
    }

    /// A cycle begins.
    pub fn begin(&mut self) {
        (self.frontier, self.drained) = (0, false);
    }

    /// Whether the CPU is there now; `Some` if that is news.
    pub fn came_or_went(&mut self, online: bool) -> Option<(u32, bool)> {
        (std::mem::replace(&mut self.online, online) != online).then_some((self.cpu, online))
    }

    /// A read failed. Told once in the log, and in each cycle to those who read the recording or ask for the status.
    pub fn failed(&mut self, why: String) {
        if !matches!(self.failure, Some(Failure::Lasts(_))) {
            tracing::warn!("{why}; what happens there counts as lost until it can be read again");
        }
        self.failure = Some(Failure::Lasts(why));
    }

    /// A read did not fail. What was written before `told` has been told as lost if one failed before it.
    pub fn works(&mut self, told: u64) {
        if let Some(Failure::Lasts(_)) = self.failure {
            tracing::info!(cpu = self.cpu, "the ring buffer can be read again");
            self.failure = Some(Failure::Over(told));
        }
    }

    /// What is read now comes after a failure that was told of.
    pub fn is_after_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// True of a page that begins in a time which was told as lost already: with it, events would come after their time. The
    /// first page behind them says that some are missing in front of it. `offset`: see `CycleEnd`.
    pub fn is_late(&mut self, page: &mut [u8], layout: &PageLayout, offset: i64) -> bool {
        let Some(Failure::Over(told)) = self.failure else { return false };
        let begin = PageHeader::read(layout, page).map_or(0, |h| h.timestamp);
        if begin.saturating_add_signed(offset) < told {
            return true;
        }
        PageHeader::mark_missed(layout, page);
        self.failure = None;
        false
    }

    /// The CPU could not be read to the end of a cycle that began at `from`.
    pub fn unread(&self, from: u64) -> Option<Unread> {
        match &self.failure {
            Some(Failure::Lasts(why)) => Some(Unread { cpu: self.cpu, from, why: why.clone() }),
            _ => None,
        }
    }
}
