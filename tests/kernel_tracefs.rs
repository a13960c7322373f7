//! The real kernel's tracefs: instance, adoption, readers, pages. Needs root; fails, not skips, without tracefs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dashcam::kernel::cpu_reader::{ReadOutcome, Wake, wait};
use dashcam::kernel::instance::{Blocked, Instance, InstanceError, Note, Settings, TraceClock};
use dashcam::kernel::loss::LossMeter;
use dashcam::kernel::records::{Cursor, Step};
use dashcam::kernel::stack::StackFormat;
use dashcam::sched::state::TaskState;

/// Settings with an instance name of this test's own.
fn settings(test: &str) -> Settings {
    Settings { name: format!("dashcam-test-{}-{test}", std::process::id()), ..Settings::default() }
}

fn tracefs() -> PathBuf {
    let open = dashcam::kernel::tracefs::Tracefs::open(None);
    open.expect("these tests need root and a kernel with tracefs").root().to_owned()
}

/// Every readable control of the top level, and the names of all instances but the tests' own.
fn top_level(root: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for file in [
        "tracing_on",
        "trace_clock",
        "buffer_size_kb",
        "buffer_percent",
        "buffer_subbuf_size_kb",
        "trace_options",
        "set_event",
        "current_tracer",
        "events/enable",
        "events/header_page",
        "events/sched/sched_switch/enable",
        "events/sched/sched_switch/trigger",
    ] {
        if let Ok(text) = fs::read_to_string(root.join(file)) {
            seen.insert(file.to_owned(), text);
        }
    }
    seen
}

#[test]
fn case_82_an_instance_leaves_nothing_behind() {
    let root = tracefs();
    let before = top_level(&root);
    let settings = settings("restore");
    let instance = Instance::open(&settings).unwrap();
    let dir = instance.dir().to_owned();
    assert!(dir.is_dir());
    instance.start().unwrap();
    assert_eq!(fs::read_to_string(dir.join("tracing_on")).unwrap().trim(), "1");
    let readers = instance.readers().unwrap();
    drop(readers);
    instance.close().unwrap();
    assert!(!dir.exists());
    assert_eq!(top_level(&root), before);
}

#[test]
fn case_79_a_second_recorder_is_refused_and_names_the_first() {
    tracefs();
    let settings = settings("second");
    let first = Instance::open(&settings).unwrap();
    match Instance::open(&settings) {
        Err(InstanceError::InUse { holder: Some(holder), .. }) => assert_eq!(holder.pid, std::process::id() as i32),
        other => panic!("{other:?}"),
    }
    assert!(first.dir().is_dir(), "the refused one must not remove it");
    let other = Instance::open(&Settings { name: format!("{}-b", settings.name), ..settings.clone() }).unwrap();
    other.close().unwrap();
    first.close().unwrap();
    Instance::open(&settings).unwrap().close().unwrap();
}

/// What a recorder killed in the middle leaves: all on, and nobody holding the lock.
#[test]
fn case_82_a_left_over_is_replaced_and_marker_writers_are_spared() {
    let root = tracefs();
    let before = top_level(&root);
    let settings = settings("leftover");
    let dir = root.join("instances").join(&settings.name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("trace_clock"), "mono").unwrap();
    fs::write(dir.join("events/sched/sched_switch/enable"), "1").unwrap();
    fs::write(dir.join("events/sched/sched_switch/trigger"), "stacktrace if prev_state & 2").unwrap();
    if dir.join("options/copy_trace_marker").exists() {
        fs::write(dir.join("options/copy_trace_marker"), "1").unwrap();
    }
    let instance = Instance::open(&Settings { events: vec!["idle".into()], ..settings }).unwrap();
    assert_eq!(fs::read_to_string(dir.join("events/sched/sched_switch/enable")).unwrap().trim(), "0");
    assert!(fs::read_to_string(dir.join("events/sched/sched_switch/trigger")).unwrap().starts_with('#'));
    if dir.join("options/copy_trace_marker").exists() {
        assert_eq!(fs::read_to_string(dir.join("options/copy_trace_marker")).unwrap().trim(), "0");
        fs::write(root.join("trace_marker"), "dashcam test").expect("EBADF here means that the copy was left on");
    }
    assert_eq!(instance.clock(), TraceClock::Boot);
    instance.close().unwrap();
    assert_eq!(top_level(&root), before);
}

#[test]
fn case_79_a_left_over_that_someone_reads_is_refused_by_name() {
    let root = tracefs();
    let settings = settings("busy");
    let dir = root.join("instances").join(&settings.name);
    fs::create_dir(&dir).unwrap();
    let pipe = dir.join("per_cpu/cpu0/trace_pipe_raw");
    let mut reader = Command::new("sleep").arg("60").stdin(fs::File::open(&pipe).unwrap()).spawn().unwrap();
    let refused = Instance::open(&settings);
    let pid = reader.id() as i32;
    reader.kill().unwrap();
    reader.wait().unwrap();
    match refused {
        Err(InstanceError::InUse { holder: Some(holder), .. }) => {
            assert_eq!((holder.pid, holder.name.as_str()), (pid, "sleep"));
        }
        other => panic!("{other:?}"),
    }
    Instance::open(&settings).unwrap().close().unwrap();
    assert!(!dir.exists());
}

