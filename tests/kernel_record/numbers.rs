//! Right numbers: threads and processes of known behaviour, recorded for real, beside what the kernel counted of them and
//! what perf saw of them at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::feed;
use dashcam::names::NameTable;
use dashcam::sched::fold::Folding;
use dashcam::sched::threads::ThreadLife;

use crate::bed::{Bed, alone};
use crate::kernel_says::{Counted, KernelText, Stolen};
use crate::known::{Children, Life, sum_up};
use crate::load_support::{NeverIdle, cpus, direct_reads, pin, scheduled_as, spin};
use crate::perf::Perf;
use crate::seen::{Did, Seen};

const CHILDREN: usize = 1000;
/// What each of them is: the program, and its name.
const CHILD: &str = "true";

/// For the kernel a run begins and ends where `__schedule` begins; its switch is recorded once the next thread is picked. The
/// two delays differ by microseconds, in perf's recording as in ours (here schedstat has 0.5 to 15 µs a run more): more than
/// 1 % of a run that is as short. A thread that does nothing with what it reads runs for as little; so much more is allowed
/// it, ns a switch.
const SHORT_RUN: u64 = 20_000;
/// A process that begins and ends at once runs for a millisecond, and its first run begins the latest.
const FIRST_RUN: u64 = 100_000;
/// All of them together are more exact. But they leave their maker in D, whose stack is recorded between our reading of the
/// clock and perf's; ns a switch.
const RECORDING: u64 = 5_000;

/// A thread or process of known behaviour, once it has done everything.
struct Lived {
    what: &'static str,
    tid: i32,
    kernel: Counted,
    /// Allowed beside 1 %, ns.
    slack: u64,
}

/// Those who lived at the same time.
struct Phase {
    lived: Vec<Lived>,
    /// The most that the hypervisor took meanwhile, ns.
    stolen: u64,
}

/// What everybody says of one of them.
#[derive(Debug, Clone, Copy)]
struct Told {
    did: Did,
    kernel: Counted,
    /// Voluntary and involuntary switches that the kernel traced, as it prints them.
    traced: (u64, u64),
    /// Runs and their time with perf, ns.
    perf: (u64, u64),
}

/// Numbers of switches are right every time. Times are within 1 % of perf's and of schedstat's, but for what a hypervisor takes,
/// which schedstat leaves out; and a hypervisor may take a CPU between two readings of the clock that are of the same
/// switch (seen here: 8 ms that schedstat alone has of a thread of 200 ms, 4 ms that perf alone has). One attempt is spoilt
/// by that now and then, four in a row are not.
///
/// Ten recordings on a virtual machine of two CPUs at a load of 6 to 7, with 6.18: from perf no more than 0.1 % where every
/// begin was traced, 0.3 % for direct I/O, whose stacks are recorded between the two readings, 0.7 % for the children. From
/// schedstat -0.1 to +0.4 %, and more only where more than a tick was stolen: of 3 s on two CPUs 10 to 180 ms were, up to
/// 4 % of one thread and 5 % of the children.
#[test]
fn the_numbers_are_those_of_the_kernel() {
    let _alone = alone();
    let attempts: Vec<Vec<String>> = (0..4).map(|_| what_is_wrong()).take_while(|wrong| !wrong.is_empty()).collect();
    assert!(attempts.len() < 4, "{attempts:#?}");
}

