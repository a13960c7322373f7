//! The thread screen: why it ran or waited, because of whom.

use super::columns;
use crate::sched::event::ThreadNow;
use crate::sched::summary::{Share, ThreadDetail, ThreadRow, Wait};
use crate::time::Digits;
use crate::tui::labels::Labels;
use crate::tui::pen::{Pen, first_fitting, width};
use crate::tui::state::{Screen, State};
use crate::tui::theme::{Theme, Tone};
use crate::tui::widgets::states::{self, KINDS, Kind};
use crate::tui::widgets::{header, histogram, lanes};
use crate::units::show;

/// Where everything is.
struct Plan {
    header: u16,
    /// Lines of the states over time.
    states: u16,
    /// Lines of the histogram and the lists beside it.
    middle: u16,
    /// Lines of blocked functions, rule included; 0 when there are none.
    blocked: u16,
    /// Lines of worst waits, rule excluded.
    waits: u16,
}

fn plan(state: &State) -> Plan {
    let (_, h) = state.size;
    let header = header::height(state).min(h);
    let states = match h {
        0..=19 => 1,
        20..=29 => 2,
        _ => 4,
    };
    // Rule, shares, switches; rule of the middle; rule of the waits; hints.
    let left = h.saturating_sub(header + states + 3 + 1 + 1 + 1);
    let functions = state.thread.data.as_ref().map_or(0, |d| d.blocked.len());
    let blocked = if functions > 0 && left >= 10 { u16::try_from(functions.min(3)).unwrap_or(0) + 1 } else { 0 };
    let left = left.saturating_sub(blocked);
    // As high as the longest of its lists wants, but no more than two fifths: the waits are what one came for.
    let wanted = state.thread.data.as_ref().map_or(3, |d| {
        let classes = histogram::classes(&d.histogram, usize::from(u16::MAX)).len();
        classes.max(d.ran_instead.len()).max(d.woken_by.len()).max(d.wakes.len())
    });
    let middle = (left * 2 / 5).max(left.min(3)).min(u16::try_from(wanted.max(3)).unwrap_or(u16::MAX));
    Plan { header, states, middle, blocked, waits: left.saturating_sub(middle) }
}

/// Rows of the list of waits.
pub fn wait_rows(state: &State) -> usize {
    if matches!(state.screen, Screen::Thread(_)) { usize::from(plan(state).waits) } else { 0 }
}

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let plan = plan(state);
    let (w, h) = (pen.w(), pen.h().saturating_sub(1));
    header::draw(state, &mut pen.part(0, 0, w, plan.header));
    let mut pen = pen.part(0, plan.header, w, h.saturating_sub(plan.header));
    let Some(data) = &state.thread.data else {
        let name = if let Screen::Thread(utid) = state.screen { state.labels.full(utid) } else { String::new() };
        pen.rule(0, &[&name]);
        pen.say(1, 1, w, "reading …", Tone::Dim);
        return;
    };
    draw_title(state, data, &mut pen);
    draw_states(state, data, plan.states, &mut pen);
    let y = plan.states + 3;
    draw_middle(state, data, &mut pen.part(0, y, w, plan.middle + 1));
    let y = y + plan.middle + 1;
    if plan.blocked > 0 {
        draw_blocked(state, data, &mut pen.part(0, y, w, plan.blocked));
    }
    draw_waits(state, data, &mut pen.part(0, y + plan.blocked, w, plan.waits + 1));
}

fn draw_title(state: &State, data: &ThreadDetail, pen: &mut Pen<'_>) {
    let row = &data.row;
    let name = format!("{} [{}]", columns::row_name(row, &state.labels), row.tid);
    let window = state.thread.window.unwrap_or_else(|| state.window());
    let span = format!(
        "{} → {}",
        state.clock_text(window.from, Digits::Seconds),
        state.clock_text(window.to, Digits::Seconds)
    );
    let prio = data.prio.map_or(String::new(), |p| format!("prio {p}"));
    let cpu = row.cpu.map_or(String::new(), |c| format!("CPU {c}"));
    let cgroup = state.labels.text(row.cgroup);
    let cgroup = if cgroup.is_empty() { String::new() } else { format!("cgroup {cgroup}") };
    pen.rule(0, &[&name, &span, &prio, &cpu, &cgroup]);
}

