//! The instance against a fake kernel; the real one is in `tests/kernel_tracefs.rs`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::kernel::cpu_reader::ReadOutcome;
use crate::kernel::testing::{FakeOptions, FakeTracefs, Kernel, PageWriter};
use crate::kernel::tracefs::TracefsError;
use tempfile::TempDir;

fn machine(cpus: u32) -> Machine {
    Machine { ram: 16 << 30, online: (0..cpus).collect(), release: "6.18.44".to_owned() }
}

fn fake(options: FakeOptions) -> (TempDir, FakeTracefs) {
    // Thousands of small files: in memory where there is such a place.
    let place = Some(PathBuf::from("/dev/shm")).filter(|p| p.is_dir()).unwrap_or_else(std::env::temp_dir);
    let dir = tempfile::tempdir_in(place).unwrap();
    let fake = FakeTracefs::build(dir.path(), options).unwrap();
    (dir, fake)
}

fn open(fake: &FakeTracefs, settings: &Settings) -> Result<Instance, InstanceError> {
    Instance::open_in(fake.tracefs(), settings, machine(2))
}

/// What was written to files that end in `suffix`, in order.
fn written(fake: &FakeTracefs, suffix: &str) -> Vec<String> {
    fake.changes().into_iter().filter(|(path, _)| path.ends_with(suffix)).map(|(_, value)| value).collect()
}

#[test]
fn everything_asked_for_is_set_and_gone_after() {
    let (dir, fake) = fake(FakeOptions::default());
    let before = tree(dir.path());
    let instance = open(&fake, &Settings::default()).unwrap();
    assert_eq!(instance.clock(), TraceClock::Boot);
    assert_eq!(instance.layout().sub_buffer_size(), 65536, "the instance's geometry after the change");
    // 64 MiB over two CPUs.
    assert_eq!(written(&fake, "/buffer_size_kb"), ["32768"]);
    assert_eq!(written(&fake, "/buffer_percent"), ["50"]);
    assert_eq!(written(&fake, "sched/sched_switch/enable"), ["1"]);
    assert_eq!(written(&fake, "sched_switch/trigger"), ["stacktrace if prev_state & 2"]);
    assert!(written(&fake, "irq_handler_entry/enable").is_empty(), "not asked for");
    assert!(instance.events().find("ftrace", "kernel_stack").is_some());
    assert_eq!(instance.notes(), []);
    let top = dir.path().display().to_string();
    let instances = format!("{top}/instances/");
    instance.start().unwrap();
    instance.close().unwrap();
    assert!(fake.changes().iter().all(|(path, _)| path.starts_with(&instances)), "the top level is never written");
    assert_eq!(tree(dir.path()), before);
}

