//! The demo workload recorded live: browse finds who pushed the loader off, the function and stack the checkpoint writer
//! blocked in, and the chain behind a late batch; and every number of a slice is the one that `perf sched timehist` shows for
//! the same interval. Needs root, tracefs, perf and python3; fails, not skips, without them.
//!
//! The numbers are compared twice. perf's own events, folded here, must give perf's numbers to the microsecond it shows. The
//! recording, made at the same time by another tracer that reads the clock for itself, must have the same slices, as far apart
//! as two readings of the clock. No share of time is asserted: what else this machine runs meanwhile is not known here.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dashcam::names::NameId;
use dashcam::sched::event::{Event, EventKind, Item, Switch, ThreadNow, Wake};
use dashcam::sched::fold::Utid;
use dashcam::sched::model::{Limits, Model};
use dashcam::sched::state::TaskState;
use dashcam::sched::summary::{SpanDetail, ThreadDetail, TrackId, Window};
use dashcam::tui::answers::{Ask, Grouping, Question, Reply, Slice, When};
use dashcam::tui::history::History;
use dashcam::tui::labels::Labels;
use dashcam::tui::words::Speaker;
use dashcam::tui::worker::{Settings, answer};

const S: u64 = 1_000_000_000;
const DEADLINE: Duration = Duration::from_secs(120);
/// The threads whose numbers are compared.
const CHOSEN: [&str; 5] = ["pt_loader:0", "pt_loader:1", "logship", "launch_thread", "ckpt_writer"];

/// A process group that ends with its owner.
struct Group(Child);

