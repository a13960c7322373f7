//! `dashcam record`: the recorder, in the foreground or as a daemon.

use std::process::ExitCode;

use super::{Globals, failed};

/// Record until stopped
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Go to the background once recording has begun
    #[arg(long)]
    pub background: bool,
    /// Stop by itself after this long, e.g. 20s
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let _ = (args, globals);
    Err(failed("'record' is not built yet"))
}
