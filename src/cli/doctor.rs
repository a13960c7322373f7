//! `dashcam doctor`: what this machine allows.

use std::process::ExitCode;

use super::{Globals, failed};

/// Say what this machine allows, and the one command that mends each lack
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'doctor' is not built yet"))
}
