//! `dashcam verify`: check every frame.

use std::process::ExitCode;

use super::{Globals, failed};

/// Check every frame and say what is whole
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object per file
    #[arg(long)]
    pub json: bool,
    /// What to check (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'verify' is not built yet"))
}
