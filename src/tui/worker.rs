//! The worker thread: owns the models, answers what the screens ask.
//!
//! Questions wait in a [`Mailbox`] with one place for each kind, where a newer one replaces an older one, so nothing piles up
//! however fast keys come. Answers go back over a bounded channel. The interface thread never waits for this one.

use super::answers::{Answer, Ask, Question, Reply};
use super::asking;
use super::history::{History, Watch};
use super::words::Speaker;
use crate::feed::Progress;
use crate::sched::findings::Thresholds;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two looks at a growing segment when nobody asks; a recorder adds to it twice a second.
const LOOK: Duration = Duration::from_millis(250);

/// What the worker must know besides the data.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// From where on something is a finding.
    pub thresholds: Thresholds,
    /// Roles: name and the patterns of thread names that belong to it.
    pub roles: Vec<(String, Vec<String>)>,
}

/// The kinds of questions that wait side by side.
const PLACES: usize = 6;

fn place(ask: &Ask) -> usize {
    match ask {
        Ask::Overview { .. } | Ask::Growing { .. } | Ask::Thread { .. } | Ask::Cpu { .. } | Ask::Timeline { .. } => 0,
        Ask::Slice { .. } | Ask::WorstWait { .. } | Ask::Search { .. } => 1,
        Ask::Chain { .. } => 2,
        Ask::Compare { .. } => 3,
        Ask::Events { .. } => 4,
        Ask::Query { .. } => 5,
    }
}

/// Where questions wait; clones share one.
#[derive(Debug, Clone)]
pub struct Mailbox {
    places: Arc<Mutex<[Option<Question>; PLACES]>>,
    bell: Sender<()>,
    loaded: Arc<AtomicU32>,
}

/// The worker's end of a mailbox.
#[derive(Debug)]
pub struct Inbox {
    places: Arc<Mutex<[Option<Question>; PLACES]>>,
    bell: Receiver<()>,
    /// How much of a load is done, in percent; [`IDLE`] when none is going on.
    loaded: Arc<AtomicU32>,
}

const IDLE: u32 = u32::MAX;

/// A mailbox and its other end. When all mailboxes are gone the worker ends.
pub fn mailbox() -> (Mailbox, Inbox) {
    let (bell, rung) = bounded(1);
    let places = Arc::new(Mutex::new([const { None }; PLACES]));
    let loaded = Arc::new(AtomicU32::new(IDLE));
    (Mailbox { places: Arc::clone(&places), bell, loaded: Arc::clone(&loaded) }, Inbox { places, bell: rung, loaded })
}

impl Mailbox {
    /// How much of the load going on is done, in percent, if one is.
    pub fn loaded(&self) -> Option<u32> {
        Some(self.loaded.load(Ordering::Relaxed)).filter(|p| *p != IDLE)
    }

    /// Leaves a question; one of the same kind that still waits is replaced.
    pub fn post(&self, question: Question) {
        let at = place(&question.ask);
        // A panic elsewhere while the lock was held leaves plain data behind: still good.
        let mut places = self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        places[at] = Some(question);
        drop(places);
        // Full: the bell rings already.
        let _ = self.bell.try_send(());
    }
}

impl Inbox {
    /// The next question: picks and chains before the screen's own, which will be asked again anyway.
    fn take(&self) -> Option<Question> {
        let mut places = self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        [1, 2, 4, 3, 5, 0].into_iter().find_map(|i| places[i].take())
    }

    /// True when a question of this kind waits.
    fn waits(&self, at: usize) -> bool {
        self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at].is_some()
    }
}

/// Runs until the mailboxes or the receiver of answers are gone.
pub fn run(mut history: History, settings: &Settings, inbox: &Inbox, answers: &Sender<Answer>) {
    let mut speaker = Speaker::default();
    let mut trouble: Option<String> = None;
    loop {
        let more = match history.advance() {
            Ok(more) => more,
            Err(e) => {
                trouble = trouble.or(Some(e.to_string()));
                false
            }
        };
        if let Some(question) = inbox.take() {
            let at = place(&question.ask);
            let watch = |p: Progress| {
                let percent = (p.done * 100).checked_div(p.total).unwrap_or(0).min(100);
                inbox.loaded.store(u32::try_from(percent).unwrap_or(100), Ordering::Relaxed);
                inbox.waits(at)
            };
            let mut answer = answer(&mut history, settings, &question, &mut speaker, &watch);
            inbox.loaded.store(IDLE, Ordering::Relaxed);
            if let Some(why) = trouble.take() {
                answer.reply = Reply::Failed(why.into());
            }
            if answers.send(answer).is_err() {
                return;
            }
            continue;
        }
        if more {
            continue;
        }
        let gone = if history.is_live() {
            matches!(inbox.bell.recv_timeout(LOOK), Err(crossbeam_channel::RecvTimeoutError::Disconnected))
        } else {
            inbox.bell.recv().is_err()
        };
        if gone {
            return;
        }
    }
}

/// Answers one question.
pub fn answer(
    history: &mut History,
    settings: &Settings,
    question: &Question,
    speaker: &mut Speaker,
    watch: Watch<'_>,
) -> Answer {
    let reply = asking::reply(history, settings, question, speaker, watch);
    let reply = reply.unwrap_or_else(|e| Reply::Failed(e.to_string().into()));
    let (extent, clocks, notes) = (history.extent(), history.clocks(), history.notes());
    Answer { id: question.id, reply, labels: speaker.take(), extent, clocks, notes }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tui::answers::When;

    fn thread(id: u64, utid: u32) -> Question {
        Question { id, generation: 0, ask: Ask::Thread { utid, when: When::Latest(1), cells: 1 } }
    }

    #[test]
    fn a_newer_question_replaces_one_that_still_waits() {
        let (mailbox, inbox) = mailbox();
        for id in 0..1000 {
            mailbox.post(thread(id, 1));
        }
        let chain = Ask::Chain { utid: 1, at: 5, within: crate::sched::summary::Window { from: 0, to: 9 } };
        mailbox.post(Question { id: 2000, generation: 0, ask: chain });
        assert_eq!(inbox.take().unwrap().id, 2000, "what was asked for by hand comes first");
        assert_eq!(inbox.take().unwrap().id, 999);
        assert!(inbox.take().is_none());
        assert!(inbox.bell.try_recv().is_ok() && inbox.bell.try_recv().is_err(), "the bell rings once");
    }
}
