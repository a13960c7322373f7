//! perf at the same time: an independent judge of what was traced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dashcam::recorder::clock::{boot_now, mono_now};

use crate::S;
use crate::bed::{Bed, Killed, alone};
use crate::seen::Seen;

/// perf, recording all CPUs.
pub struct Perf {
    child: Child,
    data: PathBuf,
}

impl Perf {
    /// `perf ARGS`, an argument of which says to record; returns when it does. With large buffers: what perf loses cannot be
    /// compared.
    pub fn start(args: &[&str], dir: &Path) -> Perf {
        let (data, started) = (dir.join("perf.data"), dir.join("perf-started"));
        let mut command = Command::new("perf");
        // Tracepoints cannot be stamped with the boot clock by perf. It ends when its standard input does.
        command.args(args).args(["-k", "CLOCK_MONOTONIC", "-m", "16M", "-o"]).arg(&data);
        command.args(["sh", "-c", "touch \"$0\"; cat"]).arg(&started);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut perf = Perf { child: child.expect("perf is needed"), data };
        let end = Instant::now() + Duration::from_secs(60);
        while !started.exists() {
            assert!(perf.child.try_wait().unwrap().is_none() && Instant::now() < end, "{args:?} does not record");
            thread::sleep(Duration::from_millis(5));
        }
        perf
    }

    pub fn stop(mut self) -> Recorded {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        Recorded { data: self.data, pid: self.child.id().try_into().unwrap() }
    }
}

/// What perf recorded.
pub struct Recorded {
    data: PathBuf,
    /// perf's own.
    pid: i32,
}

/// Instants of events, by name and CPU.
type Times = BTreeMap<String, BTreeMap<u32, Vec<u64>>>;

impl Recorded {
    fn printed(&self, args: &[&str]) -> String {
        let out = Command::new("perf").args(args).arg("-i").arg(&self.data).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Asserts that the same time holds as many switches and wake-ups for perf and for us: within 0.1 %.
    pub fn has_as_many_switches_and_wakings(&self, seen: &Seen) {
        let theirs = self.times();
        has_as_many("sched:sched_switch", &theirs, seen.switches.iter().map(|&(cpu, ts)| Ours { cpu, ts, sure: true }));
        // While it wakes itself up to read its buffers perf records nothing (`perf_pending_irq`).
        let wakings = seen.wakings.iter().filter(|w| w.tid != self.pid);
        let wakings = wakings.map(|w| Ours { cpu: w.cpu, ts: w.ts, sure: !w.interrupt });
        has_as_many("sched:sched_waking", &theirs, wakings);
    }

    /// When each event was, on the boot clock, by name and CPU; but for wake-ups of perf itself.
    fn times(&self) -> Times {
        let mono = mono_now();
        // The machine does not sleep meanwhile.
        let slept = boot_now() - mono;
        let mut times = Times::new();
        for line in self.printed(&["script", "--ns", "-F", "cpu,time,event,trace"]).lines() {
            // `[000] 35119.481308603: sched:sched_waking: comm=sh pid=15333 prio=120 target_cpu=001`
            let mut words = line.split_whitespace();
            let mut word = || words.next().unwrap_or_else(|| panic!("{line}")).trim_matches([':', '[', ']']);
            let (cpu, time, event) = (word().parse().unwrap(), word(), word());
            let own = line.rsplit_once(" pid=").is_some_and(|w| w.1.split(' ').next() == Some(&self.pid.to_string()));
            if event != "sched:sched_waking" || !own {
                let (s, ns) = time.split_once('.').unwrap();
                let ts = s.parse::<u64>().unwrap() * S + ns.parse::<u64>().unwrap() + slept;
                times.entry(event.into()).or_default().entry(cpu).or_default().push(ts);
            }
        }
        times
    }

    /// How often each thread ran and for how long, ns, as `perf sched timehist` sums it up. A run whose begin was not
    /// traced begins for it with the last switch before on that CPU.
    pub fn ran(&self) -> BTreeMap<i32, (u64, u64)> {
        let text = self.printed(&["sched", "timehist", "-s"]);
        text.lines().filter_map(ran).collect()
    }
}

/// An event that we recorded.
struct Ours {
    cpu: u32,
    ts: u64,
    /// perf must have it, too. Of wake-ups by interrupts that come while a CPU idles it has none on some virtual machines (seen
    /// on 6.18: 6,200 of 15,300 on one CPU, none of 460 on the other, all of them in ftrace).
    sure: bool,
}

fn has_as_many(name: &str, theirs: &Times, ours: impl Iterator<Item = Ours>) {
    let ours: Vec<Ours> = ours.collect();
    let (mut fewest, mut most, mut all_perfs) = (0, 0, 0);
    for (cpu, times) in &theirs[name] {
        // perf begins and ends CPU by CPU. The two stamps of one event are microseconds apart: hence a margin.
        let (from, to) = (times.iter().min().unwrap() + 1_000_000, times.iter().max().unwrap() - 1_000_000);
        let within = |t: u64| t >= from && t < to;
        let perfs = times.iter().filter(|&&t| within(t)).count();
        let own: Vec<&Ours> = ours.iter().filter(|e| e.cpu == *cpu && within(e.ts)).collect();
        let (sure, own) = (own.iter().filter(|e| e.sure).count(), own.len());
        let told = format!("{name} on CPU {cpu}: {own} here, {} of them by interrupts, {perfs} with perf", own - sure);
        // One at either end may be within for one and not for the other.
        let slack = 2 + perfs / 1000;
        assert!((sure.saturating_sub(slack)..=own + slack).contains(&perfs), "{told}");
        eprintln!("{told}");
        (fewest, most, all_perfs) = (fewest + sure, most + own, all_perfs + perfs);
    }
    assert!(all_perfs > 1000, "{name}: {all_perfs}");
    let slack = all_perfs / 1000;
    let told = format!("{name}: {fewest} to {most} here, {all_perfs} with perf");
    assert!((fewest.saturating_sub(slack)..=most + slack).contains(&all_perfs), "{told}");
}

/// `   rustc[15323/15321]   15321          4      212.723      3.896 …`: tid, runs, ns.
fn ran(line: &str) -> Option<(i32, (u64, u64))> {
    let (who, numbers) = line.rsplit_once(']')?;
    let tid = who.rsplit_once('[')?.1.split('/').next()?.parse().ok()?;
    let mut numbers = numbers.split_whitespace().skip(1);
    let runs = numbers.next()?.parse().ok()?;
    let (ms, thousandths) = numbers.next()?.split_once('.')?;
    Some((tid, (runs, ms.parse::<u64>().ok()? * 1_000_000 + thousandths.parse::<u64>().ok()? * 1000)))
}

#[test]
fn perf_sees_the_same_switches() {
    let _alone = alone();
    let bed = Bed::new("perf");
    let recorder = bed.start();
    let load = Killed::pipe(&[]);
    // Ahead of everything else.
    let args = ["record", "-q", "-a", "-r", "5", "-e", "sched:sched_switch", "-e", "sched:sched_waking"];
    let perf = Perf::start(&args, bed.path());
    thread::sleep(Duration::from_millis(1500));
    let perf = perf.stop();
    drop(load);
    recorder.stop();
    let seen = bed.load();
    assert_eq!(seen.losses, []);
    perf.has_as_many_switches_and_wakings(&seen);
}
