//! Made-up data for tests, and what plays the worker, the keeper and the terminal: a training host where a log shipper
//! pushes the loader threads off their CPU, with a lost stretch on CPU 2, a gap before, a thread in D, a sleeping crowd, and
//! names that try to do harm.

#![allow(clippy::unwrap_used)]

mod data;
mod store;

pub use data::*;
pub use store::*;

use super::actions::Context;
use super::answers::*;
use super::cursor::Cursor;
use super::deeds::*;
use super::keymap::{Found, Keymap};
use super::keys::Key;
use super::labels::NewLabels;
use super::state::{Effect, Msg, Screen, Start, State};
use super::theme::{Depth, Theme};
use super::update::{start, update};
use crate::sched::summary::*;
use crate::time::{ClockMap, ClockPair, Zone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::sync::Arc;

/// A state of this size with no data yet.
pub fn empty(w: u16, h: u16, theme: &str) -> State {
    let depth = if theme == "mono" { Depth::Mono } else { Depth::True };
    let mut state = State::new(
        Start {
            cursor: Cursor::live(10 * S),
            has_live: true,
            screen: Screen::Overview,
            keymap: Keymap::default(),
            theme: Theme::shipped(theme, depth, false).unwrap(),
            depth,
            zone: Zone::fixed(jiff::tz::offset(8)),
            may_copy: true,
        },
        (w, h),
    );
    start(&mut state);
    state
}

/// Answers a question the way the worker would, from the made-up data.
pub fn reply(ask: &Ask) -> Reply {
    match ask {
        Ask::Overview { cells, .. } => {
            let data = overview(3, 40, usize::from(*cells));
            let crowd = Crowd::of(&data.threads);
            Reply::Overview(Box::new(data), crowd)
        }
        Ask::Thread { .. } => Reply::Thread(Box::new(thread()), WINDOW),
        Ask::Cpu { .. } => Reply::Cpu(Box::new(cpu())),
        Ask::Timeline { .. } => Reply::Timeline(Box::new(timeline())),
        Ask::Slice { track: TrackId::Thread(3), .. } => Reply::Slice(Some(Box::new(blocked_slice()))),
        Ask::Slice { .. } | Ask::WorstWait { .. } | Ask::Search { .. } => Reply::Slice(Some(Box::new(slice()))),
        Ask::Chain { .. } => {
            let share = |utid, share| Share { utid: Some(utid), share, amount: 1 };
            let on = WaitedOn {
                total: 3 * S,
                preemptors: vec![share(4, 0.83)],
                roots: vec![share(4, 0.7)],
                ..WaitedOn::default()
            };
            Reply::Chain(chain(), Box::new(on))
        }
        Ask::Growing { from } => {
            let worst = Some((21 * MS, "ckpt_writer".into()));
            let marks = vec![MarkRow { at_real: REAL - 2 * S, text: "deploy 17".into(), plain: true }];
            Reply::Growing(*from, Some(GrowingFigures { busy: Some(0.624), ready: Some(4), worst, marks, marked: 2 }))
        }
        Ask::Events { .. } => {
            Reply::Events(vec![(CLOSE.from + 7 * MS, 0, "sched_switch 48213 R+ ==> logship [911] prio 120".into())])
        }
        Ask::Query { name, within } => Reply::Query(Arc::new(answered(name, *within))),
        Ask::Compare { a, b } => Reply::Compare(*a, *b, compared()),
    }
}

/// Plays worker and keeper until nothing is asked any more.
pub fn settle(state: &mut State, effects: Vec<Effect>) -> Vec<Effect> {
    let mut left = Vec::new();
    let mut queue = effects;
    while !queue.is_empty() {
        let mut next = Vec::new();
        for effect in queue.drain(..) {
            let msg = match effect {
                Effect::Ask(q) => Msg::Answer(Box::new(answer(q.id, reply(&q.ask), state))),
                Effect::Do(Deed::Store { .. }) => Msg::Done(Done::Store(Box::new(store()))),
                Effect::Do(Deed::Kept) => Msg::Done(Done::Kept(Box::new(kept()))),
                other => {
                    left.push(other);
                    continue;
                }
            };
            next.extend(update(state, msg));
        }
        queue = next;
    }
    left
}

/// An answer with the words, the first time.
pub fn answer(id: u64, reply: Reply, state: &State) -> Answer {
    let labels =
        if state.labels.generation() == 1 { NewLabels { generation: 1, ..NewLabels::default() } } else { labels() };
    let extent = Window { from: EDGE - 3600 * S, to: EDGE };
    let clocks = Arc::new(ClockMap::new([ClockPair { boot: EDGE, real: REAL }]));
    Answer { id, reply, labels, extent, clocks, notes: Arc::default() }
}

/// A state with all data there.
pub fn full(w: u16, h: u16, theme: &str) -> State {
    let mut state = empty(w, h, theme);
    update(&mut state, Msg::Done(Done::Recorder(Box::new(recorder()))));
    state.main.asked = None;
    state.main.open = None;
    let effects = update(&mut state, Msg::Tick);
    settle(&mut state, effects);
    state
}

/// Presses keys in the keymap's notation; gives what the loop would have to do.
pub fn press(state: &mut State, keys: &str) -> Vec<Effect> {
    let mut left = Vec::new();
    for key in Key::parse_sequence(keys).unwrap() {
        let effects = update(state, Msg::Key(key));
        left.extend(settle(state, effects));
    }
    left
}

/// Types a text into a line, then Enter.
pub fn type_line(state: &mut State, text: &str) -> Vec<Effect> {
    for c in text.chars() {
        update(state, Msg::Key(Key::char(c)));
    }
    press(state, "enter")
}

/// True when a key means something in a context: scripts in tests must not press dead keys.
pub fn bound(state: &State, key: &str, context: Context) -> bool {
    state.keymap.look_up(context, &Key::parse_sequence(key).unwrap()) != Found::Nothing
}

/// Draws a state.
pub fn drawn(state: &State) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    super::render::draw(state, &mut buffer);
    buffer
}

