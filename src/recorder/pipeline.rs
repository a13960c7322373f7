//! The capture path: reader → encoder and compressor → writer, over bounded channels. Reader and encoder are a pair: of
//! ring buffers, or of procfs.
//!
//! This module has the encoder's thread, which decides where frames and segments end, and puts the threads together.
//! The encoder itself ([`super::encoder`]) knows neither thread nor file.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::clock;
use super::encode::Encode;
use super::facts::Facts;
use super::haste::Crew;
use super::head::{Moment, World};
use super::live::Live;
use super::reader::{Batch, Command, CycleEnd, ReaderParts};
use super::writer::{Frame, KeeperThread, ToWriter, WriterThread};
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::packets;
use crate::sched::event::{ClockSnapshot, Tid};
use crate::sched::summary::Window;
use crate::store::footer::Foremost;
use crate::store::frame::FrameCompressor;
use crate::store::index::{FrameFacts, FrameKind};

/// Batches that may wait for the encoder; with the pool of page buffers this bounds memory.
const BATCHES: usize = 8;
/// Frames that may wait for the writer, each about 100 KiB compressed.
const FRAMES: usize = 32;

/// The thread that reads: it makes batches until it is told to stop.
pub trait Produce: Send + 'static {
    /// What its thread is called.
    const NAME: &str;

    /// To be added to times of what it reads to get the boot clock.
    fn offset(&self) -> i64 {
        0
    }

    /// Works until told to stop, or until the encoder is gone.
    fn run(self);
}

/// What the encoder's thread works with.
pub struct EncoderThread<E: Encode> {
    /// The encoder.
    pub encoder: E,
    /// From the reader.
    pub batches: Receiver<Batch<E::Input>>,
    /// Emptied buffers back to the reader.
    pub free: Sender<Vec<Vec<u8>>>,
    /// To the writer.
    pub frames: Sender<ToWriter>,
    /// Whole packets from the facts thread.
    pub packets: Receiver<Vec<u8>>,
    /// Names for heads.
    pub facts: Arc<Facts>,
    /// Shared numbers.
    pub live: Arc<Live>,
    /// What does not change.
    pub world: Arc<World>,
    /// Threads of the recorder, known once all run.
    pub own: Arc<OnceLock<Vec<Tid>>>,
    /// zstd.
    pub compressor: FrameCompressor,
}

/// Where the segment being encoded began.
#[derive(Debug, Clone, Copy)]
struct Begun {
    from: u64,
    clocks: ClockSnapshot,
}

struct Working<E: Encode> {
    parts: EncoderThread<E>,
    begun: Option<Begun>,
    reached: u64,
    raw: Vec<u8>,
    stats: Vec<(u32, CpuStats)>,
    marks: (Foremost, u64),
    gaps: Vec<Window>,
}

impl<E: Encode> EncoderThread<E> {
    /// Works until the reader is gone; `from`: where the first segment begins.
    pub fn run(self, from: &ClockSnapshot, stats: Vec<(u32, CpuStats)>) {
        let batches = self.batches.clone();
        let mut working = Working {
            parts: self,
            begun: None,
            reached: from.boot,
            raw: Vec::new(),
            stats,
            marks: Default::default(),
            gaps: Vec::new(),
        };
        for batch in batches {
            if working.batch(batch, from).is_none() {
                return;
            }
        }
    }
}

/// `None` everywhere: the writer is gone, there is nothing left to do.
impl<E: Encode> Working<E> {
    fn batch(&mut self, batch: Batch<E::Input>, began: &ClockSnapshot) -> Option<()> {
        if self.begun.is_none() {
            // What the first scan found so far stands in the head.
            self.parts.packets.try_iter().for_each(drop);
            self.begin(began.boot, *began)?;
        }
        batch.inputs.into_iter().for_each(|input| self.parts.encoder.add(input));
        while self.reached < batch.limit {
            self.reached = self.parts.encoder.run(self.reached, batch.limit);
            if self.reached < batch.limit {
                self.close_frame()?;
            }
        }
        let free = self.parts.encoder.take_free();
        if !free.is_empty() {
            // The reader may be gone at the end.
            let _ = self.parts.free.send(free);
        }
        match batch.end {
            Some(end) => self.end_of_cycle(end),
            None => Some(()),
        }
    }

