//! Scheduling events that wait until those of all CPUs can be told to the tracker in one order.
//!
//! The encoder walks one CPU's pages for a step of time before it turns to the next CPU: memory stays warm and columns
//! grow in one place. A thread is woken on one CPU and runs on another, though, so the tracker has to meet a wake-up
//! before the run it led to. Hence these lists, one per CPU, merged at the end of each step. Memory is reused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::{NOWHERE, Switch, Tracker};
use crate::sched::event::Tid;

/// What the tracker is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// sched_switch.
    Switch(Switch),
    /// sched_waking or sched_wakeup_new.
    Waking {
        /// Who is woken.
        tid: Tid,
        /// Where it is to run.
        target: u32,
    },
    /// Another thread runs than the one that came last.
    Untraced,
    /// The thread has ended.
    Gone(Tid),
    /// Events are missing from the time of this move on.
    Loss {
        /// Where known events begin again, ns.
        to: u64,
        /// How many are missing.
        count: Option<u64>,
    },
}

#[derive(Debug)]
struct Lane {
    /// The tracker's of its CPU.
    place: u16,
    moves: Vec<(u64, Move)>,
    /// How many were told already.
    told: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Moves {
    lanes: Vec<Lane>,
    /// The next move of each lane: (ns, place in `lanes`).
    turns: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Moves {
    /// Makes room at `at` for a CPU that `tracker` follows, moving those from there on one up.
    pub fn insert(&mut self, at: usize, cpu: u32, tracker: &Tracker) {
        let place = tracker.place(cpu).unwrap_or(NOWHERE);
        self.lanes.insert(at, Lane { place, moves: Vec::new(), told: 0 });
    }

    /// Notes what happened at `ts` (ns) on the CPU at `at`. Of one CPU, moves come in time order.
    #[inline]
    pub fn add(&mut self, at: usize, ts: u64, what: Move) {
        self.lanes[at].moves.push((ts, what));
    }

    /// Tells the tracker everything noted so far, the oldest first, and forgets it.
    pub fn tell(&mut self, tracker: &mut Tracker) {
        self.turns.clear();
        self.turns.extend((0..).zip(&self.lanes).filter_map(|(at, l)| Some(Reverse((l.moves.first()?.0, at)))));
        // Turns are short, so the heap is not popped and pushed: its top changes in place. The second oldest is one of
        // the top's two children.
        let second = |turns: &BinaryHeap<Reverse<(u64, usize)>>| {
            turns.as_slice().iter().skip(1).take(2).map(|turn| turn.0.0).min().unwrap_or(u64::MAX)
        };
        loop {
            let others = second(&self.turns);
            let Some(mut top) = self.turns.peek_mut() else { break };
            let at = top.0.1;
            match self.lanes[at].tell(tracker, others) {
                Some(next) => top.0.0 = next,
                None => drop(PeekMut::pop(top)),
            }
        }
        for lane in &mut self.lanes {
            lane.moves.clear();
            lane.told = 0;
        }
    }
}

impl Lane {
    /// Tells what happened up to `until`, one move at least; gives back the time of the next.
    fn tell(&mut self, tracker: &mut Tracker, until: u64) -> Option<u64> {
        loop {
            let (ts, what) = self.moves.get(self.told)?;
            self.told += 1;
            match what {
                Move::Switch(switch) => tracker.switch(self.place, *ts, switch),
                Move::Waking { tid, target } => tracker.waking(*ts, *tid, *target),
                Move::Untraced => tracker.untraced(self.place, *ts),
                Move::Gone(tid) => tracker.gone(*tid),
                Move::Loss { to, count } => tracker.loss(self.place, *ts, *to, *count),
            }
            let next = self.moves.get(self.told)?.0;
            if next > until {
                return Some(next);
            }
        }
    }
}
