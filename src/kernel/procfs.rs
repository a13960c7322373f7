//! What procfs knows of processes and threads, read from any root folder, so that a plain folder serves in tests.
//!
//! Values are owned bytes as the kernel gave them: names are not interned and not made printable here. A thread that is
//! gone ([`ReadError::Gone`]) is no failure: half of all short-lived ones are, when somebody looks. Nothing here is
//! called on the capture path, and nothing here caches: whoever wants a life read once remembers it.

pub mod parse;
mod scan;
mod usage;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use parse::{Schedstat, Stat, Status};
pub use scan::{Batch, Scan};
pub use usage::{OwnThread, OwnUsage};

use crate::sched::event::Tid;

/// Why something about a thread could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It ended (ENOENT, ESRCH): nothing to report.
    #[error("the thread is gone")]
    Gone,
    /// This user may not see it (EACCES, EPERM; `hidepid`).
    #[error("{0}: permission denied; run as root, or remount /proc without hidepid")]
    Denied(PathBuf),
    /// The kernel wrote something else than proc(5) says.
    #[error("{path}: not as proc(5) describes: {what}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Anything else.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A process (thread group) as procfs has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Process id.
    pub pid: Tid,
    /// Parent's process id; 0 for init and kthreadd.
    pub ppid: Tid,
    /// The leader's name, at most 15 bytes, as events have it.
    pub name: Vec<u8>,
    /// Arguments; empty for kernel threads and zombies. At most [`MAX_CMDLINE`] bytes in all.
    pub cmdline: Vec<Vec<u8>>,
    /// Real user id; `None` if status could not be read.
    pub uid: Option<u32>,
    /// Path of its control group; empty if not known.
    pub cgroup: Vec<u8>,
    /// Start on CLOCK_BOOTTIME, ns, exact to a clock tick (10 ms).
    pub start: u64,
    /// A kernel thread.
    pub kernel: bool,
}

/// A thread as procfs has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Its process.
    pub pid: Tid,
    /// Its name, at most 15 bytes, as events have it.
    pub name: Vec<u8>,
    /// Start on CLOCK_BOOTTIME, ns, exact to a clock tick.
    pub start: u64,
    /// State letter: R S D T t Z X I P.
    pub state: u8,
    /// CPU it runs on or last ran on.
    pub cpu: Option<u32>,
    /// Kernel priority: 0–99 real-time, 100–139 fair, as in sched_switch.
    pub prio: i32,
}

/// Longest command line read, bytes: argv can be megabytes, and a recorder keeps one per process.
pub const MAX_CMDLINE: usize = 4096;

/// A procfs, or a folder that looks like one.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
    tick_ns: u64,
    command_lines: bool,
}

impl Proc {
    /// The one of this machine.
    pub fn system() -> Self {
        // USER_HZ, which scales all "clock ticks" in procfs; 100 on every common architecture.
        let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        Proc::at("/proc", u64::try_from(hz).unwrap_or(100))
    }

    /// A folder laid out like procfs, with `hz` clock ticks a second.
    pub fn at(root: impl Into<PathBuf>, hz: u64) -> Self {
        Proc { root: root.into(), tick_ns: 1_000_000_000 / hz.max(1), command_lines: true }
    }

    /// The same, with or without the command lines of processes: without, they are empty and not even read.
    pub fn with_command_lines(self, on: bool) -> Self {
        Proc { command_lines: on, ..self }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Clock ticks as nanoseconds.
    pub fn ticks_ns(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.tick_ns)
    }

    /// All process ids, ascending.
    ///
    /// # Errors
    /// When the root itself cannot be listed.
    pub fn pids(&self) -> Result<Vec<Tid>, ReadError> {
        numbers_in(&self.root)
    }

    /// The threads of a process, ascending.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when the process ended.
    pub fn tids(&self, pid: Tid) -> Result<Vec<Tid>, ReadError> {
        numbers_in(&self.root.join(format!("{pid}/task")))
    }

