//! Lives of threads and processes: who a kernel tid was at each time, its names, its process.
//!
//! The kernel reuses tids; a *life* ([`Utid`], [`Upid`]) is never reused. A life begins when a tid is first
//! seen, at `task_newtask`, or when a head tells of another owner or start time for a tid already known; it
//! ends at `sched_process_free` (or when the tid is seen to begin another). Utids and upids are dense from 0;
//! 0 is the idle thread of all CPUs and its process, as in Perfetto. Never guesses: what was not told stays
//! `None` or empty.

use super::event::{ProcessFact, ThreadFact, Tid};
use super::fold::{Upid, Utid};
use super::tids::TidMap;
use crate::names::NameId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The idle thread ("swapper") of all CPUs.
pub const IDLE: Utid = 0;

/// CLONE_THREAD of include/uapi/linux/sched.h: the new task joins its creator's thread group.
const CLONE_THREAD: u64 = 0x0001_0000;

/// Names kept for one life. A thread that renames itself in a loop must not eat memory: beyond this the
/// older half of its history is forgotten, all but the first name.
const MAX_NAMES: usize = 256;

/// One life of a thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadLife {
    /// Kernel id (the latest, should an exec by a non-leader have changed it).
    pub tid: Tid,
    /// Its process, if known.
    pub upid: Option<Upid>,
    /// When it was created, ns on CLOCK_BOOTTIME, if known.
    pub start: Option<u64>,
    /// When its tid was freed, ns on CLOCK_BOOTTIME.
    pub end: Option<u64>,
    /// It called exit.
    pub exited: bool,
    /// One of the recorder's own threads.
    pub own: bool,
    /// Names with the instant from which each held, in time order (0: since before the data).
    names: Vec<(u64, NameId)>,
    born_here: bool,
}

impl ThreadLife {
    /// Latest name; EMPTY if none is known.
    pub fn name(&self) -> NameId {
        self.names.last().map_or(NameId::EMPTY, |n| n.1)
    }

    /// Name in effect at `ts`; before the first one known, that one.
    pub fn name_at(&self, ts: u64) -> NameId {
        let after = self.names.partition_point(|n| n.0 <= ts);
        self.names.get(after.saturating_sub(1)).map_or(NameId::EMPTY, |n| n.1)
    }

    /// Every name with the instant from which it held.
    pub fn names(&self) -> &[(u64, NameId)] {
        &self.names
    }

    fn rename(&mut self, ts: u64, name: NameId) {
        if name.is_empty() {
            return;
        }
        let at = self.names.partition_point(|n| n.0 <= ts);
        if at > 0 && self.names[at - 1].1 == name {
            return;
        }
        if at < self.names.len() && self.names[at].1 == name {
            // Told again from an earlier instant on: the same name simply held for longer.
            self.names[at].0 = ts;
            return;
        }
        if self.names.len() >= MAX_NAMES {
            self.names.drain(1..MAX_NAMES / 2);
            let at = self.names.partition_point(|n| n.0 <= ts);
            self.names.insert(at, (ts, name));
            return;
        }
        self.names.insert(at, (ts, name));
    }
}

/// One life of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessLife {
    /// Process id.
    pub pid: Tid,
    /// Its parent, if known.
    pub parent: Option<Upid>,
    /// Name as told by procfs or by its creation (the leader's comm then); see [`Threads::process_name`].
    pub name: NameId,
    /// Command line, empty for kernel threads or when not known.
    pub cmdline: Arc<[NameId]>,
    /// Owner.
    pub uid: Option<u32>,
    /// Cgroup path.
    pub cgroup: NameId,
    /// When it was created, ns on CLOCK_BOOTTIME, if known.
    pub start: Option<u64>,
    /// When its leader's tid was freed, ns on CLOCK_BOOTTIME.
    pub end: Option<u64>,
    /// A kernel thread.
    pub kernel: bool,
    /// Its leader, if seen.
    pub leader: Option<Utid>,
}

