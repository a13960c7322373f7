//! Perfetto's own format: our files as they are, or cut to a window, zstd-compressed or plain.
//!
//! A segment is a Perfetto trace already, so nothing is re-encoded: frames are copied, and loss stands in them as it was
//! recorded. A window takes the head frame of each file (clocks, names, states) and every frame that touches
//! it. Of a foreign trace it takes every packet but those that hold events, all of them outside of the window.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::ExportError;
use crate::feed;
use crate::names::NameTable;
use crate::perfetto::container;
use crate::perfetto::decode::{Decoder, MAX_PACKET};
use crate::sched::event::Item;
use crate::sched::summary::Window;
use crate::store::frame::FrameCompressor;
use crate::store::index::frames_in;
use crate::store::layout::open_recorded;
use crate::store::probe::PacketProbe;
use crate::store::reader::SegmentReader;

/// zstd's level for frames that are compressed again; the store's own.
const LEVEL: i32 = 3;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exported {
    /// Bytes of packets.
    pub bytes: u64,
    /// Traces that end too early, in words.
    pub damage: Vec<String>,
}

/// Writes `files`, in their order, to `out`. A trace of another recorder that ends too early is copied as far as it is whole.
///
/// # Errors
/// Reading or writing failed.
pub fn export(
    files: &[PathBuf],
    window: Option<Window>,
    zstd: bool,
    out: &mut impl Write,
) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    for path in files {
        let mut probe = PacketProbe::new();
        let opened = SegmentReader::open_with(path, &mut probe).ok();
        let ours = opened.filter(|r| r.parts().iter().any(|p| p.has_footer) || probe.is_ours());
        let (bytes, cut) = match ours {
            Some(mut reader) => (segment(&mut reader, window, zstd, out)?, None),
            None => foreign(path, window, zstd, out)?,
        };
        exported.bytes += bytes;
        exported.damage.extend(cut.map(|e| e.to_string()));
    }
    out.flush()?;
    Ok(exported)
}

fn segment(
    reader: &mut SegmentReader,
    window: Option<Window>,
    zstd: bool,
    out: &mut impl Write,
) -> Result<u64, ExportError> {
    let mut wanted: Vec<usize> = Vec::new();
    for part in reader.parts() {
        let frames = part.frames.clone();
        match window {
            None => wanted.extend(frames),
            Some(window) => {
                let touched = frames_in(&reader.frames()[frames.clone()], window.from, window);
                if !touched.is_empty() {
                    wanted.push(frames.start);
                    wanted.extend(touched.map(|n| n + frames.start).filter(|n| *n != frames.start));
                }
            }
        }
    }
    let mut compressor = FrameCompressor::new(LEVEL)?;
    let (mut packets, mut frame, mut total) = (Vec::new(), Vec::new(), 0);
    for n in wanted {
        packets.clear();
        reader.read_frame(n, &mut packets)?;
        total += packets.len() as u64;
        if zstd {
            frame.clear();
            compressor.compress(&packets, &mut frame)?;
            out.write_all(&frame)?;
        } else {
            out.write_all(&packets)?;
        }
    }
    Ok(total)
}

/// Bytes copied, and where the trace ends if that is too early.
type Copied = (u64, Option<ExportError>);

fn foreign(path: &Path, window: Option<Window>, zstd: bool, out: &mut impl Write) -> Result<Copied, ExportError> {
    let torn = |offset, why: &str| ExportError::Torn { path: path.to_owned(), why: feed::torn_at(path, offset, why) };
    let file = open_recorded(path).and_then(container::open);
    let mut reader = file.map_err(|e| ExportError::Torn { path: path.to_owned(), why: e.to_string() })?;
    if !zstd {
        return copy(&mut reader, window, out, &torn);
    }
    let mut encoder = zstd::stream::write::Encoder::new(&mut *out, LEVEL)?;
    let copied = copy(&mut reader, window, &mut encoder, &torn)?;
    encoder.finish()?;
    Ok(copied)
}

/// Copies the packets (of the window, if there is one). A trace of which nothing is whole is an error, as broken framing is.
fn copy(
    reader: &mut impl Read,
    window: Option<Window>,
    out: &mut impl Write,
    torn: &dyn Fn(u64, &str) -> ExportError,
) -> Result<Copied, ExportError> {
    const CHUNK: u64 = 1 << 20;
    let (mut decoder, mut names) = (Decoder::new(), NameTable::new());
    let (mut bytes, mut total, mut before) = (Vec::new(), 0, 0u64);
    loop {
        let had = bytes.len();
        let read = reader.by_ref().take(CHUNK).read_to_end(&mut bytes);
        let ended = bytes.len() == had;
        let mut at = 0;
        while let Some(end) = packet_end(&bytes, at).map_err(|why| torn(before + at as u64, why))? {
            let packet = &bytes[at..end];
            if window.is_none_or(|window| belongs(packet, window, &mut decoder, &mut names)) {
                out.write_all(packet)?;
                total += packet.len() as u64;
            }
            at = end;
        }
        bytes.drain(..at);
        before += at as u64;
        let cut = match read {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => torn(before, &e.to_string()),
            Err(e) => return Err(torn(before, &e.to_string())),
            Ok(_) if !ended => continue,
            Ok(_) if bytes.is_empty() => return Ok((total, None)),
            Ok(_) => torn(before, feed::CUT_PACKET),
        };
        return if before > 0 { Ok((total, Some(cut))) } else { Err(cut) };
    }
}

/// A packet holds no events, or one of the window.
fn belongs(packet: &[u8], window: Window, decoder: &mut Decoder, names: &mut NameTable) -> bool {
    let (mut events, mut inside) = (false, false);
    // Damage within a packet keeps nobody from copying it.
    let _ = decoder.decode(packet, names, &mut |item| {
        if let Item::Event(event) = item {
            events = true;
            inside |= event.ts >= window.from && event.ts < window.to;
        }
    });
    inside || !events
}

/// Where the packet at `at` ends; `None` if it is not all there yet.
fn packet_end(bytes: &[u8], at: usize) -> Result<Option<usize>, &'static str> {
    let Some(&tag) = bytes.get(at) else { return Ok(None) };
    // `Trace.packet`, field 1, length-delimited: a trace holds nothing else.
    if tag != 0x0a {
        return Err(feed::NO_PACKET);
    }
    let mut len = 0u64;
    for (n, byte) in bytes[at + 1..].iter().take(10).enumerate() {
        len |= u64::from(byte & 0x7f).checked_shl(7 * n as u32).unwrap_or(0);
        if *byte < 0x80 {
            let body = at + 2 + n;
            let end = usize::try_from(len).ok().filter(|len| *len <= MAX_PACKET).map(|len| body + len);
            return end.map(|end| (end <= bytes.len()).then_some(end)).ok_or(feed::NO_PACKET);
        }
    }
    if bytes.len() - at > 10 { Err(feed::NO_PACKET) } else { Ok(None) }
}
