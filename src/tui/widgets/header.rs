//! The lines on top: is it recording, is anything lost, how far back it reaches, what it costs, what time it is.

use crate::time::{self, Digits};
use crate::tui::cursor::Mode;
use crate::tui::pen::{self, Pen};
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::units::show;

/// From this width on the header is one line.
const ONE_LINE: u16 = 110;

/// Lines the header takes: one or two, and one for a warning.
pub fn height(state: &State) -> u16 {
    let base = if state.size.0 >= ONE_LINE { 1 } else { 2 };
    base + u16::from(banner(state).is_some())
}

/// The line that must be seen before any number is believed.
fn banner(state: &State) -> Option<String> {
    let recorder = &state.recorder;
    if let Some(warning) = recorder.warnings.iter().chain(state.notes.iter()).next() {
        let more = recorder.warnings.len() + state.notes.len() - 1;
        return Some(if more == 0 { warning.to_string() } else { format!("{warning} (and {more} more)") });
    }
    let seen = || state.overview.data.as_ref().is_some_and(|d| d.threads.iter().any(|r| r.sampled));
    let rate = match recorder.sampled_hz {
        Some(hz) => format!(" at {hz} Hz"),
        None if seen() => String::new(),
        None => return None,
    };
    Some(format!("sampled{rate}, not traced: wakers, preemptors and exact waits are not known"))
}

type Piece = (String, Tone);

/// Draws the header; the pen's height is that of [`height`].
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let lines = height(state) - u16::from(banner(state).is_some());
    for y in 0..lines {
        let style = pen.theme.style(Tone::Header);
        let width = pen.w();
        pen.fill(0, y, width, ' ', style);
    }
    let clock = clock(state);
    let place = place(state);
    if lines == 1 {
        let right = put_right(pen, 0, &clock);
        let mut groups = vec![place];
        groups.extend(recording(state));
        put_left(pen, 0, right, &groups);
    } else {
        let right = put_right(pen, 0, &clock);
        put_left(pen, 0, right, &[place]);
        let width = pen.w();
        put_left(pen, 1, width, &recording(state));
    }
    if let Some(text) = banner(state) {
        let width = pen.w();
        pen.say(1, lines, width.saturating_sub(1), &format!("! {text}"), Tone::Strong);
    }
}

/// Draws groups parted by a line; one that does not fit whole is left out.
fn put_left(pen: &mut Pen<'_>, y: u16, end: u16, groups: &[Vec<Piece>]) {
    let mut x = 1;
    for (i, group) in groups.iter().enumerate() {
        let wide: u16 = group.iter().map(|(t, _)| pen::width(t)).sum::<u16>() + if i > 0 { 3 } else { 0 };
        if x + wide > end && i > 0 {
            continue;
        }
        if i > 0 {
            x += say(pen, x, y, end.saturating_sub(x), " │ ", Tone::Rule);
        }
        for (text, tone) in group {
            x += say(pen, x, y, end.saturating_sub(x), text, *tone);
        }
    }
}

fn put_right(pen: &mut Pen<'_>, y: u16, pieces: &[Piece]) -> u16 {
    let wide: u16 = pieces.iter().map(|(t, _)| pen::width(t)).sum();
    let start = pen.w().saturating_sub(wide + 1);
    let mut x = start;
    for (text, tone) in pieces {
        x += say(pen, x, y, pen.w().saturating_sub(x), text, *tone);
    }
    start
}

/// A tone on the header's own ground.
fn say(pen: &mut Pen<'_>, x: u16, y: u16, room: u16, text: &str, tone: Tone) -> u16 {
    let style = pen.theme.style(Tone::Header).patch(pen.theme.style(tone));
    pen.text(x, y, room, text, style)
}

fn place(state: &State) -> Vec<Piece> {
    let r = &state.recorder;
    let mut out = vec![("dashcam".to_string(), Tone::Title)];
    for text in [&r.host, &r.kernel] {
        if !text.is_empty() {
            out.push((format!("  {text}"), Tone::Text));
        }
    }
    if !r.place.is_empty() && !r.recording {
        out.push((format!("  {}", r.place), Tone::Text));
    }
    out
}

/// Groups about the recording, the most needed first.
fn recording(state: &State) -> Vec<Vec<Piece>> {
    let r = &state.recorder;
    let mut out = Vec::new();
    let mut first = Vec::new();
    if r.recording {
        let word = if r.sampled_hz.is_some() { "● SAMPLE" } else { "● REC" };
        first.push((word.to_string(), Tone::Running));
        if let Some((at, length)) = r.segment {
            let (at, length) = (at / 1_000_000_000, length / 1_000_000_000);
            first.push((format!(" {:02}:{:02}/{length}", at / 60, at % 60), Tone::Text));
        }
        let unit = if r.sampled_hz.is_some() { "states/s" } else { "ev/s" };
        first.push((format!("  {:>6} {unit}", show::count(r.events_per_s.max(0.0) as u64)), Tone::Text));
    } else {
        first.push(("not recording".to_string(), if state.has_live { Tone::Loss } else { Tone::Dim }));
    }
    first.push(("  ".into(), Tone::Text));
    // Without a recorder's word the data on view speaks for itself.
    let seen = state.overview.data.as_ref().map(|d| (0, !d.losses.is_empty()));
    first.push(match r.lost.or(seen) {
        None => (String::new(), Tone::Text),
        Some((0, false)) => ("no loss".to_string(), Tone::Text),
        Some((0, true)) => ("loss, number unknown".to_string(), Tone::Loss),
        Some((n, unknown)) => {
            let more = if unknown { "≥ " } else { "" };
            (format!("{more}{} events lost", show::grouped(n)), Tone::Loss)
        }
    });
    out.push(first);
    if r.keeps > 0 {
        out.push(vec![(format!("keeps {}", show::span_words(r.keeps)), Tone::Text)]);
    }
    if let Some(own) = r.own_cpu {
        out.push(vec![(format!("self {}", show::percent(own)), Tone::Text)]);
    }
    if r.bytes.0 > 0 {
        let cap = if r.bytes.1 > 0 { format!(" of {}", show::bytes(r.bytes.1)) } else { String::new() };
        out.push(vec![(format!("{}{cap}", show::bytes(r.bytes.0)), Tone::Text)]);
    }
    if state.slow_link {
        out.push(vec![("slow link".into(), Tone::Dim)]);
    }
    out
}

/// Where on the time line, and the time: of the wall now when live, of the window's end else.
fn clock(state: &State) -> Vec<Piece> {
    let cursor = state.cursor();
    let word = match cursor.mode {
        Mode::Live => ("LIVE ".to_string(), Tone::Running),
        Mode::Paused { .. } => ("PAUSED at ".to_string(), Tone::Strong),
        Mode::Replay { .. } => ("PAST ".to_string(), Tone::Strong),
    };
    if state.clock.is_empty() {
        return vec![word, (state.clock_text(state.window().to, Digits::Seconds), Tone::Text)];
    }
    let real = state.clock.to_real(state.window().to);
    let zone = &state.zone;
    let mut text = format!("{} {}", time::clock(real, zone, Digits::Seconds), time::offset_short(real, zone));
    if state.size.0 >= 150 && time::offset_minutes(real, zone) != 0 {
        text.push_str(&format!(" · {} UTC", time::clock(real, &time::Zone::UTC, Digits::Seconds)));
    }
    if state.size.0 >= 130 && !cursor.is_live() {
        text = format!("{} {text}", time::day(real, zone));
    }
    vec![word, (text, Tone::Text)]
}
