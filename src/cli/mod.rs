//! The command line: one file per subcommand, one table of flags for parser, `--help`, completions and man pages.
//!
//! This floor turns arguments into calls of the floors below and their errors into one line and an exit code (0 done, 1
//! failed, 2 wrong usage; a command may define more). Data goes to stdout, words to stderr. Nothing here knows how
//! anything is recorded, stored or drawn.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::names::printable;
use crate::recorder::haste::Haste;

/// A line of words on stderr. Where nobody takes them (a closed pipe, a full disk) there is nobody to tell that to.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub mod browse;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod export;
pub mod keys;
pub mod live;
pub mod look;
pub mod man;
pub mod mark;
pub mod query;
pub mod record;
pub mod report;
pub mod rotate;
pub mod segments;
pub mod snapshot;
pub mod status;
pub mod stop;
pub mod trace;
pub mod verify;

mod query_shell;
mod reading;
mod screen;
mod shared;
mod target;

pub use shared::{Globals, SourceArg, WindowArgs, ask, duration, failed, length, tell_misnamed, usage, zone};

/// An always-on flight recorder for the Linux scheduler.
///
/// Without a command: the live screen. It attaches to a running recorder, or records by itself until you quit.
#[derive(Debug, Parser)]
#[command(name = "dashcam", version, propagate_version = true, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// Flags that every command takes.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do; none means `live`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands, in the order `--help` lists them.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "each variant's words are the command's help, on its arguments")]
pub enum Command {
    Live(live::Args),
    Record(record::Args),
    Trace(trace::Args),
    Snapshot(snapshot::Args),
    Browse(browse::Args),
    Segments(segments::Args),
    Status(status::Args),
    Stop(stop::Args),
    Rotate(rotate::Args),
    Query(query::Args),
    Report(report::Args),
    Check(check::Args),
    Export(export::Args),
    Mark(mark::Args),
    Verify(verify::Args),
    Doctor(doctor::Args),
    Keys(keys::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The whole program behind `main`: parses the process's arguments, runs the command, reports its error.
pub fn main() -> ExitCode {
    let mut haste = hasty_from_the_start();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return clap_exit(&e),
    };
    // It was another command's word.
    haste.take_if(|_| !matches!(cli.command, Some(Command::Snapshot(_))));
    // Only a recorder reads its configuration again, and a screen must leave in order; all others end with their terminal.
    if !matches!(
        cli.command,
        None | Some(Command::Record(_) | Command::Live(_) | Command::Trace(_) | Command::Browse(_))
    ) {
        crate::recorder::signals::release_hangup();
    }
    init_log(&cli);
    match run(&cli, haste) {
        Ok(code) => code,
        Err(e) => report_error(&e),
    }
}

/// The flag table as clap's own value, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Who waits for a snapshot goes first (see [`Haste`]); beside hundreds of busy threads reading the arguments alone may take
/// the rest of a time slice, and the next one a tenth of a second to come.
fn hasty_from_the_start() -> Option<Haste> {
    std::env::args_os().any(|word| word == "snapshot").then(Haste::alone)
}

fn run(cli: &Cli, haste: Option<Haste>) -> anyhow::Result<ExitCode> {
    let globals = &cli.globals;
    // A file that was named is read by every command, also by one that then needs nothing of it.
    if globals.config.is_some() && !matches!(cli.command, Some(Command::Completions(_) | Command::Man(_))) {
        globals.load_config()?;
    }
    match &cli.command {
        None => live::run(&live::Args::default(), globals),
        Some(Command::Live(a)) => live::run(a, globals),
        Some(Command::Record(a)) => record::run(a, globals),
        Some(Command::Trace(a)) => trace::run(a, globals),
        Some(Command::Snapshot(a)) => snapshot::run(a, globals, haste),
        Some(Command::Browse(a)) => browse::run(a, globals),
        Some(Command::Segments(a)) => segments::run(a, globals),
        Some(Command::Status(a)) => status::run(a, globals),
        Some(Command::Stop(a)) => stop::run(a, globals),
        Some(Command::Rotate(a)) => rotate::run(a, globals),
        Some(Command::Query(a)) => query::run(a, globals),
        Some(Command::Report(a)) => report::run(a, globals),
        Some(Command::Check(a)) => check::run(a, globals),
        Some(Command::Export(a)) => export::run(a, globals),
        Some(Command::Mark(a)) => mark::run(a, globals),
        Some(Command::Verify(a)) => verify::run(a, globals),
        Some(Command::Doctor(a)) => doctor::run(a, globals),
        Some(Command::Keys(a)) => keys::run(a, globals),
        Some(Command::Completions(a)) => completions::run(a),
        Some(Command::Man(a)) => man::run(a),
    }
}

/// clap prints help and version on stdout (exit 0) and wrong usage on stderr (exit 2); a closed pipe is no failure. Wrong usage
/// stays that where nobody takes the words.
fn clap_exit(e: &clap::Error) -> ExitCode {
    match e.print() {
        Err(io) if io.kind() != io::ErrorKind::BrokenPipe && !e.use_stderr() => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2)),
    }
}

