//! One client of the control socket: a request comes in, a reply goes out, and neither is ever waited for.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::{ClientId, MAX_LINE, PATIENCE, Reply, Request};

#[derive(Debug)]
pub(super) struct Client {
    pub id: ClientId,
    pub stream: UnixStream,
    /// Bytes of the request so far, then the bytes of the reply still to be sent.
    buffer: Vec<u8>,
    pub state: State,
    /// When it must have sent its request, or taken its reply.
    pub deadline: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Reading,
    /// The request is with the recorder; the deadline does not run.
    Waiting,
    Writing,
    Done,
}

impl Client {
    pub fn new(id: ClientId, stream: UnixStream, now: Instant) -> Client {
        Client { id, stream, buffer: Vec::new(), state: State::Reading, deadline: now + PATIENCE }
    }

    /// Reads what is there; the request, once it is complete.
    pub fn read(&mut self, now: Instant) -> Option<Request> {
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.state = State::Done;
                    return None;
                }
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.state = State::Done;
                    return None;
                }
            }
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                return self.parse(end, now);
            }
            if self.buffer.len() > MAX_LINE {
                self.refuse(&format!("a request is at most {MAX_LINE} bytes"), now);
                return None;
            }
        }
    }

    fn parse(&mut self, end: usize, now: Instant) -> Option<Request> {
        match serde_json::from_slice(&self.buffer[..end]) {
            Ok(request) if end <= MAX_LINE => {
                self.state = State::Waiting;
                Some(request)
            }
            Ok(_) => {
                self.refuse(&format!("a request is at most {MAX_LINE} bytes"), now);
                None
            }
            Err(e) => {
                self.refuse(&format!("not a request: {e}"), now);
                None
            }
        }
    }

    fn refuse(&mut self, why: &str, now: Instant) {
        self.reply(&Reply::Error { error: why.into() }, now);
    }

    pub fn reply(&mut self, reply: &Reply, now: Instant) {
        self.buffer.clear();
        if serde_json::to_writer(&mut self.buffer, reply).is_err() {
            self.state = State::Done;
            return;
        }
        self.buffer.push(b'\n');
        self.state = State::Writing;
        self.deadline = now + PATIENCE;
        self.write();
    }

    /// Writes what can be written now.
    pub fn write(&mut self) {
        while !self.buffer.is_empty() {
            match self.stream.write(&self.buffer) {
                Ok(n) if n > 0 => drop(self.buffer.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        self.state = State::Done;
    }
}