    /// `/proc/TID/stat`; finds every thread, listed or not. For one that is not a leader, sums are the thread's own only
    /// through [`Proc::task_stat`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn stat(&self, tid: Tid) -> Result<Stat, ReadError> {
        self.parsed(&format!("{tid}/stat"), parse::stat)
    }

    /// `/proc/PID/task/TID/stat`: the thread's own times.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn task_stat(&self, pid: Tid, tid: Tid) -> Result<Stat, ReadError> {
        self.parsed(&format!("{pid}/task/{tid}/stat"), parse::stat)
    }

    /// `/proc/TID/status`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn status(&self, tid: Tid) -> Result<Status, ReadError> {
        self.parsed(&format!("{tid}/status"), parse::status)
    }

    /// `/proc/PID/task/TID/schedstat`: exact run and wait sums. Absent without CONFIG_SCHED_INFO.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn schedstat(&self, pid: Tid, tid: Tid) -> Result<Schedstat, ReadError> {
        self.parsed(&format!("{pid}/task/{tid}/schedstat"), parse::schedstat)
    }

    /// `/proc/PID/task/TID/wchan`: the kernel function it sleeps in; empty when it runs, or when this user may not know.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn wchan(&self, pid: Tid, tid: Tid) -> Result<Vec<u8>, ReadError> {
        let text = self.read(&format!("{pid}/task/{tid}/wchan"), 256)?;
        Ok(if text == b"0" { Vec::new() } else { text })
    }

    /// True if the kernel keeps exact run and wait sums (CONFIG_SCHED_INFO).
    pub fn schedstat_of_self(&self) -> bool {
        self.parsed("self/schedstat", parse::schedstat).is_ok()
    }

    /// `/proc/stat` from its beginning: the lines of the CPUs. What follows them may be cut.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn cpu_lines(&self) -> Result<String, ReadError> {
        // 8,192 CPUs of some 100 bytes.
        Ok(String::from_utf8_lossy(&self.read("stat", 1 << 20)?).into_owned())
    }

    /// Everything about one process. What its owner may hide (cmdline, cgroup) is empty rather than an error.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when it ended; see [`ReadError`].
    pub fn process(&self, pid: Tid) -> Result<Process, ReadError> {
        let stat = self.stat(pid)?;
        let status = self.status(pid).ok();
        let cmdline = match self.command_lines {
            true => self.read(&format!("{pid}/cmdline"), MAX_CMDLINE).unwrap_or_default(),
            false => Vec::new(),
        };
        let cgroup = self.read(&format!("{pid}/cgroup"), 16 << 10).unwrap_or_default();
        Ok(Process {
            pid,
            ppid: stat.ppid,
            name: stat.event_name().to_vec(),
            cmdline: parse::cmdline(&cmdline),
            uid: status.and_then(|s| s.uid),
            cgroup: parse::cgroup_path(&cgroup).to_vec(),
            start: self.ticks_ns(stat.start_ticks),
            kernel: stat.is_kernel(),
        })
    }

    /// One thread of a known process: a single file.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when it ended; see [`ReadError`].
    pub fn thread(&self, pid: Tid, tid: Tid) -> Result<Thread, ReadError> {
        let stat = self.task_stat(pid, tid)?;
        Ok(self.thread_of(pid, tid, &stat))
    }

    fn thread_of(&self, pid: Tid, tid: Tid, stat: &Stat) -> Thread {
        Thread {
            tid,
            pid,
            name: stat.event_name().to_vec(),
            start: self.ticks_ns(stat.start_ticks),
            state: stat.state,
            cpu: stat.cpu,
            prio: stat.prio,
        }
    }

    /// A thread of which only the id is known, and its process unless `process_known` says that is not needed.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when the thread ended. A process that ended meanwhile is just left out.
    pub fn read_one(
        &self,
        tid: Tid,
        process_known: impl FnOnce(Tid) -> bool,
    ) -> Result<(Thread, Option<Process>), ReadError> {
        let status = self.status(tid)?;
        let pid = status.tgid.unwrap_or(tid);
        let stat = self.stat(tid)?;
        let process = if process_known(pid) { None } else { self.process(pid).ok() };
        Ok((self.thread_of(pid, tid, &stat), process))
    }

    fn parsed<T>(&self, name: &str, parse: fn(&[u8]) -> Result<T, &'static str>) -> Result<T, ReadError> {
        let text = self.read(name, 16 << 10)?;
        // A file of a thread that dies while it is read can come back empty instead of with ESRCH.
        if text.is_empty() {
            return Err(ReadError::Gone);
        }
        parse(&text).map_err(|what| ReadError::Malformed { path: self.root.join(name), what })
    }

    fn read(&self, name: &str, most: usize) -> Result<Vec<u8>, ReadError> {
        let path = self.root.join(name);
        let mut text = Vec::with_capacity(most.min(1024));
        let read = File::open(&path).and_then(|f| f.take(most as u64).read_to_end(&mut text));
        match read {
            Ok(_) => Ok(text),
            Err(e) => Err(read_error(path, e)),
        }
    }
}

fn read_error(path: PathBuf, source: io::Error) -> ReadError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => ReadError::Gone,
        Some(libc::EACCES | libc::EPERM) => ReadError::Denied(path),
        _ => ReadError::Io { path, source },
    }
}

/// Entries of a folder whose names are plain positive numbers, ascending.
fn numbers_in(dir: &Path) -> Result<Vec<Tid>, ReadError> {
    let entries = fs::read_dir(dir).map_err(|e| read_error(dir.into(), e))?;
    let mut found = Vec::new();
    for entry in entries {
        // The listing of a process that ends under our hands just stops.
        let Ok(entry) = entry else { break };
        let name = entry.file_name();
        let digits = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if let Some(id) = digits.and_then(|n| n.parse().ok()) {
            found.push(id);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests;
