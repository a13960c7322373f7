//! Regression watch: a set of numbers from a recording, compared with those of earlier runs.
//!
//! A metric is a query that gives one number. The history is a CSV of `when,metric,value` lines that only ever grows.
//! A metric got worse when it lies beyond its tolerance on the bad side of the median of the last runs.

use std::fmt::Write as _;

use rusqlite::types::Value;
use serde::Deserialize;

use super::table::{Cell, Table};
use crate::query::load::Kept;
use crate::query::rehearsal::Rehearsal;
use crate::query::{Engine, QueryError};
use crate::units::Share;

/// The metrics measured when no file is named.
pub const DEFAULT_METRICS: &str = include_str!("../../assets/check.toml");

/// In which direction a number gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worse {
    /// More is worse.
    Higher,
    /// Less is worse.
    Lower,
}

/// A number to watch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Letters, digits, `_`, `.`, `-`.
    pub name: String,
    /// A query whose first cell is the number.
    pub sql: String,
    /// Which direction is bad.
    pub worse: Worse,
    /// Share of the median that it may be worse by, e.g. `"25 %"`.
    pub tolerance: String,
    /// Smallest change that counts, in its own unit.
    #[serde(default)]
    pub floor: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    metric: Vec<Metric>,
}

/// What can go wrong with metrics or their history.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message speaks for the fields")]
pub enum CheckError {
    /// The TOML is wrong.
    #[error("the metrics are not right: {0}")]
    Metrics(String),
    /// A query failed.
    #[error("metric {name}: {error}")]
    Query { name: String, error: QueryError },
    /// The history is no such CSV.
    #[error("line {line} of the history is not \"when,metric,value\": {text}")]
    History { line: usize, text: String },
}

/// Reads a set of metrics.
pub fn metrics(toml_text: &str) -> Result<Vec<Metric>, CheckError> {
    let wrong = |text: String| CheckError::Metrics(text);
    let file: File = toml::from_str(toml_text).map_err(|e| wrong(e.to_string()))?;
    for m in &file.metric {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if m.name.is_empty() || !m.name.chars().all(plain) {
            return Err(wrong(format!("\"{}\" is no name: letters, digits, _ . - make one", m.name)));
        }
        m.share().map_err(wrong)?;
    }
    Ok(file.metric)
}

impl Metric {
    fn share(&self) -> Result<f64, String> {
        // `Share` itself ends at 100 %, a tolerance need not.
        let digits = self.tolerance.trim().trim_end_matches('%').trim();
        let share = digits.parse::<f64>().ok().filter(|p| p.is_finite() && *p >= 0.0).map(|p| Share(p / 100.0).0);
        share.ok_or_else(|| format!("tolerance \"{}\" of {}: write it as \"25 %\"", self.tolerance, self.name))
    }
}

/// A number of this run; `None`: the query gave NULL or no row.
pub type Measured = (String, Option<f64>);

/// What has to be loaded to measure them all.
///
/// # Errors
/// A metric that is wrong whatever the data.
pub fn rehearse(metrics: &[Metric]) -> Result<Kept, CheckError> {
    let mut rehearsal: Option<Rehearsal> = None;
    for m in metrics {
        let run = match &mut rehearsal {
            Some(rehearsal) => rehearsal.run(&m.sql),
            None => Rehearsal::new().and_then(|new| rehearsal.insert(new).run(&m.sql)),
        };
        run.map_err(|error| CheckError::Query { name: m.name.clone(), error })?;
    }
    Ok(rehearsal.map_or_else(Kept::default, |r| r.needs().kept))
}

/// Measures them all.
pub fn measure(engine: &mut Engine, metrics: &[Metric]) -> Result<Vec<Measured>, CheckError> {
    let mut out = Vec::with_capacity(metrics.len());
    for m in metrics {
        let answer =
            engine.answer(&m.sql, Some(1)).map_err(|error| CheckError::Query { name: m.name.clone(), error })?;
        let value = match answer.rows.first().and_then(|row| row.first()) {
            Some(Value::Integer(n)) => Some(*n as f64),
            Some(Value::Real(r)) => Some(*r),
            _ => None,
        };
        out.push((m.name.clone(), value.filter(|v| v.is_finite())));
    }
    Ok(out)
}

