//! Signals, taken over before anything else happens in the process.
//!
//! `kill -USR1` is what alert hooks send, possibly in the first milliseconds of a process's life, possibly to a viewer:
//! its default action would end the process. So [`take_over`] runs from the binary's `.init_array`, before `main`, and
//! from then on USR1, USR2 and HUP only count up. INT and TERM keep their default action until a command that can stop
//! in order asks for them with [`catch_stop`].
//!
//! The handler does nothing but add to an atomic counter and write to an eventfd, both async-signal-safe.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

static SNAPSHOT: AtomicU32 = AtomicU32::new(0);
static ROTATE: AtomicU32 = AtomicU32::new(0);
static RELOAD: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicU32 = AtomicU32::new(0);
/// Where the handler wakes a waiting [`Signals`]; −1 while nobody waits.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// What has arrived since it was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// USR1: times a snapshot was asked for.
    pub snapshot: u32,
    /// USR2: times a rotation was asked for.
    pub rotate: u32,
    /// HUP: read the configuration again.
    pub reload: bool,
    /// INT or TERM: finish.
    pub stop: bool,
}

/// Makes USR1, USR2 and HUP harmless; they are counted until [`Signals::take`] asks. Async-signal-safe, may run
/// before `main`, may run twice.
pub extern "C" fn take_over() {
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP] {
        install(signal);
    }
}

/// From now on INT and TERM are counted too. For commands with something to finish; all others should just end.
pub fn catch_stop() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        install(signal);
    }
}

/// Gives HUP its default action back: a command without a configuration to re-read ends with its terminal.
pub fn release_hangup() {
    // SAFETY: SIG_DFL is a valid disposition for SIGHUP.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

fn install(signal: libc::c_int) {
    // SAFETY: a zeroed sigaction is a valid value (no flags, empty mask); the handler is async-signal-safe. Nothing
    // here touches the Rust runtime, which is not up yet when this runs before `main`. A failure (EINVAL only for
    // signals that cannot be caught) leaves the default action, and there is nobody yet to tell.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    let counter = match signal {
        libc::SIGUSR1 => &SNAPSHOT,
        libc::SIGUSR2 => &ROTATE,
        libc::SIGHUP => &RELOAD,
        _ => &STOP,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let fd = WAKE.load(Ordering::Relaxed);
    if fd >= 0 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: write(2) is async-signal-safe, the buffer is 8 bytes as an eventfd wants. errno is kept, since the
        // interrupted code may be about to read it.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(fd, one.as_ptr().cast(), one.len());
            *libc::__errno_location() = errno;
        }
    }
}

/// Whoever serves the signals: one per process at a time.
#[derive(Debug)]
pub struct Signals {
    wake: EventFd,
}

impl Signals {
    /// Begins to serve; signals that came earlier (from the first instant of the process on) are not lost.
    pub fn new() -> std::io::Result<Signals> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        WAKE.store(wake.as_fd().as_raw_fd(), Ordering::Relaxed);
        Ok(Signals { wake })
    }

    /// Readable once a signal arrived; [`Signals::take`] makes it quiet again.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What arrived since the last call.
    pub fn take(&self) -> Pending {
        // Non-blocking: an error only means that nothing is to be read.
        let _ = self.wake.read();
        Pending {
            snapshot: SNAPSHOT.swap(0, Ordering::Relaxed),
            rotate: ROTATE.swap(0, Ordering::Relaxed),
            reload: RELOAD.swap(0, Ordering::Relaxed) > 0,
            stop: STOP.swap(0, Ordering::Relaxed) > 0,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        WAKE.store(-1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, raise};

    #[test]
    fn case_80_signals_before_anybody_serves_are_kept() {
        take_over();
        raise(Signal::SIGUSR1).unwrap();
        raise(Signal::SIGUSR1).unwrap();
        let signals = Signals::new().unwrap();
        raise(Signal::SIGHUP).unwrap();
        assert_eq!(signals.take(), Pending { snapshot: 2, rotate: 0, reload: true, stop: false });
        assert_eq!(signals.take(), Pending::default());
    }
}
