//! The time line: tracks of spans at the resolution of the screen.
//!
//! A span at least a column wide is given as it is. Shorter neighbours that fall into one column become one bundle (row
//! `u32::MAX`): who, or which state, had most of that column. The work depends on the number of columns, not of spans:
//! within a column only so many are looked at, then the list is searched for the column's end.

use super::super::event::ThreadNow;
use super::super::fold::Utid;
use super::super::state::TaskState;
use super::super::summary::{Span, TrackId, Window};
use super::Model;
use super::lists::{Slice, gallop};
use super::piece::Piece;
use crate::names::{NameId, NameTable};

/// Row of a bundle.
pub const BUNDLE: u32 = u32::MAX;

/// Short spans of one column looked at, at most, to find what had most of it.
const LOOKED_AT: usize = 16;

impl Model {
    /// Spans of each of `tracks` over `window`, for a screen of `columns` columns. Spans at the edges are whole (they may
    /// reach over the window). Marks carry their text in `function`.
    pub fn timeline(&self, window: Window, columns: usize, tracks: &[TrackId], names: &NameTable) -> Vec<Vec<Span>> {
        let column = (window.len() / columns.max(1) as u64).max(1);
        let track = |id: &TrackId| match *id {
            TrackId::Cpu(cpu) => self.cpu_track(cpu, window, column),
            TrackId::Thread(utid) => self.thread_track(utid, window, column),
            TrackId::Marks(utid) => self.mark_track(utid, window, column, names),
        };
        tracks.iter().map(track).collect()
    }

    fn cpu_track(&self, cpu: u32, window: Window, column: u64) -> Vec<Span> {
        let Some(kept) = self.kept.cpus.get(cpu as usize) else { return Vec::new() };
        let list = &kept.list.slices;
        let open = self.open_slice(cpu).filter(|s| s.start < window.to);
        let get = |i: usize| list.get(i).copied().or(open.filter(|_| i == list.len()));
        let mut bundles = Bundles::new(window, column);
        let mut at = list.partition_point(|s| s.end <= window.from);
        while let Some(slice) = get(at).filter(|s| s.start < window.to) {
            if slice.end - slice.start >= column {
                bundles.whole(self.span_of_slice(&slice, at == list.len()));
                at += 1;
                continue;
            }
            let end = bundles.column_end(slice.start);
            let first = at;
            for short in list.range(at..at + LOOKED_AT).take_while(|s| s.start < end && s.end - s.start < column) {
                let key = (short.utid, ThreadNow::Running);
                bundles.short(end, key, (short.start, Some(short.end)), || self.short_slice(short, false));
                at += 1;
            }
            if let Some(short) = open.filter(|s| at == list.len() && s.start < end && s.end - s.start < column) {
                let key = (short.utid, ThreadNow::Running);
                bundles.short(end, key, (short.start, None), || self.short_slice(&short, true));
                at += 1;
            }
            if at - first >= LOOKED_AT {
                let skip_to = gallop(list, at, |s| s.start < end);
                // A long one at the column's end is drawn by itself.
                let last = skip_to.checked_sub(1).and_then(&get).is_some_and(|s| s.end - s.start >= column);
                at = at.max(if last { skip_to - 1 } else { skip_to });
                bundles.reach(at.checked_sub(1).and_then(&get).map_or(end, |s| s.end));
            }
        }
        bundles.finish()
    }

    fn short_slice(&self, slice: &Slice, open: bool) -> Span {
        Span {
            start: slice.start,
            end: (!open).then_some(slice.end),
            utid: slice.utid,
            state: ThreadNow::Running,
            end_state: None,
            function: NameId::EMPTY,
            row: slice.row,
        }
    }

