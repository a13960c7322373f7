//! What is not the model's: the recorder's state, snapshots, marks, and the store over hours.
//!
//! A face implements [`Recorder`] over whatever runs there (a control socket, a recorder in the same process, or nothing);
//! the keeper's own thread calls it, so that neither a slow disk nor a silent socket can hold a key up.

use super::deeds::{Deed, Done, RecorderView};
use super::shelf::Shelf;
use crate::sched::summary::Window;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::path::PathBuf;
use std::time::Duration;

/// Between two looks at the recorder's state.
const LOOK: Duration = Duration::from_millis(1000);

/// What a face provides. Errors are in words, with the mend.
pub trait Recorder: Send {
    /// The state of the recording, for the header. Called about once a second.
    fn view(&mut self) -> RecorderView;
    /// Keeps the last so many ns (`None`: the configured number); gives the path.
    fn snapshot(&mut self, last: Option<u64>, label: &str) -> Result<String, String>;
    /// Keeps a range of CLOCK_BOOTTIME; gives the path.
    fn keep(&mut self, window: Window, label: &str) -> Result<String, String>;
    /// Marks this moment.
    fn mark(&mut self, text: &str) -> Result<(), String>;
    /// The store that the segments and snapshots screens show; `None`: single files are open.
    fn store(&self) -> Option<PathBuf>;
    /// The files that these screens show where there is no store.
    fn files(&self) -> &[PathBuf] {
        &[]
    }
}

/// Runs until nobody asks or listens any more.
pub fn run(mut recorder: Box<dyn Recorder>, deeds: &Receiver<Deed>, done: &Sender<Done>) {
    let mut shelf = Shelf::default();
    let mut next = std::time::Instant::now();
    loop {
        let wait = next.saturating_duration_since(std::time::Instant::now());
        match deeds.recv_timeout(wait) {
            Ok(deed) => {
                let outcome = perform(&mut *recorder, &mut shelf, deed).unwrap_or_else(|e| Done::Failed(e.into()));
                if done.send(outcome).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                next = std::time::Instant::now() + LOOK;
                if done.send(Done::Recorder(Box::new(recorder.view()))).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn perform(recorder: &mut dyn Recorder, shelf: &mut Shelf, deed: Deed) -> Result<Done, String> {
    match deed {
        Deed::Snapshot { last, label } => recorder.snapshot(last, &label).map(|p| Done::Snapshot(p.into())),
        Deed::Keep { window, label } => recorder.keep(window, &label).map(|p| Done::Snapshot(p.into())),
        Deed::Mark(text) => recorder.mark(&text).map(|()| Done::Mark(crate::names::printable(text.as_bytes()).into())),
        Deed::Store { range, columns } => shelf.view(recorder, range, usize::from(columns)).map(Done::Store),
        Deed::Kept => shelf.kept(recorder).map(Done::Kept),
    }
}
