#![allow(clippy::unwrap_used)]

use std::io;
use std::os::fd::OwnedFd;

use super::*;
use crate::kernel::counters::HardwareEvent;

struct NoPerf;

impl PerfOpen for NoPerf {
    fn open(&self, _: HardwareEvent, _: u32) -> io::Result<OwnedFd> {
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    }
}

fn put(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A machine with everything: 2 CPUs, 8 GiB, a current kernel, a disk of 100 GiB that is half free.
fn machine(dir: &Path) -> (Wanted, Host) {
    let t = dir.join("tracing");
    for (group, names) in [("sched", "sched_switch sched_waking"), ("power", "cpu_frequency")] {
        for name in names.split(' ') {
            fs::create_dir_all(t.join("events").join(group).join(name)).unwrap();
        }
    }
    fs::create_dir_all(t.join("instances")).unwrap();
    put(t.join("trace_clock"), "[local] global mono boot\n");
    put(t.join("tracing_on"), "1\n");
    put(t.join("buffer_subbuf_size_kb"), "4\n");
    put(t.join("options/copy_trace_marker"), "0\n");
    put(t.join("events/sched/sched_switch/trigger"), "# Available triggers:\n# traceon stacktrace\n");
    put(dir.join("proc/kallsyms"), "ffffffff81000000 T schedule\n");
    put(dir.join("proc/pressure/cpu"), "some avg10=0.00\n");
    put(dir.join("proc/self/schedstat"), "1 2 3\n");
    let wanted = Wanted {
        tracefs: Some(t),
        events: vec!["sched/sched_switch".into(), "freq".into()],
        buffer_total: 64 << 20,
        buffer_ram_share: 0.02,
        sub_buffer: 64 << 10,
        store: PathBuf::from("/var/lib/dashcam"),
        keep_time: Duration::from_secs(24 * 3600),
        keep_bytes: 4 << 30,
        keep_free: 0.05,
        bytes_per_s: None,
    };
    let host = Host {
        view: HostView {
            mountinfo: String::new(),
            filesystems: Some("nodev\ttracefs\n".into()),
            uid_map: Some("0 0 4294967295\n".into()),
            lockdown: None,
            root: true,
            mount_at: dir.join("mount-here"),
        },
        machine: Machine { ram: 8 << 30, online: vec![0, 1], release: "6.18.44".into() },
        proc: Proc::at(dir.join("proc"), 100),
        capabilities: u64::MAX,
        disk: Some(Disk { total: 100 << 30, free: 50 << 30 }),
        store_writable: true,
        perf: Box::new(NoPerf),
    };
    (wanted, host)
}

fn named(checks: &[Check], name: &str) -> Check {
    checks.iter().find(|c| c.name == name).unwrap().clone()
}

/// The check of that name once `change` was made to a machine that has everything.
fn after(name: &str, change: impl FnOnce(&Path, &mut Wanted, &mut Host)) -> Check {
    let dir = tempfile::tempdir().unwrap();
    let (mut wanted, mut host) = machine(dir.path());
    change(dir.path(), &mut wanted, &mut host);
    named(&examine(&wanted, &host), name)
}

fn is(check: &Check, state: State, found: &str, mend: &str) {
    let right =
        check.state == state && check.found.contains(found) && check.mend.as_deref().unwrap_or("").contains(mend);
    assert!(right && check.mend.is_some() != mend.is_empty(), "{check:?}");
}

#[test]
fn a_machine_with_everything_is_ok_but_for_hardware_counters() {
    let dir = tempfile::tempdir().unwrap();
    let (wanted, host) = machine(dir.path());
    let checks = examine(&wanted, &host);
    let names: Vec<&str> = checks.iter().map(|c| c.name).collect();
    assert_eq!(
        names,
        [
            "kernel",
            "tracefs",
            "rights",
            "lockdown",
            "user namespace",
            "clock",
            "events",
            "buffers",
            "copy_trace_marker",
            "stacktrace trigger",
            "kallsyms",
            "psi",
            "perf counters",
            "sampling",
            "disk",
            "retention"
        ]
    );
    for check in &checks {
        let expected = if check.name == "perf counters" { State::Limited } else { State::Ok };
        assert_eq!(check.state, expected, "{check:?}");
    }
    assert_eq!(named(&checks, "kernel").found, "6.18.44, 2 CPUs online");
    assert_eq!(named(&checks, "buffers").found, "64 MiB for 2 CPUs, 32 MiB each, in sub-buffers of 64 KiB");
    assert_eq!(
        named(&checks, "retention").found,
        "1 d or 4.0 GiB, whichever is first; nothing recorded yet to tell the rate"
    );
    assert_eq!(named(&checks, "kallsyms").found, "1 functions");
}

#[test]
fn case_87_no_tracefs_and_every_name_is_still_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wanted, mut host) = machine(dir.path());
    wanted.tracefs = None;
    let checks = examine(&wanted, &host);
    is(&named(&checks, "tracefs"), State::Limited, "dashcam mounts it", "mount -t tracefs");
    is(&named(&checks, "clock"), State::Missing, "not known without tracefs", "");
    assert_eq!(checks.len(), 16);
    host.view.root = false;
    is(&named(&examine(&wanted, &host), "tracefs"), State::Missing, "not mounted", "mount -t tracefs");
}

