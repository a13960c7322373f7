//! The recorder on the real kernel, through its command line. Needs root; fails, not skips, without tracefs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::feed;
use dashcam::recorder::clock::boot_now;
use dashcam::sched::event::{EventKind, Item, Loss, ThreadNow};
use dashcam::sched::fold::{Consumer, Folding, Interval, Sink};
use dashcam::sched::state::TaskState;
use dashcam::store::Store;
use dashcam::store::reader::read_footer;
use dashcam::store::verify::verify;

const S: u64 = 1_000_000_000;
const ROOT: &str = "/sys/kernel/tracing";

/// Held by tests that make much load, or that much load of others would make long.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed while it held it is over all the same.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store in a folder of its own, recorded through an instance of its own.
struct Bed {
    dir: tempfile::TempDir,
    instance: String,
}

impl Bed {
    fn new(name: &str) -> Bed {
        assert!(Path::new(ROOT).join("instances").is_dir(), "these tests need root and tracefs at {ROOT}");
        let instance = format!("dashcam-test-{}-{name}", std::process::id());
        Bed { dir: tempfile::tempdir().unwrap(), instance }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self) -> Command {
        self.told(Command::new(env!("CARGO_BIN_EXE_dashcam")))
    }

    /// The recorder itself goes first, as under systemd (`Nice=` in the unit): that it is at most a second behind must not hang
    /// on what else this machine does.
    fn recorder(&self) -> Command {
        let mut c = Command::new("nice");
        c.args(["-n", "-15", env!("CARGO_BIN_EXE_dashcam")]);
        let mut c = self.told(c);
        c.arg("record");
        c
    }

    fn told(&self, mut c: Command) -> Command {
        c.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_DIR").env_remove("DASHCAM_LOG");
        c.arg("--dir").arg(self.path()).arg("--instance").arg(&self.instance);
        c
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn start(&self) -> Running {
        self.start_with(&[])
    }

    fn start_with(&self, args: &[&str]) -> Running {
        let child = self.recorder().args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running { child };
        let end = Instant::now() + Duration::from_secs(60);
        while !self.path().join("dashcam.pid").exists() {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("the recorder ended: {status} {}", running.stderr());
            }
            assert!(Instant::now() < end, "the recorder does not get ready");
            thread::sleep(Duration::from_millis(5));
        }
        running
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["status", "--json"])).unwrap()
    }

    fn load(&self) -> Seen {
        load(&[self.path().to_owned()])
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.path().join("snapshots")).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Only there when a test failed half-way.
        let _ = fs::remove_dir(Path::new(ROOT).join("instances").join(&self.instance));
    }
}

struct Running {
    child: Child,
}

