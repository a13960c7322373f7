//! Which markers a summary keeps where there are more than it has room for.
//!
//! What somebody noted by itself (`dashcam mark`, `I|`) comes first, then what begins a slice; ends and counters say nothing
//! where they stand alone. Programs that mark each step of theirs would else leave no room for the one mark that is looked for.

use super::{MAX_MARKS, Mark};
use crate::sched::marks::{self, Marker};

/// At most [`MAX_MARKS`], of each kind the first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foremost {
    /// Plain ones, begins, the rest.
    kinds: [Vec<Mark>; 3],
}

impl Foremost {
    /// Takes a marker in, if there is room or one that matters less.
    pub fn offer(&mut self, ts: u64, text: &[u8]) {
        let kind = match marks::parse(text) {
            Marker::Instant { .. } => 0,
            Marker::Begin { .. } | Marker::AsyncBegin { .. } => 1,
            Marker::End | Marker::AsyncEnd { .. } | Marker::Counter { .. } => 2,
        };
        let full = self.kinds.iter().map(Vec::len).sum::<usize>() >= MAX_MARKS;
        if full {
            let Some(lesser) = self.kinds[kind + 1..].iter_mut().rev().find(|k| !k.is_empty()) else { return };
            lesser.pop();
        }
        self.kinds[kind].push(Mark { ts, text: text.to_vec() });
    }

    /// Those taken in so far, in time order; none are left.
    pub fn take(&mut self) -> Vec<Mark> {
        let mut all: Vec<Mark> = std::mem::take(&mut self.kinds).into_iter().flatten().collect();
        all.sort_by_key(|m| m.ts);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_plain_mark_among_thousands_of_slices_is_kept() {
        let mut foremost = Foremost::default();
        for i in 0..5000 {
            foremost.offer(3 * i, format!("B|7|step {i}").as_bytes());
            foremost.offer(3 * i + 1, b"E|7");
            if i == 4321 {
                foremost.offer(3 * i + 2, b"epoch 2");
                foremost.offer(3 * i + 2, b"I|7|saved");
            }
        }
        let kept = foremost.take();
        assert_eq!(kept.len(), MAX_MARKS);
        assert!(kept.is_sorted_by_key(|m| m.ts));
        let of = |text: &[u8]| kept.iter().filter(|m| m.text == text).count();
        assert_eq!(
            (of(b"epoch 2"), of(b"I|7|saved"), of(b"E|7"), of(b"B|7|step 253"), of(b"B|7|step 254")),
            (1, 1, 0, 1, 0)
        );
        assert_eq!(foremost.take(), []);
    }

    #[test]
    fn all_are_kept_where_there_is_room() {
        let mut foremost = Foremost::default();
        for (ts, text) in [(5, &b"E|7"[..]), (3, b"B|7|a"), (4, b"deploy"), (6, b"C|7|n|1")] {
            foremost.offer(ts, text);
        }
        assert_eq!(foremost.take().iter().map(|m| m.ts).collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}
