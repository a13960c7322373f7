//! What stands at the end of a file: an index of its zstd frames, a summary that hours can be drawn from, and totals.
//!
//! The footer is one zstd skippable frame, so every zstd reader passes over it. Its last bytes are a locator,
//! so it is found from the end of the file without scanning, and its totals stand next to that, so a
//! catalog of a day reads a few KiB per file. The numbers are made elsewhere; this module carries them, and
//! refuses bytes that do not add up.
//!
//! ```text
//! skippable header (8) │ index │ summary │ totals │ locator (60)
//! locator: 3 × {length u32, CRC-32 u32} │ frame offset u64 │ zeros 12 │ CRC-32 of these 44 u32
//!          │ major u16 │ minor u16 │ "dcamfoot"                       (all little-endian)
//! ```
//!
//! The last 12 bytes never change, whatever the major version: a later format can always be named.

mod foremost;

pub use foremost::Foremost;

use super::error::DamageKind;
use super::frame;
use super::index::{FrameEntry, LossCount};
use super::wire;
use crate::sched::event::{ClockSnapshot, Tid};
use crate::sched::summary::Window;
use crate::time::{ClockMap, ClockPair};
use std::fmt;

/// Low bits of the skippable frame's magic: 0x184D2A5D.
pub(super) const VARIANT: u8 = 0xD;
pub(super) const LOCATOR: usize = 60;
const FIXED: usize = 12;
const MARK: &[u8; 8] = b"dcamfoot";

/// Version of the file format. A newer minor only adds what older readers may skip; a newer major is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormatVersion {
    /// Readers refuse a newer one.
    pub major: u16,
    /// Readers accept any.
    pub minor: u16,
}

impl FormatVersion {
    /// What this dashcam writes.
    pub const CURRENT: FormatVersion = FormatVersion { major: 1, minor: 0 };

    /// True when this dashcam may read such a file.
    pub fn is_readable(self) -> bool {
        self.major <= Self::CURRENT.major
    }
}

impl Default for FormatVersion {
    fn default() -> Self {
        Self::CURRENT
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One run of the kernel; CLOCK_BOOTTIME values of different boots cannot be compared.
/// The bytes of `/proc/sys/kernel/random/boot_id`; all zero: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BootId(pub [u8; 16]);

impl BootId {
    /// Reads the kernel's text form (32 hex digits, dashes anywhere); anything else is "not known".
    pub fn parse(text: &str) -> Self {
        let digits: Vec<u32> = text.trim().chars().filter(|&c| c != '-').map_while(|c| c.to_digit(16)).collect();
        let mut id = [0u8; 16];
        if digits.len() == 32 {
            for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
                *byte = (pair[0] << 4 | pair[1]) as u8;
            }
        }
        BootId(id)
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            f.write_str(if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" })?;
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Everything the footer holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Footer {
    /// Every zstd frame, in file order, without holes from byte 0 to the footer.
    pub frames: Vec<FrameEntry>,
    /// For drawing.
    pub summary: Summary,
    /// For listing and finding.
    pub totals: Totals,
}

/// The file in numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Format of the file.
    pub format: FormatVersion,
    /// Sequence number as in the name.
    pub sequence: u64,
    /// Which run of the kernel the times belong to.
    pub boot: BootId,
    /// Node name, bytes as the kernel has them.
    pub host: Vec<u8>,
    /// Version of the dashcam that recorded.
    pub recorder: String,
    /// How the file came to its end.
    pub ending: Ending,
    /// First instant it answers for, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// First instant after it.
    pub end: u64,
    /// First instant from which all CPUs are covered; ≥ `start`.
    pub valid_from: u64,
    /// Clocks at the begin: place the file in wall-clock time.
    pub clock: ClockSnapshot,
    /// Clocks at the end; default when the recorder died.
    pub clock_end: ClockSnapshot,
    /// Number of CPUs recorded.
    pub cpus: u32,
    /// Events in all.
    pub events: u64,
    /// Loss in all.
    pub loss: LossCount,
    /// Mean CPU occupancy 0..=1 of the known time; `None`: nothing known.
    pub busy: Option<f32>,
    /// Busiest CPU and its occupancy.
    pub busiest: Option<(u32, f32)>,
    /// Longest run-queue latency.
    pub worst_wait: Option<WorstWait>,
    /// Number of user markers (`dashcam mark`, trace_marker).
    pub marks: u64,
    /// Stretches within without any recording (suspend, recorder stopped).
    pub gaps: Vec<Window>,
    /// Rate when the data came from sampling procfs instead of events.
    pub sampled_hz: Option<u32>,
    /// Only in snapshots.
    pub snapshot: Option<SnapshotNote>,
}

impl Totals {
    /// Both clocks at the begin and, where known, at the end.
    pub fn clock_pairs(&self) -> impl Iterator<Item = ClockPair> {
        let known =
            |c: &ClockSnapshot| (c.boot != 0 && c.real != 0).then_some(ClockPair { boot: c.boot, real: c.real });
        known(&self.clock).into_iter().chain(known(&self.clock_end))
    }

    /// Wall time (ns since 1970) of an instant of the file; the boot instant itself when no clock was recorded.
    pub fn real_of(&self, boot: u64) -> u64 {
        ClockMap::new(self.clock_pairs()).to_real(boot)
    }

    /// What the file answers for.
    pub fn window(&self) -> Window {
        Window { from: self.start, to: self.end }
    }
}

/// How a file came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// The recorder finished it.
    #[default]
    Finished,
    /// The recorder died; what was whole was kept.
    Recovered,
}

/// The longest run-queue latency of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorstWait {
    /// Length, ns.
    pub dur: u64,
    /// Begin, ns on CLOCK_BOOTTIME.
    pub at: u64,
    /// Who waited.
    pub tid: Tid,
    /// Its name then, bytes as the kernel has them.
    pub name: Vec<u8>,
}

/// Why a snapshot was kept, and what it holds against what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotNote {
    /// Who asked: `key`, `signal`, `command`, `trigger`.
    pub reason: String,
    /// Further words, e.g. the trigger and its value.
    pub detail: String,
    /// Label as asked for (the name holds it made safe).
    pub label: String,
    /// When it was asked, ns on CLOCK_BOOTTIME.
    pub requested_at: u64,
    /// Asked window.
    pub asked: Window,
    /// What the copied frames cover; their borders are frame borders, so it reaches over `asked` on both
    /// sides where there was data.
    pub real: Window,
    /// Stretches of the asked window that nothing covers.
    pub holes: Vec<Window>,
}

