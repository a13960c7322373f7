//! A list that grows at its end and is forgotten at its front, in chunks: growing never copies what is there, so that
//! millions of lists' items neither move nor leave holes in the heap.

use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// Items of a chunk, a power of two.
const CHUNK: usize = 256;

/// See the module. Every chunk but the last is full; the first `skip` items of the first are forgotten.
#[derive(Debug, Clone)]
pub(super) struct Chunks<T> {
    chunks: std::collections::VecDeque<Vec<T>>,
    skip: usize,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Chunks { chunks: Default::default(), skip: 0, len: 0 }
    }
}

impl<T> Chunks<T> {
    /// Items kept.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Item `i` of those kept.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        let at = i.checked_add(self.skip)?;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// The last.
    pub fn back(&self) -> Option<&T> {
        self.chunks.back()?.last()
    }

    /// The first kept.
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Adds one at the end.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(item),
            _ => self.push_chunk(item),
        }
    }

    #[cold]
    fn push_chunk(&mut self, item: T) {
        // Most threads do little: the first chunk grows as it needs to.
        let mut chunk = Vec::with_capacity(if self.chunks.is_empty() { 4 } else { CHUNK });
        chunk.push(item);
        self.chunks.push_back(chunk);
    }

    /// Forgets the first `n`.
    pub fn forget(&mut self, n: usize) {
        let n = n.min(self.len);
        self.len -= n;
        self.skip += n;
        while self.skip >= CHUNK {
            self.chunks.pop_front();
            self.skip -= CHUNK;
        }
        if self.len == 0 {
            *self = Self::default();
        }
    }

    /// Number of items for which `before` holds; it must hold for a prefix.
    pub fn partition_point(&self, before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&before) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The items of a range of indices (as far as there are any).
    pub fn range(&self, range: impl RangeBounds<usize>) -> Range<'_, T> {
        let from = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&at) => at + 1,
            Bound::Excluded(&at) => at,
            Bound::Unbounded => self.len,
        };
        let to = to.min(self.len);
        Range { list: self, from: from.min(to), to, rest: &[] }
    }

    /// The items of the last chunk, to be changed.
    pub fn last_chunk_mut(&mut self) -> &mut [T] {
        self.chunks.back_mut().map_or(&mut [], |c| c)
    }
}

/// See [`Chunks::range`].
#[derive(Debug)]
pub(super) struct Range<'a, T> {
    list: &'a Chunks<T>,
    from: usize,
    to: usize,
    /// What is left of the chunk that `from` is in, once it was looked up.
    rest: &'a [T],
}

impl<T> Clone for Range<'_, T> {
    fn clone(&self) -> Self {
        Range { list: self.list, from: self.from, to: self.to, rest: self.rest }
    }
}

impl<'a, T> Iterator for Range<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        if self.from >= self.to {
            return None;
        }
        if self.rest.is_empty() {
            let at = self.from + self.list.skip;
            self.rest = self.list.chunks.get(at / CHUNK)?.get(at % CHUNK..)?;
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.from += 1;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.to - self.from, Some(self.to - self.from))
    }

    /// Skipping does not visit what is skipped.
    fn nth(&mut self, n: usize) -> Option<&'a T> {
        if n > 0 {
            self.from = self.from.saturating_add(n).min(self.to);
            self.rest = &[];
        }
        self.next()
    }
}

impl<T> DoubleEndedIterator for Range<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        self.to -= 1;
        self.list.get(self.to)
    }
}

impl<T> ExactSizeIterator for Range<'_, T> {}
impl<T> FusedIterator for Range<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Behaves as the standard library's deque does.
        #[test]
        fn like_a_deque(steps in prop::collection::vec((0..400usize, 0..500usize), 1..20), probe in 0..900usize) {
            let (mut ours, mut theirs, mut next) = (Chunks::default(), VecDeque::new(), 0u32);
            for (push, forget) in steps {
                for _ in 0..push {
                    ours.push_back(next);
                    theirs.push_back(next);
                    next += 1;
                }
                ours.forget(forget);
                theirs.drain(..forget.min(theirs.len()));
                prop_assert_eq!(ours.len(), theirs.len());
                prop_assert_eq!((ours.front(), ours.back()), (theirs.front(), theirs.back()));
                prop_assert_eq!(ours.get(probe), theirs.get(probe));
                prop_assert!(ours.range(..).eq(theirs.iter()));
                prop_assert!(ours.range(probe..).rev().eq(theirs.iter().skip(probe).rev()));
                prop_assert_eq!(ours.range(..).nth(probe), theirs.get(probe));
                let at = next / 2;
                prop_assert_eq!(ours.partition_point(|&v| v < at), theirs.partition_point(|&v| v < at));
            }
        }
    }
}
