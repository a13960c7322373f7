//! What is selected on the time line: exact numbers, who was to blame, the wait chain, the raw events.

use super::thread::cause;
use crate::sched::event::ThreadNow;
use crate::sched::summary::{Link, Share, TrackId};
use crate::time::Digits;
use crate::tui::actions::Action;
use crate::tui::answers::Slice;
use crate::tui::pen::{self, Pen};
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::states::Kind;
use crate::units::show;

/// Lines that everything but the stack needs, with the rule: why, woken by, around, keys, and one to part them from the hints.
const LINES: u16 = 6;
/// Lines a stack may take.
const STACK: usize = 5;

/// Lines wanted at a width.
pub fn lines_wanted(state: &State, width: u16) -> u16 {
    let stack = state.timeline.slice.as_ref().map_or(0, |s| wrapped(&s.stack, width).len());
    LINES + u16::try_from(stack).unwrap_or(0)
}

/// The functions of a stack in lines, innermost first: `stack  a ← b ← c`.
fn wrapped(stack: &[Box<str>], width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // Room for the sign that more follows.
    let room = width.saturating_sub(3);
    let mut line = String::new();
    for (i, function) in stack.iter().enumerate() {
        let piece = if i == 0 { format!("stack  {function}") } else { format!(" ← {function}") };
        if !line.is_empty() && pen::width(&line) + pen::width(&piece) > room {
            if lines.len() + 1 == STACK {
                line.push_str(" …");
                break;
            }
            lines.push(std::mem::replace(&mut line, "      ".into()));
        }
        line.push_str(&piece);
    }
    lines.extend((!line.is_empty()).then_some(line));
    lines
}

/// Draws rule and lines over the whole pen.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let w = pen.w();
    if pen.h() == 0 {
        return;
    }
    let Some(slice) = &state.timeline.slice else {
        let text = format!(
            "nothing selected: {} {} or a click selects, {} searches",
            state.hint(Action::NextSlice),
            state.hint(Action::PreviousSlice),
            state.hint(Action::Search)
        );
        pen.rule(0, &["selection"]);
        pen.say(1, 1, w, &text, Tone::Dim);
        return;
    };
    draw_rule(state, slice, pen);
    let mut y = 1;
    for (text, tone) in lines(state, slice) {
        pen.say(1, y, w.saturating_sub(1), &text, tone);
        y += 1;
    }
    if state.timeline.show_chain {
        draw_chain(state, pen, y);
    } else if state.timeline.show_events {
        draw_events(state, pen, y);
    }
}

fn draw_rule(state: &State, slice: &Slice, pen: &mut Pen<'_>) {
    let span = &slice.detail.span;
    let what = match slice.track {
        TrackId::Cpu(cpu) => format!("CPU {cpu} ran {}", state.labels.with_tid(span.utid)),
        _ => format!("{} {}", state.labels.with_tid(span.utid), Kind::of(span.state).words()),
    };
    let end = match span.end {
        Some(end) if slice.detail.end_known => state.clock_text(end, Digits::Micros),
        Some(end) => format!("{} (cut by loss or gap)", state.clock_text(end, Digits::Micros)),
        None => "goes on".to_string(),
    };
    let times = format!("{} → {end}", state.clock_text(span.start, Digits::Micros));
    let length = span.end.map_or(String::new(), |end| show::span_exact(end.saturating_sub(span.start)));
    let cpu = slice.detail.cpu.map_or(String::new(), |c| format!("CPU {c}"));
    let prio = slice.detail.prio.map_or(String::new(), |p| format!("prio {p}"));
    // Where not all has room, how long it took says more than when.
    pen.rule(0, &[&what, &length, &times, &cpu, &prio]);
}

/// The lines every selection has.
fn lines(state: &State, slice: &Slice) -> Vec<(String, Tone)> {
    let labels = &state.labels;
    let detail = &slice.detail;
    let mut out = Vec::new();
    match (&detail.wait, detail.span.state) {
        (Some(wait), now) => out.push((cause(wait, labels), Kind::of(now).tone())),
        (None, ThreadNow::Running) if detail.span.utid != 0 => out.push((ran(state, slice), Tone::Text)),
        (None, now) => out.push((Kind::of(now).words().to_string(), Kind::of(now).tone())),
    }
    out.extend(wrapped(&slice.stack, state.size.0).into_iter().map(|line| (line, Tone::Blocked)));
    if let Some(waker) = detail.waker {
        let then = detail.waker_state.map_or(String::new(), |s| format!(", which was {} then", Kind::of(s).words()));
        let after =
            detail.latency.map_or(String::new(), |ns| format!("; it got the CPU {} later", show::span_exact(ns)));
        out.push((format!("woken by {}{then}{after}", labels.waker(waker)), Tone::Text));
    } else if let Some(ns) = detail.latency {
        out.push((format!("it had waited {} for the CPU", show::span_exact(ns)), Tone::Text));
    }
    let mut around = Vec::new();
    if let Some(before) = detail.before {
        around.push(format!("before it {}", labels.with_tid(before)));
    }
    if let Some(next) = detail.next {
        around.push(format!("after it {}", labels.with_tid(next)));
    }
    let cgroup = labels.text(slice.cgroup);
    if !cgroup.is_empty() {
        around.push(format!("cgroup {cgroup}"));
    }
    if detail.io_wait == Some(true) {
        around.push("counted as waiting for I/O".into());
    }
    if !around.is_empty() {
        out.push((around.join(" · "), Tone::Dim));
    }
    let keys = [
        (Action::GoPreemptor, "preemptor"),
        (Action::GoWaker, "waker"),
        (Action::PreviousSlice, "before"),
        (Action::NextSlice, "next"),
        (Action::Chain, "chain"),
        (Action::RawEvents, "events"),
        (Action::WorstWait, "worst wait"),
    ];
    let keys: Vec<String> = keys.iter().map(|(a, word)| format!("{} {word}", state.hint(*a))).collect();
    out.push((keys.join("   "), Tone::Dim));
    out
}

