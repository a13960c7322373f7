//! Exports of a small trace worked out by hand, with losses and hostile names in it, and of the tracebox fixture.

#![allow(clippy::unwrap_used)]

mod trace_processor_support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use dashcam::export::ctf::Ctf;
use dashcam::export::json::Json;
use dashcam::export::text::Text;
use dashcam::export::{Exporter, Target, perfetto};
use dashcam::feed;
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::sched::event::{
    ClockSnapshot, Event, EventKind, Item, Loss, ProcessFact, Switch, SystemFact, ThreadFact, Wake,
};
use dashcam::sched::fold::Consumer;
use dashcam::sched::state::StateLayout;
use dashcam::sched::summary::Window;
use dashcam::store::footer::BootId;
use dashcam::store::probe::identity;

/// Two CPUs. cpu0: idle, loader from 1 s, out in D at 2 s; 12 events lost after that; logger is put on at 4 s. cpu1: a
/// waking from interrupt, then a loss that nobody counted.
fn items() -> (Vec<Item>, NameTable) {
    let mut names = NameTable::new();
    let loader = names.intern(b"loa\x1b[2Jder");
    let (logger, idle) = (names.intern(b"logger\xff"), names.intern(b"swapper/0"));
    let mark = names.intern(b"B|10|st\nep");
    let (host, release) = (names.intern(b"gpu-\"07"), names.intern(b"6.18.44"));
    let s = 1_000_000_000;
    let event = |ts, cpu, flags, kind| Item::Event(Event { ts, cpu, emitter: None, flags, kind });
    let switch = |prev, raw, next, comm| {
        EventKind::Switch(Switch {
            prev_tid: Some(prev),
            prev_prio: Some(120),
            prev_state: StateLayout::SINCE_4_14.decode(raw),
            prev_state_raw: raw,
            next_tid: next,
            next_prio: 120,
            next_comm: comm,
        })
    };
    let wake = Wake { tid: 12, prio: 120, comm: logger, target_cpu: 0 };
    let items = vec![
        Item::Clock(ClockSnapshot { boot: s, mono: s, real: 1_700_000_000 * s, tai: 0, zone_offset_minutes: None }),
        Item::System(SystemFact { host, release, cpus: 2, ..SystemFact::default() }),
        Item::Process(ProcessFact { pid: 10, name: loader, ..ProcessFact::default() }),
        Item::Thread(ThreadFact { tid: 11, pid: 10, name: loader, start: None, ts: 0 }),
        event(s, 0, 0, switch(0, 0, 11, loader)),
        event(s + 500, 0, 0, EventKind::Print { text: mark }),
        event(2 * s, 0, 0, switch(11, 2, 0, idle)),
        Item::Loss(Loss { cpu: 0, from: 2 * s, to: 3 * s, count: Some(12) }),
        event(3 * s, 1, 0x08, EventKind::Waking(wake)),
        event(4 * s, 0, 0x04, switch(0, 0, 12, logger)),
        Item::Loss(Loss { cpu: 1, from: 3 * s, to: 5 * s, count: None }),
        event(5 * s, 1, 0, switch(0, 0, 11, loader)),
    ];
    (items, names)
}

fn through<T: Target>(target: T, window: Option<Window>) -> T {
    let (items, names) = items();
    let mut exporter = Exporter::new(target, window);
    for item in &items {
        exporter.item(item);
        exporter.checkpoint(&names);
    }
    exporter.end();
    exporter.finish(&names).unwrap()
}