/// Every file with its text.
fn tree(root: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(tree(&path)),
            path => files.push((path.clone(), fs::read_to_string(path).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn marker_copy_is_on_only_while_tracing_is() {
    let (_dir, fake) = fake(FakeOptions::default());
    let instance = open(&fake, &Settings::default()).unwrap();
    instance.start().unwrap();
    drop(instance);
    let order: Vec<(String, String)> = fake
        .changes()
        .into_iter()
        .filter(|(path, _)| path.ends_with("tracing_on") || path.ends_with("copy_trace_marker"))
        .map(|(path, value)| (path.rsplit('/').next().unwrap().to_owned(), value))
        .collect();
    let expected = [
        ("tracing_on", "0"),
        ("tracing_on", "1"),
        ("copy_trace_marker", "1"),
        ("copy_trace_marker", "0"),
        ("tracing_on", "0"),
    ];
    assert_eq!(order, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn markers_go_where_they_are_seen() {
    let (dir, new) = fake(FakeOptions::default());
    let instance = open(&new, &Settings::default()).unwrap();
    assert_eq!(instance.marker_path(), dir.path().join("trace_marker"));
    let (_dir, old) = fake(FakeOptions { copy_trace_marker: false, ..FakeOptions::default() });
    let instance = open(&old, &Settings::default()).unwrap();
    assert_eq!(instance.marker_path(), instance.dir().join("trace_marker"));
    assert!(matches!(instance.notes(), [Note::NoMarkerCopy { .. }]));
    instance.start().unwrap();
    assert!(written(&old, "copy_trace_marker").is_empty());
}

#[test]
fn the_best_clock_that_the_kernel_takes() {
    let (_dir, kernel) = fake(FakeOptions { clocks: vec!["global", "mono"], ..FakeOptions::default() });
    let instance = open(&kernel, &Settings::default()).unwrap();
    assert_eq!(instance.clock(), TraceClock::Mono);
    assert_eq!(instance.notes(), [Note::Clock { wanted: "boot", used: "mono" }]);

    let (_dir, kernel) = fake(FakeOptions::default());
    kernel.refuse("trace_clock", Some("boot"), libc::EINVAL);
    kernel.refuse("trace_clock", Some("mono"), libc::EINVAL);
    assert_eq!(open(&kernel, &Settings::default()).unwrap().clock(), TraceClock::Global);

    let (dir, kernel) = fake(FakeOptions { clocks: vec![], ..FakeOptions::default() });
    let error = open(&kernel, &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("boot, mono, global"), "{error}");
    assert!(!dir.path().join("instances/dashcam").exists(), "a failure leaves nothing behind");
}

#[test]
fn case_17_control_writes_do_not_grow_with_cpus() {
    let count = |cpus: u32| {
        let (_dir, fake) = fake(FakeOptions { cpus: (0..cpus).collect(), ..FakeOptions::default() });
        let instance = Instance::open_in(fake.tracefs(), &Settings::default(), machine(cpus)).unwrap();
        instance.start().unwrap();
        assert_eq!(instance.cpus().unwrap().len(), cpus as usize);
        fake.changes().len()
    };
    let (two, many) = (count(2), count(1024));
    assert_eq!(two, many);
    // At 5 ms each: well under two seconds.
    assert!(many < 100, "{many} writes");
}

#[test]
fn case_19_sparse_cpus_keep_their_ids() {
    let cpus = vec![0, 1, 2, 3, 8, 10, 11];
    let (_dir, fake) = fake(FakeOptions { cpus: cpus.clone(), ..FakeOptions::default() });
    let instance = open(&fake, &Settings::default()).unwrap();
    let readers = instance.readers().unwrap();
    assert_eq!(readers.iter().map(CpuReader::cpu).collect::<Vec<_>>(), cpus);
}

#[test]
fn case_22_many_cpus_share_the_total() {
    let (_dir, fake) = fake(FakeOptions { cpus: (0..384).collect(), ..FakeOptions::default() });
    let big = Machine { ram: 512 << 30, ..machine(384) };
    let instance = Instance::open_in(fake.tracefs(), &Settings::default(), big).unwrap();
    assert_eq!(written(&fake, "/buffer_size_kb"), ["170"]);
    assert_eq!(instance.layout().sub_buffer_size(), 16384);
}

#[test]
fn case_22_a_small_machine_is_told() {
    let (_dir, fake) = fake(FakeOptions::default());
    let small = Machine { ram: 1 << 30, ..machine(2) };
    let instance = Instance::open_in(fake.tracefs(), &Settings::default(), small).unwrap();
    assert_eq!(instance.notes(), [Note::BufferCapped { total_kb: 20970 }]);
}

#[test]
fn case_79_two_recorders_two_names() {
    let (_dir, fake) = fake(FakeOptions::default());
    let first = open(&fake, &Settings::default()).unwrap();
    let error = open(&fake, &Settings::default()).unwrap_err().to_string();
    assert!(error.contains(&format!("in use by pid {}", std::process::id())), "{error}");
    let other = Settings { name: "dashcam-2".to_owned(), ..Settings::default() };
    open(&fake, &other).unwrap().close().unwrap();
    assert!(first.dir().is_dir());
}

#[test]
fn case_82_a_left_over_is_made_anew() {
    let (dir, fake) = fake(FakeOptions::default());
    let left = open(&fake, &Settings::default()).unwrap();
    left.start().unwrap();
    let path = left.dir().to_owned();
    // As after SIGKILL: the lock is free, everything else as it was.
    let copy = dir.path().join("kept");
    fs::rename(&path, &copy).unwrap();
    drop(left);
    fs::rename(&copy, &path).unwrap();
    let skip = fake.changes().len();
    let again = open(&fake, &Settings { events: vec!["idle".to_owned()], ..Settings::default() }).unwrap();
    let new: Vec<_> = fake.changes().into_iter().skip(skip).collect();
    assert!(new[0].0.ends_with("copy_trace_marker") && new[0].1 == "0", "before tracing stops: {new:?}");
    assert!(new[1].0.ends_with("tracing_on") && new[1].1 == "0");
    assert_eq!(new[2].1, "rmdir");
    assert_eq!(new[3].1, "mkdir");
    assert_eq!(fs::read_to_string(path.join("events/sched/sched_switch/enable")).unwrap(), "0");
    drop(again);
    assert!(!path.exists());
}

#[test]
fn case_82_removal_waits_for_readers_that_are_closing() {
    let (_dir, fake) = fake(FakeOptions::default());
    let instance = open(&fake, &Settings::default()).unwrap();
    let path = instance.dir().to_owned();
    fake.busy(3);
    instance.close().unwrap();
    assert!(!path.exists());
}

#[test]
fn an_instance_that_cannot_go_at_least_costs_nothing() {
    let (_dir, fake) = fake(FakeOptions::default());
    let instance = open(&fake, &Settings::default()).unwrap();
    fake.busy(usize::MAX);
    let error = instance.close().unwrap_err();
    assert!(error.to_string().contains("sudo rmdir"), "{error}");
    assert_eq!(written(&fake, "events/enable"), ["0"]);
    assert_eq!(written(&fake, "/buffer_size_kb").last().unwrap(), "1");
}

#[test]
fn foreign_and_malformed_names_are_refused() {
    let (_dir, fake) = fake(FakeOptions::default());
    for name in ["perfetto", "", "../x", "dashcam/../x", "dashcam x", "dashcam\u{1b}[2J"] {
        let error = open(&fake, &Settings { name: name.to_owned(), ..Settings::default() }).unwrap_err();
        assert!(matches!(error, InstanceError::BadName { .. }), "{name}");
        assert!(!error.to_string().contains('\u{1b}'));
    }
    assert!(fake.changes().is_empty());
}

#[test]
fn events_that_a_kernel_lacks_are_told_not_fatal() {
    let (_dir, fake) = fake(FakeOptions::default());
    let wanted = Settings { events: vec!["sched".to_owned(), "gpu/no_such".to_owned()], ..Settings::default() };
    let instance = open(&fake, &wanted).unwrap();
    assert!(matches!(instance.notes(), [Note::MissingEvent { event, .. }] if event == "gpu/no_such"));
    drop(instance);
    let none = Settings { events: vec!["gpu/no_such".to_owned()], ..Settings::default() };
    assert!(matches!(open(&fake, &none), Err(InstanceError::NoEvents { .. })));
}

#[test]
fn a_refused_trigger_is_told_not_fatal() {
    let (_dir, fake) = fake(FakeOptions::default());
    fake.refuse("sched_switch/trigger", None, libc::EINVAL);
    let instance = open(&fake, &Settings::default()).unwrap();
    assert!(matches!(instance.notes(), [Note::NoStacks { .. }]));
    assert!(instance.events().find("ftrace", "kernel_stack").is_none());
}

#[test]
fn idle_kernel_threads_of_old_kernels_get_no_stack() {
    let (_dir, fake) =
        fake(FakeOptions { kernel: Kernel::V4_9, sub_buffer_choosable: false, ..FakeOptions::default() });
    let all = Settings { blocked: Blocked::All, ..Settings::default() };
    let instance = open(&fake, &all).unwrap();
    assert_eq!(written(&fake, "sched_switch/trigger"), ["stacktrace if prev_state & 3 && prev_state != 1026"]);
    assert_eq!(instance.state_layout(), StateLayout::SINCE_4_8, "from print fmt, whatever the release says");
    assert_eq!(instance.layout().sub_buffer_size(), 4096);
}

#[test]
fn case_88_denied_writes_are_explained() {
    let (_dir, fake) = fake(FakeOptions::default());
    fake.refuse("instances/dashcam", Some("mkdir"), libc::EACCES);
    let error = open(&fake, &Settings::default()).unwrap_err();
    assert!(matches!(error, InstanceError::Tracefs(TracefsError::NoCapability { .. })), "{error}");
}

#[test]
fn pages_come_out_as_they_went_in() {
    let (_dir, fake) = fake(FakeOptions::default());
    let instance = open(&fake, &Settings::default()).unwrap();
    let mut page = PageWriter::new(*instance.layout(), 5);
    assert!(page.data(6, b"abcd"));
    let page = page.finish();
    fake.push_page("dashcam", 1, &page).unwrap();
    let mut readers = instance.readers().unwrap();
    let mut buf = vec![0; instance.layout().sub_buffer_size()];
    assert_eq!(readers[0].read(&mut buf).unwrap(), ReadOutcome::Empty);
    assert_eq!(readers[1].read(&mut buf).unwrap(), ReadOutcome::Page(page.len()));
    assert_eq!(buf, page);
    assert_eq!(readers[1].read(&mut buf).unwrap(), ReadOutcome::Empty);
    assert_eq!(instance.stats(1).unwrap(), CpuStats::default());
}
