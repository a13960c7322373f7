//! Segments as files: damage, cuts, joins, versions, dead recorders (CASES 65, 66, 68, 76).
#![allow(clippy::unwrap_used)]

mod store_support;

use dashcam::store::error::DamageKind;
use dashcam::store::footer::{Ending, FormatVersion};
use dashcam::store::reader::{SegmentReader, read_footer, read_summary, read_totals};
use dashcam::store::recover::{Outcome, recover};
use dashcam::store::scan::FrameProbe;
use dashcam::store::summarise::SummaryProbe;
use dashcam::store::verify::verify;
use dashcam::store::{Damage, Store, StoreError};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use store_support::{Plan, S, event_times, record_row};

fn small() -> Plan {
    Plan { frames: 6, events: 8, ..Plan::default() }
}

fn store() -> (tempfile::TempDir, Store) {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(tmp.path()).unwrap();
    (tmp, store)
}

fn probes() -> impl FnMut() -> Box<dyn FrameProbe> {
    || Box::new(SummaryProbe::new())
}

/// Contents of every frame that reads.
fn contents(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = SegmentReader::open(path).unwrap();
    let mut frames = Vec::new();
    for i in 0..reader.frames().len() {
        let mut packets = Vec::new();
        if reader.read_frame(i, &mut packets).is_ok() {
            frames.push(packets);
        }
    }
    frames
}

/// A cheap reproducible sequence (xorshift64).
fn randoms(mut seed: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    })
}

#[test]
fn footer_and_scan_give_the_same_index() {
    let (tmp, store) = store();
    let done = small().record(&store);
    let with = SegmentReader::open(&done.path).unwrap();
    assert!(with.parts()[0].has_footer);
    let footer_at = with.frames().last().map(|f| f.offset + f.compressed).unwrap();
    let cut = tmp.path().join("cut.pftrace.zst");
    fs::write(&cut, &fs::read(&done.path).unwrap()[..footer_at as usize]).unwrap();
    let scanned = SegmentReader::open(&cut).unwrap();
    assert!(!scanned.parts()[0].has_footer);
    assert_eq!(scanned.frames(), with.frames());
    assert_eq!(scanned.damage(), None);
    let (a, b) = (scanned.totals(), with.totals());
    assert_eq!((a.start, a.end, a.events, a.boot), (b.start, b.end, b.events, b.boot));
    assert_eq!((a.clock, a.clock_end), (b.clock, b.clock_end));
}

#[test]
fn case_66_cut_anywhere_gives_all_whole_frames_and_the_offset() {
    let (tmp, store) = store();
    let done = small().record(&store);
    let bytes = fs::read(&done.path).unwrap();
    let frames = SegmentReader::open(&done.path).unwrap().frames().to_vec();
    let all = contents(&done.path);
    let cuts = (0..200).chain(randoms(66).map(|r| r % bytes.len() as u64).take(50));
    let path = tmp.path().join("cut");
    for cut in cuts {
        fs::write(&path, &bytes[..cut as usize]).unwrap();
        let whole = frames.iter().take_while(|f| f.offset + f.compressed <= cut).count();
        let end = frames[..whole].last().map_or(0, |f| f.offset + f.compressed);
        assert_eq!(contents(&path), all[..whole], "cut at {cut}");
        let damage = SegmentReader::open(&path).unwrap().damage();
        let expected = (end < cut).then_some(Damage { offset: end, kind: DamageKind::Cut });
        assert_eq!(damage, expected, "cut at {cut}");
    }
}

#[test]
fn case_66_a_wrong_checksum_is_told_with_its_offset_and_the_rest_is_read() {
    let (_tmp, store) = store();
    let done = small().record(&store);
    let all = contents(&done.path);
    let mut bytes = fs::read(&done.path).unwrap();
    let bad = SegmentReader::open(&done.path).unwrap().frames()[3].clone();
    bytes[(bad.offset + bad.compressed - 1) as usize] ^= 0x40;
    fs::write(&done.path, &bytes).unwrap();
    assert_eq!(contents(&done.path), [&all[..3], &all[4..]].concat());
    let mut reader = SegmentReader::open(&done.path).unwrap();
    let error = reader.read_frame(3, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.ends_with(&format!("damaged at byte {}: wrong checksum", bad.offset)), "{error}");
    let verified = verify(&done.path, &mut |_, _| {}).unwrap();
    assert_eq!(verified.damage, [Damage { offset: bad.offset, kind: DamageKind::Checksum }]);
    assert_eq!((verified.whole, verified.is_whole()), (all.len() - 1, false));
}

