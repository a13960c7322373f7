//! `dashcam check`: compare with a baseline.

use std::process::ExitCode;

use super::{Globals, failed};

/// Compare a set of metrics with a baseline; exit 3 when one got worse
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Baseline file
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<std::path::PathBuf>,
    /// Write the metrics of this run as the new baseline
    #[arg(long)]
    pub save: bool,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// What to read (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'check' is not built yet"))
}