fn draw_states(state: &State, data: &ThreadDetail, rows: u16, pen: &mut Pen<'_>) {
    let row = &data.row;
    let w = pen.w();
    pen.say(1, 1, 9, "states", Tone::Dim);
    states::draw_over_time(&mut pen.part(10, 1, w.saturating_sub(11), rows), &row.bar);
    let window = state.thread.window.unwrap_or_else(|| state.window());
    let gaps = lanes::gap_cells(window, &data.gaps, row.bar.len());
    for (i, _) in gaps.iter().enumerate().filter(|(_, gap)| **gap) {
        let x = 10u16.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
        let style = pen.theme.style(Tone::Loss);
        (1..=rows).for_each(|y| pen.fill(x, y, u16::from(x + 1 < w), '╱', style));
    }
    let y = rows + 1;
    let room = w.saturating_sub(2);
    let [long, short, close, bare] = SHARES.map(|(words, between)| shares(row, pen.theme, words, between));
    let shares = [long, short, close].into_iter().find(|pieces| pieces_width(pieces) <= room).unwrap_or(bare);
    let pieces: Vec<(&str, Tone)> = shares.iter().map(|(text, tone)| (text.as_str(), *tone)).collect();
    pen.pieces(1, y, room, &pieces);
    pen.say(1, y + 1, room, first_fitting(room, &switches(row, window.len())), Tone::Text);
}

/// What states are called and how far apart they stand, in ever less room.
type Words = fn(Kind) -> &'static str;
const SHARES: [(Words, &str); 4] = [(Kind::words, "   "), (Kind::short, "   "), (Kind::short, "  "), (|_| "", "  ")];

/// `▇ running 41.2 %   ▒ ready (R) 3.1 %   …`, each state called what `words` says.
fn shares(row: &ThreadRow, theme: &Theme, words: Words, between: &str) -> Vec<(String, Tone)> {
    const ALWAYS: [Kind; 4] = [Kind::Running, Kind::Ready, Kind::PushedOff, Kind::Blocked];
    let mut pieces = Vec::new();
    for kind in KINDS {
        let part = kind.part(&row.times);
        if part == 0 && !ALWAYS.contains(&kind) {
            continue;
        }
        let share = columns::share(row, part);
        let text = share.map_or(show::UNKNOWN.to_string(), |s| format!("{:.1} %", s * 100.0));
        if !pieces.is_empty() {
            pieces.push((between.to_string(), Tone::Text));
        }
        pieces.push((kind.glyph(theme).to_string(), kind.tone()));
        let word = words(kind);
        pieces.push((if word.is_empty() { String::new() } else { format!(" {word}") }, Tone::Dim));
        pieces.push((format!(" {text}"), Tone::Text));
    }
    pieces
}

fn pieces_width(pieces: &[(String, Tone)]) -> u16 {
    pieces.iter().map(|(text, _)| width(text)).sum()
}