#[test]
fn case_66_and_97_joined_files_open_as_one() {
    let (tmp, store) = store();
    let plans = record_row(&store, small(), 3);
    let files: Vec<PathBuf> = store.segments().unwrap().into_iter().map(|f| f.path).collect();
    let joined = tmp.path().join("joined.pftrace.zst");
    let bytes: Vec<Vec<u8>> = files.iter().map(|p| fs::read(p).unwrap()).collect();
    fs::write(&joined, bytes.concat()).unwrap();
    let reader = SegmentReader::open(&joined).unwrap();
    assert_eq!(reader.parts().len(), 3);
    assert!(reader.parts().iter().all(|p| p.has_footer));
    let starts: Vec<u64> = reader.parts().iter().map(|p| p.totals.start).collect();
    assert_eq!(starts, plans.iter().map(|p| p.start).collect::<Vec<_>>());
    assert_eq!(contents(&joined), files.iter().flat_map(|f| contents(f)).collect::<Vec<_>>());
    let plain = zstd::stream::decode_all(File::open(&joined).unwrap()).unwrap();
    assert_eq!(event_times(&plain).len(), 3 * 6 * 8, "zstd -dc is one longer trace");
    // One without a footer in front of one with: the footers answer for what they can, a scan for the rest.
    let footer_at = SegmentReader::open(&files[0]).unwrap().frames().last().map(|f| f.offset + f.compressed).unwrap();
    fs::write(&joined, [&bytes[0][..footer_at as usize], &bytes[1][..]].concat()).unwrap();
    let reader = SegmentReader::open(&joined).unwrap();
    let footers: Vec<bool> = reader.parts().iter().map(|p| p.has_footer).collect();
    assert_eq!((footers, reader.damage()), (vec![false, true], None));
    assert_eq!(contents(&joined), [contents(&files[0]), contents(&files[1])].concat());
}

#[test]
fn footers_are_read_from_the_end_alone() {
    let (_tmp, store) = store();
    let done = small().record(&store);
    let totals = read_totals(&done.path).unwrap().unwrap();
    assert_eq!((totals.events, totals.sequence, totals.real_of(totals.end)), (48, 1, store_support::REAL + 3 * S));
    assert_eq!(read_summary(&done.path).unwrap().unwrap(), small().summary());
    assert_eq!(read_footer(&done.path).unwrap().unwrap().frames.len(), 8);
    // The bytes of all frames are gone: still the same.
    let mut bytes = fs::read(&done.path).unwrap();
    bytes[..100].fill(0);
    fs::write(&done.path, &bytes).unwrap();
    assert_eq!(read_totals(&done.path).unwrap().unwrap(), totals);
}

#[test]
fn case_68_a_growing_file_opens_up_to_its_last_whole_frame() {
    let (_tmp, store) = store();
    let writer = small().begin(&store);
    let mut bytes = fs::read(writer.path()).unwrap();
    let whole = bytes.len() as u64;
    bytes.extend_from_slice(&[0x28, 0xB5, 0x2F, 0xFD, 0x24]);
    fs::write(writer.path(), &bytes).unwrap();
    let reader = SegmentReader::open(writer.path()).unwrap();
    assert_eq!(reader.frames().len(), 7);
    assert_eq!(reader.damage(), Some(Damage { offset: whole, kind: DamageKind::Cut }));
    assert_eq!(reader.totals().end, small().end());
}

#[test]
fn case_65_a_dead_recorders_segment_is_whole_after_recovery() {
    let (_tmp, store) = store();
    // Killed while a frame was being written, at every kind of place.
    let (packets, _) = small().data(6);
    let mut last = Vec::new();
    dashcam::store::frame::FrameCompressor::new(3).unwrap().compress(&packets, &mut last).unwrap();
    for cut in 0..last.len() {
        let writer = small().begin(&store);
        let (path, whole) = (writer.path().to_owned(), writer.bytes());
        drop(writer);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&last[..cut]);
        fs::write(&path, bytes).unwrap();
        let done = recover(&store, &mut probes()).unwrap();
        let [one] = &done[..] else { panic!("{done:?}") };
        let Outcome::Finished { path, frames, totals, cut: cut_off, .. } = &one.outcome else { panic!("{one:?}") };
        assert_eq!((*frames, *cut_off), (7, cut as u64));
        assert_eq!((totals.start, totals.end, totals.ending), (small().start, small().end(), Ending::Recovered));
        let reader = SegmentReader::open(path).unwrap();
        assert!(reader.parts()[0].has_footer);
        assert_eq!((reader.totals().events, reader.damage()), (48, None));
        let seconds = &reader.parts()[0].summary;
        assert_eq!(seconds.lanes.iter().map(|l| (l.cpu, l.cells.len())).collect::<Vec<_>>(), [(0, 3), (1, 3)]);
        assert_eq!(seconds.lanes[0].cells[1].busy, Some(1.0), "the same thread runs on");
        assert_eq!(reader.frames().last().map(|f| f.offset + f.compressed), Some(whole));
        fs::remove_file(path).unwrap();
    }
    assert!(recover(&store, &mut probes()).unwrap().is_empty(), "nothing is left to do");
}

