//! Interned strings, kept as the bytes the kernel gave.
//!
//! A thread name is at most 15 bytes of anything but NUL and need not be UTF-8; comparing names means
//! comparing bytes. Events carry a [`NameId`] (4 bytes, `Copy`); one [`NameTable`] per loaded trace owns
//! the bytes. Nothing here makes a name safe for a terminal: that is [`printable`]'s job, and every
//! string that reaches a terminal, a text export or a log goes through it.

use rustc_hash::FxHashMap;

/// Index of a string in the [`NameTable`] that issued it. `NameId::EMPTY` is the empty string in every table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NameId(pub u32);

impl NameId {
    /// The empty string; also "no name known".
    pub const EMPTY: NameId = NameId(0);

    /// True for the empty or unknown name.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// Owns the bytes of every distinct name of one loaded trace; ids are dense and never reused.
#[derive(Debug, Clone)]
pub struct NameTable {
    bytes: Vec<Box<[u8]>>,
    ids: FxHashMap<Box<[u8]>, NameId>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self::new()
    }
}

impl NameTable {
    /// A table that holds only the empty string.
    pub fn new() -> Self {
        let empty: Box<[u8]> = Box::default();
        let mut ids = FxHashMap::default();
        ids.insert(empty.clone(), NameId::EMPTY);
        NameTable { bytes: vec![empty], ids }
    }

    /// The id of `name`, new or known. Allocates only for a name not seen before.
    pub fn intern(&mut self, name: &[u8]) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.bytes.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    /// The id of `name` if it was interned before.
    pub fn find(&self, name: &[u8]) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    /// The bytes behind `id`; empty for an id of another table.
    pub fn bytes(&self, id: NameId) -> &[u8] {
        self.bytes.get(id.0 as usize).map_or(&[], |b| b)
    }

    /// The name as text that is safe on a terminal (see [`printable`]).
    pub fn text(&self, id: NameId) -> String {
        printable(self.bytes(id))
    }

    /// Number of distinct names, the empty one included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: the empty string is always there.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The one sanitiser for every string that reaches a terminal, a text export or a log.
///
/// Bytes that are not UTF-8 become U+FFFD, one per byte run as in `String::from_utf8_lossy`. Control
/// characters (C0, DEL, C1), and characters that reorder or hide text (bidi overrides and isolates,
/// zero-width marks, line and paragraph separators), become visible `\xNN` / `\u{NNNN}` escapes, so no
/// escape sequence survives and nothing can pretend to be another name.
pub fn printable(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    if !lossy.chars().any(needs_escape) {
        return lossy.into_owned();
    }
    let mut out = String::with_capacity(lossy.len() + 8);
    for c in lossy.chars() {
        if !needs_escape(c) {
            out.push(c);
        } else if (c as u32) < 0x100 {
            out.push_str(&format!("\\x{:02x}", c as u32));
        } else {
            out.push_str(&format!("\\u{{{:x}}}", c as u32));
        }
    }
    out
}

fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c as u32,
            0x00ad | 0x061c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_bytes_same_id_and_bytes_are_kept() {
        let mut t = NameTable::new();
        let a = t.intern(b"\xff\xfe");
        assert_eq!(t.intern(b"\xff\xfe"), a);
        assert_ne!(t.intern(b"\xff\xfd"), a, "names that differ only in invalid bytes stay distinct");
        assert_eq!(t.bytes(a), b"\xff\xfe");
        assert_eq!(t.intern(b""), NameId::EMPTY);
    }

    #[test]
    fn no_escape_code_survives() {
        assert_eq!(printable(b"\x1b[2Jx"), "\\x1b[2Jx");
        assert_eq!(printable(b"a\nb\x7f"), "a\\x0ab\\x7f");
        assert_eq!(printable("\u{9b}2J".as_bytes()), "\\x9b2J");
        assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(printable(b"ok\xff"), "ok\u{fffd}");
        assert_eq!(printable("数据".as_bytes()), "数据");
    }
}
