//! A whole trace from a reader: plain, gzip or zstd, in bounded memory.

use super::{DecodeError, Decoder};
use crate::names::NameTable;
use crate::perfetto::container;
use crate::sched::event::Item;
use std::io::{self, Read};

/// Why reading a trace stopped. Everything before was delivered.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The reader, or the decompression.
    #[error("cannot read the trace on after byte {offset} (decompressed): {source}")]
    Io {
        /// Decompressed bytes read before.
        offset: u64,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// The trace itself.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Decodes everything that `reader` gives, looking through gzip and zstd.
///
/// # Errors
/// What could not be read or decoded; items before it were delivered.
pub fn decode_stream(
    reader: impl Read,
    decoder: &mut Decoder,
    names: &mut NameTable,
    sink: &mut impl FnMut(Item),
) -> Result<(), StreamError> {
    const STEP: usize = 256 << 10;
    let mut total = 0;
    let mut reader = container::open(reader).map_err(|source| StreamError::Io { offset: 0, source })?;
    let mut buffer: Vec<u8> = Vec::with_capacity(2 * STEP);
    loop {
        let before = buffer.len();
        let read = reader.by_ref().take(STEP as u64).read_to_end(&mut buffer);
        total += (buffer.len() - before) as u64;
        let used = decoder.decode_available(&buffer, names, sink)?;
        buffer.drain(..used);
        match read {
            Err(source) => return Err(StreamError::Io { offset: total, source }),
            Ok(0) if buffer.is_empty() => return Ok(()),
            Ok(0) => return Err(DecodeError::Truncated { offset: total - buffer.len() as u64 }.into()),
            Ok(_) => {}
        }
    }
}
