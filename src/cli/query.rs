//! `dashcam query`: SQL over recorded data.

use std::io::{self, BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use super::reading::{Quiet, Source, Spinner, Stop};
use super::{Globals, failed, query_shell, usage};
use crate::memory;
use crate::query::Columns;
use crate::query::engine::Engine;
use crate::query::output::{Format, printer};
use crate::query::rehearsal::{Needs, rehearse};

/// Ask in SQL, with Perfetto's tables (without SQL: an interactive shell)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The statements; or, first, a PATH when they come from -f or the shell
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// Read statements from a file (- is stdin), or by name from the library of ready queries
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The statements, as trace_processor_shell takes them
    #[arg(short = 'Q', long = "query", value_name = "SQL", conflicts_with = "file")]
    pub query: Option<String>,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// Output format: table, csv, json (one object a line)
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "csv", "json"])]
    pub format: String,
    /// List the library of ready queries
    #[arg(long)]
    pub list: bool,
    /// What to ask (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    if args.list {
        return list();
    }
    let (script, paths) = script_and_paths(args)?;
    // What is wrong with the words is told before anything is read.
    let needs = script.as_deref().map_or(Ok(Needs::ALL), rehearse)?;
    let stop = Stop::on_interrupt()?;
    let columns = if needs.nothing {
        Source::exists(&paths, &args.window, globals)?;
        Columns::default()
    } else {
        Source::find(&paths, &args.window, globals, &stop)?.load_for(&needs, &stop)?.columns
    };
    let mut engine = Engine::open(Arc::new(columns))?;
    if let Some(room) = memory::room() {
        engine.bound_memory(room.usable());
    }
    let spinner = Spinner::new();
    let (flag, turning) = (stop.clone(), spinner.clone());
    engine.on_progress(10_000, move || {
        turning.tick();
        flag.asked()
    });
    let format = format(&args.format)?;
    match script {
        Some(script) => {
            let rows = printer(format, BufWriter::new(io::stdout().lock()));
            match engine.run(&script, &mut Quiet { rows, spinner: spinner.clone() }) {
                Err(e) if e.is_broken_pipe() => Ok(ExitCode::SUCCESS),
                result => result.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            }
        }
        None => {
            query_shell::run(&mut engine, format, &stop, &spinner).context("the shell")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn format(word: &str) -> anyhow::Result<Format> {
    match word {
        "table" => Ok(Format::Table),
        "csv" => Ok(Format::Csv),
        "json" => Ok(Format::Json),
        other => Err(usage(format!("{other} is no format: table, csv and json are"))),
    }
}

/// Which statements (`None`: ask for them) and which files. With `-f` or `-Q` the first word is a path too, and so it
/// is when it names a file and is no SQL.
fn script_and_paths(args: &Args) -> anyhow::Result<(Option<String>, Vec<PathBuf>)> {
    let mut paths = args.path.clone();
    let mut first_is_path = || {
        if let Some(word) = &args.sql {
            paths.insert(0, word.into());
        }
    };
    if let Some(sql) = &args.query {
        first_is_path();
        return Ok((Some(sql.clone()), paths));
    }
    if let Some(file) = &args.file {
        first_is_path();
        return Ok((Some(read_script(file)?), paths));
    }
    match &args.sql {
        Some(word) if !word.contains(char::is_whitespace) && Path::new(word).exists() => {
            first_is_path();
            Ok((from_stdin()?, paths))
        }
        Some(sql) => Ok((Some(sql.clone()), paths)),
        None => Ok((from_stdin()?, paths)),
    }
}

/// Statements that are piped in; `None` on a terminal.
fn from_stdin() -> anyhow::Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    Ok(Some(read_script(Path::new("-"))?))
}

fn read_script(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("reading statements from stdin")?;
        return Ok(text);
    }
    match crate::config::read_text(file) {
        Ok(text) => Ok(text),
        Err(e) => match file.to_str().and_then(crate::query::library::find) {
            Some(ready) => Ok(ready.sql.to_owned()),
            None => Err(failed(format!(
                "cannot read {}: {e}; 'dashcam query --list' names the ready queries",
                file.display()
            ))),
        },
    }
}

fn list() -> anyhow::Result<ExitCode> {
    use io::Write;
    let mut out = io::stdout().lock();
    for ready in crate::query::library::QUERIES {
        writeln!(out, "{:<24} {}", ready.name, ready.title())?;
    }
    Ok(ExitCode::SUCCESS)
}
