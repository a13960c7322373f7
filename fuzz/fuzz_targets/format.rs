//! Any text as `format`, `header_page` and `stats`; what parses is then used on a record.
#![no_main]

use dashcam::kernel::format::EventFormat;
use dashcam::kernel::page::PageLayout;
use dashcam::kernel::prev_state::layout_of;
use dashcam::kernel::stats::CpuStats;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8])| {
    let (text, record) = input;
    let _ = (CpuStats::parse(text), PageLayout::parse(text));
    let Ok(format) = EventFormat::parse(text) else { return };
    let _ = layout_of(&format).map(|layout| layout.decode(-1));
    for field in format.fields.iter().chain(&format.common) {
        let _ = (field.u64(record), field.i64(record), field.string(record), field.is_text());
    }
});
