//! A recorder inside another program: the live screen's own, and the tests'.

use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::places::Places;
use super::run::{Recorder, RunError, Serve, io_error};
use super::settings::Settings;
use super::signals::Signals;

/// A recorder that runs on a thread of this process; dropping it stops it.
pub struct Embedded {
    quit: Arc<EventFd>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl Embedded {
    /// Starts a recorder and serves it on a thread of its own.
    pub fn start(settings: Settings, places: Places) -> Result<Embedded, RunError> {
        let quit = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let quit = Arc::new(quit.map_err(|e| io_error("make an eventfd")(e.into()))?);
        let recorder = Recorder::start(settings, places)?;
        let theirs = quit.clone();
        let thread = std::thread::Builder::new()
            .name("dc-recorder".into())
            .spawn(move || {
                let signals = Signals::new().ok();
                recorder.serve(Serve { quit: Some(theirs), signals: signals.as_ref(), ..Serve::default() })
            })
            .map_err(io_error("start a thread"))?;
        Ok(Embedded { quit, thread: Some(thread) })
    }

    /// True while it records.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Stops it and waits until everything is in its file.
    pub fn stop(mut self) -> Result<(), RunError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RunError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let _ = self.quit.write(1);
        // A panic was printed when it happened.
        thread.join().unwrap_or(Ok(()))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::error!("{e}");
        }
    }
}