impl Group {
    fn start(mut command: Command) -> Group {
        Group(command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Asks what the screens ask.
struct Asker {
    history: History,
    speaker: Speaker,
    labels: Labels,
}

impl Asker {
    fn open(store: &Path) -> Asker {
        let history = History::browse(vec![store.to_owned()]).unwrap();
        Asker { history, speaker: Speaker::default(), labels: Labels::default() }
    }

    fn ask(&mut self, ask: Ask) -> Reply {
        let question = Question { id: 1, generation: self.labels.generation(), ask };
        let answer = answer(&mut self.history, &Settings::default(), &question, &mut self.speaker, &|_| false);
        self.labels.learn(answer.labels);
        answer.reply
    }

    /// Threads of these names in the window: name, tid, utid.
    fn threads(&mut self, window: Window) -> Vec<(String, i32, Utid)> {
        let ask = Ask::Overview { when: When::At(window), cells: 10, group: Grouping::Thread };
        let Reply::Overview(data, _) = self.ask(ask) else { panic!("no overview") };
        let named = data.threads.iter().map(|r| (self.labels.text(r.name).to_string(), r.tid, r.utid));
        named.filter(|(name, ..)| CHOSEN.contains(&&**name)).collect()
    }

    fn detail(&mut self, utid: Utid, window: Window) -> Box<ThreadDetail> {
        match self.ask(Ask::Thread { utid, when: When::At(window), cells: 10 }) {
            Reply::Thread(detail, _) => detail,
            other => panic!("{other:?}"),
        }
    }

    /// The same without what only the screens need.
    fn details(&mut self, utid: Utid, window: Window) -> Vec<SpanDetail> {
        self.slices(utid, window).into_iter().map(|s| s.detail).collect()
    }

    /// All slices and waits of a thread that begin in the window, as the keys n and p walk over them.
    fn slices(&mut self, utid: Utid, window: Window) -> Vec<Slice> {
        let track = TrackId::Thread(utid);
        let mut out = Vec::new();
        let mut step = 0;
        let mut at = window.from;
        while let Reply::Slice(Some(slice)) = self.ask(Ask::Slice { track, at, step }) {
            (at, step) = (slice.detail.span.start, 1);
            if at >= window.to {
                break;
            }
            out.push(*slice);
        }
        out
    }
}

/// One line of timehist: times in ns on the boot clock.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: u64,
    end: u64,
    wait: u64,
    delay: u64,
}

/// `perf sched timehist` by thread, in time order.
fn timehist(data: &Path, slept: u64) -> BTreeMap<i32, Vec<Line>> {
    let out = Command::new("perf").args(["sched", "timehist", "-i"]).arg(data).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut by: BTreeMap<i32, Vec<Line>> = BTreeMap::new();
    let number = |text: &str, digits: usize| {
        let (whole, part) = text.split_once('.')?;
        (part.len() == digits).then_some(())?;
        Some(whole.parse::<u64>().ok()? * 10u64.pow(digits as u32) + part.parse::<u64>().ok()?)
    };
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        // `15401.139812 [0000]  logship[6013]      0.151      0.000      1.445`; names may hold blanks and brackets.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, .., wait, delay, run] = words[..] else { continue };
        let (Some(end), Some(wait), Some(delay), Some(run)) =
            (number(time, 6), number(wait, 3), number(delay, 3), number(run, 3))
        else {
            continue;
        };
        let Some(ids) = line.rsplit_once(']').and_then(|(l, _)| l.rsplit_once('[')) else { continue };
        let Ok(tid) = ids.1.split('/').next().unwrap().parse() else { continue };
        let end = end * 1000 + slept;
        by.entry(tid).or_default().push(Line {
            start: end.saturating_sub(run * 1000),
            end,
            wait: wait * 1000,
            delay: delay * 1000,
        });
    }
    by
}

/// perf's events as the model takes them, in time order, on the boot clock.
fn events_of_perf(data: &Path, slept: u64) -> Vec<Event> {
    let out = Command::new("perf").args(["script", "--ns", "-F", "tid,cpu,time,event,trace", "-i"]).arg(data).output();
    let text = String::from_utf8_lossy(&out.unwrap().stdout).into_owned();
    let mut events: Vec<Event> = text.lines().filter_map(|line| event_of_perf(line, slept)).collect();
    events.sort_by_key(|e| e.ts);
    events
}

/// ` 18 [000] 15400.192773073: sched:sched_switch: prev_comm=… prev_pid=18 … ==> next_comm=… next_pid=6015 next_prio=98`
fn event_of_perf(line: &str, slept: u64) -> Option<Event> {
    let (emitter, rest) = line.trim_start().split_once(' ')?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (s, ns) = time.split_once('.')?;
    let (name, fields) = rest.trim_start().split_once(": ")?;
    // Names may hold anything: the last of each key is the field.
    let field = |key: &str| fields.rsplit_once(key)?.1.split(' ').next();
    let number = |key: &str| field(key)?.parse::<i32>().ok();
    let kind = match name.strip_prefix("sched:")? {
        "sched_switch" => EventKind::Switch(Switch {
            prev_tid: number(" prev_pid="),
            prev_prio: number(" prev_prio="),
            prev_state: match field(" prev_state=")?.chars().next()? {
                'R' => TaskState::PREEMPTED,
                'D' => TaskState::UNINTERRUPTIBLE,
                _ => TaskState::SLEEPING,
            },
            prev_state_raw: 0,
            next_tid: number(" next_pid=")?,
            next_prio: number(" next_prio=")?,
            next_comm: NameId::EMPTY,
        }),
        wake @ ("sched_waking" | "sched_wakeup_new") => {
            let target_cpu = field(" target_cpu=")?.parse().ok()?;
            let wake_up = Wake { tid: number(" pid=")?, prio: number(" prio=")?, comm: NameId::EMPTY, target_cpu };
            if wake == "sched_waking" { EventKind::Waking(wake_up) } else { EventKind::WakeupNew(wake_up) }
        }
        _ => return None,
    };
    let ts = s.parse::<u64>().ok()? * S + ns.parse::<u64>().ok()? + slept;
    Some(Event { ts, cpu: cpu.parse().ok()?, emitter: emitter.parse().ok(), flags: 0, kind })
}

/// How far numbers lie apart, ns.
#[derive(Debug, Default)]
struct Apart(Vec<u64>);

impl Apart {
    fn add(&mut self, ours: u64, theirs: u64) {
        self.0.push(ours.abs_diff(theirs));
    }

