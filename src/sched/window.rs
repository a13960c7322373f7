//! A stretch of time and its equal cells.

/// Half-open stretch of time `[from, to)`, ns on CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub from: u64,
    /// First instant after it.
    pub to: u64,
}

impl Window {
    /// Its length, ns (0 when turned round).
    pub fn len(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// True for no time at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of `start..end` within it, ns.
    pub fn overlap(&self, start: u64, end: u64) -> u64 {
        end.min(self.to).saturating_sub(start.max(self.from))
    }

    /// Cell `i` of `n` equal ones; they tile the window exactly, so lengths may differ by 1 ns.
    pub fn cell(&self, i: usize, n: usize) -> Window {
        let at = |i: usize| self.from + (u128::from(self.len()) * i as u128 / n.max(1) as u128) as u64;
        Window { from: at(i), to: at(i + 1) }
    }

    /// In which of `n` cells `ts` (within the window) falls.
    pub fn cell_of(&self, ts: u64, n: usize) -> usize {
        if self.is_empty() || n == 0 {
            return 0;
        }
        let at = u128::from(ts.saturating_sub(self.from)) * n as u128 / u128::from(self.len());
        let mut cell = (at as usize).min(n - 1);
        // Rounding down twice may be one cell off at an edge.
        while cell + 1 < n && self.cell(cell, n).to <= ts {
            cell += 1;
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Cells tile the window without hole or overlap, and every instant is found in the cell that holds it.
        #[test]
        fn cells_tile(from in 0..u64::MAX / 2, len in 1..1u64 << 62, n in 1..500usize, at in 0.0..1.0f64) {
            let window = Window { from, to: from + len };
            prop_assert_eq!(window.cell(0, n).from, window.from);
            prop_assert_eq!(window.cell(n - 1, n).to, window.to);
            for i in 1..n {
                prop_assert_eq!(window.cell(i - 1, n).to, window.cell(i, n).from);
            }
            let ts = from + (len as f64 * at) as u64 % len;
            let cell = window.cell(window.cell_of(ts, n), n);
            prop_assert!(cell.from <= ts && ts < cell.to, "{:?} {}", cell, ts);
        }
    }

    #[test]
    fn no_time_at_all() {
        let none = Window { from: 5, to: 5 };
        assert!(none.is_empty());
        assert_eq!((none.cell_of(5, 10), none.cell(3, 10), none.overlap(0, 9)), (0, none, 0));
        assert_eq!(Window { from: 9, to: 5 }.len(), 0);
    }
}
