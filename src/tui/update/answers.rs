//! Answers of the worker and the keeper, taken in.

use super::{ask_chain, ask_events, go, list_again, lists};
use crate::sched::fold::Utid;
use crate::sched::summary::TrackId;
use crate::store::footer::MAX_MARKS;
use crate::tui::answers::{Answer, Ask, GrowingFigures, Reply, Slice, Tracks};
use crate::tui::deeds::Done;
use crate::tui::labels::NewLabels;
use crate::tui::state::{Effect, Popup, Screen, SnapshotsState, State};
use crate::tui::stored::put_in_order;

/// An answer came. What it says about words, clocks and the extent always counts; the data only while it is still wanted.
pub fn take(state: &mut State, answer: Answer, out: &mut Vec<Effect>) {
    learn(state, answer.labels);
    state.extent = answer.extent;
    state.clock = answer.clocks;
    state.notes = answer.notes;
    let id = answer.id;
    if state.main.open == Some(id) {
        state.main.open = None;
        state.waiting = 0;
        take_main(state, answer.reply);
    } else if state.pick.open == Some(id) {
        state.pick.open = None;
        take_pick(state, answer.reply, out);
    } else if state.chain.open == Some(id) {
        state.chain.open = None;
        match answer.reply {
            Reply::Chain(links, waited_on) => {
                state.timeline.chain = links;
                state.timeline.waited_on = Some(waited_on);
            }
            Reply::Failed(why) => state.complain(&*why),
            _ => {}
        }
    } else if state.events.open == Some(id) {
        state.events.open = None;
        match answer.reply {
            Reply::Events(events) => state.timeline.events = events,
            Reply::Failed(why) => state.complain(&*why),
            _ => {}
        }
    } else if state.query.open == Some(id) {
        state.query.open = None;
        match answer.reply {
            Reply::Query(view) => state.popup = Some(Popup::Query { view, top: 0 }),
            Reply::Failed(why) => state.complain(&*why),
            _ => {}
        }
    } else if state.comparison.open == Some(id) {
        state.comparison.open = None;
        match answer.reply {
            Reply::Compare(a, b, rows) => state.popup = Some(Popup::Compare { windows: [a, b], rows, top: 0 }),
            Reply::Failed(why) => state.complain(&*why),
            _ => {}
        }
    }
}

/// New words. When thread numbers were given out anew, what the state holds is looked up again by kernel id, or dropped.
fn learn(state: &mut State, new: NewLabels) {
    if !new.reset {
        state.labels.learn(new);
        return;
    }
    let old = std::mem::take(&mut state.labels);
    state.labels.learn(new);
    let labels = &state.labels;
    let again = |utid: Utid| old.get(utid).and_then(|label| labels.by_tid(label.tid));
    let screen = |screen: Screen| match screen {
        Screen::Thread(utid) => again(utid).map(Screen::Thread),
        other => Some(other),
    };
    state.screen = screen(state.screen).unwrap_or(Screen::Overview);
    state.back = state.back.iter().filter_map(|s| screen(*s)).collect();
    if let Tracks::Around(utid) = state.timeline.tracks {
        state.timeline.tracks = again(utid).map_or(Tracks::Busiest, Tracks::Around);
    }
    state.overview.selected = state.overview.selected.and_then(again);
    state.overview.data = None;
    state.thread.data = None;
    state.cpu.data = None;
    state.timeline.data = None;
    state.timeline.along = None;
    select(state, None);
    // Of what was asked in the old numbers only the answer in hand counts; the screen asks anew.
    state.main.asked = None;
}

fn take_main(state: &mut State, reply: Reply) {
    match (state.screen, reply) {
        (Screen::Overview, Reply::Overview(data, crowd)) => {
            state.overview.crowd = crowd;
            // A pick under the cursor survives a new order; without one the first row is it.
            state.overview.data = Some(data);
            lists::resort(state);
        }
        (Screen::Thread(utid), Reply::Thread(data, window)) if data.row.utid == utid => {
            state.thread.data = Some(data);
            state.thread.window = Some(window);
        }
        (Screen::Segments, Reply::Growing(from, figures)) => {
            state.segments.growing = figures.map(|figures| (from, figures));
        }
        (Screen::Snapshots, Reply::Growing(from, figures)) => {
            let growing = figures.map(|figures| (from, figures));
            let marks = |growing: &Option<(u64, GrowingFigures)>| growing.as_ref().map(|g| (g.0, g.1.marked));
            let news = marks(&growing) != marks(&state.snapshots.growing);
            state.snapshots.growing = growing;
            if news {
                list_growing_marks(&mut state.snapshots);
            }
        }
        (Screen::Cpu(cpu), Reply::Cpu(data)) if data.row.cpu == cpu => state.cpu.data = Some(data),
        (Screen::Timeline, Reply::Timeline(data)) => {
            let track = state.timeline.data.as_ref().and_then(|d| d.tracks.get(state.timeline.track)).map(|t| t.id);
            state.timeline.data = Some(data);
            let wanted = state.timeline.slice.as_ref().map(|s| s.track).or(state.timeline.along).or(track);
            if let Some(track) = wanted {
                select_track(state, track);
            }
        }
        (_, Reply::Failed(why)) => state.complain(&*why),
        _ => {}
    }
}

