//! `dashcam browse`: the terminal UI on recorded data.

use std::process::ExitCode;

use super::{Globals, failed};

/// Look back: a store, a segment, a snapshot, or any Perfetto ftrace trace
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// What to open (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
    /// Go to this time: -5m, 14:32, 14:32:05.250, RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Keymap file or the name of a shipped one (default, vim)
    #[arg(long, value_name = "NAME|FILE")]
    pub keymap: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'browse' is not built yet"))
}
