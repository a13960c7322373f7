//! Fills the columns: the sink that the feed's fold is given, and what turns markers and samples into rows.
//!
//! Intervals go straight to their place; markers, interrupts and counters wait in a list until every name is
//! known, since their names are parts of names.

use rustc_hash::{FxHashMap, FxHashSet};

use super::columns::{Columns, NONE, SchedRows, Track, UNFINISHED};
use super::facts::{Facts, Meta};
use super::numbering::Met;
use crate::names::{NameId, NameTable, printable};
use crate::sched::event::{Event, EventKind, Item, SystemFact, ThreadNow, Tid};
use crate::sched::fields::SOFTIRQS;
use crate::sched::fold::{Interval, Sink, Utid};
use crate::sched::marks::{self, Marker};
use crate::sched::summary::Window;

/// Which raw events are kept beside what is folded from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// None.
    #[default]
    Nothing,
    /// Block requests.
    Block,
    /// All, for `ftrace_event` and `args`.
    Everything,
}

/// Fills [`Columns`]: hand it to the feed as the fold's sink.
#[derive(Debug)]
pub struct Builder {
    columns: Columns,
    track_ids: FxHashMap<Track, u32>,
    open: FxHashMap<u32, Vec<u32>>,
    open_async: FxHashMap<(u32, i64), u32>,
    pending: Vec<(u64, Pending)>,
    /// By utid: has run.
    ran: Vec<bool>,
    /// Tids whose name was told other than by a wake-up.
    told: FxHashSet<Tid>,
    keep: Keep,
    /// Only running intervals become rows.
    only_running: bool,
    span: Option<Window>,
    metadata: Vec<(NameId, NameId)>,
    system: Vec<SystemFact>,
    /// By utid: when it was met, and its tid then.
    met: Vec<Met>,
    /// By utid: the number it is to have instead.
    utids: Option<Vec<Utid>>,
}

/// What becomes a slice or a sample once all names are known.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Print(Option<Utid>, NameId),
    IrqEntry(u32, NameId),
    SoftirqEntry(u32, u32),
    IrqExit { cpu: u32, soft: bool },
    CpuSample(u32, &'static str, f64),
    Sample(Option<u32>, NameId, f64),
}

impl Builder {
    /// An empty builder that also keeps raw events as `keep` says (80 bytes each).
    pub fn new(keep: Keep) -> Self {
        Builder {
            columns: Columns::default(),
            track_ids: FxHashMap::default(),
            open: FxHashMap::default(),
            open_async: FxHashMap::default(),
            pending: Vec::new(),
            ran: Vec::new(),
            told: FxHashSet::default(),
            keep,
            only_running: false,
            span: None,
            metadata: Vec::new(),
            system: Vec::new(),
            met: Vec::new(),
            utids: None,
        }
    }

    /// Keeps `sched` alone: half the memory for who does not ask for `thread_state` or `wait`.
    pub fn only_running(mut self) -> Self {
        self.only_running = true;
        self.columns.sched = SchedRows::Same(0);
        self
    }

    /// When each life was met, by utid.
    pub(super) fn met(&self) -> &[Met] {
        &self.met
    }

    /// Lives get these numbers in the end, by the fold's utid; the facts that [`Builder::finish`] is given have them.
    pub(super) fn renumber(&mut self, utids: Vec<Utid>) {
        self.utids = Some(utids);
    }

    /// Makes the columns readable. `facts` carries threads, processes and files; what the trace said on the
    /// way (clocks, losses, metadata) is added to it. `window` is the time asked for, if any.
    pub fn finish(mut self, names: NameTable, facts: Facts, window: Option<Window>) -> Columns {
        let told = std::mem::replace(&mut self.columns.facts, facts);
        self.columns.names = names;
        self.forget_wakeup_names();
        if self.columns.states.settle() && !self.only_running {
            self.columns.states.renumber_slices(&mut self.columns.sched);
        }
        self.columns.sched.settle(&self.columns.states);
        self.columns.window = self.span;
        if let Some(window) = window {
            self.columns.ask(window);
        }
        let facts = &mut self.columns.facts;
        facts.clocks.extend(told.clocks);
        facts.cpus.extend(told.cpus);
        facts.losses.extend(told.losses);
        facts.gaps.extend(told.gaps);
        facts.sampled_hz = facts.sampled_hz.or(told.sampled_hz);
        self.fold_pending();
        self.tell_metadata();
        self.renumber_threads();
        self.columns
    }

