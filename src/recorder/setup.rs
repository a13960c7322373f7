//! Puts a recorder's threads together: the facts thread, and the capture path of either origin with what both share.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use nix::sys::eventfd::EventFd;

use super::blocked::Stacks;
use super::encode::Encode;
use super::encoder::{Encoder, EncoderParts, Hint};
use super::facts::{Facts, FactsThread};
use super::haste::Crew;
use super::head::World;
use super::live::Live;
use super::origin::Origin;
use super::pipeline::{Parts, Pipeline, Produce};
use super::plan::Plan;
use super::reader::{ReaderParts, ReaderThread, Source};
use super::run::{RunError, io_error};
use super::sample_encoder::SampleEncoder;
use super::sampling::{FULL_RATE, SamplingThread};
use super::settings::Settings;
use super::triggers::{Fired, Triggers};
use super::{clock, machine, writer};
use crate::kernel::cpu_reader::CpuReader;
use crate::kernel::instance::Instance;
use crate::kernel::procfs::Proc;
use crate::kernel::stats::CpuStats;
use crate::sched::event::{ClockSnapshot, Tid};
use crate::store::Store;
use crate::store::footer::Mark;
use crate::store::retention::Clocks;

/// Hints that may wait for the facts thread.
const HINTS: usize = 16 << 10;
/// Packets of facts that may wait for the encoder.
const PACKETS: usize = 256;
/// How long the first look at all processes may delay the start.
const FIRST_SCAN: Duration = Duration::from_millis(500);

/// What runs between the facts thread and the others.
pub(super) struct Channels {
    hints: Sender<Hint>,
    packets: Receiver<Vec<u8>>,
    /// Triggers that fired.
    pub(super) fired: Receiver<Fired>,
}

type FactsStarted = (Arc<Facts>, JoinHandle<()>, Channels);

/// Starts the facts thread and waits a moment for its first scan.
pub(super) fn start_facts(
    settings: &Settings,
    origin: &Origin,
    nudge: &Arc<EventFd>,
    crew: &Crew,
) -> Result<FactsStarted, RunError> {
    let (hints, take_hints) = bounded(HINTS);
    let (send_packets, packets) = bounded(PACKETS);
    let (send_fired, fired) = unbounded();
    let facts = Arc::new(Facts::new(take_hints));
    facts.set_triggers(Triggers::new(&settings.triggers));
    let nudge = nudge.clone();
    let thread = FactsThread {
        facts: facts.clone(),
        packets: send_packets,
        proc: Proc::system().with_command_lines(settings.capture.command_lines),
        kallsyms: origin.has_stacks().then_some(Path::new("/proc/kallsyms")),
        counters: machine::counters(&settings.counters),
        reach: u64::try_from(settings.snapshot_last.as_nanos()).unwrap_or(u64::MAX),
        since: clock::boot_now(),
        fired: Box::new(move |f| {
            let _ = send_fired.send(f);
            let _ = nudge.write(1);
        }),
    };
    let handle = crew.spawn("dc-facts", move || thread.run()).map_err(io_error("start a thread"))?;
    facts.wait_scanned(FIRST_SCAN);
    Ok((facts, handle, Channels { hints, packets, fired }))
}

/// What a capture path needs, wherever its input comes from.
pub(super) struct Setup<'a> {
    pub(super) settings: &'a Settings,
    pub(super) store: &'a Store,
    pub(super) facts: &'a Arc<Facts>,
    pub(super) live: &'a Arc<Live>,
    pub(super) world: &'a Arc<World>,
    pub(super) own: &'a Arc<OnceLock<Vec<Tid>>>,
    pub(super) began: ClockSnapshot,
    pub(super) channels: Channels,
    pub(super) crew: &'a Crew,
}

impl Setup<'_> {
    /// Starts to record with what [`Origin::open`] gave.
    pub(super) fn start(self, origin: &Origin, readers: Vec<CpuReader>) -> Result<Pipeline, RunError> {
        match origin {
            Origin::Ftrace(instance) => self.ftrace(instance, readers),
            Origin::Proc { marks, .. } => self.proc(marks.1.clone()),
        }
    }

    fn ftrace(self, instance: &Arc<Instance>, readers: Vec<CpuReader>) -> Result<Pipeline, RunError> {
        let stats: Vec<_> = readers.iter().filter_map(|r| Some((r.cpu(), instance.stats(r.cpu()).ok()?))).collect();
        let plan = Plan::new(instance.events());
        for event in &plan.not_understood {
            tracing::warn!("{event} has an unknown layout on this kernel; its events are kept but not understood");
        }
        let parts = EncoderParts {
            layout: *instance.layout(),
            plan,
            states: instance.state_layout().into(),
            stacks: Stacks::new(self.facts.symbols.clone()),
            hints: self.channels.hints.clone(),
        };
        let asked = instance.clone();
        let source = Source {
            readers,
            stats: Box::new(move |cpu| asked.stats(cpu).ok()),
            layout: *instance.layout(),
            wakes: instance.wakes_at_percent(),
            clock: instance.clock(),
        };
        let encoder = Encoder::new(parts, &stats, self.began.boot);
        instance.start()?;
        self.pipeline(encoder, stats, |parts, began| ReaderThread::new(source, parts, began))
    }

    fn proc(self, marks: Receiver<Mark>) -> Result<Pipeline, RunError> {
        let proc = Proc::system();
        let sampler = SamplingThread::sampler(&proc, self.began.boot)?;
        let encoder = SampleEncoder::new(self.began.boot, FULL_RATE, self.channels.hints.clone());
        self.live.lock().sampled_hz = encoder.sampled_hz();
        self.pipeline(encoder, Vec::new(), |parts, began| SamplingThread::new(proc, sampler, marks, parts, began))
    }

    fn pipeline<E: Encode, P: Produce>(
        self,
        encoder: E,
        stats: Vec<(u32, CpuStats)>,
        reader: impl FnOnce(ReaderParts<E::Input>, &ClockSnapshot) -> P,
    ) -> Result<Pipeline, RunError> {
        let (boot, real_at_boot) = (self.world.boot, self.began.real.saturating_sub(self.began.boot));
        let clocks = Box::new(move || Clocks { boot, now: clock::boot_now(), real_at_boot });
        let store = &self.settings.store;
        let (writer, keeper) = writer::threads(self.store, self.live, (store.segment, store.sync_interval), clocks);
        let parts = Parts {
            encoder,
            stats,
            writer,
            keeper,
            packets: self.channels.packets,
            facts: self.facts.clone(),
            live: self.live.clone(),
            world: self.world.clone(),
            own: self.own.clone(),
            level: store.level,
            segment: (!store.segment.is_zero()).then_some(store.segment),
            began: self.began,
            crew: self.crew.clone(),
        };
        Pipeline::start(parts, reader).map_err(io_error("start the capture threads"))
    }
}
