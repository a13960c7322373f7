#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use super::*;
use crate::sched::event::{Item, ThreadNow};
use crate::sched::state::TaskState;

const MS: u64 = 1_000_000;

/// A folder that looks like procfs, whose threads can be set.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let fake = Fake(tempfile::tempdir().unwrap());
        fake.put("self/schedstat", "1 1 1\n");
        fake.put("stat", "cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 0 100 5 1 1 0 0 0\ncpu8 0 0 0 100 0 0 0 0\nintr 7\n");
        fake
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sums: run and wait in ms, slices.
    fn thread(&self, (pid, tid): (Tid, Tid), state: char, cpu: u32, [run, wait, slices]: [u64; 3]) {
        let fields = format!(
            "{tid} (n) {state} 1 1 1 0 -1 0 0 0 0 0 {run} 0 0 0 20 0 1 0 5 0 1 {} {cpu} 0 0",
            "0 ".repeat(13).trim()
        );
        self.put(&format!("{pid}/task/{tid}/stat"), &fields);
        self.put(&format!("{pid}/task/{tid}/schedstat"), &format!("{} {} {slices}\n", run * MS, wait * MS));
        self.put(&format!("{pid}/task/{tid}/wchan"), "jbd2_log_wait_commit");
    }

    fn proc(&self) -> Proc {
        Proc::at(self.0.path(), 100)
    }

    fn remove(&self, name: &str) {
        fs::remove_dir_all(self.0.path().join(name)).unwrap();
    }
}

/// Truncating writes keep the sampler's open files valid, as the kernel's own do.
fn round(s: &mut Sampler, at_ms: u64) -> Round {
    s.round(at_ms * MS).unwrap()
}

#[test]
fn only_what_moved_is_told_with_exact_sums() {
    let fake = Fake::new();
    fake.thread((10, 10), 'S', 0, [100, 7, 1]);
    fake.thread((10, 11), 'S', 8, [50, 0, 1]);
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    let first = round(&mut s, 50);
    assert_eq!(
        first.threads.iter().map(|t| (t.tid, t.run_ns, t.new)).collect::<Vec<_>>(),
        [(10, 0, true), (11, 0, true)]
    );
    fake.thread((10, 10), 'D', 0, [130, 12, 3]);
    let r = round(&mut s, 100);
    let expected = ThreadSample {
        tid: 10,
        pid: 10,
        cpu: Some(0),
        state: b'D',
        prio: 120,
        run_ns: 30 * MS,
        wait_ns: 5 * MS,
        wchan: b"jbd2_log_wait_commit".to_vec(),
        new: false,
        named: None,
    };
    assert_eq!((r.from, r.to, r.threads), (50 * MS, 100 * MS, vec![expected]));
    assert_eq!(round(&mut s, 150).threads, [], "asleep all the while");
}

#[test]
fn cpus_are_those_online_by_id() {
    let fake = Fake::new();
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    fake.put("stat", "cpu  9 9 9 9\ncpu0 12 0 1 100 8 1 2 0 0 0\nintr 7\ncpu77 1 1 1 1 1\n");
    let cpus = round(&mut s, 50).cpus;
    assert_eq!(cpus, [CpuSample { cpu: 0, busy_ns: 40 * MS, iowait_ns: 30 * MS, irq_ns: 10 * MS }]);
}

#[test]
fn a_wait_that_goes_on_is_told_each_round_and_not_again_when_booked() {
    let fake = Fake::new();
    fake.thread((10, 10), 'R', 0, [0, 0, 0]);
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    assert_eq!(round(&mut s, 50).threads[0].wait_ns, 50 * MS);
    assert_eq!(round(&mut s, 100).threads[0].wait_ns, 50 * MS);
    // It waited 110 ms in all and then ran 5.
    fake.thread((10, 10), 'S', 0, [5, 110, 1]);
    let t = &round(&mut s, 150).threads[0];
    assert_eq!((t.wait_ns, t.run_ns), (10 * MS, 5 * MS));
}