#[test]
fn case_65_recovery_leaves_the_living_alone_and_deletes_what_holds_nothing() {
    let (_tmp, store) = store();
    let living = small().begin(&store);
    assert!(recover(&store, &mut probes()).unwrap().is_empty(), "its writer lives");
    let empty = store.segments_dir().join("20261130T115500Z-000090.pftrace.zst.part");
    fs::write(&empty, [0x28, 0xB5]).unwrap();
    let half = store.snapshots_dir().join("20261130T115500Z-000091-x.pftrace.zst.part");
    fs::write(&half, b"half a snapshot").unwrap();
    let done = recover(&store, &mut probes()).unwrap();
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|r| matches!(r.outcome, Outcome::Deleted { .. })));
    assert!(!empty.exists() && !half.exists() && living.path().exists());
}

#[test]
fn case_65_a_recorder_that_died_between_footer_and_rename() {
    let (_tmp, store) = store();
    let done = small().record(&store);
    let part = done.path.with_extension("zst.part");
    fs::rename(&done.path, &part).unwrap();
    let recovered = recover(&store, &mut probes()).unwrap();
    let Outcome::Finished { path, totals, cut, .. } = &recovered[0].outcome else { panic!("{recovered:?}") };
    assert_eq!((path, totals.ending, *cut), (&done.path, Ending::Finished, 0));
}

#[test]
fn case_65_zeros_after_a_power_cut_are_cut_off() {
    let (_tmp, store) = store();
    let writer = small().begin(&store);
    let (path, whole) = (writer.path().to_owned(), writer.bytes());
    drop(writer);
    let mut bytes = fs::read(&path).unwrap();
    bytes.resize(bytes.len() + 10_000, 0); // size reached the disk, the data did not
    fs::write(&path, bytes).unwrap();
    let done = recover(&store, &mut probes()).unwrap();
    let Outcome::Finished { damage, cut, .. } = &done[0].outcome else { panic!("{done:?}") };
    assert_eq!((damage, *cut), (&Some(Damage { offset: whole, kind: DamageKind::NotAFrame }), 10_000));
}

#[test]
fn case_76_a_newer_format_is_refused_in_one_clear_line() {
    let (_tmp, store) = store();
    let done = small().record(&store);
    let mut bytes = fs::read(&done.path).unwrap();
    let at = bytes.len() - 12;
    bytes[at..at + 4].copy_from_slice(&[2, 0, 3, 0]);
    fs::write(&done.path, &bytes).unwrap();
    let found = FormatVersion { major: 2, minor: 3 };
    for error in
        [SegmentReader::open(&done.path).err(), read_totals(&done.path).err(), verify(&done.path, &mut |_, _| {}).err()]
    {
        let Some(error @ StoreError::NewerFormat { .. }) = &error else { panic!("{error:?}") };
        let text = error.to_string();
        let name = "20261130T115500Z-000001.pftrace.zst";
        let line = format!("{name}: format {found} is newer than this dashcam reads (1.x): use a newer dashcam");
        assert!(text.ends_with(&line) && !text.contains('\n'), "{text}");
    }
    // A growing one says so in its head.
    let mut head = Vec::new();
    dashcam::perfetto::encode::packets::metadata(&[(dashcam::store::probe::KEY_FORMAT, b"2.0")], &mut head);
    let mut writer = dashcam::store::writer::SegmentWriter::create(&store, 0).unwrap();
    store_support::write(&mut writer, &head, Default::default());
    assert!(matches!(SegmentReader::open(writer.path()), Err(StoreError::NewerFormat { .. })));
}

#[test]
fn case_76_files_of_every_released_version_still_open() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store");
    let mut seen = 0;
    for file in fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "zst") {
            continue;
        }
        let verified = verify(&path, &mut |_, _| {}).unwrap();
        assert!(verified.is_whole() && verified.without_footer == 0, "{path:?}: {verified:?}");
        let totals = read_totals(&path).unwrap().unwrap();
        assert_eq!((totals.events, totals.host.as_slice()), (48, &b"test"[..]), "{path:?}");
        let plain = zstd::stream::decode_all(File::open(&path).unwrap()).unwrap();
        assert_eq!(event_times(&plain).len(), 48);
        seen += 1;
    }
    assert!(seen > 0, "the fixtures are gone");
}

/// Run once when a format is released: `cargo test --test store_files -- --ignored`.
#[test]
#[ignore = "writes a fixture into the repository"]
fn write_the_fixture_of_the_current_format() {
    let (_tmp, store) = store();
    let done = small().record(&store);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(done.path, dir.join(format!("format-{}.pftrace.zst", FormatVersion::CURRENT))).unwrap();
}
