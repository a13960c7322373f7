//! Kernel stacks as the `stacktrace` trigger records them: `ftrace/kernel_stack` events.
//!
//! The record follows its sched_switch on the same CPU, written by the thread that is about to leave. Gives
//! addresses; names are [`super::symbols`]'s part.

use super::format::{EventFormat, Number};

/// Where a kernel_stack record keeps its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackFormat {
    id: u16,
    count: Number,
    frames_at: usize,
}

impl StackFormat {
    /// From the event's format; `None` if it has not the fields of `struct stack_entry`.
    pub fn of(kernel_stack: &EventFormat) -> Option<StackFormat> {
        let count = kernel_stack.field("size")?.number()?;
        let frames_at = kernel_stack.field("caller")?.offset;
        Some(StackFormat { id: kernel_stack.id, count, frames_at })
    }

    /// The id of its records.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Return addresses, innermost first. The format says eight; the record holds as many as `size` says.
    pub fn frames<'r>(&self, record: &'r [u8]) -> impl Iterator<Item = u64> + use<'r> {
        let count = self.count.u64(record).unwrap_or(0).min(record.len() as u64) as usize;
        let (words, _) = record.get(self.frames_at..).unwrap_or_default().as_chunks();
        // Kernels before 5.3 end the list with ULONG_MAX.
        words.iter().take(count).map(|word| u64::from_ne_bytes(*word)).take_while(|a| *a != 0 && *a != u64::MAX)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::Kernel;

    fn format() -> StackFormat {
        let text = Kernel::V6_18.formats().find(|(event, _)| *event == "ftrace/kernel_stack").unwrap().1;
        StackFormat::of(&EventFormat::parse(text).unwrap()).unwrap()
    }

    fn record(size: i32, frames: &[u64]) -> Vec<u8> {
        let mut bytes = vec![4, 0, 0, 0, 1, 0, 0, 0];
        bytes.extend(size.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(frames.iter().flat_map(|f| f.to_ne_bytes()));
        bytes
    }

    fn frames(record: &[u8]) -> Vec<u64> {
        format().frames(record).collect()
    }

    #[test]
    fn as_many_frames_as_the_record_has() {
        assert_eq!(format().id(), 4);
        let ten: Vec<u64> = (1..=10).collect();
        assert_eq!(frames(&record(10, &ten)), ten, "more than the format's eight");
        assert_eq!(frames(&record(3, &ten)), [1, 2, 3]);
        assert_eq!(frames(&record(8, &[5, 6, u64::MAX, 7])), [5, 6]);
    }

    #[test]
    fn a_lying_or_short_record_gives_what_is_there() {
        assert_eq!(frames(&record(i32::MAX, &[1, 2])), [1, 2]);
        assert_eq!(frames(&record(-1, &[1])), [1]);
        assert_eq!(frames(&record(2, &[1])[..15]), [0_u64; 0]);
        assert_eq!(frames(&[]), [0_u64; 0]);
    }
}
