//! Drawing: 256 CPUs and 10,000 threads at 200×60, and the time line with thousands of spans. A draw must stay far below
//! the 50 ms in which a key is answered; the aim is 5 ms.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use dashcam::names::NameId;
use dashcam::sched::event::ThreadNow;
use dashcam::sched::state::TaskState;
use dashcam::sched::summary::{
    CpuRow, Instead, LatencyStats, OccupancyCell, Overview, Span, StateTimes, ThreadRow, TrackId, Window,
};
use dashcam::time::{ClockMap, ClockPair, Zone};
use dashcam::tui::answers::{Answer, Crowd, Reply, TimelineView, Track};
use dashcam::tui::cursor::Cursor;
use dashcam::tui::keymap::Keymap;
use dashcam::tui::labels::{NewLabels, ThreadLabel};
use dashcam::tui::render::draw;
use dashcam::tui::state::{Effect, Msg, Screen, Start, State};
use dashcam::tui::theme::{Depth, Theme};
use dashcam::tui::update::{resort, start, update};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const SIZE: (u16, u16) = (200, 60);
const EDGE: u64 = 1_000_000_000_000;
const WINDOW: Window = Window { from: EDGE - 10_000_000_000, to: EDGE };
const CPUS: u32 = 256;
const THREADS: u32 = 10_000;

fn state(screen: Screen) -> (State, Vec<Effect>) {
    let theme = Theme::shipped("dark", Depth::True, false).expect("shipped");
    let mut state = State::new(
        Start {
            cursor: Cursor::live(WINDOW.len()),
            has_live: true,
            screen,
            keymap: Keymap::default(),
            theme,
            depth: Depth::True,
            zone: Zone::UTC,
            may_copy: false,
        },
        SIZE,
    );
    let effects = start(&mut state);
    (state, effects)
}

fn answered(screen: Screen, reply: Reply) -> State {
    let (mut state, effects) = state(screen);
    let id = effects
        .iter()
        .find_map(|e| if let Effect::Ask(q) = e { Some(q.id) } else { None })
        .expect("the screen asks something");
    let threads =
        (1..=THREADS).map(|u| (u, ThreadLabel::new(u as i32, Some(1), format!("worker-{u}").as_bytes(), b"train.py")));
    let names = (1..=THREADS).map(|u| (NameId(u), format!("worker-{u}").into()));
    let labels = NewLabels {
        reset: true,
        generation: 1,
        threads: threads.collect(),
        names: names.collect(),
        processes: (0..64).map(|p| (p, format!("process-{p}").into())).collect(),
    };
    let clocks = Arc::new(ClockMap::new([ClockPair { boot: EDGE, real: EDGE }]));
    let extent = Window { from: 0, to: EDGE };
    update(&mut state, Msg::Answer(Box::new(Answer { id, reply, labels, extent, clocks, notes: Arc::default() })));
    state
}

fn overview() -> Overview {
    let cell =
        |i: u32| OccupancyCell { busy: Some((i % 9) as f32 / 8.0), top: Some(i % 64), ..OccupancyCell::default() };
    let cpus = (0..CPUS)
        .map(|cpu| CpuRow {
            cpu,
            online: true,
            node: cpu / 64,
            busy: Some(0.5),
            cells: (0..120).map(|i| cell(i + cpu)).collect(),
            running: Some((1 + cpu, EDGE - 1000)),
            ..CpuRow::default()
        })
        .collect();
    let threads = (1..=THREADS).map(thread).collect();
    Overview { window: Some(WINDOW), cpus, threads, ..Overview::default() }
}

fn thread(utid: u32) -> ThreadRow {
    let n = u64::from(utid) * 7919 % 10_000;
    ThreadRow {
        utid,
        tid: utid as i32,
        pid: Some(1),
        name: NameId(utid),
        process: NameId(utid / 100),
        cgroup: NameId::EMPTY,
        cmdline: Arc::from([]),
        upid: Some(utid / 100),
        members: 1,
        now: ThreadNow::Blocked(TaskState::SLEEPING),
        cpu: Some(utid % CPUS),
        times: StateTimes {
            running: n * 100_000,
            runnable: n * 1000,
            sleeping: 10_000_000_000,
            ..StateTimes::default()
        },
        bar: Vec::new(),
        latency: LatencyStats { count: n, p50: n, p95: n, p99: n * 10, max: n * 100, ..LatencyStats::default() },
        voluntary: n,
        involuntary: n / 3,
        migrations: n / 5,
        ran_instead: Some(Instead { utid: 1 + utid % 100, share: 0.5, estimated: false }),
        last_waker: Some(Some(1 + utid % 100)),
        blocked_function: NameId::EMPTY,
        blocked_max: 0,
        own: false,
        sampled: false,
    }
}

fn timeline() -> TimelineView {
    let track = |id: TrackId, utid: u32| {
        let step = WINDOW.len() / 340;
        let spans = (0..340u64).map(|i| Span {
            start: WINDOW.from + i * step,
            end: Some(WINDOW.from + (i + 1) * step),
            utid: if utid == 0 { 1 + (i as u32 % 50) } else { utid },
            state: [ThreadNow::Running, ThreadNow::Runnable, ThreadNow::Preempted][i as usize % 3],
            end_state: None,
            function: NameId::EMPTY,
            row: i as u32,
        });
        Track { id, spans: Some(spans.collect()) }
    };
    let cpus = (0..8).map(|cpu| track(TrackId::Cpu(cpu), 0));
    let threads = (1..400).map(|utid| track(TrackId::Thread(utid), utid));
    TimelineView { window: Some(WINDOW), tracks: cpus.chain(threads).collect(), ..TimelineView::default() }
}

fn benches(c: &mut Criterion) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    let mut full = answered(Screen::Overview, Reply::Overview(Box::new(overview()), Crowd::default()));
    c.bench_function("draw overview, 256 CPUs, 10,000 threads, 200x60", |b| {
        b.iter(|| {
            buffer.reset();
            draw(black_box(&full), &mut buffer);
        });
    });
    c.bench_function("filter and sort 10,000 threads", |b| b.iter(|| resort(black_box(&mut full))));
    full.overview.filter = "worker 99".into();
    c.bench_function("fuzzy filter over 10,000 threads", |b| b.iter(|| resort(black_box(&mut full))));
    let line = answered(Screen::Timeline, Reply::Timeline(Box::new(timeline())));
    c.bench_function("draw time line, 407 tracks, 200x60", |b| {
        b.iter(|| {
            buffer.reset();
            draw(black_box(&line), &mut buffer);
        });
    });
}

criterion_group! {
    name = all;
    config = Criterion::default();
    targets = benches
}
criterion_main!(all);
