//! What could not be read, in words: one line for each file, however many places in it are damaged.

use super::frames::told;
use crate::perfetto::container::Container;
use crate::store::frame::ReadAt;
use crate::store::layout::open_recorded;
use crate::store::scan;
use crate::units::show;
use std::path::{Path, PathBuf};

/// What stands where a packet should, and does not read as one.
pub const NO_PACKET: &str = "no trace packet starts here";
/// The end of a trace that was cut.
pub const CUT_PACKET: &str = "the trace ends inside a packet";

/// In the words of our own files' damage: a trace of another recorder cannot be read on behind byte `offset` of its packets
/// (as they are unpacked), for `why`.
pub fn torn_at(path: &Path, offset: u64, why: &str) -> String {
    let packed = format!("damaged at byte {offset} of what is packed in it: {why}");
    let Ok(file) = open_recorded(path) else { return packed };
    let mut start = [0; 4];
    let read = file.read_full_at(&mut start, 0).unwrap_or(0);
    match Container::of(&start[..read]) {
        Container::Plain => format!("damaged at byte {offset}: {why}"),
        Container::Gzip => packed,
        Container::Zstd => {
            let end = file.metadata().map_or(0, |m| m.len());
            let outline = scan::outline(&file, path, 0, end).ok();
            outline.and_then(|o| o.damage).map_or(packed, |damage| damage.to_string())
        }
    }
}

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
                n => format!(", and {} more places in it", show::grouped(*n)),
            };
            let text = format!("{what}{more}");
            path.as_ref().map_or(text.clone(), |path| told(path, &text))
        };
        let mut words: Vec<String> = self.files.iter().map(line).collect();
        if self.others > 0 {
            words.push(format!("{} places in further files", show::grouped(self.others)));
        }
        words
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
    fn a_torn_trace_is_told_with_the_byte_of_the_file_where_that_is_known() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            torn_at(&path, 300, "why")
        };
        assert_eq!(said("plain", b"\x0a\x7f..."), "damaged at byte 300: why");
        let frame = zstd::stream::encode_all(&b"packets"[..], 3).unwrap();
        let cut = [&frame[..], &frame[..5]].concat();
        let at = frame.len();
        assert_eq!(said("zstd", &cut), format!("damaged at byte {at}: the file ends inside a zstd frame"));
        assert_eq!(said("zstd", &frame), "damaged at byte 300 of what is packed in it: why");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"packets").unwrap();
        assert_eq!(said("gzip", &gzip.finish().unwrap()), "damaged at byte 300 of what is packed in it: why");
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
