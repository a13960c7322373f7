//! Threads that came to a CPU without a traced switch.
//!
//! Some virtual machines' kernels do not trace the switches away from some CPUs' idle threads (seen on 6.18, with perf as
//! well). Then the next event there is by another thread than the tools believe to run. Where idle was believed to run, a
//! stand-in (`BundleBuilder::stand_in`) tells them. It needs the thread's priority and name, which a wake-up does
//! not say of who wakes: what a CPU's last switches said of the threads that came to it like this is kept here.

use crate::perfetto::encode::BundleBuilder;
use crate::recorder::plan::SwitchRecord;
use crate::sched::event::Tid;

use super::parts::NAME;

/// A power of two; a CPU is visited by few threads at a time.
const KEPT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    tid: Tid,
    prio: i32,
    comm: [u8; NAME],
}

/// What is known of the threads that came to one CPU untraced, and who of them runs.
#[derive(Debug)]
pub(super) struct Unseen {
    known: [Option<Known>; KEPT],
    /// Stood in for in the bundles so far, and still there.
    running: Option<Known>,
}

impl Default for Unseen {
    fn default() -> Self {
        Unseen { known: [None; KEPT], running: None }
    }
}

impl Unseen {
    /// A wake-up at `ts` (ns, boot) tells that `tid` runs where idle was believed to. True if the tools are told that now.
    pub fn woke(&mut self, tid: Tid, ts: u64, bundle: &mut BundleBuilder) -> bool {
        self.running = self.known[place(tid)].filter(|known| known.tid == tid);
        self.running.is_some_and(|known| {
            bundle.stand_in(ts, known.tid, known.prio, &known.comm);
            true
        })
    }

    /// A switch at `ts` (ns, boot) tells that its `prev` ran where idle was believed to; the tools are told that now.
    pub fn left(&mut self, switch: &SwitchRecord<'_>, ts: u64, bundle: &mut BundleBuilder) {
        bundle.stand_in(ts, switch.prev_pid, switch.prev_prio, switch.prev_comm);
        self.learn(switch);
    }

    /// Keeps what a switch says of who leaves.
    pub fn learn(&mut self, switch: &SwitchRecord<'_>) {
        let known = Known { tid: switch.prev_pid, prio: switch.prev_prio, comm: *switch.prev_comm };
        self.known[place(known.tid)] = Some(known);
        self.running = None;
    }

    /// Whoever runs leaves with `switch`. False if the tools were told of it, but not as it is now: by another name or with
    /// another priority.
    #[inline]
    pub fn as_told(&mut self, switch: &SwitchRecord<'_>) -> bool {
        match self.running.take() {
            None => true,
            Some(known) if known.prio == switch.prev_prio && known.comm == *switch.prev_comm => true,
            Some(_) => {
                self.learn(switch);
                false
            }
        }
    }

    /// Events are missing: nobody knows who runs.
    pub fn lost(&mut self) {
        self.running = None;
    }
}

fn place(tid: Tid) -> usize {
    tid as usize % KEPT
}
