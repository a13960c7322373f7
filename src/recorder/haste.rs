//! Haste: whoever asks for a snapshot waits for it, mostly on a machine that is short of CPU time just then.
//!
//! A snapshot is some ten steps from thread to thread and some tens of milliseconds of copying. Beside hundreds of busy
//! threads the usual scheduling class makes half a second of that, whatever the nice value: under autogroups and cgroups a
//! nice value counts within the group only (sched(7), "The autogroup feature"). So for just that long the threads in its way
//! are real-time threads of the lowest priority: before everything usual, behind whatever is real-time itself. Whoever waits
//! for a request to come, or for its answer, waits like this, too, so that it is not late from the start.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::unistd::gettid;

use super::pipeline::spawn;
use crate::sched::event::Tid;

/// The lowest real-time priority (sched(7)).
const PRIORITY: i32 = 1;

/// The threads of a recorder that a snapshot has to wait for.
#[derive(Debug, Clone, Default)]
pub struct Crew(Arc<Mutex<Vec<Tid>>>);

impl Crew {
    /// Starts a thread that belongs to it as long as it runs.
    pub fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let crew = self.clone();
        spawn(name, move || {
            let _member = crew.join();
            body();
        })
    }

    /// Everybody of the crew goes first until what this gives back is dropped; those that are real-time threads already are
    /// left alone.
    pub fn hurry(&self) -> Haste {
        let members = self.members().clone();
        Haste(members.into_iter().filter_map(Hurried::begin).collect())
    }

    fn join(&self) -> Member {
        let tid = gettid().as_raw();
        self.members().push(tid);
        Member { crew: self.clone(), tid }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Tid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Member {
    crew: Crew,
    tid: Tid,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crew.members().retain(|&tid| tid != self.tid);
    }
}

/// These threads go first until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Haste(Vec<Hurried>);

impl Haste {
    /// The calling thread goes first until what this gives back is dropped; if this user may do that (CAP_SYS_NICE, or
    /// RLIMIT_RTPRIO of 1), and it is no real-time thread already.
    pub fn alone() -> Haste {
        Haste(Hurried::begin(gettid().as_raw()).into_iter().collect())
    }

    /// The calling thread does this in its own time.
    pub fn pause<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.0.clear();
        let done = work();
        *self = Haste::alone();
        done
    }

    /// A thread that the calling one starts meanwhile is in haste, too, as it inherits everything. It calls what this
    /// gives back, and goes first until that is dropped.
    pub fn hand_down(&self) -> impl FnOnce() -> Haste + Send + 'static {
        let own = gettid().as_raw();
        let usual = self.0.iter().find(|h| h.tid == own).map(|h| h.usual);
        move || Haste(usual.map(|usual| Hurried { tid: gettid().as_raw(), usual }).into_iter().collect())
    }
}

#[derive(Debug)]
struct Hurried {
    tid: Tid,
    usual: Policy,
}

impl Hurried {
    fn begin(tid: Tid) -> Option<Hurried> {
        let usual = Policy::of(tid).filter(Policy::is_usual)?;
        let first = Policy { policy: libc::SCHED_RR, priority: PRIORITY };
        first.set(tid).then_some(Hurried { tid, usual })
    }
}

impl Drop for Hurried {
    fn drop(&mut self) {
        // To step back everybody is free; a thread that has ended needs it no more.
        self.usual.set(self.tid);
    }
}

/// How a thread is scheduled. Its nice value is another matter: it stays, and counts again afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    /// `SCHED_*`, maybe with `SCHED_RESET_ON_FORK`.
    policy: i32,
    priority: i32,
}

/// The C library's functions of these names are of a process in some (musl has none at all): the kernel's are of a thread.
impl Policy {
    fn of(tid: Tid) -> Option<Policy> {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads a number.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) };
        // SAFETY: `param` is a sched_param, alive for the call.
        let got = unsafe { libc::syscall(libc::SYS_sched_getparam, tid, &raw mut param) };
        let policy = i32::try_from(policy).ok().filter(|&p| p >= 0 && got == 0)?;
        Some(Policy { policy, priority: param.sched_priority })
    }

    fn is_usual(&self) -> bool {
        [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(self.policy & !libc::SCHED_RESET_ON_FORK))
    }

    fn set(self, tid: Tid) -> bool {
        let param = libc::sched_param { sched_priority: self.priority };
        // SAFETY: `param` is a sched_param, alive for the call.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, self.policy, &raw const param) == 0 }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    const FIRST: Policy = Policy { policy: libc::SCHED_RR, priority: 1 };

    fn own() -> Policy {
        Policy::of(gettid().as_raw()).unwrap()
    }

    /// True if this user may hurry; root may, unless it lacks the capability.
    fn may() -> bool {
        let may = !Haste::alone().0.is_empty();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        // CAP_SYS_NICE is number 23 (include/uapi/linux/capability.h).
        let capable = u64::from_str_radix(effective.trim(), 16).unwrap() >> 23 & 1 == 1;
        assert!(may || !capable);
        may
    }

    #[test]
    fn all_of_the_crew_go_first_and_step_back() {
        let usual = own();
        assert!(usual.is_usual());
        let expected = if may() { FIRST } else { usual };
        let crew = Crew::default();
        let ((tell, told), (end, ends)) = (bounded(1), bounded::<()>(0));
        let thread = crew.spawn("member", move || {
            tell.send(gettid().as_raw()).unwrap();
            ends.recv().unwrap_err();
        });
        let member: Tid = told.recv().unwrap();
        {
            let mut haste = Haste::alone();
            let crews = crew.hurry();
            assert_eq!((own(), Policy::of(member).unwrap()), (expected, expected));
            let taken = haste.hand_down();
            let child = std::thread::spawn(move || {
                let inherited = own();
                drop(taken());
                (inherited, own())
            });
            assert_eq!(child.join().unwrap(), (expected, usual), "a child in haste steps back by itself");
            drop(crew.hurry());
            assert_eq!(Policy::of(member).unwrap(), expected, "who goes first already is left alone");
            assert_eq!((haste.pause(own), own()), (usual, expected));
            drop(crews);
        }
        assert_eq!((own(), Policy::of(member).unwrap()), (usual, usual));
        drop(end);
        thread.unwrap().join().unwrap();
        assert!(crew.members().is_empty(), "its tid may be another's now");
    }

    #[test]
    fn who_may_not_hurry_goes_on_as_usual() {
        let (haste, usual) = (Haste(Vec::new()), own());
        let taken = haste.hand_down();
        assert_eq!(std::thread::spawn(move || (taken().0.len(), own())).join().unwrap(), (0, usual));
        assert!(Hurried::begin(-1).is_none());
    }
}