/// How often it left a CPU and how long it waited for one, in ever fewer words: what matters least goes first.
fn switches(row: &ThreadRow, window_ns: u64) -> Vec<String> {
    if row.sampled {
        return ["switches and waits are not known: the data was sampled", "switches, waits: not known"]
            .map(String::from)
            .into();
    }
    let seconds = window_ns as f64 / 1e9;
    let rate = |n: u64| columns::brief(n as f64 / seconds.max(1e-9));
    let (all, own, off) = (rate(row.voluntary + row.involuntary), rate(row.voluntary), rate(row.involuntary));
    let waits = format!("{} waits", show::grouped(row.latency.count));
    let migrations = format!("{} migrations", show::grouped(row.migrations));
    let [p50, p99, max] = [row.latency.p50, row.latency.p99, row.latency.max].map(show::span);
    let (long, short, shortest) = match row.latency.count {
        0 => (waits.clone(), waits.clone(), waits),
        _ => (
            format!("{waits}, p50 {p50}, p99 {p99}, longest {max}"),
            format!("{waits}, p99 {p99}, max {max}"),
            format!("p99 {p99}, max {max}"),
        ),
    };
    vec![
        format!("{all} switches/s: {own} of its own accord, {off} pushed off · {migrations} · {long}"),
        format!("{all} switches/s: {own} own, {off} pushed off · {migrations} · {long}"),
        format!("{all} switches/s: {own} own, {off} pushed off · {long}"),
        format!("{all} switches/s, {off} pushed off · {short}"),
        format!("{off} pushed off/s · {short}"),
        short,
        shortest,
    ]
}

/// Histogram, who ran instead, who woke it, whom it wakes: as many as fit beside one another.
fn draw_middle(state: &State, data: &ThreadDetail, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h());
    let lists: [(&str, &[Share]); 3] =
        [("ran instead", &data.ran_instead), ("woken by", &data.woken_by), ("wakes", &data.wakes)];
    let n = match w {
        110.. => 3,
        80.. => 2,
        50.. => 1,
        _ => 0,
    };
    let list_w = (w * 2 / 3).checked_div(n).unwrap_or(0).min(40);
    let histogram_w = w.saturating_sub(list_w * n);
    {
        let mut area = pen.part(0, 0, histogram_w, h);
        area.rule(0, &["run-queue latency"]);
        let mut inner = area.part(1, 1, histogram_w.saturating_sub(2), h.saturating_sub(1));
        if data.row.sampled {
            inner.say(1, 0, histogram_w.saturating_sub(3), "not known: the data was sampled", Tone::Dim);
        } else {
            histogram::draw(&mut inner, &data.histogram);
        }
    }
    for (i, (title, list)) in lists.iter().enumerate().take(usize::from(n)) {
        let x = histogram_w + list_w * u16::try_from(i).unwrap_or(0);
        draw_shares(&mut pen.part(x, 0, list_w, h), title, list, &state.labels);
    }
}

/// A list of threads and their shares.
pub fn draw_shares(pen: &mut Pen<'_>, title: &str, list: &[Share], labels: &Labels) {
    let w = pen.w();
    pen.rule(0, &[title]);
    for (i, share) in list.iter().enumerate().take(usize::from(pen.h().saturating_sub(1))) {
        let y = u16::try_from(i).unwrap_or(0) + 1;
        let name = match share.utid {
            None => "interrupt, timer".to_string(),
            Some(0) => "idle".to_string(),
            Some(utid) => labels.with_tid_in(utid, w.saturating_sub(9)),
        };
        let style = match share.utid {
            None | Some(0) => pen.theme.style(Tone::Dim),
            Some(utid) => pen.theme.process(labels.process_of(utid)),
        };
        pen.text(1, y, w.saturating_sub(9), &name, style);
        let style = pen.theme.style(Tone::Text);
        pen.right(w.saturating_sub(1), y, 6, &show::percent_whole(share.share), style);
    }
    if list.is_empty() {
        pen.say(1, 1, w.saturating_sub(1), "nobody, or not known", Tone::Dim);
    }
}

fn draw_blocked(state: &State, data: &ThreadDetail, pen: &mut Pen<'_>) {
    let w = pen.w();
    pen.rule(0, &["blocked in (D)"]);
    for (i, (name, total, count, longest)) in data.blocked.iter().enumerate().take(usize::from(pen.h() - 1)) {
        let y = u16::try_from(i).unwrap_or(0) + 1;
        let function = state.labels.text(*name);
        let function = if function.is_empty() { "function not recorded" } else { function };
        let times = format!("{} times", show::grouped(*count));
        let text = format!("{:>6} in all, longest {:>6}, {times:>12}  ", show::span(*total), show::span(*longest));
        let x = 1 + pen.say(1, y, w, &text, Tone::Text);
        pen.say(x, y, w.saturating_sub(x), function, Tone::Blocked);
    }
}

