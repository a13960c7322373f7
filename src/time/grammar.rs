//! What people type for a point in time, relative to a given *now*, day on view and zone.
//!
//! `now` · `-5m` (before now) · `14:32` · `14:32:05.250` · `2026-11-30` (its midnight) · `2026-11-30 14:32` · RFC 3339 ·
//! any of those with a time, followed by `Z` or an offset · a segment name's `20261130T115500Z`.
//! A local time that a zone change skips is an error; one that occurs twice yields both instants.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, Offset};

use super::{Digits, Zone, local, parse_utc_name, real_of, timestamp};
use crate::units::Span;

/// What a text is read against.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Now, ns since 1970 UTC.
    pub now: u64,
    /// Any instant (ns since 1970) of the day on view: a bare `14:32` is on that day. `None`: the latest `14:32` that is not
    /// after now, since a recorder holds the past.
    pub on_view: Option<u64>,
    /// Zone of times without an offset.
    pub zone: Zone,
}

/// The instants a text may mean, ns since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Just one.
    One(u64),
    /// A local time that occurs twice, since clocks were set back: the earlier and the later.
    Twice(u64, u64),
}

impl Point {
    /// All of them, ascending.
    pub fn all(self) -> Vec<u64> {
        match self {
            Point::One(t) => vec![t],
            Point::Twice(a, b) => vec![a, b],
        }
    }

    /// Those of its instants for which `f` holds.
    fn only(self, f: impl Fn(u64) -> bool) -> Option<Point> {
        match self {
            Point::One(t) => f(t).then_some(self),
            Point::Twice(a, b) => match (f(a), f(b)) {
                (true, true) => Some(self),
                (true, false) => Some(Point::One(a)),
                (false, true) => Some(Point::One(b)),
                (false, false) => None,
            },
        }
    }
}

/// Why a text is not a point in time or a range. Messages say what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not in the grammar.
    #[error(
        "\"{text}\" is not a point in time: {why}; write now, -5m, 14:32, 14:32:05.250, 2026-11-30 14:32 or RFC 3339"
    )]
    Syntax {
        /// What was given, printable.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Clocks were set forward over it.
    #[error(
        "{time} does not exist in {zone}: clocks were set forward from {last} to {first}; name a time outside that, or add an offset"
    )]
    Skipped {
        /// The local time given.
        time: String,
        /// Its zone.
        zone: String,
        /// Local time at which clocks were changed.
        last: String,
        /// Local time they were set to.
        first: String,
    },
    /// It occurs twice and one is needed.
    #[error("{time} occurs twice in {zone}; write \"{earlier}\" or \"{later}\"")]
    Ambiguous {
        /// The text given.
        time: String,
        /// The zone.
        zone: String,
        /// The earlier instant with its offset.
        earlier: String,
        /// The later one.
        later: String,
    },
    /// `from` is not before `to`.
    #[error("the range is empty: it would go from {from} to {to}; swap --from and --to")]
    Empty {
        /// Beginning.
        from: String,
        /// End.
        to: String,
    },
    /// The clock time of `to` comes before that of `from`, and over midnight it would be a range that hardly anybody means.
    #[error(
        "--to {text} is before --from, and over midnight the range would go from {from} to {to}: swap the two, or write --to with its date"
    )]
    Backwards {
        /// The end as given, printable.
        text: String,
        /// Beginning.
        from: String,
        /// End, on the next day.
        to: String,
    },
    /// A length of nothing.
    #[error("--last must be longer than nothing: write a length such as 5m")]
    NoLength,
    /// `--from`, `--to` and `--last` at once.
    #[error("--from, --to and --last together say too much: leave one out")]
    TooMany,
}

