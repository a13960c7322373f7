//! The loop: waits for a key, an answer, a signal or the next tick; updates; draws when something changed.
//!
//! All input and output of the terminal's side happens here and in [`super::terminal`]. Keys are answered at once, whatever
//! the worker does: it has a thread and a mailbox of its own.

use super::answers::Answer;
use super::deeds::{Deed, Done};
use super::history::History;
use super::input::{self, Input};
use super::keeper::{self, Recorder};
use super::pace::Pace;
use super::render;
use super::state::{Effect, Msg, Start, State};
use super::terminal::Terminal;
use super::update;
use super::worker::{self, Mailbox, Settings};
use anyhow::Context as _;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use std::time::Instant;

/// How the terminal behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Draws a second at most.
    pub refresh_hz: f64,
    /// Take the mouse.
    pub mouse: bool,
}

/// Everything the loop talks to.
struct Links {
    mailbox: Mailbox,
    answers: Receiver<Answer>,
    deeds: Sender<Deed>,
    done: Receiver<Done>,
    keys: Receiver<Input>,
    signals: Receiver<Input>,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user left, or a signal asked to.
    Quit,
    /// The terminal is gone (hang-up, lost connection).
    Lost,
}

/// Runs the terminal interface until the user leaves. The terminal is given back on every way out.
pub fn run(
    start: Start,
    history: History,
    settings: Settings,
    recorder: Box<dyn Recorder>,
    options: Options,
) -> anyhow::Result<Ended> {
    // Signals first: one that comes while the terminal is being entered must not leave it entered.
    let (signals, _handle) = input::signals().context("cannot take over signals")?;
    let mut terminal = Terminal::enter(options.mouse).context("cannot use this terminal")?;
    let size = terminal.size().context("cannot ask the terminal for its size")?;
    let mut state = State::new(start, size);
    // Screens that ask the keeper alone need these as well.
    state.extent = history.extent();
    state.clock = history.clocks();
    let links = Links { signals, ..connect(history, settings, recorder)? };
    let ended = turn(&mut terminal, &mut state, &links, Pace::new(options.refresh_hz));
    drop(terminal);
    ended
}

/// Starts the helpers' threads.
fn connect(history: History, settings: Settings, recorder: Box<dyn Recorder>) -> anyhow::Result<Links> {
    let (mailbox, inbox) = worker::mailbox();
    let (send_answer, answers) = bounded(4);
    let (deeds, take_deed) = bounded(32);
    let (send_done, done) = bounded(16);
    let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(run).context("cannot start a thread").map(drop)
    };
    spawn("dashcam-model", Box::new(move || worker::run(history, &settings, &inbox, &send_answer)))?;
    spawn("dashcam-keeper", Box::new(move || keeper::run(recorder, &take_deed, &send_done)))?;
    let keys = input::keys().context("cannot read keys")?;
    Ok(Links { mailbox, answers, deeds, done, keys, signals: crossbeam_channel::never() })
}

fn turn(terminal: &mut Terminal, state: &mut State, links: &Links, mut pace: Pace) -> anyhow::Result<Ended> {
    let mut effects = update::start(state);
    let mut tick = Instant::now() + pace.interval();
    let mut changed = true;
    loop {
        if let Some(ended) = perform(terminal, state, links, &mut effects)? {
            return Ok(ended);
        }
        if changed {
            let begin = Instant::now();
            if let Err(e) = terminal.draw(|frame| render::render(state, frame)) {
                return lost_or(e);
            }
            pace.drawn(begin.elapsed());
            state.slow_link = pace.slowed();
        }
        let input = match wait(links, tick) {
            Ok(input) => input,
            Err(ended) => return ended,
        };
        changed = true;
        match input {
            Some(Input::Lost) => return Ok(Ended::Lost),
            Some(Input::GoesOn) => match terminal.go_on().and_then(|()| terminal.size()) {
                Ok((w, h)) => effects = update::update(state, Msg::Resize(w, h)),
                Err(e) => return lost_or(e),
            },
            Some(Input::Msg(msg)) => {
                effects = update::update(state, msg);
                drain(state, links, &mut effects);
            }
            None => {
                tick = Instant::now() + pace.interval();
                // What a tick asks for is drawn when it is answered; by itself it only takes notices away.
                let (notice, loaded) = (state.notice.is_some(), state.loaded);
                state.loaded = links.mailbox.loaded();
                effects = update::update(state, Msg::Tick);
                changed = notice && state.notice.is_none() || state.waiting == render::LONG || state.loaded != loaded;
            }
        }
    }
}

/// The next message; `None` is a tick. An error when a helper is gone.
#[allow(clippy::type_complexity, reason = "the outer error is how the loop ends, its own value included")]
fn wait(links: &Links, tick: Instant) -> Result<Option<Input>, anyhow::Result<Ended>> {
    let gone = |who: &str| Err(anyhow::anyhow!("the {who} thread ended; its message stands above, if it left one"));
    select! {
        recv(links.keys) -> input => input.map(Some).map_err(|_| Ok(Ended::Lost)),
        recv(links.signals) -> input => input.map(Some).map_err(|_| Ok(Ended::Quit)),
        recv(links.answers) -> answer => match answer {
            Ok(answer) => Ok(Some(Input::Msg(Msg::Answer(Box::new(answer))))),
            Err(_) => Err(gone("model")),
        },
        recv(links.done) -> done => match done {
            Ok(done) => Ok(Some(Input::Msg(Msg::Done(done)))),
            Err(_) => Err(gone("keeper")),
        },
        default(tick.saturating_duration_since(Instant::now())) => Ok(None),
    }
}

/// Takes what else is waiting before the next draw: a held key must not draw once per repeat.
fn drain(state: &mut State, links: &Links, effects: &mut Vec<Effect>) {
    for _ in 0..64 {
        match links.keys.try_recv() {
            Ok(Input::Msg(msg)) => effects.extend(update::update(state, msg)),
            Ok(Input::Lost) => effects.push(Effect::Quit),
            // Comes with the signals only.
            Ok(Input::GoesOn) => {}
            Err(_) => return,
        }
    }
}

/// Does what the update asked for; `Some` when it is over.
fn perform(
    terminal: &mut Terminal,
    state: &mut State,
    links: &Links,
    effects: &mut Vec<Effect>,
) -> anyhow::Result<Option<Ended>> {
    for effect in effects.drain(..) {
        let written = match effect {
            Effect::Ask(question) => {
                links.mailbox.post(question);
                Ok(())
            }
            Effect::Do(deed) => {
                match links.deeds.try_send(deed) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => state.complain("still busy with what was asked before; try again"),
                    Err(TrySendError::Disconnected(_)) => {
                        state.complain("the keeper thread ended: nothing can be kept")
                    }
                }
                Ok(())
            }
            Effect::Copy(text) => terminal.copy(&text),
            Effect::Suspend => terminal.suspend(),
            Effect::Redraw => terminal.clear(),
            Effect::Quit => return Ok(Some(Ended::Quit)),
        };
        if let Err(e) = written {
            return lost_or(e).map(Some);
        }
    }
    Ok(None)
}

/// A terminal that cannot be written to is gone: that is an end, not a failure.
fn lost_or(e: std::io::Error) -> anyhow::Result<Ended> {
    use std::io::ErrorKind as K;
    let lost =
        matches!(e.kind(), K::BrokenPipe | K::NotConnected | K::UnexpectedEof) || e.raw_os_error() == Some(libc::EIO);
    if lost { Ok(Ended::Lost) } else { Err(anyhow::Error::new(e).context("cannot write to the terminal")) }
}
