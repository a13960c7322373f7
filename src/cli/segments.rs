//! `dashcam segments`: what the store holds.

use std::process::ExitCode;

use super::{Globals, failed};

/// List segments by time
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
    /// What to list (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'segments' is not built yet"))
}
