//! The rows of a table on their way into columns of varints.
//!
//! Rows are gathered first and encoded some at a time, one column after the other: where a column has a value a byte, as
//! most have, that is a copy, and where it has not, the loop keeps its places in registers.

use crate::perfetto::wire::{put_varied_varint, short_varint};

/// Rows gathered before they are encoded: few enough to stay in the first-level cache.
const ROWS: usize = 64;

/// See the module. Memory is reused from bundle to bundle.
#[derive(Debug)]
pub(super) struct Columns<const C: usize> {
    gathered: [[u64; ROWS]; C],
    /// How many rows are in `gathered`.
    rows: usize,
    encoded: [Vec<u8>; C],
}

impl<const C: usize> Default for Columns<C> {
    fn default() -> Self {
        Columns { gathered: [[0; ROWS]; C], rows: 0, encoded: [const { Vec::new() }; C] }
    }
}

impl<const C: usize> Columns<C> {
    #[inline]
    pub fn push(&mut self, row: [u64; C]) {
        for (column, value) in self.gathered.iter_mut().zip(row) {
            column[self.rows] = value;
        }
        self.rows += 1;
        if self.rows == ROWS {
            self.encode();
        }
    }

    #[inline(never)]
    fn encode(&mut self) {
        for (values, out) in self.gathered.iter().zip(&mut self.encoded) {
            put_varints(&values[..self.rows], out);
        }
        self.rows = 0;
    }

    /// About how many bytes the columns will have.
    pub fn about(&self) -> usize {
        self.encoded.iter().map(|column| column.len() + 4).sum::<usize>() + self.rows * (C + 3)
    }

    /// The columns of all rows, packed; all are empty if there were no rows.
    pub fn encoded(&mut self) -> &[Vec<u8>; C] {
        self.encode();
        &self.encoded
    }

    pub fn clear(&mut self) {
        self.rows = 0;
        self.encoded.iter_mut().for_each(Vec::clear);
    }
}

/// Appends at most [`ROWS`] varints.
fn put_varints(values: &[u64], out: &mut Vec<u8>) {
    let (any, all) = values.iter().fold((0, u64::MAX), |(any, all), value| (any | value, all & value));
    if any == all && any < 1 << 7 {
        // Each the same: priorities, flags, CPUs.
        out.resize(out.len() + values.len(), any as u8);
    } else if any < 1 << 7 {
        out.extend(values.iter().map(|&value| value as u8));
    } else if any < 1 << 28 {
        // The last one is stored whole, too, whatever its length.
        let (mut packed, mut len) = ([0u8; 4 * ROWS + 4], 0);
        for &value in values {
            let (bytes, its_len) = short_varint(value as u32);
            packed[len..len + 4].copy_from_slice(&bytes);
            len += its_len;
        }
        out.extend_from_slice(&packed[..len]);
    } else {
        values.iter().for_each(|&value| put_varied_varint(out, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::wire::put_varint;
    use proptest::prelude::*;

    proptest! {
        /// A column at a time writes what one value at a time does, however long the column and its values are.
        #[test]
        fn columns_are_the_varints_of_their_values(
            rows in prop::collection::vec((0..128u64, 0..1u64 << 28, (any::<u64>(), 0..64u32)), 0..200),
            same in 0..200u64,
        ) {
            let mut columns = Columns::<4>::default();
            let mut expected = [const { Vec::new() }; 4];
            for &(byte, short, (long, shift)) in &rows {
                let row = [byte, short, long >> shift, same];
                columns.push(row);
                expected.iter_mut().zip(row).for_each(|(column, value)| put_varint(column, value));
            }
            prop_assert_eq!(columns.encoded(), &expected);
            let about = columns.about();
            columns.clear();
            prop_assert!(columns.encoded().iter().all(Vec::is_empty));
            prop_assert_eq!(about, expected.iter().map(|column| column.len() + 4).sum::<usize>());
        }
    }
}
