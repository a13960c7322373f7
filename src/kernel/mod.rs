//! Linux: the scheduler's events from tracefs, and what procfs and sysfs know about the machine.
//!
//! [`tracefs`] finds the file system, [`instance`] guards our own ring buffer in it, [`cpu_reader`] reads
//! sub-buffers, [`page`] and [`records`] walk them, [`format`] and [`prev_state`] say what a record's bytes mean.
//! Nothing here knows a file format or a screen.

pub mod format;
pub mod page;
pub mod prev_state;
pub mod procfs;
pub mod records;
#[doc(hidden)]
pub mod testing;
pub mod topology;
