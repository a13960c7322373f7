//! Any bytes as ring-buffer pages: the encoder drops what is damaged, and what it writes decodes as exactly the events that
//! its index counts.
#![no_main]

use std::sync::LazyLock;

use dashcam::kernel::events::{EventTable, TracedEvent};
use dashcam::kernel::format::EventFormat;
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::stats::CpuStats;
use dashcam::kernel::testing::Kernel;
use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use dashcam::recorder::blocked::Stacks;
use dashcam::recorder::encoder::{Encoder, EncoderParts, Page};
use dashcam::recorder::plan::Plan;
use dashcam::sched::event::Item;
use dashcam::sched::state::StateLayout;
use libfuzzer_sys::fuzz_target;

static TABLE: LazyLock<EventTable> = LazyLock::new(|| {
    let mut table = EventTable::new();
    for (path, text) in Kernel::V6_18.formats() {
        if let (Some((group, _)), Ok(format)) = (path.split_once('/'), EventFormat::parse(text)) {
            table.insert(TracedEvent { group: group.into(), format });
        }
    }
    table
});

/// One page: its CPU, the length that its header claims, its time stamp, and what follows.
type Written<'a> = (u8, u16, u64, &'a [u8]);

fuzz_target!(|input: (Vec<Written<'_>>, Vec<u64>)| {
    let (pages, ends) = input;
    let layout = PageLayout::USUAL;
    // Nobody listens.
    let (hints, _) = crossbeam_channel::bounded(1);
    let parts = EncoderParts {
        layout,
        plan: Plan::new(&TABLE),
        states: StateLayout::SINCE_4_14.into(),
        stacks: Stacks::default(),
        hints,
    };
    let cpus = [0, 1, 700].map(|cpu| (cpu, CpuStats::default()));
    let mut encoder = Encoder::new(parts, &cpus, 0);
    for (cpu, length, ts, body) in pages {
        let mut bytes = vec![0; layout.sub_buffer_size()];
        bytes[..8].copy_from_slice(&ts.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(u32::from(length) | u32::from(cpu >> 6) << 30).to_ne_bytes());
        let end = bytes.len().min(16 + body.len());
        bytes[16..end].copy_from_slice(&body[..end - 16]);
        encoder.add_page(Page { cpu: [0, 1, 700, 4][usize::from(cpu) % 4], bytes, stats: None });
    }
    let (mut decoder, mut names, mut raw) = (Decoder::new(), NameTable::new(), Vec::new());
    let (mut from, mut told, mut seen) = (0, 0, 0);
    for end in ends.into_iter().take(8).chain([u64::MAX]) {
        while from < end {
            from = encoder.run(from, end);
            told += encoder.close_frame(from, &mut raw).events.iter().map(|e| e.1).sum::<u64>();
            let each = &mut |item: Item| seen += u64::from(matches!(item, Item::Event(_)));
            assert!(decoder.decode(&raw, &mut names, each).is_ok());
        }
        encoder.begin_segment();
    }
    assert_eq!((told, seen), (encoder.counts().events, told));
});
