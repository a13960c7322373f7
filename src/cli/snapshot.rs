//! `dashcam snapshot`: keep the last minutes.

use std::process::ExitCode;

use super::{Globals, failed};

/// Keep the last minutes and print the file's path
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// How much to keep (default: snapshot.last of the configuration)
    #[arg(long, value_name = "DURATION")]
    pub last: Option<String>,
    /// A word for the file name
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Write it here instead of into the store's snapshots
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'snapshot' is not built yet"))
}
