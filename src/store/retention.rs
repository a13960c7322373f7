//! Deletes the oldest segments when the store grows over its size, age, or the disk's free space.
//!
//! Deciding is a pure function; carrying it out counts what is really on disk, so a file that cannot be deleted
//! keeps counting and others go in its place. The growing segment and snapshots are never touched.

use super::catalog::Catalog;
use super::error::StoreError;
use super::footer::BootId;
use super::layout::{DiskUsage, Store, bytes_on_disk};
use std::fs;
use std::path::PathBuf;

/// How much is kept; `None`: no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Bytes of the whole store on disk: segments, the growing one and snapshots.
    pub max_bytes: Option<u64>,
    /// Age of a segment's end, ns.
    pub max_age: Option<u64>,
    /// Bytes the file system keeps free.
    pub min_free: Option<u64>,
}

/// The clocks that age is measured with.
///
/// Within this boot only CLOCK_BOOTTIME counts, so setting the wall clock deletes nothing. For segments of earlier boots there is only the
/// wall clock; `real_at_boot` should be taken once, when the recorder starts (CLOCK_REALTIME − CLOCK_BOOTTIME),
/// so a later jump of the wall clock does not age them either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// This boot.
    pub boot: BootId,
    /// CLOCK_BOOTTIME now, ns.
    pub now: u64,
    /// Wall clock when this boot began, ns since 1970.
    pub real_at_boot: u64,
}

/// When a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// In which boot.
    pub boot: BootId,
    /// ns on CLOCK_BOOTTIME of that boot.
    pub at: u64,
    /// ns since 1970.
    pub real: u64,
}

/// A segment as the decision sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes on disk.
    pub bytes: u64,
    /// `None`: not known; it then goes by size and free space only.
    pub ended: Option<Ended>,
    /// Growing, or deleting it was tried and failed: counted, never chosen.
    pub fixed: bool,
}

/// The disk as the decision sees it, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// Free on the file system now.
    pub free: u64,
    /// Taken by snapshots: they count, but are never deleted.
    pub snapshots: u64,
}

/// Why a segment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Older than [`Limits::max_age`].
    Age,
    /// All together over [`Limits::max_bytes`].
    Size,
    /// The disk has less than [`Limits::min_free`].
    Free,
}

/// Which of `segments` (oldest first) have to go, and why.
pub fn decide(limits: &Limits, clocks: &Clocks, disk: Disk, segments: &[Candidate]) -> Vec<(usize, Reason)> {
    let mut total = segments.iter().fold(disk.snapshots, |sum, s| sum.saturating_add(s.bytes));
    let mut free = disk.free;
    let mut doomed = Vec::new();
    for (i, segment) in segments.iter().enumerate().filter(|(_, s)| !s.fixed) {
        let over_age = || Some(limits.max_age? < age(clocks, segment.ended.as_ref()?));
        let over_size = || Some(limits.max_bytes? < total);
        let under_free = || Some(free < limits.min_free?);
        let reason = if over_age() == Some(true) {
            Reason::Age
        } else if over_size() == Some(true) {
            Reason::Size
        } else if under_free() == Some(true) {
            Reason::Free
        } else {
            continue; // a younger one may still be over age: boots with a wrong wall clock are not in order
        };
        total = total.saturating_sub(segment.bytes);
        free = free.saturating_add(segment.bytes);
        doomed.push((i, reason));
    }
    doomed
}

/// Age of a segment's end, ns; 0 for an end in the future.
fn age(clocks: &Clocks, ended: &Ended) -> u64 {
    if ended.boot == clocks.boot {
        return clocks.now.saturating_sub(ended.at);
    }
    // It ended before this boot began, whatever the wall clock said then.
    clocks.now.saturating_add(clocks.real_at_boot.saturating_sub(ended.real))
}

/// What [`sweep`] did.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Deleted: path, bytes, why.
    pub deleted: Vec<(PathBuf, u64, Reason)>,
    /// Could not be deleted.
    pub failed: Vec<StoreError>,
    /// What the disk holds afterwards.
    pub usage: DiskUsage,
}

