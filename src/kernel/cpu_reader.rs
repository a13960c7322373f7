//! Reading one CPU's ring buffer: whole sub-buffers, never blocking, into the caller's memory.
//!
//! Opens `trace_pipe_raw` under our own lock (a second reader would get half the data), takes an offline
//! CPU as a normal thing and looks again later. Walks no records and opens nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A read or open of one CPU's buffer failed in a way that is not part of normal life.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Another process reads this buffer.
    #[error("{path} is being read by another process; one reader per buffer, or each gets only part")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The caller's memory is smaller than one sub-buffer: the rest would come without its header.
    #[error("cpu {cpu}: {given} bytes given for a sub-buffer of {needed}")]
    ShortBuffer {
        /// CPU id.
        cpu: u32,
        /// Bytes given.
        given: usize,
        /// Bytes of one sub-buffer.
        needed: usize,
    },
    /// The system's answer.
    #[error("cpu {cpu}: the ring buffer cannot be read: {source}")]
    Io {
        /// CPU id.
        cpu: u32,
        /// The answer.
        source: io::Error,
    },
}

/// What one read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// That many bytes: one sub-buffer.
    Page(usize),
    /// Nothing more at this moment.
    Empty,
    /// The CPU is offline (or does not exist); looked at again every [`OFFLINE_RECHECK`].
    Offline,
}

/// How often an offline CPU is tried again.
pub const OFFLINE_RECHECK: Duration = Duration::from_secs(1);

enum Source {
    File(Flock<File>),
    Other(Box<dyn Read + Send>),
    /// Could not be opened so far (ENODEV, ENXIO).
    Absent(PathBuf),
}

/// Reads one CPU's sub-buffers.
pub struct CpuReader {
    cpu: u32,
    source: Source,
    sub_buffer: usize,
    recheck: Duration,
    offline: Option<Instant>,
}

impl std::fmt::Debug for CpuReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuReader").field("cpu", &self.cpu).field("offline", &self.offline).finish_non_exhaustive()
    }
}

impl CpuReader {
    /// Opens `trace_pipe_raw` of one CPU; `sub_buffer` is the instance's sub-buffer size in bytes.
    pub fn open(path: &Path, cpu: u32, sub_buffer: usize) -> Result<CpuReader, ReadError> {
        let source = open_source(path, cpu)?;
        let offline = matches!(source, Source::Absent(_)).then(Instant::now);
        Ok(CpuReader { cpu, source, sub_buffer, recheck: OFFLINE_RECHECK, offline })
    }

    /// A reader of anything that answers as `trace_pipe_raw` would (tests); offline CPUs are retried after `recheck`.
    #[doc(hidden)]
    pub fn from_source(cpu: u32, sub_buffer: usize, source: Box<dyn Read + Send>, recheck: Duration) -> CpuReader {
        CpuReader { cpu, source: Source::Other(source), sub_buffer, recheck, offline: None }
    }

    /// The CPU's id.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Bytes that a buffer for [`CpuReader::read`] needs.
    pub fn sub_buffer_size(&self) -> usize {
        self.sub_buffer
    }

    /// True while the last answer was that the CPU is offline.
    pub fn is_offline(&self) -> bool {
        self.offline.is_some()
    }

    /// Reads one sub-buffer into the front of `buf`. Never blocks.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<ReadOutcome, ReadError> {
        let (cpu, needed, given) = (self.cpu, self.sub_buffer, buf.len());
        let buf = buf.get_mut(..needed).ok_or(ReadError::ShortBuffer { cpu, given, needed })?;
        if self.offline.is_some_and(|since| since.elapsed() < self.recheck) {
            return Ok(ReadOutcome::Offline);
        }
        if let Source::Absent(path) = &self.source {
            self.source = open_source(path, cpu)?;
        }
        let mut filled = 0;
        // The kernel gives a whole sub-buffer at once. Were it ever to give less, the next bytes would be the rest
        // of the same one, without a header: so they belong together.
        while filled < needed {
            let read = match &mut self.source {
                Source::File(file) => (&**file).read(&mut buf[filled..]),
                Source::Other(source) => source.read(&mut buf[filled..]),
                Source::Absent(_) => return Ok(self.now_offline()),
            };
            match read {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENODEV | libc::ENXIO) => return Ok(self.now_offline()),
                    _ => return Err(ReadError::Io { cpu, source: error }),
                },
            }
        }
        if self.offline.take().is_some() {
            tracing::info!(cpu, "CPU is online, recording it");
        }
        Ok(if filled == 0 { ReadOutcome::Empty } else { ReadOutcome::Page(filled) })
    }

    /// Reads until nothing is left and gives each sub-buffer to `page`; returns their number. Only an empty
    /// answer ends it: a page that is not full does not mean that no other follows.
    pub fn drain(&mut self, buf: &mut [u8], mut page: impl FnMut(&[u8])) -> Result<usize, ReadError> {
        let mut pages = 0;
        while let ReadOutcome::Page(n) = self.read(buf)? {
            page(&buf[..n]);
            pages += 1;
        }
        Ok(pages)
    }

    fn now_offline(&mut self) -> ReadOutcome {
        if self.offline.replace(Instant::now()).is_none() {
            tracing::debug!(cpu = self.cpu, "CPU is offline, looking again later");
        }
        ReadOutcome::Offline
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::File(file) if self.offline.is_none() => Some(file.as_fd()),
            _ => None,
        }
    }
}

