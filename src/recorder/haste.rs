//! Haste: whoever asks for a snapshot waits for it, mostly on a machine that is short of CPU time just then.
//!
//! A snapshot is some 50 ms of copying. Beside hundreds of busy threads a thread of usual priority gets them in half a
//! second. So the thread that copies is put first (nice -20, still below real-time threads) for just that long.

use nix::errno::Errno;

/// The calling thread is put first until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Haste {
    /// Its nice value before; `None`: this user may not change it, and nothing was changed.
    usual: Option<i32>,
    /// It is of one thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Haste {
    /// Puts the calling thread first if this user may do that (CAP_SYS_NICE or RLIMIT_NICE).
    pub fn begin() -> Haste {
        let usual = niceness().filter(|_| be_nice(-20));
        Haste { usual, _here: std::marker::PhantomData }
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        if let Some(usual) = self.usual {
            be_nice(usual);
        }
    }
}

/// The nice value of the calling thread. Linux keeps one for each thread (setpriority(2), "C library/kernel differences").
fn niceness() -> Option<i32> {
    // -1 is a nice value, too.
    Errno::clear();
    // SAFETY: no memory is involved.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    (nice != -1 || Errno::last_raw() == 0).then_some(nice)
}

fn be_nice(nice: i32) -> bool {
    // SAFETY: as above.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_in_haste_is_first_until_it_is_done_and_no_other_is() {
        let before = niceness();
        assert!(before.is_some());
        let allowed = {
            let haste = Haste::begin();
            let allowed = haste.usual.is_some();
            assert_eq!(niceness(), if allowed { Some(-20) } else { before });
            // A thread that is started meanwhile begins as its starter is.
            assert_eq!(std::thread::spawn(niceness).join().ok(), Some(niceness()));
            allowed
        };
        assert_eq!(niceness(), before);
        assert_eq!(std::thread::spawn(niceness).join().ok(), Some(before));
        // Root may, unless it lacks the capability.
        let root = nix::unistd::geteuid().is_root();
        assert!(allowed || !root || !caps_sys_nice());
    }

    /// CAP_SYS_NICE is number 23 (include/uapi/linux/capability.h).
    fn caps_sys_nice() -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|caps| caps >> 23 & 1 == 1)
    }
}
