//! The recorder on the real kernel, through its command line. Needs root; fails, not skips, without tracefs.
#![allow(clippy::unwrap_used, missing_docs)]

mod asked;
mod bed;
mod kernel_says;
mod known;
#[path = "../load_support/mod.rs"]
mod load_support;
mod loss;
mod numbers;
mod perf;
mod seen;

const S: u64 = 1_000_000_000;
const ROOT: &str = "/sys/kernel/tracing";
