//! Any bytes as a trace: decoding ends, and gives the same in one piece as in two.
#![no_main]

use dashcam::names::NameTable;
use dashcam::perfetto::decode::Decoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (mut names, mut whole) = (NameTable::new(), Vec::new());
    let _ = Decoder::new().decode(bytes, &mut names, &mut |item| whole.push(format!("{item:?}")));
    let (mut names, mut parts) = (NameTable::new(), Vec::new());
    let mut decoder = Decoder::new();
    let first = &bytes[..bytes.len().min(cut.into())];
    let mut sink = |item| parts.push(format!("{item:?}"));
    if let Ok(used) = decoder.decode_available(first, &mut names, &mut sink) {
        let _ = decoder.decode(&bytes[used..], &mut names, &mut sink);
    }
    assert_eq!(whole, parts);
});
