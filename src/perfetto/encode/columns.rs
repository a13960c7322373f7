//! The rows of a table on their way into columns of varints.
//!
//! Rows are gathered first and encoded some at a time, one column after the other: where a column has a value a byte, as
//! most have, that is a copy, and where it has not, the processor works on several values at once.

use crate::perfetto::wire::{SHORT, put_varied_varint, short_varint};

/// Rows gathered before they are encoded: few enough to stay in the first-level cache.
const ROWS: usize = 64;

/// See the module. Memory is reused from bundle to bundle.
#[derive(Debug)]
pub(super) struct Columns<const C: usize> {
    gathered: [[u32; ROWS]; C],
    /// How many rows are in `gathered`, fewer than [`ROWS`].
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
        if row.iter().fold(0, |any, value| any | value) > u64::from(u32::MAX) {
            return self.push_wide(row);
        }
        // What the compiler cannot know it would look at for each column.
        let at = self.rows % ROWS;
        for (column, value) in self.gathered.iter_mut().zip(row) {
            column[at] = value as u32;
        }
        self.rows += 1;
        if self.rows == ROWS {
            self.encode();
        }
    }

    /// A row with a value that has no room in `gathered`: the first time stamp of a bundle.
    #[cold]
    fn push_wide(&mut self, row: [u64; C]) {
        self.encode();
        self.encoded.iter_mut().zip(row).for_each(|(out, value)| put_varied_varint(out, value));
    }

    #[inline(never)]
    fn encode(&mut self) {
        for (values, out) in self.gathered.iter().zip(&mut self.encoded) {
            put_varints(values, self.rows, out);
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

/// Appends the first `rows` of `values` as varints.
fn put_varints(values: &[u32; ROWS], rows: usize, out: &mut Vec<u8>) {
    let used = &values[..rows];
    let (any, all) = used.iter().fold((0, u32::MAX), |(any, all), value| (any | value, all & value));
    if any == all && any < 1 << 7 {
        // Each the same: priorities, flags, CPUs.
        out.resize(out.len() + rows, any as u8);
    } else if any < 1 << 7 {
        out.extend(used.iter().map(|&value| value as u8));
    } else if any < SHORT {
        put_short_varints(values, rows, out);
    } else {
        used.iter().for_each(|&value| put_varied_varint(out, u64::from(value)));
    }
}

/// The same where all values are below [`SHORT`].
fn put_short_varints(values: &[u32; ROWS], rows: usize, out: &mut Vec<u8>) {
    // All at once, whatever stands behind the last row, so that several values go through at a time.
    let mut varints = [(0, 0); ROWS];
    varints.iter_mut().zip(values).for_each(|(varint, &value)| *varint = short_varint(value));
    // The last one is stored whole, too, whatever its length.
    let (mut packed, mut len) = ([0u8; 4 * ROWS + 4], 0);
    for (bytes, its_len) in &varints[..rows] {
        packed[len..len + 4].copy_from_slice(&bytes.to_le_bytes());
        len += *its_len as usize;
    }
    out.extend_from_slice(&packed[..len]);
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
