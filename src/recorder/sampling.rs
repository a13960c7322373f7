//! The thread that looks at procfs several times a second, where ftrace cannot be had.
//!
//! It takes the place of the thread that empties ring buffers and hands on the same kind of batches: a cycle (and with it
//! a frame) every half second, a cut of the segment at a look right after the whole minute. It keeps its own cost down
//! by looking less often on a machine with very many threads ([`Pace`]).

use std::os::fd::AsFd;
use std::time::Duration;

use crossbeam_channel::Receiver;
use nix::time::{ClockId, clock_gettime};

use super::clock;
use super::pipeline::Produce;
use super::reader::{Batch, Command, CycleEnd, PERIOD, ReaderParts};
use super::sample_encoder::Look;
use crate::kernel::cpu_reader;
use crate::kernel::open_files;
use crate::kernel::procfs::{Proc, ReadError};
use crate::kernel::sampler::{Layout, Sampler};
use crate::sched::event::ClockSnapshot;
use crate::store::footer::Mark;

/// Looks per second: the first if it can be afforded, else the next.
const RATES: [u32; 5] = [20, 10, 5, 2, 1];
/// Share of one CPU that looking may cost before it is done less often, …
const TOO_MUCH: f64 = 0.02;
/// … and up to which it would have to stay to be done more often again.
const AFFORDABLE: f64 = 0.016;
/// Looks over which the cost is measured: each tenth also searches for new threads.
const MEASURED: u32 = 60;
/// One open file per thread halves the cost; up to this many.
const MOST_FILES: u64 = 8192;

/// Looks per second at the beginning.
pub const FULL_RATE: u32 = RATES[0];

/// How often to look, by what it costs. Knows no clock.
#[derive(Debug, Default)]
pub struct Pace {
    at: usize,
    looks: u32,
    cost: Duration,
    span: Duration,
}

impl Pace {
    /// Looks per second.
    pub fn hz(&self) -> u32 {
        RATES[self.at.min(RATES.len() - 1)]
    }

    /// Time from one look to the next.
    pub fn period(&self) -> Duration {
        Duration::from_secs(1) / self.hz()
    }

    /// A look came `span` after the one before and took `cost` of CPU time.
    pub fn looked(&mut self, span: Duration, cost: Duration) {
        self.looks += 1;
        self.span += span;
        self.cost += cost;
        if self.looks < MEASURED {
            return;
        }
        let share = self.cost.as_secs_f64() / self.span.as_secs_f64().max(1e-9);
        let faster = self.at.checked_sub(1).map(|at| share * f64::from(RATES[at]) / f64::from(self.hz()));
        let at = match faster {
            _ if share > TOO_MUCH && self.at + 1 < RATES.len() => self.at + 1,
            Some(then) if then < AFFORDABLE => self.at - 1,
            _ => self.at,
        };
        *self = Pace { at, ..Pace::default() };
    }
}

/// See the module.
pub struct SamplingThread {
    proc: Proc,
    sampler: Sampler,
    layout: Layout,
    parts: ReaderParts<Look>,
    marks: Receiver<Mark>,
    pace: Pace,
    first: bool,
    last: u64,
    next_look: u64,
    next_cut: u64,
    /// When the last cycle ended.
    handed: u64,
    /// Boot clock less monotonic clock: grows when the machine sleeps.
    slept: u64,
}

impl SamplingThread {
    /// Takes over a sampler that began at `began`; `marks` are what users write meanwhile.
    pub fn new(
        proc: Proc,
        sampler: Sampler,
        marks: Receiver<Mark>,
        parts: ReaderParts<Look>,
        began: &ClockSnapshot,
    ) -> SamplingThread {
        let mut thread = SamplingThread {
            proc,
            sampler,
            layout: Layout::new(),
            parts,
            marks,
            pace: Pace::default(),
            first: true,
            last: began.boot,
            next_look: began.boot,
            next_cut: u64::MAX,
            handed: began.boot,
            slept: began.boot.saturating_sub(began.mono),
        };
        thread.next_cut = thread.cut_after(began, Duration::from_secs(1));
        thread
    }

    /// A sampler that begins at `now` (ns, boot), with as many open files as it can use.
    ///
    /// # Errors
    /// When procfs cannot be listed.
    pub fn sampler(proc: &Proc, now: u64) -> Result<Sampler, ReadError> {
        // Without them it only costs more.
        if let Err(e) = open_files::ensure(MOST_FILES) {
            tracing::debug!("{e}");
        }
        Sampler::new(proc.clone(), now)
    }

    fn cut_after(&self, now: &ClockSnapshot, least: Duration) -> u64 {
        self.parts.segment.map_or(u64::MAX, |s| clock::next_cut(now, s, least.min(s / 2)))
    }

    /// Sleeps until the next look, or the next cut, or until somebody asks for something.
    fn wait(&self) {
        let due = self.next_look.min(self.next_cut).saturating_sub(clock::boot_now());
        let timeout = Duration::from_nanos(due);
        if let Err(e) = cpu_reader::wait(&[], Some(self.parts.wake.as_fd()), timeout) {
            tracing::warn!("waiting for the next look failed: {e}");
            std::thread::sleep(timeout);
        }
        // Non-blocking: nothing to read is no error.
        let _ = self.parts.wake.read();
    }