    fn renumber_threads(&mut self) {
        let Some(utids) = self.utids.take().filter(|u| !(0..).eq(u.iter().copied())) else { return };
        let new = |utid: Utid| utids.get(utid as usize).copied().unwrap_or(utid);
        self.columns.states.renumber_threads(&utids);
        for track in &mut self.columns.tracks {
            if let Track::Thread(utid) = track {
                *utid = new(*utid);
            }
        }
        self.columns.events.iter_mut().for_each(|(_, emitter)| *emitter = emitter.map(new));
    }

    /// Perfetto does not name threads by what wake-ups call them. Our own recordings name every thread; in foreign
    /// ones a thread that never ran and that no process tree names has none here either.
    fn forget_wakeup_names(&mut self) {
        if self.utids.is_some() {
            return;
        }
        for (utid, thread) in self.columns.facts.threads.iter_mut().enumerate().skip(1) {
            if !self.ran.get(utid).copied().unwrap_or(false) && !self.told.contains(&thread.tid) {
                thread.name = NameId::EMPTY;
            }
        }
    }

    fn track(&mut self, track: Track) -> u32 {
        *self.track_ids.entry(track).or_insert_with(|| {
            self.columns.tracks.push(track);
            (self.columns.tracks.len() - 1) as u32
        })
    }

    fn open_slice(&mut self, ts: u64, track: u32, name: NameId, nested: bool) -> u32 {
        let slices = &mut self.columns.slices;
        let row = slices.ts.len() as u32;
        let stack = self.open.entry(track).or_default();
        slices.ts.push(ts);
        slices.dur.push(UNFINISHED);
        slices.track.push(track);
        slices.name.push(name);
        slices.depth.push(if nested { stack.len().min(usize::from(u16::MAX)) as u16 } else { 0 });
        slices.parent.push(if nested { stack.last().copied().unwrap_or(NONE) } else { NONE });
        if nested {
            stack.push(row);
        }
        row
    }

    fn end_slice(&mut self, ts: u64, row: u32) {
        let slices = &mut self.columns.slices;
        slices.dur.set(row, ts.saturating_sub(slices.ts.get(row)) as i64);
    }

    fn fold_pending(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_by_key(|(ts, _)| *ts);
        for (ts, what) in pending {
            match what {
                Pending::Print(emitter, text) => {
                    // The table is borrowed for the text while names of its parts are added to it.
                    let text = self.columns.names.bytes(text).to_vec();
                    self.mark(ts, emitter, &text);
                }
                Pending::IrqEntry(cpu, name) => {
                    let name = [b"IRQ (", self.columns.names.bytes(name), b")"].concat();
                    self.enter(ts, Track::Irq { cpu, soft: false }, &name);
                }
                Pending::SoftirqEntry(cpu, vec) => {
                    let name = SOFTIRQS.get(vec as usize).map_or_else(|| format!("softirq {vec}"), |n| (*n).to_owned());
                    self.enter(ts, Track::Irq { cpu, soft: true }, name.as_bytes());
                }
                Pending::IrqExit { cpu, soft } => self.leave(ts, Track::Irq { cpu, soft }),
                Pending::CpuSample(cpu, name, value) => {
                    let name = self.columns.names.intern(name.as_bytes());
                    self.sample(ts, Track::CpuCounter(cpu, name), value);
                }
                Pending::Sample(Some(cpu), name, value) => self.sample(ts, Track::CpuCounter(cpu, name), value),
                Pending::Sample(None, name, value) => self.sample(ts, Track::Counter(name), value),
            }
        }
    }