#[test]
fn cases_88_and_89_lockdown_and_user_namespace() {
    let c = after("lockdown", |_, _, h| h.view.lockdown = Some("none integrity [confidentiality]\n".into()));
    is(&c, State::Missing, "forbidden even to root", "lockdown=integrity");
    let c = after("lockdown", |_, _, h| h.view.lockdown = Some("none [integrity] confidentiality\n".into()));
    is(&c, State::Ok, "integrity", "");
    let c = after("user namespace", |_, _, h| h.view.uid_map = Some("0 1000 1\n".into()));
    is(&c, State::Missing, "rootless container", "on the host");
}

#[test]
fn rights_are_those_that_count() {
    let c = after("rights", |_, _, h| h.capabilities &= !(1 << 34));
    is(&c, State::Limited, "lacks CAP_SYSLOG", "sudo dashcam");
    let c = after("rights", |d, _, h| {
        fs::remove_dir(d.join("tracing/instances")).unwrap();
        h.view.root = false;
    });
    is(&c, State::Missing, "not root, may not make", "sudo dashcam");
}

#[test]
fn what_tracefs_offers() {
    let c = after("kernel", |_, _, h| h.machine.release = "4.14.3-x".into());
    is(&c, State::Limited, "4.14.3-x", "4.17 or later");
    let c = after("clock", |d, _, _| put(d.join("tracing/trace_clock"), "[local] global mono\n"));
    is(&c, State::Limited, "mono", "4.17");
    let c = after("events", |_, w, _| w.events.push("irq".into()));
    is(&c, State::Limited, "2 of 6 there, not irq/irq_handler_entry", "");
    let c = after("events", |_, w, _| w.events.push("nonsense".into()));
    is(&c, State::Missing, "neither a category", "capture.events");
    let c = after("buffers", |_, _, h| h.machine.ram = 1 << 30);
    is(&c, State::Limited, "cut to 2.0 % of RAM", "buffer_ram_share");
    let c = after("copy_trace_marker", |d, _, _| put(d.join("tracing/tracing_on"), "0\n"));
    is(&c, State::Limited, "EBADF", "echo 1 | sudo tee");
    let c = after("copy_trace_marker", |d, _, _| fs::remove_file(d.join("tracing/options/copy_trace_marker")).unwrap());
    is(&c, State::Limited, "cannot copy", "dashcam mark");
    let trigger = "tracing/events/sched/sched_switch/trigger";
    let c = after("stacktrace trigger", |d, _, _| put(d.join(trigger), "# Available triggers:\n# traceon\n"));
    is(&c, State::Limited, "no blocked functions", "CONFIG_STACKTRACE");
    let c = after("stacktrace trigger", |d, _, _| fs::remove_file(d.join(trigger)).unwrap());
    is(&c, State::Limited, "cannot be read", "sudo dashcam doctor");
}

#[test]
fn what_helps() {
    let c = after("kallsyms", |d, _, _| put(d.join("proc/kallsyms"), "0000000000000000 T schedule\n"));
    is(&c, State::Limited, "hidden", "kptr_restrict");
    let c = after("perf counters", |_, _, _| {});
    is(&c, State::Limited, "not available: this machine has no hardware counters", "PMU on the host");
    let c = after("psi", |d, _, _| fs::remove_dir_all(d.join("proc/pressure")).unwrap());
    is(&c, State::Limited, "No such file", "psi=1");
    let c = after("sampling", |d, _, _| fs::remove_dir_all(d.join("proc/self")).unwrap());
    is(&c, State::Limited, "waits are unknown", "CONFIG_SCHED_INFO");
}

#[test]
fn disk_and_retention_do_the_sums() {
    let c = after("disk", |_, _, h| h.disk = Some(Disk { total: 100 << 30, free: 4 << 30 }));
    is(&c, State::Missing, "less than store.keep_free (5.0 %)", "free some space");
    // 7 GiB free, 5 of them to stay free: room for 2 of 4.
    let c = after("disk", |_, _, h| h.disk = Some(Disk { total: 100 << 30, free: 7 << 30 }));
    is(&c, State::Limited, "room for 2.0 GiB of 4.0 GiB", "--dir");
    let c = after("disk", |_, _, h| h.store_writable = false);
    is(&c, State::Missing, "cannot be written", "--dir");
    // 4 GiB at 100 KiB/s last 41,943 s: 11 h 39 m.
    let c = after("retention", |_, w, _| w.bytes_per_s = Some(102_400.0));
    is(&c, State::Limited, "11 h 39 m at 100 KiB/s, not the 1 d", "keep_bytes");
    let c = after("retention", |_, w, _| w.bytes_per_s = Some(1_024.0));
    is(&c, State::Ok, "1 d at 1.0 KiB/s", "");
}

#[test]
fn this_machine_gives_every_check() {
    let host = Host::read(Path::new("/nonexistent/dashcam"));
    assert!(host.machine.ram > 0 && host.disk.is_some_and(|d| d.total > 0));
    let dir = tempfile::tempdir().unwrap();
    let wanted = Wanted { tracefs: None, ..machine(dir.path()).0 };
    let checks = examine(&wanted, &host);
    assert_eq!(checks.len(), 16);
    for c in &checks {
        assert!(!c.found.is_empty() && c.mend.as_deref() != Some(""), "{c:?}");
    }
}
