//! Any bytes as a trace file, compressed or not.
#![no_main]

use dashcam::names::NameTable;
use dashcam::perfetto::decode::{Decoder, stream::decode_stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut items = 0u64;
    let _ = decode_stream(bytes, &mut Decoder::new(), &mut NameTable::new(), &mut |_| items += 1);
});
