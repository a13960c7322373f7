//! Footers there and back, and every way to spoil one.
#![allow(clippy::unwrap_used)]

use super::super::index::{FrameFacts, FrameKind};
use super::*;
use proptest::prelude::*;

fn sample() -> Footer {
    let entry = |offset, compressed, kind, span, complete_through, events: &[(u32, u64)]| FrameEntry {
        offset,
        compressed,
        raw: compressed * 4,
        facts: FrameFacts { kind, span, complete_through, events: events.to_vec(), loss: Vec::new() },
    };
    let mut frames = vec![
        entry(0, 500, FrameKind::Head, None, 0, &[]),
        entry(500, 100, FrameKind::Data, Some((1_000, 1_400)), 1_500, &[(0, 7), (1024, 3)]),
        entry(600, 90, FrameKind::Data, None, 2_000, &[]),
        entry(690, 20, FrameKind::Tail, None, 0, &[]),
    ];
    frames[1].facts.loss = vec![(1024, LossCount { known: 5, unknown: true })];
    let cell = |busy| SummaryCell { busy, ready: 3, blocked: 1, worst_wait: 48_000_000, loss: LossCount::default() };
    let mut lossy = cell(Some(0.25));
    lossy.loss = LossCount { known: 5, unknown: true };
    let summary = Summary {
        start: 1_000,
        step: 1_000_000_000,
        lanes: vec![
            CpuLane { cpu: 0, cells: vec![cell(None), cell(Some(0.0)), cell(Some(1.0))] },
            CpuLane { cpu: 1024, cells: vec![lossy, cell(None), cell(None)] },
        ],
        marks: vec![Mark { ts: 1_200, text: b"step \xff".to_vec() }],
    };
    let window = |from, to| Window { from, to };
    let totals = Totals {
        sequence: 42,
        boot: BootId([7; 16]),
        host: b"gpu-07".to_vec(),
        recorder: "0.1.0".to_owned(),
        ending: Ending::Recovered,
        start: 1_000,
        end: 2_000,
        valid_from: 1_001,
        clock: ClockSnapshot { boot: 1_000, mono: 900, real: u64::MAX, tai: 5, zone_offset_minutes: Some(-210) },
        cpus: 2,
        events: 10,
        loss: LossCount { known: 5, unknown: true },
        busy: Some(0.5),
        busiest: Some((1024, 0.97)),
        worst_wait: Some(WorstWait { dur: 48_000_000, at: 1_100, tid: 7, name: b"\x1b[2J".to_vec() }),
        marks: 1,
        gaps: vec![window(1_500, 1_600)],
        snapshot: Some(SnapshotNote {
            reason: "trigger".to_owned(),
            detail: "p99 = 9 ms".to_owned(),
            label: "p99 alert".to_owned(),
            requested_at: 2_500,
            asked: window(900, 2_100),
            real: window(1_000, 2_000),
            holes: vec![window(900, 1_000)],
        }),
        ..Totals::default()
    };
    Footer { frames, summary, totals }
}

