//! What is known of processes and threads: kept current by hints from the capture path, read from procfs once per life.
//!
//! Pure: [`Names`] is told what happened and says what should be read; [`super::facts`] is the thread that does the
//! reading. Lives that ended are kept for a while, since a snapshot reaches back to when they were there.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::encoder::Hint;
use crate::kernel::procfs;
use crate::perfetto::encode::packets::{self, Process, Thread};
use crate::sched::event::Tid;

/// CLONE_THREAD (include/uapi/linux/sched.h): the new task belongs to its creator's process.
const CLONE_THREAD: u64 = 0x0001_0000;
/// A new process is looked at this much later, ns: by then it has mostly done its exec, or is gone again.
const NEW_DELAY: u64 = 250_000_000;
/// After an exec the new command line is in place at once.
const EXEC_DELAY: u64 = 20_000_000;
/// Command lines of all processes together in one head, bytes: the head is one zstd frame, and they are what a user can
/// blow up. Beyond it processes keep their names only.
const MAX_CMDLINES: usize = 8 << 20;
/// procfs counts time in steps of this, ns (USER_HZ is 100), and rounds down.
const ROUNDING: u64 = 10_000_000;
/// An event is told here within a cycle of the reader and a little, ns; this is well above.
const YOUNG: u64 = 2_000_000_000;
/// Ended lives kept at most.
const MAX_DEAD: usize = 20_000;
/// So many of the last ends, and of the last new names, are looked through for one that was told while procfs was read. A
/// batch is read in milliseconds.
const LATELY: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Names {
    processes: FxHashMap<Tid, Process>,
    threads: FxHashMap<Tid, Thread>,
    /// When it ended (ns, boot), and what it was; the process if it was a leader.
    dead: VecDeque<(u64, Thread, Option<Process>)>,
    /// When threads got a new name last (ns, boot), and which: the last [`LATELY`] of them.
    renamed: VecDeque<(u64, Tid)>,
    /// Processes to be read from procfs: when, and which; in no order.
    due: Vec<(u64, Tid)>,
    waiting: FxHashSet<Tid>,
    /// Processes whose parent ended, and who is it now.
    adopted: FxHashMap<Tid, Tid>,
}

