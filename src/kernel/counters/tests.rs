#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use proptest::prelude::*;

use super::*;

/// A processor whose every CPU but 9 counts; each counter had its register half of the time.
struct FakePerf(tempfile::TempDir);

impl PerfOpen for FakePerf {
    fn open(&self, event: HardwareEvent, cpu: u32) -> io::Result<OwnedFd> {
        if cpu == 9 {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let path = self.0.path().join(format!("{event:?}{cpu}"));
        let mut file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
        for word in [1000 + u64::from(cpu), 200, 100u64] {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.rewind()?;
        Ok(file.into())
    }
}

struct NoPerf(i32);

impl PerfOpen for NoPerf {
    fn open(&self, _: HardwareEvent, _: u32) -> io::Result<OwnedFd> {
        Err(io::Error::from_raw_os_error(self.0))
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    put(
        d,
        "proc/meminfo",
        "MemTotal:       24683656 kB\nMemFree:        100 kB\nCached: x kB\nHugePages_Total:       0\n",
    );
    put(d, "proc/loadavg", "1.97 1.29 0.77 3/107 31657\n");
    put(
        d,
        "proc/pressure/cpu",
        "some avg10=10.14 avg60=18.10 avg300=12.72 total=87042527\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    put(d, "proc/pressure/memory", "");
    put(d, "proc/pressure/io", "some avg10=nan total=-1\n");
    put(
        d,
        "proc/diskstats",
        "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 11 0 22 5 33 0 44 6 1 7 8 0 0\n 254 1 vda1 11 0 22 5 33 0 44 6 1 7 8\n 1 2 ../x 1 1 1 1 1 1 1 1 1 1 1\n",
    );
    put(d, "sys/block/vda/size", "1");
    put(d, "sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
    put(
        d,
        "sys/fs/cgroup/kube/pod \x07/cpu.stat",
        "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500\n",
    );
    put(d, "sys/fs/cgroup/kube/free/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n");
    dir
}

fn counters(dir: &Path, sources: &[Source], perf: impl PerfOpen + Send + 'static) -> Counters {
    Counters::at(dir.join("proc"), dir.join("sys"), sources, &[0, 9, 1500], Box::new(perf))
}

fn values(samples: &[Sample]) -> Vec<(String, f64)> {
    samples.iter().map(|s| (crate::names::printable(&s.name), s.value)).collect()
}

#[test]
fn each_source_has_its_values() {
    let dir = machine();
    let one = |source| {
        let round = counters(dir.path(), &[source], NoPerf(libc::ENOENT)).round();
        assert_eq!(round.missing, []);
        values(&round.samples)
    };
    let expect = |v: &[(&str, f64)]| v.iter().map(|(n, v)| ((*n).to_string(), *v)).collect::<Vec<_>>();
    assert_eq!(one(Source::Memory), expect(&[("mem.free_bytes", 102_400.0)]));
    assert_eq!(
        one(Source::Load),
        expect(&[
            ("load.1m", 1.97),
            ("load.5m", 1.29),
            ("load.15m", 0.77),
            ("threads.running", 3.0),
            ("threads.all", 107.0)
        ])
    );
    assert_eq!(
        one(Source::Psi),
        expect(&[
            ("psi.cpu.some.avg10", 10.14),
            ("psi.cpu.some.total_ns", 87_042_527_000.0),
            ("psi.cpu.full.avg10", 0.0),
            ("psi.cpu.full.total_ns", 0.0),
        ])
    );
    assert_eq!(
        one(Source::Disk),
        expect(&[
            ("disk.vda.reads", 11.0),
            ("disk.vda.read_bytes", 11_264.0),
            ("disk.vda.writes", 33.0),
            ("disk.vda.written_bytes", 22_528.0),
            ("disk.vda.in_flight", 1.0),
            ("disk.vda.busy_ns", 7e6),
        ]),
        "whole disks that did something; no partitions, no paths"
    );
    assert_eq!(
        one(Source::Cgroup),
        expect(&[
            ("cgroup.throttled_ns:/kube/pod \\x07", 1_500_000.0),
            ("cgroup.throttled_periods:/kube/pod \\x07", 4.0)
        ]),
        "only groups with a limit"
    );
}

#[test]
fn cgroup_version_1_counts_in_nanoseconds() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
    put(dir.path(), "sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 77\n");
    let round = counters(dir.path(), &[Source::Cgroup], NoPerf(libc::ENOENT)).round();
    assert_eq!(values(&round.samples)[0], ("cgroup.throttled_ns:/docker/a".into(), 77.0));
}

#[test]
fn what_is_missing_is_told_once_with_its_mend() {
    let dir = tempfile::tempdir().unwrap();
    let all = Source::ALL.map(|(s, _)| s);
    let mut c = counters(dir.path(), &all, NoPerf(libc::EACCES));
    let round = c.round();
    assert!(round.samples.is_empty());
    let why = |s: Source| round.missing.iter().find(|m| m.source == s).map(|m| m.why.clone()).unwrap();
    assert!(why(Source::Psi).contains("psi=1"));
    assert!(why(Source::Cgroup).contains("mount -t cgroup2"));
    assert!(why(Source::Hardware).contains("kernel.perf_event_paranoid"));
    assert!(why(Source::Memory).contains("proc/meminfo"));
    assert_eq!(round.missing.len(), all.len());
    assert_eq!(c.round(), Round::default(), "and not again");
}

#[test]
fn hardware_counters_are_scaled_and_an_offline_cpu_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = counters(dir.path(), &[Source::Hardware], FakePerf(tempfile::tempdir().unwrap()));
    let round = c.round();
    assert_eq!(round.missing, []);
    let sample = |name: &str, cpu, value| Sample { name: name.into(), cpu: Some(cpu), value };
    assert_eq!(
        round.samples,
        [
            sample("cpu.cycles", 0, 2000.0),
            sample("cpu.instructions", 0, 2000.0),
            sample("cpu.cycles", 1500, 5000.0),
            sample("cpu.instructions", 1500, 5000.0),
        ]
    );
}

#[test]
fn why_there_are_no_hardware_counters() {
    let open = |errno| Hardware::open(&[0], &NoPerf(errno)).unwrap_err();
    assert_eq!(open(libc::ENOENT), NotAvailable::NoPmu);
    assert_eq!(open(libc::EPERM), NotAvailable::Denied);
    assert_eq!(open(libc::ENOSYS), NotAvailable::NoSupport);
    assert!(matches!(open(libc::EMFILE), NotAvailable::Other(_)));
}

#[test]
fn the_kernel_s_own_answer_is_one_of_those() {
    match Hardware::open(&[0], &SystemPerf) {
        Ok(hardware) => {
            let mut out = Vec::new();
            hardware.sample(&mut out);
            assert!(out.iter().all(|s| s.cpu == Some(0) && s.value >= 0.0));
        }
        Err(e) => assert!(!matches!(e, NotAvailable::Other(_)), "{e}"),
    }
}

#[test]
fn words_and_sources_go_together() {
    for (source, word) in Source::ALL {
        assert_eq!((Source::from_word(word), source.word()), (Some(source), word));
    }
    assert_eq!(Source::from_word("gpu"), None);
}

proptest! {
    #[test]
    fn any_text_gives_finite_values(text in "\\PC{0,80}\n[a-zA-Z0-9:=. ]{0,80}") {
        let mut out = Vec::new();
        parse::meminfo(&text, &mut out);
        parse::loadavg(&text, &mut out);
        parse::pressure("cpu", &text, &mut out);
        parse::diskstats(&text, |_| true, &mut out);
        prop_assert!(out.iter().all(|s| s.value.is_finite()));
    }
}
