//! Any bytes as a sub-buffer: the walk ends, stays inside the page and keeps to its limit.
#![no_main]

use dashcam::kernel::page::PageLayout;
use dashcam::kernel::records::{Cursor, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u8, &[u8])| {
    let (limit, size, page) = input;
    let layout = PageLayout::of_size(4096 << (size % 5));
    let Ok(mut cursor) = Cursor::open(&layout, page) else { return };
    let range = page.as_ptr_range();
    for limit in [limit, u64::MAX] {
        for steps in 0.. {
            assert!(steps <= page.len(), "a step without progress");
            match cursor.next_before(page, limit) {
                Step::Record(record) => {
                    let data = record.data.as_ptr_range();
                    assert!(range.start <= data.start && data.end <= range.end);
                    assert!(record.ts < limit);
                }
                Step::Damaged(_) => assert!(cursor.is_done()),
                Step::Later(_) | Step::End => break,
            }
        }
    }
});
