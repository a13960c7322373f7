//! Perfetto's own format: our files as they are, or cut to a window, zstd-compressed or plain.
//!
//! A segment is a Perfetto trace already, so nothing is re-encoded: frames are copied, and loss stands in them as it was
//! recorded. A window takes the head frame of each file (clocks, names, states) and every frame that touches
//! it. A foreign trace can be given out whole only.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::ExportError;
use crate::names::printable;
use crate::perfetto::container;
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
/// Reading or writing failed, or a window of a foreign trace is asked for.
pub fn export(files: &[PathBuf], window: Option<Window>, zstd: bool, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut total = 0;
    for path in files {
        let mut probe = PacketProbe::new();
        let opened = SegmentReader::open_with(path, &mut probe).ok();
        let ours = opened.filter(|r| r.parts().iter().any(|p| p.has_footer) || probe.is_ours());
        total += match ours {
            Some(mut reader) => segment(&mut reader, window, zstd, out)?,
            None if window.is_none() => foreign(path, zstd, out)?,
            None => return Err(ExportError::Foreign(printable(path.as_os_str().as_encoded_bytes()))),
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

fn foreign(path: &Path, zstd: bool, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut reader = container::open(File::open(path)?)?;
    if !zstd {
        return Ok(io::copy(&mut reader, out)?);
    }
    let mut encoder = zstd::stream::write::Encoder::new(&mut *out, LEVEL)?;
    let total = io::copy(&mut reader.by_ref(), &mut encoder)?;
    encoder.finish()?;
    Ok(total)
}
