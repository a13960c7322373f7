//! Which zstd frames of a file hold a stretch of time.
//!
//! The recorder cuts its output in cycles: a frame ends with a watermark before which nothing is missing, so
//! data frames partition time, frame *i* covering from the watermark before it to its own. A late event may still
//! stand in a later frame; its time widens that frame. Pure arithmetic; opens nothing.

use crate::sched::summary::Window;
use std::ops::Range;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameKind {
    /// Restates the world: clocks, names, state block. Stands first in a file.
    Head,
    /// Events of one cycle.
    #[default]
    Data,
    /// Closing counters and clocks. Stands last in a file.
    Tail,
}

/// A number of lost events: so many known, and maybe more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossCount {
    /// Events known to be lost.
    pub known: u64,
    /// Further events were lost, how many the kernel did not say.
    pub unknown: bool,
}

impl LossCount {
    /// True when nothing was lost.
    pub fn is_none(self) -> bool {
        self == LossCount::default()
    }

    /// Adds a loss; `None` = some, number unknown.
    pub fn add(&mut self, count: Option<u64>) {
        match count {
            Some(n) => self.known = self.known.saturating_add(n),
            None => self.unknown = true,
        }
    }

    /// Adds another count.
    pub fn merge(&mut self, other: LossCount) {
        self.known = self.known.saturating_add(other.known);
        self.unknown |= other.unknown;
    }
}

/// What the recorder says about a frame it hands over (or a probe finds in one).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameFacts {
    /// What it is for.
    pub kind: FrameKind,
    /// Earliest and latest event in it, ns on CLOCK_BOOTTIME; `None` without events.
    pub span: Option<(u64, u64)>,
    /// Its watermark: all events before this instant stand in this frame or before; 0 = it has none.
    pub complete_through: u64,
    /// Events per CPU: (CPU, number). CPUs without events may be left out.
    pub events: Vec<(u32, u64)>,
    /// Losses per CPU; CPUs without loss are left out.
    pub loss: Vec<(u32, LossCount)>,
}

/// A frame in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameEntry {
    /// Byte offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub compressed: u64,
    /// Bytes of content.
    pub raw: u64,
    /// What is in it.
    pub facts: FrameFacts,
}

impl FrameEntry {
    /// Events of all CPUs.
    pub fn events(&self) -> u64 {
        self.facts.events.iter().fold(0, |sum, e| sum.saturating_add(e.1))
    }

    /// Loss of all CPUs.
    pub fn loss(&self) -> LossCount {
        self.facts.loss.iter().fold(LossCount::default(), |mut sum, l| {
            sum.merge(l.1);
            sum
        })
    }
}

/// Time that each frame answers for; `start` is the file's first instant. Heads cover nothing.
/// The windows of data frames touch one another and do not overlap.
pub fn coverage(entries: &[FrameEntry], start: u64) -> impl Iterator<Item = Window> + '_ {
    let mut from = start;
    entries.iter().map(move |entry| {
        let to = if entry.facts.kind == FrameKind::Head { from } else { entry.facts.complete_through.max(from) };
        let window = Window { from, to };
        from = to;
        window
    })
}

/// The frames that are needed to know all of `[window.from, window.to)`, as the smallest run of neighbours:
/// those that cover a part of it and those that hold a late event of it.
pub fn frames_in(entries: &[FrameEntry], start: u64, window: Window) -> Range<usize> {
    let mut found: Option<Range<usize>> = None;
    for (i, (entry, cover)) in entries.iter().zip(coverage(entries, start)).enumerate() {
        if entry.facts.kind == FrameKind::Head || window.from >= window.to {
            continue;
        }
        let covers = cover.from < cover.to && cover.from < window.to && cover.to > window.from;
        let holds = entry.facts.span.is_some_and(|(min, max)| min < window.to && max >= window.from);
        if covers || holds {
            found = Some(found.map_or(i..i + 1, |run| run.start..i + 1));
        }
    }
    found.unwrap_or(0..0)
}

/// The frame that covers the instant `ts`; `None` outside the file.
pub fn frame_at(entries: &[FrameEntry], start: u64, ts: u64) -> Option<usize> {
    coverage(entries, start).position(|w| w.from <= ts && ts < w.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: FrameKind, span: Option<(u64, u64)>, complete_through: u64) -> FrameEntry {
        FrameEntry {
            facts: FrameFacts { kind, span, complete_through, ..FrameFacts::default() },
            ..FrameEntry::default()
        }
    }

    /// Head, then [1000,1500) [1500,2000) (quiet) [2000,2500), the last with a late event of 1990.
    fn entries() -> Vec<FrameEntry> {
        vec![
            frame(FrameKind::Head, None, 0),
            frame(FrameKind::Data, Some((1000, 1499)), 1500),
            frame(FrameKind::Data, None, 2000),
            frame(FrameKind::Data, Some((1990, 2400)), 2500),
            frame(FrameKind::Tail, None, 0),
        ]
    }

    #[test]
    fn data_frames_partition_time() {
        let cover: Vec<(u64, u64)> = coverage(&entries(), 1000).map(|w| (w.from, w.to)).collect();
        assert_eq!(cover, [(1000, 1000), (1000, 1500), (1500, 2000), (2000, 2500), (2500, 2500)]);
    }

    #[test]
    fn case_85_every_boundary_and_its_neighbours() {
        let e = entries();
        let at = |t| frame_at(&e, 1000, t);
        assert_eq!([at(999), at(1000), at(1001)], [None, Some(1), Some(1)]);
        assert_eq!([at(1499), at(1500), at(1501)], [Some(1), Some(2), Some(2)]);
        assert_eq!([at(1999), at(2000), at(2001)], [Some(2), Some(3), Some(3)]);
        assert_eq!([at(2499), at(2500)], [Some(3), None]);
    }

    #[test]
    fn a_window_takes_its_frames_and_the_late_events() {
        let e = entries();
        let run = |from, to| frames_in(&e, 1000, Window { from, to });
        assert_eq!(run(1000, 1500), 1..2);
        assert_eq!(run(1499, 1501), 1..3);
        assert_eq!(run(1500, 1990), 2..3, "the late event at 1990 is not in the window");
        assert_eq!(run(1500, 1991), 2..4, "and here it is");
        assert_eq!(run(2500, 9000), 0..0);
        assert_eq!(run(0, 1000), 0..0);
        assert_eq!(run(1200, 1200), 0..0, "an empty window needs nothing");
    }

    #[test]
    fn losses_add_up_without_forgetting_the_unknown() {
        let mut sum = LossCount::default();
        sum.add(Some(3));
        sum.add(None);
        sum.add(Some(4));
        assert_eq!(sum, LossCount { known: 7, unknown: true });
    }
}
