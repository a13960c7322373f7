//! From one screen to another, and to a place on the time line.

use super::{answers, ask_pick, ask_store, keys, lists};
use crate::sched::fold::Utid;
use crate::sched::summary::{FindingKind, TrackId, Wait, Window};
use crate::tui::answers::{Ask, Tracks};
use crate::tui::cursor::Cursor;
use crate::tui::deeds::Deed;
use crate::tui::state::{Effect, Pane, Screen, Slot, State};

/// So many screens are kept to go back to.
const BACK: usize = 32;

/// To a screen; the one on view can be come back to.
pub fn to(state: &mut State, screen: Screen, out: &mut Vec<Effect>) {
    if state.screen == screen {
        return;
    }
    state.back.push(state.screen);
    if state.back.len() > BACK {
        state.back.remove(0);
    }
    state.screen = screen;
    entered(state, out);
}

/// To the screen before.
pub fn back(state: &mut State, out: &mut Vec<Effect>) {
    match state.back.pop() {
        Some(screen) => {
            state.screen = screen;
            entered(state, out);
        }
        None if state.screen != Screen::Overview => {
            state.screen = Screen::Overview;
            entered(state, out);
        }
        None => {}
    }
}

/// A screen came on view: what it draws is asked for anew, and old answers of another thread or CPU are dropped.
pub fn entered(state: &mut State, out: &mut Vec<Effect>) {
    keys::drop_compare_hint(state);
    state.main = Slot::default();
    match state.screen {
        Screen::Thread(utid) if state.thread.data.as_ref().is_none_or(|d| d.row.utid != utid) => {
            state.thread = Default::default();
        }
        Screen::Cpu(cpu) if state.cpu.data.as_ref().is_none_or(|d| d.row.cpu != cpu) => state.cpu = Default::default(),
        Screen::Segments => ask_store(state, out),
        Screen::Snapshots => out.push(Effect::Do(Deed::Kept)),
        _ => {}
    }
}

/// Enter: what is selected.
pub fn open(state: &mut State, out: &mut Vec<Effect>) {
    match state.screen {
        Screen::Overview => match state.overview.focus {
            Pane::Threads => {
                if let Some(utid) = state.selected_thread().map(|r| r.utid) {
                    to(state, Screen::Thread(utid), out);
                }
            }
            Pane::Cpus => {
                let cpu = state.overview.data.as_ref().and_then(|d| d.cpus.get(state.overview.cpu)).map(|c| c.cpu);
                if let Some(cpu) = cpu {
                    to(state, Screen::Cpu(cpu), out);
                }
            }
            Pane::Findings => finding(state, state.overview.finding, out),
        },
        Screen::Thread(utid) => {
            let wait = state.thread.data.as_ref().and_then(|d| d.worst.get(state.thread.row)).cloned();
            if let Some(wait) = wait {
                to_wait(state, utid, &wait, out);
            }
        }
        Screen::Cpu(cpu) => {
            let span = state.cpu.data.as_ref().and_then(|d| d.slices.get(state.cpu.row)).copied();
            if let Some(span) = span {
                let window = Window { from: span.start, to: span.end.unwrap_or(state.extent.to) };
                to_place(state, TrackId::Cpu(cpu), Tracks::Around(span.utid), window, out);
            }
        }
        Screen::Timeline => {
            let picked = state.timeline.slice.as_ref().map(|s| s.detail.span.utid);
            let track = state.timeline.data.as_ref().and_then(|d| d.tracks.get(state.timeline.track)).map(|t| t.id);
            match (picked, track) {
                (Some(utid), _) if utid != 0 => to(state, Screen::Thread(utid), out),
                (_, Some(TrackId::Thread(utid))) => to(state, Screen::Thread(utid), out),
                (_, Some(TrackId::Cpu(cpu))) => to(state, Screen::Cpu(cpu), out),
                _ => lists::pick_on_track(state, out),
            }
        }
        Screen::Segments => open_segment(state, out),
        Screen::Snapshots => open_snapshot(state, out),
    }
}

/// A segment's own minute, on the overview.
fn open_segment(state: &mut State, out: &mut Vec<Effect>) {
    let Some(segment) = state.selected_segment() else { return };
    match segment.window {
        Some(window) => {
            state.cursor = Cursor::on(window);
            to(state, Screen::Overview, out);
        }
        None => {
            let path = segment.path.to_string();
            state.complain(format!("that segment is of another boot; open it with: dashcam browse {path}"));
        }
    }
}