fn text(window: Option<Window>) -> Vec<String> {
    let out = through(Text::new(Vec::new()), window).into_inner();
    String::from_utf8(out).unwrap().lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn case_99_text_has_the_kernels_lines_and_states_both_losses() {
    let lines = text(None);
    let at = |part: &str| lines.iter().position(|l| l.contains(part)).unwrap_or_else(|| panic!("{part}: {lines:#?}"));
    assert_eq!(
        lines[at("next_pid=11")],
        "          <idle>-0       (    0) [000] ...     1.000000000: sched_switch: prev_comm=swapper prev_pid=0 \
         prev_prio=120 prev_state=R ==> next_comm=loa\\x1b[2Jder next_pid=11 next_prio=120"
    );
    assert!(lines[at("tracing_mark_write")].ends_with("tracing_mark_write: B|10|st\\x0aep"));
    assert!(
        lines[at("prev_pid=11")].contains("loa\\x1b[2Jder-11      (   10) [000] ...     2.000000000: sched_switch:")
    );
    assert!(lines[at("prev_pid=11")].contains("prev_state=D ==> next_comm=swapper"));
    assert!(lines[at("sched_waking")].contains("[001] ..h     3.000000000: sched_waking: comm=logger\u{fffd} pid=12"));
    let (counted, uncounted) = (at("CPU:0 [LOST 12 EVENTS]"), at("CPU:1 [LOST EVENTS]"));
    assert!(at("prev_pid=11") < counted && counted < at("next_pid=12") && at("next_pid=12") < uncounted);
    assert!(lines.iter().all(|l| !l.contains('\x1b')));
}

/// What compact encodings leave out is filled in from the switch before.
#[test]
fn a_switch_that_does_not_say_who_left_is_completed() {
    let (items, mut names) = items();
    let loader = names.intern(b"x");
    let switch = |ts, prev: Option<i32>, next, prio| {
        let kind = EventKind::Switch(Switch {
            prev_tid: prev,
            prev_prio: None,
            prev_state: StateLayout::SINCE_4_14.decode(1),
            prev_state_raw: 1,
            next_tid: next,
            next_prio: prio,
            next_comm: loader,
        });
        Item::Event(Event { ts, cpu: 0, emitter: None, flags: 0, kind })
    };
    let mut exporter = Exporter::new(Text::new(Vec::new()), None);
    for item in items[..4].iter().chain(&[switch(1, Some(0), 11, 97), switch(2, None, 0, 120)]) {
        exporter.item(item);
    }
    exporter.end();
    let text = String::from_utf8(exporter.finish(&names).unwrap().into_inner()).unwrap();
    assert!(text.lines().last().unwrap().contains("prev_comm=x prev_pid=11 prev_prio=97 prev_state=S ==>"), "{text}");
}

#[test]
fn a_window_cuts_the_text() {
    let lines = text(Some(Window { from: 3_000_000_000, to: 5_000_000_000 }));
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].contains("LOST 12") && lines[1].contains("sched_waking") && lines[2].contains("next_pid=12"));
}

#[test]
fn case_99_json_is_json_and_states_both_losses() {
    let out = through(Json::new(Vec::new()), None).into_inner();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains('\x1b'));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["otherData"]["lost_events"], 12);
    assert_eq!(json["otherData"]["losses_of_unknown_number"], 1);
    let events = json["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
    assert_eq!(named("LOST 12 EVENTS")[0]["args"]["cpu"], 0);
    assert_eq!(named("LOST EVENTS")[0]["args"]["count"], serde_json::Value::Null);
    let ran = events.iter().find(|e| e["pid"] == -1 && e["args"]["tid"] == 11).unwrap();
    assert_eq!((ran["ts"].as_f64(), ran["dur"].as_f64()), (Some(1e6), Some(1e6)));
    assert_eq!(ran["args"]["end_state"], "D");
}

/// babeltrace2 is one of the tools the build machine has to have; without it this fails.
fn babeltrace(dir: &Path) -> (Vec<String>, String) {
    let out = Command::new("babeltrace2").args(["--clock-seconds", "--no-delta"]).arg(dir).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{err}");
    (String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect(), err)
}

