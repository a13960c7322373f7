//! The made-up host: its threads, CPUs, waits, segments and snapshots.

use crate::names::{NameId, printable};
use crate::sched::event::ThreadNow;
use crate::sched::fold::Utid;
use crate::sched::state::TaskState;
use crate::sched::summary::*;
use crate::tui::answers::*;
use crate::tui::labels::{NewLabels, ThreadLabel};
use std::sync::Arc;

pub const S: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;
/// End of the data, on the boot clock.
pub const EDGE: u64 = 5_000 * S;
/// 2026-11-30 06:02:37 UTC.
pub const REAL: u64 = 1_796_018_557 * S;
pub const WINDOW: Window = Window { from: EDGE - 10 * S, to: EDGE };

pub const SLEEP: ThreadNow = ThreadNow::Blocked(TaskState::SLEEPING);
pub const D: ThreadNow = ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE);

/// tid, pid, thread, process.
pub const THREADS: [(i32, i32, &[u8], &[u8]); 9] = [
    (0, 0, b"swapper", b""),
    (48213, 48190, b"pt_loader:0", b"train.py"),
    (48190, 48190, b"launch_thread", b"train.py"),
    (48230, 48190, b"ckpt_writer", b"train.py"),
    (911, 911, b"logship", b"logship"),
    (16, 2, b"ksoftirqd/0", b"kthreadd"),
    (700, 700, b"rsyslogd", b"rsyslogd"),
    (48214, 48190, b"pt_loader:1", b"train.py"),
    (666, 666, b"\x1b[2J\nevil\xe2\x80\xae", "数据処理".as_bytes()),
];

/// Interned texts: 1..=9 are thread names, 11..=19 process names, then these.
pub const CGROUP: NameId = NameId(31);
pub const JBD2: NameId = NameId(32);

pub fn labels() -> NewLabels {
    let mut new = NewLabels { reset: true, generation: 1, ..NewLabels::default() };
    for (i, (tid, pid, name, process)) in THREADS.iter().enumerate() {
        let i = i as u32;
        new.names.push((NameId(i + 1), printable(name).into()));
        new.names.push((NameId(i + 11), printable(process).into()));
        new.threads.push((i, ThreadLabel::new(*tid, Some(*pid), name, process)));
        new.processes.push((i, printable(process).into()));
    }
    new.names.push((CGROUP, "kubepods/burstable/pod7/train".into()));
    new.names.push((JBD2, "jbd2_log_wait_commit".into()));
    new
}

fn times(run: u64, ready: u64, pushed: u64, sleep: u64, d: u64) -> StateTimes {
    let s = |permille: u64| permille * 10 * MS;
    StateTimes {
        running: s(run),
        runnable: s(ready),
        preempted: s(pushed),
        sleeping: s(sleep),
        uninterruptible: s(d),
        other: 0,
        unknown: s(1000 - (run + ready + pushed + sleep + d).min(1000)),
        absent: 0,
    }
}

fn latency(p50: u64, p99: u64, max: u64) -> LatencyStats {
    LatencyStats { count: 8120, p50, p95: p99 / 2, p99, max, max_at: EDGE - 6 * S, total: 2 * S }
}

pub fn row(utid: Utid, now: ThreadNow, times: StateTimes, latency: LatencyStats) -> ThreadRow {
    let (tid, pid, _, process) = THREADS.get(utid as usize).copied().unwrap_or((utid as i32 + 2000, 0, b"", b""));
    let known = (utid as usize) < THREADS.len();
    ThreadRow {
        utid,
        tid,
        pid: known.then_some(pid),
        name: if known { NameId(utid + 1) } else { NameId::EMPTY },
        process: if process.is_empty() { NameId::EMPTY } else { NameId(utid + 11) },
        cgroup: CGROUP,
        cmdline: Arc::new([]),
        upid: known.then_some(utid),
        members: 1,
        now,
        cpu: Some(utid % 3),
        bar: (0..70).map(|i| bar_cell(i, &times)).collect(),
        times,
        latency,
        voluntary: 8120 / u64::from(utid.max(1)),
        involuntary: 4030 / u64::from(utid.max(1)),
        migrations: u64::from(utid) * 3,
        ran_instead: (utid == 1).then_some(INSTEAD),
        last_waker: (utid != 4).then_some(if utid == 3 { None } else { Some(2) }),
        blocked_function: if utid == 3 { JBD2 } else { NameId::EMPTY },
        blocked_max: if utid == 3 { 312 * MS } else { 0 },
        own: false,
        sampled: false,
    }
}

