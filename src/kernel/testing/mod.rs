//! Stand-ins for the kernel: a page writer, event records and a fake tracefs tree.
//!
//! For tests, benches and fuzz targets of this crate only; no promise of stability, and nothing at run
//! time uses it. Built always, so that integration tests and benches can.

mod events;
mod fake_tracefs;
mod page_writer;

pub use events::{Kernel, SwitchRecord, WakingRecord};
pub use fake_tracefs::{FakeOptions, FakeTracefs, header_page};
pub use page_writer::PageWriter;
