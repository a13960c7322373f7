//! The name that was probably meant, by edit distance. For keys, words, actions: any closed set of names.

/// The candidate nearest to `word`, if it is near enough to be meant: at most a third of the letters differ (two for short
/// words), where swapping neighbours counts as one difference; or it goes on where the word stops. Of equals the first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are no typing mistakes, and the table below is quadratic.
    let letters: Vec<char> = word.to_lowercase().chars().take(64).collect();
    let allowed = (letters.len() / 3).max(2).min(letters.len().saturating_sub(1));
    let score = |c: &str| {
        let c: Vec<char> = c.to_lowercase().chars().collect();
        let begun = letters.len() >= 4 && c.starts_with(&letters);
        // A name begun and not finished is worse than one mistake, better than none found.
        if begun { 2.min(allowed) } else { distance(&letters, &c) }
    };
    candidates.into_iter().map(|c| (score(c), c)).filter(|(d, _)| *d <= allowed).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// `; did you mean "x"?`, or nothing.
pub(super) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

/// Edit distance with swaps of neighbours ("optimal string alignment").
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut above: Vec<usize> = (0..width).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let same = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn distances() {
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("segmnet", "segment"), 1, "a swap is one mistake");
        assert_eq!(d("same", "same"), 0);
    }

    #[test]
    fn near_names_only() {
        let names = ["segment", "keep_time", "keep_bytes"];
        assert_eq!(nearest("segmnt", names), Some("segment"));
        assert_eq!(nearest("KEEP_TIME", names), Some("keep_time"));
        assert_eq!(nearest("keep_byte", names), Some("keep_bytes"));
        assert_eq!(nearest("keep_t", names), Some("keep_time"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", ["y"]), None, "one letter is nobody's typing mistake");
    }
}
