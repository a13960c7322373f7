//! Markers as slices of the threads that wrote them.

use super::super::fold::Utid;
use super::super::marks::{Marker, parse};
use super::super::summary::{Mark, Window};
use super::Model;
use crate::names::{NameId, NameTable};
use rustc_hash::FxHashMap;

/// A text written to trace_marker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Print {
    pub ts: u64,
    pub utid: Option<Utid>,
    pub text: NameId,
}

/// Slices open at once on one thread; deeper ones (a program that never ends what it begins) are dropped.
const MAX_DEPTH: usize = 256;

impl Model {
    /// Every marker written within the window, as it was written: ns on CLOCK_BOOTTIME and text.
    pub fn marker_texts(&self, window: Window) -> impl Iterator<Item = (u64, NameId)> + '_ {
        let at = |ts: u64| self.prints.partition_point(|p| p.ts < ts);
        self.prints.range(at(window.from)..at(window.to.max(window.from))).map(|p| (p.ts, p.text))
    }

    /// Markers that overlap the window, by their begin: slices (`B`/`E`), instants and plain text. `names` is the table of
    /// the decoder that fed the model.
    pub fn marks(&self, window: Window, names: &NameTable) -> Vec<Mark> {
        self.marks_where(window, names, |_| true).into_iter().map(|m| m.0).collect()
    }

    /// The same, but of more than `most` only one in each of so many parts of the window: one that stands by itself, if there
    /// is one, else the first.
    pub fn marks_spread(&self, window: Window, most: usize, names: &NameTable) -> Vec<Mark> {
        let marks = self.marks(window, names);
        if marks.len() <= most {
            return marks;
        }
        let part = |m: &Mark| window.cell_of(m.start.max(window.from), most);
        let by_itself = |m: &Mark| m.end == Some(m.start);
        let mut kept: Vec<Mark> = Vec::with_capacity(most);
        for mark in marks {
            match kept.last_mut() {
                Some(last) if part(last) == part(&mark) => {
                    if by_itself(&mark) && !by_itself(last) {
                        *last = mark;
                    }
                }
                _ => kept.push(mark),
            }
        }
        kept
    }

    /// The markers of one thread with the text each began with.
    pub(super) fn marks_of(&self, utid: Utid, window: Window, names: &NameTable) -> Vec<(Mark, NameId)> {
        self.marks_where(window, names, |writer| writer == Some(utid))
    }

    fn marks_where(
        &self,
        window: Window,
        names: &NameTable,
        wanted: impl Fn(Option<Utid>) -> bool,
    ) -> Vec<(Mark, NameId)> {
        let mut marks: Vec<(Mark, NameId)> = Vec::new();
        let mut open: FxHashMap<Option<Utid>, Vec<usize>> = FxHashMap::default();
        for print in self.prints.iter().take_while(|p| p.ts < window.to).filter(|p| wanted(p.utid)) {
            let stack = open.entry(print.utid).or_default();
            match parse(names.bytes(print.text)) {
                Marker::Begin { name } if stack.len() < MAX_DEPTH => {
                    let depth = stack.len() as u16;
                    stack.push(marks.len());
                    let mark = Mark { start: print.ts, end: None, depth, utid: print.utid, name: name.into() };
                    marks.push((mark, print.text));
                }
                Marker::End => {
                    if let Some(at) = stack.pop() {
                        marks[at].0.end = Some(print.ts);
                    }
                }
                Marker::Instant { name } => {
                    let (start, depth) = (print.ts, stack.len() as u16);
                    let mark = Mark { start, end: Some(start), depth, utid: print.utid, name: name.into() };
                    marks.push((mark, print.text));
                }
                _ => {}
            }
        }
        self.end_after(window, names, open, &mut marks);
        marks.retain(|(m, _)| m.end.is_none_or(|end| end >= window.from));
        marks
    }

    /// Finds the ends, after the window, of what is still open in it.
    fn end_after(
        &self,
        window: Window,
        names: &NameTable,
        mut open: FxHashMap<Option<Utid>, Vec<usize>>,
        marks: &mut [(Mark, NameId)],
    ) {
        open.retain(|_, stack| !stack.is_empty());
        // What begins after the window nests in what is open: `None` keeps its place on the stack.
        let mut open: FxHashMap<Option<Utid>, Vec<Option<usize>>> =
            open.into_iter().map(|(utid, stack)| (utid, stack.into_iter().map(Some).collect())).collect();
        let after = self.prints.partition_point(|p| p.ts < window.to);
        for print in self.prints.range(after..) {
            if open.is_empty() {
                return;
            }
            let Some(stack) = open.get_mut(&print.utid) else { continue };
            match parse(names.bytes(print.text)) {
                Marker::Begin { .. } if stack.len() < MAX_DEPTH => stack.push(None),
                Marker::End => {
                    if let Some(Some(at)) = stack.pop() {
                        marks[at].0.end = Some(print.ts);
                    }
                    if stack.iter().all(Option::is_none) {
                        open.remove(&print.utid);
                    }
                }
                _ => {}
            }
        }
    }
}