fn open_source(path: &Path, cpu: u32) -> Result<Source, ReadError> {
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
            return Ok(Source::Absent(path.to_owned()));
        }
        Err(source) => return Err(ReadError::Io { cpu, source }),
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(Source::File(file)),
        Err((_, nix::Error::EWOULDBLOCK)) => Err(ReadError::Locked { path: path.to_owned() }),
        Err((_, error)) => Err(ReadError::Io { cpu, source: error.into() }),
    }
}

/// Why [`wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The time is over.
    Timer,
    /// A buffer reached the instance's fill mark (`buffer_percent`).
    Buffer,
    /// The other descriptor is readable.
    Other,
}

/// Waits for a buffer of `readers` to reach the fill mark, for `other` to become readable, or for `timeout`.
///
/// Give no readers on kernels without `buffer_percent` (before 5.0; see `Instance::wakes_at_percent`): they
/// report any single event as readable.
pub fn wait(readers: &[CpuReader], other: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<Wake> {
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(readers.len() + 1);
    fds.extend(other.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    fds.extend(readers.iter().filter_map(CpuReader::fd).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    // Rounded up: a wait of less than a millisecond must not become a busy loop.
    let millis = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
    match poll(&mut fds, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
        Ok(0) | Err(nix::Error::EINTR) => Ok(Wake::Timer),
        Ok(_) if other.is_some() && fds.first().and_then(PollFd::any) == Some(true) => Ok(Wake::Other),
        Ok(_) => Ok(Wake::Buffer),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Answers reads from a list: bytes, or an errno.
    struct Script(VecDeque<Result<Vec<u8>, i32>>);

    impl Read for Script {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                Some(Ok(bytes)) => {
                    buf[..bytes.len()].copy_from_slice(&bytes);
                    Ok(bytes.len())
                }
                Some(Err(errno)) => Err(io::Error::from_raw_os_error(errno)),
                None => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            }
        }
    }

    fn reader(recheck: Duration, script: Vec<Result<Vec<u8>, i32>>) -> CpuReader {
        CpuReader::from_source(3, 64, Box::new(Script(script.into())), recheck)
    }

    #[test]
    fn case_16_offline_is_quiet_and_looked_at_again() {
        let script = vec![Err(libc::ENODEV), Err(libc::ENODEV), Ok(vec![7; 64])];
        let mut r = reader(Duration::ZERO, script);
        let mut buf = [0; 64];
        assert_eq!(r.read(&mut buf).unwrap(), ReadOutcome::Offline);
        assert!(r.is_offline());
        assert_eq!(r.read(&mut buf).unwrap(), ReadOutcome::Offline);
        assert_eq!(r.read(&mut buf).unwrap(), ReadOutcome::Page(64));
        assert!(!r.is_offline());
        let mut waits = reader(Duration::from_secs(3600), vec![Err(libc::ENODEV), Ok(vec![7; 64])]);
        assert_eq!(waits.read(&mut buf).unwrap(), ReadOutcome::Offline);
        assert_eq!(waits.read(&mut buf).unwrap(), ReadOutcome::Offline, "the file is not asked before its time");
    }

    #[test]
    fn case_15_only_eagain_ends_a_drain() {
        let script = vec![Ok(vec![1; 64]), Err(libc::EINTR), Ok(vec![2; 64]), Err(libc::EAGAIN), Ok(vec![3; 64])];
        let mut seen = Vec::new();
        let mut r = reader(Duration::ZERO, script);
        assert_eq!(r.drain(&mut [0; 100], |page| seen.push((page[0], page.len()))).unwrap(), 2);
        assert_eq!(seen, [(1, 64), (2, 64)]);
    }

    #[test]
    fn case_5_parts_of_one_sub_buffer_stay_together() {
        let script = vec![Ok(vec![1; 40]), Ok(vec![2; 24]), Ok(vec![3; 10])];
        let mut r = reader(Duration::ZERO, script);
        let mut buf = [0; 64];
        assert_eq!(r.read(&mut buf).unwrap(), ReadOutcome::Page(64));
        assert_eq!((buf[39], buf[40]), (1, 2));
        assert_eq!(r.read(&mut buf).unwrap(), ReadOutcome::Page(10), "the cursor calls it a partial page");
        assert!(matches!(r.read(&mut [0; 63]), Err(ReadError::ShortBuffer { given: 63, needed: 64, .. })));
    }

    #[test]
    fn other_errors_name_the_cpu() {
        let mut r = reader(Duration::ZERO, vec![Err(libc::EIO)]);
        let error = r.read(&mut [0; 64]).unwrap_err().to_string();
        assert!(error.starts_with("cpu 3:"), "{error}");
    }

    #[test]
    fn one_reader_per_buffer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = CpuReader::open(file.path(), 0, 64).unwrap();
        assert!(matches!(CpuReader::open(file.path(), 0, 64), Err(ReadError::Locked { .. })));
        drop(first);
        CpuReader::open(file.path(), 0, 64).unwrap();
    }

    #[test]
    fn wait_tells_what_woke_it() {
        let (rx, tx) = nix::unistd::pipe().unwrap();
        assert_eq!(wait(&[], Some(rx.as_fd()), Duration::from_millis(1)).unwrap(), Wake::Timer);
        nix::unistd::write(&tx, b"x").unwrap();
        assert_eq!(wait(&[], Some(rx.as_fd()), Duration::from_secs(60)).unwrap(), Wake::Other);
    }
}