/// Records all of them; what is wrong about times, in words.
fn what_is_wrong() -> Vec<String> {
    let bed = Bed::new("numbers");
    let text = KernelText::start(&[CHILD]);
    let big = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("direct-io");
    fs::write(&big, vec![7u8; 8 << 20]).unwrap();
    fs::File::open(&big).unwrap().sync_all().unwrap();
    let recorder = bed.start();
    // A name of their own: the kernel's text tells threads by name.
    let busy = NeverIdle::start("never-idle");
    until_functions_are_named(&bed, &big);
    let perf = Perf::start(&["sched", "record"], bed.path());
    let (starter, computing) = those_who_compute();
    let [reading, only_reading] = those_who_read(&big);
    drop(busy);
    let (perf, traced) = (perf.stop(), text.stop());
    let pids: BTreeSet<i32> = computing.lived.iter().filter(|l| l.what == CHILD).map(|l| l.tid).collect();
    until_lives_ended(&bed, &pids);
    let said = recorder.stop();
    let seen = bed.load();
    assert_eq!((seen.losses.len(), seen.gaps, seen.disordered), (0, 0, 0), "{said}");
    perf.has_as_many_switches_and_wakings(&seen);
    let ran = perf.ran();
    let told = |l: &Lived| Told {
        did: seen.threads.get(&l.tid).copied().unwrap_or_default(),
        kernel: l.kernel,
        traced: traced.get(&l.tid).copied().unwrap_or_default(),
        perf: ran.get(&l.tid).copied().unwrap_or_default(),
    };
    let (mut judged, mut wrong) = (0, Vec::new());
    for phase in [computing, reading, only_reading] {
        let (kinds, of_phase) = phase.check(&phase.lived.iter().map(told).collect::<Vec<Told>>());
        judged += kinds;
        wrong.extend(of_phase);
        phase.lived.iter().for_each(|lived| behaved(lived, &seen));
    }
    assert!(judged >= 4, "of seven kinds of threads the times of {judged} could be judged");
    lived_once(starter, &pids, &seen);
    let own = std::process::id() as i32;
    assert!(seen.processes[&own].starts_with("kernel_record"), "{:?}", seen.processes[&own]);
    wrong
}

/// Kernel symbols are read beside the recording; until then stacks have no names.
fn until_functions_are_named(bed: &Bed, big: &Path) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        direct_reads(big, 4096, 1, |_| {});
        // It fails as long as nothing is recorded.
        let told = String::from_utf8(bed.run(&["report", "blocked", "--json"]).stdout).unwrap();
        if told.contains("\"function\":\"") || told.contains("\"function\": \"") {
            return;
        }
        assert!(Instant::now() < end, "no blocked function has a name: {told}");
    }
}

/// Four threads, and beside them the children of another, whose tid comes with them.
fn those_who_compute() -> (i32, Phase) {
    let one = cpus()[0];
    let duty = || {
        for _ in 0..30 {
            spin(Duration::from_millis(30));
            thread::sleep(Duration::from_millis(20));
        }
    };
    let pinned = move || {
        pin(one);
        spin(Duration::from_millis(700));
    };
    let fifo = move || {
        pin(one);
        scheduled_as(libc::SCHED_FIFO, 10);
        for _ in 0..50 {
            spin(Duration::from_millis(4));
            thread::sleep(Duration::from_millis(5));
        }
    };
    let stolen = Stolen::start();
    let lives = [
        ("spin 30 ms, sleep 20 ms", Life::start(duty)),
        ("pinned to one CPU", Life::start(pinned)),
        ("pinned to the same CPU", Life::start(pinned)),
        ("SCHED_FIFO", Life::start(fifo)),
    ];
    let children = Children::run(CHILDREN).join().unwrap();
    let mut lived: Vec<Lived> = lives.into_iter().map(|(what, life)| Lived::new(what, life.lived())).collect();
    let stolen = stolen.at_most();
    let starter = children.starter;
    lived.extend(children.buried().into_iter().map(|child| {
        let lived = Lived::new(CHILD, child);
        Lived { slack: FIRST_RUN + SHORT_RUN * lived.kernel.switches(), ..lived }
    }));
    (starter, Phase { lived, stolen })
}

/// Of two threads that read, one computes on it as real ones do. They live after the others, since what reads blocks for a
/// virtual machine is another thread on its CPUs.
fn those_who_read(big: &Path) -> [Phase; 2] {
    let path = big.to_owned();
    let stolen = Stolen::start();
    let sum = |block: &[u8]| sum_up(block, Duration::from_millis(4));
    let reads = Lived::new("direct I/O", Life::start(move || direct_reads(&path, 16 << 10, 100, sum)).lived());
    let reads = Phase { lived: vec![reads], stolen: stolen.at_most() };
    let path = big.to_owned();
    let stolen = Stolen::start();
    let only = Lived::new("direct I/O only", Life::start(move || direct_reads(&path, 1 << 20, 64, |_| {})).lived());
    let only = Lived { slack: SHORT_RUN * only.kernel.switches(), ..only };
    [reads, Phase { lived: vec![only], stolen: stolen.at_most() }]
}

