//! Kernel functions by address, from kallsyms; and which function of a stack a thread is blocked in.
//!
//! Holds text symbols only, in two flat arrays and one buffer of names (3 MiB for a 60,000-function kernel). Answers each
//! stack anew: the cache of distinct stacks is the caller's. Never opens anything but the file it is given.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Why there are no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// Every address reads as zero (kptr_restrict, or no CAP_SYSLOG).
    #[error("{}: addresses are hidden from this user; run as root with CAP_SYSLOG, and if that is not enough: sysctl -w kernel.kptr_restrict=1", .0.display())]
    Hidden(PathBuf),
    /// A kernel without CONFIG_KALLSYMS, or something else than kallsyms.
    #[error("{}: holds no kernel functions; the kernel needs CONFIG_KALLSYMS", .0.display())]
    Empty(PathBuf),
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// KSYM_NAME_LEN is 512 (include/linux/kallsyms.h); an address, a type and a module's name come on top.
const MAX_LINE: usize = 1024;
/// Bounds on what is kept: ten times a distribution kernel with all its modules.
const MAX_SYMBOLS: usize = 2_000_000;
const MAX_NAMES: usize = 64 << 20;
/// An address further than this behind the last symbol's start is not in that function: the largest kernel functions are
/// tens of KiB.
const MAX_FUNCTION: u64 = 1 << 20;

/// Where the kernel keeps the functions that only ever wait on somebody's behalf (`__sched`, `__lockfunc`); what
/// get_wchan() skips through in_sched_functions() (kernel/sched/core.c).
#[derive(Debug, Clone, Copy, Default)]
struct Section {
    start: u64,
    end: u64,
}

impl Section {
    fn holds(self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }
}

/// Functions of the running kernel and its modules.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// Start of each function, ascending.
    starts: Vec<u64>,
    /// Where each one's name begins in `names`; it ends in a NUL.
    offsets: Vec<u32>,
    names: Vec<u8>,
    sched: Section,
    lock: Section,
}

/// What a blocked thread's stack tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedIn<'a> {
    /// The innermost function that is not the scheduler's; empty when the stack holds none that is known.
    pub function: &'a [u8],
    /// The wait counts as waiting for I/O.
    pub io_wait: bool,
}

