//! How each question is answered from a model: which window, which tracks, which words go along.

use super::answers::{
    Ask, CompareRow, Crowd, GrowingFigures, Page, Question, RawEvent, Reply, Slice, TimelineView, Track, Tracks, When,
};
use super::history::{History, View, Watch};
use super::querying;
use super::screens::columns;
use super::stored::mark_row;
use super::table::Table;
use super::words::Speaker;
use super::worker::Settings;
use crate::feed::{self, FeedError};
use crate::names::{NameId, printable};
use crate::sched::event::{Event, EventKind, Item};
use crate::sched::fold::Consumer;
use crate::sched::summary::{Overview, Share, Span, SpanDetail, ThreadRow, TrackId, Window};
use crate::store::footer::Foremost;
use crate::time::ClockMap;
use std::ops::ControlFlow;
use std::time::Instant;

/// Raw events sent at most.
const MAX_EVENTS: usize = 400;
/// Marks on a time line at most: several for each column of the widest terminal.
const MARKS: usize = 2000;
/// Tracks for which another thread is worth starting.
const TRACKS_A_WORKER: usize = 8;
/// Rows of a comparison.
const MAX_COMPARED: usize = 500;

/// The reply to a question, its words told to the speaker.
pub fn reply(
    history: &mut History,
    settings: &Settings,
    question: &Question,
    speaker: &mut Speaker,
    watch: Watch<'_>,
) -> Result<Reply, FeedError> {
    let from = question.generation;
    let not_there = || Reply::Failed("that thread is not known in this stretch".into());
    match &question.ask {
        Ask::Overview { when, cells, group } => {
            let live = matches!(when, When::Latest(_));
            let kept = history.table.take().filter(|_| live);
            let (window, view) = open(history, *when, watch)?;
            let window = if live { steady(window, *cells) } else { window };
            speaker.turn_to(view.generation);
            let table = match kept.filter(|table| table.serves(&view, window, *group, Instant::now())) {
                Some(mut table) => {
                    table.move_on(&view, window, *cells);
                    table
                }
                None => Table::count(&view, window, *cells, *group, settings, speaker),
            };
            say_overview(table.data(), speaker, &view);
            let (shown, crowd) = (table.shown(), Crowd::of(&table.data().threads));
            history.table = live.then_some(table);
            Ok(Reply::Overview(Box::new(shown), crowd))
        }
        Ask::Growing { from } => {
            let span = history.extent().to.saturating_sub(*from).max(1);
            let clocks = history.clocks();
            let (window, view) = history.latest(span)?;
            Ok(Reply::Growing(*from, growing(&view, Window { from: *from, to: window.to }, &clocks)))
        }
        Ask::Thread { utid, when, cells } => {
            let (window, view) = open(history, *when, watch)?;
            let Some(utid) = speaker.translate(*utid, from, &view) else { return Ok(not_there()) };
            speaker.turn_to(view.generation);
            let Some(data) = view.model.thread(utid, window, usize::from(*cells)) else { return Ok(not_there()) };
            say_row(&data.row, speaker, &view);
            speaker.thread(utid, &view);
            for list in [&data.ran_instead, &data.woken_by, &data.wakes] {
                say_shares(list, speaker, &view);
            }
            data.blocked.iter().for_each(|b| speaker.name(b.0, &view));
            data.worst.iter().for_each(|w| say_wait(w, speaker, &view));
            Ok(Reply::Thread(Box::new(data), window))
        }
        Ask::Cpu { cpu, when, cells } => {
            let (window, view) = open(history, *when, watch)?;
            speaker.turn_to(view.generation);
            let Some(data) = view.model.cpu(*cpu, window, usize::from(*cells)) else {
                return Ok(Reply::Failed(format!("CPU {cpu} is not known in this stretch").into()));
            };
            say_cpu(&data.row, speaker, &view);
            say_shares(&data.used_by, speaker, &view);
            data.slices.iter().for_each(|s| speaker.thread(s.utid, &view));
            Ok(Reply::Cpu(Box::new(data)))
        }
        Ask::Timeline { when, columns, tracks, page } => {
            let (window, view) = open(history, *when, watch)?;
            let tracks = match tracks {
                Tracks::Around(utid) => speaker.translate(*utid, from, &view).map_or(Tracks::Busiest, Tracks::Around),
                Tracks::Busiest => Tracks::Busiest,
            };
            speaker.turn_to(view.generation);
            Ok(timeline(&view, window, *columns, tracks, *page, speaker))
        }
        Ask::Slice { track, at, step } => {
            let view = history.view(Window { from: *at, to: at.saturating_add(1) }, watch)?;
            let Some(track) = translate_track(*track, from, speaker, &view) else { return Ok(Reply::Slice(None)) };
            speaker.turn_to(view.generation);
            let detail = view.model.span_at(track, *at, i32::from(*step));
            Ok(slice(track, detail, speaker, &view))
        }
        Ask::WorstWait { utid, within } => {
            let view = history.view(*within, watch)?;
            let Some(utid) = speaker.translate(*utid, from, &view) else { return Ok(Reply::Slice(None)) };
            speaker.turn_to(view.generation);
            let track = TrackId::Thread(utid);
            let wait = view.model.worst_wait(utid, *within);
            Ok(slice(track, wait.and_then(|w| view.model.span_at(track, w.start, 0)), speaker, &view))
        }
        Ask::Search { from: at, forward, what } => search(history, *at, *forward, what, speaker, watch),
        Ask::Chain { utid, at, within } => {
            let view = history.view(*within, watch)?;
            let Some(utid) = speaker.translate(*utid, from, &view) else { return Ok(not_there()) };
            speaker.turn_to(view.generation);
            let links = view.model.chain(utid, *at);
            for link in &links {
                link.utid.iter().chain(&link.preemptor).for_each(|u| speaker.thread(*u, &view));
                speaker.name(link.function, &view);
            }
            let on = view.model.waited_on(utid, *within);
            for list in [&on.wakers, &on.preemptors, &on.ran_instead, &on.roots] {
                say_shares(list, speaker, &view);
            }
            on.functions.iter().for_each(|f| speaker.name(f.0, &view));
            Ok(Reply::Chain(links, Box::new(on)))
        }
        Ask::Events { within } => Ok(Reply::Events(events(history, *within)?)),
        Ask::Query { name, within } => Ok(querying::answer(history.paths(), name, *within, watch)),
        Ask::Compare { a, b } => compare(history, *a, *b, watch),
    }
}

