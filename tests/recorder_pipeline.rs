//! The whole capture path on made-up CPUs: pages in, segments out. No root, no kernel.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "recorder_support/mod.rs"]
mod support;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use dashcam::feed;
use dashcam::sched::event::{EventKind, Item, Loss};
use dashcam::sched::fold::Consumer;
use dashcam::store::reader::read_footer;

#[derive(Default)]
struct Seen {
    switches: u64,
    wakings: u64,
    last: u64,
    disordered: u64,
    losses: Vec<Loss>,
    gaps: u64,
    prev_unknown: u64,
    /// CPU and instant of each event.
    at: Vec<(u32, u64)>,
}

impl Consumer for Seen {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Event(e) => {
                self.disordered += u64::from(e.ts < self.last);
                self.last = e.ts;
                self.at.push((e.cpu, e.ts));
                match e.kind {
                    EventKind::Switch(s) => {
                        self.switches += 1;
                        self.prev_unknown += u64::from(s.prev_tid.is_none());
                    }
                    EventKind::Waking(_) => self.wakings += 1,
                    _ => {}
                }
            }
            Item::Loss(l) => self.losses.push(*l),
            Item::Gap { .. } => self.gaps += 1,
            _ => {}
        }
    }
}

fn load(paths: &[PathBuf]) -> Seen {
    let mut seen = Seen::default();
    let loaded = feed::load(paths, None, &mut seen, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    seen
}

#[test]
fn case_86_sixty_four_cpus_lose_nothing_and_segments_join_without_a_seam() {
    let dir = tempfile::tempdir().unwrap();
    let made = support::record(
        dir.path(),
        support::Load {
            cpus: 64,
            pairs_per_second: 1000,
            time: Duration::from_millis(2500),
            segment: Duration::from_secs(1),
            refuses_after: None,
        },
    );
    let seen = load(&[dir.path().to_owned()]);
    assert_eq!((seen.switches, seen.wakings), (made.pairs, made.pairs));
    assert_eq!((seen.disordered, seen.losses.len(), seen.gaps, seen.prev_unknown), (0, 0, 0, 0));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir.path().join("segments")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort_by_key(|f| read_footer(f).unwrap().unwrap().totals.sequence);
    assert!(files.len() >= 3, "{files:?}");
    let footers: Vec<_> = files.iter().map(|f| read_footer(f).unwrap().unwrap()).collect();
    for pair in footers.windows(2) {
        assert_eq!(pair[0].totals.end, pair[1].totals.start, "cut at one instant");
        // Whole seconds of the wall clock, measured on the boot clock: the two are read microseconds apart.
        let real = pair[1].totals.clock.real - pair[1].totals.clock.boot + pair[1].totals.start;
        let off = (real + 500_000_000) % 1_000_000_000;
        assert!(off.abs_diff(500_000_000) < 5_000_000, "cut {off} ns beside a whole second");
    }
    assert_eq!(footers.iter().map(|f| f.totals.events).sum::<u64>(), 2 * made.pairs);
    for footer in &footers {
        assert_eq!(footer.summary.lanes.len(), 64);
        // Before the load begins nothing is known of a CPU, and after it they idle.
        if footer.totals.busy.is_some() {
            assert!(footer.totals.worst_wait.as_ref().is_none_or(|w| w.dur == support::WAIT));
        }
    }
    // The load begins and ends somewhere within a segment. One lies wholly in it, behind one in which it already ran.
    let busy: Vec<_> = footers.iter().map(|f| f.totals.busy).collect();
    let whole = (1..busy.len()).find(|&i| busy[i - 1].is_some() && busy[i].is_some_and(|b| (b - 0.5).abs() < 0.01));
    let whole = whole.unwrap_or_else(|| panic!("each thread runs half of the time: {busy:?}"));
    // Each segment alone is readable, and so is the middle of one.
    let alone = load(&files[whole..=whole]);
    assert!(alone.switches > 0 && alone.prev_unknown == 0);
    let window = footers[whole].totals.window();
    let middle = dashcam::sched::summary::Window { from: window.from + 300_000_000, to: window.from + 600_000_000 };
    let mut part = Seen::default();
    let paths = [dir.path().to_owned()];
    feed::load(&paths, Some(middle), &mut part, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(part.switches > 0 && part.switches < alone.switches);
    assert_eq!(part.prev_unknown, 0, "a frame tells who runs at its begin");
}

/// What lets open may refuse to read later: a kernel that is locked down meanwhile, for one.
#[test]
fn a_cpu_that_cannot_be_read_for_a_while_is_lost_for_that_time_and_no_other_is() {
    let dir = tempfile::tempdir().unwrap();
    let made = support::record(
        dir.path(),
        support::Load {
            cpus: 2,
            pairs_per_second: 1000,
            time: Duration::from_millis(3500),
            segment: Duration::from_secs(60),
            refuses_after: Some(10),
        },
    );
    let seen = load(&[dir.path().to_owned()]);
    assert_eq!((seen.disordered, seen.gaps), (0, 0), "what came too late is not in it");
    assert!(seen.losses.len() >= 2, "each cycle that could not be read tells it: {:?}", seen.losses);
    assert!(seen.losses.iter().all(|l| l.cpu == 0 && l.count.is_none() && l.from <= l.to), "{:?}", seen.losses);
    let (from, to) = (seen.losses[0].from, seen.losses.iter().map(|l| l.to).max().unwrap());
    let of = |cpu| seen.at.iter().filter(move |a| a.0 == cpu).map(|a| a.1);
    assert_eq!(of(1).count() as u64, made.pairs, "the other CPU has all of its switches and wake-ups");
    assert_eq!(of(0).filter(|ts| (from + 1..to).contains(ts)).count(), 0, "nothing is said to lie in the loss");
    assert!(of(0).any(|ts| ts <= from) && of(0).any(|ts| ts >= to), "it was recorded before and is again");
}

#[test]
fn every_segment_is_a_perfetto_trace() {
    let dir = tempfile::tempdir().unwrap();
    let made = support::record(
        dir.path(),
        support::Load {
            cpus: 2,
            pairs_per_second: 500,
            time: Duration::from_millis(1500),
            segment: Duration::from_secs(1),
            refuses_after: None,
        },
    );
    let script = r#"
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p
trace = p.Trace()
trace.ParseFromString(sys.stdin.buffer.read())
switches = wakings = 0
seen = set()
for packet in trace.packet:
    seen.add(packet.WhichOneof('data'))
    bundle = packet.ftrace_events
    switches += len(bundle.compact_sched.switch_timestamp) + sum(e.HasField('sched_switch') for e in bundle.event)
    wakings += len(bundle.compact_sched.waking_timestamp) + sum(e.HasField('sched_waking') for e in bundle.event)
    if packet.HasField('system_info'):
        assert packet.system_info.utsname.release
for kind in ('clock_snapshot', 'system_info', 'process_tree', 'ftrace_events', 'trace_uuid', 'trace_config'):
    assert kind in seen, kind
print(switches, wakings)
"#;
    // What zstd -dc of `cat SEG1 SEG2 …` gives.
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir.path().join("segments")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let joined: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
    let plain = zstd::decode_all(&joined[..]).unwrap();
    let mut child = std::process::Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 is needed (and: pip install perfetto)");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &plain).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(String::from_utf8(out.stdout).unwrap().trim(), format!("{0} {0}", made.pairs));
}