impl Running {
    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// TERM, and what it had said.
    fn stop(mut self) -> String {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        let said = self.stderr();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

/// A load in a process group of its own, that ends with its owner.
struct Killed(Child);

impl Killed {
    /// Two processes that wake each other through pipes, started by the command `before`.
    fn pipe(before: &[&str]) -> Killed {
        let words = [before, &["perf", "bench", "sched", "pipe", "-l", "1000000000"]].concat();
        let mut command = Command::new(words[0]);
        Killed(command.args(&words[1..]).stdout(Stdio::null()).process_group(0).spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|s| s.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a thread did, told by switches alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Did {
    run_ns: u64,
    voluntary: u64,
    involuntary: u64,
    blocked_d: u64,
    /// Runs whose begin was not traced.
    untraced: u64,
}

#[derive(Default)]
struct Seen {
    threads: HashMap<i32, Did>,
    running: HashMap<u32, (i32, u64)>,
    /// CPU and instant of each.
    switches: Vec<(u32, u64)>,
    losses: Vec<Loss>,
    gaps: usize,
    processes: HashMap<i32, String>,
    new_tasks: HashMap<String, usize>,
    marks: Vec<String>,
    functions: Vec<(i32, String)>,
    pending: Vec<Item>,
    through: u64,
    last: u64,
    disordered: usize,
}

impl Consumer for Seen {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Event(e) => {
                self.disordered += usize::from(e.ts < self.last);
                self.last = self.last.max(e.ts);
                match e.kind {
                    EventKind::Switch(s) => {
                        self.switches.push((e.cpu, e.ts));
                        let came = self.running.insert(e.cpu, (s.next_tid, e.ts));
                        let left = s.prev_tid.or(came.map(|c| c.0));
                        let Some(tid) = left else { return };
                        let did = self.threads.entry(tid).or_default();
                        // Now and then the kernel traces a switch for nobody: who left is right all the same, when it
                        // came is then not known.
                        match came.filter(|c| c.0 == tid) {
                            Some((_, since)) => did.run_ns += e.ts - since,
                            None => did.untraced += 1,
                        }
                        match s.prev_state {
                            state if state.is_runnable() => did.involuntary += 1,
                            state => {
                                did.voluntary += 1;
                                did.blocked_d += u64::from(state.contains(TaskState::UNINTERRUPTIBLE));
                            }
                        }
                    }
                    EventKind::NewTask { .. } | EventKind::Print { .. } | EventKind::BlockedReason { .. } => {
                        self.pending.push(item.clone());
                    }
                    _ => {}
                }
            }
            Item::Loss(loss) => self.losses.push(*loss),
            Item::Gap { .. } => self.gaps += 1,
            Item::CompleteThrough { ts } => self.through = *ts,
            Item::Process(_) => self.pending.push(item.clone()),
            _ => {}
        }
    }
}

fn load(paths: &[PathBuf]) -> Seen {
    let mut seen = Seen::default();
    let loaded = feed::load(paths, None, &mut seen, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.damage, [] as [String; 0]);
    let names = loaded.names;
    for item in std::mem::take(&mut seen.pending) {
        match item {
            Item::Process(p) => drop(seen.processes.insert(p.pid, names.text(p.name))),
            Item::Event(e) => match e.kind {
                EventKind::NewTask { comm, .. } => *seen.new_tasks.entry(names.text(comm)).or_default() += 1,
                EventKind::Print { text } => seen.marks.push(names.text(text)),
                EventKind::BlockedReason { tid, function, .. } => seen.functions.push((tid, names.text(function))),
                _ => {}
            },
            _ => {}
        }
    }
    seen
}

/// schedstat and context switches of a thread of this process, as the kernel has them.
fn kernel_says(tid: i32) -> (u64, u64, u64) {
    let dir = PathBuf::from(format!("/proc/self/task/{tid}"));
    let schedstat = fs::read_to_string(dir.join("schedstat")).unwrap();
    let status = fs::read_to_string(dir.join("status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().parse().unwrap()
    };
    let run = schedstat.split(' ').next().unwrap().parse().unwrap();
    (run, field("voluntary_ctxt_switches"), field("nonvoluntary_ctxt_switches"))
}

/// What the hypervisor took from this machine's CPUs, ns. schedstat leaves it out (PARAVIRT_TIME_ACCOUNTING), switches
/// cannot see it.
fn stolen() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.lines().next().unwrap().split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * 10_000_000
}

fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}

fn pin(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Runs `body` on a new thread that stays asleep at its end until it was looked at; its numbers of its whole life.
fn life(body: impl FnOnce() + Send + 'static) -> impl FnOnce() -> (i32, (u64, u64, u64)) {
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        body();
        tell.send(gettid()).unwrap();
        let _ = released.recv();
    });
    move || {
        let tid = told.recv().unwrap();
        // Asleep in `recv`: its last switch is done and its numbers stand still.
        while !fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap().contains(") S ") {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(5));
        let numbers = kernel_says(tid);
        // It is let go only when the recording is over, so that its end is not in it.
        std::mem::forget(release);
        std::mem::forget(thread);
        (tid, numbers)
    }
}

/// CPUs that are never idle: on each a thread that runs only when no other wants to.
///
/// Some virtual machines' kernels do not trace the switches of some threads, the idle threads of some CPUs among them (seen
/// on 6.18, with ftrace and perf alike): whoever comes to such a CPU comes untraced. And a run that begins on an idle CPU
/// begins, for the kernel, tens of microseconds before its switch is recorded.
struct NeverIdle(std::sync::Arc<std::sync::atomic::AtomicBool>, Vec<thread::JoinHandle<()>>);

impl NeverIdle {
    fn start() -> NeverIdle {
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let online = thread::available_parallelism().unwrap().get();
        let spin = |_| {
            let done = done.clone();
            let body = move || {
                let param = libc::sched_param { sched_priority: 0 };
                // SAFETY: a valid policy and parameter for the calling thread.
                assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) }, 0);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // A name of its own: the kernel's text tells threads by name.
            thread::Builder::new().name("never-idle".into()).spawn(body).unwrap()
        };
        let threads = (0..online).map(spin).collect();
        NeverIdle(done, threads)
    }
}

