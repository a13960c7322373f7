//! A reader of one CPU that the kernel does not always let read.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::kernel::testing::PageWriter;
use crossbeam_channel::{Receiver, unbounded};
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

/// Answers reads from a list: a page, or an errno; then with EAGAIN.
struct Script(VecDeque<Result<Vec<u8>, i32>>);

impl Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let page = self.0.pop_front().unwrap_or(Err(libc::EAGAIN)).map_err(io::Error::from_raw_os_error)?;
        buf[..page.len()].copy_from_slice(&page);
        Ok(page.len())
    }
}

/// A reader of one CPU, 3, whose counters say that 40 events were overwritten; and what it hands on.
fn reader(script: Vec<Result<Vec<u8>, i32>>) -> (ReaderThread, Receiver<Batch>) {
    let size = PageLayout::USUAL.sub_buffer_size();
    let source = Source {
        readers: vec![CpuReader::from_source(3, size, Box::new(Script(script.into())), Duration::ZERO)],
        stats: Box::new(|_| Some(CpuStats { overrun: 40, ..CpuStats::default() })),
        layout: PageLayout::USUAL,
        wakes: false,
        clock: TraceClock::Boot,
    };
    let ((batches, out), (_, free), (_, commands)) = (unbounded(), unbounded(), unbounded());
    let wake = Arc::new(EventFd::new().unwrap());
    let parts = ReaderParts { batches, free, commands, wake, segment: None };
    let began = ClockSnapshot { boot: 50, mono: 50, ..ClockSnapshot::default() };
    (ReaderThread::new(source, parts, &began), out)
}

fn page(ts: u64) -> Vec<u8> {
    let mut page = PageWriter::new(PageLayout::USUAL, ts);
    assert!(page.data(ts, &[1; 8]));
    page.finish()
}

/// Pages of a cycle (when each begins, its loss, whether counters are with it) and CPUs it could not read.
fn cycle(reader: &mut ReaderThread, out: &Receiver<Batch>, limit: u64) -> (Vec<(u64, Missed, bool)>, Vec<Unread>) {
    reader.cycle(limit, false, Vec::new()).unwrap();
    let batches: Vec<Batch> = out.try_iter().collect();
    let pages = batches.iter().flat_map(|b| &b.inputs).map(|page| {
        let header = PageHeader::read(&PageLayout::USUAL, &page.bytes).unwrap();
        (header.timestamp, header.missed, page.stats.is_some())
    });
    (pages.collect(), batches.iter().filter_map(|b| b.end.as_ref()).flat_map(|e| e.unread.clone()).collect())
}

#[test]
fn a_buffer_that_cannot_be_read_any_more_is_told_and_never_bridged() {
    let refused = || Err(libc::EPERM);
    let empty = || Err(libc::EAGAIN);
    let script = vec![
        Ok(page(100)),
        empty(),
        refused(),
        refused(),
        // Written while nothing could be read: told as lost by then.
        Ok(page(250)),
        Ok(page(390)),
        Ok(page(450)),
        Ok(page(460)),
        empty(),
    ];
    let (mut reader, out) = reader(script);
    assert_eq!(cycle(&mut reader, &out, 200), (vec![(100, Missed::None, false)], vec![]));
    for (from, limit) in [(200, 300), (300, 400)] {
        let (pages, unread) = cycle(&mut reader, &out, limit);
        assert_eq!((pages.len(), unread[0].cpu, unread[0].from), (0, 3, from));
        assert!(unread[0].why.contains("cpu 3") && unread[0].why.contains("not permitted"), "{unread:?}");
    }
    let (pages, unread) = cycle(&mut reader, &out, 500);
    assert_eq!(pages, [(450, Missed::Some, false), (460, Missed::None, false)], "how many is not known");
    assert_eq!(unread, []);
}

#[test]
fn a_buffer_found_empty_after_a_refusal_is_on_time_again() {
    let (mut reader, out) = reader(vec![Err(libc::EIO), Err(libc::EAGAIN), Ok(page(150)), Ok(page(310))]);
    assert_eq!(cycle(&mut reader, &out, 200).1.len(), 1);
    assert_eq!(cycle(&mut reader, &out, 300), (vec![], vec![]));
    let (pages, unread) = cycle(&mut reader, &out, 400);
    assert_eq!((pages, unread), (vec![(310, Missed::Some, false)], vec![]), "what began before 200 is late");
}
