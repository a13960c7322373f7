//! What could not be read, in words: one line for each file, however many places in it are damaged.

use super::frames::told;
use std::path::{Path, PathBuf};

/// Files told apart; of what comes after these only the number is kept.
const MAX_FILES: usize = 100;

/// Damage met while reading.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// File (`None`: within a frame, whose file is not known here), what was met first, and how often more.
    files: Vec<(Option<PathBuf>, String, u64)>,
    others: u64,
}

impl Damage {
    /// Notes one damaged place of a file.
    pub fn note(&mut self, path: Option<&Path>, what: String) {
        if let Some(known) = self.files.iter_mut().find(|f| f.0.as_deref() == path) {
            known.2 += 1;
        } else if self.files.len() < MAX_FILES {
            self.files.push((path.map(Path::to_owned), what, 0));
        } else {
            self.others += 1;
        }
    }

    /// One line for each file.
    pub fn words(&self) -> Vec<String> {
        let line = |(path, what, more): &(Option<PathBuf>, String, u64)| {
            let more = match more {
                0 => String::new(),
                1 => ", and 1 more place in it".to_string(),
                n => format!(", and {n} more places in it"),
            };
            let text = format!("{what}{more}");
            path.as_ref().map_or(text.clone(), |path| told(path, &text))
        };
        let mut words: Vec<String> = self.files.iter().map(line).collect();
        if self.others > 0 {
            words.push(format!("{} places in further files", self.others));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_once_with_the_number_of_its_places() {
        let mut damage = Damage::default();
        for at in [700, 900, 1100] {
            damage.note(Some(Path::new("/a\n")), format!("damaged at byte {at}: wrong checksum"));
        }
        damage.note(Some(Path::new("/b")), "cut".into());
        damage.note(None, "not a packet".into());
        damage.note(None, "not a packet".into());
        assert_eq!(
            damage.words(),
            [
                "/a\\x0a: damaged at byte 700: wrong checksum, and 2 more places in it",
                "/b: cut",
                "not a packet, and 1 more place in it"
            ]
        );
    }

    #[test]
    fn a_store_full_of_damage_stays_small() {
        let mut damage = Damage::default();
        for i in 0..1000 {
            damage.note(Some(&PathBuf::from(format!("/{i}"))), "cut".into());
        }
        let words = damage.words();
        assert_eq!((words.len(), words[100].as_str()), (101, "900 places in further files"));
    }
}