impl Symbols {
    /// Reads `/proc/kallsyms` or a file like it. Takes some 50 ms of CPU, most of it the kernel's.
    ///
    /// # Errors
    /// See [`SymbolsError`].
    pub fn load(path: &Path) -> Result<Self, SymbolsError> {
        let read = |source| SymbolsError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read)?;
        let (symbols, hidden) = Self::parse(BufReader::with_capacity(1 << 16, file)).map_err(read)?;
        match (symbols.is_empty(), hidden) {
            (false, _) => Ok(symbols),
            (true, true) => Err(SymbolsError::Hidden(path.into())),
            (true, false) => Err(SymbolsError::Empty(path.into())),
        }
    }

    /// The symbols in kallsyms' format, and whether any were left out because their address is hidden (zero).
    fn parse(mut from: impl BufRead) -> io::Result<(Self, bool)> {
        let mut found: Vec<(u64, u32)> = Vec::new();
        let mut s = Symbols::default();
        let mut hidden = false;
        let mut line = Vec::with_capacity(128);
        while next_line(&mut from, &mut line)? {
            let Some((addr, kind, name)) = symbol_line(&line) else { continue };
            // The sections' borders may be of any type. The function that begins there has a name of its own.
            match name {
                b"__sched_text_start" => s.sched.start = addr,
                b"__sched_text_end" => s.sched.end = addr,
                b"__lock_text_start" => s.lock.start = addr,
                b"__lock_text_end" => s.lock.end = addr,
                _ => {}
            }
            let text = matches!(kind, b't' | b'T' | b'w' | b'W');
            let border = name.ends_with(b"_text_start") || name.ends_with(b"_text_end");
            // "__pfx_x" names the padding before x, which is never in a stack.
            if !text || border || name.starts_with(b"__pfx_") {
                continue;
            }
            if addr == 0 {
                hidden = true;
                continue;
            }
            let Ok(offset) = u32::try_from(s.names.len()) else { break };
            if found.len() == MAX_SYMBOLS || s.names.len() + name.len() > MAX_NAMES {
                break;
            }
            found.push((addr, offset));
            s.names.extend_from_slice(name);
            s.names.push(0);
        }
        // Of several names for one address the first listed stays: the sort is stable.
        found.sort_by_key(|(addr, _)| *addr);
        found.dedup_by_key(|(addr, _)| *addr);
        s.starts = found.iter().map(|(addr, _)| *addr).collect();
        s.offsets = found.iter().map(|(_, offset)| *offset).collect();
        s.names.shrink_to_fit();
        Ok((s, hidden))
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The function that holds `addr`.
    pub fn lookup(&self, addr: u64) -> Option<&[u8]> {
        let i = self.starts.partition_point(|start| *start <= addr).checked_sub(1)?;
        if addr - self.starts[i] > MAX_FUNCTION {
            return None;
        }
        let name = self.names.get(self.offsets[i] as usize..)?;
        name.split(|b| *b == 0).next()
    }

    /// What a thread that blocked with this stack (innermost first, return addresses) waits in.
    ///
    /// Frames before the scheduler's own are the tracer's and are skipped, then the scheduler's are. The first one left is
    /// the answer: for a thread that waits for a mutex, the function that wanted the mutex.
    pub fn blocked_in(&self, stack: &[u64]) -> BlockedIn<'_> {
        // A return address behind a call that ends a function belongs to the next one: look one byte before.
        let frames = || stack.iter().map(|addr| addr.saturating_sub(1));
        let function =
            frames().skip(self.tracer_frames(stack)).find(|a| !self.is_scheduler(*a)).and_then(|a| self.lookup(a));
        let io_wait = frames().any(|a| self.lookup(a).is_some_and(counts_as_io));
        BlockedIn { function: function.unwrap_or_default(), io_wait }
    }

    /// The functions of a blocked thread's stack, innermost first, without the tracer's own; `None` for an address in no
    /// function that is known.
    pub fn functions(&self, stack: &[u64]) -> impl Iterator<Item = Option<&[u8]>> {
        stack.iter().skip(self.tracer_frames(stack)).map(|addr| self.lookup(addr.saturating_sub(1)))
    }

    /// How many frames stand before the scheduler's first one: the tracer's.
    fn tracer_frames(&self, stack: &[u64]) -> usize {
        stack.iter().position(|addr| self.is_scheduler(addr.saturating_sub(1))).unwrap_or(0)
    }

    /// True for the scheduler's own frames: by section where the kernel tells its sections, else by name.
    fn is_scheduler(&self, addr: u64) -> bool {
        if self.sched.end > self.sched.start {
            return self.sched.holds(addr) || self.lock.holds(addr);
        }
        self.lookup(addr).is_some_and(named_like_scheduler)
    }
}

/// Functions in which the kernel sets `in_iowait` (kernel/sched/core.c, kernel/locking/mutex.c).
fn counts_as_io(name: &[u8]) -> bool {
    matches!(name, b"io_schedule" | b"io_schedule_timeout" | b"mutex_lock_io" | b"mutex_lock_io_nested")
}

/// The most usual `__sched` functions, for a kernel that hides where its sections are.
fn named_like_scheduler(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[b"__schedule", b"schedule", b"schedule_idle", b"io_schedule", b"io_schedule_timeout"];
    const PREFIXES: &[&[u8]] = &[
        b"schedule_timeout",
        b"schedule_hrtimeout",
        b"schedule_preempt_disabled",
        b"preempt_schedule",
        b"wait_for_completion",
        b"wait_for_common",
        b"__wait_for_common",
        b"__wait_on_bit",
        b"out_of_line_wait_on_bit",
        b"bit_wait",
        b"__mutex_lock",
        b"mutex_lock",
        b"rwsem_down_",
        b"down_read",
        b"down_write",
        b"__down",
        b"rt_mutex_",
        b"do_nanosleep",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|p| name.starts_with(p))
}