impl Drop for NeverIdle {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        self.1.drain(..).for_each(|t| t.join().unwrap());
    }
}

/// Blocked in D: reads past the page cache.
fn direct_reads(path: &Path, times: usize) {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let layout = std::alloc::Layout::from_size_align(1 << 20, 4096).unwrap();
    // SAFETY: the layout is not of size zero; the memory is freed with the same layout below.
    let buffer = unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), layout.size()) };
    for i in 0..times {
        file.read_at(buffer, (i as u64 % 8) << 20).unwrap();
    }
    // SAFETY: allocated above with this layout.
    unsafe { std::alloc::dealloc(buffer.as_mut_ptr(), layout) };
}

/// A second tracefs instance, read as the text that the kernel itself prints: what was traced, whatever we make of it.
struct KernelText(PathBuf);

impl KernelText {
    /// Traces what the threads of the calling test leave their CPUs for: its thread has its name, and those it starts
    /// inherit that.
    fn start() -> KernelText {
        let comm = fs::read_to_string("/proc/thread-self/comm").unwrap();
        let name = format!("dashcam-text-{}-{}", std::process::id(), gettid());
        let dir = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&dir).unwrap();
        let text = KernelText(dir);
        for (file, value) in [
            ("buffer_size_kb", "4096"),
            ("events/sched/sched_switch/filter", &format!("prev_comm == \"{}\"", comm.trim_end())),
            ("events/sched/sched_switch/enable", "1"),
            ("tracing_on", "1"),
        ] {
            fs::write(text.0.join(file), value).unwrap();
        }
        text
    }

    /// (voluntary, involuntary) switches out of each thread.
    fn stop(self) -> BTreeMap<i32, (u64, u64)> {
        fs::write(self.0.join("tracing_on"), "0").unwrap();
        let mut out: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        for line in String::from_utf8_lossy(&fs::read(self.0.join("trace")).unwrap()).lines() {
            let Some((_, rest)) = line.split_once(" prev_pid=") else { continue };
            let Some((pid, rest)) = rest.split_once(' ') else { continue };
            let Some((_, state)) = rest.split_once(" prev_state=") else { continue };
            let counts = out.entry(pid.parse().unwrap()).or_default();
            if state.starts_with('R') { counts.1 += 1 } else { counts.0 += 1 }
        }
        out
    }
}

impl Drop for KernelText {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("tracing_on"), "0");
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_numbers_are_those_of_the_kernel() {
    let _alone = alone();
    let bed = Bed::new("numbers");
    let text = KernelText::start();
    let big = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("direct-io");
    fs::write(&big, vec![7u8; 8 << 20]).unwrap();
    fs::File::open(&big).unwrap().sync_all().unwrap();
    let recorder = bed.start();
    let _busy = NeverIdle::start();
    let stolen_before = stolen();
    let duty = || {
        for _ in 0..30 {
            spin(Duration::from_millis(30));
            thread::sleep(Duration::from_millis(20));
        }
    };
    let pinned = || {
        pin(0);
        spin(Duration::from_millis(700));
    };
    let fifo = || {
        pin(0);
        let param = libc::sched_param { sched_priority: 10 };
        // SAFETY: a valid policy and parameter for the calling thread.
        assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) }, 0);
        for _ in 0..50 {
            spin(Duration::from_millis(1));
            thread::sleep(Duration::from_millis(5));
        }
    };
    let path = big.clone();
    let io = move || {
        // Kernel symbols are read beside the recording; not optimised, that takes its time.
        thread::sleep(Duration::from_secs(4));
        direct_reads(&path, 64);
    };
    let lives = [
        ("spin 30 ms, sleep 20 ms", Box::new(life(duty)) as Box<dyn FnOnce() -> _>),
        ("pinned to CPU 0", Box::new(life(pinned))),
        ("pinned to CPU 0 too", Box::new(life(pinned))),
        ("SCHED_FIFO", Box::new(life(fifo))),
        ("direct I/O", Box::new(life(io))),
    ];
    let children: Vec<_> = (0..200).map(|_| Command::new("true").status().unwrap()).collect();
    assert!(children.iter().all(|s| s.success()));
    let told: Vec<_> = lives.map(|(what, life)| (what, life())).into_iter().collect();
    let stolen = stolen() - stolen_before;
    let traced = text.stop();
    let said = recorder.stop();
    let seen = bed.load();
    assert_eq!((seen.losses.len(), seen.gaps, seen.disordered), (0, 0, 0), "{said}");
    for (what, (tid, (run, voluntary, involuntary))) in told {
        let did = seen.threads[&tid];
        assert_eq!((did.voluntary, did.involuntary), traced[&tid], "{what}: as the kernel prints it {did:?}");
        // What was not traced (see `NeverIdle`) cannot be counted; then the kernel's own text is the only judge.
        let whole = traced[&tid] == (voluntary, involuntary) && did.untraced == 0;
        if !whole {
            eprintln!(
                "{what}: {voluntary} + {involuntary} switches, traced {:?}, coming not {}",
                traced[&tid], did.untraced
            );
        }
        // For the kernel a run begins and ends a little before its switches are recorded: of short runs that is more than 1 %.
        let slack = (run / 100).max(20_000 * (voluntary + involuntary));
        // What the hypervisor takes is in the switches' times and not in schedstat's.
        let right = (run.saturating_sub(slack)..=run + slack + stolen).contains(&did.run_ns);
        assert!(right || !whole, "{what}: {did:?}, schedstat {run}, stolen {stolen}");
        match what {
            "pinned to CPU 0" => assert!(involuntary > 0),
            "SCHED_FIFO" => assert!(voluntary >= 50),
            "direct I/O" => {
                assert!(did.blocked_d > 0);
                let functions: Vec<&str> = seen.functions.iter().filter(|f| f.0 == tid).map(|f| f.1.as_str()).collect();
                assert_eq!(functions.len() as u64, did.blocked_d, "one reason for every D");
                assert!(functions.iter().all(|f| !f.is_empty() && !f.contains("schedule")), "{functions:?}");
            }
            _ => {}
        }
    }
    assert!(seen.new_tasks.values().sum::<usize>() >= 200);
    let own = std::process::id() as i32;
    assert!(seen.processes[&own].starts_with("kernel_record"), "{:?}", seen.processes[&own]);
}

