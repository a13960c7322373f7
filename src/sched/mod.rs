//! The scheduling domain: what happened, folded into states, waits, occupancy and findings.
//!
//! Pure: no I/O, no clock, no terminal, no kernel and no file format. Everything that shows a number about
//! scheduling (live view, looking back, SQL, reports, triggers) gets it from here, so that each has exactly
//! one definition. Times are nanoseconds on CLOCK_BOOTTIME throughout.
//!
//! [`event`] is what comes in; [`fold`] turns time-ordered events into intervals and hands them to a
//! [`fold::Sink`]; the other modules are sinks or read what a sink kept.

pub mod event;
pub mod fields;
pub mod findings;
pub mod fold;
pub mod latency;
pub mod marks;
pub mod model;
pub mod occupancy;
pub mod order;
pub mod seconds;
pub mod state;
pub mod summary;
pub mod threads;
mod tids;
mod times;
mod window;

#[cfg(test)]
pub(crate) mod testing;
