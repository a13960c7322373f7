//! What the encoder's thread needs of an encoder, whatever it is fed with: ring-buffer pages, or looks at procfs.
//!
//! The thread decides where frames and segments end; an encoder knows how to put its input into packets and keeps the
//! [`Tracker`] current. What only ring buffers have (pages to give back, a clock of their own, loss) has an empty default.

use super::encoder::{Counts, Encoder, Lives, Page, SegmentMarks};
use super::live::Dropped;
use super::tracker::Tracker;
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::packets;
use crate::sched::event::Loss;
use crate::store::index::FrameFacts;

/// See the module. Instants are ns on CLOCK_BOOTTIME.
pub trait Encode: Send + 'static {
    /// What comes from the thread that reads.
    type Input: Send + 'static;

    /// Takes input; what it tells may still have to wait for its time.
    fn add(&mut self, input: Self::Input);

    /// Encodes what is before `limit`: gives back how far it came. Before `limit`: the frame is full, close it and call again.
    fn run(&mut self, from: u64, limit: u64) -> u64;

    /// What CPUs and threads do.
    fn tracker(&mut self) -> &mut Tracker;

    /// Room for packets of others, in front of what is still being put together.
    fn packets(&mut self) -> &mut Vec<u8>;

    /// Ends the frame: its packets are in `raw`.
    fn close_frame(&mut self, complete_through: u64, raw: &mut Vec<u8>) -> FrameFacts;

    /// Totals since the beginning.
    fn counts(&self) -> Counts;

    /// User markers since the last call.
    fn take_marks(&mut self) -> SegmentMarks;

    /// True once if hints were dropped since the last call.
    fn take_missed_hints(&mut self) -> bool;

    /// Nothing was recorded between two instants.
    fn gap(&mut self, from: u64, to: u64) {
        packets::gap(from, to, self.packets());
    }

    /// Looks per second, if that is what the input is.
    fn sampled_hz(&self) -> Option<u32> {
        None
    }

    /// Who lived in this segment, if that is known.
    fn lives(&mut self) -> Option<&mut Lives> {
        None
    }

    /// A segment begins.
    fn begin_segment(&mut self) {}

    /// What is to be added to times of the input to get the boot clock.
    fn set_clock_offset(&mut self, _offset: i64) {}

    /// Emptied page buffers.
    fn take_free(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Losses since the last call.
    fn take_losses(&mut self) -> Vec<Loss> {
        Vec::new()
    }

    /// Loss that only a CPU's counters tell.
    fn rest_of_loss(&mut self, _cpu: u32, _stats: &CpuStats, _now: u64) {}

    /// Events of a CPU from the first instant to the second that could not be read: nobody knows how many.
    fn not_read(&mut self, _cpu: u32, _from: u64, _to: u64) {}

    /// Events that were encoded and then not written.
    fn not_written(&mut self, _dropped: &Dropped) {}
}

impl Encode for Encoder {
    type Input = Page;

    fn add(&mut self, page: Page) {
        self.add_page(page);
    }

    fn run(&mut self, from: u64, limit: u64) -> u64 {
        Encoder::run(self, from, limit)
    }

    fn tracker(&mut self) -> &mut Tracker {
        Encoder::tracker(self)
    }

    fn packets(&mut self) -> &mut Vec<u8> {
        Encoder::packets(self)
    }

    fn close_frame(&mut self, complete_through: u64, raw: &mut Vec<u8>) -> FrameFacts {
        Encoder::close_frame(self, complete_through, raw)
    }

    fn counts(&self) -> Counts {
        Encoder::counts(self)
    }

    fn take_marks(&mut self) -> SegmentMarks {
        Encoder::take_marks(self)
    }

    fn take_missed_hints(&mut self) -> bool {
        Encoder::take_missed_hints(self)
    }

    fn lives(&mut self) -> Option<&mut Lives> {
        Encoder::lives(self)
    }

    fn begin_segment(&mut self) {
        Encoder::begin_segment(self);
    }

    fn set_clock_offset(&mut self, offset: i64) {
        Encoder::set_clock_offset(self, offset);
    }

    fn take_free(&mut self) -> Vec<Vec<u8>> {
        Encoder::take_free(self)
    }

    fn take_losses(&mut self) -> Vec<Loss> {
        Encoder::take_losses(self)
    }

    fn rest_of_loss(&mut self, cpu: u32, stats: &CpuStats, now: u64) {
        Encoder::rest_of_loss(self, cpu, stats, now);
    }

    fn not_read(&mut self, cpu: u32, from: u64, to: u64) {
        Encoder::not_read(self, cpu, from, to);
    }

    fn not_written(&mut self, dropped: &Dropped) {
        Encoder::not_written(self, dropped);
    }
}