    fn end_of_cycle(&mut self, end: CycleEnd) -> Option<()> {
        let encoder = &mut self.parts.encoder;
        encoder.set_clock_offset(end.offset);
        for packets in self.parts.packets.try_iter() {
            encoder.packets().extend_from_slice(&packets);
            if let Some(lives) = encoder.lives() {
                lives.facts(&packets);
            }
        }
        for &(cpu, online) in &end.online {
            packets::cpu_online(self.reached, cpu, online, encoder.packets());
        }
        if let Some((from, to)) = end.gap {
            encoder.gap(from, to);
            packets::clocks(&clock::snapshot(), encoder.packets());
            self.gaps.push(Window { from, to });
        }
        if encoder.take_missed_hints() {
            self.parts.facts.ask_rescan();
        }
        for unread in &end.unread {
            encoder.not_read(unread.cpu, unread.from, self.reached);
        }
        for (cpu, stats) in &end.stats {
            encoder.rest_of_loss(*cpu, stats, self.reached);
        }
        let (dropped, reopen, hole) = {
            let mut live = self.parts.live.lock();
            live.next_cut = end.next_cut;
            live.unread = end.unread.iter().map(|u| (u.cpu, u.why.clone())).collect();
            (std::mem::take(&mut live.dropped), std::mem::take(&mut live.reopen), live.hole.take())
        };
        for d in dropped {
            encoder.not_written(&d);
        }
        // Of ring buffers the counted loss says it all.
        if let Some((from, to)) = hole.filter(|_| encoder.sampled_hz().is_some()) {
            encoder.gap(from, to);
            self.gaps.push(Window { from, to });
        }
        self.close_frame()?;
        if !end.stats.is_empty() {
            self.stats = end.stats;
        }
        self.answer(end.cut, reopen, end.commands)
    }

    fn answer(&mut self, cut: bool, reopen: bool, commands: Vec<Command>) -> Option<()> {
        let mut done = Vec::new();
        let mut stop = false;
        for command in commands {
            match command {
                Command::Flush(reply) => {
                    let begun = self.begun?;
                    let clocks = clock::snapshot();
                    let summary = self.parts.encoder.tracker().summary(self.reached);
                    let mut totals =
                        self.parts.world.totals(&begun.clocks, begun.from, &clocks, self.reached, &summary);
                    totals.sampled_hz = self.parts.encoder.sampled_hz();
                    self.parts.frames.send(ToWriter::Growing { totals: Box::new(totals), summary, reply }).ok()?;
                }
                Command::Rotate(reply) => done.push(reply),
                Command::Stop => stop = true,
            }
        }
        if cut || stop || !done.is_empty() {
            self.end_segment(done)?;
            if !stop {
                self.begin(self.reached, clock::snapshot())?;
            }
        } else if reopen {
            // The segment that could not be begun left nothing behind: its summary belongs to no file.
            self.parts.encoder.tracker().take_summary(self.reached);
            self.begin(self.reached, clock::snapshot())?;
        }
        Some(())
    }

    fn begin(&mut self, from: u64, clocks: ClockSnapshot) -> Option<()> {
        let parts = &mut self.parts;
        let empty = Vec::new();
        let moment = Moment {
            start: from,
            clocks,
            stats: &self.stats,
            own: parts.own.get().unwrap_or(&empty),
            sampled_hz: parts.encoder.sampled_hz(),
            tracker: Some(parts.encoder.tracker()),
        };
        let mut head = Vec::new();
        parts.world.head(&moment, &parts.facts.names(), &mut head);
        let facts = FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() };
        let head = squeeze(&mut parts.compressor, &head, facts);
        parts.encoder.begin_segment();
        self.begun = Some(Begun { from, clocks });
        self.begin_frame();
        let real = clocks.real.wrapping_sub(clocks.boot).wrapping_add(from);
        self.parts.frames.send(ToWriter::Begin { real, from, head }).ok()
    }

    /// Every frame begins with who runs where, so that reading can begin at any frame.
    fn begin_frame(&mut self) {
        let mut cpus = Vec::new();
        self.parts.encoder.tracker().cpus_now(&mut cpus);
        if !cpus.is_empty() {
            packets::state(self.reached, &cpus, &[], self.parts.encoder.packets());
        }
    }

    fn close_frame(&mut self) -> Option<()> {
        let parts = &mut self.parts;
        let facts = parts.encoder.close_frame(self.reached, &mut self.raw);
        let frame = squeeze(&mut parts.compressor, &self.raw, facts);
        let (counts, losses, marks) = (parts.encoder.counts(), parts.encoder.take_losses(), parts.encoder.take_marks());
        {
            let mut live = parts.live.lock();
            (live.events, live.unknown, live.damaged) = (counts.events, counts.unknown, counts.damaged);
            live.untraced = counts.untraced;
            live.sampled_hz = parts.encoder.sampled_hz();
            live.lose(&losses);
        }
        let recent = parts.encoder.tracker().take_recent();
        parts.facts.recent.add(&recent);
        marks.marks.iter().for_each(|mark| self.marks.0.offer(mark.ts, &mark.text));
        self.marks.1 += marks.count;
        self.begin_frame();
        self.parts.frames.send(ToWriter::Data(frame)).ok()
    }

    fn end_segment(&mut self, done: Vec<Sender<()>>) -> Option<()> {
        let Some(begun) = self.begun.take() else { return Some(()) };
        let clocks = clock::snapshot();
        let parts = &mut self.parts;
        let mut tail = Vec::new();
        parts.world.tail(&clocks, &self.stats, &mut tail);
        if let Some(lives) = parts.encoder.lives() {
            lives.finish(parts.own.get().map_or(&[], Vec::as_slice), &mut tail);
        }
        let facts = FrameFacts { kind: FrameKind::Tail, ..FrameFacts::default() };
        let tail = squeeze(&mut parts.compressor, &tail, facts);
        let (mut summary, worst) = parts.encoder.tracker().take_summary(self.reached);
        let mut totals = parts.world.totals(&begun.clocks, begun.from, &clocks, self.reached, &summary);
        totals.sampled_hz = parts.encoder.sampled_hz();
        totals.worst_wait = worst;
        totals.gaps = std::mem::take(&mut self.gaps);
        (summary.marks, totals.marks) = (self.marks.0.take(), std::mem::take(&mut self.marks.1));
        // What was begun of the next frame is begun anew behind the next head.
        parts.encoder.packets().clear();
        parts.frames.send(ToWriter::End { tail, totals: Box::new(totals), summary, done }).ok()
    }
}