fn growing(view: &View<'_>, window: Window, clocks: &ClockMap) -> Option<GrowingFigures> {
    let figures = view.model.stretch(window)?;
    let name = |utid| printable(view.names.bytes(view.model.threads().shown_name(utid, window.to))).into();
    let worst = figures.worst.map(|(ns, utid)| (ns, name(utid)));
    let (mut marks, mut marked) = (Foremost::default(), 0);
    for (ts, text) in view.model.marker_texts(window) {
        marks.offer(ts, view.names.bytes(text));
        marked += 1;
    }
    let marks = marks.take().iter().filter_map(|m| mark_row(clocks.to_real(m.ts), &m.text)).collect();
    Some(GrowingFigures { busy: figures.busy, ready: figures.ready, worst, marks, marked })
}

fn open<'h>(history: &'h mut History, when: When, watch: Watch<'_>) -> Result<(Window, View<'h>), FeedError> {
    match when {
        When::Latest(span) => history.latest(span),
        When::At(window) => history.view(window, watch).map(|v| (window, v)),
    }
}

/// Ends a live window on a border of its cells, so that lanes move by whole cells and do not shimmer; at most half a second
/// of the newest data waits for its cell.
fn steady(window: Window, cells: u16) -> Window {
    const LONGEST: u64 = 500_000_000;
    let cell = (window.len() / u64::from(cells.max(1))).max(1);
    let step = cell / cell.div_ceil(LONGEST);
    let back = window.to % step.max(1);
    Window { from: window.from.saturating_sub(back), to: window.to - back }
}