    fn thread_track(&self, utid: Utid, window: Window, column: u64) -> Vec<Span> {
        let Some(kept) = self.kept.threads.get(utid as usize) else { return Vec::new() };
        let list = &kept.pieces;
        let open = self.open_piece(utid);
        let get = |i: usize| list.get(i).copied().or(open.filter(|_| i == list.len()));
        let mut bundles = Bundles::new(window, column);
        let mut at = list.partition_point(|p| p.end <= window.from);
        let wide = |p: &Piece| self.end_of(utid, p) - p.start >= column;
        while let Some(piece) = get(at).filter(|p| p.start < window.to) {
            if wide(&piece) {
                bundles.whole(self.span_of(utid, &piece));
                at += 1;
                continue;
            }
            let end = bundles.column_end(piece.start);
            let first = at;
            // What was open at the end of the data is in the list too, without an end.
            for short in list.range(at..at + LOOKED_AT).take_while(|p| p.start < end && !wide(p)) {
                let stop = self.ended(utid, short);
                bundles.short(end, (utid, short.now()), (short.start, stop), || self.span_of(utid, short));
                at += 1;
            }
            if let Some(short) = open.filter(|p| at == list.len() && p.start < end && !wide(p)) {
                bundles.short(end, (utid, short.now()), (short.start, None), || self.span_of(utid, &short));
                at += 1;
            }
            if at - first >= LOOKED_AT {
                let skip_to = gallop(list, at, |p| p.start < end);
                let last = skip_to.checked_sub(1).and_then(&get).is_some_and(|p| wide(&p));
                at = at.max(if last { skip_to - 1 } else { skip_to });
                bundles.reach(at.checked_sub(1).and_then(&get).map_or(end, |p| self.end_of(utid, &p)));
            }
        }
        bundles.finish()
    }

    fn mark_track(&self, utid: Utid, window: Window, column: u64, names: &NameTable) -> Vec<Span> {
        let mut bundles = Bundles::new(window, column);
        for mark in self.marks_of(utid, window, names) {
            bundles.whole(Span {
                start: mark.0.start,
                end: mark.0.end,
                utid,
                state: ThreadNow::Running,
                end_state: None,
                function: mark.1,
                row: BUNDLE - 1 - u32::from(mark.0.depth),
            });
        }
        bundles.finish()
    }
}

/// Gathers short spans column by column.
struct Bundles {
    window: Window,
    column: u64,
    out: Vec<Span>,
    /// The column being gathered: its end, its shorts, ns of each.
    end: u64,
    shorts: Vec<(Span, u64)>,
    count: usize,
    /// Where the last one that was not looked at ended.
    reach: u64,
}

impl Bundles {
    fn new(window: Window, column: u64) -> Self {
        Bundles { window, column, out: Vec::new(), end: 0, shorts: Vec::new(), count: 0, reach: 0 }
    }

    fn column_end(&self, ts: u64) -> u64 {
        let n = ts.saturating_sub(self.window.from) / self.column;
        self.window.from.saturating_add((n + 1).saturating_mul(self.column))
    }

    fn whole(&mut self, span: Span) {
        self.close();
        self.out.push(span);
    }

    /// Who (or which state) had a part of the column that ends at `end`; `make` is asked for the first of each only.
    #[inline]
    fn short(&mut self, end: u64, key: (Utid, ThreadNow), part: (u64, Option<u64>), make: impl FnOnce() -> Span) {
        if end != self.end {
            self.close();
            self.end = end;
        }
        self.count += 1;
        // What a dead thread is in is of no interest beside what it did before.
        let dead =
            matches!(key.1, ThreadNow::Blocked(s) if s.contains(TaskState::DEAD) || s.contains(TaskState::ZOMBIE));
        let ns = part.1.map_or(0, |e| if dead { 0 } else { e - part.0 });
        match self.shorts.iter_mut().find(|s| (s.0.utid, s.0.state) == key) {
            Some(known) => {
                known.1 += ns;
                known.0.end = part.1;
            }
            None => self.shorts.push((make(), ns)),
        }
    }

    fn reach(&mut self, end: u64) {
        self.reach = end;
    }

    /// One short span stays itself; several become a bundle.
    fn close(&mut self) {
        let first = self.shorts.iter().map(|s| s.0.start).min();
        let last = self.shorts.iter().map(|s| s.0.end).max_by_key(|e| e.unwrap_or(u64::MAX));
        if let (Some(start), Some(end)) = (first, last)
            && let Some((top, _)) = self.shorts.iter().max_by_key(|s| s.1)
        {
            let mut span = Span { start, end, ..*top };
            if self.count > 1 {
                span.row = BUNDLE;
                span.end_state = None;
                span.end = span.end.map(|e| e.max(self.reach));
            }
            self.out.push(span);
        }
        self.shorts.clear();
        self.count = 0;
        self.reach = 0;
    }

    fn finish(mut self) -> Vec<Span> {
        self.close();
        self.out
    }
}
