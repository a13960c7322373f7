//! What a trace is wrapped in: nothing, gzip, or zstd frames (concatenated; skippable ones are passed over).

use std::io::{self, BufRead, BufReader, Read};

/// How a trace file is compressed, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Packets as they are.
    Plain,
    /// gzip, RFC 1952.
    Gzip,
    /// zstd, RFC 8878; a skippable frame may come first.
    Zstd,
}

impl Container {
    /// Judges by the first four bytes of the file; fewer can only be plain.
    pub fn of(start: &[u8]) -> Container {
        match start {
            [0x1f, 0x8b, ..] => Container::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Container::Zstd,
            _ => Container::Plain,
        }
    }
}

/// A reader of the plain packets in `reader`. Memory is bounded by zstd's window limit (128 MiB).
///
/// # Errors
/// The reader's, or zstd has no memory.
pub fn open<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut reader = BufReader::with_capacity(128 << 10, reader);
    Ok(match Container::of(reader.fill_buf()?) {
        Container::Plain => Box::new(reader),
        Container::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Container::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
    })
}
