//! What goes between the reader, the encoder and those who ask.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use nix::sys::eventfd::EventFd;

use crate::kernel::cpu_reader::CpuReader;
use crate::kernel::instance::TraceClock;
use crate::kernel::page::PageLayout;
use crate::kernel::stats::CpuStats;
use crate::recorder::encoder::Page;
use crate::store::snapshot::Growing;

/// Asked of the capture path; answered once everything recorded before the request is in the file.
#[derive(Debug)]
pub enum Command {
    /// Write out what there is and say what the growing segment holds; `None` while nothing can be written.
    Flush(Sender<Option<Growing>>),
    /// Cut the segment.
    Rotate(Sender<()>),
    /// Write out what there is, finish the segment and end.
    Stop,
}

/// What was read, on its way to the encoder.
#[derive(Debug)]
pub struct Batch<I = Page> {
    /// Sub-buffers, those of one CPU in order; or what was sampled.
    pub inputs: Vec<I>,
    /// All events before this instant (ns, boot) stand in inputs up to here.
    pub limit: u64,
    /// The cycle is over.
    pub end: Option<CycleEnd>,
}

impl<I> Default for Batch<I> {
    fn default() -> Self {
        Batch { inputs: Vec::new(), limit: 0, end: None }
    }
}

/// What happens at the end of a cycle.
#[derive(Debug, Default)]
pub struct CycleEnd {
    /// A segment ends exactly at the limit.
    pub cut: bool,
    /// When the next segment ends by time, ns on CLOCK_BOOTTIME.
    pub next_cut: u64,
    /// Requests to answer.
    pub commands: Vec<Command>,
    /// Added to record times to get the boot clock, for the pages of the next cycle.
    pub offset: i64,
    /// Ring-buffer counters, at a cut or the end.
    pub stats: Vec<(u32, CpuStats)>,
    /// The machine slept (boot clock ran on, monotonic did not): from, to.
    pub gap: Option<(u64, u64)>,
    /// CPUs that came or went.
    pub online: Vec<(u32, bool)>,
    /// CPUs of which nothing could be read in this cycle.
    pub unread: Vec<Unread>,
}

/// A CPU whose buffer the kernel did not let us read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The CPU.
    pub cpu: u32,
    /// What it did from here on, up to the end of the cycle, is not in the recording, ns on CLOCK_BOOTTIME.
    pub from: u64,
    /// What the kernel said.
    pub why: String,
}

/// Where pages and counters come from: the instance, or a stand-in.
pub struct Source {
    /// One reader per CPU.
    pub readers: Vec<CpuReader>,
    /// A CPU's counters.
    pub stats: Box<dyn Fn(u32) -> Option<CpuStats> + Send>,
    /// Layout of sub-buffers.
    pub layout: PageLayout,
    /// Poll may be given the readers.
    pub wakes: bool,
    /// What record times mean.
    pub clock: TraceClock,
}

/// Channels and settings of the reader.
pub struct ReaderParts<I = Page> {
    /// To the encoder.
    pub batches: Sender<Batch<I>>,
    /// Emptied page buffers from the encoder.
    pub free: Receiver<Vec<Vec<u8>>>,
    /// Requests.
    pub commands: Receiver<Command>,
    /// Readable when there is a request.
    pub wake: Arc<EventFd>,
    /// Length of a segment; `None`: never cut by time.
    pub segment: Option<Duration>,
}
