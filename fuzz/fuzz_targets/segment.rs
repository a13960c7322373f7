//! A segment of any bytes: footer, frame headers, decompression, probing. Nothing may panic or take memory
//! that the input does not pay for.
#![no_main]

use dashcam::store::footer::{Locator, Tail};
use dashcam::store::frame::{FrameDecompressor, Found, look};
use dashcam::store::probe::PacketProbe;
use dashcam::store::scan::FrameProbe;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Tail::Footer(locator) = Locator::read(data) {
        let _ = (locator.totals(data), locator.summary(data));
        if let Ok(len) = usize::try_from(locator.frame_len())
            && let Some(start) = data.len().checked_sub(len)
        {
            let _ = locator.footer(&data[start..]);
        }
    }
    let (Ok(mut decompressor), mut probe) = (FrameDecompressor::new(), PacketProbe::new()) else { return };
    let (mut at, mut packets) = (0u64, Vec::new());
    loop {
        match look(data, at, data.len() as u64) {
            Ok(Found::Skippable { len, .. }) => at += len,
            Ok(Found::Zstd { len, .. }) => {
                let frame = &data[at as usize..(at + len) as usize];
                if decompressor.decompress(frame, &mut packets).is_ok() {
                    probe.frame(&packets);
                }
                at += len;
            }
            _ => return,
        }
    }
});
