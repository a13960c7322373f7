//! One recorder from start to stop: what is set up in which order, and what happens while it runs.
//!
//! [`Recorder::start`] records; [`Recorder::serve`] answers requests until it is told to stop; [`Recorder::stop`] leaves
//! everything as it was found. The same code runs as a service and inside the viewer's process.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::answers::Publishing;
use super::capture::Capture;
use super::clock;
use super::control::{ClientId, Reply, Request, Server};
use super::facts::Facts;
use super::gauge::Gauge;
use super::haste::{Crew, Haste};
use super::head::World;
use super::live::Live;
use super::origin::Origin;
use super::pipeline::{Pipeline, spawn};
use super::places::Places;
use super::reader::Command;
use super::reread::{Outcome, Reread};
use super::settings::Settings;
use super::settling::Settling;
use super::signals::{Pending, Signals};
use super::snapshots::{self, Asked, Waiting};
use super::triggers::{Fired, Triggers};
use super::{machine, setup};
use crate::kernel::instance::InstanceError;
use crate::kernel::procfs::{Proc, ReadError};
use crate::sched::event::Tid;
use crate::store::fresh::Fresh;
use crate::store::lock::{Holder, RecorderLock};
use crate::store::recover::{self, recover};
use crate::store::retention::Limits;
use crate::store::summarise::SummaryProbe;
use crate::store::{Store, StoreError};

/// How long a request may wait for the capture path.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the start waits for what a dead recorder left to be finished.
const RECOVERY: Duration = Duration::from_secs(10);
/// Readings of own cost, watchdog.
const TICK: Duration = Duration::from_secs(1);

/// Why a recorder cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel says no.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// procfs says no.
    #[error("processes cannot be sampled: {0}")]
    Proc(#[from] ReadError),
    /// The operating system says no.
    #[error("cannot {what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// The answer.
        why: io::Error,
    },
}

pub(super) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
    move |why| RunError::Io { what: what.into(), why }
}

/// Reads the configuration again; the error is for the log and the status.
pub type Reload = Box<dyn Fn() -> Result<Reread, String> + Send>;

/// A recorder that records.
pub struct Recorder {
    pub(super) settings: Settings,
    pub(super) store: Store,
    pub(super) places: Places,
    pub(super) origin: Origin,
    pub(super) pipeline: Option<Pipeline>,
    pub(super) crew: Crew,
    pub(super) facts: Arc<Facts>,
    facts_thread: Option<JoinHandle<()>>,
    pub(super) live: Arc<Live>,
    pub(super) world: Arc<World>,
    pub(super) own: Arc<OnceLock<Vec<Tid>>>,
    server: Option<Server>,
    fired: Receiver<Fired>,
    pub(super) nudge: Arc<EventFd>,
    pub(super) waiting: Waiting,
    pub(super) publishing: Option<Publishing>,
    pub(super) settling: Settling,
    pub(super) gauge: Gauge,
    pub(super) proc: Proc,
    pub(super) started: u64,
    pub(super) snapshots: (u64, Option<PathBuf>),
    pub(super) reread: Outcome,
    pub(super) buffer_kb: u64,
    rotations: Vec<(ClientId, Receiver<()>)>,
    stopping: Vec<ClientId>,
    _lock: RecorderLock,
}

/// What ends [`Recorder::serve`], besides a request or a signal.
#[derive(Default)]
pub struct Serve<'a> {
    /// Signals, if this recorder gets the process's.
    pub signals: Option<&'a Signals>,
    /// Ends after this long.
    pub duration: Option<Duration>,
    /// For HUP.
    pub reload: Option<Reload>,
    /// Readable when the owner wants it to end.
    pub quit: Option<Arc<EventFd>>,
    /// Called about once a second.
    pub on_tick: Option<&'a mut dyn FnMut(&mut Recorder)>,
}

impl Recorder {
    /// Begins to record: takes the store, finishes what a dead recorder left, sets the kernel up, listens. A start that fails
    /// leaves no folder behind that it made.
    pub fn start(settings: Settings, places: Places) -> Result<Recorder, RunError> {
        let fresh = Fresh::before(&places.store);
        let recorder = Recorder::begin(settings, places)?;
        fresh.keep();
        Ok(recorder)
    }