/// Reads a point in time.
///
/// # Errors
/// [`TimeError::Syntax`] for a text outside the grammar or a time before 1970, [`TimeError::Skipped`] for a local time that does not exist.
pub fn point(text: &str, at: &Reference) -> Result<Point, TimeError> {
    let trimmed = text.trim();
    let syntax = |why: String| TimeError::Syntax { text: quoted(text), why };
    if trimmed.eq_ignore_ascii_case("now") {
        return Ok(Point::One(at.now));
    }
    if let Some(back) = trimmed.strip_prefix('-') {
        let span: Span = back.parse().map_err(|e: crate::units::UnitError| syntax(e.to_string()))?;
        return Ok(Point::One(at.now.saturating_sub(span.nanos())));
    }
    if let Some(real) = parse_utc_name(trimmed) {
        return Ok(Point::One(real));
    }
    let civil = Civil::parse(trimmed).map_err(|why| syntax(why.into()))?;
    civil.resolve(at).and_then(|p| p.ok_or_else(|| syntax("it lies before 1970 or after 2554".into())))
}

/// Reads a point in time that must be one instant.
fn single(text: &str, at: &Reference) -> Result<u64, TimeError> {
    one_of(point(text, at)?, text, at)
}

fn one_of(p: Point, text: &str, at: &Reference) -> Result<u64, TimeError> {
    match p {
        Point::One(t) => Ok(t),
        Point::Twice(a, b) => Err(TimeError::Ambiguous {
            time: quoted(text.trim()),
            zone: zone_name(&at.zone),
            earlier: local(a, &at.zone, Digits::Seconds),
            later: local(b, &at.zone, Digits::Seconds),
        }),
    }
}

/// A stretch of wall time `[from, to)`, ns since 1970; an open side is `None` (from the oldest data, to the newest).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RealRange {
    /// First instant.
    pub from: Option<u64>,
    /// First instant after it.
    pub to: Option<u64>,
}

/// Reads `--from`, `--to` and `--last`, of which at most two may be given: `--last` alone ends now, with `--from` it is the
/// length from there, with `--to` the length before it. A bare clock time for `--to` is the first one after `--from`; over
/// midnight it is taken only where the range is no longer than 12 hours and does not end on a day after that of `now`.
///
/// # Errors
/// As [`point`]; and when a side occurs twice, when the range would be empty, and when all three are given.
pub fn range(from: Option<&str>, to: Option<&str>, last: Option<Span>, at: &Reference) -> Result<RealRange, TimeError> {
    if from.is_some() && to.is_some() && last.is_some() {
        return Err(TimeError::TooMany);
    }
    if last.is_some_and(|last| last.nanos() == 0) {
        return Err(TimeError::NoLength);
    }
    let start = from.map(|text| single(text, at)).transpose()?;
    let end = match (to, start) {
        (Some(text), Some(start)) => Some(end_after(text, start, at)?),
        (Some(text), None) => Some(single(text, at)?),
        (None, _) => None,
    };
    let (start, end) = match (start, end, last.map(Span::nanos)) {
        (None, None, Some(len)) => (Some(at.now.saturating_sub(len)), Some(at.now)),
        (Some(s), None, Some(len)) => (Some(s), Some(s.saturating_add(len))),
        (None, Some(e), Some(len)) => (Some(e.saturating_sub(len)), Some(e)),
        (s, e, _) => (s, e),
    };
    if let (Some(s), Some(e)) = (start, end)
        && s >= e
    {
        let show = |t| local(t, &at.zone, Digits::Millis);
        return Err(TimeError::Empty { from: show(s), to: show(e) });
    }
    Ok(RealRange { from: start, to: end })
}

