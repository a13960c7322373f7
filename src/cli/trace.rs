//! `dashcam trace`: one recording into one file.

use std::process::ExitCode;

use super::{Globals, failed};

/// Record once, into one file (default categories: sched freq io mark)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// How long, e.g. 20s
    #[arg(short, long, value_name = "DURATION")]
    pub time: String,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    pub output: std::path::PathBuf,
    /// Total ring-buffer size over all CPUs, e.g. "32 MiB"
    #[arg(short, long, value_name = "SIZE")]
    pub buffer: Option<String>,
    /// Categories (sched freq idle irq io mem mark syscall) or group/name events
    #[arg(value_name = "CATEGORY")]
    pub categories: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'trace' is not built yet"))
}