/// One line on stderr: what failed and every cause behind it. A reader that went away (`dashcam … | head`) is success.
fn report_error(e: &anyhow::Error) -> ExitCode {
    let closed_pipe = e.chain().filter_map(|c| c.downcast_ref::<io::Error>());
    if closed_pipe.into_iter().any(|c| c.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let mut text = error_line(e);
    // Nothing but standard output is written to without its name.
    if e.downcast_ref::<io::Error>().is_some_and(|bare| bare.kind() == io::ErrorKind::StorageFull) {
        text = format!("cannot write the answer to standard output: {text}; send it elsewhere");
    }
    if e.is::<shared::Usage>() {
        tell!("dashcam: {text}\nTry 'dashcam --help'.");
        return ExitCode::from(2);
    }
    tell!("dashcam: {text}");
    ExitCode::FAILURE
}

/// The chain of causes joined by ": ", each said once: libraries often repeat their source in their own text.
fn error_line(e: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in e.chain() {
        let text = cause.to_string();
        if line.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line.split('\n').map(|l| printable(l.as_bytes())).collect::<Vec<_>>().join("\n")
}

/// Log lines go to stderr; `DASHCAM_LOG` takes the usual filter words (`debug`, `dashcam::recorder=trace`). Without it a
/// recorder logs what its configuration says; a configuration that cannot be read is the command's to report.
fn init_log(cli: &Cli) {
    use tracing_subscriber::EnvFilter;
    let recording = matches!(cli.command, Some(Command::Record(_)));
    let configured = || cli.globals.load_config().map_or("info", |c| c.log.level.word());
    let default = if recording { configured() } else { "warn" };
    let filter = EnvFilter::try_from_env("DASHCAM_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // Words on the terminal that is being drawn on would tear the screen; what matters is in its header.
    let draws = matches!(cli.command, None | Some(Command::Live(_) | Command::Browse(_)));
    if draws && io::IsTerminal::is_terminal(&io::stderr()) {
        let failed = log.with_writer(io::sink).try_init().is_err();
        debug_assert!(!failed, "the log is set up once per process");
        return;
    }
    // Under systemd the journal stamps every line itself.
    let failed = if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.with_ansi(false).without_time().try_init().is_err()
    } else {
        log.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init().is_err()
    };
    debug_assert!(!failed, "the log is set up once per process");
}

/// Where `PATH` arguments of a reading command come from: those given, or the store.
pub fn paths_or_store(paths: &[PathBuf], globals: &Globals) -> anyhow::Result<Vec<PathBuf>> {
    if paths.is_empty() { Ok(vec![globals.places_to_read()?.store]) } else { Ok(paths.to_vec()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_table_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn an_error_line_says_each_cause_once_and_holds_no_control_codes() {
        let inner = anyhow::anyhow!("no such \x1b[2Jfile");
        let e = inner.context("reading a: no such \x1b[2Jfile").context("opening the store");
        assert_eq!(error_line(&e), "opening the store: reading a: no such \\x1b[2Jfile");
    }
}
