//! The control socket: small requests to a running recorder, one JSON line in, one JSON line out.
//!
//! It carries requests and never data: what was recorded is read from the store. [`Server`] never blocks the thread
//! that drives it, and a client can neither hold it up, make it grow nor lock others out: requests are at most
//! [`MAX_LINE`] bytes and must arrive within [`PATIENCE`], at most [`MAX_CLIENTS`] are served at once, and whoever comes
//! when all places are taken gets that of the one who has been silent for longest. The recorder runs with rights that
//! its clients lack, so no request names a file to write: a caller who wants a snapshot elsewhere copies it himself.

mod ask;
mod client;

pub use ask::{AskError, ask};

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use serde::{Deserialize, Serialize};

use client::{Client, State};

use super::settings::Access;
use super::status::Status;

/// Longest request, bytes, line end included.
pub const MAX_LINE: usize = 8 << 10;
/// Most clients served at once. One more takes the place of the one who has been silent for longest; only while all of
/// them wait for an answer do further ones wait in the socket's own queue.
pub const MAX_CLIENTS: usize = 64;
/// Most clients let in at one turn: a flood of them must not keep the recorder from its other work.
const MAX_ACCEPTS: usize = 4 * MAX_CLIENTS;
/// Connections that wait to be let in, far above what can be silent at once: while the queue is full, nobody can connect.
/// The kernel cuts it to `net.core.somaxconn` (4096 since 5.4).
const QUEUE: i32 = 1024;
/// How long a client may take to send its request, and to take the reply.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What a client may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How are you doing?
    Status {},
    /// Keep the last `last_ns` (default: as configured).
    Snapshot {
        /// Nanoseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_ns: Option<u64>,
        /// A word for the file name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// Who asks: `command`, `key`, …
        #[serde(default)]
        why: String,
    },
    /// Cut the segment now.
    Rotate {},
    /// Write a marker into the recording.
    Mark {
        /// Its text.
        text: String,
    },
    /// Finish.
    Stop {},
}

/// What the recorder answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To `status`.
    Status(Box<Status>),
    /// To `snapshot`: the file that now holds it.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// First instant it really covers, ns on CLOCK_BOOTTIME.
        from: u64,
        /// Last instant.
        to: u64,
        /// Its size.
        bytes: u64,
    },
    /// Done (to `rotate`, `mark`, `stop`).
    Done {},
    /// It could not be done.
    Error {
        /// What and why, in words.
        error: String,
    },
}

/// Names one waiting client between a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(u64);

/// The listening side; driven by somebody else's poll loop.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
    next_id: u64,
}

impl Server {
    /// Listens at `path`. Whatever is there is taken away: the caller holds the store's lock, so it is stale.
    pub fn bind(path: &Path, access: &Access) -> io::Result<Server> {
        let (address, _dir) = socket_address(path)?;
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        socket::bind(fd.as_raw_fd(), &address)?;
        // From here on an error takes the socket away again.
        let server =
            Server { listener: UnixListener::from(fd), path: path.to_owned(), clients: Vec::new(), next_id: 0 };
        // Between bind and listen nobody can connect: owner and mode are right before the first client.
        grant(path, access)?;
        socket::listen(&server.listener, Backlog::new(QUEUE)?)?;
        Ok(server)
    }

    /// Lets others than before ask; without a group, that of this process.
    pub fn open_to(&self, access: &Access) -> io::Result<()> {
        if access.group.is_none() {
            nix::unistd::chown(&self.path, None, Some(nix::unistd::getegid()))?;
        }
        grant(&self.path, access)
    }

    /// Descriptors to poll: all for reading, those with `true` for writing.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let listener = self.has_place().then(|| (self.listener.as_fd(), false));
        let clients = self.clients.iter().filter(|c| c.state != State::Waiting);
        listener.into_iter().chain(clients.map(|c| (c.stream.as_fd(), c.state == State::Writing)))
    }

    /// True while some client's time runs: then [`Server::turn`] must be called within [`PATIENCE`] even if nothing is
    /// readable.
    pub fn is_busy(&self) -> bool {
        self.clients.iter().any(|c| c.state != State::Waiting)
    }

    /// Accepts, reads and writes what is possible without waiting; gives back the requests that are complete.
    pub fn turn(&mut self, now: Instant) -> Vec<(ClientId, Request)> {
        let mut requests = Vec::new();
        for client in &mut self.clients {
            match client.state {
                State::Reading => requests.extend(client.read(now).map(|r| (client.id, r))),
                State::Writing => client.write(),
                State::Waiting | State::Done => {}
            }
            if client.state != State::Waiting && now >= client.deadline {
                client.state = State::Done;
            }
        }
        self.clients.retain(|c| c.state != State::Done);
        // Last, so that a request which has arrived is read before its client could lose its place.
        self.accept(now, &mut requests);
        requests
    }

    /// Answers a client; one that went away meanwhile is no error.
    pub fn answer(&mut self, id: ClientId, reply: &Reply, now: Instant) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == id) {
            client.reply(reply, now);
        }
        self.clients.retain(|c| c.state != State::Done);
    }

    /// Sends what is still to be sent, for at most `time`: the last answers before the recorder ends.
    pub fn finish(mut self, time: Duration) {
        let end = Instant::now() + time;
        while self.clients.iter().any(|c| c.state == State::Writing) && Instant::now() < end {
            self.turn(Instant::now());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A place is free, or one of those who have it can lose it.
    fn has_place(&self) -> bool {
        self.clients.len() < MAX_CLIENTS || self.silent().is_some()
    }

    /// The client who has been silent for longest: it does not send its request, or does not take its answer. Clients
    /// stand in the order they came.
    fn silent(&self) -> Option<usize> {
        let first = |state| self.clients.iter().position(|c| c.state == state);
        first(State::Reading).or_else(|| first(State::Writing))
    }

    fn accept(&mut self, now: Instant, requests: &mut Vec<(ClientId, Request)>) {
        for _ in 0..MAX_ACCEPTS {
            if !self.has_place() {
                return;
            }
            // Any error (nobody there, client gone, no descriptors left) is met again at the next turn if it lasts.
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let id = ClientId(self.next_id);
            self.next_id += 1;
            let mut client = Client::new(id, stream, now);
            requests.extend(client.read(now).map(|r| (id, r)));
            if client.state == State::Done {
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS
                && let Some(silent) = self.silent()
            {
                self.clients.remove(silent);
            }
            self.clients.push(client);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Best effort at the end; a stale socket is taken away at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Gives the socket its group, if one is named, and its mode.
fn grant(path: &Path, access: &Access) -> io::Result<()> {
    if let Some(name) = &access.group {
        let group = nix::unistd::Group::from_name(name)?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no group {name} (control.group)"));
        nix::unistd::chown(path, None, Some(group.ok_or_else(unknown)?.gid))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(access.mode))
}

/// An address for `path` however long it is: sun_path holds 108 bytes, so a long one goes through the directory's
/// descriptor, which must stay open while the address is used.
fn socket_address(path: &Path) -> io::Result<(UnixAddr, Option<OwnedFd>)> {
    if let Ok(address) = UnixAddr::new(path) {
        return Ok((address, None));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let dir = OwnedFd::from(fs::File::open(parent)?);
    let short = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    Ok((UnixAddr::new(&short)?, Some(dir)))
}

#[cfg(test)]
mod tests;