    /// So far that `percent` of them are not further.
    fn within(&mut self, what: &str, percent: usize) -> u64 {
        self.0.sort_unstable();
        let n = self.0.len();
        assert!(n > 20, "{what}: only {n} compared");
        let at = |percent: usize| self.0[(n * percent / 100).min(n - 1)];
        println!("{what}: {n} compared, median {} ns, 95 % within {} ns, worst {} ns", at(50), at(95), at(100));
        at(percent)
    }
}

fn running(detail: &SpanDetail) -> Option<(u64, u64)> {
    let end = detail.span.end.filter(|_| detail.end_known && detail.span.state == ThreadNow::Running)?;
    Some((detail.span.start, end))
}

/// How one thread's slices lie beside perf's lines.
#[derive(Debug, Default)]
struct Compared {
    /// Slices in the interval, and those for which perf has a line.
    all: usize,
    same: usize,
    run: Apart,
    wait: Apart,
    delay: Apart,
}

impl Compared {
    /// Every slice of a thread beside perf's line for it. Two that are less than `near` apart at both ends are the same one.
    fn add(&mut self, slices: &[SpanDetail], lines: &[Line], within: Window, near: u64) {
        let close = |a: u64, b: u64| a.abs_diff(b) < near;
        // The end of the run before, when perf saw that too.
        let mut before: Option<u64> = None;
        for (i, slice) in slices.iter().enumerate() {
            // Where the kernel left a switch out nothing is known here; perf then takes the time since the CPU's last switch.
            before = before.filter(|_| slice.end_known);
            if slice.span.state != ThreadNow::Running {
                continue;
            }
            let last = before.take();
            let Some((start, end)) = running(slice) else { continue };
            if start < within.from || end > within.to {
                continue;
            }
            self.all += 1;
            let at = lines.partition_point(|l| l.end + near < end);
            let same = |l: &&Line| close(l.start, start) && close(l.end, end);
            let Some(line) = lines[at..].iter().take_while(|l| l.end < end + near).find(same) else { continue };
            self.same += 1;
            before = Some(end);
            self.run.add(end - start, line.end - line.start);
            // perf's wait is all the time off the CPU.
            if let Some(last) = last {
                self.wait.add(start - last, line.wait);
                // Its delay is from the wake-up on; one that was pushed off has none.
                let ready = i.checked_sub(1).map(|b| slices[b].span).filter(|s| s.state == ThreadNow::Runnable);
                if let (Some(latency), Some(_)) = (slice.latency, ready) {
                    self.delay.add(latency, line.delay);
                }
            }
        }
    }

    /// Most must be there in both, or nothing is proved.
    fn is_most(&self, what: &str) {
        println!("{what}: {} of {} slices are perf's", self.same, self.all);
        assert!(self.all > 100, "{what}: only {} slices", self.all);
        assert!(self.same * 10 >= self.all * 9, "{what}: only {} of {} slices are perf's", self.same, self.all);
    }
}

#[test]
fn browse_tells_the_demo_as_it_was_and_in_the_numbers_of_perf() {
    let dir = tempfile::tempdir().unwrap();
    let instance = format!("dashcam-test-{}-demo", std::process::id());
    let store = dir.path().join("store");
    let dashcam = |args: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
        c.env_remove("DASHCAM_CONFIG").env("XDG_CONFIG_HOME", "/nonexistent").env("HOME", "/nonexistent");
        c.arg("--dir").arg(&store).args(["--instance", &instance]).args(args);
        c
    };
    let mut recorder = dashcam(&["record"]);
    recorder.stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = recorder.spawn().unwrap();
    wait("the recorder", || store.join("dashcam.pid").exists());
    let mut demo = Command::new("python3");
    demo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/training.py")).arg("600");
    // On a disk: in memory nothing would block in D.
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    demo.env("TRAINING_DIR", disk.path());
    let demo = Group::start(demo);
    // Kernel symbols are read beside the recording; until then stacks have no names.
    wait("a blocked function", || {
        let out = dashcam(&["report", "blocked", "--thread", "ckpt_writer", "--json"]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).contains("\"function\":\"")
            || String::from_utf8_lossy(&out.stdout).contains("\"function\": \"")
    });
    let data = dir.path().join("perf.data");
    let mut perf = Command::new("perf");
    // Ahead of everything else, and with large buffers: what perf loses cannot be compared.
    perf.args(["record", "-q", "-a", "-r", "5", "-m", "4096", "-k", "CLOCK_MONOTONIC"]);
    perf.args(["-e", "sched:sched_switch", "-e", "sched:sched_waking", "-e", "sched:sched_wakeup_new", "-o"])
        .arg(&data);
    let from = dashcam::recorder::clock::boot_now();
    let perf = perf.args(["--", "sleep", "6"]).output().unwrap();
    let to = dashcam::recorder::clock::boot_now();
    assert!(perf.status.success(), "{}", String::from_utf8_lossy(&perf.stderr));
    // The last waits of the window end in the recording, too.
    std::thread::sleep(Duration::from_secs(1));
    drop(demo);
    let stopped = dashcam(&["stop"]).status().unwrap();
    assert!(stopped.success() && recorder.wait().unwrap().success());

    let window = Window { from, to };
    let mut asker = Asker::open(&store);
    let threads = asker.threads(window);
    for name in CHOSEN {
        assert!(threads.iter().any(|t| t.0 == name), "{name} is not there: {threads:?}");
    }
    numbers(&mut asker, &threads, &data, window);
    story(&mut asker, &threads, window);
    assert!(!Path::new("/sys/kernel/tracing/instances").join(&instance).exists(), "the instance is left behind");
}