/// Per second and CPU, what a screen draws hours from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Begin of cell 0 of every lane, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// Length of a cell, ns (1 s).
    pub step: u64,
    /// One lane per CPU.
    pub lanes: Vec<CpuLane>,
    /// User markers in time order: all, or the [`Foremost`] of them.
    pub marks: Vec<Mark>,
}

impl Summary {
    /// Mean occupancy 0..=1 of the known cells up to `end` (ns, boot) over all CPUs, and the busiest CPU's; a cell counts by
    /// the time it covers, for the last is hardly ever a whole one.
    pub fn occupancy(&self, end: u64) -> (Option<f32>, Option<(u32, f32)>) {
        let mean = |(busy, time): (f64, f64)| (time > 0.0).then(|| (busy / time) as f32);
        let sums = self.lanes.iter().map(|lane| {
            let known = (0..).zip(&lane.cells).filter_map(|(i, cell)| {
                let from = self.start.saturating_add(self.step.saturating_mul(i));
                let time = end.saturating_sub(from).min(self.step) as f64;
                Some((f64::from(cell.busy?) * time, time))
            });
            (lane.cpu, known.fold((0.0, 0.0), |a: (f64, f64), b| (a.0 + b.0, a.1 + b.1)))
        });
        let all = sums.clone().fold((0.0, 0.0), |a, (_, b)| (a.0 + b.0, a.1 + b.1));
        let lanes = sums.filter_map(|(cpu, sum)| Some((cpu, mean(sum)?)));
        (mean(all), lanes.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))))
    }
}

/// Most markers a summary keeps; [`Totals::marks`] counts all.
pub const MAX_MARKS: usize = 256;

/// Cells of one CPU, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuLane {
    /// CPU id.
    pub cpu: u32,
    /// One per step.
    pub cells: Vec<SummaryCell>,
}

/// One CPU during one step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SummaryCell {
    /// CPU occupancy 0..=1 of the known part, kept to 1/10,000; `None`: nothing known.
    pub busy: Option<f32>,
    /// Most threads ready at once on this CPU's queue.
    pub ready: u32,
    /// Most threads at once in D that last ran here.
    pub blocked: u32,
    /// Longest run-queue latency that ended here, ns; 0: none.
    pub worst_wait: u64,
    /// Lost events.
    pub loss: LossCount,
}

/// A user marker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// ns on CLOCK_BOOTTIME.
    pub ts: u64,
    /// Its text, bytes as written.
    pub text: Vec<u8>,
}