impl Names {
    /// Takes what an event told.
    pub fn hint(&mut self, hint: &Hint) {
        match *hint {
            Hint::New { ts, tid, parent, clone_flags, comm } => self.new_task(ts, tid, parent, clone_flags, &comm),
            Hint::Renamed { ts, tid, comm } => {
                let name = text(&comm);
                self.renamed.truncate(LATELY - 1);
                self.renamed.push_front((ts, tid));
                if let Some(process) = self.processes.get_mut(&tid) {
                    process.name = name.to_vec();
                }
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.name = name.to_vec();
                }
            }
            Hint::Exec { ts, tid, old_tid } => {
                if old_tid != tid {
                    self.threads.remove(&old_tid);
                }
                self.read_later(tid, ts + EXEC_DELAY);
            }
            Hint::Seen { ts, tid, pid, start, comm } => self.seen(ts, (pid, tid), start, text(&comm)),
            Hint::Gone { ts, tid } => self.gone(ts, tid),
        }
    }

    fn seen(&mut self, ts: u64, (pid, tid): (Tid, Tid), start: u64, name: &[u8]) {
        let thread = Thread { tid, pid, name: name.to_vec(), start: Some(start) };
        if self.threads.get(&tid) == Some(&thread) {
            return;
        }
        if self.threads.get(&tid).is_some_and(|t| t.pid != pid || t.start != thread.start) {
            self.gone(ts, tid);
        }
        self.threads.insert(tid, thread);
        // A leader with a new name has mostly done an exec.
        if tid == pid || !self.processes.contains_key(&pid) {
            self.read_later(pid, ts + EXEC_DELAY);
        }
    }

    fn new_task(&mut self, ts: u64, tid: Tid, parent: Tid, clone_flags: u64, comm: &[u8]) {
        let owner = self.threads.get(&parent).map_or(parent, |t| t.pid);
        let pid = if clone_flags & CLONE_THREAD != 0 { owner } else { tid };
        // A scan may have met it before its birth was told here: then its name is younger, and its begin is known exactly now.
        let same = |t: &&Thread| t.start.is_some_and(|start| (start..start + ROUNDING).contains(&ts));
        let met = self.threads.get(&tid).filter(same).map(|t| t.name.clone());
        if met.is_none() {
            // Whoever had this tid before is gone, even if the event that said so was lost.
            self.gone(ts, tid);
        }
        let name = met.unwrap_or_else(|| text(comm).to_vec());
        self.threads.insert(tid, Thread { tid, pid, name: name.clone(), start: Some(ts) });
        if pid != tid {
            return;
        }
        if let Some(process) = self.processes.get_mut(&tid) {
            (process.start, process.ppid) = (Some(ts), owner);
            return;
        }
        let from = self.processes.get(&owner);
        let process = Process {
            pid,
            ppid: owner,
            cmdline: Vec::new(),
            name,
            uid: from.and_then(|p| p.uid),
            cgroup: from.map(|p| p.cgroup.clone()).unwrap_or_default(),
            start: Some(ts),
            // kthreadd is 2 on every Linux and the only parent of kernel threads.
            kernel: owner == 2,
        };
        self.processes.insert(pid, process);
        self.read_later(pid, ts + NEW_DELAY);
    }

    fn read_later(&mut self, pid: Tid, at: u64) {
        if !self.waiting.insert(pid) {
            self.due.retain(|d| d.1 != pid);
        }
        self.due.push((at, pid));
    }

    fn gone(&mut self, ts: u64, tid: Tid) {
        self.waiting.remove(&tid);
        self.adopted.remove(&tid);
        let process = self.processes.remove(&tid);
        let Some(thread) = self.threads.remove(&tid) else { return };
        if self.dead.len() >= MAX_DEAD {
            self.dead.pop_front();
        }
        self.dead.push_back((ts, thread, process));
    }

    /// Forgets lives that ended before `before`.
    pub fn forget_dead(&mut self, before: u64) {
        while self.dead.front().is_some_and(|d| d.0 < before) {
            self.dead.pop_front();
        }
    }

    /// A process that should be read from procfs by `now`.
    pub fn next_due(&mut self, now: u64) -> Option<Tid> {
        while let Some(at) = self.due.iter().position(|d| d.0 <= now) {
            let (_, pid) = self.due.swap_remove(at);
            if self.waiting.remove(&pid) {
                return Some(pid);
            }
        }
        None
    }

    /// When the next process should be read.
    pub fn next_due_at(&self) -> Option<u64> {
        self.due.iter().map(|d| d.0).min()
    }

    /// True of a process that a scan met (at `now`) and whose birth, after `since`, may still be on its way here: it is read once
    /// that has come, since only the birth tells its parent for certain.
    pub fn is_too_young(&mut self, read: &procfs::Process, since: u64, now: u64) -> bool {
        let lately = read.start.saturating_add(ROUNDING) > since && read.start.saturating_add(YOUNG) > now;
        let young = lately && !self.processes.contains_key(&read.pid);
        if young {
            self.read_later(read.pid, now + YOUNG / 2);
        }
        young
    }

    /// True of a tid whose end, at `asked` (ns, boot) or after, was told while procfs was asked for it: the answer may be about
    /// the life that is over.
    fn ended_since(&self, tid: Tid, asked: u64) -> bool {
        self.dead.iter().rev().take(LATELY).any(|(end, thread, _)| thread.tid == tid && *end >= asked)
    }

    /// True of a tid that got a new name at `asked` (ns, boot) or after: the answer of procfs may have the old one.
    fn renamed_since(&self, tid: Tid, asked: u64) -> bool {
        self.renamed.iter().any(|(ts, renamed)| *renamed == tid && *ts >= asked)
    }

    /// Takes what procfs, `asked` at that time (ns, boot), said of a process; true if that is news.
    pub fn learn_process(&mut self, read: &procfs::Process, asked: u64) -> bool {
        if self.ended_since(read.pid, asked) {
            return false;
        }
        // Whose child it is does not change with who looks after it: tools would take it for another process.
        let ppid = self.processes.get(&read.pid).map_or(read.ppid, |p| p.ppid);
        if ppid != read.ppid {
            self.adopted.insert(read.pid, read.ppid);
        }
        let known = self.processes.get(&read.pid).filter(|_| self.renamed_since(read.pid, asked));
        let process = Process {
            pid: read.pid,
            ppid,
            cmdline: read.cmdline.clone(),
            name: known.map_or(&read.name, |p| &p.name).clone(),
            uid: read.uid,
            cgroup: read.cgroup.clone(),
            // procfs rounds to 10 ms; the event was exact.
            start: self.processes.get(&read.pid).and_then(|p| p.start).or(Some(read.start)),
            kernel: read.kernel,
        };
        if self.processes.get(&read.pid) == Some(&process) {
            return false;
        }
        self.processes.insert(read.pid, process);
        true
    }

    /// Takes what procfs, `asked` at that time (ns, boot), said of a thread; true if that is news.
    pub fn learn_thread(&mut self, read: &procfs::Thread, asked: u64) -> bool {
        if self.ended_since(read.tid, asked) {
            return false;
        }
        let start = self.threads.get(&read.tid).and_then(|t| t.start).or(Some(read.start));
        let known = self.threads.get(&read.tid).filter(|_| self.renamed_since(read.tid, asked));
        let name = known.map_or(&read.name, |t| &t.name).clone();
        let thread = Thread { tid: read.tid, pid: read.pid, name, start };
        if self.threads.get(&read.tid) == Some(&thread) {
            return false;
        }
        self.threads.insert(read.tid, thread);
        true
    }

    /// After a complete scan: whatever it did not meet, and began before the scan did, is gone.
    pub fn only_these(&mut self, seen: &FxHashSet<Tid>, scan_began: u64) {
        let old = |t: &&Thread| t.start.is_none_or(|s| s < scan_began) && !seen.contains(&t.tid);
        let gone: Vec<Tid> = self.threads.values().filter(old).map(|t| t.tid).collect();
        for tid in gone {
            self.gone(scan_began, tid);
        }
    }

    /// The process of this id, as known.
    pub fn process(&self, pid: Tid) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The thread of this id, as known.
    pub fn thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// Appends everybody who lived at `from` (ns, boot) or came since and is still there, as a process tree of that instant. Of
    /// several lives under one id the earliest counts: the later ones are told by the events between. So are those who came
    /// since and ended: after minutes of short-lived processes they are thousands, and a snapshot would wait for their tree.
    ///
    /// Who came since is told as of its birth, behind the event that tells of it: Perfetto's trace processor would take whom a
    /// tree named before that event for somebody else.
    pub fn write_tree(&self, from: u64, out: &mut Vec<u8>) {
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        let mut taken = FxHashSet::default();
        let came_since = |start: Option<u64>| start.is_some_and(|start| packets::birth(start) > from);
        for (_, thread, process) in self.dead.iter().filter(|d| d.0 >= from) {
            if taken.insert(thread.tid) && !came_since(thread.start) {
                threads.push(thread.clone());
                processes.extend(process.clone());
            }
        }
        threads.extend(self.threads.values().filter(|t| !taken.contains(&t.tid)).cloned());
        processes.extend(self.processes.values().filter(|p| !taken.contains(&p.pid)).cloned());
        // In order, so that the same world gives the same bytes, and zstd finds what is alike side by side.
        processes.sort_by_key(|p| p.pid);
        threads.sort_by_key(|t| t.tid);
        let mut room = MAX_CMDLINES;
        for process in &mut processes {
            // The parent at birth may be nobody that this tree knows.
            if !came_since(process.start)
                && !self.processes.contains_key(&process.ppid)
                && let Some(adopted) = self.adopted.get(&process.pid)
            {
                process.ppid = *adopted;
            }
            let bytes: usize = process.cmdline.iter().map(|arg| arg.len() + 1).sum();
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => process.cmdline.clear(),
            }
        }
        let (young, old) = processes.into_iter().partition::<Vec<_>, _>(|p| came_since(p.start));
        let (young_threads, old_threads) = threads.into_iter().partition::<Vec<_>, _>(|t| came_since(t.start));
        packets::process_tree(from, &old, &old_threads, out);
        packets::born_lately(from, &young, &young_threads, out);
    }
}

/// A name up to its NUL.
fn text(comm: &[u8]) -> &[u8] {
    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
    &comm[..end]
}

#[cfg(test)]
mod tests;