fn locate(bytes: &[u8]) -> Locator {
    match Locator::read(bytes) {
        Tail::Footer(locator) => locator,
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_comes_back_and_zstd_passes_over_it() {
    let footer = sample();
    let bytes = encode(&footer, 710);
    let locator = locate(&bytes);
    assert_eq!((locator.offset, locator.frame_len()), (710, bytes.len() as u64));
    assert_eq!(locator.footer(&bytes).unwrap(), footer);
    let tail = &bytes[bytes.len() - locator.totals_len() as usize..];
    assert_eq!(locator.totals(tail).unwrap(), footer.totals);
    assert_eq!(zstd::stream::decode_all(&bytes[..]).unwrap(), b"", "a skippable frame has no content");
    assert_eq!(&bytes[..4], [0x5D, 0x2A, 0x4D, 0x18]);
}

#[test]
fn an_index_that_does_not_reach_the_footer_is_refused() {
    let bytes = encode(&sample(), 711);
    assert_eq!(locate(&bytes).footer(&bytes), Err(DamageKind::Footer));
}

#[test]
fn case_76_newer_major_is_refused_newer_minor_is_read() {
    let mut footer = sample();
    footer.totals.format = FormatVersion { major: 1, minor: 9 };
    let bytes = encode(&footer, 710);
    assert_eq!(locate(&bytes).footer(&bytes).unwrap().totals.format.to_string(), "1.9");
    footer.totals.format = FormatVersion { major: 2, minor: 0 };
    let bytes = encode(&footer, 710);
    assert_eq!(Locator::read(&bytes), Tail::Newer(FormatVersion { major: 2, minor: 0 }));
    // Only the last 12 bytes are promised to later formats.
    assert_eq!(Locator::read(&bytes[bytes.len() - 12..]), Tail::Newer(FormatVersion { major: 2, minor: 0 }));
}

#[test]
fn occupancy_keeps_four_digits_and_unknown_stays_unknown() {
    let lane = |busy| CpuLane { cpu: 0, cells: vec![SummaryCell { busy, ..SummaryCell::default() }] };
    let through = |busy| {
        let summary = Summary { lanes: vec![lane(busy)], step: 1, ..Summary::default() };
        wire::decode_summary(&wire::encode_summary(&summary)).unwrap().lanes[0].cells[0].busy
    };
    assert_eq!(through(None), None);
    assert_eq!(through(Some(0.12344)), Some(0.1234));
    assert_eq!(through(Some(f32::NAN)), Some(0.0));
    assert_eq!(through(Some(7.0)), Some(1.0));
}

#[test]
fn boot_ids_read_and_print_as_the_kernel_does() {
    let text = "0c1d2e3f-0011-2233-4455-66778899aabb";
    assert_eq!(BootId::parse(&format!("{text}\n")).to_string(), text);
    assert_eq!(BootId::parse("0c1d2e3f-0011"), BootId::default());
    assert_eq!(BootId::parse("zz1d2e3f-0011-2233-4455-66778899aabb"), BootId::default());
}

proptest! {
    #[test]
    fn a_flipped_bit_is_found_or_harmless(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let footer = sample();
        let mut bytes = encode(&footer, 710);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Tail::Footer(locator) = Locator::read(&bytes)
            && let Ok(read) = locator.footer(&bytes)
        {
            // Only the minor version and the magic's high bytes are not under a checksum.
            prop_assert_eq!(read.frames, footer.frames);
            prop_assert_eq!(read.summary, footer.summary);
        }
    }

    #[test]
    fn any_sections_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = wire::decode_index(&bytes);
        let _ = wire::decode_summary(&bytes);
        let _ = wire::decode_totals(&bytes);
        let _ = Locator::read(&bytes);
    }

    #[test]
    fn any_index_comes_back(sizes in proptest::collection::vec((1u64..1 << 20, any::<u32>(), any::<u64>(), any::<u64>(), 0u64..1 << 40, 0u32..2000), 0..40)) {
        let mut offset = 0;
        let frames: Vec<FrameEntry> = sizes.into_iter().map(|(compressed, raw, through, first, len, cpu)| {
            let first = first.min(u64::MAX - (1 << 41));
            let facts = FrameFacts { kind: FrameKind::Data, span: Some((first, first + len)), complete_through: through, events: vec![(cpu, u64::from(raw) + 1)], loss: vec![(cpu, LossCount { known: len, unknown: raw % 2 == 0 })] };
            let entry = FrameEntry { offset, compressed, raw: u64::from(raw), facts };
            offset += compressed;
            entry
        }).collect();
        prop_assert_eq!(wire::decode_index(&wire::encode_index(&frames)).unwrap(), frames);
    }
}

#[test]
fn occupancy_is_of_the_known_time_and_a_short_last_cell_counts_little() {
    let cell = |busy| SummaryCell { busy, ..SummaryCell::default() };
    let lane = |cpu, cells: &[Option<f32>]| CpuLane { cpu, cells: cells.iter().map(|&b| cell(b)).collect() };
    let lanes = vec![lane(0, &[Some(1.0), None]), lane(3, &[Some(0.0), Some(0.5)]), lane(4, &[None])];
    let summary = Summary { start: 100, step: 10, lanes, ..Summary::default() };
    // Known: 10 of CPU 0 (all busy), 10 + 10 of CPU 3 (5 busy).
    assert_eq!(summary.occupancy(120), (Some(0.5), Some((0, 1.0))));
    // The second cells last 1 only: (10 + 0.5) of 21.
    assert_eq!(summary.occupancy(111), (Some(0.5), Some((0, 1.0))));
    let cut_a_little_late =
        Summary { start: 0, step: 1000, lanes: vec![lane(0, &[Some(0.5), Some(0.0)])], ..Summary::default() };
    // 500 busy of 1,002 ns, not a quarter of the time.
    assert_eq!(cut_a_little_late.occupancy(1002).0, Some((500.0 / 1002.0) as f32));
    assert_eq!(Summary::default().occupancy(9), (None, None));
}