impl Lived {
    fn new(what: &'static str, (tid, kernel): (i32, Counted)) -> Lived {
        Lived { what, tid, kernel, slack: 0 }
    }
}

impl Phase {
    /// Numbers of switches, which are always right; then of how many kinds times were judged, and what is wrong about those.
    fn check(&self, told: &[Told]) -> (usize, Vec<String>) {
        let mut kinds: BTreeMap<&str, Vec<(&Lived, &Told)>> = BTreeMap::new();
        for (lived, told) in self.lived.iter().zip(told) {
            if told.check_switches(lived) {
                kinds.entry(lived.what).or_default().push((lived, told));
            }
        }
        let (mut wrong, mut beyond) = (Vec::new(), 0);
        for (what, of_kind) in &kinds {
            let all: Told = together(of_kind.iter().map(|k| k.1));
            let mut slack = of_kind[0].0.slack;
            if *what == CHILD {
                assert!(of_kind.len() > CHILDREN / 2, "of most children nothing could be said");
                slack = RECORDING * all.kernel.switches();
                // Of a thousand that run for a millisecond some are cut short in one of the three readings of the clock.
                let fine =
                    |k: &&(&Lived, &Told)| k.1.is_like_perf(k.0.slack) || k.1.is_like_schedstat(k.0.slack, self.stolen);
                wrong.extend(of_kind.iter().filter(|k| !fine(k)).map(|k| format!("{CHILD} ({}): {:?}", k.0.tid, k.1)));
            }
            let told = format!("{what}: {}, {} ms stolen at most", all.differences(), self.stolen / 1_000_000);
            eprintln!("{told}");
            beyond += all.beyond_schedstat(slack);
            if !all.is_like_perf(slack) || !all.is_like_schedstat(slack, self.stolen) {
                wrong.push(told);
            }
        }
        // What is stolen is stolen once.
        wrong.extend((beyond > self.stolen).then(|| format!("{beyond} ns beyond schedstat, {} stolen", self.stolen)));
        (kinds.len(), wrong)
    }
}

/// The sums of those who did the same.
fn together<'a>(all: impl Iterator<Item = &'a Told>) -> Told {
    all.copied()
        .reduce(|mut sum, one| {
            sum.did.run_ns += one.did.run_ns;
            sum.did.unknown_ns += one.did.unknown_ns;
            sum.kernel.run_ns += one.kernel.run_ns;
            sum.kernel.voluntary += one.kernel.voluntary;
            sum.kernel.involuntary += one.kernel.involuntary;
            sum.perf.1 += one.perf.1;
            sum
        })
        .unwrap()
}

impl Told {
    /// Everything that is true of its switches, however many the kernel left out of its trace. Returns whether it traced each
    /// time this one left its CPU.
    ///
    /// Some virtual machines' kernels do not trace that some threads leave (see [`NeverIdle`]): who comes in their place
    /// comes untraced, at an instant that is known only within `unknown_ns`. Were it one of ours whose leaving is not
    /// traced, then its runs and those of who came next would be one: nothing true can be said of their time.
    fn check_switches(&self, lived: &Lived) -> bool {
        let Told { did, kernel, .. } = self;
        let counts = (did.voluntary, did.involuntary);
        let told = format!("{} ({}): {self:?}", lived.what, lived.tid);
        assert_eq!(counts, self.traced, "as the kernel prints it: {told}");
        assert_eq!(did.voluntary + did.involuntary, self.perf.0, "{told}");
        assert!(did.voluntary <= kernel.voluntary && did.involuntary <= kernel.involuntary, "{told}");
        let whole = counts == (kernel.voluntary, kernel.involuntary);
        if !whole {
            eprintln!("the kernel left out that it left: {told}");
        }
        whole
    }

    /// What is more than 1 % and `slack` beyond schedstat, ns.
    fn beyond_schedstat(&self, slack: u64) -> u64 {
        self.did.run_ns.saturating_sub(self.kernel.run_ns + self.kernel.run_ns / 100 + slack)
    }

    fn is_like_schedstat(&self, slack: u64, stolen: u64) -> bool {
        let kernel = self.kernel.run_ns;
        let enough = self.did.run_ns + self.did.unknown_ns + kernel / 100 + slack >= kernel;
        enough && self.beyond_schedstat(slack) <= stolen
    }

