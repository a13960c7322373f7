//! Threads and processes of known behaviour.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::kernel_says::{Counted, counted};

pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// A thread that began, and stays asleep at its end until the recording is over.
pub struct Life {
    told: mpsc::Receiver<i32>,
    release: mpsc::Sender<()>,
}

impl Life {
    pub fn start(body: impl FnOnce() + Send + 'static) -> Life {
        let (tell, told) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        thread::spawn(move || {
            // A child that ends while its maker, in `spawn`, blocks all signals: its SIGCHLD wakes any other thread.
            nix::sys::signal::SigSet::all().thread_block().unwrap();
            body();
            tell.send(gettid()).unwrap();
            let _ = released.recv();
        });
        Life { told, release }
    }

    /// Its tid and the kernel's numbers of its whole life, once it has done everything.
    pub fn lived(self) -> (i32, Counted) {
        let tid = self.told.recv().unwrap();
        let task = PathBuf::from(format!("/proc/self/task/{tid}"));
        // Asleep in `recv`: its last switch is done and its numbers stand still.
        while !fs::read_to_string(task.join("stat")).unwrap().contains(") S ") {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(5));
        let numbers = counted(&task);
        // Never let go, so that its end is not in the recording.
        std::mem::forget(self.release);
        (tid, numbers)
    }
}

/// Sums the block up again and again for `time`: as fast or slow as it is compiled, it takes as long.
pub fn sum_up(block: &[u8], time: Duration) {
    let end = Instant::now() + time;
    let mut sum = 0u64;
    for chunk in block.chunks(4096).cycle() {
        sum = chunk.iter().fold(sum, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
        if Instant::now() >= end {
            break;
        }
    }
    std::hint::black_box(sum);
}

/// Processes that one thread started one behind the other. None is gone before its numbers were looked at.
pub struct Children {
    /// The thread that started them, and nothing else.
    pub starter: i32,
    zombies: Vec<Child>,
}

impl Children {
    /// Starts `true`, so many times.
    pub fn run(count: usize) -> thread::JoinHandle<Children> {
        use nix::sys::wait::{Id, WaitPidFlag, waitid};
        thread::spawn(move || {
            let one = |_| {
                let child = Command::new("true").spawn().unwrap();
                let id = Id::Pid(nix::unistd::Pid::from_raw(child.id().try_into().unwrap()));
                waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
                child
            };
            Children { starter: gettid(), zombies: (0..count).map(one).collect() }
        })
    }

    /// What the kernel counted of each, by pid; then they are gone.
    pub fn buried(self) -> BTreeMap<i32, Counted> {
        let bury = |mut child: Child| {
            let pid = i32::try_from(child.id()).unwrap();
            let numbers = counted(Path::new(&format!("/proc/{pid}")));
            assert!(child.wait().unwrap().success());
            (pid, numbers)
        };
        self.zombies.into_iter().map(bury).collect()
    }
}
