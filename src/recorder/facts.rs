//! The thread beside the capture path: names from procfs, kernel symbols, counters at an interval.
//!
//! It may take its time. What it learns becomes whole packets that the encoder puts into its next frame; what a head
//! needs it keeps in [`Names`] behind a mutex that is never held while anything is read.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender};
use rustc_hash::FxHashSet;

use super::blocked::SharedSymbols;
use super::clock;
use super::encoder::Hint;
use super::names::Names;
use super::tracker::Recent;
use super::triggers::{Fired, Triggers};
use crate::kernel::counters;
use crate::kernel::procfs::{Proc, Scan};
use crate::kernel::symbols::Symbols;
use crate::perfetto::encode::packets::{self, CounterSample, Process, Thread};
use crate::sched::event::Tid;

/// Files read from procfs before the thread pauses, and for how long it then does: at most some 6,000 files a second.
const BATCH: usize = 64;
const PAUSE: Duration = Duration::from_millis(10);
/// Hints taken in at one go: they come while the lock is held.
const MOST_HINTS: usize = 16 << 10;
/// Longest sleep without looking whether the recording ends.
const TICK: Duration = Duration::from_millis(500);
/// Ended lives are kept this long beyond what a snapshot reaches back, ns.
const DEAD_SLACK: u64 = 120_000_000_000;

/// What the facts thread shares with the others.
#[derive(Debug)]
pub struct Facts {
    names: Mutex<Names>,
    /// From the capture path; taken under the lock of `names` only, so that all are heard in their order.
    hints: Receiver<Hint>,
    scanned: (Mutex<bool>, Condvar),
    rescan: AtomicBool,
    stop: AtomicBool,
    /// Conditions that take a snapshot.
    pub triggers: Mutex<Triggers>,
    /// What triggers look at.
    pub recent: SharedRecent,
    /// Kernel symbols, once loaded.
    pub symbols: SharedSymbols,
}

impl Facts {
    /// Nothing is known yet; `hints` will tell.
    pub fn new(hints: Receiver<Hint>) -> Facts {
        Facts {
            names: Mutex::default(),
            hints,
            scanned: Default::default(),
            rescan: AtomicBool::default(),
            stop: AtomicBool::default(),
            triggers: Mutex::default(),
            recent: SharedRecent::default(),
            symbols: SharedSymbols::default(),
        }
    }