fn draw_waits(state: &State, data: &ThreadDetail, pen: &mut Pen<'_>) {
    let w = pen.w();
    pen.rule(0, &["worst waits", "⏎ on the time line"]);
    let rows = usize::from(pen.h().saturating_sub(1));
    for (i, wait) in data.worst.iter().enumerate().skip(state.thread.top).take(rows) {
        let y = 1 + u16::try_from(i - state.thread.top).unwrap_or(0);
        let kind = Kind::of(wait.state);
        let at = state.clock_text(wait.start, Digits::Micros);
        let length = wait.dur.map_or("not over".to_string(), show::span_exact);
        let length = format!(" {length:>11} ");
        let room = w.saturating_sub(1 + width(&at) + width(&length) + 2);
        // As many of those who ran meanwhile as can be told whole.
        let told = [(3, Rest::Number), (2, Rest::Number), (1, Rest::Number), (1, Rest::Mark), (0, Rest::Mark)];
        let causes = told.map(|(told, rest)| cause_with(wait, &state.labels, told, rest));
        let glyph = kind.glyph(pen.theme).to_string();
        pen.pieces(
            1,
            y,
            w.saturating_sub(1),
            &[
                (&at, Tone::Dim),
                (&length, Tone::Text),
                (&glyph, kind.tone()),
                (" ", Tone::Text),
                (first_fitting(room, &causes), Tone::Text),
            ],
        );
        if i == state.thread.row {
            pen.tint(0, y, w, Tone::Selected);
        }
    }
    if data.worst.is_empty() {
        let text = if data.row.sampled {
            "not known: the data was sampled, not traced"
        } else {
            "it did not wait in this window"
        };
        pen.say(1, 1, w, text, Tone::Dim);
    }
}

/// Why a wait was, in words.
pub fn cause(wait: &Wait, labels: &Labels) -> String {
    cause_with(wait, labels, 3, Rest::Number)
}

/// How those who ran meanwhile and are not told are spoken of.
#[derive(Clone, Copy)]
enum Rest {
    /// ` and 2 more`
    Number,
    /// `, …`
    Mark,
}

/// The same with `told` of those who ran meanwhile.
fn cause_with(wait: &Wait, labels: &Labels, told: usize, rest: Rest) -> String {
    let mut text = match (wait.state, wait.preemptor) {
        (ThreadNow::Preempted, Some(by)) => format!("pushed off by {}", labels.with_tid(by)),
        (ThreadNow::Preempted, None) => "pushed off".to_string(),
        (ThreadNow::Runnable, _) => match wait.waker {
            Some(waker) => format!("ready, woken by {}", labels.waker(waker)),
            None => "ready".to_string(),
        },
        (ThreadNow::Blocked(_), _) => {
            let function = labels.text(wait.function);
            let kind = Kind::of(wait.state).words();
            let place = if function.is_empty() { String::new() } else { format!(" in {function}") };
            let end = wait.waker.map_or(String::new(), |w| format!(", woken by {}", labels.waker(w)));
            format!("{kind}{place}{end}")
        }
        (other, _) => Kind::of(other).words().to_string(),
    };
    if let Some(cpu) = wait.cpu {
        text.push_str(&format!(" on CPU {cpu}"));
    }
    let ran: Vec<String> = wait
        .meanwhile
        .iter()
        .take(told)
        .map(|(utid, ns)| format!("{} {}", labels.thread(*utid), show::span(*ns)))
        .collect();
    if !ran.is_empty() {
        let more = wait.meanwhile.len().saturating_sub(told);
        let more = match (more, rest) {
            (0, _) => String::new(),
            (more, Rest::Number) => format!(" and {more} more"),
            (_, Rest::Mark) => ", …".to_string(),
        };
        text.push_str(&format!("; meanwhile {}{more}", ran.join(", ")));
    }
    text
}
