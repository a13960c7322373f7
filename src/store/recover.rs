//! Finishes what a dead recorder left: cuts a `.part` after its last whole frame, gives it a footer and its name.
//!
//! Files whose writer still lives are left alone: a writer holds a lock on its file. Half-made snapshots are
//! deleted, since their frames still stand in the segments. One that has its name and was cut by a power failure (see
//! [`super::snapshot`]) gets a footer, too. Nothing whole is ever thrown away.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::{Ending, Totals};
use super::layout::{Store, StoredFile};
use super::reader;
use super::scan::{self, FrameProbe, Scan};
use super::writer::SegmentWriter;
use nix::fcntl::Flock;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// What became of one left-over file.
#[derive(Debug)]
pub struct Recovery {
    /// The file as it was found.
    pub found: PathBuf,
    /// What was done.
    pub outcome: Outcome,
}

/// What was done with a left-over file.
#[derive(Debug)]
pub enum Outcome {
    /// It is a finished segment now.
    Finished {
        /// Under this name.
        path: PathBuf,
        /// Zstd frames kept.
        frames: usize,
        /// What it covers.
        totals: Box<Totals>,
        /// Bytes behind the last whole frame, cut off.
        cut: u64,
        /// Why they were not whole.
        damage: Option<Damage>,
    },
    /// There was not one whole frame in it (or it was a half-made snapshot): deleted.
    Deleted {
        /// Its length.
        bytes: u64,
    },
    /// It could not be dealt with and stays as it is.
    Left(StoreError),
}

/// Deals with every left-over of the store. `probe` makes a fresh probe for each file. Only for the holder of the
/// recorder's lock.
pub fn recover(store: &Store, probe: &mut dyn FnMut() -> Box<dyn FrameProbe>) -> Result<Vec<Recovery>, StoreError> {
    let mut done = Vec::new();
    for file in store.segments()?.into_iter().filter(|f| f.name.part) {
        if let Some(outcome) = flatten(segment(store, &file, probe)) {
            done.push(Recovery { found: file.path, outcome });
        }
    }
    for file in store.snapshots()? {
        let outcome = if file.name.part { half_snapshot(&file) } else { torn_snapshot(store, &file, probe) };
        if let Some(outcome) = flatten(outcome) {
            done.push(Recovery { found: file.path, outcome });
        }
    }
    Ok(done)
}

fn flatten(result: Result<Option<Outcome>, StoreError>) -> Option<Outcome> {
    result.unwrap_or_else(|e| Some(Outcome::Left(e)))
}

/// Opens a left-over, or `None` while its writer lives.
fn open(file: &StoredFile) -> Result<Option<Flock<File>>, StoreError> {
    // What this recorder did not make is nothing to write to: a link may lead anywhere, a pipe or a device holds no frames.
    let meta = fs::symlink_metadata(&file.path).map_err(|e| StoreError::io("read", &file.path, e))?;
    if !meta.is_file() {
        let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file");
        return Err(StoreError::io("write to", &file.path, why));
    }
    let opened = OpenOptions::new().read(true).write(true).open(&file.path);
    let opened = opened.map_err(|e| StoreError::io("write to", &file.path, e))?;
    super::writer::claim(opened, &file.path)
}

fn segment(
    store: &Store,
    file: &StoredFile,
    probe: &mut dyn FnMut() -> Box<dyn FrameProbe>,
) -> Result<Option<Outcome>, StoreError> {
    let Some(open) = open(file)? else { return Ok(None) };
    let len = open.metadata().map_err(|e| StoreError::io("read", &file.path, e))?.len();
    let dir = store.segments_dir();
    if let Some(footer) = reader::read_footer(&file.path)? {
        // The recorder died between footer and rename.
        let frames = footer.frames.len();
        let path = dir.join(file.name.finished().to_string());
        fs::rename(&file.path, &path).map_err(|e| StoreError::io("rename", &file.path, e))?;
        super::layout::sync_dir(&dir)?;
        return Ok(Some(Outcome::Finished { path, frames, totals: Box::new(footer.totals), cut: 0, damage: None }));
    }
    let scan = scan::scan(&open, &file.path, 0, len, probe().as_mut())?;
    close(open, &dir, file, len, scan).map(Some)
}

/// Ends the file behind its last whole frame, or deletes it where there is none.
fn close(open: Flock<File>, dir: &Path, file: &StoredFile, len: u64, scan: Scan) -> Result<Outcome, StoreError> {
    if scan.footer.frames.is_empty() {
        fs::remove_file(&file.path).map_err(|e| StoreError::io("delete", &file.path, e))?;
        return Ok(Outcome::Deleted { bytes: len });
    }
    let frames = scan.footer.frames.len();
    let mut writer = SegmentWriter::resume(open, dir, &file.name, scan.footer.frames)?;
    let cut = len.saturating_sub(writer.bytes());
    let totals = Totals { ending: Ending::Recovered, ..scan.footer.totals };
    let path = writer.finish(totals.clone(), scan.footer.summary)?.path;
    Ok(Outcome::Finished { path, frames, totals: Box::new(totals), cut, damage: scan.damage })
}

/// A snapshot that has its name and no footer: the power went before the disk had all of it.
fn torn_snapshot(
    store: &Store,
    file: &StoredFile,
    probe: &mut dyn FnMut() -> Box<dyn FrameProbe>,
) -> Result<Option<Outcome>, StoreError> {
    if reader::read_footer(&file.path)?.is_some() {
        return Ok(None);
    }
    let Some(open) = open(file)? else { return Ok(None) };
    let len = open.metadata().map_err(|e| StoreError::io("read", &file.path, e))?.len();
    let scan = scan::scan(&open, &file.path, 0, len, probe().as_mut())?;
    match scan.damage {
        // There may be whole frames behind it.
        Some(damage) if damage.kind != DamageKind::Cut => {
            Err(StoreError::damaged(&file.path, damage.offset, damage.kind))
        }
        _ => close(open, &store.snapshots_dir(), file, len, scan).map(Some),
    }
}

fn half_snapshot(file: &StoredFile) -> Result<Option<Outcome>, StoreError> {
    let Some(open) = open(file)? else { return Ok(None) };
    let bytes = open.metadata().map_or(0, |m| m.len());
    fs::remove_file(&file.path).map_err(|e| StoreError::io("delete", &file.path, e))?;
    Ok(Some(Outcome::Deleted { bytes }))
}