fn open_snapshot(state: &mut State, out: &mut Vec<Effect>) {
    let row = state.snapshots.row;
    let n = state.snapshots.kept.snapshots.len();
    let at_real = match (state.snapshots.kept.snapshots.get(row), state.snapshots.kept.marks.get(row.wrapping_sub(n))) {
        (Some(snapshot), _) => snapshot.from_real.saturating_add(snapshot.length),
        (None, Some(mark)) => mark.at_real.saturating_add(state.cursor.span / 2),
        (None, None) => return,
    };
    let Some(boot) = state.clock.to_boot(at_real).first().copied() else { return };
    if boot < state.extent.from || boot.saturating_sub(state.cursor.span) > state.extent.to {
        let path = state.snapshots.kept.snapshots.get(row).map(|s| s.path.to_string()).unwrap_or_default();
        state.complain(format!("not in what is open here; open it with: dashcam browse {path}"));
        return;
    }
    state.cursor = Cursor::on(Window { from: boot.saturating_sub(state.cursor.span), to: boot });
    to(state, Screen::Overview, out);
}

/// To a stretch of a track on the time line, which is picked; the window leaves room on both sides.
fn to_place(state: &mut State, track: TrackId, tracks: Tracks, window: Window, out: &mut Vec<Effect>) {
    let length = window.to.saturating_sub(window.from).max(2_000);
    let span = length.saturating_mul(5).max(100_000);
    state.timeline.cursor = Cursor { span, ..state.timeline.cursor };
    state.timeline.cursor.center(window.from.saturating_add(length / 2));
    state.timeline.tracks = tracks;
    state.timeline.slice = None;
    to(state, Screen::Timeline, out);
    ask_pick(state, Ask::Slice { track, at: window.from, step: 0 }, out);
}

fn to_wait(state: &mut State, utid: Utid, wait: &Wait, out: &mut Vec<Effect>) {
    let end = wait.dur.map_or(state.extent.to, |d| wait.start.saturating_add(d));
    let window = Window { from: wait.start, to: end };
    to_place(state, TrackId::Thread(utid), Tracks::Around(utid), window, out);
}

/// Key `t`: the time line, where the selection of the screen on view is.
pub fn timeline_at_selection(state: &mut State, out: &mut Vec<Effect>) {
    match state.screen {
        Screen::Timeline => {}
        // A row that was walked to is meant; the first one is only where the cursor happens to stand.
        Screen::Thread(_) if state.thread.row > 0 => open(state, out),
        Screen::Cpu(_) if state.cpu.row > 0 => open(state, out),
        screen => {
            let cpu = state.overview.data.as_ref().and_then(|d| d.cpus.get(state.overview.cpu)).map(|c| c.cpu);
            let along = match (screen, state.overview.focus) {
                (Screen::Thread(utid), _) => Some(TrackId::Thread(utid)),
                (Screen::Cpu(cpu), _) => Some(TrackId::Cpu(cpu)),
                (Screen::Overview, Pane::Threads) => state.selected_thread().map(|r| TrackId::Thread(r.utid)),
                (Screen::Overview, Pane::Cpus) => cpu.map(TrackId::Cpu),
                _ => None,
            };
            state.timeline.cursor = state.cursor;
            state.timeline.tracks = match along {
                Some(TrackId::Thread(utid)) => Tracks::Around(utid),
                _ => Tracks::Busiest,
            };
            to(state, Screen::Timeline, out);
            if let Some(track) = along {
                take_along(state, track, 0, out);
            }
        }
    }
}

/// Selects a track that came from another screen, and what stands in the middle of the window on it (or `step` later):
/// all keys about a selection then work at once.
pub fn take_along(state: &mut State, track: TrackId, step: i8, out: &mut Vec<Effect>) {
    answers::select_track(state, track);
    answers::select(state, None);
    let window = state.timeline.cursor.window(state.extent.to);
    ask_pick(state, Ask::Slice { track, at: window.from + window.len() / 2, step }, out);
    state.timeline.along = Some(track);
}

