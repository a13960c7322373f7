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
}

impl Stacks {
    /// Answers with these symbols, once they are there.
    pub fn new(symbols: SharedSymbols) -> Stacks {
        Stacks { symbols, ..Stacks::default() }
    }

    /// Where a thread with this stack is blocked; `stack` holds addresses of 8 bytes, innermost first.
    pub fn resolve(&mut self, stack: &[u8]) -> &Found {
        let Some(symbols) = self.symbols.get() else { return &self.nameless };
        let mut hasher = FxHasher::default();
        hasher.write(stack);
        let key = hasher.finish();
        if self.known.len() >= MAX_STACKS && !self.known.contains_key(&key) {
            self.known.clear();
        }
        self.known.entry(key).or_insert_with(|| {
            // The kernel ends a shorter stack with ULONG_MAX (struct stack_entry of older kernels) or zeros.
            let words = stack.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default()));
            let frames: Vec<u64> = words.take_while(|&a| a != u64::MAX && a != 0).take(MAX_FRAMES).collect();
            let blocked = symbols.blocked_in(&frames);
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

    fn stack(addresses: &[u64]) -> Vec<u8> {
        addresses.iter().flat_map(|a| a.to_ne_bytes()).collect()
    }

    #[test]
    fn scheduler_frames_are_skipped_and_io_wait_is_told() {
        let mut stacks = Stacks::new(symbols());
        let base = 0xffff_ffff_8100_0000u64;
        let found = stacks.resolve(&stack(&[base + 0x10, base + 0x110, base + 0x210, u64::MAX, 7])).clone();
        assert_eq!(found, Found { function: b"jbd2_log_wait_commit"[..].into(), io_wait: true });
        let plain = stacks.resolve(&stack(&[base + 0x10, base + 0x210]));
        assert_eq!((&*plain.function, plain.io_wait), (&b"jbd2_log_wait_commit"[..], false));
        assert_eq!(stacks.known.len(), 2);
    }

    #[test]
    fn without_symbols_and_for_cut_records_there_is_no_name() {
        assert_eq!(*Stacks::default().resolve(&stack(&[1])), Found::default());
        let mut stacks = Stacks::new(symbols());
        assert_eq!(*stacks.resolve(&[1, 2, 3]), Found::default());
        assert_eq!(*stacks.resolve(&[]), Found::default());
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut stacks = Stacks::new(symbols());
        for i in 0..2 * MAX_STACKS as u64 {
            stacks.resolve(&stack(&[i + 1]));
        }
        assert!(stacks.known.len() <= MAX_STACKS);
    }
}