#[test]
fn threads_come_and_go_and_ids_are_reused() {
    let fake = Fake::new();
    fake.thread((10, 10), 'S', 0, [0, 0, 0]);
    fake.thread((10, 11), 'S', 0, [7, 0, 1]);
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    round(&mut s, 50);
    fake.remove("10/task/11");
    // 11 comes back under another process, between two looks; 12 is new.
    fake.thread((20, 11), 'S', 0, [3, 0, 1]);
    fake.thread((20, 12), 'S', 0, [2, 1, 1]);
    let mut told = Vec::new();
    for i in 2..=DISCOVER_EVERY + 1 {
        told.extend(round(&mut s, 50 * i).threads);
    }
    let new: Vec<_> = told.iter().filter(|t| t.new).map(|t| (t.pid, t.tid, t.run_ns, t.wait_ns)).collect();
    assert_eq!(new, [(20, 11, 3 * MS, 0), (20, 12, 2 * MS, MS)], "all of a new one's sums count");
    fake.remove("20");
    let gone: Vec<Tid> = (0..DISCOVER_EVERY).flat_map(|i| round(&mut s, 600 + 50 * i).gone).collect();
    assert_eq!(gone, [11, 12]);
    assert_eq!(s.threads(), 1);
}

#[test]
fn without_schedstat_clock_ticks_serve() {
    let fake = Fake::new();
    fake.remove("self");
    fake.thread((10, 10), 'S', 0, [100, 0, 0]);
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    round(&mut s, 50);
    fake.thread((10, 10), 'S', 0, [103, 9, 0]);
    let r = round(&mut s, 100);
    assert!(!r.exact);
    assert_eq!((r.threads[0].run_ns, r.threads[0].wait_ns), (30 * MS, 0), "3 ticks of 10 ms");
}

fn sample(tid: Tid, state: u8, cpu: u32, run_ms: u64, wait_ms: u64) -> ThreadSample {
    let (run_ns, wait_ns) = (run_ms * MS, wait_ms * MS);
    ThreadSample { tid, pid: tid, cpu: Some(cpu), state, prio: 120, run_ns, wait_ns, ..ThreadSample::default() }
}

fn of(from_ms: u64, threads: Vec<ThreadSample>) -> Round {
    let cpus = vec![CpuSample { cpu: 0, ..CpuSample::default() }];
    Round { from: from_ms * MS, to: (from_ms + 50) * MS, threads, cpus, exact: true, ..Round::default() }
}

/// Items in ms: `cpu0=7@10`, `t7 ready@5`.
fn told(items: &[Item]) -> Vec<String> {
    let mut out = Vec::new();
    for item in items {
        out.push(match item {
            Item::CpuState { ts, cpu, tid, .. } => format!("cpu{cpu}={tid}@{}", ts / MS),
            Item::ThreadState { ts, tid, state, .. } => match state {
                ThreadNow::Runnable => format!("t{tid} ready@{}", ts / MS),
                ThreadNow::Blocked(s) => format!("t{tid} {}@{}", s.letters(), ts / MS),
                other => format!("t{tid} {other:?}@{}", ts / MS),
            },
            Item::CpuOnline { ts, cpu, online } => format!("cpu{cpu} online={online}@{}", ts / MS),
            other => format!("{other:?}"),
        });
    }
    out
}

#[test]
fn a_run_is_laid_out_with_its_wait_before_it() {
    let mut l = Layout::new();
    let items = l.lay_out(&of(0, vec![sample(7, b'S', 0, 10, 0), sample(8, b'S', 0, 20, 4)]));
    assert_eq!(
        told(&items),
        ["cpu0 online=true@0", "cpu0=7@0", "t8 ready@6", "cpu0=8@10", "t7 S@10", "cpu0=0@30", "t8 S@30"]
    );
}

#[test]
fn who_runs_still_comes_last_and_goes_on_first() {
    let mut l = Layout::new();
    let items = l.lay_out(&of(0, vec![sample(7, b'R', 0, 10, 0)]));
    assert_eq!(told(&items), ["cpu0 online=true@0", "cpu0=0@0", "cpu0=7@40"]);
    let items = l.lay_out(&of(50, vec![sample(5, b'S', 0, 10, 0), sample(7, b'S', 0, 20, 0)]));
    assert_eq!(told(&items), ["cpu0=5@70", "t7 S@70", "cpu0=0@80", "t5 S@80"], "7 simply went on until 70");
}