    /// The names; hold it shortly. Everything that was told until now is in them: a head that names a thread whose end the
    /// segment before has told would begin another life.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        // A panic of another thread while it held the lock leaves at worst one fact half told.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.hints.try_iter().take(MOST_HINTS).for_each(|hint| names.hint(&hint));
        names
    }

    /// Waits for a hint, at most `patience`; true if there is one, or nobody is left to tell any.
    fn wait_for_hint(&self, patience: Duration) -> bool {
        let mut select = Select::new();
        select.recv(&self.hints);
        select.ready_timeout(patience).is_ok()
    }

    /// Watches for these from now on.
    pub fn set_triggers(&self, triggers: Triggers) {
        *self.triggers.lock().unwrap_or_else(PoisonError::into_inner) = triggers;
    }

    /// Hints were dropped: everything has to be looked at again.
    pub fn ask_rescan(&self) {
        self.rescan.store(true, Ordering::Relaxed);
    }

    /// Waits until symbols are loaded and all processes were read once, at most `patience`.
    pub fn wait_scanned(&self, patience: Duration) {
        let done = self.scanned.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether it came in time does not matter: what is missing comes with later frames.
        drop(self.scanned.1.wait_timeout_while(done, patience, |done| !*done));
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The scheduler's extremes since they were last looked at.
#[derive(Debug, Default)]
pub struct SharedRecent {
    wait: AtomicU64,
    blocked: AtomicU64,
    ready: AtomicU64,
}

impl SharedRecent {
    /// Adds those of one frame.
    pub fn add(&self, recent: &Recent) {
        self.wait.fetch_max(recent.wait, Ordering::Relaxed);
        self.blocked.fetch_max(recent.blocked, Ordering::Relaxed);
        self.ready.fetch_max(u64::from(recent.ready), Ordering::Relaxed);
    }

    fn take(&self) -> [(&'static str, u64); 3] {
        let take = |value: &AtomicU64| value.swap(0, Ordering::Relaxed);
        [("run_queue_latency", take(&self.wait)), ("blocked", take(&self.blocked)), ("ready", take(&self.ready))]
    }
}

/// What the thread works with.
pub struct FactsThread {
    /// Shared state.
    pub facts: Arc<Facts>,
    /// Whole packets for the next frame.
    pub packets: Sender<Vec<u8>>,
    /// procfs.
    pub proc: Proc,
    /// Where kernel symbols are; `None`: not needed.
    pub kallsyms: Option<&'static Path>,
    /// Counters and how often; zero: never.
    pub counters: (counters::Counters, Duration),
    /// How far a snapshot reaches back, ns.
    pub reach: u64,
    /// Who was born before this instant was born before the recording, and no event tells of it; ns on CLOCK_BOOTTIME.
    pub since: u64,
    /// What happens when one holds.
    pub fired: Box<dyn Fn(Fired) + Send>,
}

impl FactsThread {
    /// Works until told to stop.
    pub fn run(mut self) {
        // Symbols first: the start waits for the scan, so threads that block from then on get their function.
        if let Some(path) = self.kallsyms {
            match Symbols::load(path) {
                // Only this thread sets it, once.
                Ok(symbols) => drop(self.facts.symbols.set(symbols)),
                Err(e) => tracing::warn!("blocked functions stay without names: {e}"),
            }
        }
        self.scan();
        let interval = self.counters.1;
        let mut next_round = Instant::now() + interval;
        while !self.facts.stopped() {
            self.take_hints(interval, next_round);
            if self.facts.rescan.swap(false, Ordering::Relaxed) {
                self.scan();
            }
            self.read_due();
            if !interval.is_zero() && Instant::now() >= next_round {
                // Late by more than one interval (suspend, overload): no burst to catch up.
                next_round = (next_round + interval).max(Instant::now());
                self.count();
            }
        }
    }

    /// Sleeps until a hint comes or something is due, and takes what is there.
    fn take_hints(&mut self, interval: Duration, next_round: Instant) {
        let mut wait = TICK;
        if !interval.is_zero() {
            wait = wait.min(next_round.saturating_duration_since(Instant::now()));
        }
        if let Some(due) = self.facts.names().next_due_at() {
            wait = wait.min(Duration::from_nanos(due.saturating_sub(clock::boot_now())));
        }
        if self.facts.wait_for_hint(wait) {
            // Hints that come one by one would wake this thread one by one: let some gather.
            std::thread::sleep(PAUSE);
            let before = clock::boot_now().saturating_sub(self.reach + DEAD_SLACK);
            self.facts.names().forget_dead(before);
        }
    }

    /// Reads all processes and threads, some at a time.
    fn scan(&mut self) {
        let began = clock::boot_now();
        let mut seen: FxHashSet<Tid> = FxHashSet::default();
        let mut ts = began;
        match Scan::new(self.proc.clone()) {
            Ok(mut scan) => {
                while let Some(batch) = scan.next_batch(BATCH) {
                    if self.facts.stopped() {
                        return;
                    }
                    seen.extend(batch.threads.iter().map(|t| t.tid));
                    let (mut processes, mut threads) = (Vec::new(), Vec::new());
                    let mut names = self.facts.names();
                    for p in batch.processes.iter() {
                        if !names.is_too_young(p, self.since, ts) && names.learn_process(p, ts) {
                            processes.extend(names.process(p.pid).cloned());
                        }
                    }
                    for t in batch.threads.iter() {
                        if names.learn_thread(t, ts) {
                            threads.extend(names.thread(t.tid).cloned());
                        }
                    }
                    drop(names);
                    self.send(ts, &processes, &threads);
                    ts = clock::boot_now();
                    // The first scan is waited for; later ones have time.
                    let first = !*self.facts.scanned.0.lock().unwrap_or_else(PoisonError::into_inner);
                    std::thread::sleep(if first { PAUSE / 10 } else { PAUSE });
                }
                self.facts.names().only_these(&seen, began);
            }
            Err(e) => tracing::warn!("names of processes are not known: {e}"),
        }
        *self.facts.scanned.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.facts.scanned.1.notify_all();
    }

    /// Reads the processes whose time has come.
    fn read_due(&mut self) {
        let (mut processes, ts) = (Vec::new(), clock::boot_now());
        for _ in 0..BATCH {
            let Some(pid) = self.facts.names().next_due(ts) else { break };
            // Gone, or not ours to see: what the events told stays.
            let Ok(read) = self.proc.process(pid) else { continue };
            let mut names = self.facts.names();
            if names.learn_process(&read, ts) {
                processes.extend(names.process(pid).cloned());
            }
        }
        self.send(ts, &processes, &[]);
    }

    /// `ts`: from before they were read, when each of them lived.
    fn send(&self, ts: u64, processes: &[Process], threads: &[Thread]) {
        if processes.is_empty() && threads.is_empty() {
            return;
        }
        let mut out = Vec::new();
        packets::people_read(ts, processes, threads, &mut out);
        self.hand_over(out);
    }

    fn hand_over(&self, packets: Vec<u8>) {
        // A full channel means that the encoder lags: the facts come with the next head instead.
        if self.packets.try_send(packets).is_err() {
            tracing::debug!("the encoder lags, facts wait for the next segment's head");
        }
    }

    fn watch(&mut self, ts: u64, samples: &[counters::Sample]) {
        let mut triggers = self.facts.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fired = triggers.counters(ts, samples);
        for (name, value) in self.facts.recent.take() {
            fired.extend(triggers.value(ts, name.as_bytes(), value as f64));
        }
        drop(triggers);
        fired.into_iter().for_each(|f| (self.fired)(f));
    }

    fn count(&mut self) {
        let ts = clock::boot_now();
        let round = self.counters.0.round();
        for missing in &round.missing {
            tracing::info!("no {} counters: {}", missing.source.word(), missing.why);
        }
        self.watch(ts, &round.samples);
        let samples: Vec<CounterSample> =
            round.samples.into_iter().map(|s| CounterSample { ts, name: s.name, cpu: s.cpu, value: s.value }).collect();
        if !samples.is_empty() {
            let mut out = Vec::new();
            packets::counters(&samples, &mut out);
            self.hand_over(out);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_head_does_not_name_who_was_told_to_have_ended() {
        let (send, hints) = crossbeam_channel::bounded(4);
        let facts = Facts::new(hints);
        send.send(Hint::New { ts: 10, tid: 7, parent: 1, clone_flags: 0, comm: [b'x'; 16] }).unwrap();
        assert!(facts.wait_for_hint(Duration::ZERO), "it is not taken by waiting for it");
        assert_eq!(facts.names().thread(7).unwrap().start, Some(10));
        assert!(!facts.wait_for_hint(Duration::ZERO));
        // No thread of facts is there to take this one.
        send.send(Hint::Gone { ts: 20, tid: 7 }).unwrap();
        let mut head = Vec::new();
        facts.names().write_tree(30, &mut head);
        let mut living = Vec::new();
        facts.names().write_tree(15, &mut living);
        assert!(head.len() < living.len(), "whoever ended before the head begins is not in it");
        drop(send);
        assert!(facts.wait_for_hint(Duration::MAX), "the encoder has ended");
    }
}