#[test]
fn someone_elses_instance_is_left_alone() {
    let root = tracefs();
    let dir = root.join("instances").join(format!("other-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
    let result = Instance::open(&Settings { name, ..Settings::default() });
    assert!(matches!(result, Err(InstanceError::BadName { .. })), "{result:?}");
    assert!(dir.is_dir());
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn records_switches_in_time_order_with_stacks_and_markers() {
    let root = tracefs();
    let instance = Instance::open(&settings("record")).unwrap();
    let mut readers = instance.readers().unwrap();
    instance.start().unwrap();
    let marker = format!("B|{}|dashcam \u{2713}", std::process::id());
    fs::write(instance.marker_path(), &marker).unwrap();
    for _ in 0..300 {
        std::thread::sleep(Duration::from_micros(500));
    }
    // Goes to D state for certain: vfork suspends the parent killably until the child execs.
    Command::new("true").status().unwrap();
    instance.stop().unwrap();

    let switch = instance.events().find("sched", "sched_switch").unwrap().format.clone();
    let print = instance.events().find("ftrace", "print").unwrap().format.clone();
    let pid = switch.field("prev_pid").unwrap();
    let text = print.field("buf").unwrap();
    let own = std::process::id();
    let (mut own_switches, mut marks, mut unknown) = (0, 0, 0);
    let mut buf = vec![0; instance.layout().sub_buffer_size()];
    for reader in &mut readers {
        let mut last = 0;
        let mut events = 0_u64;
        reader
            .drain(&mut buf, |page| {
                let mut cursor = Cursor::open(instance.layout(), page).unwrap();
                assert!(!cursor.header().missed.any());
                loop {
                    match cursor.next(page) {
                        Step::Record(record) => {
                            assert!(record.ts >= last, "{} after {last}", record.ts);
                            last = record.ts;
                            events += 1;
                            match instance.events().get(record.id()) {
                                None => unknown += 1,
                                Some(e) if e.format.id == switch.id => {
                                    let tid = pid.u64(record.data).unwrap() as u32;
                                    own_switches += u32::from(fs::metadata(format!("/proc/{own}/task/{tid}")).is_ok());
                                }
                                Some(e) if e.format.id == print.id => {
                                    let line = text.string(record.data).unwrap();
                                    marks += u32::from(line.trim_ascii_end() == marker.as_bytes());
                                }
                                Some(_) => {}
                            }
                        }
                        Step::End => break,
                        other => panic!("{other:?}"),
                    }
                }
            })
            .unwrap();
        let stats = instance.stats(reader.cpu()).unwrap();
        assert_eq!((stats.entries, stats.lost()), (0, 0));
        assert_eq!(stats.read_events, events, "every event of cpu {} was walked once", reader.cpu());
    }
    assert!(own_switches >= 200, "slept 300 times, saw {own_switches} switches");
    assert_eq!((marks, unknown), (1, 0));
    drop(readers);
    instance.close().unwrap();
    assert!(root.join("tracing_on").exists());
}

#[test]
fn a_thread_in_d_state_leaves_its_kernel_stack() {
    tracefs();
    let instance = Instance::open(&settings("stack")).unwrap();
    let stacks_refused = instance.notes().iter().any(|n| matches!(n, Note::NoStacks { .. }));
    assert!(!stacks_refused, "{:?}", instance.notes());
    let mut readers = instance.readers().unwrap();
    instance.start().unwrap();
    // vfork keeps the parent in D (killable) until the child execs or ends.
    for _ in 0..5 {
        // SAFETY: the child calls nothing but nanosleep and _exit.
        unsafe {
            #[allow(deprecated)]
            if libc::vfork() == 0 {
                libc::usleep(2000);
                libc::_exit(0);
            }
        }
    }
    instance.stop().unwrap();
    let switch = &instance.events().find("sched", "sched_switch").unwrap().format;
    let stack = StackFormat::of(&instance.events().find("ftrace", "kernel_stack").unwrap().format).unwrap();
    let (pid, state) = (switch.field("prev_pid").unwrap(), switch.field("prev_state").unwrap());
    let own = nix::unistd::gettid().as_raw();
    let (mut blocked, mut stacks) = (0, 0);
    let mut buf = vec![0; instance.layout().sub_buffer_size()];
    for reader in &mut readers {
        // A page may end between a switch and its stack.
        let mut expecting = false;
        reader
            .drain(&mut buf, |page| {
                let mut cursor = Cursor::open(instance.layout(), page).unwrap();
                while let Step::Record(record) = cursor.next(page) {
                    if record.id() == switch.id {
                        let raw = state.i64(record.data).unwrap();
                        expecting = pid.i64(record.data) == Some(i64::from(own))
                            && instance.state_layout().decode(raw).contains(TaskState::UNINTERRUPTIBLE);
                        blocked += u32::from(expecting);
                    } else if record.id() == stack.id() && std::mem::take(&mut expecting) {
                        let frames: Vec<u64> = stack.frames(record.data).collect();
                        assert!(frames.len() >= 3, "{frames:x?}");
                        assert!(frames.iter().all(|a| *a > 1 << 63), "kernel addresses: {frames:x?}");
                        stacks += 1;
                    }
                }
            })
            .unwrap();
    }
    assert!(blocked >= 5, "{blocked}");
    assert_eq!(stacks, blocked, "each switch to D is followed by its stack");
    drop(readers);
    instance.close().unwrap();
}

#[test]
fn case_18_a_low_limit_on_open_files_is_raised() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 256, hard).unwrap();
    dashcam::kernel::open_files::ensure(1024).unwrap();
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(soft >= 1024 + 64, "{soft}");
}

#[test]
fn case_5_geometry_is_the_instances_and_a_read_is_one_sub_buffer() {
    tracefs();
    for kb in [4, 16, 64] {
        let wanted = Settings { sub_buffer: kb * 1024, blocked: Blocked::Off, ..settings(&format!("geo{kb}")) };
        let instance = Instance::open(&wanted).unwrap();
        if !instance.dir().join("buffer_subbuf_size_kb").exists() {
            assert_eq!(instance.layout().sub_buffer_size(), 4096);
            continue;
        }
        assert_eq!(instance.layout().sub_buffer_size() as u64, kb * 1024);
        let mut readers = instance.readers().unwrap();
        instance.start().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let mut buf = vec![0; instance.layout().sub_buffer_size()];
        let mut pages = 0;
        for reader in &mut readers {
            if let ReadOutcome::Page(n) = reader.read(&mut buf).unwrap() {
                assert_eq!(n, buf.len());
                pages += 1;
            }
        }
        assert!(pages > 0, "50 ms of any machine hold a switch");
        drop(readers);
        instance.close().unwrap();
    }
}

#[test]
fn case_4_loss_is_flagged_by_the_kernel_and_counted_in_stats() {
    tracefs();
    let tiny = Settings { buffer_total: 0, sub_buffer: 4096, blocked: Blocked::Off, ..settings("loss") };
    let instance = Instance::open(&tiny).unwrap();
    let mut readers = instance.readers().unwrap();
    instance.start().unwrap();
    // On one CPU, however many there are: a thousand sleeps are two thousand switches of some 60 bytes.
    std::thread::spawn(|| {
        let mut set = nix::sched::CpuSet::new();
        set.set(nix::sched::sched_getcpu().unwrap()).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_micros(100));
        }
    })
    .join()
    .unwrap();
    instance.stop().unwrap();
    let mut lost = 0;
    let mut buf = vec![0; instance.layout().sub_buffer_size()];
    for reader in &mut readers {
        let cpu = reader.cpu();
        let stats = || instance.stats(cpu).ok();
        let mut meter = LossMeter::new(cpu, &Default::default());
        reader
            .drain(&mut buf, |page| {
                let mut cursor = Cursor::open(instance.layout(), page).unwrap();
                let header = *cursor.header();
                let mut first = true;
                while let Step::Record(record) = cursor.next(page) {
                    if std::mem::take(&mut first)
                        && let Some(loss) = meter.page(&header, record.ts, stats)
                    {
                        assert!(loss.from <= loss.to && loss.count.is_some_and(|n| n > 0), "{loss:?}");
                    }
                    meter.saw(record.ts);
                }
            })
            .unwrap();
        assert_eq!(meter.reported(), stats().unwrap().lost(), "the pages of cpu {cpu} tell all that was lost");
        lost += meter.reported();
    }
    assert!(lost > 0, "16 KiB must overflow");
    drop(readers);
    instance.close().unwrap();
}

#[test]
fn wakes_early_when_a_buffer_fills() {
    tracefs();
    let small = Settings { buffer_total: 0, sub_buffer: 4096, blocked: Blocked::Off, ..settings("wake") };
    let instance = Instance::open(&small).unwrap();
    assert!(instance.wakes_at_percent(), "kernels from 5.0 have buffer_percent");
    let readers = instance.readers().unwrap();
    instance.start().unwrap();
    let busy = std::thread::spawn(|| (0..2000).for_each(|_| std::thread::sleep(Duration::from_micros(50))));
    assert_eq!(wait(&readers, None, Duration::from_secs(30)).unwrap(), Wake::Buffer);
    busy.join().unwrap();
    drop(readers);
    instance.close().unwrap();
}
