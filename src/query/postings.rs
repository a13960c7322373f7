//! For a key column, the rows of each key: what makes `WHERE utid = ?` and `GROUP BY utid` cheap.
//!
//! Built once, on first use, by a counting sort; the rows of one key stay in row order and so in time order.

/// The rows of each key, keys dense from 0 to `keys`.
#[derive(Debug, Default, Clone)]
pub struct Postings {
    offsets: Vec<u32>,
    rows: Vec<u32>,
}

impl Postings {
    /// Sorts the rows `0..len` by `key(row)`; rows whose key is `None` belong to no list.
    pub fn build(len: u32, key: impl Fn(u32) -> Option<u32>) -> Self {
        let mut counts: Vec<u32> = Vec::new();
        for row in 0..len {
            let Some(k) = key(row) else { continue };
            if k as usize >= counts.len() {
                counts.resize(k as usize + 1, 0);
            }
            counts[k as usize] += 1;
        }
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        let mut total = 0u32;
        for count in &mut counts {
            offsets.push(total);
            total += std::mem::replace(count, total);
        }
        offsets.push(total);
        let mut rows = vec![0u32; total as usize];
        for row in 0..len {
            let Some(k) = key(row) else { continue };
            let place = &mut counts[k as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Postings { offsets, rows }
    }

    /// The rows of `key`, ascending.
    pub fn of(&self, key: u32) -> &[u32] {
        let k = key as usize;
        match (self.offsets.get(k), self.offsets.get(k + 1)) {
            (Some(&from), Some(&to)) => &self.rows[from as usize..to as usize],
            _ => &[],
        }
    }

    /// All rows that have a key, by key, then by row.
    pub fn all(&self) -> &[u32] {
        &self.rows
    }

    /// Number of keys (the highest one plus one).
    pub fn keys(&self) -> u32 {
        (self.offsets.len().saturating_sub(1)) as u32
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        (self.offsets.len() + self.rows.len()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_by_key_then_by_row() {
        let keys = [2u32, 0, 2, 9, 0, 5];
        let p = Postings::build(6, |r| (keys[r as usize] != 9).then_some(keys[r as usize]));
        assert_eq!(p.of(0), [1, 4]);
        assert_eq!(p.of(1), [0u32; 0]);
        assert_eq!(p.of(2), [0, 2]);
        assert_eq!(p.of(77), [0u32; 0]);
        assert_eq!(p.all(), [1, 4, 0, 2, 5]);
        assert_eq!(p.keys(), 6);
    }
}
