//! The packets that are rare enough to be structs: a trimmed subset of Perfetto's protos, and our extension.
//!
//! Only fields that we write or read are here; prost skips the rest. Strings are `bytes`, which is the same on
//! the wire: other producers write whatever the kernel gave, and prost refuses a `string` that is not UTF-8.
//! Ftrace bundles never become structs: `encode` and `decode` handle them by hand.

mod dashcam;
mod packet;

pub use dashcam::*;
pub use packet::*;