/// Spreads a thread's times over its bar so that every state shows somewhere.
fn bar_cell(i: u64, t: &StateTimes) -> StateTimes {
    let at = (i * 37 % 70) * t.total() / 70;
    let mut rest = at;
    let mut cell = StateTimes::default();
    let parts =
        [(t.running, 0), (t.runnable, 1), (t.preempted, 2), (t.sleeping, 3), (t.uninterruptible, 4), (u64::MAX, 5)];
    for (part, kind) in parts {
        if rest < part {
            *[
                &mut cell.running,
                &mut cell.runnable,
                &mut cell.preempted,
                &mut cell.sleeping,
                &mut cell.uninterruptible,
                &mut cell.unknown,
            ][kind] = 142 * MS;
            break;
        }
        rest -= part;
    }
    cell
}

pub fn cpu_row(cpu: u32, cells: usize) -> CpuRow {
    let cell = |i: usize| {
        let wave = ((i * 7 + cpu as usize * 5) % 16) as f32 / 16.0;
        let loss = cpu % 8 == 2 && (cells * 2 / 5..cells * 2 / 5 + 3).contains(&i);
        OccupancyCell {
            busy: match cpu % 4 {
                _ if i < cells / 20 => None,
                1 => Some(if i.is_multiple_of(9) { 0.2 } else { 0.0 }),
                _ => Some(0.6 + wave * 0.4),
            },
            top: Some(if i % 5 < 3 { 1 + cpu % 2 } else { 4 }),
            ready_max: (i % 4) as u16,
            loss,
            irq: None,
        }
    };
    CpuRow {
        cpu,
        online: cpu % 16 != 7,
        node: cpu / 64,
        busy: Some(if cpu % 4 == 1 { 0.06 } else { 0.97 }),
        cells: (0..cells).map(cell).collect(),
        ready_now: if cpu.is_multiple_of(4) { 2 } else { 0 },
        running: Some(match cpu % 4 {
            0 => (1, EDGE - 4_100 * US),
            1 => (0, EDGE - S),
            2 => (4, EDGE - 11 * MS),
            _ => (8, EDGE - 900 * US),
        }),
        events_per_s: 6_100.0,
        lost: (cpu == 2).then_some(Some(1204)),
    }
}

/// The overview with this many CPUs and threads.
pub fn overview(cpus: u32, threads: u32, cells: usize) -> Overview {
    let mut rows = vec![
        row(1, ThreadNow::Runnable, times(412, 31, 182, 375, 0), latency(38 * US, 4_100 * US, 12 * MS)),
        row(2, SLEEP, times(140, 22, 0, 838, 0), latency(11 * US, 210 * US, 1_900 * US)),
        row(3, D, times(31, 1, 0, 656, 312), latency(9 * US, 40 * US, 80 * US)),
        row(4, ThreadNow::Running, times(610, 40, 0, 350, 0), latency(6 * US, 31 * US, 90 * US)),
        row(5, SLEEP, times(12, 3, 0, 985, 0), latency(5 * US, 20 * US, 40 * US)),
        row(6, SLEEP, times(4, 1, 0, 995, 0), latency(5 * US, 20 * US, 40 * US)),
        row(7, ThreadNow::Preempted, times(390, 20, 140, 450, 0), latency(30 * US, 3_000 * US, 9 * MS)),
        row(8, ThreadNow::Running, times(300, 0, 0, 400, 0), LatencyStats::default()),
    ];
    for utid in 9..threads.max(9) {
        rows.push(row(utid, SLEEP, times(u64::from(utid) % 7, 0, 0, 990, 0), LatencyStats::default()));
    }
    let warn =
        |kind| Finding { severity: Severity::Warning, kind, at: Window { from: EDGE - 6 * S, to: EDGE - 5 * S } };
    Overview {
        window: Some(WINDOW),
        valid_from: EDGE - 9_500 * MS,
        cpus: (0..cpus).map(|cpu| cpu_row(cpu, cells)).collect(),
        threads: rows,
        findings: vec![
            warn(FindingKind::Starving {
                utid: 1,
                share: 0.213,
                latency: latency(38 * US, 4_100 * US, 12 * MS),
                instead: Some(INSTEAD),
            }),
            warn(FindingKind::LongBlocked { utid: 3, longest: 312 * MS, count: 3, function: JBD2 }),
            warn(FindingKind::Lost { cpu: 2, count: Some(1204), ns: 400 * MS }),
            Finding {
                severity: Severity::Note,
                kind: FindingKind::IdleWhileReady { cpu: 1, idle_ns: 8_900 * MS, utid: 1, ready_cpu: 0 },
                at: WINDOW,
            },
        ],
        events_per_s: 18_400.0,
        losses: vec![],
        gaps: vec![Window { from: EDGE - 20 * S, to: EDGE - 9_400 * MS }],
    }
}

