//! The formats behind the counters. A line that is not as expected gives no sample, never a wrong one.

use super::Sample;

/// Keys of meminfo that are worth a sample each interval, and our names for them.
const MEMORY: &[(&str, &str)] = &[
    ("MemFree", "mem.free_bytes"),
    ("MemAvailable", "mem.available_bytes"),
    ("Cached", "mem.cached_bytes"),
    ("Dirty", "mem.dirty_bytes"),
    ("Writeback", "mem.writeback_bytes"),
    ("AnonPages", "mem.anonymous_bytes"),
    ("Slab", "mem.slab_bytes"),
    ("SwapFree", "mem.swap_free_bytes"),
];

/// `MemFree:  19399548 kB` lines.
pub(super) fn meminfo(text: &str, out: &mut Vec<Sample>) {
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(':') else { continue };
        let Some((_, name)) = MEMORY.iter().find(|(k, _)| *k == key) else { continue };
        let kib = rest.trim().strip_suffix(" kB").and_then(|n| n.trim().parse::<u64>().ok());
        out.extend(kib.map(|kib| Sample::new(*name, kib as f64 * 1024.0)));
    }
}

/// `some avg10=10.14 avg60=18.10 avg300=12.72 total=87042527`: averages are percent, the total is µs.
pub(super) fn pressure(what: &str, text: &str, out: &mut Vec<Sample>) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(kind) = words.next().filter(|k| matches!(*k, "some" | "full")) else { continue };
        for word in words {
            match word.split_once('=') {
                Some(("avg10", v)) => out.extend(finite(v).map(|v| Sample::new(format!("psi.{what}.{kind}.avg10"), v))),
                Some(("total", v)) => {
                    let ns = v.parse::<u64>().ok().map(|us| us as f64 * 1e3);
                    out.extend(ns.map(|ns| Sample::new(format!("psi.{what}.{kind}.total_ns"), ns)));
                }
                _ => {}
            }
        }
    }
}

/// Whole disks that ever did anything, in the order of the file. Fields: Documentation/admin-guide/iostats.rst; a
/// sector is 512 bytes whatever the disk says.
pub(super) fn diskstats(text: &str, is_disk: impl Fn(&str) -> bool, out: &mut Vec<Sample>) {
    for line in text.lines() {
        let f: Vec<&str> = line.split_whitespace().collect();
        let Some(name) = f.get(2).filter(|n| !n.contains('/') && **n != "..") else { continue };
        let num = |i: usize| f.get(i).and_then(|v| v.parse::<u64>().ok());
        let (Some(reads), Some(read_sectors)) = (num(3), num(5)) else { continue };
        let (Some(writes), Some(written_sectors)) = (num(7), num(9)) else { continue };
        let (Some(in_flight), Some(busy_ms)) = (num(11), num(12)) else { continue };
        if reads == 0 && writes == 0 || !is_disk(name) {
            continue;
        }
        for (what, value) in [
            ("reads", reads as f64),
            ("read_bytes", read_sectors as f64 * 512.0),
            ("writes", writes as f64),
            ("written_bytes", written_sectors as f64 * 512.0),
            ("in_flight", in_flight as f64),
            ("busy_ns", busy_ms as f64 * 1e6),
        ] {
            out.push(Sample::new(format!("disk.{name}.{what}"), value));
        }
    }
}

/// `1.97 1.29 0.77 3/107 31657`: averages, runnable / existing threads, last pid.
pub(super) fn loadavg(text: &str, out: &mut Vec<Sample>) {
    let mut words = text.split_whitespace();
    for name in ["load.1m", "load.5m", "load.15m"] {
        out.extend(words.next().and_then(finite).map(|v| Sample::new(name, v)));
    }
    if let Some((running, all)) = words.next().and_then(|w| w.split_once('/')) {
        out.extend(finite(running).map(|v| Sample::new("threads.running", v)));
        out.extend(finite(all).map(|v| Sample::new("threads.all", v)));
    }
}

/// A number that is one ("nan" and "inf" parse as f64, but are no measurement).
fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}
