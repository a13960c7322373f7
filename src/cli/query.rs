//! `dashcam query`: SQL over recorded data.

use std::process::ExitCode;

use super::{Globals, failed};

/// Ask in SQL, with Perfetto's tables (without SQL: an interactive shell)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The statement
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// Read statements from a file
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<std::path::PathBuf>,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// Output format: table, csv, json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: String,
    /// What to ask (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<std::path::PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'query' is not built yet"))
}
