//! Finding by a few letters, in order: `ptl0` finds `pt_loader:0`. Several words must all be found.
//!
//! What a row of a table shows stands in several columns. A word must be found within one of them: letters scattered over a
//! name, a control group and a command line have nothing to do with one another.

/// How a row was found; the greater the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// By letters of a name, in order.
    Letters,
    /// By a whole piece of some other column.
    Elsewhere,
    /// By a whole piece of a name.
    Named,
}

/// How `needle` finds a row with these names and these other columns; the word found worst counts. `None`: it does not.
pub fn find_row(needle: &str, names: &[&str], others: &[&str]) -> Option<Found> {
    let mut worst = Found::Named;
    for word in needle.split_whitespace() {
        let whole = |text: &&str| find(word, text, &matcher(word)).is_some();
        worst = worst.min(if names.iter().any(whole) {
            Found::Named
        } else if others.iter().any(whole) {
            Found::Elsewhere
        } else if names.iter().any(|name| word_score(word, name).is_some()) {
            Found::Letters
        } else {
            return None;
        });
    }
    Some(worst)
}

/// How well `needle` matches `hay` (more is better); `None` when it does not. Case counts only where the needle has capitals.
pub fn score(needle: &str, hay: &str) -> Option<i32> {
    let mut sum = 0;
    for word in needle.split_whitespace() {
        sum += word_score(word, hay)?;
    }
    Some(sum)
}

fn word_score(word: &str, hay: &str) -> Option<i32> {
    let same = matcher(word);
    if let Some(at) = find(word, hay, &same) {
        // A whole piece beats scattered letters, at the begin more so.
        return Some(1000 - i32::try_from(at.min(500)).unwrap_or(500));
    }
    let mut points = 0;
    let mut run = 0;
    let mut before = ' ';
    let mut wanted = word.chars().peekable();
    for c in hay.chars() {
        let Some(&w) = wanted.peek() else { break };
        if same(w, c) {
            wanted.next();
            run += 1;
            points += run + if before.is_alphanumeric() { 0 } else { 3 };
        } else {
            run = 0;
        }
        before = c;
    }
    // Scattered letters over a long text mean nothing: about half of them should stand where words begin or in runs.
    let length = i32::try_from(word.chars().count()).unwrap_or(i32::MAX);
    (wanted.peek().is_none() && points >= length + length / 2).then_some(points)
}

/// Whether two characters are the same to this word.
fn matcher(word: &str) -> impl Fn(char, char) -> bool + use<> {
    let exact_case = word.chars().any(char::is_uppercase);
    move |a, b| if exact_case { a == b } else { a == b || a.eq_ignore_ascii_case(&b) }
}

/// Position of `word` in `hay`, in characters.
fn find(word: &str, hay: &str, same: &impl Fn(char, char) -> bool) -> Option<usize> {
    hay.char_indices()
        .position(|(at, _)| {
            let mut rest = hay[at..].chars();
            word.chars().all(|w| rest.next().is_some_and(|c| same(w, c)))
        })
        .or_else(|| word.is_empty().then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_in_order() {
        assert!(score("ptl0", "pt_loader:0").is_some());
        assert!(score("0ptl", "pt_loader:0").is_none());
        assert!(score("loader train", "train.py · pt_loader:0").is_some());
        assert!(score("Train", "train.py").is_none());
        assert!(score("TRAIN", "TRAIN.py").is_some());
        assert!(score("", "anything").is_some());
    }

    #[test]
    fn a_word_is_found_within_one_column() {
        let names = ["train.py", "pt_loader:0"];
        let others = ["48213", "r ready", "/kubepods/pod7", "python3", "train.py", "--workers=2"];
        let found = |needle| find_row(needle, &names, &others);
        assert_eq!(found("loader"), Some(Found::Named));
        assert_eq!(found("python"), Some(Found::Elsewhere));
        assert_eq!(found("ptl0"), Some(Found::Letters));
        assert_eq!(found("482"), Some(Found::Elsewhere));
        assert_eq!(found("loader pod7"), Some(Found::Elsewhere), "the word found worst counts");
        assert_eq!(found("loader nothing"), None);
        assert_eq!(found(""), Some(Found::Named));
        // p, y, t, h, o and n all stand here, in order, over three columns.
        assert_eq!(find_row("python", &["pt_loader", "ypsilon"], &["the", "one"]), None);
        assert_eq!(find_row("kpd7", &names, &others), None, "letters only of names");
    }

    #[test]
    fn whole_pieces_come_first() {
        assert!(score("log", "logship") > score("log", "syslogd"));
        assert!(score("log", "syslogd") > score("log", "l_o_g"));
    }

    proptest! {
        #[test]
        fn any_texts(needle in ".{0,8}", hay in ".{0,30}") {
            if let Some(s) = score(&needle, &hay) { prop_assert!(s >= 0 || needle.trim().is_empty()); }
        }
        #[test]
        fn every_piece_is_found(hay in "[a-z·数 ]{1,20}", at in 0usize..20, n in 1usize..5) {
            let piece: String = hay.chars().skip(at).take(n).collect();
            prop_assert!(score(&piece, &hay).is_some());
        }
    }
}