fn squeeze(compressor: &mut FrameCompressor, raw: &[u8], facts: FrameFacts) -> Frame {
    let mut bytes = Vec::with_capacity(raw.len() / 3 + 64);
    if let Err(e) = compressor.compress(raw, &mut bytes) {
        // zstd fails only for want of memory; an empty frame is dropped by the writer's reader as damage.
        tracing::error!("cannot compress: {e}");
    }
    Frame { bytes, raw: raw.len(), facts }
}

/// The running capture path.
pub struct Pipeline {
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    threads: Vec<JoinHandle<()>>,
}

/// Everything a pipeline is made of.
pub struct Parts<E: Encode> {
    /// Turns what was read into packets.
    pub encoder: E,
    /// Ring-buffer counters before the first page.
    pub stats: Vec<(u32, CpuStats)>,
    /// Writes frames.
    pub writer: WriterThread,
    /// Does what takes long.
    pub keeper: KeeperThread,
    /// Whole packets from the facts thread.
    pub packets: Receiver<Vec<u8>>,
    /// Names for heads.
    pub facts: Arc<Facts>,
    /// Shared numbers.
    pub live: Arc<Live>,
    /// What does not change.
    pub world: Arc<World>,
    /// Threads of the recorder, filled in by the caller once all run.
    pub own: Arc<OnceLock<Vec<Tid>>>,
    /// zstd level.
    pub level: i32,
    /// Length of a segment; `None`: not cut by time.
    pub segment: Option<Duration>,
    /// When the recording begins.
    pub began: ClockSnapshot,
    /// What its threads belong to.
    pub crew: Crew,
}

impl Pipeline {
    /// Starts all threads; `reader` makes the one that reads.
    pub fn start<E: Encode, P: Produce>(
        parts: Parts<E>,
        reader: impl FnOnce(ReaderParts<E::Input>, &ClockSnapshot) -> P,
    ) -> io::Result<Pipeline> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (commands, take_commands) = unbounded();
        let (send_batch, batches) = bounded(BATCHES);
        // Bounded by the number of page buffers there are.
        let (send_free, free) = unbounded();
        let (send_frame, frames) = bounded(FRAMES);
        let reader_parts = ReaderParts {
            batches: send_batch,
            free,
            commands: take_commands,
            wake: wake.clone(),
            segment: parts.segment,
        };
        let reader = reader(reader_parts, &parts.began);
        let mut encoder = parts.encoder;
        encoder.set_clock_offset(reader.offset());
        let encoding = EncoderThread {
            encoder,
            batches,
            free: send_free,
            frames: send_frame,
            packets: parts.packets,
            facts: parts.facts,
            live: parts.live,
            world: parts.world,
            own: parts.own,
            compressor: FrameCompressor::new(parts.level)?,
        };
        let (keeper, writer) = (parts.keeper, parts.writer);
        let (began, stats, crew) = (parts.began, parts.stats, parts.crew);
        let threads = vec![
            spawn("dc-keeper", move || keeper.run())?,
            crew.spawn("dc-writer", move || writer.run(&frames))?,
            crew.spawn("dc-encoder", move || encoding.run(&began, stats))?,
            crew.spawn(P::NAME, move || reader.run())?,
        ];
        Ok(Pipeline { commands, wake, threads })
    }

    /// Asks for something; the answer comes over the command's own channel.
    pub fn ask(&self, command: Command) {
        // When the reader is gone the command is dropped, and with it the sender the caller waits on.
        let _ = self.commands.send(command);
        self.nudge();
    }

    /// Has a cycle begin now.
    pub fn nudge(&self) {
        let _ = self.wake.write(1);
    }

    /// False once a thread of the capture path ended by itself: something is badly wrong.
    pub fn is_whole(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the recording and waits until everything is in its file.
    pub fn stop(self) {
        self.ask(Command::Stop);
        drop(self.commands);
        for thread in self.threads {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// A named thread (`ps -T` shows the name; at most 15 bytes).
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).stack_size(512 << 10).spawn(body)
}
