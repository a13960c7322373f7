//! A table of an answer, and its three forms: text, Markdown, JSON.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::names::printable;
use crate::query::Columns;
use crate::sched::fold::Utid;
use crate::time::{self, ClockMap, Digits, Zone};
use crate::units;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words; made safe when shown.
    Text(String),
    /// A duration, ns.
    Ns(u64),
    /// A number of things.
    Count(u64),
    /// A share, 1.0 = all.
    Share(f64),
    /// An instant, ns on CLOCK_BOOTTIME.
    Time(u64),
    /// Not known.
    Unknown,
}

impl From<Option<Cell>> for Cell {
    fn from(cell: Option<Cell>) -> Cell {
        cell.unwrap_or(Cell::Unknown)
    }
}

/// Rows under headings.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Word for JSON, e.g. `latency`.
    pub name: &'static str,
    /// Heading.
    pub title: String,
    /// Key (for JSON) and heading of each column.
    pub columns: Vec<(&'static str, &'static str)>,
    /// The rows, most important first.
    pub rows: Vec<Vec<Cell>>,
    /// So many of the last columns stand in JSON alone: numbers that the text has in a sentence.
    pub only_json: usize,
    /// Said below it: what is left out, what is not known.
    pub notes: Vec<String>,
}

/// How instants are shown.
#[derive(Debug, Clone)]
pub struct Clocks {
    /// Boot clock ↔ wall clock; empty if not known.
    pub map: ClockMap,
    /// Zone of the times shown.
    pub zone: Zone,
}

impl Clocks {
    fn text(&self, boot: u64) -> String {
        if self.map.is_empty() {
            return format!("{}.{:06} s", boot / 1_000_000_000, boot / 1000 % 1_000_000);
        }
        time::clock(self.map.to_real(boot), &self.zone, Digits::Micros)
    }
}