#[test]
fn ready_without_running() {
    let mut l = Layout::new();
    let items = l.lay_out(&of(0, vec![sample(7, b'R', 0, 0, 50), sample(8, b'R', 0, 50, 0)]));
    assert_eq!(told(&items), ["cpu0 online=true@0", "cpu0=8@0", "t7 ready@0"]);
}

#[test]
fn what_finds_no_room_is_carried_so_that_shares_stay_exact() {
    let mut l = Layout::new();
    // 90 ms of run on one CPU in 50 ms: one of them was read late.
    let mut items = l.lay_out(&of(0, vec![sample(7, b'S', 0, 45, 0), sample(8, b'S', 0, 45, 0)]));
    items.extend(l.lay_out(&of(50, vec![sample(7, b'S', 0, 1, 0), sample(8, b'S', 0, 1, 0)])));
    let (mut ran, mut running, mut since) = (FxHashMap::<Tid, u64>::default(), 0, 0);
    for item in &items {
        if let Item::CpuState { ts, tid, .. } = item {
            *ran.entry(running).or_default() += ts - since;
            (running, since) = (*tid, *ts);
        }
    }
    assert_eq!((ran[&7], ran[&8]), (46 * MS, 46 * MS));
}

#[test]
fn cpus_that_go_offline_and_threads_that_end() {
    let mut l = Layout::new();
    l.lay_out(&of(0, vec![sample(7, b'S', 0, 10, 0)]));
    let mut r = of(50, Vec::new());
    r.cpus = vec![CpuSample { cpu: 3, ..CpuSample::default() }];
    r.gone = vec![7];
    assert_eq!(told(&l.lay_out(&r)), ["cpu0 online=false@50", "cpu3 online=true@50", "cpu3=0@50", "t7 Unknown@100"]);
}

#[test]
fn the_fold_gets_the_measured_shares() {
    use crate::sched::fold::{Folder, Interval, Sink};
    #[derive(Default)]
    struct Sums(FxHashMap<(u32, &'static str), u64>);
    impl Sink for Sums {
        fn interval(&mut self, i: &Interval) {
            let state = match i.state {
                ThreadNow::Running => "run",
                ThreadNow::Runnable => "ready",
                ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE) => "D",
                _ => return,
            };
            *self.0.entry((i.utid, state)).or_default() += i.end.unwrap_or(i.start) - i.start;
        }
    }
    let (mut fold, mut sums, mut l) = (Folder::new(), Sums::default(), Layout::new());
    fold.push(&Item::Sampled { hz: 20 }, &mut sums);
    // 20 rounds: 7 runs 30 and waits 10 of each 50 ms, 8 runs 15 and is in D otherwise.
    for i in 0..20 {
        for item in l.lay_out(&of(50 * i, vec![sample(7, b'S', 0, 30, 10), sample(8, b'D', 0, 15, 0)])) {
            fold.push(&item, &mut sums);
        }
    }
    fold.push(&Item::CompleteThrough { ts: 1000 * MS }, &mut sums);
    // Which lives the fold gave them: in the order in which it heard of them, after the idle thread.
    let run: Vec<u64> = (1..=2).map(|utid| sums.0.get(&(utid, "run")).copied().unwrap_or(0)).collect();
    assert_eq!(run.iter().sum::<u64>(), 20 * 45 * MS, "{:?}", sums.0);
    assert!(run.contains(&(20 * 30 * MS)) && run.contains(&(20 * 15 * MS)), "{run:?}");
    let ready: u64 = (1..=2).filter_map(|utid| sums.0.get(&(utid, "ready"))).sum();
    assert_eq!(ready, 20 * 10 * MS);
    let d: u64 = (1..=2).filter_map(|utid| sums.0.get(&(utid, "D"))).sum();
    // Each round's D goes on until 8 runs again, 30 ms into the next; the last one's is open still.
    assert_eq!(d, 19 * 35 * MS);
}

#[test]
fn a_real_busy_thread_has_its_share() {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (tell, told) = std::sync::mpsc::channel();
    let busy = std::thread::spawn({
        let stop = stop.clone();
        move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
    });
    let tid = told.recv().unwrap();
    let pid = Tid::try_from(std::process::id()).unwrap();
    let proc = Proc::system();
    let before = proc.schedstat(pid, tid).unwrap();
    let boot = || {
        let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
        t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
    };
    let mut s = Sampler::new(proc.clone(), boot()).unwrap();
    let mut sum = 0;
    for _ in 0..6 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let r = s.round(boot()).unwrap();
        sum += r.threads.iter().filter(|t| t.tid == tid).map(|t| t.run_ns).sum::<u64>();
        assert!(r.exact && !r.cpus.is_empty());
    }
    let after = proc.schedstat(pid, tid).unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().unwrap();
    // The sampler's first and last reads lie between these two.
    assert!(sum > 0 && sum <= after.run_ns - before.run_ns, "{sum}");
}

