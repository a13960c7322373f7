//! Keys, mouse and signals, each from a thread of its own into a bounded channel.
//!
//! The threads end when the receiver is gone or the terminal is; neither holds the program up at its end.

use super::keys::Key;
use super::state::Msg;
use crossbeam_channel::{Receiver, Sender, bounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event, KeyEventKind, MouseButton, MouseEventKind};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Keys waiting at most; a stuck interface drops none that a person typed.
const WAITING: usize = 1024;

/// What an input thread says.
#[derive(Debug)]
pub enum Input {
    /// Something for `update`.
    Msg(Msg),
    /// The terminal is gone.
    Lost,
    /// The process was stopped and goes on: what the terminal was told before may be forgotten.
    GoesOn,
}

/// Starts reading keys and mouse from the terminal.
pub fn keys() -> io::Result<Receiver<Input>> {
    let (send, receive) = bounded(WAITING);
    std::thread::Builder::new().name("dashcam-keys".into()).spawn(move || read_keys(&send))?;
    Ok(receive)
}

fn read_keys(send: &Sender<Input>) {
    let stdin = io::stdin();
    loop {
        // crossterm would spin on a terminal that hung up, so the hang-up is looked for here.
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(1000u16)) {
            Err(nix::errno::Errno::EINTR) | Ok(0) => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if fds[0].revents().is_some_and(|r| r.intersects(gone)) {
            break;
        }
        match drain(send) {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => break,
        }
    }
    let _ = send.send(Input::Lost);
}

/// Sends all events that are ready; false when nobody listens any more.
fn drain(send: &Sender<Input>) -> io::Result<bool> {
    while event::poll(Duration::ZERO)? {
        let Some(msg) = translate(event::read()?) else { continue };
        if send.send(Input::Msg(msg)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn translate(event: Event) -> Option<Msg> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Key::from_terminal(key).map(Msg::Key),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Msg::Click(mouse.column, mouse.row)),
            MouseEventKind::ScrollUp => Some(Msg::Wheel(mouse.column, mouse.row, true)),
            MouseEventKind::ScrollDown => Some(Msg::Wheel(mouse.column, mouse.row, false)),
            _ => None,
        },
        Event::Paste(text) => Some(Msg::Paste(text)),
        Event::Resize(w, h) => Some(Msg::Resize(w, h)),
        _ => None,
    }
}

/// Takes SIGTERM, SIGHUP, SIGINT, SIGWINCH and SIGCONT over; what they mean comes as messages. Dropping the handle ends it.
pub fn signals() -> io::Result<(Receiver<Input>, SignalHandle)> {
    let (send, receive) = bounded(16);
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGCONT])?;
    let handle = signals.handle();
    std::thread::Builder::new().name("dashcam-signals".into()).spawn(move || {
        for signal in signals.forever() {
            let msg = match signal {
                SIGWINCH => match ratatui::crossterm::terminal::size() {
                    Ok((w, h)) => Input::Msg(Msg::Resize(w, h)),
                    Err(_) => continue,
                },
                SIGHUP => Input::Lost,
                SIGCONT => Input::GoesOn,
                _ => Input::Msg(Msg::Terminate),
            };
            if send.send(msg).is_err() {
                return;
            }
        }
    })?;
    Ok((receive, SignalHandle(handle)))
}

/// Ends the signal thread when dropped.
#[derive(Debug)]
pub struct SignalHandle(signal_hook::iterator::Handle);

impl Drop for SignalHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}