#[test]
fn case_99_ctf_is_read_by_babeltrace2_with_its_losses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    through(Ctf::create(&path, [7; 16]).unwrap(), None);
    let (lines, warnings) = babeltrace(&path);
    let find = |part: &str| lines.iter().find(|l| l.contains(part)).unwrap_or_else(|| panic!("{part}: {lines:#?}"));
    let switch = find("next_tid = 12");
    // Boot second 4 is 3 s after the clock snapshot.
    assert!(
        switch.starts_with("[1700000003.000000000]") && switch.contains("sched_switch: { cpu_id = 0 }"),
        "{switch}"
    );
    assert!(find("prev_tid = 11").contains("prev_state = 2"));
    assert!(find("tid = 11, pid = 10").contains("lttng_statedump_process_state"));
    assert!(find("dashcam_loss: { cpu_id = 0 }").contains("count = 12"));
    assert!(find("dashcam_loss: { cpu_id = 1 }").contains("count = -1"));
    assert!(warnings.contains("discarded 12 event"), "{warnings}");
    assert!(Ctf::create(&path, [7; 16]).is_err(), "a second trace in the same folder would corrupt the first");
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("notes"), b"mine").unwrap();
    assert!(Ctf::create(other.path(), [7; 16]).is_err(), "not among somebody's files");
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perfetto/training-like.pftrace.zst")
}

fn export<T: Target>(target: T) -> T {
    let mut exporter = Exporter::new(target, None);
    let mut go_on = |_| ControlFlow::Continue(());
    let loaded = feed::load(&[fixture()], None, &mut exporter, &mut go_on).unwrap();
    exporter.finish(&loaded.names).unwrap()
}

