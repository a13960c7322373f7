//! The asking side of the control socket: one request, one reply, bounded waiting.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, sockopt};
use nix::sys::time::TimeVal;

use super::{PATIENCE, Reply, Request, socket_address};
use crate::recorder::haste::Haste;

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
    /// It answered that it could not.
    #[error("{0}")]
    Refused(String),
}

/// Longest reply a client accepts, bytes.
const MAX_REPLY: u64 = 4 << 20;

/// Sends one request to the recorder behind the socket at `path` and waits for its reply, at most `patience`.
///
/// Whoever wants a snapshot waits for it in haste, see [`Haste`].
pub fn ask(path: &Path, request: &Request, patience: Duration) -> Result<Reply, AskError> {
    let _haste = matches!(request, Request::Snapshot { .. }).then(Haste::alone);
    let no_answer = |why: io::Error| AskError::NoAnswer { path: path.to_owned(), why };
    let mut stream = connect(path, patience).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning(path.to_owned()),
        io::ErrorKind::PermissionDenied => AskError::Denied(path.to_owned()),
        _ => no_answer(e),
    })?;
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(no_answer)?;
    let mut line = serde_json::to_vec(request).map_err(|e| no_answer(e.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(no_answer)?;
    let mut answer = Vec::new();
    stream.take(MAX_REPLY).read_to_end(&mut answer).map_err(no_answer)?;
    if answer.is_empty() {
        return Err(no_answer(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")));
    }
    match serde_json::from_slice(&answer).map_err(|e| no_answer(e.into()))? {
        Reply::Error { error } => Err(AskError::Refused(error)),
        reply => Ok(reply),
    }
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