/// The characters of a buffer, a line each, right ends trimmed.
pub fn text(buffer: &Buffer) -> String {
    lines_of(buffer, |x, y| buffer[(x, y)].symbol().to_string())
}

fn lines_of(buffer: &Buffer, cell: impl Fn(u16, u16) -> String) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| cell(x, y)).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// One letter a cell for how it looks: the state colours by name, `p` a process, `b` bold, `v` reversed, `_` a ground of its own.
pub fn looks(buffer: &Buffer, theme: &Theme) -> String {
    use super::theme::Tone;
    use ratatui::style::{Color, Modifier};
    let tones = [
        (Tone::Running, 'g'),
        (Tone::Ready, 'y'),
        (Tone::PushedOff, 'o'),
        (Tone::Blocked, 'r'),
        (Tone::Sleeping, 's'),
        (Tone::Loss, 'm'),
        (Tone::Unknown, 'u'),
        (Tone::Idle, 'i'),
        (Tone::Dim, 'd'),
        (Tone::Rule, 'l'),
        (Tone::Title, 't'),
        (Tone::Header, 'h'),
        (Tone::Mark, 'k'),
    ];
    lines_of(buffer, |x, y| {
        let cell = &buffer[(x, y)];
        let fg = tones.iter().find(|(t, _)| cell.fg != Color::Reset && theme.style(*t).fg == Some(cell.fg));
        let letter = match fg {
            Some((_, letter)) => *letter,
            None if cell.fg != Color::Reset => 'p',
            None if cell.modifier.contains(Modifier::REVERSED) => 'v',
            None if cell.modifier.contains(Modifier::BOLD) => 'b',
            None if cell.bg != Color::Reset => '_',
            None => ' ',
        };
        letter.to_string()
    })
}
