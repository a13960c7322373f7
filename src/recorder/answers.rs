//! What a running recorder answers: its status, and snapshots.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, bounded};

use super::clock;
use super::control::{ClientId, Reply};
use super::gauge::{Reading, forecast};
use super::haste::Haste;
use super::head::Moment;
use super::run::Recorder;
use super::snapshots::Merged;
use super::status::{Kept, Status};
use crate::sched::summary::Window;
use crate::store::StoreError;
use crate::store::catalog::Catalog;
use crate::store::snapshot::{self, Prepared, Taken};
use crate::units;

/// A snapshot whose frames are copied, about to be seen.
pub(super) struct Publishing {
    clients: Vec<ClientId>,
    shown: Receiver<Result<Taken, String>>,
    settled: Receiver<Result<(), String>>,
}

/// Its thread could not be started, or ended by a panic, which was printed.
const GONE: &str = "the snapshot was not written: see the recorder's log";

/// A longer snapshot is copied without haste, bytes: nothing else usual would run on that CPU for over a tenth of a second.
const MOST_IN_HASTE: u64 = 128 << 20;

impl Recorder {
    /// About once a second: what it costs, and a sign of life for the service manager.
    pub(super) fn tick(&mut self) {
        let cpu_ns = self.proc.own_usage().map_or(0, |u| u.cpu_ns);
        let events = self.live.lock().events;
        self.gauge.add(Reading { at: Instant::now(), events, cpu_ns });
        // Without a service manager this does nothing.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        let usage = self.proc.own_usage().unwrap_or_default();
        let (events_per_s, own_cpu) = self.gauge.rates();
        let now = clock::boot_now();
        let live = self.live.lock();
        let mut warnings: Vec<String> = live.problem.iter().map(|p| format!("not writing: {p}")).collect();
        warnings.extend(self.origin.warnings(live.sampled_hz));
        warnings.extend(self.reread.warnings());
        warnings.extend(self.settling.warnings());
        warnings.extend(live.unread.values().map(|why| format!("{why}; what happens there counts as lost")));
        if live.damaged > 0 {
            warnings.push(format!("{} ring-buffer pages could not be read to their end", live.damaged));
        }
        if live.untraced > 0 {
            warnings.push(format!(
                "the kernel did not trace {} switches: what those threads and CPUs did around them is unknown",
                live.untraced
            ));
        }
        let seconds = now.saturating_sub(self.started) as f64 / 1e9;
        let rate = if seconds > 0.0 { live.written as f64 / seconds } else { 0.0 };
        let store = &self.settings.store;
        let kept = Kept {
            max_bytes: store.max_bytes,
            forecast_s: forecast(rate, store.max_bytes, live.kept.bytes.saturating_add(live.kept.free), store.max_age),
            ..live.kept
        };
        Status {
            pid: std::process::id(),
            version: self.world.version.clone(),
            store: self.places.store.clone(),
            source: self.origin.describe(live.sampled_hz),
            sampled_hz: live.sampled_hz,
            instance: self.origin.instance_name().to_owned(),
            clock: self.origin.clock().to_owned(),
            now,
            started: self.started,
            segment: live.open_segment(),
            events: live.events,
            events_per_s,
            lost: live.lost.values().copied().collect(),
            own_cpu,
            own_cpu_ns: usage.cpu_ns,
            own_rss: usage.rss,
            untraced_switches: live.untraced,
            own_tids: usage.threads.iter().map(|t| t.tid).collect(),
            buffer_kb: self.buffer_kb,
            kept,
            snapshots: self.snapshots.0,
            last_snapshot: self.snapshots.1.clone(),
            warnings,
        }
    }

    /// Answers those whose snapshot is there by now, then takes the one whose time has come.
    pub(super) fn take_snapshots(&mut self, own: &mut Haste) {
        self.settling.look();
        match self.publishing.as_ref().map(|p| p.shown.try_recv()) {
            Some(Err(TryRecvError::Empty)) => return, // the others wait for its end
            Some(Ok(result)) => self.published(result),
            Some(Err(TryRecvError::Disconnected)) => self.published(Err(GONE.to_owned())),
            None => {}
        }
        if self.snapshot_due_in(Instant::now()).is_some_and(|due| due.is_zero()) {
            self.take_snapshot(own);
        }
    }

    /// How long until the next snapshot is to be begun; `None` where nobody waits, or something has to end first that will
    /// say so.
    pub(super) fn snapshot_due_in(&self, now: Instant) -> Option<Duration> {
        self.waiting.due_in(now).filter(|_| self.publishing.is_none() && !self.settling.is_full())
    }

    /// Brings everything to its end that was asked for, and to the disk; as long as that takes.
    pub(super) fn finish_snapshots(&mut self) {
        let mut own = Haste::alone();
        while self.publishing.is_some() || self.waiting.any() {
            match &self.publishing {
                Some(publishing) => {
                    let result = publishing.shown.recv().unwrap_or_else(|_| Err(GONE.to_owned()));
                    self.published(result);
                }
                None => self.take_snapshot(&mut own),
            }
        }
        self.settling.finish();
    }

