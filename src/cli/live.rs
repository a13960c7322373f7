//! `dashcam live`: the terminal UI on now.

use std::process::ExitCode;

use super::{Globals, failed};

/// Watch the scheduler live (starts a recorder if none runs)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Keymap file or the name of a shipped one (default, vim)
    #[arg(long, value_name = "NAME|FILE")]
    pub keymap: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'live' is not built yet"))
}