/// The end of a range whose start is known: a bare clock time counts from that start on, over midnight if need be.
fn end_after(text: &str, start: u64, at: &Reference) -> Result<u64, TimeError> {
    let bare = Civil::parse(text.trim()).is_ok_and(|c| c.date.is_none());
    if !bare {
        return single(text, at);
    }
    for days in [0, 1] {
        let on_view = start.saturating_add(days * DAY_NS);
        let day = Reference { on_view: Some(on_view), ..at.clone() };
        let Some(found) = point(text, &day)?.only(|t| t > start) else { continue };
        let end = one_of(found, text, at)?;
        let date = |real| at.zone.to_datetime(timestamp(real)).date();
        if days > 0 && (end - start > LONGEST_NIGHT_NS || date(end) > date(at.now)) {
            let show = |t| local(t, &at.zone, Digits::Seconds);
            return Err(TimeError::Backwards { text: quoted(text.trim()), from: show(start), to: show(end) });
        }
        return Ok(end);
    }
    single(text, &Reference { on_view: Some(start), ..at.clone() })
}

/// Longest range that a bare clock time makes over midnight: who gives a later begin than end has likelier mixed them up.
const LONGEST_NIGHT_NS: u64 = DAY_NS / 2;
const DAY_NS: u64 = 86_400_000_000_000;

/// A day, a time or both, perhaps with an offset, not yet resolved.
struct Civil {
    date: Option<Date>,
    time: Time,
    offset: Option<Offset>,
}

impl Civil {
    fn parse(text: &str) -> Result<Civil, &'static str> {
        let (date, rest) = match split_date(text)? {
            Some((date, rest)) => (Some(date), rest),
            None => (None, text),
        };
        if rest.is_empty() {
            let date = date.ok_or("it is empty")?;
            return Ok(Civil { date: Some(date), time: Time::midnight(), offset: None });
        }
        let time_end = rest.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(rest.len());
        let (time, zone) = rest.split_at(time_end);
        Ok(Civil { date, time: parse_time(time)?, offset: parse_offset(zone.trim())? })
    }

    fn resolve(&self, at: &Reference) -> Result<Option<Point>, TimeError> {
        if let Some(date) = self.date {
            return self.on(date, &at.zone);
        }
        // The day on view is that of the offset in which the time is given.
        let zone = self.offset.map_or_else(|| at.zone.clone(), |o| o.to_time_zone());
        let today = zone.to_datetime(timestamp(at.on_view.unwrap_or(at.now))).date();
        if at.on_view.is_some() {
            return self.on(today, &at.zone);
        }
        let past = |p: Option<Point>| p.and_then(|p| p.only(|t| t <= at.now));
        match self.on(today, &at.zone) {
            Ok(p) => match (past(p), today.yesterday()) {
                (Some(p), _) => Ok(Some(p)),
                (None, Ok(yesterday)) => self.on(yesterday, &at.zone),
                (None, Err(_)) => Ok(None),
            },
            Err(skipped) => Err(skipped),
        }
    }

    fn on(&self, date: Date, zone: &Zone) -> Result<Option<Point>, TimeError> {
        let civil = date.to_datetime(self.time);
        let instant = |offset: Offset| offset.to_timestamp(civil).ok().and_then(real_of);
        if let Some(offset) = self.offset {
            return Ok(instant(offset).map(Point::One));
        }
        match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => Ok(instant(offset).map(Point::One)),
            AmbiguousOffset::Fold { before, after } => {
                Ok(instant(before).zip(instant(after)).map(|(a, b)| Point::Twice(a.min(b), a.max(b))))
            }
            AmbiguousOffset::Gap { before, after } => Err(skipped(civil, zone, before, after)),
        }
    }
}

/// The error for a local time inside a gap; with the old offset it would fall after the change, with the new one before.
fn skipped(civil: DateTime, zone: &Zone, before: Offset, after: Offset) -> TimeError {
    let change = after.to_timestamp(civil).ok().and_then(|t| zone.following(t).next().map(|t| t.timestamp()));
    let show = |offset: Offset| {
        change.map_or_else(
            || "?".into(),
            |t| {
                let t = offset.to_datetime(t);
                format!("{:02}:{:02}", t.hour(), t.minute())
            },
        )
    };
    let time = civil.strftime("%Y-%m-%d %H:%M:%S").to_string();
    TimeError::Skipped { time, zone: zone_name(zone), last: show(before), first: show(after) }
}