fn say_overview(data: &Overview, speaker: &mut Speaker, view: &View<'_>) {
    use crate::sched::summary::FindingKind as F;
    data.threads.iter().for_each(|row| say_row(row, speaker, view));
    data.cpus.iter().for_each(|cpu| say_cpu(cpu, speaker, view));
    for finding in &data.findings {
        let (utid, other) = match &finding.kind {
            F::Starving { utid, instead, .. } => (*utid, instead.map(|i| i.utid)),
            F::PushedOff { utid, by, .. } => (*utid, by.map(|i| i.0)),
            F::LongBlocked { utid, function, .. } => {
                speaker.name(*function, view);
                (*utid, None)
            }
            F::Monopolised { utid, .. } | F::IdleWhileReady { utid, .. } => (*utid, None),
            F::Lost { .. } => (0, None),
        };
        [Some(utid), other].into_iter().flatten().for_each(|u| speaker.thread(u, view));
    }
}

fn say_row(row: &ThreadRow, speaker: &mut Speaker, view: &View<'_>) {
    for id in [row.name, row.process, row.cgroup, row.blocked_function] {
        speaker.name(id, view);
    }
    row.cmdline.iter().for_each(|id| speaker.name(*id, view));
    speaker.thread(row.utid, view);
    let others = [row.ran_instead.map(|r| r.utid), row.last_waker.flatten()];
    others.into_iter().flatten().for_each(|u| speaker.thread(u, view));
}

fn say_cpu(row: &crate::sched::summary::CpuRow, speaker: &mut Speaker, view: &View<'_>) {
    row.cells.iter().filter_map(|c| c.top).for_each(|p| speaker.process(p, view));
    row.running.iter().for_each(|(u, _)| speaker.thread(*u, view));
}

fn say_shares(list: &[Share], speaker: &mut Speaker, view: &View<'_>) {
    list.iter().filter_map(|s| s.utid).for_each(|u| speaker.thread(u, view));
}

fn say_wait(wait: &crate::sched::summary::Wait, speaker: &mut Speaker, view: &View<'_>) {
    let others = [Some(wait.utid), wait.waker.flatten(), wait.preemptor];
    others.into_iter().flatten().for_each(|u| speaker.thread(u, view));
    wait.meanwhile.iter().for_each(|(u, _)| speaker.thread(*u, view));
    speaker.name(wait.function, view);
}

fn translate_track(track: TrackId, from: u64, speaker: &Speaker, view: &View<'_>) -> Option<TrackId> {
    Some(match track {
        TrackId::Thread(utid) => TrackId::Thread(speaker.translate(utid, from, view)?),
        TrackId::Marks(utid) => TrackId::Marks(speaker.translate(utid, from, view)?),
        cpu @ TrackId::Cpu(_) => cpu,
    })
}

fn slice(track: TrackId, detail: Option<SpanDetail>, speaker: &mut Speaker, view: &View<'_>) -> Reply {
    let Some(detail) = detail else { return Reply::Slice(None) };
    let cgroup = view.model.threads().owner(detail.span.utid).map_or(NameId::EMPTY, |p| p.cgroup);
    speaker.name(cgroup, view);
    speaker.name(detail.span.function, view);
    let others = [Some(detail.span.utid), detail.before, detail.next, detail.waker.flatten()];
    others.into_iter().flatten().for_each(|u| speaker.thread(u, view));
    detail.wait.iter().for_each(|w| say_wait(w, speaker, view));
    let functions = view.names.bytes(detail.stack).split(|b| *b == b'\n').filter(|f| !f.is_empty());
    let stack = functions.map(|f| printable(f).into()).collect();
    Reply::Slice(Some(Box::new(Slice { track, detail, cgroup, stack })))
}

