//! From what the recorder has to whole `TracePacket`s, each with its framing in the enclosing `Trace`.
//!
//! [`BundleBuilder`] is the hot path: scheduling events of one CPU into columns, without allocating per event.
//! [`EventEncoder`] writes every other ftrace event, compiled once from its format. [`packets`] writes what stands
//! at a segment's head and tail. Everything is appended to the caller's buffer; nothing is compressed here.

mod bundle;
mod columns;
mod event;
pub mod packets;

pub use bundle::{BundleBuilder, FullSwitch, FullWaking};
pub use event::{EventEncoder, FieldFormat, FieldKind};
