//! Linux: the scheduler's events from tracefs, and what procfs and sysfs know about the machine.
//!
//! [`tracefs`] finds the file system, [`instance`] guards our own ring buffer in it, [`cpu_reader`] reads
//! sub-buffers, [`page`] and [`records`] walk them, [`format`] and [`prev_state`] say what a record's bytes mean.
//! [`procfs`], [`topology`], [`counters`] and [`symbols`] read what the machine knows besides; [`sampler`] stands in where
//! there is no tracefs, and [`doctor`] says what there is.
//! Nothing here knows a file format or a screen.

pub mod budget;
pub mod controls;
pub mod counters;
pub mod cpu_reader;
pub mod doctor;
pub mod events;
pub mod format;
pub mod instance;
pub mod instance_lock;
pub mod loss;
pub mod open_files;
pub mod page;
pub mod prev_state;
pub mod procfs;
pub mod records;
pub mod sampler;
pub mod stack;
pub mod stats;
pub mod symbols;
#[doc(hidden)]
pub mod testing;
pub mod topology;
pub mod tracefs;
pub mod zone;
