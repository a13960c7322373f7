//! Who lived during a segment, told once more at its end in one place: who reads only a stretch of a long recording learns
//! from the ends of all segments which number each life of a thread has in the whole.
//!
//! Holds the events that begin, rename and end lives, and what procfs told of threads and processes, as they stand in the
//! segment's frames too. When they are more than [`MOST`] bytes the segment says nothing, and readers read all of it.

use crate::perfetto::encode::{BundleBuilder, EventEncoder, packets};
use crate::sched::event::Tid;

/// Bytes of one segment's lives: some 20,000 processes that begin and end within it.
const MOST: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Lives {
    bundle: BundleBuilder,
    facts: Vec<u8>,
    too_many: bool,
}

impl Lives {
    /// An event about the begin, the name or the end of a life, by `pid`; `record` is its bytes as the kernel wrote them.
    pub fn event(&mut self, ts: u64, pid: Tid, encoder: &EventEncoder, record: &[u8]) {
        if self.has_room(0) {
            self.bundle.event(ts, pid, 0, encoder, record);
        }
    }

    /// Whole packets that tell of threads and processes; others are passed over.
    pub fn facts(&mut self, told: &[u8]) {
        if packets::is_process_tree(told) && self.has_room(told.len()) {
            self.facts.extend_from_slice(told);
        }
    }

    fn has_room(&mut self, more: usize) -> bool {
        self.too_many |= self.bundle.encoded_len() + self.facts.len() + more > MOST;
        !self.too_many
    }

    /// Appends everything since the last call as one packet, `own` threads of the recorder with it.
    pub fn finish(&mut self, own: &[Tid], out: &mut Vec<u8>) {
        let mut all = std::mem::take(&mut self.facts);
        self.bundle.finish(0, None, &mut all);
        packets::own_threads(own, &mut all);
        if !std::mem::take(&mut self.too_many) {
            packets::lives(all, out);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::perfetto::decode;
    use crate::perfetto::encode::packets::{CounterSample, Thread};

    fn told(lives: &mut Lives) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        lives.finish(&[7], &mut out);
        decode::lives(&out)
    }

    #[test]
    fn only_facts_of_lives_are_told_again_and_only_once() {
        let mut lives = Lives::default();
        let (mut tree, mut counters) = (Vec::new(), Vec::new());
        let thread = Thread { tid: 42, pid: 42, name: b"a".to_vec(), start: Some(5) };
        packets::process_tree(9, &[], &[thread], &mut tree);
        packets::counters(&[CounterSample { ts: 9, name: b"x".to_vec(), ..Default::default() }], &mut counters);
        lives.facts(&tree);
        lives.facts(&counters);
        let mut own = Vec::new();
        packets::own_threads(&[7], &mut own);
        assert_eq!(told(&mut lives).unwrap(), [tree, own.clone()].concat());
        assert_eq!(told(&mut lives).unwrap(), own);
    }

    #[test]
    fn a_segment_with_more_lives_than_there_is_room_for_says_nothing() {
        let mut lives = Lives::default();
        let mut tree = Vec::new();
        let thread = |tid| Thread { tid, pid: tid, name: b"0123456789abcde".to_vec(), start: Some(5) };
        packets::process_tree(9, &[], &(0..1000).map(thread).collect::<Vec<_>>(), &mut tree);
        for _ in 0..=MOST / tree.len() {
            lives.facts(&tree);
        }
        assert_eq!(told(&mut lives), None);
        lives.facts(&tree);
        assert!(told(&mut lives).unwrap().len() > tree.len(), "the next segment has room again");
    }
}
