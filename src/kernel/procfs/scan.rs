//! All processes and threads of the machine, a bounded number of files at a time.
//!
//! A machine with 29,000 threads takes half a second of CPU to read; in one go that would be a spike that the recorder
//! then finds in its own recording. So a scan is a sequence of [`Batch`]es, and its caller sleeps between them.

use std::vec::IntoIter;

use super::{Proc, Process, ReadError, Thread};
use crate::sched::event::Tid;

/// Files read for one process besides its threads: stat, status, cmdline, cgroup, and the task folder.
const FILES_PER_PROCESS: usize = 5;

/// What one step of a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Processes, each before its threads.
    pub processes: Vec<Process>,
    /// Threads, leaders included.
    pub threads: Vec<Thread>,
    /// Processes and threads that had ended when their turn came.
    pub gone: usize,
    /// Processes and threads that could not be read for another reason (`hidepid`, a foreign file system).
    pub unreadable: usize,
}

/// A scan under way.
#[derive(Debug)]
pub struct Scan {
    proc: Proc,
    pids: IntoIter<Tid>,
    /// Process whose threads are being read, and those still to read.
    open: Option<(Tid, IntoIter<Tid>)>,
}

impl Scan {
    /// A scan of the processes there are now.
    ///
    /// # Errors
    /// When procfs itself cannot be listed.
    pub fn new(proc: Proc) -> Result<Self, ReadError> {
        let pids = proc.pids()?.into_iter();
        Ok(Scan { proc, pids, open: None })
    }

    /// Reads on until about `files` more files were read (at least one process or thread). `None`: all done.
    pub fn next_batch(&mut self, files: usize) -> Option<Batch> {
        let mut batch = Batch::default();
        let mut left = files.max(1);
        let mut any = false;
        while left > 0 {
            if let Some((pid, tids)) = &mut self.open {
                let pid = *pid;
                match tids.next() {
                    Some(tid) => {
                        note(self.proc.thread(pid, tid), &mut batch.threads, &mut batch.gone, &mut batch.unreadable);
                        left -= 1;
                        any = true;
                    }
                    None => self.open = None,
                }
                continue;
            }
            let Some(pid) = self.pids.next() else { break };
            any = true;
            left = left.saturating_sub(FILES_PER_PROCESS);
            let read = self.proc.process(pid);
            if note(read, &mut batch.processes, &mut batch.gone, &mut batch.unreadable) {
                // If the task folder vanished with the process, its threads are gone with it.
                self.open = self.proc.tids(pid).ok().map(|tids| (pid, tids.into_iter()));
            }
        }
        any.then_some(batch)
    }
}

/// Keeps what could be read, counts what could not; true if it could.
fn note<T>(read: Result<T, ReadError>, into: &mut Vec<T>, gone: &mut usize, unreadable: &mut usize) -> bool {
    match read {
        Ok(value) => {
            into.push(value);
            return true;
        }
        Err(ReadError::Gone) => *gone += 1,
        Err(_) => *unreadable += 1,
    }
    false
}
