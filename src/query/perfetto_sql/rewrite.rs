//! Text that is put together from pieces of a source, remembering where each piece came from.

/// Rewritten SQL with the way back to the text the user wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The text for SQLite.
    pub sql: String,
    /// Pieces in order: where each begins in `sql`, where in the source, and whether it is a verbatim copy.
    pieces: Vec<(usize, usize, bool)>,
}

impl Rewritten {
    /// Appends `text`, which stands at `source` in the source.
    pub fn copy(&mut self, text: &str, source: usize) {
        self.pieces.push((self.sql.len(), source, true));
        self.sql.push_str(text);
    }

    /// Appends `text` that is not in the source but stands for what is at `source`.
    pub fn insert(&mut self, text: &str, source: usize) {
        self.pieces.push((self.sql.len(), source, false));
        self.sql.push_str(text);
    }

    /// Appends another rewritten text.
    pub fn append(&mut self, other: &Rewritten) {
        let shift = self.sql.len();
        self.pieces.extend(other.pieces.iter().map(|(at, source, verbatim)| (at + shift, *source, *verbatim)));
        self.sql.push_str(&other.sql);
    }

    /// Where byte `offset` of `sql` is in the source.
    pub fn source_of(&self, offset: usize) -> usize {
        let after = self.pieces.partition_point(|(at, ..)| *at <= offset);
        match after.checked_sub(1).and_then(|n| self.pieces.get(n)) {
            Some((at, source, true)) => source + (offset - at),
            Some((_, source, false)) => *source,
            None => 0,
        }
    }

    /// The part of `sql` from byte `from` to byte `to`.
    pub fn slice(&self, from: usize, to: usize) -> Rewritten {
        let mut out = Rewritten::default();
        for (n, (at, source, verbatim)) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(n + 1).map_or(self.sql.len(), |p| p.0);
            let (a, b) = ((*at).max(from), end.min(to));
            if a < b {
                out.pieces.push((out.sql.len(), if *verbatim { source + (a - at) } else { *source }, *verbatim));
                out.sql.push_str(&self.sql[a..b]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back() {
        let mut r = Rewritten::default();
        r.copy("SELECT ", 10);
        r.insert("made", 17);
        r.copy(" FROM t", 30);
        assert_eq!(r.sql, "SELECT made FROM t");
        assert_eq!([r.source_of(0), r.source_of(3), r.source_of(9), r.source_of(12)], [10, 13, 17, 31]);
        let tail = r.slice(9, 16);
        assert_eq!(tail.sql, "de FROM");
        assert_eq!([tail.source_of(1), tail.source_of(3)], [17, 31]);
    }
}
