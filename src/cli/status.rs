//! `dashcam status`: how the running recorder is doing.

use std::process::ExitCode;

use super::{Globals, failed};

/// Say how the running recorder is doing
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'status' is not built yet"))
}