fn search(
    history: &mut History,
    from: u64,
    forward: bool,
    what: &crate::sched::model::SearchFor,
    speaker: &mut Speaker,
    watch: Watch<'_>,
) -> Result<Reply, FeedError> {
    let view = history.view(Window { from, to: from.saturating_add(1) }, watch)?;
    speaker.turn_to(view.generation);
    let Some(hit) = view.model.search(what, from, forward, view.names) else { return Ok(Reply::Slice(None)) };
    let Some(utid) = hit.utid else { return Ok(Reply::Place(hit.at.from)) };
    let track = TrackId::Thread(utid);
    Ok(slice(track, view.model.span_at(track, hit.at.from, 0), speaker, &view))
}

fn timeline(view: &View<'_>, window: Window, columns: u16, tracks: Tracks, page: Page, speaker: &mut Speaker) -> Reply {
    let model = view.model;
    let rows = model.thread_times(window);
    let ids = track_order(model.cpus(), &rows, tracks, usize::from(page.limit), model);
    let behind = usize::from(page.to).min(ids.len());
    let from = usize::from(page.from).min(behind);
    let mut spans = spans_of(view, window, columns, &ids[from..behind]).into_iter();
    let with_spans = |(i, id)| Track { id, spans: if (from..behind).contains(&i) { spans.next() } else { None } };
    let tracks: Vec<Track> = ids.into_iter().enumerate().map(with_spans).collect();
    for track in &tracks {
        if let TrackId::Thread(utid) = track.id {
            speaker.thread(utid, view);
        }
        for span in track.spans.iter().flatten() {
            speaker.thread(span.utid, view);
            speaker.name(span.function, view);
        }
    }
    let marks = model.marks_spread(window, MARKS, view.names);
    Reply::Timeline(Box::new(TimelineView {
        window: Some(window),
        valid_from: model.valid_from(),
        tracks,
        marks: marks.into_iter().map(|m| (m.start, printable(&m.name).into())).collect(),
        gaps: model.gaps(window),
        losses: model
            .losses(window)
            .into_iter()
            // Where the begin of a loss is not known the whole stretch before it is in doubt; one instant is shown.
            .map(|l| (l.cpu, Window { from: if l.from == 0 { l.to } else { l.from }, to: l.to.saturating_add(1) }))
            .collect(),
    }))
}

/// The spans of some tracks. A key waits for this: where there are many, several threads share the work (they are in the
/// recording too, so not for little).
fn spans_of(view: &View<'_>, window: Window, columns: u16, ids: &[TrackId]) -> Vec<Vec<Span>> {
    const WORKERS: usize = 4;
    let many = view.model.len() > 1_000_000;
    let workers = if many { std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS) } else { 1 };
    let share = ids.len().div_ceil(workers).max(TRACKS_A_WORKER);
    let of = |ids: &[TrackId]| view.model.timeline(window, usize::from(columns), ids, view.names);
    let mut shares = ids.chunks(share);
    let own = shares.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let others: Vec<_> = shares.map(|ids| (ids, scope.spawn(move || of(ids)))).collect();
        let mut spans = of(own);
        for (ids, other) in others {
            spans.extend(other.join().unwrap_or_else(|_| of(ids)));
        }
        spans
    })
}