#[test]
fn perf_sees_the_same_switches() {
    let _alone = alone();
    let bed = Bed::new("perf");
    let data = bed.path().join("perf.data");
    let recorder = bed.start();
    let load = Killed::pipe(&[]);
    let perf = Command::new("perf")
        // Ahead of everything else, and with large buffers: what perf loses cannot be compared.
        .args([
            "record",
            "-q",
            "-a",
            "-r",
            "5",
            "-m",
            "4096",
            "-k",
            "CLOCK_MONOTONIC",
            "-e",
            "sched:sched_switch",
            "-o",
        ])
        .arg(&data)
        .args(["--", "sleep", "1.5"])
        .output()
        .unwrap();
    assert!(perf.status.success(), "{}", String::from_utf8_lossy(&perf.stderr));
    drop(load);
    recorder.stop();
    let script = Command::new("perf").args(["script", "--ns", "-F", "cpu,time", "-i"]).arg(&data).output().unwrap();
    let text = String::from_utf8(script.stdout).unwrap();
    // Tracepoints cannot be stamped with the boot clock by perf; the machine does not sleep meanwhile.
    let mono = dashcam::recorder::clock::mono_now();
    let slept = boot_now() - mono;
    let mut theirs: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for line in text.lines() {
        let (cpu, time) = line.trim().trim_end_matches(':').split_once(' ').unwrap();
        let (s, ns) = time.trim().split_once('.').unwrap();
        let ts = s.parse::<u64>().unwrap() * S + ns.parse::<u64>().unwrap() + slept;
        theirs.entry(cpu.trim_matches(['[', ']']).parse().unwrap()).or_default().push(ts);
    }
    let seen = bed.load();
    assert_eq!(seen.losses, []);
    let (mut ours, mut perfs) = (0.0, 0.0);
    for (cpu, times) in theirs {
        // perf begins and ends CPU by CPU. The two stamps of one switch are microseconds apart: hence a margin.
        let (from, to) = (times.iter().min().unwrap() + 1_000_000, times.iter().max().unwrap() - 1_000_000);
        let within = |times: &mut dyn Iterator<Item = u64>| times.filter(|&t| t >= from && t < to).count() as f64;
        perfs += within(&mut times.iter().copied());
        ours += within(&mut seen.switches.iter().filter(|s| s.0 == cpu).map(|s| s.1));
    }
    assert!(perfs > 1000.0);
    assert!((ours - perfs).abs() / perfs < 0.001, "{ours} switches here, {perfs} with perf");
}

/// Runs of threads on CPUs.
#[derive(Default)]
struct Runs(Vec<(u32, u64, u64)>);