/// All lives seen so far, and which of them each tid and pid is now.
#[derive(Debug, Clone)]
pub struct Threads {
    threads: Vec<ThreadLife>,
    processes: Vec<ProcessLife>,
    tids: TidMap,
    pids: FxHashMap<Tid, Upid>,
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Threads {
    /// Knows the idle thread and process only.
    pub fn new() -> Self {
        let mut all =
            Threads { threads: Vec::new(), processes: Vec::new(), tids: TidMap::default(), pids: FxHashMap::default() };
        all.threads.push(ThreadLife { upid: Some(0), ..ThreadLife::default() });
        all.processes.push(ProcessLife { kernel: true, leader: Some(IDLE), ..ProcessLife::default() });
        all.tids.set(0, IDLE);
        all.pids.insert(0, 0);
        all
    }

    /// Number of thread lives; utids are `0..len`.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Never true: the idle thread is always there.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The life `utid`, if there is one.
    pub fn get(&self, utid: Utid) -> Option<&ThreadLife> {
        self.threads.get(utid as usize)
    }

    /// All thread lives with their utids.
    pub fn iter(&self) -> impl Iterator<Item = (Utid, &ThreadLife)> {
        (0..).zip(self.threads.iter())
    }

    /// The process life `upid`, if there is one.
    pub fn process(&self, upid: Upid) -> Option<&ProcessLife> {
        self.processes.get(upid as usize)
    }

    /// All process lives with their upids.
    pub fn processes(&self) -> impl Iterator<Item = (Upid, &ProcessLife)> {
        (0..).zip(self.processes.iter())
    }

    /// Which life has `tid` now.
    pub fn utid_of(&self, tid: Tid) -> Option<Utid> {
        self.tids.get(tid)
    }

    /// Which life has process id `pid` now.
    pub fn upid_of(&self, pid: Tid) -> Option<Upid> {
        self.pids.get(&pid).copied()
    }

    /// The process that `utid` belongs to.
    pub fn owner(&self, utid: Utid) -> Option<&ProcessLife> {
        self.process(self.get(utid)?.upid?)
    }

    /// Name of a process: its leader's latest name, else what was told of the process; EMPTY if unknown.
    pub fn process_name(&self, upid: Upid) -> NameId {
        let Some(process) = self.process(upid) else { return NameId::EMPTY };
        let leader = process.leader.and_then(|u| self.get(u)).map_or(NameId::EMPTY, ThreadLife::name);
        if leader.is_empty() { process.name } else { leader }
    }

    /// Name to show for a thread at `ts`: its own, else for a leader its process's.
    pub fn shown_name(&self, utid: Utid, ts: u64) -> NameId {
        let Some(thread) = self.get(utid) else { return NameId::EMPTY };
        let own = thread.name_at(ts);
        match thread.upid.and_then(|u| self.process(u)) {
            Some(process) if own.is_empty() && process.pid == thread.tid => process.name,
            _ => own,
        }
    }

    /// The life that has `tid` now, begun if there is none.
    pub fn ensure(&mut self, tid: Tid) -> Utid {
        match self.tids.get(tid) {
            Some(utid) => utid,
            None => self.begin(tid),
        }
    }

    /// [`Threads::ensure`] with the name a record carried (EMPTY: it carried none). The hot path of the fold.
    #[inline]
    pub fn seen(&mut self, ts: u64, tid: Tid, name: NameId) -> Utid {
        let utid = self.ensure(tid);
        if utid != IDLE {
            let life = &mut self.threads[utid as usize];
            if life.name() != name {
                life.rename(ts, name);
            }
        }
        utid
    }

    /// `task_newtask`: a life begins, whatever the tid was before. Returns the new life and the one it replaces.
    pub fn new_task(
        &mut self,
        ts: u64,
        tid: Tid,
        name: NameId,
        clone_flags: u64,
        creator: Option<Utid>,
    ) -> (Utid, Option<Utid>) {
        if tid == 0 {
            return (IDLE, None);
        }
        let replaced = self.tids.get(tid);
        if let Some(old) = replaced {
            self.end(ts, old);
        }
        let utid = self.begin(tid);
        let creators = creator.and_then(|u| self.get(u)).and_then(|t| t.upid);
        let upid = if clone_flags & CLONE_THREAD != 0 { creators } else { Some(self.fork(ts, tid, name, creators)) };
        let life = &mut self.threads[utid as usize];
        life.start = Some(ts);
        life.born_here = true;
        life.upid = upid;
        life.rename(ts, name);
        self.note_leader(utid);
        (utid, replaced)
    }

    /// `task_rename`.
    pub fn rename(&mut self, ts: u64, tid: Tid, name: NameId) {
        self.seen(ts, tid, name);
    }

    /// `sched_process_exec`. When a thread that is not the leader execs, the kernel ends all others and gives it
    /// the leader's tid: one life goes on under another tid. Returns the life that lost its tid, if one did.
    pub fn exec(&mut self, ts: u64, tid: Tid, old_tid: Tid) -> Option<Utid> {
        if let Some(upid) = self.upid_of(tid) {
            // What it was called with before is over; what it is called with now is told later, if at all.
            self.processes[upid as usize].cmdline = [].into();
        }
        if tid == old_tid || tid == 0 || old_tid == 0 {
            return None;
        }
        let utid = self.tids.get(old_tid)?;
        let leader = self.tids.get(tid);
        if let Some(old) = leader {
            let upid = self.threads[old as usize].upid;
            self.end_thread(ts, old);
            let life = &mut self.threads[utid as usize];
            life.upid = life.upid.or(upid);
        }
        self.tids.clear(old_tid);
        self.tids.set(tid, utid);
        self.threads[utid as usize].tid = tid;
        self.note_leader(utid);
        leader
    }

    /// `sched_process_exit`.
    pub fn exit(&mut self, tid: Tid) {
        if let Some(utid) = self.tids.get(tid).filter(|&u| u != IDLE) {
            self.threads[utid as usize].exited = true;
        }
    }

    /// `sched_process_free`: returns the life that ended. The kernel reports it late (after an RCU grace period),
    /// maybe when the tid already has its next life; that one is then left alone.
    pub fn free(&mut self, ts: u64, tid: Tid) -> Option<Utid> {
        let utid = self.tids.get(tid).filter(|&u| u != IDLE)?;
        let life = &self.threads[utid as usize];
        if life.born_here && !life.exited {
            return None;
        }
        self.end(ts, utid);
        Some(utid)
    }

    /// A process as a head or procfs told.
    pub fn process_fact(&mut self, fact: &ProcessFact) -> Upid {
        if fact.pid == 0 {
            return 0;
        }
        let known = self.upid_of(fact.pid).filter(|&u| same_start(self.processes[u as usize].start, fact.start));
        let upid = known.unwrap_or_else(|| self.begin_process(fact.pid));
        let parent = fact.ppid.filter(|&p| p > 0 && p != fact.pid).map(|ppid| self.ensure_process(ppid));
        let process = &mut self.processes[upid as usize];
        process.parent = parent.or(process.parent);
        process.uid = fact.uid.or(process.uid);
        process.start = process.start.or(fact.start);
        process.kernel |= fact.kernel;
        if !fact.cmdline.is_empty() {
            process.cmdline = fact.cmdline.as_slice().into();
        }
        if !fact.name.is_empty() {
            process.name = fact.name;
        }
        if !fact.cgroup.is_empty() {
            process.cgroup = fact.cgroup;
        }
        self.ensure_leader(upid);
        upid
    }

    /// A thread as a head or procfs told. Returns its life, and the one it replaces if the tid had another owner.
    pub fn thread_fact(&mut self, fact: &ThreadFact) -> (Utid, Option<Utid>) {
        if fact.tid == 0 {
            return (IDLE, None);
        }
        let mut replaced = None;
        let utid = match self.tids.get(fact.tid) {
            Some(utid) if self.is_same_life(utid, fact) => utid,
            Some(other) => {
                self.end_thread(fact.start.unwrap_or(fact.ts), other);
                replaced = Some(other);
                self.begin(fact.tid)
            }
            None => self.begin(fact.tid),
        };
        let upid = if fact.pid > 0 { Some(self.ensure_process(fact.pid)) } else { None };
        let life = &mut self.threads[utid as usize];
        life.upid = life.upid.or(upid);
        life.start = life.start.or(fact.start);
        if fact.ts > 0 || life.names.is_empty() {
            life.rename(fact.ts, fact.name);
        }
        self.note_leader(utid);
        (utid, replaced)
    }

    /// The tid is one of the recorder's own threads.
    pub fn own_thread(&mut self, tid: Tid) -> Utid {
        let utid = self.ensure(tid);
        if utid != IDLE {
            self.threads[utid as usize].own = true;
        }
        utid
    }

    fn is_same_life(&self, utid: Utid, fact: &ThreadFact) -> bool {
        let life = &self.threads[utid as usize];
        let owner = life.upid.and_then(|u| self.process(u)).map(|p| p.pid);
        let same_owner = fact.pid <= 0 || owner.is_none_or(|pid| pid == fact.pid);
        same_owner && same_start(life.start, fact.start)
    }

    fn begin(&mut self, tid: Tid) -> Utid {
        let utid = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.threads.push(ThreadLife { tid, ..ThreadLife::default() });
        self.tids.set(tid, utid);
        utid
    }

    fn begin_process(&mut self, pid: Tid) -> Upid {
        let upid = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        self.processes.push(ProcessLife { pid, ..ProcessLife::default() });
        self.pids.insert(pid, upid);
        upid
    }

    fn ensure_process(&mut self, pid: Tid) -> Upid {
        match self.upid_of(pid) {
            Some(upid) => upid,
            None => self.begin_process(pid),
        }
    }

    /// A fork copies what its parent was; an exec then tells its own.
    fn fork(&mut self, ts: u64, pid: Tid, name: NameId, parent: Option<Upid>) -> Upid {
        if let Some(old) = self.upid_of(pid) {
            self.processes[old as usize].end.get_or_insert(ts);
        }
        let upid = self.begin_process(pid);
        let from = parent.and_then(|p| self.process(p)).cloned().unwrap_or_default();
        let process = &mut self.processes[upid as usize];
        process.parent = parent;
        process.name = name;
        process.start = Some(ts);
        process.cmdline = from.cmdline;
        process.uid = from.uid;
        process.cgroup = from.cgroup;
        process.kernel = from.kernel;
        upid
    }

    fn ensure_leader(&mut self, upid: Upid) {
        let pid = self.processes[upid as usize].pid;
        let utid = match self.tids.get(pid) {
            Some(utid) if self.threads[utid as usize].upid.is_none_or(|u| u == upid) => utid,
            _ => self.begin(pid),
        };
        self.threads[utid as usize].upid = Some(upid);
        self.processes[upid as usize].leader = Some(utid);
    }

    fn note_leader(&mut self, utid: Utid) {
        let life = &self.threads[utid as usize];
        let Some(upid) = life.upid else { return };
        let process = &mut self.processes[upid as usize];
        if process.pid == life.tid {
            process.leader = Some(utid);
        }
    }

    fn end_thread(&mut self, ts: u64, utid: Utid) {
        let life = &mut self.threads[utid as usize];
        life.end.get_or_insert(ts);
        let tid = life.tid;
        if self.tids.get(tid) == Some(utid) {
            self.tids.clear(tid);
        }
    }

    fn end(&mut self, ts: u64, utid: Utid) {
        self.end_thread(ts, utid);
        let life = &self.threads[utid as usize];
        if let Some(upid) = life.upid {
            let process = &mut self.processes[upid as usize];
            if process.pid == life.tid {
                process.end.get_or_insert(ts);
                if self.pids.get(&process.pid) == Some(&upid) {
                    self.pids.remove(&process.pid);
                }
            }
        }
    }
}

/// procfs gives start times in clock ticks (10 ms); two sources of one start differ by less than two ticks.
fn same_start(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) <= 20_000_000,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