/// Events of each kind in the fixture, as `tests/perfetto_fixture.rs` counts them.
#[test]
fn every_event_of_the_fixture_is_exported() {
    let text = String::from_utf8(export(Text::new(Vec::new())).into_inner()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    export(Ctf::create(&path, [1; 16]).unwrap());
    let (ctf, _) = babeltrace(&path);
    for (name, ctf_name, count) in [
        ("sched_switch", "sched_switch", 3752),
        ("sched_waking", "sched_waking", 2236),
        ("block_rq_issue", "block_rq_issue", 561),
        ("cpu_idle", "power_cpu_idle", 2389),
        ("irq_handler_entry", "irq_handler_entry", 230),
        ("softirq_exit", "irq_softirq_exit", 1020),
        ("tracing_mark_write", "dashcam_mark", 380),
        ("task_newtask", "sched_process_fork", 87),
    ] {
        assert_eq!(text.matches(&format!(": {name}: ")).count(), count, "{name} in text");
        assert_eq!(ctf.iter().filter(|l| l.contains(&format!(" {ctf_name}: {{"))).count(), count, "{ctf_name} in CTF");
    }
}

#[test]
fn perfetto_plain_and_zstd_hold_the_same_packets_and_foreign_files_are_cut_by_packets() {
    let (mut plain, mut compressed) = (Vec::new(), Vec::new());
    let files = [fixture()];
    let bytes = perfetto::export(&files, None, false, &mut plain).unwrap().bytes;
    perfetto::export(&files, None, true, &mut compressed).unwrap();
    assert_eq!(plain.len() as u64, bytes);
    assert_eq!(zstd::stream::decode_all(&compressed[..]).unwrap(), plain);
    assert_eq!(zstd::stream::decode_all(std::fs::File::open(fixture()).unwrap()).unwrap(), plain);
    // A moment without events: every packet but those of events, and those of events alone are left out.
    let (events, all) = counted(&plain);
    assert!(events > 0 && all > events);
    let mut cut = Vec::new();
    perfetto::export(&files, Some(Window { from: 0, to: 1 }), false, &mut cut).unwrap();
    assert_eq!(counted(&cut), (0, all - events));
    // A trace that ends within a packet is copied as far as it is whole, which is told.
    let torn = tempfile::NamedTempFile::new().unwrap();
    let whole = Some(Window { from: 0, to: u64::MAX });
    std::fs::write(torn.path(), &plain[..plain.len() - 1]).unwrap();
    for window in [whole, None] {
        cut.clear();
        let told = perfetto::export(&[torn.path().to_owned()], window, false, &mut cut).unwrap().damage;
        assert_eq!((counted(&cut).1, told.len()), (all - 1, 1));
        let at = format!(": damaged at byte {}: the trace ends inside a packet", cut.len());
        assert!(told[0].ends_with(&at), "{told:?} {at}");
    }
    // What is no packet is an error, not a shorter trace.
    std::fs::write(torn.path(), [&plain[..], b"xyz"].concat()).unwrap();
    for window in [whole, None] {
        let export = perfetto::export(&[torn.path().to_owned()], window, false, &mut Vec::new());
        let e = export.unwrap_err().to_string();
        assert!(e.ends_with(&format!(": damaged at byte {}: no trace packet starts here", plain.len())), "{e}");
    }
}

/// A file of ours with 12 events lost on CPU 0 and an unknown number on CPU 3, out again through the export: our reader has
/// both as they were, and Perfetto's trace processor lists both CPUs under data loss.
#[test]
fn case_99_perfetto_states_both_losses_also_to_the_trace_processor() {
    let (mut head, mut data) = (Vec::new(), Vec::new());
    let clock =
        ClockSnapshot { boot: 100, mono: 100, real: 1_700_000_000_000_000_100, tai: 0, zone_offset_minutes: None };
    packets::clocks(&clock, &mut head);
    identity(BootId([7; 16]), "test", 100, &mut head);
    let system = packets::System { release: b"6.18.44".to_vec(), cpus: 4, ..packets::System::default() };
    packets::system(&system, &mut head);
    let (mut bundle, comm) = (BundleBuilder::new(), |name: &[u8]| {
        let mut out = [0; 16];
        out[..name.len()].copy_from_slice(name);
        out
    });
    for (cpu, count) in [(0, Some(12)), (1, None), (3, None)] {
        bundle.switch(1000, 1, 11, 120, &comm(b"before"));
        bundle.finish(cpu, None, &mut data);
        bundle.switch(9000, 1, 12, 120, &comm(b"after"));
        // CPU 1 lost nothing.
        bundle.finish(cpu, (cpu != 1).then_some(Loss { cpu, from: 1000, to: 9000, count }), &mut data);
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("in.pftrace.zst"), dir.path().join("out.pftrace"));
    let frames: Vec<u8> = [head, data].iter().flat_map(|p| zstd::encode_all(&p[..], 3).unwrap()).collect();
    std::fs::write(&file, frames).unwrap();
    perfetto::export(&[file], None, false, &mut std::fs::File::create(&out).unwrap()).unwrap();

    let mut losses = Losses::default();
    feed::load(std::slice::from_ref(&out), None, &mut losses, &mut |_| ControlFlow::Continue(())).unwrap();
    let loss = |cpu, count| Loss { cpu, from: 1000, to: 9000, count };
    assert_eq!(losses.0, [loss(0, Some(12)), loss(3, None)]);
    let sql = "SELECT idx, severity FROM stats WHERE name = 'ftrace_cpu_has_data_loss' AND value > 0 ORDER BY idx";
    let told = trace_processor_support::ask(&out, &[sql]);
    assert_eq!(serde_json::to_string(&told[0]).unwrap(), r#"[[0,"data_loss"],[3,"data_loss"]]"#);
}

#[derive(Default)]
struct Losses(Vec<Loss>);

impl Consumer for Losses {
    fn item(&mut self, item: &Item) {
        if let Item::Loss(loss) = item {
            self.0.push(*loss);
        }
    }
}

/// Packets that hold events, and all packets, of a trace that is whole.
fn counted(trace: &[u8]) -> (usize, usize) {
    let (mut with_events, mut all, mut at) = (0, 0, 0);
    while at < trace.len() {
        assert_eq!(trace[at], 0x0a);
        let (mut len, mut shift, mut body) = (0usize, 0, at + 1);
        loop {
            len |= usize::from(trace[body] & 0x7f) << shift;
            (body, shift) = (body + 1, shift + 7);
            if trace[body - 1] < 0x80 {
                break;
            }
        }
        let mut events = false;
        let mut sink = |item| events |= matches!(item, Item::Event(_));
        Decoder::new().decode(&trace[at..body + len], &mut NameTable::new(), &mut sink).unwrap();
        (with_events, all, at) = (with_events + usize::from(events), all + 1, body + len);
    }
    (with_events, all)
}
