//! Reading and folding at the same time: one thread decodes and orders, the caller's thread consumes.
//!
//! The consumer gets exactly the calls it would get from the reading thread itself, in the same order; only the names
//! it is shown at a checkpoint are a copy. At most [`AHEAD`] batches are under way, so memory stays bounded however slow
//! the consumer is.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{OnProgress, Progress};
use crate::memory::Room;
use crate::names::{NameId, NameTable};
use crate::sched::event::Item;
use crate::sched::fold::Consumer;

/// Items of a batch: 1.3 MB, more than a core's own cache. Small ones are still in the other core's cache when they come
/// back to be filled again, and fetching every line from there takes longer than everything else (measured: 470 ms with 512
/// items, 430 with 2,048, 280 from 16,384 on, for two million events to the first row of a query).
const BATCH: usize = 16 << 10;
/// Batches under way.
const AHEAD: usize = 4;
/// Batches between two looks at the memory that is left: some ten MiB of columns.
const LOOK_EVERY: u32 = 8;

/// What the reading thread says.
enum Said {
    Items(Vec<Item>),
    /// A checkpoint, with the names that are new since the last one.
    Checkpoint(Vec<Box<[u8]>>),
    Progress(Progress),
    End,
}

/// The reading thread's consumer: passes everything on.
pub(super) struct Remote {
    said: Sender<Said>,
    /// Emptied batches come back.
    empty: Receiver<Vec<Item>>,
    batch: Vec<Item>,
    names_told: usize,
    /// Nobody wants more.
    stopped: Arc<AtomicBool>,
}

impl Remote {
    /// A consumer that has gone (it panicked) needs nothing more: what it would have been told is dropped.
    fn say(&self, said: Said) {
        drop(self.said.send(said));
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            let full = std::mem::replace(&mut self.batch, next);
            self.say(Said::Items(full));
        }
    }
}

impl Consumer for Remote {
    #[inline]
    fn item(&mut self, item: &Item) {
        // Events are nearly all there is, and copied much faster than an item of any kind is cloned.
        if let Item::Event(event) = item {
            self.batch.push(Item::Event(*event));
        } else {
            self.batch.push(item.clone());
        }
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn checkpoint(&mut self, names: &NameTable) {
        self.flush();
        let new = self.names_told..names.len();
        self.names_told = names.len();
        self.say(Said::Checkpoint(new.map(|id| names.bytes(NameId(id as u32)).into()).collect()));
    }

    fn has_enough(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.flush();
        self.say(Said::End);
    }
}

/// How reading came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Whole,
    /// `progress` said so.
    Stopped,
    /// There is no room for more.
    Full(Room),
}

