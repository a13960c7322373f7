//! A made-up machine whose threads are born, named, woken, pushed off and buried, recorded by the recorder's own encoder
//! into a store of many segments: real packets, real heads, no kernel and no clock.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use dashcam::kernel::events::{EventTable, TracedEvent};
use dashcam::kernel::format::EventFormat;
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::procfs;
use dashcam::kernel::stats::CpuStats;
use dashcam::kernel::testing::{Kernel, PageWriter};
use dashcam::perfetto::encode::packets::{self, System};
use dashcam::recorder::blocked::Stacks;
use dashcam::recorder::encoder::{Encoder, EncoderParts, Hint, Page};
use dashcam::recorder::head::{Moment, World};
use dashcam::recorder::names::Names;
use dashcam::recorder::plan::Plan;
use dashcam::sched::event::ClockSnapshot;
use dashcam::sched::state::StateLayout;
use dashcam::store::Store;
use dashcam::store::footer::BootId;
use dashcam::store::frame::FrameCompressor;
use dashcam::store::index::{FrameFacts, FrameKind};
use dashcam::store::writer::SegmentWriter;

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1000 * MS;
/// When the recording begins.
pub const BEGIN: u64 = 1000 * S;
const LAYOUT: PageLayout = PageLayout::USUAL;
const CPUS: usize = 2;
const FRAME: u64 = 500 * MS;

/// What is recorded.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    pub segments: usize,
    /// Length of a segment, ns: a multiple of half a second.
    pub segment: u64,
    /// Between two things that happen, ns on average.
    pub pace: u64,
    pub seed: u64,
    /// Every so manieth segment does not say who lived in it; 0: all say it.
    pub silent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ready,
    Asleep,
    Dead,
}

struct Machine {
    random: u64,
    formats: BTreeMap<&'static str, EventFormat>,
    ts: u64,
    running: [i32; CPUS],
    threads: BTreeMap<i32, State>,
    pages: Vec<(u32, PageWriter)>,
    full: Vec<Page>,
}

const KINDS: [&str; 8] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "sched/sched_process_free",
    "task/task_newtask",
    "task/task_rename",
];

impl Machine {
    fn random(&mut self, below: u64) -> u64 {
        // Numerical Recipes' 64-bit congruential generator; its high bits are the good ones.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn pick(&mut self, state: State) -> Option<i32> {
        let of: Vec<i32> = self.threads.iter().filter(|t| *t.1 == state).map(|t| *t.0).collect();
        (!of.is_empty()).then(|| of[self.random(of.len() as u64) as usize])
    }

    /// Writes one record on `cpu`, by whoever runs there.
    fn record(&mut self, cpu: usize, kind: &str, numbers: &[(&str, i64)], texts: &[(&str, &str)]) {
        let format = &self.formats[kind];
        let mut data = vec![0; format.min_size().next_multiple_of(4)];
        let mut put = |name: &str, bytes: &[u8]| {
            let field = format.field(name).unwrap();
            let size = field.size.min(bytes.len());
            data[field.offset..][..size].copy_from_slice(&bytes[..size]);
        };
        put("common_type", &format.id.to_le_bytes());
        put("common_pid", &self.running[cpu].to_le_bytes());
        numbers.iter().for_each(|(name, value)| put(name, &value.to_le_bytes()));
        texts.iter().for_each(|(name, text)| put(name, text.as_bytes()));
        let page = &mut self.pages[cpu].1;
        if !page.data(self.ts, &data) {
            let full = std::mem::replace(page, PageWriter::new(LAYOUT, self.ts));
            self.full.push(Page { cpu: cpu as u32, bytes: full.finish(), stats: None });
            assert!(self.pages[cpu].1.data(self.ts, &data));
        }
    }

