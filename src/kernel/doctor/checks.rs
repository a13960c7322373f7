//! The checks themselves, in the order in which one asks: kernel, tracefs, rights, what tracefs offers, what helps, disk.

use std::fs;
use std::path::Path;

use super::{Check, Host, State, Wanted, writable};
use crate::kernel::budget::{Budget, Shares};
use crate::kernel::counters::{Hardware, Source};
use crate::kernel::events;
use crate::kernel::symbols::Symbols;
use crate::kernel::tracefs::{Tracefs, TracefsError};
use crate::units::show;

/// Looks at everything. The order is that of a listing.
pub fn examine(wanted: &Wanted, host: &Host) -> Vec<Check> {
    let found = Tracefs::find(&host.view, wanted.tracefs.as_deref());
    let mut checks = vec![kernel(host), tracefs(&found, host), rights(&found, host), lockdown(host), namespace(host)];
    if let Ok(tracefs) = &found {
        let root = tracefs.root();
        checks.extend([clock(root), event_set(root, wanted), buffers(root, wanted, host), marker(root), stacks(root)]);
    } else {
        // Without tracefs these cannot be known; each is told all the same, so that a script finds every name.
        for name in ["clock", "events", "buffers", "copy_trace_marker", "stacktrace trigger"] {
            checks.push(missing(name, "not known without tracefs", None));
        }
    }
    checks.extend([
        kallsyms(host),
        psi(host),
        perf_counters(host),
        sampling(host),
        disk(wanted, host),
        retention(wanted, host),
    ]);
    checks
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: State::Ok, found: found.into(), mend: None }
}

fn limited(name: &'static str, found: impl Into<String>, mend: Option<&str>) -> Check {
    Check { name, state: State::Limited, found: found.into(), mend: mend.map(str::to_string) }
}

fn missing(name: &'static str, found: impl Into<String>, mend: Option<&str>) -> Check {
    Check { name, state: State::Missing, found: found.into(), mend: mend.map(str::to_string) }
}

fn kernel(host: &Host) -> Check {
    let release = &host.machine.release;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let found = format!("{release}, {} CPUs online", host.machine.online.len());
    match (numbers.next(), numbers.next()) {
        // CLOCK_BOOTTIME as trace_clock came with 4.17; before, what is recorded needs a guess across suspend.
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (4, 17) => {
            limited("kernel", found, Some("use a kernel of 4.17 or later: older ones have no boot clock for tracing"))
        }
        (Some(Ok(_)), Some(Ok(_))) => ok("kernel", found),
        _ => limited("kernel", "its release is not told", Some("mount procfs: mount -t proc proc /proc")),
    }
}

fn tracefs(found: &Result<Tracefs, TracefsError>, host: &Host) -> Check {
    match found {
        Ok(t) => ok("tracefs", format!("{} ({})", t.root().display(), t.how())),
        Err(TracefsError::NotMounted { command }) if host.view.root => {
            limited("tracefs", "not mounted; dashcam mounts it when it records", Some(command))
        }
        Err(e) => {
            // The message is "what; the mend".
            let text = e.to_string();
            let (what, mend) = text.rsplit_once("; ").map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            missing("tracefs", what, mend)
        }
    }
}

/// Capabilities that recording uses (include/uapi/linux/capability.h), and what for.
const CAPABILITIES: &[(u32, &str)] = &[
    (1, "CAP_DAC_OVERRIDE (tracefs)"),
    (19, "CAP_SYS_PTRACE (names of other users' processes)"),
    (34, "CAP_SYSLOG (function names)"),
];

fn rights(found: &Result<Tracefs, TracefsError>, host: &Host) -> Check {
    const MEND: &str = "run as root: sudo dashcam …, or through the systemd unit";
    let who = if host.view.root { "root" } else { "not root" };
    // The control files tell best: a group may own them (gid= mount option).
    let write = found.as_ref().is_ok_and(|t| writable(&t.root().join("instances")));
    let lacks: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| host.capabilities >> bit & 1 == 0).map(|(_, what)| *what).collect();
    match (write, lacks.is_empty()) {
        (true, true) => ok("rights", format!("{who}, may make a tracefs instance")),
        (true, false) => {
            limited("rights", format!("{who}, may make a tracefs instance; lacks {}", lacks.join(", ")), Some(MEND))
        }
        (false, _) => missing("rights", format!("{who}, may not make a tracefs instance"), Some(MEND)),
    }
}

