//! Numbers of a running recorder that several of its threads add to and `status` reads.
//!
//! Locked once a frame or rarer, never per event; nobody holds it while doing anything slow.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::status::{CpuLoss, Kept, OpenSegment};
use crate::sched::event::Loss;
use crate::store::index::LossCount;
use crate::store::retention::Limits;

/// Shared by all threads of one recorder.
#[derive(Debug, Default)]
pub struct Live {
    inner: Mutex<Numbers>,
}

/// The numbers.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Events written since the beginning.
    pub events: u64,
    /// Looks at procfs per second; `None`: events are recorded.
    pub sampled_hz: Option<u32>,
    /// Loss by CPU since the beginning.
    pub lost: BTreeMap<u32, CpuLoss>,
    /// Records that belong to no event asked for.
    pub unknown: u64,
    /// Sub-buffers with damage.
    pub damaged: u64,
    /// Switches that the kernel did not trace.
    pub untraced: u64,
    /// CPUs whose buffers cannot be read at the moment, and why.
    pub unread: BTreeMap<u32, String>,
    /// The segment being written.
    pub segment: Option<OpenSegment>,
    /// Bytes written since the beginning.
    pub written: u64,
    /// Segments finished since the beginning.
    pub finished: u64,
    /// The last one finished.
    pub last_finished: Option<PathBuf>,
    /// What is on disk.
    pub kept: Kept,
    /// Why nothing is written at the moment.
    pub problem: Option<String>,
    /// Encoded events that could not be written; to be told as loss.
    pub dropped: Vec<Dropped>,
    /// Frames without events could not be written from the first instant up to the second.
    pub hole: Option<(u64, u64)>,
    /// What is kept at most, and the share of the file system that stays free (0..=1).
    pub limits: (Limits, f64),
    /// When the growing segment will be cut, ns on CLOCK_BOOTTIME; 0: not known yet.
    pub next_cut: u64,
    /// No segment is open: the next frame must be a head.
    pub reopen: bool,
}

/// Events of one CPU that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The CPU.
    pub cpu: u32,
    /// All before the first instant is written, and nothing from there to the second; ns on CLOCK_BOOTTIME.
    pub span: (u64, u64),
    /// How many.
    pub count: u64,
    /// Losses that were to be told where those events would have been. `status` has them already, no file has.
    pub told: LossCount,
}

impl Live {
    /// The numbers, to read or add to.
    pub fn lock(&self) -> MutexGuard<'_, Numbers> {
        // A panic elsewhere leaves at worst a number that is a little behind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    /// The segment being written, with the instant at which it will be cut.
    pub fn open_segment(&self) -> Option<OpenSegment> {
        let cut = Some(self.next_cut).filter(|&c| c > 0 && c < u64::MAX);
        self.segment.clone().map(|s| OpenSegment { until: cut.unwrap_or(s.until), ..s })
    }

    /// Adds losses.
    pub fn lose(&mut self, losses: &[Loss]) {
        for loss in losses {
            let lost = self.lost.entry(loss.cpu).or_insert(CpuLoss { cpu: loss.cpu, ..CpuLoss::default() });
            match loss.count {
                Some(n) => lost.count = lost.count.saturating_add(n),
                None => lost.unknown = true,
            }
        }
    }

    /// Adds what could not be written; that of one CPU is told as one loss.
    pub fn not_written(&mut self, more: Dropped) {
        match self.dropped.iter_mut().find(|d| d.cpu == more.cpu) {
            Some(d) => {
                d.count = d.count.saturating_add(more.count);
                d.span = (d.span.0.min(more.span.0), d.span.1.max(more.span.1));
                d.told.merge(more.told);
            }
            None => self.dropped.push(more),
        }
    }
}
