//! The files: segments, snapshots, and the directory that holds them.
//!
//! A segment is a sequence of independent zstd frames of whole `TracePacket`s with a footer in a zstd
//! skippable frame at its end, so `zstd -dc` of it is a plain Perfetto trace and `cat` of several is one
//! longer trace. This floor writes, finds, reads, recovers, deletes and copies such files. It never looks at
//! a scheduling event: what a footer says about them is given by the recorder or, after a crash, by
//! a [`scan::FrameProbe`].
//!
//! From the inside out: [`frame`] is one zstd frame, [`index`] says which of them hold a stretch of time;
//! [`footer`] is what stands at the end of a file; [`name`] and [`layout`] are names and folders; [`writer`] makes a
//! segment, [`reader`] opens one, [`tail`] follows a growing one; [`scan`], [`probe`],
//! [`summarise`] and [`recover`] deal with those that a dead recorder left; [`catalog`] finds segments by time, [`retention`] deletes old ones, [`snapshot`] keeps
//! a window, [`verify`] checks every frame; [`lock`] keeps a second recorder out; [`fresh`] cleans up after a start
//! that failed.

pub mod catalog;
pub mod error;
pub mod footer;
pub mod frame;
pub mod fresh;
pub mod index;
pub mod layout;
pub mod lock;
mod merge;
pub mod name;
pub mod probe;
pub mod reader;
pub mod recover;
pub mod retention;
pub mod scan;
pub mod snapshot;
pub mod summarise;
pub mod tail;
pub mod untraced;
pub mod verify;
mod wire;
pub mod writer;

pub use error::{Damage, StoreError};
pub use layout::Store;