    /// Copies the frames now; footer, name, and then the disk, are left to a thread of its own.
    fn take_snapshot(&mut self, own: &mut Haste) {
        let Some(merged) = self.waiting.take() else { return };
        let clients = merged.clients.clone();
        let ((show, shown), (settle, settled)) = (bounded(1), bounded(1));
        match self.snapshot(merged, own) {
            Ok(prepared) => {
                let (nudge, hurry) = (self.nudge.clone(), own.hand_down());
                // The recorder waits for both answers, so there is somebody to hear them.
                let publish = move || {
                    let haste = hurry();
                    match prepared.show() {
                        Ok((taken, still)) => {
                            let _ = show.send(Ok(taken));
                            let _ = nudge.write(1);
                            // Not before: whoever steps back may have to wait, and they would with it.
                            drop(haste);
                            let _ = settle.send(still.settle().map_err(|e| e.to_string()));
                        }
                        Err(e) => drop(show.send(Err(e.to_string()))),
                    }
                    let _ = nudge.write(1);
                };
                if let Err(e) = super::pipeline::spawn("dc-snapshot", publish) {
                    tracing::error!("snapshot: cannot start a thread: {e}");
                }
            }
            Err(e) => drop(show.send(Err(e.to_string()))),
        }
        self.publishing = Some(Publishing { clients, shown, settled });
    }

    fn published(&mut self, result: Result<Taken, String>) {
        let Some(Publishing { clients, settled, .. }) = self.publishing.take() else { return };
        let reply = match result {
            Ok(taken) => {
                let path = taken.file.path.clone();
                let took = taken.totals.snapshot.as_ref().map(|s| clock::boot_now().saturating_sub(s.requested_at));
                tracing::info!("snapshot {taken}, in {}", units::show::span(took.unwrap_or(0)));
                self.snapshots = (self.snapshots.0 + 1, Some(path.clone()));
                self.settling.push(path.clone(), settled);
                let window = taken.totals.window();
                Reply::Snapshot { path, from: window.from, to: window.to, bytes: taken.file.bytes }
            }
            Err(error) => {
                tracing::error!("snapshot: {error}");
                Reply::Error { error }
            }
        };
        self.waiting.taken(Instant::now());
        for client in clients {
            self.answer(client, &reply);
        }
    }

    /// `own`: the calling thread's.
    fn snapshot(&self, merged: Merged, own: &mut Haste) -> Result<Prepared, StoreError> {
        let crew = self.crew.hurry();
        let growing = self.flush();
        let to = growing.as_ref().map_or_else(clock::boot_now, |g| g.footer.totals.end);
        let request = snapshot::Request {
            boot: self.world.boot,
            window: Window { from: to.saturating_sub(merged.last_ns), to },
            reason: merged.reason,
            detail: merged.detail,
            label: merged.label,
            requested_at: merged.at,
        };
        let plan = snapshot::plan(&Catalog::open(&self.store)?, growing, request)?;
        let mut head = Vec::new();
        let empty = Vec::new();
        let moment = Moment {
            start: plan.window().from,
            clocks: plan.clocks().unwrap_or_else(clock::snapshot),
            stats: &[],
            own: self.own.get().unwrap_or(&empty),
            sampled_hz: self.live.lock().sampled_hz,
            // What the CPUs did then stands at the begin of the first frame that is copied.
            tracker: None,
        };
        self.world.head(&moment, &self.facts.names(), &mut head);
        note(&plan.note(), &mut head);
        drop(crew);
        let bytes = plan.bytes();
        let copy = || plan.prepare(&self.store, &head, self.settings.store.level);
        if bytes <= MOST_IN_HASTE { copy() } else { own.pause(copy) }
    }

    /// Where the last finished segment is (for a one-shot recording).
    pub fn last_finished(&self) -> Option<PathBuf> {
        self.live.lock().last_finished.clone()
    }
}

/// Why the snapshot was taken, for readers that know no footer.
fn note(note: &crate::store::footer::SnapshotNote, head: &mut Vec<u8>) {
    let windows = [("asked", note.asked), ("real", note.real)].map(|(k, w)| (k, format!("{}..{}", w.from, w.to)));
    let holes: Vec<String> = note.holes.iter().map(|w| format!("{}..{}", w.from, w.to)).collect();
    let holes = holes.join(" ");
    let pairs = [
        ("dashcam.snapshot.reason", note.reason.as_bytes()),
        ("dashcam.snapshot.detail", note.detail.as_bytes()),
        ("dashcam.snapshot.label", note.label.as_bytes()),
        ("dashcam.snapshot.asked_window", windows[0].1.as_bytes()),
        ("dashcam.snapshot.real_window", windows[1].1.as_bytes()),
        ("dashcam.snapshot.holes", holes.as_bytes()),
    ];
    crate::perfetto::encode::packets::metadata(&pairs, head);
}
