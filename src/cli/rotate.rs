//! `dashcam rotate`: cut the segment now.

use std::process::ExitCode;

use super::{Globals, ask};
use crate::recorder::control::{self, Request};

/// Close the open segment now and begin the next
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    ask(globals, &Request::Rotate {}, control::PATIENCE * 5)?;
    Ok(ExitCode::SUCCESS)
}
