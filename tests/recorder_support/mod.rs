//! A machine of made-up CPUs: their pages are made beforehand and come as time passes.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashcam::kernel::cpu_reader::CpuReader;
use dashcam::kernel::events::{EventTable, TracedEvent};
use dashcam::kernel::format::EventFormat;
use dashcam::kernel::instance::TraceClock;
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::stats::CpuStats;
use dashcam::kernel::testing::{Kernel, PageWriter, SwitchRecord, WakingRecord};
use dashcam::perfetto::encode::packets::System;
use dashcam::recorder::blocked::Stacks;
use dashcam::recorder::clock;
use dashcam::recorder::encoder::{Encoder, EncoderParts};
use dashcam::recorder::facts::Facts;
use dashcam::recorder::haste::Crew;
use dashcam::recorder::head::World;
use dashcam::recorder::live::Live;
use dashcam::recorder::pipeline::{Parts, Pipeline};
use dashcam::recorder::plan::Plan;
use dashcam::recorder::reader::{ReaderThread, Source};
use dashcam::recorder::writer;
use dashcam::sched::state::StateLayout;
use dashcam::store::Store;
use dashcam::store::footer::BootId;
use dashcam::store::retention::{Clocks, Limits};

/// How long each thread is ready before it runs, ns.
pub const WAIT: u64 = 7_000;
const LAYOUT: PageLayout = PageLayout::USUAL;

/// What the CPUs do: a thread is woken, waits [`WAIT`], runs half of the period, sleeps the rest.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub cpus: u32,
    /// Wake-ups and switches a second on each CPU.
    pub pairs_per_second: u64,
    pub time: Duration,
    pub segment: Duration,
    /// CPU 0 refuses two reads after so many pages.
    pub refuses_after: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// Wake-ups, and as many switches.
    pub pairs: u64,
}

/// One CPU's pages, each with the instant from which it can be read.
struct Pages {
    pages: std::vec::IntoIter<(u64, Vec<u8>)>,
    next: Option<(u64, Vec<u8>)>,
    /// Pages until two reads are refused.
    refuses_after: Option<usize>,
    refused: usize,
}