    fn switch(&mut self, cpu: usize, prev_state: i64) {
        let prev = self.running[cpu];
        let next = if self.random(4) == 0 { 0 } else { self.pick(State::Ready).unwrap_or(0) };
        if next == prev {
            return;
        }
        let names = [("prev_comm", "prev"), ("next_comm", if next == 0 { "swapper" } else { "t" })];
        let numbers = [("prev_pid", prev.into()), ("prev_prio", 120), ("prev_state", prev_state)];
        let more = [("next_pid", next.into()), ("next_prio", 120)];
        self.record(cpu, "sched/sched_switch", &[&numbers[..], &more].concat(), &names);
        if prev != 0 {
            let now = match prev_state {
                0 | 256 => State::Ready,
                16 | 32 => State::Dead,
                _ => State::Asleep,
            };
            self.threads.insert(prev, now);
        }
        if next != 0 {
            self.threads.insert(next, State::Running);
        }
        self.running[cpu] = next;
    }

    fn wake(&mut self, cpu: usize, kind: &str, tid: i32) {
        let target = self.random(CPUS as u64) as i64;
        self.record(cpu, kind, &[("pid", tid.into()), ("prio", 120), ("target_cpu", target)], &[("comm", "t")]);
        if self.threads[&tid] == State::Asleep {
            self.threads.insert(tid, State::Ready);
        }
    }

    /// One thing happens.
    fn step(&mut self, pace: u64) {
        self.ts += 1 + self.random(2 * pace);
        let cpu = self.random(CPUS as u64) as usize;
        let runs = self.running[cpu];
        match self.random(100) {
            0..=54 => {
                let state = [0, 256, 1, 1, 1, 2][self.random(6) as usize];
                self.switch(cpu, if runs == 0 { 0 } else { state });
            }
            55..=84 => {
                // Sometimes one that is ready or runs already.
                let state = [State::Asleep, State::Asleep, State::Ready, State::Running][self.random(4) as usize];
                if let Some(tid) = self.pick(state) {
                    self.wake(cpu, "sched/sched_waking", tid);
                }
            }
            85..=90 if runs != 0 => {
                // Tids are few, so they come again.
                let tid = 1000 + self.random(60) as i32;
                if !self.threads.contains_key(&tid) {
                    let flags = [0x0001_0000, 0][self.random(2) as usize];
                    self.record(
                        cpu,
                        "task/task_newtask",
                        &[("pid", tid.into()), ("clone_flags", flags)],
                        &[("comm", "t")],
                    );
                    self.threads.insert(tid, State::Asleep);
                    self.wake(cpu, "sched/sched_wakeup_new", tid);
                }
            }
            91..=92 if runs != 0 => {
                let name = ["loader", "ckpt", "t"][self.random(3) as usize];
                self.record(cpu, "task/task_rename", &[("pid", runs.into())], &[("oldcomm", "t"), ("newcomm", name)]);
            }
            93..=96 if runs >= 1000 => {
                self.record(cpu, "sched/sched_process_exit", &[("pid", runs.into()), ("prio", 120)], &[("comm", "t")]);
                self.switch(cpu, 16);
            }
            97..=99 => {
                if let Some(tid) = self.pick(State::Dead) {
                    self.record(
                        cpu,
                        "sched/sched_process_free",
                        &[("pid", tid.into()), ("prio", 120)],
                        &[("comm", "t")],
                    );
                    self.threads.remove(&tid);
                }
            }
            _ => {}
        }
    }

    fn take_pages(&mut self) -> Vec<Page> {
        for (cpu, page) in &mut self.pages {
            if !page.is_empty() {
                let page = std::mem::replace(page, PageWriter::new(LAYOUT, self.ts));
                self.full.push(Page { cpu: *cpu, bytes: page.finish(), stats: None });
            }
        }
        std::mem::take(&mut self.full)
    }
}

fn clock(boot: u64) -> ClockSnapshot {
    ClockSnapshot { boot, mono: boot, real: 1_700_000_000 * S + boot, tai: 0, zone_offset_minutes: None }
}

