//! The asking side of the control socket: one request, one reply, bounded waiting.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, sockopt};
use nix::sys::time::TimeVal;

use super::{PATIENCE, Reply, Request, socket_address};
use crate::kernel::procfs::Proc;
use crate::recorder::haste::Haste;
use crate::recorder::places::PID_FILE;
use crate::units::show::span_words;

/// Why a recorder could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is none.
    #[error("no recorder runs on {} (start one: dashcam record)", .0.display())]
    NotRunning(PathBuf),
    /// There is one, but not for this user.
    #[error("the recorder's socket {} is not open to this user: use sudo, or have it opened to a group of yours (control.group)", .0.display())]
    Denied(PathBuf),
    /// It did not answer.
    #[error("the recorder at {} did not answer: {why}", .path.display())]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It is there, and said nothing for so long.
    #[error("the recorder at {} did not answer within {}{}", .path.display(), span_words(nanos(*waited)), late(*stopped))]
    Late {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
        /// Its process, if somebody stopped that.
        stopped: Option<i32>,
    },
    /// It answered that it could not.
    #[error("{0}")]
    Refused(String),
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn late(stopped: Option<i32>) -> String {
    stopped.map_or("; it may be busy: try again, or see its log".to_owned(), |pid| {
        format!(": process {pid} is stopped (kill -CONT {pid})")
    })
}

/// Longest reply a client accepts, bytes.
const MAX_REPLY: u64 = 4 << 20;

/// Sends one request to the recorder behind the socket at `path` and waits for its reply, at most `patience`.
///
/// Whoever wants a snapshot waits for it in haste, see [`Haste`].
pub fn ask(path: &Path, request: &Request, patience: Duration) -> Result<Reply, AskError> {
    let _haste = matches!(request, Request::Snapshot { .. }).then(Haste::alone);
    let begin = Instant::now();
    let no_answer = |why: io::Error| match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            AskError::Late { path: path.to_owned(), waited: begin.elapsed(), stopped: stopped(path) }
        }
        _ => AskError::NoAnswer { path: path.to_owned(), why },
    };
    let mut stream = connect(path, patience).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning(path.to_owned()),
        io::ErrorKind::PermissionDenied => AskError::Denied(path.to_owned()),
        _ => no_answer(e),
    })?;
    stream
        .set_read_timeout(Some(patience.min(PATIENCE)))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(no_answer)?;
    let mut line = serde_json::to_vec(request).map_err(|e| no_answer(e.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(no_answer)?;
    let mut answer = Vec::new();
    let mut reply = stream.take(MAX_REPLY);
    while let Err(e) = reply.read_to_end(&mut answer) {
        // One that is stopped will not answer, however long one waits.
        let late = e.kind() == io::ErrorKind::WouldBlock;
        if !late || begin.elapsed() >= patience || stopped(path).is_some() {
            return Err(no_answer(e));
        }
    }
    if answer.is_empty() {
        return Err(no_answer(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")));
    }
    match serde_json::from_slice(&answer).map_err(|e| no_answer(e.into()))? {
        Reply::Error { error } => Err(AskError::Refused(error)),
        reply => Ok(reply),
    }
}

/// The recorder's process if it is stopped (`kill -STOP`, Ctrl-Z): the file beside the socket names it.
fn stopped(path: &Path) -> Option<i32> {
    let mut text = String::new();
    let file = File::open(path.with_file_name(PID_FILE)).ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok()?;
    let stat = Proc::system().stat(pid).ok()?;
    (stat.state == b'T').then_some(pid)
}

fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (address, _dir) = socket_address(path)?;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // A full queue makes connect(2) wait, at most as long as one may wait to send (unix(7) does as socket(7) says of
    // SO_SNDTIMEO).
    let seconds = patience.as_secs().max(1).try_into().unwrap_or(libc::time_t::MAX);
    socket::setsockopt(&fd, sockopt::SendTimeout, &TimeVal::new(seconds, 0))?;
    socket::connect(fd.as_raw_fd(), &address)?;
    // SAFETY: the descriptor is a connected stream socket that nobody else owns.
    Ok(unsafe { UnixStream::from_raw_fd(fd.into_raw_fd()) })
}
