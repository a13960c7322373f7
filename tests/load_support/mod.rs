//! Threads that load a machine in known ways, for tests that record it.

#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A program that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|s| s.is_none()) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

pub fn named(name: &str, body: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(body).unwrap()
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

/// CPUs that are never idle: on each a thread that runs only when no other wants to.
///
/// Some virtual machines' kernels do not trace the switches of some threads, the idle threads of some CPUs among them (seen
/// on 6.18, with ftrace and perf alike): whoever comes to such a CPU comes untraced. And a run that begins on an idle CPU
/// begins, for the kernel, tens of microseconds before its switch is recorded.
pub struct NeverIdle(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl NeverIdle {
    /// Returns when no CPU can become idle any more. The threads are called `name`.
    pub fn start(name: &str) -> NeverIdle {
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
            named(name, body)
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
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let layout = std::alloc::Layout::from_size_align(block, 4096).unwrap();
    // SAFETY: no caller wants blocks of size zero; the memory is freed with the same layout below.
    let buffer = unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), layout.size()) };
    let blocks = file.metadata().unwrap().len() as usize / block;
    for i in 0..times {
        file.read_exact_at(buffer, (i % blocks * block) as u64).unwrap();
        then(buffer);
    }
    // SAFETY: allocated above with this layout.
    unsafe { std::alloc::dealloc(buffer.as_mut_ptr(), layout) };
}