/// Records `story` into a store at `dir`.
pub fn record(dir: &Path, story: Story) -> Store {
    let store = Store::create(dir).unwrap();
    let mut table = EventTable::new();
    let mut formats = BTreeMap::new();
    for (path, text) in Kernel::V6_18.formats().filter(|(path, _)| KINDS.contains(path)) {
        let format = EventFormat::parse(text).unwrap();
        let group = path.split('/').next().unwrap().to_owned();
        table.insert(TracedEvent { group, format: format.clone() });
        formats.insert(path, format);
    }
    let (hints, told) = crossbeam_channel::bounded::<Hint>(100_000);
    let parts = EncoderParts {
        layout: LAYOUT,
        plan: Plan::new(&table),
        states: StateLayout::SINCE_4_14.into(),
        stacks: Stacks::default(),
        hints,
    };
    let mut encoder = Encoder::new(parts, &[(0, CpuStats::default()), (1, CpuStats::default())], BEGIN);
    let mut names = Names::default();
    let mut machine = Machine {
        random: story.seed,
        formats,
        ts: BEGIN,
        running: [0; CPUS],
        threads: BTreeMap::new(),
        pages: (0..CPUS as u32).map(|cpu| (cpu, PageWriter::new(LAYOUT, BEGIN))).collect(),
        full: Vec::new(),
    };
    for tid in 100..110 {
        machine.threads.insert(tid, State::Asleep);
        let (name, start) = (format!("old{tid}").into_bytes(), 10 * MS * tid as u64);
        names.learn_process(
            &procfs::Process { pid: tid, ppid: 1, name: name.clone(), start, ..Default::default() },
            start,
        );
        names.learn_thread(&procfs::Thread { tid, pid: tid, name, start, ..Default::default() }, start);
    }
    let world = World {
        system: System { release: b"6.18.44".to_vec(), cpus: 2, ..System::default() },
        boot: BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb"),
        version: "test".into(),
        ..World::default()
    };
    let mut compressor = FrameCompressor::new(1).unwrap();
    let mut reached = BEGIN;
    for segment in 0..story.segments {
        let (from, to) = (BEGIN + segment as u64 * story.segment, BEGIN + (segment as u64 + 1) * story.segment);
        let mut writer = SegmentWriter::create(&store, clock(from).real).unwrap();
        let mut put = |packets: &[u8], facts: FrameFacts| {
            let mut frame = Vec::new();
            compressor.compress(packets, &mut frame).unwrap();
            writer.write_frame(&frame, packets.len(), facts).unwrap();
        };
        let tracker = Some(&*encoder.tracker());
        let moment = Moment { start: from, clocks: clock(from), stats: &[], own: &[101], sampled_hz: None, tracker };
        let mut head = Vec::new();
        world.head(&moment, &names, &mut head);
        put(&head, FrameFacts { kind: FrameKind::Head, ..FrameFacts::default() });
        encoder.begin_segment();
        for end in (from / FRAME + 1..=to / FRAME).map(|n| n * FRAME) {
            let mut cpus = Vec::new();
            encoder.tracker().cpus_now(&mut cpus);
            packets::state(reached, &cpus, &[], encoder.packets());
            while machine.ts < end {
                machine.step(story.pace);
            }
            machine.take_pages().into_iter().for_each(|page| encoder.add_page(page));
            while reached < end {
                reached = encoder.run(reached, end);
                assert_eq!(reached, end, "frames are small here");
            }
            told.try_iter().for_each(|hint| names.hint(&hint));
            let mut raw = Vec::new();
            let facts = encoder.close_frame(end, &mut raw);
            put(&raw, facts);
        }
        let mut tail = Vec::new();
        world.tail(&clock(to), &[], &mut tail);
        let mut lives = Vec::new();
        encoder.lives().unwrap().finish(&[101], &mut lives);
        if story.silent == 0 || segment % story.silent > 0 {
            tail.extend(lives);
        }
        put(&tail, FrameFacts { kind: FrameKind::Tail, ..FrameFacts::default() });
        let (summary, _) = encoder.tracker().take_summary(to);
        let totals = world.totals(&clock(from), from, &clock(to), to, &summary);
        writer.finish(totals, summary).unwrap();
    }
    store
}