impl Sink for Runs {
    fn interval(&mut self, i: &Interval) {
        if let (ThreadNow::Running, Some(cpu), Some(end)) = (i.state, i.cpu, i.end) {
            self.0.push((cpu, i.start, end));
        }
    }
}

#[test]
fn loss_is_counted_and_shown_everywhere() {
    let _alone = alone();
    let bed = Bed::new("loss");
    let config = bed.path().join("config.toml");
    // A whole hour, so that the loss is in one segment unless an hour ends.
    fs::write(&config, "[capture]\nbuffer_total = \"1 MiB\"\n[store]\nsegment = \"1 h\"\n").unwrap();
    let recorder = bed.start_with(&["--config", config.to_str().unwrap()]);
    // Two loads, so that more than one CPU loses something where there is more than one.
    let online = thread::available_parallelism().unwrap().get();
    let pinned = |cpu: usize| Killed::pipe(&["taskset", "-c", &cpu.to_string()]);
    let mut loads: Vec<_> = BTreeSet::from([0, online - 1]).into_iter().map(pinned).collect();
    thread::sleep(Duration::from_millis(600));
    recorder.signal(nix::sys::signal::Signal::SIGSTOP);
    thread::sleep(Duration::from_secs(3));
    recorder.signal(nix::sys::signal::Signal::SIGCONT);
    loads.clear();
    // Counters of the last cycle are in the status once the events behind them are.
    let quiet = Instant::now() + Duration::from_secs(30);
    let counts = |status: &serde_json::Value| -> BTreeMap<u64, u64> {
        let cpus = status["lost"].as_array().unwrap().iter();
        cpus.map(|l| (l["cpu"].as_u64().unwrap(), l["count"].as_u64().unwrap())).collect()
    };
    let status = loop {
        let status = bed.status();
        if counts(&status).values().sum::<u64>() > 1000 {
            break status;
        }
        assert!(Instant::now() < quiet, "no loss is told: {status}");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(bed.ok(&["status"]).contains("LOST"));
    recorder.stop();
    let seen = bed.load();
    let mut told: BTreeMap<u64, u64> = BTreeMap::new();
    for loss in &seen.losses {
        assert!(loss.from <= loss.to, "{loss:?}");
        *told.entry(loss.cpu.into()).or_default() += loss.count.unwrap_or(0);
    }
    for (cpu, count) in counts(&status) {
        assert!(told[&cpu] >= count, "CPU {cpu}: {} in the segment, {count} in the status before", told[&cpu]);
    }
    // The same sum in every place that tells one.
    let all: u64 = told.values().sum();
    let sum = |text: &str, kind: Option<&str>| -> u64 {
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        let wanted = lines.filter(|l| kind.is_none_or(|k| l["kind"] == k));
        wanted.map(|l| l["lost"].as_u64().unwrap_or_else(|| panic!("{l}"))).sum()
    };
    assert_eq!(sum(&bed.ok(&["segments", "--json"]), Some("segment")), all);
    assert_eq!(sum(&bed.ok(&["verify", "--json"]), None), all);
    // Nothing is said to have run through a loss.
    let mut runs = Folding::new(Runs::default());
    feed::load(&[bed.path().to_owned()], None, &mut runs, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(runs.sink.0.len() > 1000);
    for loss in seen.losses.iter().filter(|l| l.from < l.to) {
        let through = runs.sink.0.iter().find(|r| r.0 == loss.cpu && r.1 < loss.from && r.2 > loss.to);
        assert_eq!(through, None, "through {loss:?}");
    }
}

#[test]
fn a_snapshot_under_load_disturbs_nothing() {
    let _alone = alone();
    let bed = Bed::new("snapshot");
    let recorder = bed.start();
    let text = KernelText::start();
    let life = life(|| {
        for _ in 0..300 {
            spin(Duration::from_micros(500));
            thread::sleep(Duration::from_millis(5));
        }
    });
    let load = Killed::pipe(&[]);
    // The load runs once much is recorded; then its window fills.
    let begun = |events: u64| bed.status()["events"].as_u64().unwrap() > events;
    let end = Instant::now() + Duration::from_secs(60);
    while !begun(20_000) {
        assert!(Instant::now() < end, "there is no load");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(800));
    let before = boot_now();
    let path = PathBuf::from(bed.ok(&["snapshot", "--last", "1500ms", "--label", "p99 über\u{1b}/../x"]).trim());
    let (tid, (_, voluntary, involuntary)) = life();
    drop(load);
    let traced = text.stop();
    recorder.stop();
    let seen = bed.load();
    assert_eq!((seen.losses.len(), seen.gaps), (0, 0));
    let did = seen.threads[&tid];
    assert_eq!((did.voluntary, did.involuntary), traced[&tid], "not a switch is missing around it");
    // See above: some kernels leave switches out of any trace, and their own text is the only judge then.
    if did.untraced == 0 && traced[&tid] != (voluntary, involuntary) {
        eprintln!("{voluntary} + {involuntary} switches, traced {:?}", traced[&tid]);
    }
    assert_eq!(path.parent().unwrap(), bed.path().join("snapshots"));
    let kept = load_snapshot(&path, before);
    // The 1,500 ms end when the recorder hears of it, which is later by what starting a process takes here.
    let from = kept.switches.iter().map(|s| s.1).min().unwrap();
    assert!(from < before - 100_000_000, "it reaches back {} ms", before.saturating_sub(from) / 1_000_000);
    let of_then = |seen: &Seen| seen.switches.iter().filter(|s| s.1 >= from && s.1 < before).count();
    assert_eq!(of_then(&kept), of_then(&seen), "the snapshot holds all of its window");
    assert!(of_then(&kept) > 100);
    assert!(kept.processes.len() > 5, "it has names of its own");
}

fn load_snapshot(path: &Path, before: u64) -> Seen {
    let kept = load(&[path.to_owned()]);
    assert!(kept.through >= before, "everything up to the request is in it");
    kept
}

#[test]
fn case_71_fifty_requests_around_a_rotation_share_two_snapshots() {
    let bed = Bed::new("burst");
    let recorder = bed.start();
    thread::sleep(Duration::from_millis(600));
    let began = Instant::now();
    let callers: Vec<_> = (0..50)
        .map(|i| {
            if i == 25 {
                bed.ok(&["rotate"]);
            }
            bed.command().args(["snapshot", "--last", "1s"]).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut paths: Vec<String> = Vec::new();
    let mut asking = Duration::ZERO;
    for caller in callers {
        let out = caller.wait_with_output().unwrap();
        assert!(out.status.success());
        paths.push(String::from_utf8(out.stdout).unwrap().trim().to_owned());
        asking = began.elapsed();
    }
    assert_eq!(paths.len(), 50);
    paths.sort();
    paths.dedup();
    // One at once and one for all who come while the recorder rests, a second; where starting fifty callers takes longer,
    // one more for each further second.
    let most = 2 + usize::try_from(asking.as_secs()).unwrap();
    assert!((1..=most).contains(&paths.len()), "{asking:?}: {paths:?}");
    assert_eq!(bed.snapshots().len(), paths.len());
    assert!(paths.iter().all(|p| load(&[p.into()]).switches.len() > 10));
    recorder.stop();
    assert_eq!(bed.load().gaps, 0);
}

#[test]
fn case_79_a_second_recorder_is_refused_and_names_the_first() {
    let bed = Bed::new("second");
    let recorder = bed.start();
    let out = bed.run(&["record", "--for", "1s"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains(&format!("pid {}", recorder.pid())) && said.contains("--dir"), "{said}");
    // The same instance from another store, too.
    let other = tempfile::tempdir().unwrap();
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let out = c.arg("--dir").arg(other.path()).args(["--instance", &bed.instance, "record", "--for", "1s"]).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains(&recorder.pid().to_string()), "{said}");
    // Another store and another instance work beside it.
    let beside = Bed::new("beside");
    beside.start().stop();
    recorder.stop();
}

/// Controls of the top level, and the instances there are.
fn tracefs_now() -> (BTreeMap<String, String>, Vec<String>) {
    let files = ["tracing_on", "trace_clock", "buffer_size_kb", "trace_options", "set_event", "current_tracer"];
    let read = |f: &&str| (f.to_string(), fs::read_to_string(Path::new(ROOT).join(f)).unwrap());
    let instances = fs::read_dir(Path::new(ROOT).join("instances")).unwrap();
    let names = instances.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    // Other tests run beside this one.
    let mut foreign: Vec<String> = names.filter(|n| !n.starts_with("dashcam")).collect();
    foreign.sort();
    (files.iter().map(read).collect(), foreign)
}

fn instance_dir(bed: &Bed) -> PathBuf {
    Path::new(ROOT).join("instances").join(&bed.instance)
}

#[test]
fn case_65_82_killed_fifty_times_it_loses_at_most_a_second_and_cleans_up() {
    let _alone = alone();
    let bed = Bed::new("kill");
    let store = Store::create(bed.path()).unwrap();
    let before = tracefs_now();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    for round in 0..50 {
        let mut recorder = bed.start();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let lived = Duration::from_millis(if round % 10 == 0 { 1500 } else { seed % 400 });
        thread::sleep(lived);
        recorder.child.kill().unwrap();
        let killed = boot_now();
        recorder.child.wait().unwrap();
        fs::remove_file(bed.path().join("dashcam.pid")).unwrap();
        // The start before finished what was left then, beside the recording if that took long; what is left now opens, too.
        let mut files = store.segments().unwrap();
        let last = files.pop().filter(|f| f.name.part);
        for file in files.iter().filter(|f| !f.name.part) {
            assert!(read_footer(&file.path).unwrap().is_some(), "{file:?}");
        }
        let mut seen = Seen::default();
        // Without: killed before the head of a segment was out.
        if let Some(last) = last {
            match feed::load(&[last.path], None, &mut seen, &mut |_| ControlFlow::Continue(())) {
                Ok(loaded) => assert!(loaded.damage.len() <= 1, "only the end of the file: {:?}", loaded.damage),
                Err(e) => assert!(lived < Duration::from_secs(1), "{e}"),
            }
        }
        if lived > Duration::from_secs(1) {
            assert!(seen.through + S >= killed, "{} ns are missing", killed - seen.through);
        }
        assert!(instance_dir(&bed).exists(), "SIGKILL leaves the instance behind");
    }
    let last = bed.start();
    let end = Instant::now() + Duration::from_secs(120);
    while store.segments().unwrap().iter().filter(|f| f.name.part).count() > 1 {
        assert!(Instant::now() < end, "left-overs are not finished");
        thread::sleep(Duration::from_millis(50));
    }
    let said = last.stop();
    assert!(said.contains("finished a segment that a dead recorder left") || said.contains("left-over"), "{said}");
    assert!(!instance_dir(&bed).exists());
    assert_eq!(tracefs_now(), before);
    let files = store.segments().unwrap();
    assert!(files.len() > 10 && files.iter().all(|f| !f.name.part), "{files:?}");
    for file in files {
        let verified = verify(&file.path, &mut |_, _| {}).unwrap();
        assert!(verified.is_whole(), "{verified:?}");
    }
}

#[test]
fn signals_ask_and_never_kill() {
    use nix::sys::signal::Signal;
    let bed = Bed::new("signals");
    let config = bed.path().join("config.toml");
    // A whole hour, so that no minute ends meanwhile; an hour may.
    let hour = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 3600;
    let first_hour = hour();
    fs::write(&config, "[snapshot]\nlast = \"1s\"\n[store]\nsegment = \"1 h\"\n").unwrap();
    let mut recorder = bed.start_with(&["--config", config.to_str().unwrap()]);
    thread::sleep(Duration::from_millis(600));
    recorder.signal(Signal::SIGUSR1);
    recorder.signal(Signal::SIGUSR2);
    // What can take effect at once does, what cannot is named.
    let changed = "[snapshot]\nlast = \"2s\"\n[store]\nsegment = \"30 m\"\nkeep_bytes = \"1 GiB\"\n\
        [capture]\nblocked = \"off\"\n[log]\nlevel = \"warn\"\n[control]\nmode = \"0600\"\n";
    fs::write(&config, changed).unwrap();
    recorder.signal(Signal::SIGHUP);
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let end = Instant::now() + Duration::from_secs(30);
        while !done(&bed.status()) {
            assert!(Instant::now() < end, "{what}: {}", bed.status());
            thread::sleep(Duration::from_millis(20));
        }
    };
    until("keep_bytes", &|s| s["kept"]["max_bytes"] == 1u64 << 30);
    let waiting = "in effect at the next start: log.level, store.segment, capture.blocked";
    until("what waits", &|s| s["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().ends_with(waiting)));
    let mode = fs::metadata(bed.path().join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    until("the snapshot", &|s| s["snapshots"] == 1);
    assert_eq!(bed.snapshots().len(), 1);
    fs::write(&config, "[snapshot]\nlats = \"2s\"\n").unwrap();
    recorder.signal(Signal::SIGHUP);
    until("the mistake", &|s| s["warnings"].to_string().contains("lats"));
    assert!(recorder.child.try_wait().unwrap().is_none(), "a mistake in the configuration does not end it");
    bed.ok(&["mark", "step 812"]);
    bed.ok(&["stop"]);
    assert!(!instance_dir(&bed).exists(), "stop returns when everything is as before");
    assert!(recorder.child.wait().unwrap().success());
    let said = recorder.stderr();
    assert!(said.contains("last") && said.contains("lats"), "the mistake is told: {said}");
    assert!(said.contains(waiting), "{said}");
    let seen = bed.load();
    let mark = format!("I|{}|step 812", recorder.pid());
    assert!(seen.marks.contains(&mark), "{:?}", seen.marks);
    let segments = fs::read_dir(bed.path().join("segments")).unwrap().count();
    let most = 2 + usize::try_from(hour() - first_hour).unwrap();
    assert!((2..=most).contains(&segments), "USR2 cut one in two: {segments}");
    assert_eq!(seen.gaps, 0);
}

#[test]
fn case_80_usr1_from_the_first_instant_on_never_kills() {
    // The earliest a program can take a signal over is when its loader is done: from then on USR1 is harmless.
    let caught = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).map(|m| m.trim().to_owned());
        mask.and_then(|m| u64::from_str_radix(&m, 16).ok()).is_some_and(|m| m & (1 << (libc::SIGUSR1 - 1)) != 0)
    };
    let mut hit = 0;
    for round in 0..500u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dashcam"))
            .args(["completions", "bash"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !caught(child.id()) && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis([0, 1, 5, 20][round as usize % 4]) / 4);
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        hit += usize::from(nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).is_ok());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "round {round}: {status}");
    }
    assert!(hit > 100, "most of them were still alive: {hit}");
}

#[test]
fn case_62_63_a_full_disk_is_told_and_recording_resumes() {
    let _alone = alone();
    let mount = tempfile::tempdir().unwrap();
    let target = mount.path().to_str().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", target]).status().unwrap();
    assert!(mounted.success());
    let result = std::panic::catch_unwind(|| full_disk(mount.path()));
    assert!(Command::new("umount").arg(target).status().unwrap().success());
    result.unwrap();
}

fn full_disk(disk: &Path) {
    let bed = Bed::new("full");
    let store = disk.join("store");
    let dashcam = |args: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.arg("--dir").arg(&store).arg("--instance").arg(&bed.instance).args(args);
        c
    };
    let mut recorder = Running { child: dashcam(&["record"]).stderr(Stdio::piped()).spawn().unwrap() };
    while !store.join("dashcam.pid").exists() {
        assert!(recorder.child.try_wait().unwrap().is_none(), "{}", recorder.stderr());
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(600));
    let ballast = disk.join("ballast");
    let status = || -> serde_json::Value {
        serde_json::from_slice(&dashcam(&["status", "--json"]).output().unwrap().stdout).unwrap()
    };
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !done(&status()) {
            assert!(Instant::now() < end, "{what}: {}", status());
            thread::sleep(Duration::from_millis(100));
        }
    };
    // dd stops when the disk is full.
    let _ =
        Command::new("dd").args(["if=/dev/zero", "bs=4k"]).arg(format!("of={}", ballast.display())).output().unwrap();
    let noise = || drop(Command::new("perf").args(["bench", "sched", "pipe", "-l", "30000"]).output().unwrap());
    noise();
    until("the full disk is told", &|s| s["warnings"].to_string().contains("no space"));
    fs::remove_file(&ballast).unwrap();
    noise();
    until("recording resumes by itself", &|s| {
        !s["warnings"].to_string().contains("no space") && !s["segment"].is_null()
    });
    thread::sleep(Duration::from_millis(1200));
    recorder.stop();
    let seen = load(&[store]);
    assert!(seen.losses.iter().filter_map(|l| l.count).sum::<u64>() > 0, "what was dropped is told");
    assert!(seen.switches.len() > 100);
}

#[test]
fn trace_writes_one_file_that_anybody_reads() {
    let bed = Bed::new("trace");
    let out = bed.path().join("out.pftrace");
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let run = c.args(["trace", "-t", "700ms", "-o"]).arg(&out).args(["sched", "idle"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let seen = load(std::slice::from_ref(&out));
    assert!(seen.switches.len() > 10);
    assert_eq!(fs::read(&out).unwrap()[0], 0x0a, "plain packets, as the name says");
    let left: Vec<_> = fs::read_dir(bed.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["out.pftrace"]);
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    let wrong = c.args(["trace", "-t", "1s", "-o"]).arg(&out).arg("shed").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
