//! What somebody at the screen waits for, from the file on disk to the drawn cells: any minute of a day (aim 300 ms), pan and
//! zoom with 5 M slices loaded (16 ms), a key while 200,000 events flow each second (50 ms), the first screen of the program
//! itself (300 ms); and the memory of 60 s at 200,000 events a second (1 GiB). `cargo bench --bench look`; no root needed.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use dashcam::perfetto::encode::{BundleBuilder, packets};
use dashcam::sched::event::ClockSnapshot;
use dashcam::sched::summary::{TrackId, Window};
use dashcam::store::Store;
use dashcam::store::footer::{BootId, Summary, Totals};
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::probe::identity;
use dashcam::store::writer::SegmentWriter;
use dashcam::time::Zone;
use dashcam::tui::answers::{Answer, Ask, Grouping, Page, Question, Tracks, When};
use dashcam::tui::cursor::Cursor;
use dashcam::tui::history::History;
use dashcam::tui::keymap::Keymap;
use dashcam::tui::render::draw;
use dashcam::tui::state::{Effect, Msg, Screen, Start, State};
use dashcam::tui::theme::{Depth, Theme};
use dashcam::tui::update::{start, update};
use dashcam::tui::words::Speaker;
use dashcam::tui::worker::{self, Settings, answer};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const S: u64 = 1_000_000_000;
const FRAME: u64 = S / 2;
const CPUS: u32 = 8;
/// Threads of each CPU, woken and run in turn.
const THREADS: u64 = 50;
const SIZE: (u16, u16) = (200, 60);

fn clock(boot: u64) -> ClockSnapshot {
    ClockSnapshot { boot, mono: boot, real: boot + (1 << 60), tai: 0, zone_offset_minutes: None }
}

/// A segment being written: on each CPU a thread is woken, waits, runs and sleeps, then the next one.
struct Synthetic {
    writer: SegmentWriter,
    squeeze: FrameCompressor,
    /// Events a second, all CPUs together.
    rate: u64,
    begin: u64,
    at: u64,
}

impl Synthetic {
    fn begin(store: &Store, begin: u64, rate: u64) -> Synthetic {
        let writer = SegmentWriter::create(store, clock(begin).real).unwrap();
        let mut head = Vec::new();
        packets::clocks(&clock(begin), &mut head);
        identity(BootId([1; 16]), "bench", begin, &mut head);
        let now: Vec<_> = (0..CPUS).map(|cpu| packets::CpuNow { cpu, tid: 0, prio: 120, since: begin }).collect();
        packets::state(begin, &now, &[], &mut head);
        let mut made = Synthetic { writer, squeeze: FrameCompressor::new(3).unwrap(), rate, begin, at: begin };
        made.write(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
        made
    }

    fn write(&mut self, packets: &[u8], facts: FrameFacts) {
        let mut frame = Vec::new();
        self.squeeze.compress(packets, &mut frame).unwrap();
        self.writer.write_frame(&frame, packets.len(), facts).unwrap();
    }

    /// Half a second more.
    fn frame(&mut self) {
        let (from, to) = (self.at, self.at + FRAME);
        let mut data = Vec::new();
        // A wake-up and two switches a turn.
        let turns = (self.rate / 2 / 3 / u64::from(CPUS)).max(1);
        let step = FRAME / turns;
        for cpu in 0..CPUS {
            let mut bundle = BundleBuilder::new();
            for turn in 0..turns {
                let (ts, tid) = (from + turn * step, 1000 + (u64::from(cpu) * THREADS + turn % THREADS) as i32);
                let name = b"bench worker\0\0\0\0";
                bundle.waking(ts + 1, tid, cpu as i32, 120, name, 0);
                bundle.switch(ts + step / 4, 0, tid, 120, name);
                bundle.switch(ts + step / 4 * 3, 1, 0, 120, b"swapper\0\0\0\0\0\0\0\0\0");
            }
            bundle.finish(cpu, None, &mut data);
        }
        packets::complete_through(to, &mut data);
        let span = Some((from + 1, to - 1));
        let events = (0..CPUS).map(|cpu| (cpu, turns * 3)).collect();
        self.write(&data, FrameFacts { span, complete_through: to, events, ..FrameFacts::default() });
        self.at = to;
    }

    fn finish(mut self) -> PathBuf {
        let (start, end) = (self.begin, self.at);
        let (clock, clock_end) = (clock(start), clock(end));
        let totals = Totals { boot: BootId([1; 16]), start, end, clock, clock_end, cpus: CPUS, ..Totals::default() };
        self.writer.finish(totals, Summary::default()).unwrap().path
    }
}

fn record(store: &Store, begin: u64, seconds: u64, rate: u64) -> PathBuf {
    let mut segment = Synthetic::begin(store, begin, rate);
    (0..seconds * 2).for_each(|_| segment.frame());
    segment.finish()
}

/// In memory where that can be had: reading is measured from the page cache either way.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Screens and worker without the threads between them.
struct Desk {
    history: History,
    speaker: Speaker,
    state: State,
    buffer: Buffer,
}

impl Desk {
    fn open(history: History, cursor: Cursor, screen: Screen) -> (Desk, Vec<Effect>) {
        let mut state = new_state(cursor, screen);
        state.extent = history.extent();
        let effects = start(&mut state);
        let buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
        (Desk { history, speaker: Speaker::default(), state, buffer }, effects)
    }

