//! `dashcam rotate`: cut the segment now.

use std::process::ExitCode;

use super::{Globals, failed};

/// Close the open segment now and begin the next
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'rotate' is not built yet"))
}
