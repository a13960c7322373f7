//! What this process itself costs: CPU, memory, and how long its own threads waited.

use super::{Proc, ReadError, Schedstat};
use crate::sched::event::Tid;

/// One of our own threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnThread {
    /// Thread id.
    pub tid: Tid,
    /// Its name.
    pub name: Vec<u8>,
    /// Its sums; zero where the kernel keeps no schedstat.
    pub sums: Schedstat,
}

/// What this process used so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnUsage {
    /// CPU time of all threads, those that ended included, ns.
    pub cpu_ns: u64,
    /// Resident memory, bytes.
    pub rss: u64,
    /// Its threads now.
    pub threads: Vec<OwnThread>,
}

impl Proc {
    /// What the process `self` points at used so far.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn own_usage(&self) -> Result<OwnUsage, ReadError> {
        let status = self.parsed("self/status", super::parse::status)?;
        let stat = self.parsed("self/stat", super::parse::stat)?;
        let pid = status.tgid.unwrap_or(stat.tid);
        let mut threads = Vec::new();
        for tid in self.tids(pid)? {
            let Ok(task) = self.task_stat(pid, tid) else { continue };
            let sums = self.schedstat(pid, tid).unwrap_or_default();
            threads.push(OwnThread { tid, name: task.event_name().to_vec(), sums });
        }
        // Ticks count ended threads too but are 10 ms coarse; the living threads' sums are exact. The larger is nearer.
        let ticks = self.ticks_ns(stat.utime_ticks.saturating_add(stat.stime_ticks));
        let exact = threads.iter().map(|t| t.sums.run_ns).sum::<u64>();
        Ok(OwnUsage { cpu_ns: ticks.max(exact), rss: status.rss.unwrap_or(0), threads })
    }
}