fn wait(what: &str, there: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !there() {
        assert!(Instant::now() < end, "never saw {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn numbers(asker: &mut Asker, threads: &[(String, i32, Utid)], data: &Path, window: Window) {
    // perf cannot stamp tracepoints with the boot clock; the machine does not sleep meanwhile.
    let mono = dashcam::recorder::clock::mono_now();
    let slept = dashcam::recorder::clock::boot_now() - mono;
    let perf = timehist(data, slept);
    // perf begins some time after it was started, and ends before it is gone; both CPU by CPU.
    let ends = || perf.values().flatten().map(|l| l.end);
    let (first, last) = (ends().min().unwrap(), ends().max().unwrap());
    let within = Window { from: window.from.max(first + S / 2), to: window.to.min(last - S / 10) };

    // perf's own events, folded here.
    let mut model = Model::new(Limits::default());
    events_of_perf(data, slept).into_iter().for_each(|event| model.push(&Item::Event(event)));
    model.finish();
    let mut told = Compared::default();
    for (_, tid, _) in threads {
        let Some(utid) = model.threads().utid_of(*tid) else { continue };
        let track = TrackId::Thread(utid);
        let mut details: Vec<SpanDetail> = Vec::new();
        while let Some(detail) = match details.last() {
            None => model.span_at(track, within.from, 0),
            Some(last) => model.span_at(track, last.span.start, 1),
        } {
            details.push(detail);
        }
        told.add(&details, perf.get(tid).map_or(&[], |l| l), within, 2_000);
    }
    told.is_most("perf's events, folded here");
    // perf shows whole microseconds, of instants and of lengths.
    assert!(told.run.within("run time", 100) <= 1_000);
    assert!(told.wait.within("wait time", 100) <= 1_000);
    // A thread that is woken while it is still leaving its CPU is ready from when it left (`sched::fold`); perf counts from the
    // wake-up, some microseconds before. That is rare.
    assert!(told.delay.within("sch delay", 95) <= 1_000);

    // The recording.
    let mut recorded = Compared::default();
    for (_, tid, utid) in threads {
        let details = asker.details(*utid, within);
        recorded.add(&details, perf.get(tid).map_or(&[], |l| l), within, 50_000);
    }
    recorded.is_most("the recording");
    // Between the two readings of the clock for one switch lies the other tracer's work for it.
    assert!(recorded.run.within("run time", 50) <= 5_000);
    assert!(recorded.wait.within("wait time", 50) <= 5_000);
    assert!(recorded.delay.within("sch delay", 50) <= 5_000);
}

fn story(asker: &mut Asker, threads: &[(String, i32, Utid)], window: Window) {
    let utid = |name: &str| threads.iter().find(|t| t.0 == name).unwrap().2;
    let (loader, logship, writer, launch) =
        (utid("pt_loader:0"), utid("logship"), utid("ckpt_writer"), utid("launch_thread"));
    // The preemptor.
    let detail = asker.detail(loader, window);
    assert!(detail.ran_instead.iter().any(|s| s.utid == Some(logship)), "{:?}", detail.ran_instead);
    let slices = asker.slices(loader, window);
    let pushed = slices.iter().filter_map(|s| s.detail.wait.as_ref()).filter(|w| w.preemptor == Some(logship));
    assert!(pushed.count() >= 10, "logship pushes it off fifty times a second");
    // The D wait: its function, and the stack that has it.
    let detail = asker.detail(writer, window);
    let named = detail.blocked.iter().filter(|b| !asker.labels.text(b.0).is_empty()).count();
    assert!(named > 0, "{:?}", detail.blocked);
    let slices = asker.slices(writer, window);
    let blocked: Vec<&Slice> = slices.iter().filter(|s| s.detail.span.state.is_uninterruptible()).collect();
    let told = blocked.iter().filter(|s| {
        let function = asker.labels.text(s.detail.span.function);
        s.stack.len() >= 3 && s.stack.iter().any(|f| &**f == function)
    });
    assert!(told.count() > 0, "{blocked:?}");
    // The chain behind a late batch.
    let mut late: Vec<(u64, u64)> = asker
        .slices(launch, window)
        .iter()
        .filter(|s| matches!(s.detail.span.state, ThreadNow::Blocked(_)))
        .filter_map(|s| Some((s.detail.span.end? - s.detail.span.start, s.detail.span.start)))
        .collect();
    late.sort_unstable_by_key(|l| std::cmp::Reverse(l.0));
    let loaders = [loader, utid("pt_loader:1")];
    let behind = late.iter().take(20).any(|(_, at)| {
        let Reply::Chain(links, _) = asker.ask(Ask::Chain { utid: launch, at: *at, within: window }) else { panic!() };
        links.iter().any(|l| l.depth > 0 && l.utid.is_some_and(|u| loaders.contains(&u)))
    });
    assert!(behind, "no loader is in the chain of any of the longest waits of launch_thread: {late:?}");
}