    /// Answers everything, takes the answers in, draws.
    fn show(&mut self, mut effects: Vec<Effect>) {
        while let Some(effect) = effects.pop() {
            if let Effect::Ask(question) = effect {
                let settings = Settings::default();
                let answer = answer(&mut self.history, &settings, &question, &mut self.speaker, &|_| false);
                effects.extend(update(&mut self.state, Msg::Answer(Box::new(answer))));
            }
        }
        self.buffer.reset();
        draw(black_box(&self.state), &mut self.buffer);
    }

    fn press(&mut self, key: char) {
        let effects = update(&mut self.state, Msg::Key(dashcam::tui::keys::Key::char(key)));
        self.show(effects);
    }
}

fn new_state(cursor: Cursor, screen: Screen) -> State {
    let theme = Theme::shipped("dark", Depth::True, false).unwrap();
    let (keymap, depth) = (Keymap::default(), Depth::True);
    let start = Start { cursor, has_live: false, screen, keymap, theme, depth, zone: Zone::UTC, may_copy: false };
    State::new(start, SIZE)
}

/// 1,440 segments of a minute at 2,000 events a second: open the store, load the minute, count it, draw it.
fn any_minute(c: &mut Criterion) {
    let dir = folder();
    let store = Store::create(dir.path()).unwrap();
    for minute in 0..1440 {
        record(&store, (minute + 1) * 60 * S, 60, 2_000);
    }
    let mut minute = 0;
    c.bench_function("open a day at any minute, to the drawn screen", |b| {
        b.iter(|| {
            minute = (minute + 421) % 1439 + 1;
            let window = Window { from: minute * 60 * S, to: (minute + 1) * 60 * S };
            let history = History::browse(vec![dir.path().to_owned()]).unwrap();
            let (mut desk, effects) = Desk::open(history, Cursor::on(window), Screen::Overview);
            desk.show(effects);
            assert!(desk.state.overview.data.as_ref().is_some_and(|d| d.threads.len() > 300));
        });
    });
}

/// 15 M events are 5 M slices of threads and as many of the idle thread.
fn pan_and_zoom(c: &mut Criterion) {
    let dir = folder();
    let store = Store::create(dir.path()).unwrap();
    let path = record(&store, 60 * S, 75, 200_000);
    let history = History::browse(vec![path]).unwrap();
    let all = history.extent();
    let (mut desk, effects) = Desk::open(history, Cursor::on(all), Screen::Timeline);
    desk.show(effects);
    assert!(desk.state.timeline.data.is_some());
    let mut group = c.benchmark_group("5 M slices, key to drawn screen");
    group.sample_size(20);
    for (what, span) in [("the whole 75 s", all.len()), ("10 s", 10 * S), ("100 ms", S / 10), ("1 ms", S / 1000)] {
        let middle = all.from + all.len() / 2;
        desk.state.timeline.cursor = Cursor::on(Window { from: middle - span / 2, to: middle + span / 2 });
        group.bench_function(format!("pan {what}"), |b| {
            b.iter(|| {
                desk.press('h');
                desk.press('l');
            });
        });
        group.bench_function(format!("zoom {what}"), |b| {
            b.iter(|| {
                desk.press('+');
                desk.press('-');
            });
        });
    }
    group.finish();
}

/// A line of /proc/self/status in KiB: `VmRSS` is what the process has now, `VmHWM` the most it ever had.
fn status(line: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':')).unwrap();
    found.split_whitespace().next().unwrap().parse().unwrap()
}

/// Not a time: what the model of a minute takes, at its peak. Goes first, since a process keeps memory that it had once.
fn memory(_: &mut Criterion) {
    let dir = folder();
    let store = Store::create(dir.path()).unwrap();
    let path = record(&store, 60 * S, 60, 200_000);
    let before = status("VmRSS");
    // proc_pid_clear_refs(5): 5 sets the peak back to what is used now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let history = History::browse(vec![path]).unwrap();
    let all = history.extent();
    let (mut desk, effects) = Desk::open(history, Cursor::on(all), Screen::Overview);
    let begin = Instant::now();
    desk.show(effects);
    let took = begin.elapsed().as_millis();
    let used = status("VmHWM").saturating_sub(before) >> 10;
    println!(
        "memory of 60 s at 200,000 events a second: {used} MiB at its peak (aim: under 1024), loaded in {took} ms"
    );
}

