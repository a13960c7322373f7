//! Checks every zstd frame of a file and says what is whole.
//!
//! Every frame is decompressed, its checksum compared, and what is in it counted anew; what the footer says of each frame
//! and of the whole is compared with that. Changes nothing.

use super::error::{Damage, DamageKind, StoreError};
use super::footer::{FormatVersion, Totals};
use super::index::{FrameFacts, LossCount};
use super::layout::Store;
use super::lock::RecorderLock;
use super::name::SegmentName;
use super::probe::PacketProbe;
use super::reader::{Part, SegmentReader};
use super::untraced::Untraced;
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
    /// Frames there are, whole or not.
    pub frames: usize,
    /// Frames that are whole: they decompress, and their checksum is right.
    pub whole: usize,
    /// Bytes of packets in them.
    pub raw: u64,
    /// Events counted in them.
    pub events: u64,
    /// Losses told in them.
    pub loss: LossCount,
    /// Switches that the kernel left out of them: no damage, but less than happened. See [`super::untraced`].
    pub untraced: u64,
    /// Number of segments joined in the file.
    pub parts: usize,
    /// Those without a footer (their recorder died, or still writes).
    pub without_footer: usize,
    /// Why it has no end, if its name says that it has none yet.
    pub unfinished: Option<Unfinished>,
    /// What is not as it should be, in file order.
    pub damage: Vec<Damage>,
}

/// Why a file whose name ends in `.part` has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// A recorder writes it: it may end inside a frame.
    Growing,
    /// The recorder that wrote it is gone; the next one on this store finishes it, behind its last whole frame.
    Left,
    /// It lies in no store: nobody finishes it.
    Stray,
}