/// `2026-11-30`, then `T` or spaces, then the rest; `None` if the text does not begin with a date.
fn split_date(text: &str) -> Result<Option<(Date, &str)>, &'static str> {
    let b = text.as_bytes();
    if b.len() < 10 || b[4] != b'-' || b[7] != b'-' || !text.is_char_boundary(10) {
        return Ok(None);
    }
    let (date, rest) = text.split_at(10);
    let mut parts = date.split('-').map(digits);
    let (Some(Some(y)), Some(Some(m)), Some(Some(d))) = (parts.next(), parts.next(), parts.next()) else {
        return Err("its date is not YYYY-MM-DD");
    };
    let date = i16::try_from(y).ok().zip(i8::try_from(m).ok()).zip(i8::try_from(d).ok());
    let date = date.and_then(|((y, m), d)| Date::new(y, m, d).ok()).ok_or("there is no such day in the calendar")?;
    match rest.chars().next() {
        None => Ok(Some((date, ""))),
        Some('T' | 't') => Ok(Some((date, &rest[1..]))),
        Some(c) if c.is_whitespace() => Ok(Some((date, rest.trim_start()))),
        Some(_) => Err("a space or T must follow the date"),
    }
}

/// `14:32`, `14:32:05`, `14:32:05.250`.
fn parse_time(text: &str) -> Result<Time, &'static str> {
    const SHAPE: &str = "its time is not HH:MM, HH:MM:SS or HH:MM:SS.fff";
    let mut parts = text.split(':');
    let (Some(h), Some(m), s, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(SHAPE);
    };
    let (s, fraction) = s.map_or(("0", None), |s| s.split_once('.').map_or((s, None), |(s, f)| (s, Some(f))));
    let two = |t: &str| if t.len() <= 2 { digits(t).and_then(|n| i8::try_from(n).ok()) } else { None };
    let nanos = match fraction {
        None => 0,
        Some(f) if (1..=9).contains(&f.len()) => digits(f).ok_or(SHAPE)? * 10i32.pow(9 - f.len() as u32),
        Some(_) => return Err(SHAPE),
    };
    let (h, m, s) = (two(h).ok_or(SHAPE)?, two(m).ok_or(SHAPE)?, two(s).ok_or(SHAPE)?);
    Time::new(h, m, s, nanos).map_err(|_| "there is no such time of day")
}

/// Nothing, `Z`, `+08`, `+08:00`, `-0330`.
fn parse_offset(text: &str) -> Result<Option<Offset>, &'static str> {
    const SHAPE: &str = "what follows the time is not Z or an offset such as +08:00";
    let mut chars = text.chars();
    let sign = match chars.next() {
        None => return Ok(None),
        Some('Z' | 'z') if chars.as_str().is_empty() => return Ok(Some(Offset::UTC)),
        Some('+') => 1,
        Some('-') => -1,
        Some(_) => return Err(SHAPE),
    };
    let body = chars.as_str().replacen(':', "", 1);
    let (h, m) = match body.len() {
        2 => (digits(&body), Some(0)),
        4 if body.is_ascii() => (digits(&body[..2]), digits(&body[2..])),
        _ => return Err(SHAPE),
    };
    match (h, m) {
        (Some(h), Some(m)) if h < 24 && m < 60 => {
            Offset::from_seconds(sign * (h * 3600 + m * 60)).map(Some).map_err(|_| SHAPE)
        }
        _ => Err(SHAPE),
    }
}

/// ASCII digits only (no sign, no space), up to nine of them.
fn digits(text: &str) -> Option<i32> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn zone_name(zone: &Zone) -> String {
    zone.iana_name().map_or_else(|| "the local time zone".into(), str::to_string)
}

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    crate::names::printable(short.as_bytes())
}

#[cfg(test)]
mod tests;
