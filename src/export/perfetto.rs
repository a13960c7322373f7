//! Perfetto's own format: our files as they are, or cut to a window, zstd-compressed or plain.
//!
//! A segment is a Perfetto trace already, so nothing is re-encoded: frames are copied, and loss stands in them as it was
//! recorded. A window takes the head frame of each file (clocks, names, states) and every frame that touches
//! it. Of a foreign trace it takes every packet but those that hold events, all of them outside of the window.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::ExportError;
use crate::names::NameTable;
use crate::perfetto::container;
use crate::perfetto::decode::{Decoder, MAX_PACKET};
use crate::sched::event::Item;
use crate::sched::summary::Window;
use crate::store::frame::FrameCompressor;
use crate::store::index::frames_in;
use crate::store::probe::PacketProbe;
use crate::store::reader::SegmentReader;

/// zstd's level for frames that are compressed again; the store's own.
const LEVEL: i32 = 3;

/// Writes `files`, in their order, to `out`; says how many bytes of packets they hold.
///
/// # Errors
/// Reading or writing failed.
pub fn export(files: &[PathBuf], window: Option<Window>, zstd: bool, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut total = 0;
    for path in files {
        let mut probe = PacketProbe::new();
        let opened = SegmentReader::open_with(path, &mut probe).ok();
        let ours = opened.filter(|r| r.parts().iter().any(|p| p.has_footer) || probe.is_ours());
        total += match ours {
            Some(mut reader) => segment(&mut reader, window, zstd, out)?,
            None => foreign(path, window, zstd, out)?,
        };
    }
    out.flush()?;
    Ok(total)
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

fn foreign(path: &Path, window: Option<Window>, zstd: bool, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut reader = container::open(File::open(path)?)?;
    if !zstd {
        return Ok(copy(&mut reader, window, out)?);
    }
    let mut encoder = zstd::stream::write::Encoder::new(&mut *out, LEVEL)?;
    let total = copy(&mut reader, window, &mut encoder)?;
    encoder.finish()?;
    Ok(total)
}

fn copy(reader: &mut impl Read, window: Option<Window>, out: &mut impl Write) -> io::Result<u64> {
    match window {
        None => io::copy(reader, out),
        Some(window) => cut(reader, window, out),
    }
}

/// Copies the packets that belong to `window`. What stands before broken framing is copied; the rest cannot be read.
fn cut(reader: &mut impl Read, window: Window, out: &mut impl Write) -> io::Result<u64> {
    const CHUNK: u64 = 1 << 20;
    let (mut decoder, mut names) = (Decoder::new(), NameTable::new());
    let (mut bytes, mut total) = (Vec::new(), 0);
    loop {
        let ended = reader.by_ref().take(CHUNK).read_to_end(&mut bytes)? == 0;
        let mut at = 0;
        while let Some(end) = packet_end(&bytes, at)? {
            let packet = &bytes[at..end];
            let (mut events, mut inside) = (false, false);
            // Damage within a packet keeps nobody from copying it.
            let _ = decoder.decode(packet, &mut names, &mut |item| {
                if let Item::Event(event) = item {
                    events = true;
                    inside |= event.ts >= window.from && event.ts < window.to;
                }
            });
            if inside || !events {
                out.write_all(packet)?;
                total += packet.len() as u64;
            }
            at = end;
        }
        bytes.drain(..at);
        if ended {
            return Ok(total);
        }
    }
}

/// Where the packet at `at` ends; `None` if it is not all there yet.
fn packet_end(bytes: &[u8], at: usize) -> io::Result<Option<usize>> {
    let broken =
        || io::Error::new(io::ErrorKind::InvalidData, "the trace is damaged: a packet does not begin where it should");
    let Some(&tag) = bytes.get(at) else { return Ok(None) };
    // `Trace.packet`, field 1, length-delimited: a trace holds nothing else.
    if tag != 0x0a {
        return Err(broken());
    }
    let mut len = 0u64;
    for (n, byte) in bytes[at + 1..].iter().take(10).enumerate() {
        len |= u64::from(byte & 0x7f).checked_shl(7 * n as u32).unwrap_or(0);
        if *byte < 0x80 {
            let body = at + 2 + n;
            let end = usize::try_from(len).ok().filter(|len| *len <= MAX_PACKET).map(|len| body + len);
            return end.map(|end| (end <= bytes.len()).then_some(end)).ok_or_else(broken);
        }
    }
    if bytes.len() - at > 10 { Err(broken()) } else { Ok(None) }
}