/// Deletes what the limits say. `catalog` is brought up to date first and last.
pub fn sweep(store: &Store, catalog: &mut Catalog, limits: &Limits, clocks: &Clocks) -> Result<Sweep, StoreError> {
    catalog.refresh()?;
    let mut sweep = Sweep::default();
    let (paths, mut candidates): (Vec<PathBuf>, Vec<Candidate>) = catalog
        .segments()
        .iter()
        .map(|s| {
            let ended = s.totals.as_ref().filter(|_| !s.is_growing());
            let ended = ended.map(|t| Ended { boot: t.boot, at: t.end, real: t.real_of(t.end) });
            let candidate = Candidate { bytes: bytes_on_disk(&s.path), ended, fixed: s.is_growing() };
            (s.path.clone(), candidate)
        })
        .unzip();
    loop {
        let usage = store.disk_usage()?;
        let disk = Disk { free: usage.free, snapshots: usage.snapshots };
        let mut again = false;
        for (i, reason) in decide(limits, clocks, disk, &candidates) {
            let bytes = candidates[i].bytes;
            candidates[i].fixed = true;
            match fs::remove_file(&paths[i]) {
                Ok(()) => {
                    candidates[i].bytes = 0;
                    sweep.deleted.push((paths[i].clone(), bytes, reason));
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => candidates[i].bytes = 0,
                Err(e) => {
                    sweep.failed.push(StoreError::io("delete", &paths[i], e));
                    again = true; // it stays and counts: others must go in its place
                }
            }
        }
        if !again {
            break;
        }
    }
    catalog.refresh()?;
    sweep.usage = store.disk_usage()?;
    Ok(sweep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 60_000_000_000;
    const BOOT: BootId = BootId([1; 16]);
    const CLOCKS: Clocks = Clocks { boot: BOOT, now: 100 * MIN, real_at_boot: 1_000_000 * MIN };

    /// 100 segments of 10 bytes, one a minute, the last one growing; segment i ends at minute i + 1.
    fn hundred() -> Vec<Candidate> {
        let ended = |i: u64| Ended { boot: BOOT, at: (i + 1) * MIN, real: (1_000_001 + i) * MIN };
        (0..100).map(|i| Candidate { bytes: 10, ended: Some(ended(i)), fixed: i == 99 }).collect()
    }

    #[test]
    fn case_64_size_takes_the_oldest_until_it_fits() {
        let limits = Limits { max_bytes: Some(955), ..Limits::default() };
        let doomed = decide(&limits, &CLOCKS, Disk::default(), &hundred());
        assert_eq!(doomed, (0..5).map(|i| (i, Reason::Size)).collect::<Vec<_>>());
        let none = Limits { max_bytes: Some(1000), ..Limits::default() };
        assert_eq!(decide(&none, &CLOCKS, Disk::default(), &hundred()), []);
        let kept = Disk { free: 0, snapshots: 25 };
        assert_eq!(decide(&none, &CLOCKS, kept, &hundred()).len(), 3, "snapshots count: 1025 - 3 × 10 ≤ 1000");
    }

    #[test]
    fn case_64_age_is_strict_and_free_space_counts_what_goes() {
        let limits = Limits { max_age: Some(97 * MIN), ..Limits::default() };
        // Ends at minutes 1 and 2 are 99 and 98 minutes old; minute 3 is exactly 97 and stays.
        assert_eq!(decide(&limits, &CLOCKS, Disk::default(), &hundred()), [(0, Reason::Age), (1, Reason::Age)]);
        let limits = Limits { min_free: Some(55), ..Limits::default() };
        assert_eq!(decide(&limits, &CLOCKS, Disk { free: 30, snapshots: 0 }, &hundred()).len(), 3, "30 + 3 × 10 ≥ 55");
    }

    #[test]
    fn case_64_what_cannot_be_deleted_counts_and_the_growing_one_stays() {
        let mut segments = hundred();
        segments[0].fixed = true;
        let limits = Limits { max_bytes: Some(20), ..Limits::default() };
        let doomed = decide(&limits, &CLOCKS, Disk::default(), &segments);
        assert_eq!(doomed.len(), 98, "all but the stuck one and the growing one");
        assert!(doomed.iter().all(|d| d.0 != 0 && d.0 != 99));
        let limits = Limits { max_bytes: Some(0), min_free: Some(u64::MAX), max_age: Some(0) };
        assert!(decide(&limits, &CLOCKS, Disk::default(), &hundred()).iter().all(|d| d.0 != 99));
    }

    #[test]
    fn case_56_setting_the_wall_clock_ages_nothing_of_this_boot() {
        let limits = Limits { max_age: Some(24 * 60 * MIN), ..Limits::default() };
        let mut segments = hundred();
        for s in segments.iter_mut().filter_map(|s| s.ended.as_mut()) {
            s.real -= 48 * 60 * MIN; // the wall clock was a day and more behind when they were written
        }
        assert_eq!(decide(&limits, &CLOCKS, Disk::default(), &segments), []);
    }

    #[test]
    fn an_earlier_boot_is_aged_by_the_wall_clock_and_at_least_by_this_boots_length() {
        let earlier = |real| Ended { boot: BootId([2; 16]), at: 9_999_999 * MIN, real };
        assert_eq!(age(&CLOCKS, &earlier(999_990 * MIN)), 110 * MIN, "10 minutes before this boot");
        assert_eq!(age(&CLOCKS, &earlier(2_000_000 * MIN)), 100 * MIN, "a wall clock that was ahead");
    }
}