    fn mark(&mut self, ts: u64, emitter: Option<Utid>, text: &[u8]) {
        let thread = Track::Thread(emitter.unwrap_or(NONE));
        match marks::parse(text) {
            Marker::Begin { name } => self.enter(ts, thread, name),
            Marker::End => self.leave(ts, thread),
            Marker::Instant { name } => {
                self.enter(ts, thread, name);
                self.leave(ts, thread);
            }
            Marker::AsyncBegin { pid, name, cookie } => {
                let name = self.columns.names.intern(name);
                let track = self.track(Track::Process(pid, name));
                let row = self.open_slice(ts, track, name, false);
                self.open_async.insert((track, cookie), row);
            }
            Marker::AsyncEnd { pid, name, cookie } => {
                let name = self.columns.names.intern(name);
                let track = self.track(Track::Process(pid, name));
                if let Some(row) = self.open_async.remove(&(track, cookie)) {
                    self.end_slice(ts, row);
                }
            }
            Marker::Counter { pid, name, value } => {
                let value = std::str::from_utf8(value).ok().and_then(|v| v.trim().parse::<f64>().ok());
                if let Some(value) = value.filter(|v| v.is_finite()) {
                    let name = self.columns.names.intern(name);
                    self.sample(ts, Track::ProcessCounter(pid, name), value);
                }
            }
        }
    }

    fn enter(&mut self, ts: u64, track: Track, name: &[u8]) {
        let track = self.track(track);
        let name = self.columns.names.intern(name);
        self.open_slice(ts, track, name, true);
    }

    fn leave(&mut self, ts: u64, track: Track) {
        let track = self.track(track);
        if let Some(row) = self.open.get_mut(&track).and_then(Vec::pop) {
            self.end_slice(ts, row);
        }
    }

    fn sample(&mut self, ts: u64, track: Track, value: f64) {
        let track = self.track(track);
        let counters = &mut self.columns.counters;
        counters.ts.push(ts);
        counters.track.push(track);
        counters.value.push(value);
    }

    fn tell_metadata(&mut self) {
        let names = &self.columns.names;
        let facts = &mut self.columns.facts;
        let text = |name: &str, id: NameId| {
            let bytes = names.bytes(id).to_vec();
            (!bytes.is_empty()).then_some(Meta { name: name.to_owned(), int: None, text: Some(bytes) })
        };
        for s in self.system.iter().take(1) {
            facts.metadata.push(Meta { name: "system_name".into(), int: None, text: Some(b"Linux".to_vec()) });
            facts.metadata.extend(text("system_release", s.release));
            facts.metadata.extend(text("system_version", s.version));
            facts.metadata.extend(text("system_machine", s.machine));
            facts.metadata.extend(text("hostname", s.host));
            let number = |name: &str, n: u64| Meta { name: name.into(), int: Some(n as i64), text: None };
            facts.metadata.extend((s.cpus > 0).then(|| number("system_cpus", u64::from(s.cpus))));
            facts.metadata.extend((s.ram > 0).then(|| number("system_ram_bytes", s.ram)));
        }
        let mut seen: Vec<(NameId, NameId)> = Vec::new();
        for &(key, value) in &self.metadata {
            if !seen.contains(&(key, value)) {
                seen.push((key, value));
                facts.metadata.push(Meta {
                    name: printable(names.bytes(key)),
                    int: None,
                    text: Some(names.bytes(value).to_vec()),
                });
            }
        }
    }

    fn cover(&mut self, ts: u64) {
        let span = self.span.get_or_insert(Window { from: ts, to: ts });
        span.from = span.from.min(ts);
        span.to = span.to.max(ts);
    }
}