fn wait(start: u64, dur: u64, pushed: bool) -> Wait {
    Wait {
        utid: 1,
        state: if pushed { ThreadNow::Preempted } else { ThreadNow::Runnable },
        start,
        dur: Some(dur),
        cpu: Some(0),
        waker: (!pushed).then_some(Some(2)),
        preemptor: pushed.then_some(4),
        function: NameId::EMPTY,
        meanwhile: vec![(4, dur * 19 / 20), (5, dur / 20)],
    }
}

pub fn thread() -> ThreadDetail {
    let overview = overview(3, 9, 1);
    let share = |utid, share| Share { utid, share, amount: 100 };
    ThreadDetail {
        row: overview.threads[0].clone(),
        prio: Some(120),
        wakeup: latency(20 * US, 200 * US, 900 * US),
        preemption: latency(2 * MS, 4 * MS, 12 * MS),
        histogram: (0..24)
            .map(|i| match i {
                10 => (12, 0),
                12 => (1940, 20),
                14 => (610, 100),
                21 => (301, 300),
                23 => (4, 4),
                _ => (0, 0),
            })
            .collect(),
        ran_instead: vec![share(Some(4), 0.83), share(Some(8), 0.09), share(Some(5), 0.05)],
        woken_by: vec![share(Some(2), 0.71), share(None, 0.29)],
        wakes: vec![share(Some(2), 0.98), share(Some(3), 0.02)],
        blocked: vec![(JBD2, 900 * MS, 3, 312 * MS)],
        worst: (0..12).map(|i| wait(EDGE - 6 * S + i * 100 * MS, (12 - i) * 400 * US, i % 3 != 2)).collect(),
        gaps: vec![Window { from: WINDOW.from, to: WINDOW.from + 600 * MS }],
    }
}

pub fn cpu() -> CpuDetail {
    let share = |utid, share| Share { utid: Some(utid), share, amount: 100 };
    CpuDetail {
        row: cpu_row(0, 100),
        window: Some(WINDOW),
        used_by: vec![share(1, 0.41), share(4, 0.40), share(8, 0.09), share(0, 0.03)],
        slices: (0..60)
            .map(|i| Span {
                start: EDGE - (i + 1) * 3 * MS,
                end: (i > 0).then(|| EDGE - i * 3 * MS),
                utid: [1, 4, 8, 0][i as usize % 4],
                state: ThreadNow::Running,
                end_state: (i > 0).then_some(if i % 2 == 0 { TaskState::SLEEPING } else { TaskState::PREEMPTED }),
                function: NameId::EMPTY,
                row: 1000 - i as u32,
            })
            .collect(),
        irq_ns: None,
        ready_avg: 1.4,
        switches: 14_040,
        gaps: vec![Window { from: WINDOW.from, to: WINDOW.from + 600 * MS }],
    }
}

/// 50 ms of the time line.
pub const CLOSE: Window = Window { from: EDGE - 50 * MS, to: EDGE };

/// Who runs while the loader waits.
const INSTEAD: Instead = Instead { utid: 4, share: 0.83, estimated: false };

fn spans(parts: &[(u64, Utid, ThreadNow)]) -> Option<Vec<Span>> {
    let mut at = CLOSE.from;
    let spans = parts.iter().enumerate().map(|(i, (dur, utid, state))| {
        let start = at;
        at += dur * US;
        Span {
            start,
            end: (at < CLOSE.to).then_some(at),
            utid: *utid,
            state: *state,
            end_state: Some(TaskState::PREEMPTED),
            function: if *state == D { JBD2 } else { NameId::EMPTY },
            row: i as u32,
        }
    });
    Some(spans.collect())
}

pub fn timeline() -> TimelineView {
    use ThreadNow::{Preempted, Runnable, Running};
    let run = |v: &[(u64, Utid)]| spans(&v.iter().map(|(d, u)| (*d, *u, Running)).collect::<Vec<_>>());
    TimelineView {
        window: Some(CLOSE),
        valid_from: CLOSE.from + 2 * MS,
        tracks: vec![
            Track {
                id: TrackId::Cpu(0),
                spans: run(&[(7_000, 1), (8_400, 4), (600, 5), (14_000, 1), (6_000, 0), (7_000, 1), (7_000, 4)]),
            },
            Track { id: TrackId::Cpu(2), spans: run(&[(24_000, 0), (3_000, 2), (23_000, 0)]) },
            Track {
                id: TrackId::Thread(2),
                spans: spans(&[
                    (5_000, 2, SLEEP),
                    (1_000, 2, Running),
                    (500, 2, Runnable),
                    (4_200, 2, Running),
                    (39_300, 2, SLEEP),
                ]),
            },
            Track {
                id: TrackId::Thread(1),
                spans: spans(&[
                    (7_000, 1, Running),
                    (8_900, 1, Preempted),
                    (300, 1, Runnable),
                    (14_000, 1, Running),
                    (6_000, 1, SLEEP),
                    (700, 1, Runnable),
                    (7_000, 1, Running),
                    (6_100, 1, Preempted),
                ]),
            },
            Track { id: TrackId::Thread(3), spans: spans(&[(38_000, 3, D), (1_000, 3, Running), (11_000, 3, SLEEP)]) },
            Track { id: TrackId::Thread(8), spans: spans(&[(20_000, 8, ThreadNow::Unknown), (30_000, 8, Running)]) },
        ],
        marks: vec![
            (CLOSE.from + 9 * MS, "step 812".into()),
            (CLOSE.from + 34 * MS, "wait_batch".into()),
            (CLOSE.from + 40 * MS, "step 813".into()),
        ],
        gaps: vec![Window { from: CLOSE.from + 45 * MS, to: CLOSE.from + 46 * MS }],
        losses: vec![(2, Window { from: CLOSE.from + 30 * MS, to: CLOSE.from + 33 * MS })],
    }
}