#[test]
fn what_is_no_procfs_is_an_error() {
    assert!(Sampler::new(Proc::at(Path::new("/nonexistent"), 100), 0).is_err());
}

#[test]
fn the_thread_that_looks_sleeps_between_looks() {
    let own = nix::unistd::gettid().as_raw();
    let fake = Fake::new();
    fake.thread((own, own), 'R', 0, [1, 0, 1]);
    let mut s = Sampler::new(fake.proc(), 0).unwrap();
    round(&mut s, 50);
    fake.thread((own, own), 'R', 0, [3, 0, 2]);
    let t = &round(&mut s, 100).threads[0];
    assert_eq!((t.run_ns, t.wait_ns, t.state), (2 * MS, 0, b'S'));
}

/// The real procfs: a thread that spins has in the states laid out the time that the kernel counted.
#[test]
fn a_spinning_threads_run_time_is_what_schedstat_counts() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

    let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
    let (theirs, told) = (stop.clone(), tid.clone());
    let spinner = std::thread::spawn(move || {
        told.store(nix::unistd::gettid().as_raw(), Ordering::Release);
        while !theirs.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    while tid.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    // What finds no room on the CPU that a thread is met on waits for the next look; where much else runs, for long.
    let tries: Vec<Spun> = (0..5).map(|_| spun(tid.load(Ordering::Acquire))).collect();
    stop.store(true, Ordering::Relaxed);
    spinner.join().unwrap();
    assert!(tries.iter().all(|t| t.ran <= t.most + t.room), "more than the kernel counted: {tries:?}");
    assert!(tries.iter().any(|t| t.ran + t.room >= t.least), "{tries:?}");
    assert!(tries.iter().all(|t| t.most > 0), "it ran");
}

/// Run time of a thread by the states laid out, and by the kernel's own count, ns.
#[derive(Debug)]
struct Spun {
    ran: u64,
    /// What the kernel counts at least and at most between the first look and the last, whoever is pushed off a CPU meanwhile.
    least: u64,
    most: u64,
    room: u64,
}

fn spun(tid: Tid) -> Spun {
    let (proc, pid) = (Proc::system(), Tid::try_from(std::process::id()).unwrap());
    let start = std::time::Instant::now();
    let now = || u64::try_from(start.elapsed().as_nanos()).unwrap();
    let counted = || proc.schedstat(pid, tid).unwrap().run_ns;
    let before = counted();
    let from = now();
    let mut s = Sampler::new(proc.clone(), from).unwrap();
    let began = counted();
    let mut layout = Layout::new();
    let (mut items, mut ends, mut to) = (Vec::new(), before, from);
    for _ in 0..12 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        (ends, to) = (counted(), now());
        items.extend(layout.lay_out(&s.round(to).unwrap()));
    }
    let after = counted();
    // On a CPU from the state that says so until the next one of that CPU or of the thread.
    let (mut ran, mut on) = (0, None::<(u32, u64)>);
    for item in &items {
        let (ts, cpu_now, leaves) = match *item {
            Item::CpuState { ts, cpu, tid: t, .. } => (ts, (t == tid).then_some(cpu), on.is_some_and(|o| o.0 == cpu)),
            Item::ThreadState { ts, tid: t, .. } => (ts, None, t == tid),
            _ => continue,
        };
        if let Some((_, since)) = on.filter(|_| leaves || cpu_now.is_some()) {
            ran += ts - since;
            on = None;
        }
        on = cpu_now.map(|cpu| (cpu, ts)).or(on);
    }
    ran += on.map_or(0, |(_, since)| to - since);
    Spun { ran, least: ends - began, most: after - before, room: (to - from) / 50 }
}
