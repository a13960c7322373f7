//! Rows as people and scripts read them: an aligned table, CSV, JSON lines.
//!
//! Names come from anybody's processes: the table and CSV print them through [`printable`]; JSON escapes what
//! could move a cursor. Nothing here decides what a row is.

use std::io::{self, Write};

use rusqlite::types::ValueRef;
use unicode_width::UnicodeWidthStr;

use super::engine::Rows;
use crate::names::printable;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// Comma-separated, as Perfetto's trace_processor prints it: text quoted, NULL as `"[NULL]"`.
    Csv,
    /// One JSON object a line.
    Json,
}

/// A printer of `format` on `out`.
pub fn printer<'a, W: Write + 'a>(format: Format, out: W) -> Box<dyn Rows + 'a> {
    match format {
        Format::Table => {
            Box::new(Table { out, names: Vec::new(), kept: Vec::new(), widths: None, results: 0, rows: 0 })
        }
        Format::Csv => Box::new(Csv { out, results: 0 }),
        Format::Json => Box::new(Json { out, keys: Vec::new() }),
    }
}

/// Rows looked at before the widths of a table are fixed; what comes after only makes its own row ragged.
const MEASURED: usize = 1000;
/// Widest a column gets from measuring.
const WIDEST: usize = 60;

struct Table<W> {
    out: W,
    names: Vec<String>,
    kept: Vec<Vec<(String, bool)>>,
    widths: Option<Vec<usize>>,
    results: usize,
    rows: usize,
}

/// A cell's text, and whether it is a number (so goes to the right).
fn shown(cell: ValueRef<'_>) -> (String, bool) {
    match cell {
        ValueRef::Null => ("-".into(), true),
        ValueRef::Integer(i) => (i.to_string(), true),
        ValueRef::Real(r) => (short_real(r), true),
        ValueRef::Text(t) => (printable(t), false),
        ValueRef::Blob(b) => (hex(b), false),
    }
}