    /// Looks, and hands on what was seen; `None` when the encoder is gone.
    fn look(&mut self, commands: Vec<Command>) -> Option<()> {
        // The first look opens a file per thread, which says nothing about the others.
        let (before, first) = (thread_cpu(), self.first);
        let now = clock::boot_now();
        let gap = self.gap(now);
        let inputs: Vec<Look> = if gap.is_some() { Vec::new() } else { self.seen(now).into_iter().collect() };
        let span = now.saturating_sub(self.last);
        self.last = now;
        let cut = now >= self.next_cut;
        if cut {
            self.next_cut = self.cut_after(&clock::snapshot(), self.parts.segment.unwrap_or_default() / 2);
        }
        let over =
            now.saturating_sub(self.handed) + self.pace.period().as_nanos() as u64 / 2 >= PERIOD.as_nanos() as u64;
        let asked = commands.iter().any(|c| matches!(c, Command::Rotate(_)));
        let end = (over || cut || gap.is_some() || !commands.is_empty()).then(|| CycleEnd {
            cut: cut || asked,
            next_cut: self.next_cut,
            commands,
            gap,
            ..CycleEnd::default()
        });
        if end.is_some() {
            self.handed = now;
        }
        self.parts.batches.send(Batch { inputs, limit: now, end }).ok()?;
        if !first {
            self.pace.looked(Duration::from_nanos(span), thread_cpu().saturating_sub(before));
        }
        Some(())
    }

    fn seen(&mut self, now: u64) -> Option<Look> {
        match self.sampler.round(now) {
            Ok(round) => {
                let items = self.layout.lay_out(&round);
                let marks = self.marks.try_iter().collect();
                let first = std::mem::replace(&mut self.first, false);
                Some(Look { round, items, marks, hz: self.pace.hz(), first })
            }
            Err(e) => {
                tracing::warn!("{e}; trying again");
                None
            }
        }
    }

    /// The machine slept since the last look: what ran before and after cannot be told apart, so counting begins anew.
    fn gap(&mut self, now: u64) -> Option<(u64, u64)> {
        let asleep = now.saturating_sub(clock::mono_now());
        let before = std::mem::replace(&mut self.slept, asleep);
        clock::sleep_within(self.last, now, asleep.saturating_sub(before))?;
        match Sampler::new(self.proc.clone(), now) {
            Ok(sampler) => (self.sampler, self.layout) = (sampler, Layout::new()),
            Err(e) => tracing::warn!("{e}"),
        }
        Some((self.last, now))
    }
}

impl Produce for SamplingThread {
    const NAME: &str = "dc-sampler";

    /// Works until told to stop, or until the encoder is gone.
    fn run(mut self) {
        // The first look waits for the word that all threads run: only then can a head name them.
        self.next_look = clock::boot_now().saturating_add(PERIOD.as_nanos() as u64);
        self.wait();
        self.next_look = 0;
        loop {
            self.wait();
            let commands: Vec<Command> = self.parts.commands.try_iter().collect();
            let now = clock::boot_now();
            if commands.is_empty() && now < self.next_look.min(self.next_cut) {
                continue;
            }
            let stop = commands.iter().any(|c| matches!(c, Command::Stop));
            if self.look(commands).is_none() || stop {
                return;
            }
            // A look that comes late is not made up for.
            let period = u64::try_from(self.pace.period().as_nanos()).unwrap_or(u64::MAX);
            self.next_look = self.next_look.saturating_add(period).max(now.saturating_add(period / 2));
        }
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_slow_it_down_and_few_speed_it_up_again() {
        let mut pace = Pace::default();
        // 2 ms a look: 4 % at 20 Hz, 2 % at 10.
        let many = |pace: &mut Pace| (0..MEASURED).for_each(|_| pace.looked(pace.period(), Duration::from_millis(2)));
        let mut rates = Vec::new();
        for _ in 0..4 {
            rates.push(pace.hz());
            many(&mut pace);
        }
        assert_eq!(rates, [20, 10, 10, 10]);
        // 0.9 ms a look: 1.8 % at 20 Hz would be tight; 0.5 ms is 1 %.
        (0..MEASURED).for_each(|_| pace.looked(pace.period(), Duration::from_micros(900)));
        assert_eq!(pace.hz(), 10);
        (0..MEASURED).for_each(|_| pace.looked(pace.period(), Duration::from_micros(500)));
        assert_eq!(pace.hz(), 20);
        // Absurdly slow: once a second, and no slower.
        (0..10 * MEASURED).for_each(|_| pace.looked(pace.period(), Duration::from_secs(1)));
        assert_eq!((pace.hz(), pace.period()), (1, Duration::from_secs(1)));
    }

    #[test]
    fn one_expensive_look_is_no_reason() {
        let mut pace = Pace::default();
        for i in 0..10 * MEASURED {
            pace.looked(pace.period(), Duration::from_micros(if i % 10 == 0 { 4000 } else { 500 }));
        }
        assert_eq!(pace.hz(), 20, "0.85 ms on average: 1.7 %");
    }
}