/// Earlier runs, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// When, which metric, its value.
    lines: Vec<(String, String, f64)>,
}

/// First line of the file.
const HEADER: &str = "when,metric,value";

impl History {
    /// Reads the CSV; an empty text is an empty history.
    pub fn read(text: &str) -> Result<History, CheckError> {
        let mut history = History::default();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line == HEADER {
                continue;
            }
            let cells: Vec<&str> = line.split(',').collect();
            let value = cells.get(2).and_then(|v| v.trim().parse::<f64>().ok()).filter(|v| v.is_finite());
            match (cells.as_slice(), value) {
                ([when, metric, _], Some(value)) => {
                    history.lines.push((when.trim().to_owned(), metric.trim().to_owned(), value));
                }
                _ => return Err(CheckError::History { line: n + 1, text: line.to_owned() }),
            }
        }
        Ok(history)
    }

    /// The lines to append for a run; with the header if the file is new.
    pub fn lines(when: &str, measured: &[Measured], new_file: bool) -> String {
        let mut out = if new_file { format!("{HEADER}\n") } else { String::new() };
        for (name, value) in measured {
            if let Some(value) = value {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{when},{name},{value}");
            }
        }
        out
    }

    /// The last `runs` values of a metric.
    fn last(&self, metric: &str, runs: usize) -> Vec<f64> {
        let mut values: Vec<f64> = self.lines.iter().rev().filter(|l| l.1 == metric).map(|l| l.2).take(runs).collect();
        values.reverse();
        values
    }
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within its tolerance.
    Fine,
    /// Beyond it on the good side.
    Better,
    /// Beyond it on the bad side.
    Worse,
    /// No earlier run has it.
    New,
    /// It was measured before and cannot be now, or never.
    Missing,
}

/// One metric compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Which.
    pub name: String,
    /// This run.
    pub value: Option<f64>,
    /// Median of the last runs.
    pub median: Option<f64>,
    /// Half the distance from their smallest to their largest.
    pub spread: f64,
    /// How many there were.
    pub runs: usize,
    /// What it means.
    pub verdict: Verdict,
}

/// Compares a run with the last `runs` of the history.
pub fn compare(metrics: &[Metric], measured: &[Measured], history: &History, runs: usize) -> Vec<Compared> {
    let one = |(m, (name, value)): (&Metric, &Measured)| {
        let past = history.last(name, runs);
        let median = median(&past);
        let (low, high) = past.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        let spread = if past.is_empty() { 0.0 } else { (high - low) / 2.0 };
        let verdict = match (*value, median) {
            (Some(value), Some(median)) => judge(m, value, median),
            (Some(_), None) => Verdict::New,
            (None, _) => Verdict::Missing,
        };
        Compared { name: name.clone(), value: *value, median, spread, runs: past.len(), verdict }
    };
    metrics.iter().zip(measured).map(one).collect()
}