fn lockdown(host: &Host) -> Check {
    let mode = host.view.lockdown_mode();
    match (mode, &host.view.lockdown) {
        ("confidentiality", _) => missing(
            "lockdown",
            "confidentiality: tracing is forbidden even to root",
            Some("boot with lockdown=integrity on the kernel's command line"),
        ),
        (_, None) => ok("lockdown", "none (the kernel has no lockdown)"),
        (mode, Some(_)) => ok("lockdown", mode),
    }
}

fn namespace(host: &Host) -> Check {
    if host.view.in_user_namespace() {
        return missing(
            "user namespace",
            "inside one (a rootless container): its root may not trace",
            Some("run dashcam on the host"),
        );
    }
    ok("user namespace", "the host's own")
}

fn text(path: &Path) -> String {
    fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

fn clock(root: &Path) -> Check {
    let clocks = text(&root.join("trace_clock"));
    let has = |name: &str| clocks.split_ascii_whitespace().any(|c| c.trim_matches(['[', ']']) == name);
    match ["boot", "mono", "global"].into_iter().find(|name| has(name)) {
        Some("boot") => ok("clock", "boot"),
        Some(other) => limited(
            "clock",
            format!("{other} (no boot clock): suspend is not counted"),
            Some("use a kernel of 4.17 or later"),
        ),
        None => missing("clock", "none that is of use across CPUs", None),
    }
}

fn event_set(root: &Path, wanted: &Wanted) -> Check {
    let pairs = match events::expand(&wanted.events) {
        Ok(pairs) => pairs,
        Err(e) => return missing("events", e.to_string(), Some("correct capture.events in the configuration")),
    };
    let absent = |(group, name): &&(String, String)| !root.join("events").join(group).join(name).is_dir();
    let absent: Vec<String> = pairs.iter().filter(absent).map(|(g, n)| format!("{g}/{n}")).collect();
    let words = wanted.events.join(" ");
    if absent.iter().any(|e| e == "sched/sched_switch") {
        return missing("events", "no sched/sched_switch", Some("the kernel needs CONFIG_EVENT_TRACING"));
    }
    match absent.len() {
        0 => ok("events", format!("{words}: all {} there", pairs.len())),
        n => limited(
            "events",
            format!("{words}: {} of {} there, not {}", pairs.len() - n, pairs.len(), absent.join(" ")),
            None,
        ),
    }
}

fn buffers(root: &Path, wanted: &Wanted, host: &Host) -> Check {
    let choosable = root.join("buffer_subbuf_size_kb").exists();
    let ask = crate::kernel::budget::Wanted {
        total: wanted.buffer_total,
        ram_share: wanted.buffer_ram_share,
        sub_buffer: if choosable { wanted.sub_buffer } else { 0 },
    };
    let cpus = u32::try_from(host.machine.online.len().max(1)).unwrap_or(u32::MAX);
    let budget = Budget::share(&ask, &Shares { ram: host.machine.ram, cpus });
    let found = format!(
        "{} for {cpus} CPUs, {} each, in sub-buffers of {}",
        show::bytes(budget.total(cpus)),
        show::bytes(budget.per_cpu_kb * 1024),
        show::bytes(budget.sub_buffer)
    );
    if budget.capped_by_ram {
        let why = format!("{found}; cut to {} of RAM", show::percent(wanted.buffer_ram_share));
        return limited("buffers", why, Some("raise capture.buffer_ram_share if events are lost"));
    }
    ok("buffers", found)
}

fn marker(root: &Path) -> Check {
    const NAME: &str = "copy_trace_marker";
    if !root.join("options").join(NAME).exists() {
        return limited(
            NAME,
            "this kernel cannot copy the top level's markers into our instance",
            Some("have programs write to instances/dashcam/trace_marker, or use: dashcam mark TEXT"),
        );
    }
    // While the top level is off, the copy reaches us, but its writers get EBADF.
    if text(&root.join("tracing_on")).trim() == "0" {
        let mend = format!("echo 1 | sudo tee {}", root.join("tracing_on").display());
        return limited(
            NAME,
            "there, but the top level's tracing_on is 0: writers of trace_marker get EBADF",
            Some(&mend),
        );
    }
    ok(NAME, "markers of any program are recorded")
}

fn stacks(root: &Path) -> Check {
    const NAME: &str = "stacktrace trigger";
    let trigger = root.join("events/sched/sched_switch/trigger");
    let readable = fs::read(&trigger).ok();
    let text = readable.as_ref().map(|b| String::from_utf8_lossy(b));
    match text {
        Some(t) if t.split_ascii_whitespace().any(|w| w == "stacktrace") => {
            ok(NAME, "blocked functions can be recorded")
        }
        // Kernels before 3.19 or so list no triggers, and without CONFIG_STACKTRACE there is none of this name.
        Some(t) if t.contains("Available triggers") => {
            limited(NAME, "the kernel has none: no blocked functions", Some("the kernel needs CONFIG_STACKTRACE"))
        }
        Some(_) => ok(NAME, "a trigger is set by somebody already; ours goes to our own instance"),
        None => {
            limited(NAME, format!("{} cannot be read", trigger.display()), Some("run as root: sudo dashcam doctor"))
        }
    }
}

fn kallsyms(host: &Host) -> Check {
    match Symbols::load(&host.proc.root().join("kallsyms")) {
        Ok(symbols) => ok("kallsyms", format!("{} functions", show::grouped(symbols.len() as u64))),
        Err(e) => {
            let text = e.to_string();
            let (what, mend) = text.split_once("; ").map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            limited("kallsyms", format!("{what}: no blocked functions"), mend)
        }
    }
}

fn psi(host: &Host) -> Check {
    match fs::read_to_string(host.proc.root().join("pressure/cpu")) {
        Ok(_) => ok(Source::Psi.word(), "pressure stall information is there"),
        Err(e) => limited(
            Source::Psi.word(),
            format!("no pressure stall information: {e}"),
            Some("add psi=1 to the kernel's command line (needs CONFIG_PSI)"),
        ),
    }
}

fn perf_counters(host: &Host) -> Check {
    let cpus: Vec<u32> = host.machine.online.first().copied().into_iter().collect();
    match Hardware::open(&cpus, &*host.perf) {
        Ok(_) => ok("perf counters", "cycles and instructions can be counted per CPU"),
        Err(e) => {
            let text = e.to_string();
            let (what, mend) = text.split_once("; ").map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            limited("perf counters", format!("not available: {what}"), mend)
        }
    }
}

/// What is left when ftrace cannot be had.
fn sampling(host: &Host) -> Check {
    const NAME: &str = "sampling";
    match fs::read_to_string(host.proc.root().join("self/schedstat")) {
        Ok(t) if !t.trim().is_empty() => ok(NAME, "/proc gives exact run and wait sums (for --source proc)"),
        _ => limited(
            NAME,
            "no schedstat: with --source proc, waits are unknown",
            Some("the kernel needs CONFIG_SCHED_INFO"),
        ),
    }
}

fn disk(wanted: &Wanted, host: &Host) -> Check {
    let store = wanted.store.display();
    if !host.store_writable {
        let mend = "run as root, or name a directory of your own: dashcam --dir DIR";
        return missing("disk", format!("{store} cannot be written by this user"), Some(mend));
    }
    let Some(disk) = host.disk else {
        return limited("disk", format!("how much is free at {store} is not told"), None);
    };
    let share = disk.free as f64 / disk.total.max(1) as f64;
    let found = format!("{store}: {} of {} free", show::bytes(disk.free), show::bytes(disk.total));
    if share < wanted.keep_free {
        let what = format!("{found}, less than store.keep_free ({})", show::percent(wanted.keep_free));
        return missing("disk", what, Some("free some space, or lower store.keep_free"));
    }
    let room = room(wanted, disk);
    if room < wanted.keep_bytes {
        let what = format!("{found}; room for {} of {}", show::bytes(room), show::bytes(wanted.keep_bytes));
        return limited("disk", what, Some("free some space, or name another disk: dashcam --dir DIR"));
    }
    ok("disk", found)
}

/// Bytes that recordings can still take while `keep_free` stays free.
fn room(wanted: &Wanted, disk: super::Disk) -> u64 {
    let reserve = (disk.total as f64 * wanted.keep_free) as u64;
    disk.free.saturating_sub(reserve)
}

fn retention(wanted: &Wanted, host: &Host) -> Check {
    const NAME: &str = "retention";
    let keep = u64::try_from(wanted.keep_time.as_nanos()).unwrap_or(u64::MAX);
    let limit = host.disk.map_or(wanted.keep_bytes, |d| room(wanted, d).min(wanted.keep_bytes));
    let Some(rate) = wanted.bytes_per_s.filter(|r| *r > 0.0) else {
        let what = format!(
            "{} or {}, whichever is first; nothing recorded yet to tell the rate",
            show::span_words(keep),
            show::bytes(limit)
        );
        return ok(NAME, what);
    };
    let by_size = (limit as f64 / rate * 1e9).min(u64::MAX as f64) as u64;
    let found = format!("{} at {}/s", show::span_words(by_size.min(keep)), show::bytes(rate as u64));
    if by_size < keep {
        let what = format!("{found}, not the {} of store.keep_time", show::span_words(keep));
        return limited(NAME, what, Some("raise store.keep_bytes, or record fewer events"));
    }
    ok(NAME, found)
}
