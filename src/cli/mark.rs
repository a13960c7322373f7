//! `dashcam mark`: a user marker.

use std::process::ExitCode;

use super::{Globals, failed};

/// Write a marker into the recording
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The marker's text
    #[arg(value_name = "TEXT")]
    pub text: String,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'mark' is not built yet"))
}