/// Puts the marks of the growing segment, which are in no footer yet, to those that are.
fn list_growing_marks(snapshots: &mut SnapshotsState) {
    let mut kept = snapshots.listed.clone();
    if let Some((_, figures)) = snapshots.growing.as_ref().filter(|(from, _)| kept.growing == Some(*from)) {
        kept.growing = None;
        kept.marked = kept.marked.saturating_add(figures.marked);
        kept.marks_cut |= figures.marked > MAX_MARKS as u64;
        kept.marks.extend_from_slice(&figures.marks);
        put_in_order(&mut kept.marks);
    }
    snapshots.kept = kept;
}

/// Selects a track, if it is there.
pub fn select_track(state: &mut State, track: TrackId) {
    let found = state.timeline.data.as_ref().and_then(|d| d.tracks.iter().position(|t| t.id == track));
    if let Some(at) = found {
        state.timeline.track = at;
    }
}

fn take_pick(state: &mut State, reply: Reply, out: &mut Vec<Effect>) {
    match reply {
        Reply::Slice(Some(slice)) => show_slice(state, slice, out),
        Reply::Slice(None) if state.timeline.along.is_some() => {
            // It ended before the middle of the window: its last is what there is.
            if let (Some(track), Some(Ask::Slice { step: 0, .. })) = (state.timeline.along, &state.pick.asked) {
                go::take_along(state, track, -1, out);
            }
        }
        Reply::Slice(None) => {
            let what = match state.pick.asked {
                Some(Ask::Search { forward: true, .. }) => "no hit after this",
                Some(Ask::Search { .. }) => "no hit before this",
                Some(Ask::WorstWait { .. }) => "it did not wait in this window",
                Some(Ask::Slice { step: 1, .. }) => "that was the last one",
                Some(Ask::Slice { step: -1, .. }) => "that was the first one",
                _ => "nothing is known there",
            };
            state.tell(what);
        }
        Reply::Place(at) => state.timeline.cursor.center(at),
        Reply::Failed(why) => state.complain(&*why),
        _ => {}
    }
}

/// Selects a slice; the window follows when it lies outside, and the tracks when its own is not among them.
fn show_slice(state: &mut State, slice: Box<Slice>, out: &mut Vec<Effect>) {
    let span = slice.detail.span;
    let window = state.timeline.cursor.window(state.extent.to);
    let end = span.end.unwrap_or(span.start);
    if end < window.from || span.start >= window.to {
        state.timeline.cursor.center(span.start);
    } else if state.timeline.cursor.is_live() && state.timeline.along.is_none() {
        // A selection needs the window to stand still.
        state.timeline.cursor.toggle_pause(state.extent.to, true);
    }
    let known = state.timeline.data.as_ref().is_some_and(|d| d.tracks.iter().any(|t| t.id == slice.track));
    if known {
        select_track(state, slice.track);
    } else if let TrackId::Thread(utid) = slice.track {
        state.timeline.tracks = Tracks::Around(utid);
    }
    select(state, Some(slice));
    // What was opened for the last one is wanted for this one too.
    if state.timeline.show_chain {
        ask_chain(state, out);
    } else if state.timeline.show_events {
        ask_events(state, out);
    }
}

/// Selects a slice or nothing; what was told of the one before is dropped.
pub fn select(state: &mut State, slice: Option<Box<Slice>>) {
    state.timeline.chain.clear();
    state.timeline.waited_on = None;
    state.timeline.slice = slice;
}

/// The keeper did something.
pub fn done(state: &mut State, done: Done, out: &mut Vec<Effect>) {
    match done {
        Done::Recorder(view) => state.recorder = *view,
        Done::Snapshot(path) => {
            state.tell(format!("kept {path}"));
            state.last_path = Some(path.to_string());
            if state.may_copy {
                out.push(Effect::Copy(path.to_string()));
            }
            list_again(state, out);
        }
        Done::Mark(text) => state.tell(format!("marked “{text}”")),
        Done::Store(view) => {
            let first = state.segments.data.is_none();
            state.segments.data = Some(view);
            if first {
                state.segments.column = usize::MAX;
            }
        }
        Done::Kept(view) => {
            state.snapshots.listed = *view;
            state.snapshots.loaded = true;
            list_growing_marks(&mut state.snapshots);
        }
        Done::Failed(why) => state.complain(&*why),
    }
}
