//! Rebuilds what a footer would say from the frames alone: for segments of a dead recorder, and growing ones.
//!
//! Finding the frames needs only their headers. What is in them (times, counts, losses) a [`FrameProbe`]
//! tells, since this floor reads no packets by itself.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::{Footer, FormatVersion, Summary, Totals};
use super::frame::{self, Found, FrameDecompressor, MAX_FRAMES};
use super::index::{FrameEntry, FrameFacts};
use std::fs::File;
use std::path::Path;

/// Tells what is in a file's frames, fed one by one in file order.
pub trait FrameProbe {
    /// What the frame with these packets holds.
    fn frame(&mut self, packets: &[u8]) -> FrameFacts;

    /// Format of the file, if a frame so far told it.
    fn format(&self) -> Option<FormatVersion> {
        None
    }

    /// Puts what all frames together told into `footer` (clocks, boot, host, start, end, summary…). Its index is complete by then.
    fn conclude(&mut self, footer: &mut Footer) {
        let _ = footer;
    }
}

/// A probe that tells nothing: finds and checks frames only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unprobed;

impl FrameProbe for Unprobed {
    fn frame(&mut self, _packets: &[u8]) -> FrameFacts {
        FrameFacts::default()
    }
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// The index, and what the probe concluded.
    pub footer: Footer,
    /// First byte that belongs to no whole frame; equal to the length scanned when all is whole.
    pub good: u64,
    /// What stopped the scan, if not the end of the file.
    pub damage: Option<Damage>,
}

/// Where frames stand in `[from, end)` of a file, by their headers alone, up to the first that is not whole. Skippable
/// frames are passed over. Content is not checked.
pub fn outline(file: &File, path: &Path, from: u64, end: u64) -> Result<Scan, StoreError> {
    let mut scan = Scan { good: from, ..Scan::default() };
    loop {
        let damage = |kind| Some(Damage { offset: scan.good, kind });
        match frame::look(file, scan.good, end).map_err(|e| StoreError::io("read", path, e))? {
            Found::End => return Ok(scan),
            Found::Skippable { len, .. } => scan.good += len,
            Found::Zstd { .. } if scan.footer.frames.len() == MAX_FRAMES => scan.damage = damage(DamageKind::TooLarge),
            Found::Zstd { len, raw } => {
                let facts = FrameFacts::default();
                let entry = FrameEntry { offset: scan.good, compressed: len, raw: raw.unwrap_or(0), facts };
                scan.footer.frames.push(entry);
                scan.good += len;
            }
            Found::Cut => scan.damage = damage(DamageKind::Cut),
            Found::NotAFrame => scan.damage = damage(DamageKind::NotAFrame),
            Found::TooLarge => scan.damage = damage(DamageKind::TooLarge),
        }
        if scan.damage.is_some() {
            return Ok(scan);
        }
    }
}

/// The same with every frame decompressed, its checksum checked and its content shown to `probe`. Refuses a newer major
/// format as soon as a frame tells it.
pub fn scan(file: &File, path: &Path, from: u64, end: u64, probe: &mut dyn FrameProbe) -> Result<Scan, StoreError> {
    let mut scan = outline(file, path, from, end)?;
    let mut decompressor = FrameDecompressor::new().map_err(|e| StoreError::io("decompress", path, e))?;
    let (mut bytes, mut packets) = (Vec::new(), Vec::new());
    for i in 0..scan.footer.frames.len() {
        let entry = &mut scan.footer.frames[i];
        match read_entry(file, path, entry, &mut bytes, &mut decompressor, &mut packets)? {
            Ok(()) => entry.facts = probe.frame(&packets),
            Err(kind) => {
                scan.good = entry.offset;
                scan.damage = Some(Damage { offset: entry.offset, kind });
                scan.footer.frames.truncate(i);
                break;
            }
        }
        entry.raw = packets.len() as u64;
        if let Some(found) = probe.format().filter(|f| !f.is_readable()) {
            return Err(StoreError::NewerFormat { path: path.to_owned(), found });
        }
    }
    conclude(&mut scan.footer, probe);
    Ok(scan)
}

/// Reads and undoes one frame of a file. The outer error is the file system's, the inner one the frame's.
pub(super) fn read_entry(
    file: &File,
    path: &Path,
    entry: &FrameEntry,
    bytes: &mut Vec<u8>,
    decompressor: &mut FrameDecompressor,
    packets: &mut Vec<u8>,
) -> Result<Result<(), DamageKind>, StoreError> {
    use super::frame::ReadAt;
    packets.clear();
    // A frame of ours is never much longer than its content; the entry may come from a hostile footer.
    let limit = zstd::zstd_safe::compress_bound(frame::MAX_RAW) as u64;
    let Some(len) = usize::try_from(entry.compressed).ok().filter(|_| entry.compressed <= limit) else {
        return Ok(Err(DamageKind::TooLarge));
    };
    let end = file.metadata().map_err(|e| StoreError::io("read", path, e))?.len();
    if entry.offset.saturating_add(entry.compressed) > end {
        return Ok(Err(DamageKind::Cut));
    }
    bytes.resize(len, 0);
    let got = file.read_full_at(bytes, entry.offset).map_err(|e| StoreError::io("read", path, e))?;
    if got < len {
        return Ok(Err(DamageKind::Cut));
    }
    Ok(decompressor.decompress(bytes, packets))
}

fn conclude(footer: &mut Footer, probe: &mut dyn FrameProbe) {
    let mut totals = Totals::default();
    let frames = &footer.frames;
    let spans = || frames.iter().filter_map(|f| f.facts.span);
    totals.start = spans().map(|s| s.0).min().unwrap_or(0);
    let last = spans().map(|s| s.1.saturating_add(1)).max().unwrap_or(0);
    totals.end = frames.iter().map(|f| f.facts.complete_through).max().unwrap_or(0).max(last);
    totals.valid_from = totals.start;
    totals.events = frames.iter().fold(0, |n: u64, f| n.saturating_add(f.events()));
    frames.iter().for_each(|f| totals.loss.merge(f.loss()));
    footer.totals = totals;
    footer.summary = Summary::default();
    probe.conclude(footer);
}
