//! Threads and processes of known behaviour.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::kernel_says::{Counted, counted};

pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// CPUs this test may run on.
pub fn cpus() -> Vec<usize> {
    let all = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    (0..nix::sched::CpuSet::count()).filter(|&cpu| all.is_set(cpu).unwrap()).collect()
}

pub fn pin(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

pub fn scheduled_as(policy: i32, priority: i32) {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid policy and parameter for the calling thread.
    assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &param) }, 0);
}

pub fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
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

/// CPUs that are never idle: on each a thread that runs only when no other wants to.
///
/// Some virtual machines' kernels do not trace the switches of some threads, the idle threads of some CPUs among them (seen
/// on 6.18, with ftrace and perf alike): whoever comes to such a CPU comes untraced. And a run that begins on an idle CPU
/// begins, for the kernel, tens of microseconds before its switch is recorded.
pub struct NeverIdle(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl NeverIdle {
    /// Returns when no CPU can become idle any more.
    pub fn start() -> NeverIdle {
        let (done, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let spin = |cpu| {
            let (done, running) = (done.clone(), running.clone());
            let body = move || {
                pin(cpu);
                scheduled_as(libc::SCHED_IDLE, 0);
                running.fetch_add(1, Ordering::Relaxed);
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // A name of its own: the kernel's text tells threads by name.
            thread::Builder::new().name("never-idle".into()).spawn(body).unwrap()
        };
        let threads: Vec<_> = cpus().into_iter().map(spin).collect();
        while running.load(Ordering::Relaxed) < threads.len() {
            thread::sleep(Duration::from_millis(1));
        }
        NeverIdle(done, threads)
    }
}

impl Drop for NeverIdle {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|t| t.join().unwrap());
    }
}

/// Blocked in D: reads blocks (whole pages) past the page cache, and does something with each.
pub fn direct_reads(path: &Path, block: usize, times: usize, mut then: impl FnMut(&[u8])) {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let layout = std::alloc::Layout::from_size_align(block, 4096).unwrap();
    // SAFETY: no caller wants blocks of size zero; the memory is freed with the same layout below.
    let buffer = unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), layout.size()) };
    for i in 0..times {
        file.read_at(buffer, (i * block % (8 << 20)) as u64).unwrap();
        then(buffer);
    }
    // SAFETY: allocated above with this layout.
    unsafe { std::alloc::dealloc(buffer.as_mut_ptr(), layout) };
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
