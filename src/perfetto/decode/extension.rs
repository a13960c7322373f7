//! Our own extension, `TracePacket` field 1500.

use super::Decoder;
use crate::names::NameTable;
use crate::perfetto::messages::{DashcamPacket, ThreadState};
use crate::sched::event::{CpuFact, Item, Loss, ThreadNow};
use crate::sched::order::MAX_TIME;
use crate::sched::state::TaskState;

impl Decoder {
    /// Losses are told before the events of their packet: they lie before them. Who runs is not known after one.
    pub(super) fn losses(&mut self, extension: &DashcamPacket, sink: &mut impl FnMut(Item)) {
        for loss in &extension.losses {
            if let Some(memory) = self.cpus.get_mut(&loss.cpu) {
                memory.forget();
            }
            sink(Item::Loss(Loss { cpu: loss.cpu, from: loss.from, to: loss.to, count: loss.count }));
        }
    }

    /// Everything else of the extension that stands on its own.
    pub(super) fn extension(&mut self, extension: &DashcamPacket, names: &mut NameTable, sink: &mut impl FnMut(Item)) {
        for pair in &extension.metadata {
            sink(Item::Metadata { key: names.intern(&pair.key), value: names.intern(&pair.value) });
        }
        if let Some(hz) = extension.sampled_hz {
            sink(Item::Sampled { hz });
        }
        for c in &extension.topology {
            let (cpu, node, package, core, online) = (c.cpu, c.node, c.package, c.core, c.online);
            sink(Item::Cpu(CpuFact { cpu, node, package, core, online }));
        }
        for &tid in &extension.own_threads {
            sink(Item::OwnThread { tid });
        }
        let ts = extension.state_ts.unwrap_or(0);
        for c in &extension.cpu_states {
            // Reading may begin at this frame: then this is who leaves with the first compact switch.
            self.cpus.entry(c.cpu).or_default().running.get_or_insert(c.tid);
            sink(Item::CpuState { ts, cpu: c.cpu, tid: c.tid, prio: c.prio, since: c.since });
        }
        for t in &extension.thread_states {
            sink(Item::ThreadState { ts, tid: t.tid, state: thread_now(t), since: t.since, cpu: t.cpu });
        }
        for c in &extension.cpu_online {
            sink(Item::CpuOnline { ts: c.ts, cpu: c.cpu, online: c.online });
        }
        for gap in &extension.gaps {
            self.forget_cpus();
            sink(Item::Gap { from: gap.from, to: gap.to });
        }
        for c in &extension.counters {
            sink(Item::Counter { ts: c.ts, name: names.intern(&c.name), cpu: c.cpu, value: c.value });
        }
        for stack in &extension.stacks {
            let functions = names.intern(&stack.functions);
            let mut ts = 0u64;
            for (tid, by) in stack.tids.iter().zip(&stack.times) {
                ts = ts.wrapping_add_signed(*by);
                sink(Item::Stack { ts, tid: *tid, functions });
            }
        }
        for d in &extension.damage {
            sink(Item::Damage { cpu: d.cpu, what: names.intern(&d.what) });
        }
        match extension.complete_through {
            // Everything after it would be late, and be moved there.
            Some(ts) if ts >= MAX_TIME => {
                let what = names.intern(b"its events are said to be complete up to a time that no clock reaches");
                sink(Item::Damage { cpu: None, what });
            }
            Some(ts) => sink(Item::CompleteThrough { ts }),
            None => {}
        }
    }
}

fn thread_now(state: &ThreadState) -> ThreadNow {
    match state.state {
        1 => ThreadNow::Running,
        2 => ThreadNow::Runnable,
        3 => ThreadNow::Preempted,
        4 => ThreadNow::Blocked(TaskState(state.flags as u16)),
        _ => ThreadNow::Unknown,
    }
}