/// For people: a millisecond to the nanosecond, without the digits that binary fractions add behind that.
fn short_real(r: f64) -> String {
    if !r.is_finite() || r.abs() < 1e-3 {
        return real(r);
    }
    let text = format!("{r:.6}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

fn real(r: f64) -> String {
    if r.is_finite() && r.fract() == 0.0 && r.abs() < 1e15 { format!("{r:.1}") } else { format!("{r}") }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl<W: Write> Table<W> {
    fn flush_kept(&mut self) -> io::Result<()> {
        let mut widths: Vec<usize> = self.names.iter().map(|n| n.width()).collect();
        for row in &self.kept {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width().min(WIDEST));
            }
        }
        let numeric: Vec<bool> =
            (0..self.names.len()).map(|n| self.kept.iter().all(|row| row.get(n).is_none_or(|c| c.1))).collect();
        let header: Vec<(String, bool)> = self.names.iter().cloned().zip(numeric).collect();
        self.line(&header, &widths)?;
        let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        writeln!(self.out, "{}", rule.join("  "))?;
        for row in std::mem::take(&mut self.kept) {
            self.line(&row, &widths)?;
        }
        self.widths = Some(widths);
        Ok(())
    }

    fn line(&mut self, row: &[(String, bool)], widths: &[usize]) -> io::Result<()> {
        let mut line = String::new();
        for (n, ((text, right), width)) in row.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(text.width()));
            if n > 0 {
                line.push_str("  ");
            }
            if *right {
                line.push_str(&pad);
                line.push_str(text);
            } else {
                line.push_str(text);
                line.push_str(&pad);
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

impl<W: Write> Rows for Table<W> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        if self.results > 0 {
            writeln!(self.out)?;
        }
        self.results += 1;
        self.names = columns.iter().map(|c| printable(c.as_bytes())).collect();
        (self.widths, self.rows) = (None, 0);
        Ok(())
    }

    fn row(&mut self, cells: &[ValueRef<'_>]) -> io::Result<()> {
        let row: Vec<(String, bool)> = cells.iter().map(|c| shown(*c)).collect();
        self.rows += 1;
        match self.widths.take() {
            Some(widths) => {
                self.line(&row, &widths)?;
                self.widths = Some(widths);
            }
            None => {
                self.kept.push(row);
                if self.kept.len() >= MEASURED {
                    self.flush_kept()?;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.widths.is_none() {
            self.flush_kept()?;
        }
        self.out.flush()
    }
}

struct Csv<W> {
    out: W,
    results: usize,
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl<W: Write> Rows for Csv<W> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        if self.results > 0 {
            writeln!(self.out)?;
        }
        self.results += 1;
        let header: Vec<String> = columns.iter().map(|c| quoted(&printable(c.as_bytes()))).collect();
        writeln!(self.out, "{}", header.join(","))
    }

    fn row(&mut self, cells: &[ValueRef<'_>]) -> io::Result<()> {
        for (n, cell) in cells.iter().enumerate() {
            if n > 0 {
                self.out.write_all(b",")?;
            }
            match cell {
                ValueRef::Null => self.out.write_all(b"\"[NULL]\"")?,
                ValueRef::Integer(i) => write!(self.out, "{i}")?,
                ValueRef::Real(r) => write!(self.out, "{r}")?,
                ValueRef::Text(t) => self.out.write_all(quoted(&printable(t)).as_bytes())?,
                ValueRef::Blob(b) => self.out.write_all(quoted(&hex(b)).as_bytes())?,
            }
        }
        self.out.write_all(b"\n")
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Json<W> {
    out: W,
    keys: Vec<String>,
}

/// Text as a JSON string; besides what JSON asks for, everything that can move a cursor or hide text is escaped.
pub fn json_string(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c != '\u{fffd}' && printable(c.encode_utf8(&mut [0; 4]).as_bytes()).starts_with('\\') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl<W: Write> Rows for Json<W> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        // Two columns of one name would be one key: later ones get a number.
        let mut names: Vec<String> = Vec::new();
        for column in columns {
            let mut name = column.clone();
            let mut n = 2;
            while names.contains(&name) {
                name = format!("{column}_{n}");
                n += 1;
            }
            names.push(name);
        }
        self.keys = names.iter().map(|n| json_string(n.as_bytes())).collect();
        Ok(())
    }

    fn row(&mut self, cells: &[ValueRef<'_>]) -> io::Result<()> {
        self.out.write_all(b"{")?;
        for (n, (key, cell)) in self.keys.iter().zip(cells).enumerate() {
            if n > 0 {
                self.out.write_all(b",")?;
            }
            write!(self.out, "{key}:")?;
            match cell {
                ValueRef::Null => self.out.write_all(b"null")?,
                ValueRef::Integer(i) => write!(self.out, "{i}")?,
                ValueRef::Real(r) if r.is_finite() => write!(self.out, "{}", real(*r))?,
                ValueRef::Real(_) => self.out.write_all(b"null")?,
                ValueRef::Text(t) => self.out.write_all(json_string(t).as_bytes())?,
                ValueRef::Blob(b) => self.out.write_all(json_string(hex(b).as_bytes()).as_bytes())?,
            }
        }
        self.out.write_all(b"}\n")
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn print(format: Format, rows: &[&[ValueRef<'_>]]) -> String {
        let mut out = Vec::new();
        {
            let mut p = printer(format, &mut out);
            p.begin(&["name".into(), "n".into()]).unwrap();
            for row in rows {
                p.row(row).unwrap();
            }
            p.end().unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    const HOSTILE: &[u8] = b"\x1b[2J\"a,\n\xff\xe2\x80\xae";

    #[test]
    fn people_see_no_digits_that_are_not_there() {
        let shown = [2777.8959599999994, 1689.7778, 12.0, -0.5, 1e-7, f64::INFINITY, 0.0].map(short_real);
        assert_eq!(shown, ["2777.89596", "1689.7778", "12.0", "-0.5", "0.0000001", "inf", "0.0"]);
    }

    #[test]
    fn case_43_hostile_names_in_every_format() {
        for format in [Format::Table, Format::Csv, Format::Json] {
            let out = print(format, &[&[ValueRef::Text(HOSTILE), ValueRef::Integer(1)]]);
            assert!(!out.contains('\x1b') && !out.contains('\u{202e}'), "{out:?}");
            let lines = if format == Format::Json { 1 } else { out.lines().count() };
            assert!(lines <= 3, "no name may make a line: {out:?}");
        }
        let json = print(Format::Json, &[&[ValueRef::Text(HOSTILE), ValueRef::Null]]);
        assert_eq!(json, "{\"name\":\"\\u001b[2J\\\"a,\\n\u{fffd}\\u202e\",\"n\":null}\n");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["name"], "\u{1b}[2J\"a,\n\u{fffd}\u{202e}");
    }

    #[test]
    fn a_table_is_aligned_by_what_is_seen() {
        let rows: [&[ValueRef<'_>]; 2] = [
            &[ValueRef::Text("数据".as_bytes()), ValueRef::Integer(7)],
            &[ValueRef::Text(b"worker"), ValueRef::Integer(1234)],
        ];
        let out = print(Format::Table, &rows);
        assert_eq!(out, "name       n\n──────  ────\n数据       7\nworker  1234\n");
    }

    #[test]
    fn csv_as_trace_processor_prints_it() {
        let out = print(Format::Csv, &[&[ValueRef::Text(b"a\"b"), ValueRef::Null]]);
        assert_eq!(out, "\"name\",\"n\"\n\"a\"\"b\",\"[NULL]\"\n");
    }

    #[test]
    fn json_keys_are_made_different() {
        let mut out = Vec::new();
        let mut p = printer(Format::Json, &mut out);
        p.begin(&["ts".into(), "ts".into()]).unwrap();
        p.row(&[ValueRef::Integer(1), ValueRef::Integer(2)]).unwrap();
        drop(p);
        assert_eq!(String::from_utf8(out).unwrap(), "{\"ts\":1,\"ts_2\":2}\n");
    }
}