fn ran(state: &State, slice: &Slice) -> String {
    let detail = &slice.detail;
    match detail.span.end_state {
        None if detail.span.end.is_none() => "still running".to_string(),
        None => "how it left the CPU is not known".to_string(),
        Some(left) => {
            let words = crate::sched::state::TaskState::RUNNABLE == left
                || left.contains(crate::sched::state::TaskState::PREEMPTED);
            let next = detail.next.map_or(String::new(), |n| format!(", {} came", state.labels.with_tid(n)));
            let how = if left.contains(crate::sched::state::TaskState::PREEMPTED) {
                "pushed off"
            } else if words {
                "left the CPU while ready"
            } else {
                "left the CPU by itself"
            };
            format!("{how} ({}){next}", left.letters())
        }
    }
}

fn draw_chain(state: &State, pen: &mut Pen<'_>, mut y: u16) {
    let w = pen.w();
    if state.chain.open.is_some() && state.timeline.chain.is_empty() {
        pen.say(1, y, w, "following the chain …", Tone::Dim);
        return;
    }
    if state.timeline.chain.is_empty() {
        pen.say(1, y, w, "chain: it did not wait here, so there is nothing to follow", Tone::Dim);
        return;
    }
    pen.say(1, y, w, "chain: who released it, and what they were waiting for", Tone::Title);
    y += 1;
    for link in &state.timeline.chain {
        let kind = Kind::of(link.state);
        let indent = "  ".repeat(usize::from(link.depth.min(20)));
        let share = format!("{:>5} ", show::percent_whole(link.share));
        let glyph = format!("{} ", kind.glyph(pen.theme));
        let text = link_text(state, link);
        pen.pieces(1, y, w, &[(&share, Tone::Text), (&indent, Tone::Text), (&glyph, kind.tone()), (&text, Tone::Text)]);
        y += 1;
    }
    if let Some(on) = &state.timeline.waited_on {
        let who = |list: &[Share]| {
            let names = list.iter().take(3).map(|s| {
                let name = s.utid.map_or("interrupt".to_string(), |u| state.labels.thread(u));
                format!("{name} {}", show::percent_whole(s.share))
            });
            names.collect::<Vec<_>>().join(", ")
        };
        let mut parts = vec![format!("over the window it waited {}", show::span(on.total))];
        for (word, list) in [
            ("released by", &on.wakers),
            ("pushed off by", &on.preemptors),
            ("instead ran", &on.ran_instead),
            ("at the root", &on.roots),
        ] {
            if !list.is_empty() {
                parts.push(format!("{word} {}", who(list)));
            }
        }
        if let Some((name, ns, count, _)) = on.functions.first() {
            parts.push(format!(
                "in D in {} {} ({} times)",
                state.labels.text(*name),
                show::span(*ns),
                show::grouped(*count)
            ));
        }
        pen.say(1, y, w.saturating_sub(1), &parts.join(" · "), Tone::Dim);
    }
}

fn link_text(state: &State, link: &Link) -> String {
    let labels = &state.labels;
    let length = show::span(link.window.len());
    let Some(utid) = link.utid else {
        return format!("an interrupt, a timer or I/O ({length})");
    };
    let name = labels.with_tid(utid);
    let function = labels.text(link.function);
    let mut text = format!("{name} {} for {length}", Kind::of(link.state).words());
    if !function.is_empty() {
        text.push_str(&format!(" in {function}"));
    }
    if let Some(by) = link.preemptor {
        text.push_str(&format!(", pushed off by {}", labels.with_tid(by)));
    }
    text
}

fn draw_events(state: &State, pen: &mut Pen<'_>, mut y: u16) {
    let w = pen.w();
    pen.say(1, y, w, "raw events around it", Tone::Title);
    y += 1;
    if state.timeline.events.is_empty() {
        let text = if state.events.open.is_some() { "reading …" } else { "none are recorded there" };
        pen.say(1, y, w, text, Tone::Dim);
    }
    for (at, cpu, text) in &state.timeline.events {
        let at = state.clock_text(*at, Digits::Micros);
        pen.pieces(1, y, w, &[(&at, Tone::Dim), (&format!("  [{cpu:03}]  "), Tone::Dim), (text, Tone::Text)]);
        y += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_wrapped_between_functions() {
        let stack: Vec<Box<str>> = ["schedule", "io_schedule", "folio_wait_bit"].map(Into::into).to_vec();
        assert_eq!(wrapped(&stack, 80), ["stack  schedule ← io_schedule ← folio_wait_bit"]);
        assert_eq!(wrapped(&stack, 36), ["stack  schedule ← io_schedule", "       ← folio_wait_bit"]);
        let long: Vec<Box<str>> = (0..40).map(|i| format!("function_{i:02}").into()).collect();
        let lines = wrapped(&long, 40);
        assert_eq!(lines.len(), STACK);
        assert!(lines[STACK - 1].ends_with(" …"), "{lines:?}");
        assert!(lines.iter().all(|l| pen::width(l) <= 40), "{lines:?}");
        assert!(wrapped(&[], 40).is_empty());
        assert_eq!(wrapped(&long[..2], 0).len(), 2, "no width at all");
    }
}
