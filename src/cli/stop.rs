//! `dashcam stop`: end the running recorder.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{Globals, failed};
use crate::recorder::control::{self, Request};
use crate::store::Store;
use crate::store::lock::RecorderLock;

/// It promises to be done within 2 s; a slow disk may take a little longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stop the running recorder
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Runs the command: returns once the recorder has finished its segment and is gone.
pub fn run(_: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let places = globals.places_to_read()?;
    let (socket, store) = (places.socket(), Store::open(&places.store)?);
    control::ask(&socket, &Request::Stop {}, PATIENCE)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if RecorderLock::holder(&store)?.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(failed("the recorder was told to stop but still runs; see its log"))
}