/// The footer as the skippable frame that goes to `offset` of the file.
pub fn encode(footer: &Footer, offset: u64) -> Vec<u8> {
    let sections = [
        wire::encode_index(&footer.frames),
        wire::encode_summary(&footer.summary),
        wire::encode_totals(&footer.totals),
    ];
    let mut locator = Vec::with_capacity(LOCATOR);
    for section in &sections {
        locator.extend_from_slice(&(section.len() as u32).to_le_bytes()); // bounded by a segment's index
        locator.extend_from_slice(&crc(section).to_le_bytes());
    }
    locator.extend_from_slice(&offset.to_le_bytes());
    locator.extend_from_slice(&[0; 12]);
    locator.extend_from_slice(&crc(&locator).to_le_bytes());
    locator.extend_from_slice(&footer.totals.format.major.to_le_bytes());
    locator.extend_from_slice(&footer.totals.format.minor.to_le_bytes());
    locator.extend_from_slice(MARK);
    let mut content = sections.concat();
    content.extend_from_slice(&locator);
    frame::skippable(VARIANT, &content)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// What the last bytes of a file say about its footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locator {
    /// Format of the file.
    pub format: FormatVersion,
    /// Offset of the footer as it was written; smaller than where it stands when files were joined by `cat`.
    pub offset: u64,
    sections: [(u32, u32); 3],
}

/// What the end of a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// No footer ends here.
    None,
    /// A footer of a format this dashcam may not read.
    Newer(FormatVersion),
    /// A footer.
    Footer(Locator),
}

impl Locator {
    /// Reads the last bytes of a file; `tail` ends where the file does and should be [`Locator::LEN`] long or more.
    pub fn read(tail: &[u8]) -> Tail {
        let Some((_, fixed)) = tail.split_at_checked(tail.len().wrapping_sub(FIXED)) else { return Tail::None };
        if &fixed[4..] != MARK {
            return Tail::None;
        }
        let format = FormatVersion { major: u16_at(fixed, 0), minor: u16_at(fixed, 2) };
        if !format.is_readable() {
            return Tail::Newer(format);
        }
        let Some((_, l)) = tail.split_at_checked(tail.len().wrapping_sub(LOCATOR)) else { return Tail::None };
        if crc(&l[..44]) != u32_at(l, 44) {
            return Tail::None;
        }
        let section = |i: usize| (u32_at(l, 8 * i), u32_at(l, 8 * i + 4));
        let offset = u64::from(u32_at(l, 24)) | u64::from(u32_at(l, 28)) << 32;
        Tail::Footer(Locator { format, offset, sections: [section(0), section(1), section(2)] })
    }

    /// Bytes at the end of a file that [`Locator::read`] needs.
    pub const LEN: usize = LOCATOR;

    /// Length of the whole footer in the file, skippable header included.
    pub fn frame_len(&self) -> u64 {
        8 + self.sections.iter().map(|s| u64::from(s.0)).sum::<u64>() + LOCATOR as u64
    }

    /// Bytes at the end of the file that hold totals and locator.
    pub fn totals_len(&self) -> u64 {
        u64::from(self.sections[2].0) + LOCATOR as u64
    }

    /// Bytes at the end of the file that hold summary, totals and locator.
    pub fn summary_len(&self) -> u64 {
        u64::from(self.sections[1].0) + self.totals_len()
    }

    /// The totals; `tail` ends where the file does and holds at least [`Locator::totals_len`] bytes.
    pub fn totals(&self, tail: &[u8]) -> Result<Totals, DamageKind> {
        let mut totals = wire::decode_totals(self.section(tail, 2)?)?;
        totals.format = self.format;
        Ok(totals)
    }

    /// The summary; `tail` ends where the file does and holds at least [`Locator::summary_len`] bytes.
    pub fn summary(&self, tail: &[u8]) -> Result<Summary, DamageKind> {
        wire::decode_summary(self.section(tail, 1)?)
    }

    /// All of it; `whole` is the footer from its skippable header to the end.
    pub fn footer(&self, whole: &[u8]) -> Result<Footer, DamageKind> {
        let length = (whole.len() as u64).wrapping_sub(8);
        let header = whole.split_at_checked(8).ok_or(DamageKind::Footer)?.0;
        if u32_at(header, 0) & 0xF != u32::from(VARIANT) || u64::from(u32_at(header, 4)) != length {
            return Err(DamageKind::Footer);
        }
        let frames = wire::decode_index(self.section(whole, 0)?)?;
        // The index must reach from byte 0 to the footer without holes: offsets are trusted from here on.
        if frames.last().map_or(0, |f| f.offset + f.compressed) != self.offset {
            return Err(DamageKind::Footer);
        }
        Ok(Footer { frames, summary: self.summary(whole)?, totals: self.totals(whole)? })
    }

    fn section<'a>(&self, tail: &'a [u8], which: usize) -> Result<&'a [u8], DamageKind> {
        let after: usize = self.sections[which + 1..].iter().map(|s| s.0 as usize).sum::<usize>() + LOCATOR;
        let end = tail.len().checked_sub(after).ok_or(DamageKind::Footer)?;
        let start = end.checked_sub(self.sections[which].0 as usize).ok_or(DamageKind::Footer)?;
        let bytes = &tail[start..end];
        if crc(bytes) == self.sections[which].1 { Ok(bytes) } else { Err(DamageKind::Footer) }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
