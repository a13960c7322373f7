//! In which kernel function a thread blocked: the stack that the instance's trigger recorded, symbolised once per
//! distinct stack.
//!
//! There are few distinct stacks (tens to hundreds), so each event costs a hash and a look-up. Memory is bounded: when
//! the table is full it is emptied and fills again with what still occurs.

use std::hash::Hasher;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHasher};

use crate::kernel::symbols::Symbols;

/// Distinct stacks kept.
const MAX_STACKS: usize = 8192;
/// Frames looked at; the kernel's own limit for such a trigger is about as deep.
const MAX_FRAMES: usize = 128;

/// Where a thread is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The function, bytes as kallsyms has them; empty if not known.
    pub function: Box<[u8]>,
    /// It waits for I/O in the kernel's own sense.
    pub io_wait: bool,
}

/// Symbols that are loaded beside the capture path; until then stacks have no names.
pub type SharedSymbols = Arc<OnceLock<Symbols>>;

/// Distinct stacks and their answers.
#[derive(Debug, Default)]
pub struct Stacks {
    symbols: SharedSymbols,
    known: FxHashMap<u64, Found>,
    nameless: Found,
    frames: Vec<u64>,
}

impl Stacks {
    /// Answers with these symbols, once they are there.
    pub fn new(symbols: SharedSymbols) -> Stacks {
        Stacks { symbols, ..Stacks::default() }
    }

    /// Where a thread with this stack (return addresses, innermost first) is blocked.
    pub fn resolve(&mut self, stack: impl Iterator<Item = u64>) -> &Found {
        let Some(symbols) = self.symbols.get() else { return &self.nameless };
        self.frames.clear();
        self.frames.extend(stack.take(MAX_FRAMES));
        let mut hasher = FxHasher::default();
        self.frames.iter().for_each(|&frame| hasher.write_u64(frame));
        let key = hasher.finish();
        if self.known.len() >= MAX_STACKS && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let frames = &self.frames;
        self.known.entry(key).or_insert_with(|| {
            let blocked = symbols.blocked_in(frames);
            Found { function: blocked.function.into(), io_wait: blocked.io_wait }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn symbols() -> SharedSymbols {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        let text =
            "ffffffff81000000 T schedule\nffffffff81000100 T io_schedule\nffffffff81000200 T jbd2_log_wait_commit\n";
        std::fs::write(&path, text).unwrap();
        let shared = SharedSymbols::default();
        shared.set(Symbols::load(&path).unwrap()).unwrap();
        shared
    }

    #[test]
    fn scheduler_frames_are_skipped_and_io_wait_is_told() {
        let mut stacks = Stacks::new(symbols());
        let base = 0xffff_ffff_8100_0000u64;
        let found = stacks.resolve([base + 0x10, base + 0x110, base + 0x210].into_iter()).clone();
        assert_eq!(found, Found { function: b"jbd2_log_wait_commit"[..].into(), io_wait: true });
        let plain = stacks.resolve([base + 0x10, base + 0x210].into_iter());
        assert_eq!((&*plain.function, plain.io_wait), (&b"jbd2_log_wait_commit"[..], false));
        assert_eq!(stacks.known.len(), 2);
    }

    #[test]
    fn without_symbols_and_for_unknown_addresses_there_is_no_name() {
        assert_eq!(*Stacks::default().resolve([1].into_iter()), Found::default());
        let mut stacks = Stacks::new(symbols());
        assert_eq!(*stacks.resolve([1, 2, 3].into_iter()), Found::default());
        assert_eq!(*stacks.resolve([].into_iter()), Found::default());
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut stacks = Stacks::new(symbols());
        for i in 0..2 * MAX_STACKS as u64 {
            stacks.resolve([i + 1].into_iter());
        }
        assert!(stacks.known.len() <= MAX_STACKS);
    }
}
