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

/// A trace being decoded step by step, for callers that look at the name table in between.
pub struct Steps<'a> {
    reader: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    total: u64,
}

impl<'a> Steps<'a> {
    /// Looks through gzip and zstd.
    ///
    /// # Errors
    /// The start of the trace cannot be read.
    pub fn open(reader: impl Read + 'a) -> Result<Steps<'a>, StreamError> {
        let reader = container::open(reader).map_err(|source| StreamError::Io { offset: 0, source })?;
        Ok(Steps { reader, buffer: Vec::with_capacity(2 * STEP), total: 0 })
    }

    /// Decodes the next quarter of a MiB or so; false at the end of the trace.
    ///
    /// # Errors
    /// What could not be read or decoded; items before it were delivered.
    pub fn step(
        &mut self,
        decoder: &mut Decoder,
        names: &mut NameTable,
        sink: &mut impl FnMut(Item),
    ) -> Result<bool, StreamError> {
        let before = self.buffer.len();
        let read = self.reader.by_ref().take(STEP as u64).read_to_end(&mut self.buffer);
        self.total += (self.buffer.len() - before) as u64;
        let used = decoder.decode_available(&self.buffer, names, sink)?;
        self.buffer.drain(..used);
        match read {
            Err(source) => Err(StreamError::Io { offset: self.total, source }),
            Ok(0) if self.buffer.is_empty() => Ok(false),
            Ok(0) => Err(DecodeError::Truncated { offset: self.total - self.buffer.len() as u64 }.into()),
            Ok(_) => Ok(true),
        }
    }
}

const STEP: usize = 256 << 10;

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
    let mut steps = Steps::open(reader)?;
    while steps.step(decoder, names, sink)? {}
    Ok(())
}