pub fn slice() -> Slice {
    let start = CLOSE.from + 7 * MS;
    Slice {
        track: TrackId::Thread(1),
        detail: SpanDetail {
            span: Span {
                start,
                end: Some(start + 8_900 * US),
                utid: 1,
                state: ThreadNow::Preempted,
                end_state: None,
                function: NameId::EMPTY,
                row: 1,
            },
            cpu: Some(0),
            prio: Some(120),
            wait: Some(wait(start, 8_900 * US, true)),
            before: Some(1),
            next: Some(1),
            waker: Some(Some(6)),
            waker_state: Some(ThreadNow::Running),
            latency: None,
            io_wait: None,
            end_known: true,
            stack: NameId::EMPTY,
        },
        cgroup: CGROUP,
        stack: Vec::new(),
    }
}

/// A thread in D, with its kernel stack.
pub fn blocked_slice() -> Slice {
    let mut slice = slice();
    let wait = Wait {
        utid: 3,
        state: D,
        function: JBD2,
        waker: Some(None),
        meanwhile: Vec::new(),
        ..wait(CLOSE.from, 38 * MS, false)
    };
    slice.track = TrackId::Thread(3);
    let span = Span {
        start: wait.start,
        end: Some(wait.start + 38 * MS),
        utid: 3,
        state: D,
        function: JBD2,
        ..slice.detail.span
    };
    slice.detail = SpanDetail {
        span,
        wait: Some(wait),
        waker: Some(None),
        waker_state: None,
        io_wait: Some(true),
        before: None,
        next: None,
        ..slice.detail
    };
    let functions = [
        "__schedule",
        "schedule",
        "io_schedule",
        "jbd2_log_wait_commit",
        "jbd2_complete_transaction",
        "ext4_fsync_journal",
        "ext4_sync_file",
        "vfs_fsync_range",
        "do_fsync",
        "__x64_sys_fsync",
        "x64_sys_call",
        "do_syscall_64",
        "entry_SYSCALL_64_after_hwframe",
    ];
    slice.stack = functions.map(Into::into).to_vec();
    slice
}

pub fn chain() -> Vec<Link> {
    let link = |depth, utid, state, ms: u64, share, preemptor| Link {
        depth,
        utid,
        state,
        window: Window { from: CLOSE.from, to: CLOSE.from + ms * MS },
        share,
        preemptor,
        function: if state == D { JBD2 } else { NameId::EMPTY },
    };
    vec![
        link(0, Some(2), SLEEP, 6, 1.0, None),
        link(1, Some(1), ThreadNow::Preempted, 4, 0.68, Some(4)),
        link(2, Some(4), ThreadNow::Running, 4, 0.66, None),
        link(1, Some(3), D, 1, 0.2, None),
        link(2, None, ThreadNow::Running, 1, 0.2, None),
    ]
}

pub fn compared() -> Vec<CompareRow> {
    vec![
        CompareRow {
            label: "train.py · pt_loader:0".into(),
            run: [Some(0.412), Some(0.44)],
            ready: [Some(0.213), Some(0.011)],
            blocked: [Some(0.0), Some(0.0)],
            p99: [Some(4_100 * US), Some(60 * US)],
            max: [Some(12 * MS), Some(200 * US)],
        },
        CompareRow { label: "logship [911]".into(), run: [Some(0.61), None], ..CompareRow::default() },
    ]
}

/// What a ready query gives.
pub fn answered(name: &str, within: Window) -> QueryView {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    QueryView {
        title: format!("{name}: Who used the CPUs most"),
        within,
        columns: row(["thread", "process", "running_ms"]),
        rows: vec![
            row(["logship", "logship", "6021"]),
            row(["pt_loader:0", "python3", "412"]),
            row(["数据\\u{202e}", "–", "7"]),
        ],
        numeric: vec![false, false, true],
        cut: false,
    }
}