    fn begin(settings: Settings, places: Places) -> Result<Recorder, RunError> {
        let store = Store::create(&places.store)?;
        let now = clock::snapshot();
        let holder = Holder {
            pid: i32::try_from(std::process::id()).unwrap_or(0),
            started: now.real,
            note: format!("instance {}", settings.capture.instance),
        };
        let lock = RecorderLock::acquire(&store, &holder)?;
        places.make_runtime().map_err(io_error(format!("make {}", places.runtime.display())))?;
        // Beside the recording: a writer's lock on its file tells left-overs from what grows, and folding a large one may
        // take seconds that must not be missing.
        let left = store.clone();
        let (finished, leftovers) = bounded(1);
        let recovery = move || {
            finish_leftovers(&left);
            // Whoever waited may have gone on.
            let _ = finished.send(());
        };
        spawn("dc-recover", recovery).map_err(io_error("start a thread"))?;
        // Before the kernel is touched: whoever may not ask is a mistake in the settings. Who asks by now waits.
        let server = Server::bind(&places.socket(), &settings.control)
            .map_err(io_error(format!("listen at {}", places.socket().display())))?;
        let (origin, readers) = Origin::open(&settings.capture)?;
        let nudge = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let nudge = Arc::new(nudge.map_err(|e| io_error("make an eventfd")(e.into()))?);
        let live = Arc::new(Live::default());
        live.lock().limits = limits(&settings);
        let crew = Crew::default();
        let (facts, facts_thread, channels) = setup::start_facts(&settings, &origin, &nudge, &crew)?;
        let world = Arc::new(machine::world(&settings, &origin));
        let own = Arc::new(OnceLock::new());
        let began = clock::snapshot();
        let fired = channels.fired.clone();
        let mut capture = Capture { origin, pipeline: None, facts, facts_thread: Some(facts_thread) };
        let (origin, facts) = (&capture.origin, &capture.facts);
        let setup = setup::Setup {
            settings: &settings,
            store: &store,
            facts,
            live: &live,
            world: &world,
            own: &own,
            began,
            channels,
            crew: &crew,
        };
        let pipeline = match setup.start(origin, readers) {
            Ok(pipeline) => pipeline,
            Err(e) => return Err(capture.unwind(e)),
        };
        let proc = Proc::system();
        let own_tids = proc.own_usage().map(|u| u.threads.iter().map(|t| t.tid).collect()).unwrap_or_default();
        // Set once, here; only now can a head name the recorder's own threads, so the first cycle begins.
        let _ = own.set(own_tids);
        pipeline.nudge();
        capture.pipeline = Some(pipeline);
        // Ready means that the store is in order, too, unless that takes long: a service manager that gives a start up for
        // late would kill a recorder that records, and leave one more left-over, larger than the one before.
        if leftovers.recv_timeout(RECOVERY) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("what a dead recorder left is large; it is finished beside the recording");
        }
        if let Err(e) = places.write_pid() {
            return Err(capture.unwind(io_error(format!("write {}", places.pid_file().display()))(e)));
        }
        let Capture { origin, pipeline, facts, facts_thread } = capture;
        let buffer_kb = origin.buffer_kb() / (world.topology.len().max(1) as u64);
        tracing::info!(store = %places.store.display(), source = origin.describe(None), "recording");
        Ok(Recorder {
            settings,
            store,
            places,
            origin,
            pipeline,
            crew,
            facts,
            facts_thread,
            live,
            world,
            own,
            server: Some(server),
            fired,
            nudge,
            waiting: Waiting::default(),
            publishing: None,
            settling: Settling::default(),
            gauge: Gauge::default(),
            proc,
            started: began.boot,
            snapshots: (0, None),
            reread: Outcome::default(),
            buffer_kb,
            rotations: Vec::new(),
            stopping: Vec::new(),
            _lock: lock,
        })
    }

    /// Answers requests until told to stop, then stops.
    pub fn serve(mut self, mut with: Serve<'_>) -> Result<(), RunError> {
        let begin = Instant::now();
        let mut next_tick = begin;
        let mut haste = Haste::alone();
        loop {
            let now = Instant::now();
            if with.duration.is_some_and(|d| now - begin >= d) {
                break;
            }
            if now >= next_tick {
                next_tick = now + TICK;
                // It has time, unless somebody waits for a snapshot: whoever steps back may be late for its end.
                match self.publishing.is_some() || self.waiting.any() {
                    true => self.each_second(&mut with),
                    false => haste.pause(|| self.each_second(&mut with)),
                }
            }
            let left = with.duration.map_or(TICK, |d| d.saturating_sub(now - begin));
            self.wait(next_tick.saturating_duration_since(now).min(left), &with);
            let pending = with.signals.map(Signals::take).unwrap_or_default();
            let quit = with.quit.as_ref().is_some_and(|q| q.read().is_ok());
            self.signals(pending, with.reload.as_ref());
            self.requests();
            self.take_snapshots(&mut haste);
            let broken = self.pipeline.as_ref().is_some_and(|p| !p.is_whole());
            if broken {
                tracing::error!("a thread of the capture path ended by itself; stopping");
            }
            if pending.stop || quit || broken || !self.stopping.is_empty() {
                break;
            }
        }
        drop(haste);
        self.stop()
    }

    fn each_second(&mut self, with: &mut Serve<'_>) {
        self.tick();
        if let Some(on_tick) = &mut with.on_tick {
            on_tick(self);
        }
    }

    /// Waits for a request, a signal, or news of a snapshot.
    fn wait(&self, timeout: Duration, with: &Serve<'_>) {
        let timeout = self.snapshot_due_in(Instant::now()).map_or(timeout, |due| due.min(timeout));
        let timeout = if self.rotations.is_empty() { timeout } else { timeout.min(Duration::from_millis(5)) };
        let mut fds = vec![PollFd::new(self.nudge.as_fd(), PollFlags::POLLIN)];
        fds.extend(with.signals.map(|s| PollFd::new(s.fd(), PollFlags::POLLIN)));
        fds.extend(with.quit.as_ref().map(|q| PollFd::new(q.as_fd(), PollFlags::POLLIN)));
        if let Some(server) = &self.server {
            let flags = |write| if write { PollFlags::POLLOUT } else { PollFlags::POLLIN };
            fds.extend(server.fds().map(|(fd, write)| PollFd::new(fd, flags(write))));
        }
        let millis = timeout.as_micros().div_ceil(1000);
        let timeout =
            i32::try_from(millis).ok().and_then(|m| PollTimeout::try_from(m).ok()).unwrap_or(PollTimeout::MAX);
        // Interrupted by a signal: the loop looks at everything anyway.
        let _ = poll(&mut fds, timeout);
        let _ = self.nudge.read();
    }

    fn signals(&mut self, pending: Pending, reload: Option<&Reload>) {
        for _ in 0..pending.snapshot {
            self.ask_snapshot(None, None, String::new(), "signal", String::new());
        }
        if pending.rotate > 0 {
            self.rotate(None);
        }
        if let (true, Some(reload)) = (pending.reload, reload) {
            match reload() {
                Ok(reread) => self.adopt(reread),
                Err(e) => {
                    tracing::error!("the configuration stays as it was: {e}");
                    self.reread.failed = Some(e);
                }
            }
        }
        for fired in self.fired.try_iter().collect::<Vec<_>>() {
            tracing::warn!("trigger {}: {}", fired.label, fired.detail);
            self.ask_snapshot(None, fired.last_ns, fired.label, "trigger", fired.detail);
        }
    }

    /// Takes over what can change while recording; says what needs a restart.
    fn adopt(&mut self, reread: Reread) {
        self.reread = Outcome { waiting: reread.at_next_start(&self.settings), failed: None };
        let Reread { settings, .. } = reread;
        if settings.control != self.settings.control
            && let Some(server) = &self.server
        {
            match server.open_to(&settings.control) {
                Ok(()) => self.settings.control.clone_from(&settings.control),
                Err(e) => self.reread.failed = Some(format!("[control]: {e}")),
            }
        }
        self.settings.adopt(settings);
        self.live.lock().limits = limits(&self.settings);
        self.facts.set_triggers(Triggers::new(&self.settings.triggers));
        tracing::info!("configuration read again");
        self.reread.warnings().iter().for_each(|w| tracing::warn!("{w}"));
    }

    fn requests(&mut self) {
        let now = Instant::now();
        let Some(server) = &mut self.server else { return };
        for (client, request) in server.turn(now) {
            self.request(client, request);
        }
        let done: Vec<ClientId> = self
            .rotations
            .extract_if(.., |(_, done)| done.try_recv() != Err(crossbeam_channel::TryRecvError::Empty))
            .map(|r| r.0)
            .collect();
        for client in done {
            self.answer(client, &Reply::Done {});
        }
    }

    fn request(&mut self, client: ClientId, request: Request) {
        let reply = match request {
            Request::Status {} => Reply::Status(Box::new(self.status())),
            Request::Snapshot { last_ns, label, why } => {
                let why = if why.is_empty() { "command" } else { &why };
                // Where no label is given, the reason is what the file is called by.
                let label = label.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty());
                let sensible = snapshots::sensible(last_ns, label.as_deref());
                match sensible.and_then(|()| snapshots::sensible(None, Some(why))) {
                    Ok(()) => {
                        let label = label.unwrap_or_default();
                        return self.ask_snapshot(Some(client), last_ns, label, why, String::new());
                    }
                    Err(error) => Reply::Error { error },
                }
            }
            Request::Rotate {} => return self.rotate(Some(client)),
            Request::Mark { text } => match self.origin.mark(&text) {
                Ok(()) => Reply::Done {},
                Err(error) => Reply::Error { error },
            },
            Request::Stop {} => return self.stopping.push(client),
        };
        self.answer(client, &reply);
    }

    pub(super) fn answer(&mut self, client: ClientId, reply: &Reply) {
        if let Some(server) = &mut self.server {
            server.answer(client, reply, Instant::now());
        }
    }

    fn ask_snapshot(
        &mut self,
        client: Option<ClientId>,
        last_ns: Option<u64>,
        label: String,
        why: &str,
        detail: String,
    ) {
        let default = u64::try_from(self.settings.snapshot_last.as_nanos()).unwrap_or(u64::MAX);
        let last_ns = last_ns.unwrap_or(default);
        self.waiting.push(Asked { client, last_ns, label, reason: why.into(), detail, at: clock::boot_now() });
    }

    fn rotate(&mut self, client: Option<ClientId>) {
        let Some(pipeline) = &self.pipeline else { return };
        let (send, receive) = bounded(1);
        pipeline.ask(Command::Rotate(send));
        self.rotations.extend(client.map(|c| (c, receive)));
    }

    /// Sends a command and waits for its answer.
    pub(super) fn flush(&self) -> Option<crate::store::snapshot::Growing> {
        let (send, receive) = bounded(1);
        self.pipeline.as_ref()?.ask(Command::Flush(send));
        receive.recv_timeout(ANSWER).ok().flatten()
    }

    /// Finishes the segment, restores tracefs, lets go of the store.
    pub fn stop(mut self) -> Result<(), RunError> {
        // Who asked for a snapshot just before the end gets it.
        self.finish_snapshots();
        let Recorder { origin, pipeline, facts, facts_thread, mut server, stopping, rotations, places, .. } = self;
        let ended = Capture { origin, pipeline, facts, facts_thread }.end();
        // Whoever asked to stop learns it when everything is as it was before.
        if let Some(mut server) = server.take() {
            let clients = stopping.into_iter().chain(rotations.into_iter().map(|r| r.0));
            clients.for_each(|c| server.answer(c, &Reply::Done {}, Instant::now()));
            server.finish(Duration::from_millis(500));
        }
        // A pid file that cannot be removed is overwritten by the next recorder.
        let _ = std::fs::remove_file(places.pid_file());
        tracing::info!("stopped");
        Ok(ended?)
    }
}

fn limits(settings: &Settings) -> (Limits, f64) {
    let age = u64::try_from(settings.store.max_age.as_nanos()).unwrap_or(u64::MAX);
    let limits = Limits { max_bytes: Some(settings.store.max_bytes), max_age: Some(age), min_free: None };
    (limits, settings.store.min_free)
}

fn finish_leftovers(store: &Store) {
    let done = match recover(store, &mut || Box::new(SummaryProbe::new())) {
        Ok(done) => done,
        Err(e) => return tracing::warn!("what a dead recorder left stays as it is: {e}"),
    };
    for recovery in done {
        match recovery.outcome {
            recover::Outcome::Finished { path, frames, cut, .. } => {
                let what = if path.starts_with(store.snapshots_dir()) { "snapshot" } else { "segment" };
                tracing::warn!(path = %path.display(), frames, cut, "finished a {what} that a dead recorder left");
            }
            recover::Outcome::Deleted { bytes } => {
                tracing::warn!(path = %recovery.found.display(), bytes, "deleted an empty left-over")
            }
            recover::Outcome::Left(e) => tracing::warn!("a left-over stays as it is: {e}"),
        }
    }
}
