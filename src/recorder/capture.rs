//! What captures, as one thing to end: when a recorder stops, and when its start fails half-way.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::facts::Facts;
use super::origin::Origin;
use super::pipeline::Pipeline;
use super::run::RunError;
use crate::kernel::instance::InstanceError;

/// Where events come from and the threads that record them.
pub(super) struct Capture {
    pub(super) origin: Origin,
    pub(super) pipeline: Option<Pipeline>,
    pub(super) facts: Arc<Facts>,
    pub(super) facts_thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Finishes the segment and leaves the kernel as it was found.
    pub(super) fn end(self) -> Result<(), InstanceError> {
        // No more events come in, so the last cycle sees the end of all.
        let stopped = self.origin.stop();
        if let Some(pipeline) = self.pipeline {
            pipeline.stop();
        }
        self.facts.stop();
        if let Some(thread) = self.facts_thread {
            let _ = thread.join();
        }
        stopped.and(self.origin.close())
    }

    /// The start failed with `error`: threads that hold ring buffers open would keep the tracefs instance beyond the process.
    pub(super) fn unwind(self, error: RunError) -> RunError {
        if let Err(e) = self.end() {
            tracing::warn!("{e}");
        }
        error
    }
}
