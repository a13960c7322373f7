//! `dashcam keys`: the key bindings.

use std::process::ExitCode;

use super::{Globals, failed};

/// List the key bindings
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Keymap file or the name of a shipped one (default, vim)
    #[arg(long, value_name = "NAME|FILE")]
    pub keymap: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'keys' is not built yet"))
}
