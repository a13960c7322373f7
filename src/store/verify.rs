//! Checks every zstd frame of a file and says what is whole.
//!
//! Every frame is decompressed and its checksum compared; the footer's index is compared with what is really there.
//! Changes nothing.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::{FormatVersion, Totals};
use super::index::LossCount;
use super::reader::SegmentReader;
use super::scan::FrameProbe;
use std::path::{Path, PathBuf};

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Format, as the footer or the head tells.
    pub format: FormatVersion,
    /// Frames that are whole.
    pub whole: usize,
    /// Bytes of packets in them.
    pub raw: u64,
    /// Events the index counts.
    pub events: u64,
    /// Losses the recorder counted.
    pub loss: LossCount,
    /// Number of segments joined in the file.
    pub parts: usize,
    /// Those without a footer (their recorder died, or still writes).
    pub without_footer: usize,
    /// What is not whole, in file order.
    pub damage: Vec<Damage>,
}

impl Verified {
    /// True when every byte is as it was written.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Checks `path`. `progress` is told bytes checked so far and in all.
pub fn verify(
    path: &Path,
    probe: &mut dyn FrameProbe,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, StoreError> {
    let mut reader = SegmentReader::open_with(path, probe)?;
    let sum = |get: fn(&Totals) -> u64| reader.parts().iter().fold(0, |n: u64, p| n.saturating_add(get(&p.totals)));
    let mut out = Verified {
        path: path.to_owned(),
        bytes: reader.bytes(),
        format: reader.totals().format,
        whole: 0,
        raw: 0,
        events: sum(|t| t.events),
        loss: LossCount::default(),
        parts: reader.parts().len(),
        without_footer: reader.parts().iter().filter(|p| !p.has_footer).count(),
        damage: Vec::new(),
    };
    reader.parts().iter().for_each(|p| out.loss.merge(p.totals.loss));
    let mut packets = Vec::new();
    for i in 0..reader.frames().len() {
        let (offset, compressed, raw) = {
            let f = &reader.frames()[i];
            (f.offset, f.compressed, f.raw)
        };
        match reader.read_frame(i, &mut packets) {
            Ok(()) if packets.len() as u64 == raw => {
                out.whole += 1;
                out.raw += raw;
            }
            Ok(()) => out.damage.push(Damage { offset, kind: DamageKind::Footer }),
            Err(StoreError::Damaged { damage, .. }) => out.damage.push(damage),
            Err(e) => return Err(e),
        }
        progress(offset + compressed, out.bytes);
    }
    out.damage.extend(reader.damage());
    out.damage.sort_by_key(|d| d.offset);
    Ok(out)
}