/// Runs `read` on a thread of its own, which feeds `consumer` here. `read` also gets its way of telling how far it is,
/// which answers `Break` once `progress` did, or once `shortage` told of one: from then on the consumer is given nothing.
/// `enough` is set once the consumer has enough.
pub(super) fn run<C: Consumer, T: Send>(
    consumer: &mut C,
    progress: OnProgress<'_>,
    enough: &AtomicBool,
    shortage: &dyn Fn() -> Option<Room>,
    read: impl FnOnce(&mut Remote, OnProgress<'_>) -> T + Send,
) -> (T, Ended) {
    let stopped = Arc::new(AtomicBool::new(false));
    let (mut full, mut batches) = (None, 0u32);
    let (said, hear) = bounded(AHEAD);
    let (give_back, empty) = bounded(AHEAD);
    let done = thread::scope(|scope| {
        let hears = Arc::clone(&stopped);
        // The senders go with the thread: its end ends the loop below.
        let reader = scope.spawn(move || {
            let how_far = said.clone();
            let mut progress = |at| {
                drop(how_far.send(Said::Progress(at)));
                if hears.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let batch = Vec::with_capacity(BATCH);
            let mut remote = Remote { said, empty, batch, names_told: 0, stopped: Arc::clone(&hears) };
            read(&mut remote, &mut progress)
        });
        let mut names = NameTable::new();
        for said in hear {
            match said {
                Said::Items(mut batch) => {
                    batches = batches.wrapping_add(1);
                    if batches.is_multiple_of(LOOK_EVERY) && full.is_none() {
                        full = shortage();
                    }
                    if full.is_none() {
                        batch.iter().for_each(|item| consumer.item(item));
                    } else {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    batch.clear();
                    drop(give_back.try_send(batch));
                }
                Said::Checkpoint(new) => {
                    for name in new {
                        names.intern(&name);
                    }
                    consumer.checkpoint(&names);
                    enough.fetch_or(consumer.has_enough(), Ordering::Relaxed);
                }
                Said::Progress(at) => {
                    if !stopped.load(Ordering::Relaxed) && progress(at).is_break() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
                Said::End => consumer.end(),
            }
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let ended = match full {
        Some(room) => Ended::Full(room),
        None if stopped.load(Ordering::Relaxed) => Ended::Stopped,
        None => Ended::Whole,
    };
    (done, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes every call.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Consumer for Notes {
        fn item(&mut self, item: &Item) {
            self.0.push(format!("{item:?}"));
        }
        fn checkpoint(&mut self, names: &NameTable) {
            let all = (0..names.len() as u32).map(|id| names.text(NameId(id)));
            self.0.push(format!("names {}", all.collect::<Vec<_>>().join(",")));
        }
        fn end(&mut self) {
            self.0.push("end".into());
        }
    }

    /// Three checkpoints with new names between, more items than fit a batch.
    fn tell(consumer: &mut impl Consumer) {
        let mut names = NameTable::new();
        for (round, name) in [&b"a"[..], b"\xff", b""].iter().enumerate() {
            let id = names.intern(name);
            for n in 0..BATCH as u32 + 7 {
                consumer.item(&Item::Metadata { key: id, value: NameId(n + round as u32) });
            }
            consumer.checkpoint(&names);
        }
        consumer.end();
    }

    #[test]
    fn the_consumer_hears_the_same_calls_in_the_same_order() {
        let (mut near, mut far) = (Notes::default(), Notes::default());
        tell(&mut near);
        let (said, whole) =
            run(&mut far, &mut |_| ControlFlow::Continue(()), &AtomicBool::new(false), &|| None, |remote, _| {
                tell(remote);
                7
            });
        assert_eq!((said, whole), (7, Ended::Whole));
        assert_eq!(near.0.len(), 3 * (BATCH + 7) + 4);
        assert!(near.0 == far.0, "first difference at {:?}", near.0.iter().zip(&far.0).position(|(a, b)| a != b));
    }

    #[test]
    fn who_wants_no_more_is_heard_and_told_the_rest() {
        let mut notes = Notes::default();
        let (rounds, whole) =
            run(&mut notes, &mut |_| ControlFlow::Break(()), &AtomicBool::new(false), &|| None, |remote, progress| {
                let mut rounds = 0;
                // Ends only because the other side says so.
                while progress(Progress::default()).is_continue() {
                    rounds += 1;
                }
                remote.end();
                rounds
            });
        assert!(whole == Ended::Stopped && rounds <= AHEAD + 1, "stopped after {rounds} rounds");
        assert_eq!(notes.0, ["end"]);
    }

    #[test]
    fn who_has_no_room_is_given_no_more_and_the_reading_ends() {
        #[derive(Default)]
        struct Counts(usize);
        impl Consumer for Counts {
            fn item(&mut self, _: &Item) {
                self.0 += 1;
            }
        }
        let room = Room { left: 7, total: 100, whose: "a test" };
        let (mut counts, enough) = (Counts::default(), AtomicBool::new(false));
        let ((), ended) =
            run(&mut counts, &mut |_| ControlFlow::Continue(()), &enough, &|| Some(room), |remote, how_far| {
                // Ends only because the other side says so.
                while how_far(Progress::default()).is_continue() {
                    (0..BATCH).for_each(|_| remote.item(&Item::Metadata { key: NameId(0), value: NameId(0) }));
                }
            });
        assert_eq!(ended, Ended::Full(room));
        assert_eq!(counts.0, (LOOK_EVERY as usize - 1) * BATCH, "nothing behind the look that found no room");
    }
}
