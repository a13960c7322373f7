//! In which kernel function a thread blocked, and with which stack: what the instance's trigger recorded, symbolised once
//! per distinct stack.
//!
//! There are few distinct stacks (tens to hundreds), so each event costs a hash and a look-up, and a frame of the segment
//! restates each stack that occurs in it once. Memory is bounded: when the table is full it is emptied and fills again with
//! what still occurs, and of a storm of blocking threads only the first in each frame have their stack kept.

use std::hash::Hasher;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHasher};

use crate::kernel::symbols::Symbols;
use crate::perfetto::encode::packets;
use crate::sched::event::Tid;

/// Distinct stacks kept.
const MAX_STACKS: usize = 8192;
/// Frames looked at; the kernel's own limit for such a trigger is about as deep.
const MAX_FRAMES: usize = 128;
/// Bytes kept of a stack's functions: some hundred of the usual length.
const MAX_TEXT: usize = 4096;
/// Blocking threads with their stack in one frame of the segment (half a second), and distinct stacks in it.
const MAX_BLOCKED: usize = 20_000;
const MAX_STACKS_OF_FRAME: usize = 1_000;

/// Where a thread is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The function, bytes as kallsyms has them; empty if not known.
    pub function: Box<[u8]>,
    /// It waits for I/O in the kernel's own sense.
    pub io_wait: bool,
    /// The whole stack, innermost function first, a newline between two; empty if not known.
    pub stack: Box<[u8]>,
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
    /// Stacks of the frame being filled, and how many blocked with them.
    of_frame: Vec<packets::Stack>,
    places: FxHashMap<u64, usize>,
    blocked: usize,
}

impl Stacks {
    /// Answers with these symbols, once they are there.
    pub fn new(symbols: SharedSymbols) -> Stacks {
        Stacks { symbols, ..Stacks::default() }
    }

    /// Where a thread that blocked at `ts` with this stack (return addresses, innermost first) is blocked. The stack goes
    /// into the next [`Stacks::write`].
    pub fn seen(&mut self, ts: u64, tid: Tid, stack: impl Iterator<Item = u64>) -> &Found {
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
        let found = self.known.entry(key).or_insert_with(|| {
            let blocked = symbols.blocked_in(frames);
            Found { function: blocked.function.into(), io_wait: blocked.io_wait, stack: text(symbols, frames) }
        });
        if self.blocked < MAX_BLOCKED && !found.stack.is_empty() {
            let next = self.of_frame.len();
            let at = match self.places.get(&key) {
                Some(&at) => at,
                None if next < MAX_STACKS_OF_FRAME => {
                    self.of_frame.push(packets::Stack { functions: found.stack.to_vec(), blocked: Vec::new() });
                    self.places.insert(key, next);
                    next
                }
                None => return found,
            };
            self.of_frame[at].blocked.push((tid, ts));
            self.blocked += 1;
        }
        found
    }

    /// Writes the stacks seen since the last time, for the frame that holds their events.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        if self.blocked > 0 {
            packets::stacks(&self.of_frame, out);
            self.of_frame.clear();
            self.places.clear();
            self.blocked = 0;
        }
    }
}

/// A stack in words; empty when no function of it is known.
fn text(symbols: &Symbols, frames: &[u64]) -> Box<[u8]> {
    let mut text = Vec::new();
    let mut any = false;
    for function in symbols.functions(frames) {
        let name = function.unwrap_or(b"?");
        if text.len() + name.len() >= MAX_TEXT {
            break;
        }
        if !text.is_empty() {
            text.push(b'\n');
        }
        any |= function.is_some();
        text.extend_from_slice(name);
    }
    if any { text.into() } else { Box::default() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameTable;
    use crate::perfetto::decode::Decoder;
    use crate::sched::event::Item;

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
        let found = stacks.seen(5, 7, [base + 0x10, base + 0x110, base + 0x210].into_iter()).clone();
        let stack = b"schedule\nio_schedule\njbd2_log_wait_commit"[..].into();
        assert_eq!(found, Found { function: b"jbd2_log_wait_commit"[..].into(), io_wait: true, stack });
        let plain = stacks.seen(6, 7, [base + 0x10, base + 0x210].into_iter());
        assert_eq!((&*plain.function, plain.io_wait), (&b"jbd2_log_wait_commit"[..], false));
        assert_eq!(stacks.known.len(), 2);
    }

    #[test]
    fn without_symbols_and_for_unknown_addresses_there_is_no_name() {
        assert_eq!(*Stacks::default().seen(1, 7, [1].into_iter()), Found::default());
        let mut stacks = Stacks::new(symbols());
        assert_eq!(*stacks.seen(1, 7, [1, 2, 3].into_iter()), Found::default());
        assert_eq!(*stacks.seen(1, 7, [].into_iter()), Found::default());
        let mut out = Vec::new();
        stacks.write(&mut out);
        assert!(out.is_empty(), "a stack without names says nothing");
    }

    fn written(stacks: &mut Stacks) -> Vec<(u64, Tid, String)> {
        let (mut out, mut names, mut items) = (Vec::new(), NameTable::new(), Vec::new());
        stacks.write(&mut out);
        Decoder::new().decode(&out, &mut names, &mut |item| items.push(item)).unwrap();
        let told = items.iter().map(|item| match item {
            Item::Stack { ts, tid, functions } => {
                (*ts, *tid, String::from_utf8(names.bytes(*functions).to_vec()).unwrap())
            }
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn a_frame_has_each_stack_once_and_who_blocked_with_it() {
        let mut stacks = Stacks::new(symbols());
        let base = 0xffff_ffff_8100_0000u64;
        for (ts, tid, inner) in [(100, 7, 0x10), (90, 8, 0x110), (200, 9, 0x10)] {
            stacks.seen(ts, tid, [base + inner, base + 0x210].into_iter());
        }
        assert_eq!(stacks.of_frame.len(), 2);
        let short = "schedule\njbd2_log_wait_commit".to_string();
        let io = "io_schedule\njbd2_log_wait_commit".to_string();
        assert_eq!(written(&mut stacks), [(100, 7, short.clone()), (200, 9, short), (90, 8, io)]);
        assert_eq!(written(&mut stacks), [], "once");
    }

    #[test]
    fn a_storm_of_blocking_threads_stays_bounded() {
        let mut stacks = Stacks::new(symbols());
        let base = 0xffff_ffff_8100_0000u64;
        for i in 0..2 * MAX_BLOCKED as u64 {
            // Never the same address twice, always the same function.
            stacks.seen(i, 7, [base + 1 + i % 200, base + 0x201 + i / 200].into_iter());
        }
        assert_eq!(stacks.of_frame.len(), MAX_STACKS_OF_FRAME);
        assert!(written(&mut stacks).len() <= MAX_BLOCKED);
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut stacks = Stacks::new(symbols());
        for i in 0..2 * MAX_STACKS as u64 {
            stacks.seen(i, 7, [i + 1].into_iter());
        }
        assert!(stacks.known.len() <= MAX_STACKS);
    }
}