    /// What is stolen is in perf's time as it is in ours.
    fn is_like_perf(&self, slack: u64) -> bool {
        let slack = slack + self.perf.1 / 100;
        let most = self.did.run_ns + self.did.unknown_ns + slack;
        (self.did.run_ns.saturating_sub(slack)..=most).contains(&self.perf.1)
    }

    /// How far our time is from schedstat's and from perf's.
    fn differences(&self) -> String {
        let (ours, kernel, perf) = (self.did.run_ns as f64, self.kernel.run_ns as f64, self.perf.1 as f64);
        format!(
            "{:.1} ms and {:.1} ms of unknown begin, {:+.3} % ({:+.1} µs a switch) from schedstat, {:+.3} % from perf",
            ours / 1e6,
            self.did.unknown_ns as f64 / 1e6,
            (ours - kernel) / kernel * 100.0,
            (ours - kernel) / self.kernel.switches() as f64 / 1e3,
            (ours - perf) / perf * 100.0
        )
    }
}

/// Each did what it is there for.
fn behaved(lived: &Lived, seen: &Seen) {
    let did = seen.threads.get(&lived.tid).copied().unwrap_or_default();
    let Counted { voluntary, involuntary, .. } = lived.kernel;
    match lived.what {
        "spin 30 ms, sleep 20 ms" => assert!(voluntary >= 30),
        "pinned to one CPU" | "pinned to the same CPU" => assert!(involuntary > 0),
        "SCHED_FIFO" => assert!(voluntary >= 50),
        CHILD => assert!(did.dead, "its last switch is its end: {did:?}"),
        _ => {
            assert!(did.blocked_d > 0);
            let of_it = seen.functions.iter().filter(|f| f.0 == lived.tid);
            let functions: Vec<&str> = of_it.map(|f| f.1.as_str()).collect();
            assert_eq!(functions.len() as u64, did.blocked_d, "one reason for every D");
            assert!(functions.iter().all(|f| !f.is_empty() && !f.contains("schedule")), "{functions:?}");
        }
    }
}

/// Made by the one thread, each called exec once and exit once.
fn lived_once(starter: i32, pids: &BTreeSet<i32>, seen: &Seen) {
    assert_eq!(pids.len(), CHILDREN);
    let born: Vec<i32> = seen.born.iter().filter(|b| b.by == Some(starter)).map(|b| b.tid).collect();
    assert_eq!(born.len(), CHILDREN);
    assert_eq!(&born.into_iter().collect::<BTreeSet<i32>>(), pids);
    assert_eq!(seen.born.iter().filter(|b| pids.contains(&b.tid)).count(), CHILDREN, "and by nobody else");
    for pid in pids {
        assert_eq!((seen.execs.get(pid), seen.exits.get(pid)), (Some(&1), Some(&1)), "{pid}");
    }
}

/// Until each of the processes has one life, with its name and its end: the kernel frees them when it comes to it.
fn until_lives_ended(bed: &Bed, pids: &BTreeSet<i32>) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let mut folding = Folding::new(());
        let loaded = feed::load(&[bed.path().to_owned()], None, &mut folding, &mut |_| ControlFlow::Continue(()));
        let lives: Vec<_> = folding.folder.threads().iter().map(|l| l.1).filter(|l| pids.contains(&l.tid)).collect();
        // Not always the last: the kernel tells of a new name before it sets it (`__set_task_comm`), and a process that is pushed
        // off in between comes back by its old one.
        let named = |l: &ThreadLife, names: &NameTable| l.names().iter().any(|n| names.text(n.1) == CHILD);
        let over = |l: &ThreadLife, names: &NameTable| l.exited && l.end.is_some() && named(l, names);
        // A segment may end while it is opened; then the next look sees it.
        let open: Vec<String> = loaded.map_or_else(
            |e| vec![e.to_string()],
            |loaded| {
                let open = lives.iter().filter(|l| !over(l, &loaded.names));
                open.map(|l| format!("{:?} {l:?}", loaded.names.text(l.name()))).collect()
            },
        );
        if open.is_empty() && lives.len() == pids.len() {
            return;
        }
        assert!(Instant::now() < end, "{} lives, of these have not ended: {open:#?}", lives.len());
        thread::sleep(Duration::from_millis(200));
    }
}
