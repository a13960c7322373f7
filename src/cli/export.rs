//! `dashcam export`: other tools' formats.

use std::process::ExitCode;

use super::{Globals, failed};

/// Convert recorded data to another tool's format
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Format: perfetto, text, json, ctf
    #[arg(long, value_name = "FORMAT", default_value = "perfetto")]
    pub format: String,
    /// Where to (a directory for ctf; - is stdout)
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<std::path::PathBuf>,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// What to convert (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'export' is not built yet"))
}