/// To what a finding is about.
pub fn finding(state: &mut State, at: usize, out: &mut Vec<Effect>) {
    let Some(finding) = state.overview.data.as_ref().and_then(|d| d.findings.get(at)).cloned() else { return };
    let window = finding.at;
    match finding.kind {
        FindingKind::Starving { utid, .. }
        | FindingKind::PushedOff { utid, .. }
        | FindingKind::LongBlocked { utid, .. } => {
            to_place(state, TrackId::Thread(utid), Tracks::Around(utid), window, out);
        }
        FindingKind::IdleWhileReady { cpu, utid, .. } | FindingKind::Monopolised { cpu, utid, .. } => {
            to_place(state, TrackId::Cpu(cpu), Tracks::Around(utid), window, out);
        }
        FindingKind::Lost { cpu, .. } => to_place(state, TrackId::Cpu(cpu), Tracks::Busiest, window, out),
    }
}

/// To the worst wait: the first of the thread screen's list, or asked for on the time line.
pub fn worst_wait(state: &mut State, out: &mut Vec<Effect>) {
    match state.screen {
        Screen::Thread(utid) => {
            let worst = state.thread.data.as_ref().and_then(|d| d.worst.first()).cloned();
            match worst {
                Some(wait) => to_wait(state, utid, &wait, out),
                None => state.tell("it did not wait in this window"),
            }
        }
        _ => match selected_utid(state) {
            Some(utid) => ask_pick(state, Ask::WorstWait { utid, within: state.window() }, out),
            None => state.tell("select a thread's track first (↑ ↓)"),
        },
    }
}

/// The thread of the selected slice, or of the selected track.
fn selected_utid(state: &State) -> Option<Utid> {
    let picked = state.timeline.slice.as_ref().map(|s| s.detail.span.utid).filter(|u| *u != 0);
    let track = state.timeline.data.as_ref().and_then(|d| d.tracks.get(state.timeline.track)).map(|t| t.id);
    match (picked, track) {
        (Some(utid), _) => Some(utid),
        (None, Some(TrackId::Thread(utid) | TrackId::Marks(utid))) => Some(utid),
        _ => None,
    }
}

/// To the thread that woke the selected one, at that instant.
pub fn waker(state: &mut State, out: &mut Vec<Effect>) {
    let found = match state.screen {
        Screen::Thread(_) => {
            state.thread.data.as_ref().and_then(|d| d.worst.get(state.thread.row)).map(|w| (w.waker, w.start))
        }
        // A wait is woken at its end when asleep or in D, at its begin when it is ready; a slice was woken before it began.
        _ => state.timeline.slice.as_ref().map(|s| {
            let span = &s.detail.span;
            let ready_for = s.detail.latency.unwrap_or(0);
            match span.state {
                crate::sched::event::ThreadNow::Blocked(_) => (s.detail.waker, span.end.unwrap_or(span.start)),
                _ => (s.detail.waker, span.start.saturating_sub(ready_for)),
            }
        }),
    };
    match found {
        Some((Some(Some(utid)), at)) => {
            let at = at.saturating_sub(1);
            to_thread_at(state, utid, at, out);
        }
        Some((Some(None), _)) => state.tell("it was woken by an interrupt or a timer, not by a thread"),
        _ => state.tell("who woke it is not known here"),
    }
}

/// To the thread that pushed the selected one off, at that instant.
pub fn preemptor(state: &mut State, out: &mut Vec<Effect>) {
    let found = match state.screen {
        Screen::Thread(_) => state
            .thread
            .data
            .as_ref()
            .and_then(|d| d.worst.get(state.thread.row))
            .and_then(|w| Some((w.preemptor?, w.start))),
        _ => state.timeline.slice.as_ref().and_then(|s| {
            let span = &s.detail.span;
            let by = s.detail.wait.as_ref().and_then(|w| w.preemptor);
            match (by, span.end_state, span.end) {
                (Some(by), ..) => Some((by, span.start)),
                (None, Some(left), Some(end)) if left.contains(crate::sched::state::TaskState::PREEMPTED) => {
                    Some((s.detail.next?, end))
                }
                _ => None,
            }
        }),
    };
    match found {
        Some((utid, at)) => to_thread_at(state, utid, at, out),
        None => state.tell("nothing pushed it off here"),
    }
}

/// Picks what a thread did at an instant; from another screen the time line comes on view first.
fn to_thread_at(state: &mut State, utid: Utid, at: u64, out: &mut Vec<Effect>) {
    if state.screen != Screen::Timeline {
        state.timeline.cursor = Cursor { span: state.timeline.cursor.span.min(50_000_000), ..state.timeline.cursor };
        state.timeline.cursor.center(at);
        state.timeline.tracks = Tracks::Around(utid);
        to(state, Screen::Timeline, out);
    }
    ask_pick(state, Ask::Slice { track: TrackId::Thread(utid), at, step: 0 }, out);
}
