//! What types cannot say: bounds, and values that must agree with one another.

use super::schema::{Config, Limit, Trigger, wrong_word};
use crate::kernel::events;
use crate::kernel::instance::NAME_PREFIX;
use crate::recorder::snapshots::label_fits;
use crate::units::{Bytes, Share, Span};

/// Every mistake: the dotted keys it is about, the first of which it is told of, and what is wrong with what is allowed.
pub(super) fn check(c: &Config) -> Vec<(Vec<String>, String)> {
    let mut out = Found(Vec::new());
    store(c, &mut out);
    capture(c, &mut out);
    let s = &c.store;
    snapshot_length("snapshot.last", c.snapshot.last, s.keep_time, &mut out);
    out.interval("counters.interval", c.counters.interval);
    out.spans("live.window", c.live.window, Span::secs(1), Span::secs(3600));
    out.numbers("live.refresh_hz", c.live.refresh_hz, 1, 30);
    let f = &c.live.findings;
    out.numbers("live.findings.pushed_off_per_s", f.pushed_off_per_s, 1, 1_000_000);
    for (key, share) in [("starving", f.starving), ("monopolised", f.monopolised)] {
        if share <= Share(0.0) {
            out.add(&format!("live.findings.{key}"), "0 % would report everything: more than 0 %".into());
        }
    }
    for (name, patterns) in &c.live.roles {
        if patterns.0.is_empty() || patterns.0.iter().any(String::is_empty) {
            out.add(&format!("live.roles.{name}"), "a role needs at least one pattern that is not empty".into());
        }
    }
    for (i, trigger) in c.triggers.iter().enumerate() {
        check_trigger(trigger, &format!("triggers.{i}"), s.keep_time, &mut out);
    }
    out.0
}

fn store(c: &Config, out: &mut Found) {
    let s = &c.store;
    out.spans("store.segment", s.segment, Span::secs(1), Span::secs(3600));
    if s.keep_time < s.segment {
        out.add("store.keep_time", format!("{} is shorter than one segment ({})", s.keep_time, s.segment));
    }
    if s.keep_bytes < Bytes::mib(16) {
        out.add("store.keep_bytes", format!("{} is too little: at least 16 MiB", s.keep_bytes));
    }
    if s.keep_free > Share(0.9) {
        out.add("store.keep_free", format!("{} is too much: at most 90 %", s.keep_free));
    }
    out.interval("store.sync_interval", s.sync_interval);
    out.numbers("store.compression_level", s.compression_level, 1, 19);
}

fn capture(c: &Config, out: &mut Found) {
    let k = &c.capture;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let name = &k.instance;
    if !name.starts_with(NAME_PREFIX) || name.len() > 64 || !name.bytes().all(plain) {
        let what =
            "begins with \"dashcam\" (a left-over of that name is removed), then letters, digits, - or _; 64 at most";
        out.add("capture.instance", format!("an instance's name {what}"));
    }
    if k.events.is_empty() {
        out.add("capture.events", "it is empty: nothing would be recorded".into());
    }
    for (i, event) in k.events.iter().enumerate() {
        if events::expand(std::slice::from_ref(event)).is_err() {
            let categories: Vec<&str> = events::CATEGORIES.iter().map(|(name, _)| *name).collect();
            let what = wrong_word(event, "category of events or \"group/name\"", &categories);
            out.add(&format!("capture.events.{i}"), what);
        }
    }
    if k.buffer_total < Bytes::mib(1) || k.buffer_total > Bytes(1 << 40) {
        out.add("capture.buffer_total", format!("{} is out of bounds: 1 MiB to 1 TiB", k.buffer_total));
    }
    if k.buffer_ram_share <= Share(0.0) || k.buffer_ram_share > Share(0.5) {
        out.add(
            "capture.buffer_ram_share",
            format!("{} is out of bounds: more than 0 %, at most 50 %", k.buffer_ram_share),
        );
    }
}

/// A snapshot can hold at most what is kept; whichever of the two the file sets is told.
fn snapshot_length(key: &str, last: Span, keep: Span, out: &mut Found) {
    if last < Span::secs(1) {
        out.add(key, format!("{last} is too short: at least 1s"));
    } else if last > keep {
        let what = format!("{last} is longer than what is kept (store.keep_time is {keep})");
        out.0.push((vec![key.into(), "store.keep_time".into()], what));
    }
}

fn check_trigger(t: &Trigger, path: &str, keep: Span, out: &mut Found) {
    let above = format!("{path}.above");
    match (t.value.as_str(), t.above) {
        ("", _) => out.add(&format!("{path}.value"), "it is empty: name what is watched".into()),
        ("run_queue_latency" | "blocked", Limit::Span(_)) => {}
        ("run_queue_latency" | "blocked", _) => {
            out.add(&above, format!("{} is a time: write a duration, as in \"50 ms\"", t.value));
        }
        ("ready", Limit::Number(_)) => {}
        ("ready", _) => out.add(&above, "ready is a number of threads: write it without a unit".into()),
        (_, Limit::Span(_)) => {
            out.add(&above, format!("the counter {} is no time: write a number or a share", t.value));
        }
        _ => {}
    }
    if let Limit::Number(n) = t.above
        && !n.is_finite()
    {
        out.add(&above, "it is not a finite number".into());
    }
    if let Some(label) = &t.label
        && let Err(fault) = label_fits(label)
    {
        out.add(&format!("{path}.label"), format!("it {fault}"));
    }
    if let Some(last) = t.last {
        snapshot_length(&format!("{path}.last"), last, keep, out);
    }
    if t.cooldown < Span::secs(1) {
        out.add(&format!("{path}.cooldown"), format!("{} is too short: at least 1s", t.cooldown));
    }
}

struct Found(Vec<(Vec<String>, String)>);

impl Found {
    fn add(&mut self, key: &str, what: String) {
        self.0.push((vec![key.into()], what));
    }

    fn spans(&mut self, key: &str, v: Span, least: Span, most: Span) {
        if v < least || v > most {
            self.add(key, format!("{v} is out of bounds: {least} to {most}"));
        }
    }

    fn numbers(&mut self, key: &str, v: i64, least: i64, most: i64) {
        if v < least || v > most {
            self.add(key, format!("{v} is out of bounds: {least} to {most}"));
        }
    }

    /// A period that may be zero (never) but not absurdly short.
    fn interval(&mut self, key: &str, v: Span) {
        if v != Span::default() && v < Span::millis(100) {
            self.add(key, format!("{v} is too short: at least 100ms, or \"0\" for never"));
        }
    }
}