fn judge(m: &Metric, value: f64, median: f64) -> Verdict {
    let change = match m.worse {
        Worse::Higher => value - median,
        Worse::Lower => median - value,
    };
    // Checked when the metrics were read; a wrong one tolerates nothing.
    let allowed = (median.abs() * m.share().unwrap_or(0.0)).max(m.floor);
    if change > allowed {
        Verdict::Worse
    } else if -change > allowed {
        Verdict::Better
    } else {
        Verdict::Fine
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// For people.
pub fn table(compared: &[Compared]) -> Table {
    let mut t = Table::new(
        "check",
        "Compared with earlier runs",
        &[
            ("metric", "METRIC"),
            ("value", "NOW"),
            ("median", "MEDIAN"),
            ("spread", "SPREAD"),
            ("runs", "RUNS"),
            ("change", "CHANGE"),
            ("verdict", "VERDICT"),
        ],
    );
    let number = |v: f64| Cell::Text(format!("{v:.3}"));
    for c in compared {
        let change = match (c.value, c.median) {
            (Some(v), Some(m)) if m != 0.0 => Cell::Text(format!("{:+.1} %", 100.0 * (v - m) / m.abs())),
            _ => Cell::Unknown,
        };
        let verdict = match c.verdict {
            Verdict::Fine => "fine",
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::New => "new",
            Verdict::Missing => "not measured",
        };
        t.rows.push(vec![
            Cell::Text(c.name.clone()),
            c.value.map(number).into(),
            c.median.map(number).into(),
            if c.runs > 1 { Cell::Text(format!("±{:.3}", c.spread)) } else { Cell::Unknown },
            Cell::Count(c.runs as u64),
            change,
            Cell::Text(verdict.into()),
        ]);
    }
    t
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn metric(name: &str, worse: Worse, tolerance: &str, floor: f64) -> Metric {
        Metric { name: name.into(), sql: String::new(), worse, tolerance: tolerance.into(), floor }
    }

    #[test]
    fn the_default_metrics_are_right() {
        assert_eq!(metrics(DEFAULT_METRICS).unwrap().len(), 7);
        let e = metrics("[[metric]]\nname = \"a,b\"\nsql = \"\"\nworse = \"lower\"\ntolerance = \"1 %\"").unwrap_err();
        assert!(e.to_string().contains("\"a,b\" is no name"));
        let e = metrics("[[metric]]\nname = \"a\"\nsql = \"\"\nworse = \"lower\"\ntolerance = \"much\"").unwrap_err();
        assert!(e.to_string().contains("write it as \"25 %\""));
        assert!(metrics("[[metric]]\nnam = 1").is_err());
    }

    #[test]
    fn worse_is_beyond_the_tolerance_of_the_median_on_the_bad_side() {
        let metrics = [
            metric("wait", Worse::Higher, "50 %", 0.0),
            metric("run", Worse::Lower, "10 %", 0.0),
            metric("small", Worse::Higher, "0 %", 5.0),
            metric("new", Worse::Higher, "0 %", 0.0),
            metric("gone", Worse::Higher, "0 %", 0.0),
        ];
        let mut text = format!("{HEADER}\n");
        // wait: the last three of four are 10, 30, 20, median 20; run 100; small 0.
        for (name, value) in
            [("wait", 1000), ("wait", 10), ("run", 100), ("small", 0), ("wait", 30), ("wait", 20), ("gone", 1)]
        {
            text.push_str(&format!("2026-11-30T00:00:00Z,{name},{value}\n"));
        }
        let history = History::read(&text).unwrap();
        let judged = |values: [f64; 3]| {
            let names = ["wait", "run", "small", "new", "gone"];
            let now = [Some(values[0]), Some(values[1]), Some(values[2]), Some(1.0), None];
            let measured: Vec<Measured> = names.iter().map(|n| (*n).to_owned()).zip(now).collect();
            compare(&metrics, &measured, &history, 3)
        };
        let verdicts = |v: &[Compared]| v.iter().map(|c| c.verdict).collect::<Vec<_>>();
        let fine = judged([30.0, 90.0, 5.0]);
        assert_eq!((fine[0].median, fine[0].spread, fine[0].runs), (Some(20.0), 10.0, 3));
        use Verdict::{Better, Fine, Missing, New};
        const BAD: Verdict = Verdict::Worse;
        assert_eq!(verdicts(&fine), [Fine, Fine, Fine, New, Missing]);
        assert_eq!(verdicts(&judged([30.1, 89.9, 5.1])), [BAD, BAD, BAD, New, Missing]);
        assert_eq!(verdicts(&judged([9.0, 111.0, 0.0])), [Better, Better, Fine, New, Missing]);
    }

    #[test]
    fn a_history_is_what_was_appended_and_anything_else_is_told_with_its_line() {
        let measured = vec![("a".to_owned(), Some(1.5)), ("b".to_owned(), None)];
        let text = History::lines("t1", &measured, true) + &History::lines("t2", &measured, false);
        assert_eq!(text, "when,metric,value\nt1,a,1.5\nt2,a,1.5\n");
        assert_eq!(History::read(&text).unwrap().last("a", 9), [1.5, 1.5]);
        let e = History::read("when,metric,value\nt1,a,NaN\n").unwrap_err().to_string();
        assert!(e.contains("line 2"), "{e}");
    }
}