/// One line without its end into `line`; what is longer than [`MAX_LINE`] is cut. False at the end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let chunk = from.fill_buf()?;
        if chunk.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = chunk.iter().position(|b| *b == b'\n');
        let take = end.unwrap_or(chunk.len());
        line.extend_from_slice(&chunk[..take.min(MAX_LINE.saturating_sub(line.len()))]);
        from.consume(end.map_or(take, |e| e + 1));
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// `ffffffff81000000 T _stext` or `ffffffffc0000000 t nf_hook\t[nf_tables]`: address, type, name.
fn symbol_line(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    let mut fields = line.splitn(3, |b| *b == b' ');
    let addr = std::str::from_utf8(fields.next()?).ok().filter(|a| !a.starts_with('+'))?;
    let addr = u64::from_str_radix(addr, 16).ok()?;
    let [kind] = fields.next()? else { return None };
    let name = fields.next()?.split(|b| matches!(b, b'\t' | b' ')).next()?;
    (!name.is_empty()).then_some((addr, *kind, name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A small kernel: tracer, locks, scheduler, file system, and a module that is listed last but lies first.
    const KALLSYMS: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 t stacktrace_trigger
ffffffff81000200 T __traceiter_sched_switch
ffffffff81001000 T jbd2_log_wait_commit
ffffffff81001100 t do_sync_work.isra.0
ffffffff81001200 T __pfx_ext4_sync_file
ffffffff81001210 T ext4_sync_file
ffffffff81001210 T ext4_sync_file_alias
ffffffff81002000 D jiffies
ffffffff82000000 T __sched_text_start
ffffffff82000000 t __schedule
ffffffff82000100 T schedule
ffffffff82000200 T io_schedule
ffffffff82000300 t __mutex_lock
ffffffff82000400 T __sched_text_end
ffffffff82000500 T __lock_text_start
ffffffff82000500 T _raw_spin_lock
ffffffff82000600 T __lock_text_end
ffffffffc0000000 t nvme_wait\t[nvme]
";

    fn parse(text: &str) -> (Symbols, bool) {
        Symbols::parse(text.as_bytes()).unwrap()
    }

    fn blocked<'a>(s: &'a Symbols, stack: &[u64]) -> (&'a str, bool) {
        let b = s.blocked_in(stack);
        (std::str::from_utf8(b.function).unwrap(), b.io_wait)
    }

    #[test]
    fn addresses_find_their_function() {
        let (s, hidden) = parse(KALLSYMS);
        assert!(!hidden);
        assert_eq!(s.lookup(0xffffffff81001000), Some(&b"jbd2_log_wait_commit"[..]));
        assert_eq!(s.lookup(0xffffffff810010ff), Some(&b"jbd2_log_wait_commit"[..]));
        assert_eq!(s.lookup(0xffffffff81001210), Some(&b"ext4_sync_file"[..]), "the first of two names");
        assert_eq!(s.lookup(0xffffffff81001205), Some(&b"do_sync_work.isra.0"[..]), "padding is no function");
        assert_eq!(s.lookup(0xffffffffc0000010), Some(&b"nvme_wait"[..]), "without the module's name");
        assert_eq!(s.lookup(0xffffffff80ffffff), None, "before the first");
        assert_eq!(s.lookup(0xffffffffc9000000), None, "far behind the last");
    }

    #[test]
    fn the_first_function_that_is_not_the_scheduler_s() {
        let (s, _) = parse(KALLSYMS);
        let sync = [0xffffffff82000040, 0xffffffff82000110, 0xffffffff81001044, 0xffffffff81001250];
        assert_eq!(blocked(&s, &sync), ("jbd2_log_wait_commit", false));
        let mutex = [0xffffffff82000040, 0xffffffff82000110, 0xffffffff82000333, 0xffffffff81001250];
        assert_eq!(blocked(&s, &mutex), ("ext4_sync_file", false));
        let io = [0xffffffff82000040, 0xffffffff82000110, 0xffffffff82000210, 0xffffffffc0000020];
        assert_eq!(blocked(&s, &io), ("nvme_wait", true));
    }

    #[test]
    fn the_tracer_s_own_frames_are_skipped() {
        let (s, _) = parse(KALLSYMS);
        let stack = [0xffffffff81000150, 0xffffffff81000220, 0xffffffff82000040, 0xffffffff81001044];
        assert_eq!(blocked(&s, &stack), ("jbd2_log_wait_commit", false));
    }

    #[test]
    fn a_stack_is_told_whole_but_for_the_tracer() {
        let (s, _) = parse(KALLSYMS);
        let stack = [0xffffffff81000150, 0xffffffff82000040, 0xffffffff82000110, 0xffffffff81001044, 5];
        let told: Vec<_> = s.functions(&stack).map(|f| f.map(|f| std::str::from_utf8(f).unwrap())).collect();
        assert_eq!(told, [Some("__schedule"), Some("schedule"), Some("jbd2_log_wait_commit"), None]);
    }

    #[test]
    fn a_call_that_ends_its_function_counts_for_it() {
        let (s, _) = parse(KALLSYMS);
        // The return address is the first byte of the next function.
        assert_eq!(blocked(&s, &[0xffffffff82000040, 0xffffffff81001100]), ("jbd2_log_wait_commit", false));
    }

    #[test]
    fn stacks_that_tell_nothing() {
        let (s, _) = parse(KALLSYMS);
        assert_eq!(blocked(&s, &[]), ("", false));
        assert_eq!(blocked(&s, &[0xffffffff82000040, 0xffffffff82000110]), ("", false), "all scheduler");
        assert_eq!(blocked(&s, &[0xffffffff82000040, 5]), ("", false), "unknown address");
        assert_eq!(blocked(&s, &[0, u64::MAX]), ("", false));
    }

    #[test]
    fn without_sections_names_decide() {
        let text: String = KALLSYMS.lines().filter(|l| !l.contains("_text_")).map(|l| format!("{l}\n")).collect();
        let (s, _) = parse(&text);
        let mutex = [0xffffffff82000040, 0xffffffff82000110, 0xffffffff82000333, 0xffffffff81001250];
        assert_eq!(blocked(&s, &mutex), ("ext4_sync_file", false));
    }

    #[test]
    fn hidden_addresses_are_told_with_the_mend() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        std::fs::write(&path, "0000000000000000 T _stext\n0000000000000000 t schedule\n").unwrap();
        let e = Symbols::load(&path).unwrap_err();
        assert!(matches!(e, SymbolsError::Hidden(_)));
        assert!(e.to_string().contains("sysctl -w kernel.kptr_restrict=1"));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Symbols::load(&path), Err(SymbolsError::Empty(_))));
        assert!(matches!(Symbols::load(&dir.path().join("none")), Err(SymbolsError::Read { .. })));
    }

    #[test]
    fn this_kernel_s_scheduler_is_found_or_hidden() {
        match Symbols::load(Path::new("/proc/kallsyms")) {
            Ok(s) => {
                assert!(s.len() > 1000);
                let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
                let addr = |name: &str| {
                    let line = text.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
                    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
                };
                assert_eq!(s.lookup(addr("schedule") + 4), Some(&b"schedule"[..]));
                let stack = [addr("schedule") + 4, addr("io_schedule") + 4, addr("do_exit") + 4];
                assert_eq!(blocked(&s, &stack), ("do_exit", true));
            }
            Err(e) => assert!(matches!(e, SymbolsError::Hidden(_) | SymbolsError::Read { .. }), "{e}"),
        }
    }

    proptest! {
        #[test]
        fn any_bytes_any_stack(text in proptest::collection::vec(any::<u8>(), 0..400), stack in proptest::collection::vec(any::<u64>(), 0..8)) {
            let (s, _) = Symbols::parse(text.as_slice()).unwrap();
            let _ = s.blocked_in(&stack);
        }

        #[test]
        fn a_line_without_end_takes_bounded_memory(n in 0usize..200_000) {
            let text = [b"ffffffff81000000 T ".to_vec(), vec![b'x'; n]].concat();
            let (s, _) = Symbols::parse(text.as_slice()).unwrap();
            prop_assert!(s.names.len() <= MAX_LINE);
        }
    }
}