/// Which tracks, in which order: CPUs, then threads with the most time ready, in D and running. Around a thread: its CPU, it
/// itself, its process's threads and those it dealt with, then the rest.
fn track_order(
    cpus: Vec<u32>,
    rows: &[ThreadRow],
    tracks: Tracks,
    limit: usize,
    model: &crate::sched::model::Model,
) -> Vec<TrackId> {
    const CPUS_FIRST: usize = 8;
    let weight = |r: &ThreadRow| (r.times.ready() + r.times.uninterruptible) * 4 + r.times.running;
    let mut busy: Vec<&ThreadRow> = rows.iter().filter(|r| weight(r) > 0).collect();
    busy.sort_by_key(|r| (std::cmp::Reverse(weight(r)), r.tid));
    let mut out: Vec<TrackId> = Vec::new();
    let mut add = |id: TrackId| {
        if out.len() < limit && !out.contains(&id) {
            out.push(id);
        }
    };
    if let Tracks::Around(utid) = tracks {
        let own = rows.iter().find(|r| r.utid == utid);
        own.and_then(|r| r.cpu).into_iter().for_each(|cpu| add(TrackId::Cpu(cpu)));
        add(TrackId::Thread(utid));
        let instead = own.and_then(|r| r.ran_instead).map(|r| r.utid);
        let waker = own.and_then(|r| r.last_waker).flatten();
        let known = model.threads().get(utid).and_then(|t| t.upid);
        instead.into_iter().chain(waker).for_each(|u| add(TrackId::Thread(u)));
        for row in busy.iter().filter(|r| known.is_some() && r.upid == known) {
            add(TrackId::Thread(row.utid));
        }
    }
    cpus.iter().take(CPUS_FIRST).for_each(|cpu| add(TrackId::Cpu(*cpu)));
    busy.iter().take(limit).for_each(|r| add(TrackId::Thread(r.utid)));
    cpus.iter().skip(CPUS_FIRST).for_each(|cpu| add(TrackId::Cpu(*cpu)));
    out
}

/// Collects the events of a stretch while a load passes by.
struct Collector {
    within: Window,
    events: Vec<Event>,
}

impl Consumer for Collector {
    fn item(&mut self, item: &Item) {
        if let Item::Event(event) = item
            && (self.within.from..self.within.to).contains(&event.ts)
            && self.events.len() < MAX_EVENTS
        {
            self.events.push(*event);
        }
    }
}

fn events(history: &History, within: Window) -> Result<Vec<RawEvent>, FeedError> {
    let mut collector = Collector { within, events: Vec::new() };
    let loaded = feed::load(history.paths(), Some(within), &mut collector, &mut |_| ControlFlow::Continue(()))?;
    let text = |event: &Event| event_text(&event.kind, &|id| loaded.names.text(id));
    Ok(collector.events.iter().map(|e| (e.ts, e.cpu, text(e).into())).collect())
}

/// An event as one line, in the kernel's own words where it has any.
fn event_text(kind: &EventKind, name: &dyn Fn(NameId) -> String) -> String {
    match kind {
        EventKind::Switch(s) => {
            let prev = s.prev_tid.map_or("?".to_string(), |t| t.to_string());
            let (next, state) = (name(s.next_comm), s.prev_state.letters());
            format!("sched_switch {prev} {state} ==> {next} [{}] prio {}", s.next_tid, s.next_prio)
        }
        EventKind::Waking(w) | EventKind::Wakeup(w) | EventKind::WakeupNew(w) => {
            let word = match kind {
                EventKind::Waking(_) => "sched_waking",
                EventKind::Wakeup(_) => "sched_wakeup",
                _ => "sched_wakeup_new",
            };
            format!("{word} {} [{}] prio {} target CPU {}", name(w.comm), w.tid, w.prio, w.target_cpu)
        }
        EventKind::Migrate { tid, from_cpu, to_cpu } => format!("sched_migrate_task {tid} CPU {from_cpu} → {to_cpu}"),
        EventKind::NewTask { tid, comm, .. } => format!("task_newtask {} [{tid}]", name(*comm)),
        EventKind::Rename { tid, comm } => format!("task_rename [{tid}] {}", name(*comm)),
        EventKind::Exec { tid, filename, .. } => format!("sched_process_exec [{tid}] {}", name(*filename)),
        EventKind::Exit { tid } => format!("sched_process_exit [{tid}]"),
        EventKind::Free { tid } => format!("sched_process_free [{tid}]"),
        EventKind::BlockedReason { tid, io_wait, function } => {
            format!("sched_blocked_reason [{tid}] {} io_wait={io_wait}", name(*function))
        }
        EventKind::IrqEntry { irq, name: n } => format!("irq_handler_entry {irq} {}", name(*n)),
        EventKind::IrqExit { irq } => format!("irq_handler_exit {irq}"),
        EventKind::SoftirqEntry { vec } => format!("softirq_entry {vec}"),
        EventKind::SoftirqExit { vec } => format!("softirq_exit {vec}"),
        EventKind::Block(b) => {
            format!("block {:?} dev {} sector {} + {} {}", b.stage, b.dev, b.sector, b.sectors, name(b.rwbs))
        }
        EventKind::Frequency { cpu, khz } => format!("cpu_frequency CPU {cpu} {khz} kHz"),
        EventKind::Idle { cpu, state } if *state == u32::MAX => format!("cpu_idle CPU {cpu} left"),
        EventKind::Idle { cpu, state } => format!("cpu_idle CPU {cpu} state {state}"),
        EventKind::Print { text } => format!("print {}", name(*text)),
        EventKind::Other { name: n } => name(*n),
    }
}

