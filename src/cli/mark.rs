//! `dashcam mark`: a user marker.

use std::process::ExitCode;

use super::{Globals, ask};
use crate::recorder::control::{self, Request};

/// Write a marker into the recording
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The marker's text
    #[arg(value_name = "TEXT")]
    pub text: String,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let request = Request::Mark { text: args.text.clone() };
    ask(globals, &request, control::PATIENCE * 5)?;
    Ok(ExitCode::SUCCESS)
}
