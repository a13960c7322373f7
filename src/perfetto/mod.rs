//! Bytes to events and back: the Perfetto trace format, and dashcam's own extension of it.
//!
//! A segment is a valid Perfetto trace, so any of its tools reads our files and this decoder reads theirs.
//! [`encode`] turns what the recorder has into whole packets, [`decode`] turns packets of any producer into
//! [`crate::sched::event::Item`]s, [`container`] looks through gzip and zstd, [`messages`] are the packets that
//! are rare enough to be built as structs. Nothing here opens a file, reads a clock or knows tracefs.
//!
//! Field numbers are those of the public Perfetto protos (`protos/perfetto/trace/**`, v58). What Perfetto has no
//! field for stands in `TracePacket` field 1500 (its numbers 1000 to 1999 are reserved for such extensions).

pub mod container;
pub mod decode;
pub mod encode;
mod escape;
mod event_table;
pub mod messages;
mod sys_stats;
mod wire;

/// `trusted_packet_sequence_id` of everything we write: one writer, so one sequence.
pub const SEQUENCE_ID: u32 = 1;
