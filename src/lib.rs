//! dashcam: an always-on flight recorder for the Linux scheduler, with a terminal UI.
//!
//! The library is a set of floors, each importing only from the floors below it (`tests/layers.rs`
//! checks this). From the ground up: [`units`], [`time`] and [`names`] are plain values; [`memory`] tells how
//! much of it is left; [`sched`]
//! is the pure scheduling domain; [`kernel`] reads Linux; [`perfetto`] turns bytes into events and
//! back; [`store`] owns the files; [`feed`] and [`recorder`] join those in the two directions;
//! [`config`] reads the TOML file; [`query`], [`report`] and [`export`] answer questions; [`tui`] is
//! the terminal; [`cli`] is one file per subcommand. ARCHITECTURE.md draws the picture.

pub mod cli;
pub mod config;
pub mod export;
pub mod feed;
pub mod kernel;
pub mod memory;
pub mod names;
pub mod perfetto;
pub mod query;
pub mod recorder;
pub mod report;
pub mod sched;
pub mod store;
pub mod time;
pub mod tui;
pub mod units;
