//! Switches that a kernel made and left out of its trace, as far as the events around them show it.
//!
//! Some virtual machines' kernels never trace the switches away from some threads, an idle thread among them (seen on 6.18,
//! by ftrace and perf alike). No buffer overflowed, so no counter tells; but the next thread to leave that CPU, or to wake
//! somebody there, is another than had come. The recorder counts the same while it encodes. Two switches left out one right
//! behind the other count as one, so this is the least number.

use crate::sched::event::{EventKind, Item, Tid};
use std::collections::BTreeMap;

/// Counts over the items of one file, which must be shown in the order of its packets.
#[derive(Debug, Default)]
pub struct Untraced {
    running: BTreeMap<u32, Tid>,
    /// How many so far.
    pub count: u64,
}

impl Untraced {
    /// One more item.
    pub fn item(&mut self, item: &Item) {
        match item {
            Item::Event(e) => match e.kind {
                EventKind::Switch(s) => {
                    self.found(e.cpu, s.prev_tid);
                    self.running.insert(e.cpu, s.next_tid);
                }
                EventKind::Waking(_) => self.found(e.cpu, e.emitter),
                _ => {}
            },
            // What was lost is told as loss.
            Item::Loss(loss) => drop(self.running.remove(&loss.cpu)),
            _ => {}
        }
    }

    /// `tid` is told to run there; `None`: the event does not say.
    fn found(&mut self, cpu: u32, tid: Option<Tid>) {
        if let Some(tid) = tid
            && self.running.insert(cpu, tid).is_some_and(|ran| ran != tid)
        {
            self.count += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameTable;
    use crate::perfetto::decode::Decoder;
    use crate::perfetto::encode::{BundleBuilder, FullSwitch};
    use crate::sched::event::Loss;

    fn full(prev: i32, next: i32) -> FullSwitch<'static> {
        let (prev_comm, next_comm): (&[u8], &[u8]) = (b"a", b"b");
        FullSwitch {
            prev_comm,
            prev_pid: prev,
            prev_prio: 120,
            prev_state: 1,
            next_comm,
            next_pid: next,
            next_prio: 120,
        }
    }

    fn count(packets: &[u8]) -> u64 {
        let mut untraced = Untraced::default();
        Decoder::new().decode(packets, &mut NameTable::new(), &mut |item| untraced.item(&item)).unwrap();
        untraced.count
    }

    #[test]
    fn who_leaves_without_having_come_tells_of_a_switch_that_is_missing() {
        let (mut b, mut out) = (BundleBuilder::new(), Vec::new());
        b.full_switch(10, 0, &full(1, 2));
        b.switch(20, 1, 3, 120, &[0; 16]);
        b.full_switch(30, 0, &full(3, 4));
        b.finish(0, None, &mut out);
        assert_eq!(count(&out), 0, "each leaves who came");
        b.full_switch(40, 0, &full(7, 5));
        // Another CPU is another matter.
        b.finish(0, None, &mut out);
        b.full_switch(50, 0, &full(9, 5));
        b.finish(1, None, &mut out);
        assert_eq!(count(&out), 1, "7 left, and 4 had come");
        let lost = Loss { cpu: 0, from: 40, to: 60, count: Some(3) };
        b.full_switch(60, 0, &full(8, 5));
        b.finish(0, Some(lost), &mut out);
        assert_eq!(count(&out), 1, "over a loss nobody can know");
    }

    #[test]
    fn what_stands_in_for_a_switch_is_one_left_out() {
        let (mut b, mut out) = (BundleBuilder::new(), Vec::new());
        b.full_switch(10, 0, &full(5, 0));
        // 7 is seen when it wakes somebody, and later when it leaves.
        b.stand_in(20, 7, 120, &[0; 16]);
        b.waking(20, 8, 0, 120, &[0; 16], 0);
        b.switch(30, 1, 0, 120, &[0; 16]);
        b.stand_in(40, 7, 120, &[0; 16]);
        b.switch(40, 1, 8, 120, &[0; 16]);
        b.switch(50, 1, 0, 120, &[0; 16]);
        b.finish(0, None, &mut out);
        assert_eq!(count(&out), 2);
    }
}