impl Sink for Builder {
    fn interval(&mut self, interval: &Interval) {
        let slice = interval.slice.filter(|_| interval.state == ThreadNow::Running);
        match slice {
            Some(slice) if self.only_running => self.columns.states.put(slice, interval),
            None if self.only_running => {}
            _ => self.columns.states.put(interval.row, interval),
        }
        if let Some(slice) = slice {
            self.columns.sched.set(slice, interval.row);
            if let Some(cpu) = interval.cpu.map(|cpu| cpu as usize).filter(|cpu| *cpu < usize::from(u16::MAX)) {
                let seen = &mut self.columns.cpus_seen;
                if cpu >= seen.len() {
                    seen.resize(cpu + 1, false);
                }
                seen[cpu] = true;
            }
            let utid = interval.utid as usize;
            if utid >= self.ran.len() {
                self.ran.resize(utid + 1, false);
            }
            self.ran[utid] = true;
        }
    }

    fn event(&mut self, event: &Event, emitter: Option<Utid>) {
        self.cover(event.ts);
        match event.kind {
            EventKind::Print { text } => self.pending.push((event.ts, Pending::Print(emitter, text))),
            EventKind::NewTask { tid, .. } | EventKind::Rename { tid, .. } => drop(self.told.insert(tid)),
            EventKind::IrqEntry { name, .. } => self.pending.push((event.ts, Pending::IrqEntry(event.cpu, name))),
            EventKind::IrqExit { .. } => {
                self.pending.push((event.ts, Pending::IrqExit { cpu: event.cpu, soft: false }));
            }
            EventKind::SoftirqEntry { vec } => self.pending.push((event.ts, Pending::SoftirqEntry(event.cpu, vec))),
            EventKind::SoftirqExit { .. } => {
                self.pending.push((event.ts, Pending::IrqExit { cpu: event.cpu, soft: true }));
            }
            EventKind::Frequency { cpu, khz } => {
                self.pending.push((event.ts, Pending::CpuSample(cpu, "cpufreq", f64::from(khz))));
            }
            EventKind::Idle { cpu, state } => {
                self.pending.push((event.ts, Pending::CpuSample(cpu, "cpuidle", f64::from(state))));
            }
            _ => {}
        }
        let kept = match self.keep {
            Keep::Nothing => false,
            Keep::Block => matches!(event.kind, EventKind::Block(_)),
            Keep::Everything => true,
        };
        if kept {
            self.columns.events.push((*event, emitter));
        }
    }

    fn new_thread(&mut self, ts: u64, utid: Utid, tid: Tid) {
        if utid as usize >= self.met.len() {
            self.met.resize(utid as usize + 1, (ts, tid));
        }
        self.met[utid as usize] = (ts, tid);
    }

    fn late_reason(&mut self, _: Utid, row: u32, io_wait: bool, function: NameId) {
        if !self.only_running {
            self.columns.states.set_reason(row, io_wait, function);
        }
    }

    fn fact(&mut self, item: &Item) {
        let facts = &mut self.columns.facts;
        match item {
            Item::Thread(fact) if !fact.name.is_empty() => drop(self.told.insert(fact.tid)),
            Item::Process(fact) if fact.kernel => drop(self.told.insert(fact.pid)),
            Item::Clock(c) => facts.clocks.push(*c),
            Item::Loss(loss) => facts.losses.push(*loss),
            Item::Gap { from, to } => facts.gaps.push(Window { from: *from, to: *to }),
            Item::Cpu(cpu) => match facts.cpus.iter_mut().find(|c| c.cpu == cpu.cpu) {
                Some(known) => *known = *cpu,
                None => facts.cpus.push(*cpu),
            },
            Item::Sampled { hz } => facts.sampled_hz = Some(*hz),
            Item::System(system) => self.system.push(system.clone()),
            Item::Metadata { key, value } => self.metadata.push((*key, *value)),
            Item::CpuState { ts, .. } | Item::CompleteThrough { ts } => self.cover(*ts),
            Item::Counter { ts, name, cpu, value } => self.pending.push((*ts, Pending::Sample(*cpu, *name, *value))),
            _ => {}
        }
    }
}
