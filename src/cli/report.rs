//! `dashcam report`: ready answers.

use std::process::ExitCode;

use super::{Globals, failed};

/// Ready answers: cpu latency states blocked preempt wakes io summary
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which report
    #[arg(value_name = "REPORT")]
    pub report: String,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// Only threads whose name matches
    #[arg(long, value_name = "GLOB")]
    pub thread: Option<String>,
    /// Only processes whose name matches
    #[arg(long, value_name = "GLOB")]
    pub process: Option<String>,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// What to read (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'report' is not built yet"))
}
