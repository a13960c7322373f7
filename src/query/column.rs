//! A column: values of one type in fixed-size blocks, so that growing never copies and never doubles.

/// log2 of the number of values in a block.
const BLOCK_BITS: u32 = 13;
/// Values in a block.
const BLOCK: usize = 1 << BLOCK_BITS;

/// A growable array of plain values; memory is at most one block more than what is stored.
#[derive(Debug, Clone)]
pub struct Column<T> {
    blocks: Vec<Box<[T]>>,
    len: usize,
    fill: T,
}

impl<T: Copy> Column<T> {
    /// An empty column; rows that are skipped when a later one is set hold `fill`.
    pub fn new(fill: T) -> Self {
        Column { blocks: Vec::new(), len: 0, fill }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at `row`; the fill value for a row that does not exist.
    #[inline]
    pub fn get(&self, row: u32) -> T {
        let row = row as usize;
        match self.blocks.get(row >> BLOCK_BITS) {
            Some(block) => block[row & (BLOCK - 1)],
            None => self.fill,
        }
    }

    /// Sets `row`, growing the column to hold it.
    #[inline]
    pub fn set(&mut self, row: u32, value: T) {
        let row = row as usize;
        while row >> BLOCK_BITS >= self.blocks.len() {
            self.blocks.push(vec![self.fill; BLOCK].into_boxed_slice());
        }
        self.blocks[row >> BLOCK_BITS][row & (BLOCK - 1)] = value;
        self.len = self.len.max(row + 1);
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.set(self.len as u32, value);
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<T>()
    }
}

impl<T: Copy + PartialOrd> Column<T> {
    /// In a column that never falls: the first row whose value is not less than `value`.
    pub fn lower_bound(&self, value: T) -> u32 {
        let (mut low, mut high) = (0usize, self.len);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.get(mid as u32) < value { low = mid + 1 } else { high = mid }
        }
        low as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_blocks_and_fills_holes() {
        let mut c = Column::new(7u32);
        c.set(20_000, 1);
        assert_eq!((c.len(), c.get(0), c.get(19_999), c.get(20_000), c.get(90_000)), (20_001, 7, 7, 1, 7));
        assert_eq!(c.bytes(), 3 * 8192 * 4, "three blocks of 8192 hold 20001 rows");
    }

    #[test]
    fn lower_bound_is_the_first_not_less() {
        let mut c = Column::new(0u64);
        for v in [10, 20, 20, 30] {
            c.push(v);
        }
        assert_eq!([5, 10, 11, 20, 21, 30, 31].map(|v| c.lower_bound(v)), [0, 0, 1, 1, 3, 3, 4]);
    }
}
