//! `dashcam stop`: end the running recorder.

use std::process::ExitCode;

use super::{Globals, failed};

/// Stop the running recorder
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'stop' is not built yet"))
}
