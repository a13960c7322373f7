//! `dashcam stop`: end the running recorder.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{Globals, failed};
use crate::recorder::control::{self, AskError, Request};

/// It promises to be done within 2 s; a slow disk may take a little longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stop the running recorder
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Runs the command: returns once the recorder has finished its segment and is gone.
pub fn run(_: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let socket = globals.places()?.socket();
    control::ask(&socket, &Request::Stop {}, PATIENCE)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Err(AskError::NotRunning(_)) = control::ask(&socket, &Request::Status {}, control::PATIENCE) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(failed("the recorder was told to stop but still runs; see its log"))
}