impl Read for Pages {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.refuses_after == Some(0) && self.refused < 2 {
            self.refused += 1;
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        if self.next.is_none() {
            self.next = self.pages.next();
        }
        match self.next.take() {
            Some((at, page)) if at <= clock::boot_now() => {
                buf[..page.len()].copy_from_slice(&page);
                self.refuses_after = self.refuses_after.map(|pages| pages.saturating_sub(1));
                Ok(page.len())
            }
            later => {
                self.next = later;
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
        }
    }
}

fn pages(cpu: u32, load: &Load, begin: u64, switch: &EventFormat, waking: &EventFormat) -> (Pages, u64) {
    let thread = 1000 + cpu as i32;
    let sw = |prev: i32, next: i32| SwitchRecord {
        prev_comm: b"worker",
        prev_pid: prev,
        prev_prio: 120,
        prev_state: 1,
        next_comm: if next == 0 { b"swapper" } else { b"worker" },
        next_pid: next,
        next_prio: 120,
    };
    // Whoever wakes is who runs there: nobody at first, then the thread itself.
    let wake = |waker| WakingRecord { waker, comm: b"worker", pid: thread, prio: 120, target_cpu: cpu as i32 };
    let (wake, again) = (wake(0).encode(waking), wake(thread).encode(waking));
    let (on, off) = (sw(0, thread).encode(switch), sw(thread, 0).encode(switch));
    let period = 2_000_000_000 / load.pairs_per_second;
    let begin = begin + u64::from(cpu) * 997;
    let end = begin + u64::try_from(load.time.as_nanos()).unwrap();
    let (mut out, mut pairs) = (Vec::new(), 0);
    let mut page = PageWriter::new(LAYOUT, begin);
    let mut last = begin;
    let mut at = begin;
    while at < end {
        // Two wake-ups for two switches: the second is of a thread that runs already.
        for (ts, data) in [(at, &wake), (at + WAIT, &on), (at + period / 4, &again), (at + WAIT + period / 2, &off)] {
            if !page.data(ts, data) {
                let full = std::mem::replace(&mut page, PageWriter::new(LAYOUT, ts));
                out.push((last, full.finish()));
                assert!(page.data(ts, data));
            }
            last = ts;
        }
        pairs += 2;
        at += period;
    }
    out.push((last, page.finish()));
    let refuses_after = load.refuses_after.filter(|_| cpu == 0);
    (Pages { pages: out.into_iter(), next: None, refuses_after, refused: 0 }, pairs)
}

/// Records the load into the store at `dir`.
pub fn record(dir: &Path, load: Load) -> Made {
    let store = Store::create(dir).unwrap();
    let [switch, waking] =
        [Kernel::V6_18.sched_switch(), Kernel::V6_18.sched_waking()].map(|t| EventFormat::parse(t).unwrap());
    let mut table = EventTable::new();
    for format in [&switch, &waking] {
        table.insert(TracedEvent { group: "sched".into(), format: format.clone() });
    }
    // The pages are made before the clock starts.
    let lead = 200_000_000 + u64::from(load.cpus) * 20_000_000;
    let begin = clock::boot_now() + lead;
    let (mut readers, mut pairs) = (Vec::new(), 0);
    for cpu in 0..load.cpus {
        let (pages, more) = pages(cpu, &load, begin, &switch, &waking);
        pairs += more;
        readers.push(CpuReader::from_source(cpu, LAYOUT.sub_buffer_size(), Box::new(pages), Duration::ZERO));
    }
    let live = Arc::new(Live::default());
    live.lock().limits = (Limits::default(), 0.0);
    let (hints, take_hints) = crossbeam_channel::bounded(1024);
    let facts = Arc::new(Facts::new(take_hints));
    let (_packets, packets) = crossbeam_channel::bounded(1);
    let stats: Vec<_> = (0..load.cpus).map(|c| (c, CpuStats::default())).collect();
    let boot = BootId::parse("0c1d2e3f-0011-2233-4455-66778899aabb");
    let world = World {
        system: System { release: b"6.18.44".to_vec(), cpus: load.cpus, ..System::default() },
        events: vec!["sched/sched_switch".into()],
        boot,
        version: "test".into(),
        ..World::default()
    };
    let parts = EncoderParts {
        layout: LAYOUT,
        plan: Plan::new(&table),
        states: StateLayout::SINCE_4_14.into(),
        stacks: Stacks::default(),
        hints,
    };
    let clocks = Box::new(move || Clocks { boot, now: clock::boot_now(), real_at_boot: 0 });
    let (writer, keeper) = writer::threads(&store, &live, (load.segment, Duration::ZERO), clocks);
    let began = clock::snapshot();
    let source = Source { readers, stats: Box::new(|_| None), layout: LAYOUT, wakes: false, clock: TraceClock::Boot };
    let made = Parts {
        encoder: Encoder::new(parts, &stats, began.boot),
        stats: Vec::new(),
        writer,
        keeper,
        packets,
        facts,
        live,
        world: Arc::new(world),
        own: Arc::new(OnceLock::from(vec![])),
        level: 2,
        segment: Some(load.segment),
        began,
        crew: Crew::default(),
    };
    // Where it may, the recorder goes ahead of what else this machine does: it is asked to lose nothing. Threads inherit it.
    // SAFETY: no memory is involved; who has no right to a lower value keeps the one it has.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
    let pipeline = Pipeline::start(made, |parts, began| ReaderThread::new(source, parts, began)).unwrap();
    let left = begin + u64::try_from(load.time.as_nanos()).unwrap() + 300_000_000;
    std::thread::sleep(Duration::from_nanos(left.saturating_sub(clock::boot_now())));
    assert!(pipeline.is_whole());
    pipeline.stop();
    Made { pairs }
}
