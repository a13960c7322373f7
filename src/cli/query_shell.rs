//! The interactive shell of `dashcam query`: history, completion of tables and columns, dot commands.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};

use super::reading::{Quiet, Spinner, Stop};
use crate::query::engine::Engine;
use crate::query::library;
use crate::query::output::{Format, printer};

const HELP: &str = "\
SQL ends with a semicolon. Commands:
  .tables            names of tables and views
  .schema [TABLE]    their columns
  .queries           the library of ready queries
  .read FILE|NAME    runs a file, or a ready query
  .mode table|csv|json
  .quit";

/// Asks for statements until the end of input. Ctrl-C stops a query, not the shell.
pub fn run(engine: &mut Engine, mut format: Format, stop: &Stop, spinner: &Spinner) -> anyhow::Result<()> {
    let mut editor: Editor<Words, DefaultHistory> = with_own_interrupt(Editor::new).context("opening the terminal")?;
    let tables = engine.tables()?;
    editor.set_helper(Some(Words::of(&tables)));
    let history = history_file();
    if let Some(file) = &history {
        // No history yet is the usual first time.
        drop(editor.load_history(file));
    }
    tell!("dashcam SQL. .help for help, .quit to leave.");
    loop {
        match editor.readline("dashcam> ") {
            Ok(line) => {
                let line = line.trim();
                if line.is_empty() {
                    continue;
                }
                drop(editor.add_history_entry(line));
                if matches!(line, ".quit" | ".exit" | ".q") {
                    break;
                }
                stop.forget();
                spinner.begin();
                let answered = one(engine, line, &mut format, spinner);
                spinner.finish();
                if let Err(e) = answered {
                    tell!("{e}");
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(e).context("reading the terminal"),
        }
    }
    if let Some(file) = &history
        && let Some(dir) = file.parent()
    {
        std::fs::create_dir_all(dir)
            .and_then(|()| editor.save_history(file).map_err(io::Error::other))
            .unwrap_or_else(|e| tell!("dashcam: the history is not kept: {e}"));
    }
    Ok(())
}

/// The editor handles SIGINT from when it is made until it is dropped, between its lines too, where Ctrl-C has to stop the
/// query. While it reads a line Ctrl-C is a key and no signal: it needs none.
fn with_own_interrupt<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros is a valid sigaction, which the call overwrites; it changes nothing.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value; null asks for no change.
    let known = unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut before) } == 0;
    let made = make();
    if known {
        // SAFETY: puts back what was in effect, which the call above gave.
        unsafe { libc::sigaction(libc::SIGINT, &raw const before, std::ptr::null_mut()) };
    }
    made
}

fn history_file() -> Option<std::path::PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(std::path::PathBuf::from);
    let state = state.or_else(|| Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("dashcam/query_history"))
}

fn one(engine: &mut Engine, line: &str, format: &mut Format, spinner: &Spinner) -> anyhow::Result<()> {
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().trim_end_matches(';');
    let mut out = io::stdout().lock();
    match command {
        ".help" => writeln!(out, "{HELP}")?,
        ".tables" => {
            for (name, _) in engine.tables()? {
                writeln!(out, "{name}")?;
            }
        }
        ".schema" => {
            for (name, columns) in engine.tables()?.iter().filter(|(name, _)| rest.is_empty() || name == rest) {
                writeln!(out, "{name}({})", columns.join(", "))?;
            }
        }
        ".queries" => {
            for q in library::QUERIES {
                writeln!(out, "{:<24} {}", q.name, q.title())?;
            }
        }
        ".mode" => {
            *format = match rest {
                "table" => Format::Table,
                "csv" => Format::Csv,
                "json" => Format::Json,
                _ => anyhow::bail!(".mode takes table, csv or json"),
            }
        }
        ".read" => {
            let script = match crate::config::read_text(Path::new(rest)) {
                Ok(text) => text,
                Err(e) => library::find(rest)
                    .map(|q| q.sql.to_owned())
                    .with_context(|| format!("cannot read {rest}: {e}; .queries lists the ready ones"))?,
            };
            engine.run(&script, &mut Quiet { rows: printer(*format, out), spinner: spinner.clone() })?;
        }
        _ if command.starts_with('.') => anyhow::bail!("{command} is no command; .help lists them"),
        _ => engine.run(line, &mut Quiet { rows: printer(*format, out), spinner: spinner.clone() })?,
    }
    Ok(())
}

/// What Tab completes, and when a statement is whole.
struct Words(Vec<String>);

impl Words {
    fn of(tables: &[(String, Vec<String>)]) -> Words {
        const KEYWORDS: [&str; 20] = [
            "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "LIMIT", "JOIN", "LEFT", "USING", "AND", "OR", "NOT",
            "GLOB", "DESC", "INCLUDE", "PERFETTO", "MODULE", "COUNT", "SUM",
        ];
        let names = tables.iter().flat_map(|(t, c)| std::iter::once(t).chain(c)).cloned();
        let mut all: Vec<String> = names.chain(KEYWORDS.iter().map(|k| (*k).to_owned())).collect();
        all.sort();
        all.dedup();
        Words(all)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..at].rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |n| n + 1);
        let word = line[start..at].to_ascii_lowercase();
        let found = self.0.iter().filter(|w| !word.is_empty() && w.to_ascii_lowercase().starts_with(&word));
        Ok((start, found.cloned().collect()))
    }
}

impl Validator for Words {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = ctx.input().trim();
        let whole = text.is_empty() || text.starts_with('.') || text.ends_with(';');
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Helper for Words {}
