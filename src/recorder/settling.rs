//! Snapshots that everybody sees while the disk is still being waited for.
//!
//! Their callers have their answers by then. What the disk says afterwards is not lost: a failure is in the log and stays in
//! the status until the recorder ends, and the recorder does not end before it knows.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, TryRecvError};

/// So many at once. A disk that is slower than that many requests a second makes the next one wait.
const MOST: usize = 4;
/// Failures that the status shows.
const KEPT: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settling {
    pending: Vec<(PathBuf, Receiver<Result<(), String>>)>,
    failed: VecDeque<String>,
}

impl Settling {
    /// One more; its answer comes through `told`.
    pub fn push(&mut self, path: PathBuf, told: Receiver<Result<(), String>>) {
        self.pending.push((path, told));
    }

    /// True while no further snapshot should be begun.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= MOST
    }

    /// Hears those who have an answer; does not wait.
    pub fn look(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|(path, told)| match told.try_recv() {
            Err(TryRecvError::Empty) => true,
            answer => {
                self.heard(path, answer.ok());
                false
            }
        });
        self.pending = pending;
    }

    /// Waits for all.
    pub fn finish(&mut self) {
        for (path, told) in std::mem::take(&mut self.pending) {
            self.heard(&path, told.recv().ok());
        }
    }

    fn heard(&mut self, path: &Path, answer: Option<Result<(), String>>) {
        // Without an answer its thread ended by a panic, which was printed.
        let Err(why) = answer.unwrap_or_else(|| Err("see the recorder's log".to_owned())) else { return };
        let words = format!("snapshot {} may not survive a power cut: {why}; take it again", path.display());
        tracing::error!("{words}");
        self.failed.push_back(words);
        if self.failed.len() > KEPT {
            self.failed.pop_front();
        }
    }

    /// What the disk refused.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.failed.iter().cloned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    fn one(settling: &mut Settling, name: &str) -> crossbeam_channel::Sender<Result<(), String>> {
        let (send, told) = bounded(1);
        settling.push(name.into(), told);
        send
    }

    #[test]
    fn a_failed_fsync_stays_in_the_status_and_a_good_one_says_nothing() {
        let mut settling = Settling::default();
        let (good, bad, gone) =
            (one(&mut settling, "/s/good"), one(&mut settling, "/s/bad"), one(&mut settling, "/s/gone"));
        settling.look();
        assert_eq!(settling.warnings().count(), 0, "nobody has answered");
        good.send(Ok(())).unwrap();
        bad.send(Err("cannot sync /s/bad: Input/output error".into())).unwrap();
        drop(gone);
        settling.look();
        let said: Vec<String> = settling.warnings().collect();
        assert_eq!(
            said,
            [
                "snapshot /s/bad may not survive a power cut: cannot sync /s/bad: Input/output error; take it again",
                "snapshot /s/gone may not survive a power cut: see the recorder's log; take it again",
            ]
        );
        settling.look();
        assert_eq!(settling.warnings().count(), 2, "told once");
    }

    #[test]
    fn the_end_waits_for_the_disk_and_failures_are_bounded() {
        let mut settling = Settling::default();
        let senders: Vec<_> = (0..MOST).map(|i| one(&mut settling, &format!("/s/{i}"))).collect();
        assert!(settling.is_full());
        let slow = std::thread::spawn(move || {
            for sender in senders {
                sender.send(Err("no".into())).unwrap();
            }
        });
        settling.finish();
        slow.join().unwrap();
        assert!(!settling.is_full());
        assert_eq!(settling.warnings().count(), MOST);
        one(&mut settling, "/s/last").send(Err("no".into())).unwrap();
        settling.finish();
        assert_eq!(settling.warnings().count(), KEPT);
        assert!(settling.warnings().last().unwrap().starts_with("snapshot /s/last "));
    }
}