/// The worker follows a segment that grows by 200,000 events a second; a key asks it, its answer is drawn.
fn key_while_events_flow(c: &mut Criterion) {
    let dir = folder();
    let store = Store::create(dir.path()).unwrap();
    let mut segment = Synthetic::begin(&store, 60 * S, 200_000);
    (0..20).for_each(|_| segment.frame());
    let history = History::live(dir.path(), 10 * S).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writing = std::thread::spawn(move || {
        let mut next = Instant::now();
        while !stopped.load(Ordering::Relaxed) {
            segment.frame();
            next += Duration::from_nanos(FRAME);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    });
    let (mailbox, inbox) = worker::mailbox();
    let (send, answers) = crossbeam_channel::bounded::<Answer>(4);
    let working = std::thread::spawn(move || worker::run(history, &Settings::default(), &inbox, &send));
    let mut state = new_state(Cursor::live(10 * S), Screen::Overview);
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    let mut id = 0;
    let mut asked = |ask: Ask| {
        id += 1;
        mailbox.post(Question { id, generation: state.labels.generation(), ask });
        let answer = loop {
            let answer = answers.recv().unwrap();
            if answer.id == id {
                break answer;
            }
        };
        state.main.open = Some(id);
        update(&mut state, Msg::Answer(Box::new(answer)));
        buffer.reset();
        draw(black_box(&state), &mut buffer);
        state.extent
    };
    let (when, group) = (When::Latest(10 * S), Grouping::Thread);
    let mut group_of = c.benchmark_group("a key while 200,000 events/s flow, to the drawn screen");
    group_of.sample_size(20).measurement_time(Duration::from_secs(10));
    group_of.bench_function("the overview anew", |b| b.iter(|| asked(Ask::Overview { when, cells: 120, group })));
    let edge = asked(Ask::Overview { when, cells: 120, group }).to;
    group_of.bench_function("the next slice", |b| {
        b.iter(|| asked(Ask::Slice { track: TrackId::Cpu(1), at: edge - S, step: 1 }));
    });
    group_of.bench_function("the time line", |b| {
        let tracks = Tracks::Busiest;
        b.iter(|| {
            asked(Ask::Timeline {
                when: When::Latest(S),
                columns: 170,
                tracks,
                page: Page { limit: 60, from: 0, to: 60 },
            })
        });
    });
    group_of.finish();
    stop.store(true, Ordering::Relaxed);
    drop(mailbox);
    writing.join().unwrap();
    while answers.recv().is_ok() {}
    working.join().unwrap();
}

/// The program itself on a pseudo-terminal, from its start to the first table.
fn first_screen(c: &mut Criterion) {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    let dir = folder();
    let store = Store::create(dir.path()).unwrap();
    for minute in 0..60 {
        record(&store, (minute + 1) * 60 * S, 60, 20_000);
    }
    let mut group = c.benchmark_group("first screen of the program");
    group.sample_size(10);
    for (what, args) in
        [("an hour's segments", &["browse"][..]), ("one minute of 20,000 events/s", &["browse", "--at", "-30m"])]
    {
        group.bench_function(what, |b| {
            b.iter(|| {
                let size = PtySize { rows: SIZE.1, cols: SIZE.0, pixel_width: 0, pixel_height: 0 };
                let pty = native_pty_system().openpty(size).unwrap();
                let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dashcam"));
                command.arg("--dir");
                command.arg(dir.path());
                command.args(args);
                command.env("TERM", "xterm-256color");
                command.env("LC_ALL", "C.UTF-8");
                let mut child = pty.slave.spawn_command(command).unwrap();
                drop(pty.slave);
                let mut reader = pty.master.try_clone_reader().unwrap();
                let mut screen = vt100::Parser::new(SIZE.1, SIZE.0, 0);
                let mut bytes = [0; 65536];
                let there = |text: &str| text.contains("newest first") || text.contains("bench worker");
                while !there(&screen.screen().contents()) {
                    let n = std::io::Read::read(&mut reader, &mut bytes).unwrap();
                    assert!(n > 0, "it ended: {}", screen.screen().contents());
                    screen.process(&bytes[..n]);
                }
                child.kill().unwrap();
                child.wait().unwrap();
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = memory, any_minute, pan_and_zoom, key_while_events_flow, first_screen
}
criterion_main!(benches);
