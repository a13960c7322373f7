//! Lays what a round measured out in time, in the words of the domain.
//!
//! Within a round only sums are known, so their order is chosen: who ran before goes on first, who runs now comes last, a
//! wait stands before the run. Lengths are the measured ones: what finds no room in its round (a thread read late, a
//! CPU that ran more threads than time allows) is carried into the next, so that shares over seconds stay exact.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Round, ThreadSample};
use crate::sched::event::{Item, ThreadNow, Tid};
use crate::sched::state::TaskState;

/// Nothing is carried for longer than this: it would tell of a time long gone.
const MAX_CARRY_NS: u64 = 1_000_000_000;
/// Priority of the idle thread as sched_switch reports it.
const IDLE_PRIO: i32 = 120;

/// Keeps what must be known from round to round.
#[derive(Debug, Default)]
pub struct Layout {
    /// Who runs on each CPU, as told.
    running: BTreeMap<u32, Tid>,
    /// Run time that found no room yet.
    carry: FxHashMap<Tid, u64>,
}

/// One thread's stretch on a CPU.
#[derive(Debug, Clone, Copy)]
struct Slot {
    tid: Tid,
    prio: i32,
    len: u64,
}

impl Layout {
    /// A layout that knows of nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `CpuState` and `ThreadState` items of the round, in time order, and `CpuOnline` for CPUs that came or went.
    pub fn lay_out(&mut self, round: &Round) -> Vec<Item> {
        let mut out = Vec::new();
        self.cpus_came_and_went(round, &mut out);
        let mut placed: FxHashMap<Tid, (u64, u64)> = FxHashMap::default();
        let per_cpu = self.shares(round);
        for cpu in &round.cpus {
            let slots = per_cpu.get(&cpu.cpu).map_or(&[][..], Vec::as_slice);
            self.cpu(round, cpu.cpu, slots, &mut placed, &mut out);
        }
        for thread in &round.threads {
            states(round, thread, placed.get(&thread.tid).copied(), self.runs(thread), &mut out);
        }
        for tid in &round.gone {
            self.carry.remove(tid);
            let state = ThreadNow::Unknown;
            out.push(Item::ThreadState { ts: round.to, tid: *tid, state, since: None, cpu: None });
        }
        // Stable: at one instant CPUs come before threads, as they were pushed.
        out.sort_by_key(|item| match item {
            Item::CpuState { ts, .. } | Item::ThreadState { ts, .. } | Item::CpuOnline { ts, .. } => *ts,
            _ => round.to,
        });
        out
    }

    fn runs(&self, thread: &ThreadSample) -> bool {
        thread.cpu.is_some_and(|cpu| self.running.get(&cpu) == Some(&thread.tid))
    }

    fn cpus_came_and_went(&mut self, round: &Round, out: &mut Vec<Item>) {
        let online = |cpu: u32| round.cpus.iter().any(|c| c.cpu == cpu);
        let went: Vec<u32> = self.running.keys().copied().filter(|cpu| !online(*cpu)).collect();
        for cpu in went {
            self.running.remove(&cpu);
            out.push(Item::CpuOnline { ts: round.from, cpu, online: false });
        }
        for cpu in round.cpus.iter().map(|c| c.cpu).filter(|cpu| !self.running.contains_key(cpu)) {
            out.push(Item::CpuOnline { ts: round.from, cpu, online: true });
        }
    }