impl Table {
    /// A table without rows yet.
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[(&'static str, &'static str)]) -> Table {
        Table {
            name,
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            only_json: 0,
            notes: Vec::new(),
        }
    }

    /// Keeps the first `rows` and says how many there were.
    pub fn cut(&mut self, rows: usize) {
        if self.rows.len() > rows {
            self.notes.push(match self.rows.len() - rows {
                1 => "1 more row is left out (--limit)".to_owned(),
                more => format!("{} more rows are left out (--limit)", units::show::grouped(more as u64)),
            });
            self.rows.truncate(rows);
        }
    }

    /// Aligned text.
    pub fn text(&self, clocks: &Clocks) -> String {
        let cells = self.shown(clocks);
        let mut out = format!("{}\n", printable(self.title.as_bytes()));
        if self.rows.is_empty() {
            out.push_str("  nothing\n");
        } else {
            let width = |n: usize| cells.iter().map(|r| r[n].width()).max().unwrap_or(0).max(self.columns[n].1.width());
            let heads: Vec<String> = self.visible().iter().map(|c| c.1.to_owned()).collect();
            let widths: Vec<usize> = (0..heads.len()).map(width).collect();
            for row in std::iter::once(&heads).chain(&cells) {
                let mut line = String::from(" ");
                for (n, text) in row.iter().enumerate() {
                    let pad = " ".repeat(widths[n] - text.width());
                    let left = self.is_text(n);
                    // Writing to a String cannot fail.
                    let _ = if left { write!(line, " {text}{pad} ") } else { write!(line, " {pad}{text} ") };
                }
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "  ({})", printable(note.as_bytes()));
        }
        out
    }

    /// A Markdown section. Bars and what could start markup are escaped.
    pub fn markdown(&self, clocks: &Clocks) -> String {
        let mut out = format!("### {}\n\n", escaped(&printable(self.title.as_bytes())));
        if self.rows.is_empty() {
            out.push_str("nothing\n");
        } else {
            let heads: Vec<&str> = self.visible().iter().map(|c| c.1).collect();
            let rule: Vec<&str> = (0..heads.len()).map(|n| if self.is_text(n) { "---" } else { "--:" }).collect();
            let _ = writeln!(out, "| {} |\n| {} |", heads.join(" | "), rule.join(" | "));
            for row in self.shown(clocks) {
                let cells: Vec<String> = row.iter().map(|c| escaped(c)).collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "\n*{}*", escaped(&printable(note.as_bytes())));
        }
        out
    }

    /// One JSON object a row; durations in ns, instants on CLOCK_BOOTTIME and, if known, as `…_utc` too.
    pub fn json_lines(&self, clocks: &Clocks) -> Vec<Value> {
        let object = |row: &Vec<Cell>| {
            let mut map = Map::new();
            map.insert("report".into(), json!(self.name));
            for ((key, _), cell) in self.columns.iter().zip(row) {
                let value = match cell {
                    Cell::Text(t) => json!(t),
                    Cell::Ns(n) | Cell::Count(n) => json!(n),
                    Cell::Share(s) => json!(s),
                    Cell::Time(boot) => {
                        if !clocks.map.is_empty() {
                            map.insert(format!("{key}_utc"), json!(time::rfc3339(clocks.map.to_real(*boot))));
                        }
                        json!(boot)
                    }
                    Cell::Unknown => Value::Null,
                };
                map.insert((*key).into(), value);
            }
            Value::Object(map)
        };
        self.rows.iter().map(object).collect()
    }

    fn is_text(&self, n: usize) -> bool {
        self.rows.iter().any(|r| matches!(r.get(n), Some(Cell::Text(_))))
    }

    fn shown(&self, clocks: &Clocks) -> Vec<Vec<String>> {
        let show = |cell: &Cell| match cell {
            Cell::Text(t) => printable(t.as_bytes()),
            Cell::Ns(n) => units::show::span_exact(*n),
            Cell::Count(n) => units::show::grouped(*n),
            Cell::Share(s) => units::show::percent(*s),
            Cell::Time(boot) => clocks.text(*boot),
            Cell::Unknown => "–".to_owned(),
        };
        let columns = self.visible().len();
        self.rows.iter().map(|row| row.iter().take(columns).map(show).collect()).collect()
    }

    /// The columns of text and Markdown.
    fn visible(&self) -> &[(&'static str, &'static str)] {
        &self.columns[..self.columns.len().saturating_sub(self.only_json)]
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `name [tid]`, as everywhere; without a name the tid alone.
pub fn thread_name(c: &Columns, utid: Utid) -> String {
    let Some(t) = c.facts.threads.get(utid as usize) else { return format!("utid {utid}") };
    if utid == 0 {
        return "idle".to_owned();
    }
    // Without a name of its own a main thread goes by its process.
    let own = c.names.text(t.name);
    let name = match c.facts.process_of(utid) {
        Some(p) if own.is_empty() => c.names.text(p.name),
        _ => own,
    };
    if name.is_empty() { format!("[{}]", t.tid) } else { format!("{name} [{}]", t.tid) }
}

/// The process's name as a cell.
pub fn process_name(c: &Columns, utid: Utid) -> Cell {
    match c.facts.process_of(utid).map(|p| c.names.text(p.name)).filter(|n| !n.is_empty()) {
        Some(name) => Cell::Text(name),
        None => Cell::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new("x", "What\x1b[2J", &[("name", "NAME"), ("wait", "WAIT"), ("at", "AT"), ("n", "N")]);
        t.rows.push(vec![
            Cell::Text("a|b\x1b]52;c".into()),
            Cell::Ns(4_123_000),
            Cell::Time(5_000_000_000),
            Cell::Unknown,
        ]);
        t.rows.push(vec![Cell::Text("数".into()), Cell::Ns(12), Cell::Time(7), Cell::Count(12_345)]);
        t
    }

    fn clocks() -> Clocks {
        Clocks { map: ClockMap::default(), zone: Zone::UTC }
    }

    #[test]
    fn text_is_aligned_and_safe() {
        let text = table().text(&clocks());
        assert!(!text.contains('\x1b'), "{text:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  NAME              WAIT          AT       N");
        assert_eq!(lines[2], "  a|b\\x1b]52;c  4.123 ms  5.000000 s       –");
        assert_eq!(lines[3], "  数               12 ns  0.000000 s  12,345");
    }

    #[test]
    fn markdown_cells_cannot_make_cells_or_markup() {
        let text = table().markdown(&clocks());
        assert!(text.contains("| a\\|b\\\\x1b\\]52;c | 4.123 ms |"), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn json_keeps_numbers_and_raw_names() {
        let mut clocks = clocks();
        assert_eq!(table().json_lines(&clocks)[0]["name"], "a|b\x1b]52;c");
        assert_eq!(table().json_lines(&clocks)[0]["n"], Value::Null);
        clocks.map.add(time::ClockPair { boot: 0, real: 1_700_000_000_000_000_000 });
        assert_eq!(table().json_lines(&clocks)[0]["at_utc"], "2023-11-14T22:13:25.000000000Z");
    }

    #[test]
    fn what_is_cut_is_said() {
        let mut t = table();
        t.cut(1);
        assert_eq!((t.rows.len(), t.notes[0].as_str()), (1, "1 more row is left out (--limit)"));
        let mut t = table();
        t.rows.resize(2718, t.rows[0].clone());
        t.cut(20);
        assert_eq!((t.rows.len(), t.notes[0].as_str()), (20, "2,698 more rows are left out (--limit)"));
    }
}