/// The same numbers of the same threads (by name and tid) over two windows, the largest change in ready time first.
fn compare(history: &mut History, a: Window, b: Window, watch: Watch<'_>) -> Result<Reply, FeedError> {
    let mut rows: Vec<((i32, String), CompareRow)> = Vec::new();
    for (side, window) in [a, b].into_iter().enumerate() {
        let view = history.view(window, watch)?;
        for row in view.model.thread_rows(window, 0) {
            let key = (row.tid, view.names.text(row.name));
            let at = rows.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
                let label = label(&row, &view);
                rows.push((key, CompareRow { label: label.into(), ..CompareRow::default() }));
                rows.len() - 1
            });
            let into = &mut rows[at].1;
            into.run[side] = columns::share(&row, row.times.running);
            into.ready[side] = columns::ready(&row);
            into.blocked[side] = columns::share(&row, row.times.uninterruptible);
            let waited = row.latency.count > 0;
            into.p99[side] = waited.then_some(row.latency.p99);
            into.max[side] = waited.then_some(row.latency.max);
        }
    }
    let changed = |r: &CompareRow| {
        let apart = |pair: [Option<f64>; 2]| (pair[0].unwrap_or(0.0) - pair[1].unwrap_or(0.0)).abs();
        apart(r.ready) * 2.0 + apart(r.blocked) * 2.0 + apart(r.run)
    };
    let mut rows: Vec<CompareRow> = rows.into_iter().map(|(_, r)| r).collect();
    rows.sort_by(|x, y| changed(y).total_cmp(&changed(x)).then_with(|| x.label.cmp(&y.label)));
    rows.truncate(MAX_COMPARED);
    Ok(Reply::Compare(a, b, rows))
}

fn label(row: &ThreadRow, view: &View<'_>) -> String {
    let (process, name) = (view.names.text(row.process), view.names.text(row.name));
    let name = if name.is_empty() { format!("tid {}", row.tid) } else { name };
    if process.is_empty() || process == name { format!("{name} [{}]", row.tid) } else { format!("{process} · {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::event::Switch;
    use crate::sched::state::TaskState;

    #[test]
    fn a_live_window_moves_by_whole_cells() {
        let window = |to: u64| Window { from: to - 10_000, to };
        assert_eq!(steady(window(123_456), 100), window(123_400));
        assert_eq!(steady(window(123_499), 100), window(123_400));
        let minutes = Window { from: 0, to: 600_000_000_001 };
        assert_eq!(steady(minutes, 60).to, 600_000_000_000, "cells of 10 s move in steps of half a second");
    }

    #[test]
    fn events_are_told_in_the_kernels_words() {
        let name = |_: NameId| "pt_loader:0".to_string();
        let switch = Switch {
            prev_tid: Some(911),
            prev_prio: Some(120),
            prev_state: TaskState::UNINTERRUPTIBLE,
            prev_state_raw: 2,
            next_tid: 48213,
            next_prio: 120,
            next_comm: NameId(1),
        };
        assert_eq!(
            event_text(&EventKind::Switch(switch), &name),
            "sched_switch 911 D ==> pt_loader:0 [48213] prio 120"
        );
        assert_eq!(event_text(&EventKind::Idle { cpu: 1, state: u32::MAX }, &name), "cpu_idle CPU 1 left");
    }
}