    /// How long each thread gets on its CPU, in the order in which it gets it.
    fn shares(&mut self, round: &Round) -> BTreeMap<u32, Vec<Slot>> {
        let len = round.to - round.from;
        let was_running: Vec<Tid> = self.running.values().copied().collect();
        let mut per_cpu: BTreeMap<u32, Vec<(bool, &ThreadSample, u64)>> = BTreeMap::new();
        for thread in &round.threads {
            let wanted = thread.run_ns.saturating_add(self.carry.remove(&thread.tid).unwrap_or(0));
            let Some(cpu) = thread.cpu.filter(|_| wanted > 0) else { continue };
            self.keep(thread.tid, wanted.saturating_sub(len));
            per_cpu.entry(cpu).or_default().push((was_running.contains(&thread.tid), thread, wanted.min(len)));
        }
        let mut shares = BTreeMap::new();
        for (cpu, mut wants) in per_cpu {
            // Who runs on, first; who may run now (letter R), last, and of several the one that ran most.
            wants.sort_by_key(|(ran, t, len)| (!*ran, t.state == b'R', if t.state == b'R' { *len } else { 0 }, t.tid));
            let mut room = len;
            let mut slots = Vec::new();
            for (_, thread, wanted) in wants {
                let len = wanted.min(room);
                room -= len;
                self.keep(thread.tid, wanted - len);
                if len > 0 {
                    slots.push(Slot { tid: thread.tid, prio: thread.prio, len });
                }
            }
            shares.insert(cpu, slots);
        }
        shares
    }

    fn keep(&mut self, tid: Tid, ns: u64) {
        if ns > 0 {
            let kept = self.carry.entry(tid).or_default();
            *kept = kept.saturating_add(ns).min(MAX_CARRY_NS);
        }
    }

    fn cpu(
        &mut self,
        round: &Round,
        cpu: u32,
        slots: &[Slot],
        placed: &mut FxHashMap<Tid, (u64, u64)>,
        out: &mut Vec<Item>,
    ) {
        let busy: u64 = slots.iter().map(|s| s.len).sum();
        let idle = Slot { tid: 0, prio: IDLE_PRIO, len: (round.to - round.from).saturating_sub(busy) };
        let state = |tid: Tid| round.threads.iter().find(|t| t.tid == tid).map(|t| t.state);
        // Idle before the last if that one runs still, else at the end.
        let (last, before) = match slots.split_last() {
            Some((last, before)) if state(last.tid) == Some(b'R') => (Some(last), before),
            _ => (None, slots),
        };
        let mut at = round.from;
        for slot in before.iter().chain([&idle]).chain(last).filter(|s| s.len > 0) {
            if self.running.insert(cpu, slot.tid) != Some(slot.tid) {
                out.push(Item::CpuState { ts: at, cpu, tid: slot.tid, prio: slot.prio, since: at });
            }
            if slot.tid != 0 {
                placed.insert(slot.tid, (at, at + slot.len));
            }
            at += slot.len;
        }
    }
}

/// What a thread did around its stretch on a CPU.
fn states(round: &Round, t: &ThreadSample, placed: Option<(u64, u64)>, runs: bool, out: &mut Vec<Item>) {
    let mut tell = |ts: u64, state: ThreadNow| {
        out.push(Item::ThreadState { ts, tid: t.tid, state, since: None, cpu: t.cpu });
    };
    let ready = t.state == b'R';
    let now = if ready { ThreadNow::Runnable } else { ThreadNow::Blocked(blocked(t.state)) };
    let Some((start, end)) = placed else {
        let wait = t.wait_ns.min(round.to - round.from);
        match (ready, wait) {
            (true, _) => tell(round.to - wait, now),
            (false, 0) => tell(round.from, now),
            (false, _) => {
                tell(round.from, ThreadNow::Runnable);
                tell(round.from + wait, now);
            }
        }
        return;
    };
    let before = t.wait_ns.min(start - round.from);
    if before > 0 {
        tell(start - before, ThreadNow::Runnable);
    }
    if runs {
        return;
    }
    let after = (t.wait_ns - before).min(round.to - end);
    if !ready && after > 0 {
        tell(end, ThreadNow::Runnable);
        tell(end + after, now);
    } else {
        tell(end, now);
    }
}

/// The state behind a letter of `/proc/PID/stat`.
fn blocked(letter: u8) -> TaskState {
    match letter {
        b'S' => TaskState::SLEEPING,
        b'D' => TaskState::UNINTERRUPTIBLE,
        b'T' => TaskState::STOPPED,
        b't' => TaskState::TRACED,
        b'Z' => TaskState::ZOMBIE,
        b'X' | b'x' => TaskState::DEAD,
        b'P' => TaskState::PARKED,
        b'I' => TaskState::IDLE,
        _ => TaskState::UNKNOWN,
    }
}