impl Verified {
    /// True when every byte is as it was written, and the footer tells the truth.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Checks `path`. A file whose name ends in `.part` may lack its footer, and where a recorder writes it now it may end inside
/// a frame. `progress` is told bytes checked so far and in all.
pub fn verify(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verified, StoreError> {
    let mut reader = SegmentReader::open(path)?;
    let mut out = Verified {
        path: path.to_owned(),
        bytes: reader.bytes(),
        format: reader.totals().format,
        frames: reader.frames().len(),
        whole: 0,
        raw: 0,
        events: 0,
        loss: LossCount::default(),
        untraced: 0,
        parts: reader.parts().len(),
        without_footer: reader.parts().iter().filter(|p| !p.has_footer).count(),
        unfinished: None,
        damage: Vec::new(),
    };
    for part in reader.parts().to_vec() {
        check_part(&mut reader, &part, &mut out, progress)?;
    }
    // Asked after the frames were read: a recorder that lives now lived then.
    out.unfinished = if reader.parts().iter().all(|p| p.has_footer) { None } else { unfinished(path) };
    let half_written = |d: &Damage| out.unfinished == Some(Unfinished::Growing) && d.kind == DamageKind::Cut;
    if let Some(damage) = reader.damage().filter(|d| !half_written(d)) {
        out.frames += 1;
        out.damage.push(damage);
    }
    out.damage.sort_by_key(|d| d.offset);
    Ok(out)
}

/// Whether a `.part` grows. The recorder's lock tells without being taken, unlike the writer's on the file, which a look
/// must not hold even for an instant: a recorder that finishes left-overs would pass this one by.
fn unfinished(path: &Path) -> Option<Unfinished> {
    if path.extension().is_none_or(|e| e != "part") {
        return None;
    }
    let of_store = || {
        let path = std::path::absolute(path).ok()?;
        let name = SegmentName::parse(path.file_name()?.to_str()?)?;
        let store = Store::open(path.parent()?.parent()?).ok()?;
        (path.parent()? == store.segments_dir()).then_some((name, store))
    };
    let Some((name, store)) = of_store() else { return Some(Unfinished::Stray) };
    let newest = store.segments().is_ok_and(|all| all.last().is_none_or(|f| f.name.sequence <= name.sequence));
    Some(match RecorderLock::holder(&store) {
        Ok(None) if path.exists() => Unfinished::Left,
        // A recorder finishes one while it writes the next; what is older than itself another one left.
        Ok(Some(holder)) if !newest && name.start < holder.started => Unfinished::Left,
        // It got its name meanwhile, or nobody may know.
        _ => Unfinished::Growing,
    })
}

fn check_part(
    reader: &mut SegmentReader,
    part: &Part,
    out: &mut Verified,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let (mut probe, mut packets, mut untraced) = (PacketProbe::new(), Vec::new(), Untraced::default());
    let (mut events, mut loss, mut end) = (0u64, LossCount::default(), 0);
    let before = out.damage.len();
    for i in part.frames.clone() {
        let told = reader.frames()[i].clone();
        let damaged = |kind| Damage { offset: told.offset, kind };
        end = told.offset + told.compressed;
        match reader.read_frame(i, &mut packets) {
            Ok(()) => {
                out.whole += 1;
                out.raw += packets.len() as u64;
                let found = probe.watched(&packets, &mut |item| untraced.item(item));
                events = events.saturating_add(found.events.iter().fold(0, |n: u64, e| n.saturating_add(e.1)));
                found.loss.iter().for_each(|l| loss.merge(l.1));
                if part.has_footer {
                    let length = (told.raw != packets.len() as u64).then_some(DamageKind::Footer);
                    out.damage.extend(length.or_else(|| disagreement(&told.facts, &found)).map(damaged));
                }
            }
            Err(StoreError::Damaged { damage, .. }) => out.damage.push(damage),
            Err(e) => return Err(e),
        }
        progress(end, out.bytes);
    }
    out.events = out.events.saturating_add(events);
    out.loss.merge(loss);
    out.untraced = out.untraced.saturating_add(untraced.count);
    let sums = if !part.has_footer {
        missing_footer(reader)
    } else if out.damage.len() == before {
        // A sum over a damaged frame is wrong for that reason alone, which is told already.
        sums(&part.totals, events, loss)
    } else {
        None
    };
    out.damage.extend(sums.map(|kind| Damage { offset: end, kind }));
    Ok(())
}

/// What is wrong with having no footer, if damage does not tell it already.
fn missing_footer(reader: &SegmentReader) -> Option<DamageKind> {
    let growing = reader.path().extension().is_some_and(|e| e == "part");
    match (growing, reader.bytes(), reader.damage()) {
        (true, ..) | (_, _, Some(_)) => None,
        (_, 0, _) => Some(DamageKind::Empty),
        _ => Some(DamageKind::NoFooter),
    }
}

fn differ(what: &'static str, footer: u64, found: u64) -> Option<DamageKind> {
    (footer != found).then_some(DamageKind::Disagrees { what, footer, found })
}

/// The first thing that the index says of a frame and that is not so.
fn disagreement(told: &FrameFacts, found: &FrameFacts) -> Option<DamageKind> {
    let count = |facts: &FrameFacts, cpu| facts.events.iter().filter(|e| e.0 == cpu).map(|e| e.1).sum::<u64>();
    let mut cpus = told.events.iter().chain(&found.events).map(|e| e.0);
    let events = cpus.find_map(|cpu| differ("events of one CPU", count(told, cpu), count(found, cpu)));
    let lost = |facts: &FrameFacts, cpu| {
        facts.loss.iter().filter(|l| l.0 == cpu).fold(LossCount::default(), |mut sum, l| {
            sum.merge(l.1);
            sum
        })
    };
    let mut cpus = told.loss.iter().chain(&found.loss).map(|l| l.0);
    let loss = cpus.find_map(|cpu| losses(lost(told, cpu), lost(found, cpu)));
    let (span, real) = (told.span.unwrap_or_default(), found.span.unwrap_or_default());
    events
        .or(loss)
        .or_else(|| differ("ns as the time of the first event", span.0, real.0))
        .or_else(|| differ("ns as the time of the last event", span.1, real.1))
        .or_else(|| differ("ns as the instant up to which all is there", told.complete_through, found.complete_through))
}

fn losses(told: LossCount, found: LossCount) -> Option<DamageKind> {
    differ("lost events", told.known, found.known)
        .or_else(|| differ("losses of unknown size", told.unknown.into(), found.unknown.into()))
}

/// The first sum over all frames that is not what the footer says.
fn sums(totals: &Totals, events: u64, loss: LossCount) -> Option<DamageKind> {
    differ("events in all", totals.events, events).or_else(|| losses(totals.loss, loss))
}
