//! What a recording says, told by its events alone: no fold of ours stands between.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use dashcam::feed::{self, FeedError};
use dashcam::sched::event::{Event, EventKind, Item, Loss, Switch};
use dashcam::sched::fold::Consumer;
use dashcam::sched::state::TaskState;

/// What a thread did, told by switches alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Did {
    /// In runs of which both ends were traced.
    pub run_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub blocked_d: u64,
    /// Runs whose begin was not traced.
    pub untraced: u64,
    /// The most that those can have taken: each began after the last switch before on its CPU.
    pub unknown_ns: u64,
    /// It left its CPU for the last time.
    pub dead: bool,
}

/// A thread or process that was made, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Born {
    pub by: Option<i32>,
    pub tid: i32,
}

/// A thread is being woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waking {
    pub cpu: u32,
    pub ts: u64,
    pub tid: i32,
    /// An interrupt woke it.
    pub interrupt: bool,
}

#[derive(Default)]
pub struct Seen {
    pub threads: HashMap<i32, Did>,
    running: HashMap<u32, (i32, u64)>,
    /// CPU and instant of each.
    pub switches: Vec<(u32, u64)>,
    pub wakings: Vec<Waking>,
    pub losses: Vec<Loss>,
    pub gaps: usize,
    pub processes: HashMap<i32, String>,
    pub born: Vec<Born>,
    /// How often each called exec.
    pub execs: HashMap<i32, usize>,
    /// How often each called exit.
    pub exits: HashMap<i32, usize>,
    pub marks: Vec<String>,
    pub functions: Vec<(i32, String)>,
    pending: Vec<Item>,
    pub through: u64,
    last: u64,
    pub disordered: usize,
}

impl Seen {
    fn event(&mut self, e: &Event) {
        self.disordered += usize::from(e.ts < self.last);
        self.last = self.last.max(e.ts);
        match e.kind {
            EventKind::Switch(s) => self.switch(e, &s),
            EventKind::Waking(w) => {
                self.wakings.push(Waking { cpu: e.cpu, ts: e.ts, tid: w.tid, interrupt: e.in_interrupt() });
            }
            EventKind::NewTask { tid, .. } => self.born.push(Born { by: e.emitter, tid }),
            EventKind::Exec { tid, .. } => *self.execs.entry(tid).or_default() += 1,
            EventKind::Exit { tid } => *self.exits.entry(tid).or_default() += 1,
            EventKind::Print { .. } | EventKind::BlockedReason { .. } => self.pending.push(Item::Event(*e)),
            _ => {}
        }
    }

    fn switch(&mut self, e: &Event, s: &Switch) {
        self.switches.push((e.cpu, e.ts));
        let came = self.running.insert(e.cpu, (s.next_tid, e.ts));
        let left = s.prev_tid.or(came.map(|c| c.0));
        let Some(tid) = left else { return };
        let did = self.threads.entry(tid).or_default();
        // Now and then the kernel traces a switch for nobody: who left is right all the same, when it came is then not known.
        match came {
            Some((who, since)) if who == tid => did.run_ns += e.ts - since,
            other => {
                did.untraced += 1;
                did.unknown_ns += e.ts - other.map_or(0, |o| o.1);
            }
        }
        match s.prev_state {
            state if state.is_runnable() => did.involuntary += 1,
            state => {
                did.voluntary += 1;
                did.blocked_d += u64::from(state.contains(TaskState::UNINTERRUPTIBLE));
                did.dead = state.contains(TaskState::DEAD) || state.contains(TaskState::ZOMBIE);
            }
        }
    }
}

impl Consumer for Seen {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Event(e) => self.event(e),
            Item::Loss(loss) => self.losses.push(*loss),
            Item::Gap { .. } => self.gaps += 1,
            Item::CompleteThrough { ts } => self.through = *ts,
            Item::Process(_) => self.pending.push(item.clone()),
            _ => {}
        }
    }
}

pub fn load(paths: &[PathBuf]) -> Seen {
    let (seen, damage) = so_far(paths).unwrap();
    assert_eq!(damage, [] as [String; 0]);
    seen
}

/// What is there already while it is written, and what of it could not be read. Fails while there is nothing, and when a
/// segment ends while it is opened.
pub fn so_far(paths: &[PathBuf]) -> Result<(Seen, Vec<String>), FeedError> {
    let mut seen = Seen::default();
    let loaded = feed::load(paths, None, &mut seen, &mut |_| ControlFlow::Continue(()))?;
    let names = loaded.names;
    for item in std::mem::take(&mut seen.pending) {
        match item {
            Item::Process(p) => drop(seen.processes.insert(p.pid, names.text(p.name))),
            Item::Event(e) => match e.kind {
                EventKind::Print { text } => seen.marks.push(names.text(text)),
                EventKind::BlockedReason { tid, function, .. } => seen.functions.push((tid, names.text(function))),
                _ => {}
            },
            _ => {}
        }
    }
    Ok((seen, loaded.damage))
}
