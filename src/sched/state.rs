//! Task states: one canonical set, and the raw `prev_state` layouts of the kernels that wrote them.
//!
//! Nothing here reads a kernel; a layout comes from a release string or a flag table that someone else found.

use std::borrow::Cow;

/// What a thread was when it left the CPU (`prev_state` of sched_switch), in one layout for all kernels.
///
/// A set of flags, since kernels report combinations (`D|K`). No flag at all is runnable ("R").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct TaskState(pub u16);

impl TaskState {
    /// Still runnable, switched out without the preempt bit: "R". It yielded, or was made to leave on its way back to user
    /// mode (`exit_to_user_mode_loop` calls `schedule`, which does not set the bit).
    pub const RUNNABLE: TaskState = TaskState(0);
    /// Interruptible sleep: "S".
    pub const SLEEPING: TaskState = TaskState(1);
    /// Uninterruptible sleep: "D".
    pub const UNINTERRUPTIBLE: TaskState = TaskState(1 << 1);
    /// Stopped by a signal: "T".
    pub const STOPPED: TaskState = TaskState(1 << 2);
    /// Stopped by a tracer: "t".
    pub const TRACED: TaskState = TaskState(1 << 3);
    /// Dead: "X".
    pub const DEAD: TaskState = TaskState(1 << 4);
    /// Zombie: "Z".
    pub const ZOMBIE: TaskState = TaskState(1 << 5);
    /// Parked kernel thread: "P".
    pub const PARKED: TaskState = TaskState(1 << 6);
    /// Idle kernel thread: "I".
    pub const IDLE: TaskState = TaskState(1 << 7);
    /// Wakes for fatal signals only (with D): "K".
    pub const WAKE_KILL: TaskState = TaskState(1 << 8);
    /// Being woken: "W".
    pub const WAKING: TaskState = TaskState(1 << 9);
    /// Does not count to the load (with D): "N".
    pub const NO_LOAD: TaskState = TaskState(1 << 10);
    /// Raw bits were set that the layout does not know; the raw value is kept beside it in the event.
    pub const UNKNOWN: TaskState = TaskState(1 << 14);
    /// Preempted: "R+".
    pub const PREEMPTED: TaskState = TaskState(1 << 15);

    /// Flags with the letter and the word of each, in the order they are printed.
    const NAMED: [(TaskState, char, &'static str); 11] = [
        (Self::SLEEPING, 'S', "sleeping"),
        (Self::UNINTERRUPTIBLE, 'D', "uninterruptible"),
        (Self::STOPPED, 'T', "stopped"),
        (Self::TRACED, 't', "traced"),
        (Self::DEAD, 'X', "dead"),
        (Self::ZOMBIE, 'Z', "zombie"),
        (Self::PARKED, 'P', "parked"),
        (Self::IDLE, 'I', "idle"),
        (Self::WAKE_KILL, 'K', "killable"),
        (Self::WAKING, 'W', "waking"),
        (Self::NO_LOAD, 'N', "no load"),
    ];

    /// True when every flag of `other` is set here.
    pub fn contains(self, other: TaskState) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags together.
    pub const fn with(self, other: TaskState) -> TaskState {
        TaskState(self.0 | other.0)
    }

    /// True for "R" and "R+": the thread could have gone on running.
    pub fn is_runnable(self) -> bool {
        self.0 & !Self::PREEMPTED.0 == 0
    }

    /// The letters Perfetto's tables use: "R", "R+", "S", "D", "DK", "I"; "?" stands for unknown raw bits.
    pub fn letters(self) -> Cow<'static, str> {
        match self {
            Self::RUNNABLE => return "R".into(),
            Self::PREEMPTED => return "R+".into(),
            Self::SLEEPING => return "S".into(),
            Self::UNINTERRUPTIBLE => return "D".into(),
            Self::IDLE => return "I".into(),
            _ => {}
        }
        let mut out: String = Self::NAMED.iter().filter(|(f, ..)| self.contains(*f)).map(|(_, c, _)| *c).collect();
        if self.contains(Self::UNKNOWN) {
            out.push('?');
        }
        if self.contains(Self::PREEMPTED) {
            if out.is_empty() {
                out.push('R');
            }
            out.push('+');
        }
        out.into()
    }

    /// The state in words: "runnable", "preempted", "sleeping", "uninterruptible, killable", "unknown".
    pub fn word(self) -> Cow<'static, str> {
        match self {
            Self::RUNNABLE => return "runnable".into(),
            Self::PREEMPTED => return "preempted".into(),
            _ => {}
        }
        let mut words: Vec<&str> =
            Self::NAMED.iter().filter(|(f, ..)| self.contains(*f)).map(|(_, _, word)| *word).collect();
        for (flag, word) in [(Self::UNKNOWN, "unknown"), (Self::PREEMPTED, "preempted")] {
            if self.contains(flag) {
                words.push(word);
            }
        }
        match words[..] {
            [one] => one.into(),
            _ => words.join(", ").into(),
        }
    }

    /// The inverse of [`TaskState::letters`]; also reads the `D|K` form of text traces. `None` for anything else.
    pub fn from_letters(text: &str) -> Option<TaskState> {
        let (body, mut state) = match text.strip_suffix('+') {
            Some(body) => (body, Self::PREEMPTED),
            None => (text, Self::RUNNABLE),
        };
        if body == "R" {
            return Some(state);
        }
        for c in body.chars().filter(|c| *c != '|') {
            state = state.with(Self::from_letter(c)?);
        }
        (body.len() > body.matches('|').count()).then_some(state)
    }

    fn from_letter(letter: char) -> Option<TaskState> {
        match letter {
            'x' => Some(Self::DEAD),
            '?' => Some(Self::UNKNOWN),
            _ => Self::NAMED.iter().find(|(_, c, _)| *c == letter).map(|(flag, ..)| *flag),
        }
    }
}

/// How one kernel lays `prev_state` out: which raw bit is which flag. 16 raw bits; higher ones are unknown.
///
/// The layouts moved in 4.8 (TASK_NEW pushed the preempt bit up) and in 4.14 (only reported states, one bit each).
/// The kernel's own `print fmt` is the best source (`kernel::format`), its release the next best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLayout {
    flags: [TaskState; 16],
}

impl StateLayout {
    /// 4.14 and later, from TASK_REPORT in include/linux/sched.h: 0x80 is idle, 0x100 is "preempted".
    pub const SINCE_4_14: StateLayout = StateLayout::modern();
    /// 4.8 to 4.13: 0x1000 is "preempted".
    pub const SINCE_4_8: StateLayout = StateLayout::old(12);
    /// Before 4.8: 0x800 is "preempted".
    pub const BEFORE_4_8: StateLayout = StateLayout::old(11);

    const fn modern() -> StateLayout {
        let mut flags = [TaskState::UNKNOWN; 16];
        let named = [
            TaskState::SLEEPING,
            TaskState::UNINTERRUPTIBLE,
            TaskState::STOPPED,
            TaskState::TRACED,
            TaskState::DEAD,
            TaskState::ZOMBIE,
            TaskState::PARKED,
            TaskState::IDLE,
            TaskState::PREEMPTED,
        ];
        let mut i = 0;
        while i < named.len() {
            flags[i] = named[i];
            i += 1;
        }
        StateLayout { flags }
    }

    const fn old(preempt_bit: usize) -> StateLayout {
        let mut flags = [TaskState::UNKNOWN; 16];
        let named = [
            TaskState::SLEEPING,
            TaskState::UNINTERRUPTIBLE,
            TaskState::STOPPED,
            TaskState::TRACED,
            TaskState::DEAD,
            TaskState::ZOMBIE,
            TaskState::DEAD,
            TaskState::WAKE_KILL,
            TaskState::WAKING,
            TaskState::PARKED,
            TaskState::NO_LOAD,
        ];
        let mut i = 0;
        while i < named.len() {
            flags[i] = named[i];
            i += 1;
        }
        flags[preempt_bit] = TaskState::PREEMPTED;
        StateLayout { flags }
    }

    /// The layout of a kernel release such as "6.18.44" or "4.9.0-13-amd64"; of the newest when it does not parse.
    pub fn for_release(release: &str) -> StateLayout {
        let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (4, 8) => Self::BEFORE_4_8,
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (4, 14) => Self::SINCE_4_8,
            _ => Self::SINCE_4_14,
        }
    }

    /// The layout that a flag table says: `(raw bit, letter)` pairs, and the bit that prints as "+" (0 = none).
    ///
    /// Entries that are not one bit of the low 16, or whose letter means nothing, stay unknown.
    pub fn from_flags(table: &[(u64, &str)], preempted: u64) -> StateLayout {
        let mut flags = [TaskState::UNKNOWN; 16];
        let mut put = |raw: u64, flag: TaskState| {
            if raw.is_power_of_two() && raw < 1 << 16 {
                flags[raw.trailing_zeros() as usize] = flag;
            }
        };
        // Kernels 3.15 to 4.13 print EXIT_DEAD (16) as "Z" and EXIT_ZOMBIE (32) as "X": the values were swapped in
        // include/linux/sched.h but not in the event's table. The full table (with "x" at 64) tells those kernels.
        let swapped = table.contains(&(64, "x"));
        for &(raw, letters) in table {
            let mut chars = letters.chars();
            let (Some(letter), None) = (chars.next(), chars.next()) else { continue };
            let flag = match (raw, letter) {
                (16, 'Z') if swapped => Some(TaskState::DEAD),
                (32, 'X') if swapped => Some(TaskState::ZOMBIE),
                _ => TaskState::from_letter(letter),
            };
            if let Some(flag) = flag {
                put(raw, flag);
            }
        }
        put(preempted, TaskState::PREEMPTED);
        StateLayout { flags }
    }

    /// The canonical state of a raw `prev_state`. Bits the layout does not know set [`TaskState::UNKNOWN`].
    pub fn decode(&self, raw: i64) -> TaskState {
        let mut state = if raw as u64 >> 16 == 0 { TaskState::RUNNABLE } else { TaskState::UNKNOWN };
        let mut bits = raw as u64 & 0xffff;
        while bits != 0 {
            state = state.with(self.flags[bits.trailing_zeros() as usize]);
            bits &= bits - 1;
        }
        // TASK_IDLE is TASK_UNINTERRUPTIBLE | TASK_NOLOAD; kernels before 4.14 report it as those two bits.
        let idle = TaskState::UNINTERRUPTIBLE.with(TaskState::NO_LOAD);
        if state.contains(idle) {
            state = TaskState(state.0 & !idle.0).with(TaskState::IDLE);
        }
        state
    }

    /// The letters of a raw state, unknown bits as hex: "S", "R+", "0x4000".
    pub fn describe(&self, raw: i64) -> Cow<'static, str> {
        let state = self.decode(raw);
        if state.contains(TaskState::UNKNOWN) { format!("{raw:#x}").into() } else { state.letters() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_7_each_layout_has_its_own_preempted_and_idle() {
        let new = StateLayout::for_release("6.18.44-fc");
        assert_eq!(new.decode(0x100), TaskState::PREEMPTED);
        assert_eq!(new.decode(0x80), TaskState::IDLE);
        assert_eq!(new.decode(0x40), TaskState::PARKED);
        let middle = StateLayout::for_release("4.9.0-13-amd64");
        assert_eq!(middle.decode(0x1000), TaskState::PREEMPTED);
        assert_eq!(middle.decode(0x402), TaskState::IDLE);
        assert_eq!(middle.decode(0x82), TaskState::UNINTERRUPTIBLE.with(TaskState::WAKE_KILL));
        assert_eq!(middle.decode(0x200), TaskState::PARKED);
        assert_eq!(middle.decode(0x800), TaskState::UNKNOWN, "TASK_NEW is not a state to be in");
        let old = StateLayout::for_release("4.4.302");
        assert_eq!(old.decode(0x800), TaskState::PREEMPTED);
        assert_eq!(StateLayout::for_release("4.14"), StateLayout::SINCE_4_14);
        assert_eq!(StateLayout::for_release("3.10.0-1160.el7"), StateLayout::BEFORE_4_8);
        assert_eq!(StateLayout::for_release("10.0"), StateLayout::SINCE_4_14);
        assert_eq!(StateLayout::for_release("garbage"), StateLayout::SINCE_4_14);
    }

    #[test]
    fn case_7_unknown_high_bits_show_as_hex() {
        let l = StateLayout::SINCE_4_14;
        assert_eq!(l.decode(0x4002), TaskState::UNKNOWN.with(TaskState::UNINTERRUPTIBLE));
        assert_eq!(l.describe(0x4002), "0x4002");
        assert_eq!(l.describe(1 << 40), "0x10000000000");
        assert_eq!(l.describe(-1), "0xffffffffffffffff");
        assert_eq!(l.describe(0x100), "R+");
    }

    #[test]
    fn case_7_a_flag_table_gives_the_same_as_the_release() {
        let table = [(1, "S"), (2, "D"), (4, "T"), (8, "t"), (16, "X"), (32, "Z"), (64, "P"), (128, "I")];
        assert_eq!(StateLayout::from_flags(&table, 0x100), StateLayout::SINCE_4_14);
        let old = [
            (1, "S"),
            (2, "D"),
            (4, "T"),
            (8, "t"),
            (16, "Z"),
            (32, "X"),
            (64, "x"),
            (128, "K"),
            (256, "W"),
            (512, "P"),
            (1024, "N"),
        ];
        assert_eq!(StateLayout::from_flags(&old, 0x1000), StateLayout::SINCE_4_8);
        assert_eq!(StateLayout::from_flags(&old, 0x800), StateLayout::BEFORE_4_8);
        let odd = StateLayout::from_flags(&[(0, "S"), (3, "D"), (1 << 40, "T"), (4, "SD"), (8, "")], 0);
        assert_eq!(odd.decode(0xff), TaskState::UNKNOWN);
        assert_eq!(odd.decode(0), TaskState::RUNNABLE);
    }

    #[test]
    fn letters_are_perfettos_and_read_back() {
        let dk = TaskState::UNINTERRUPTIBLE.with(TaskState::WAKE_KILL);
        for (state, letters, word) in [
            (TaskState::RUNNABLE, "R", "runnable"),
            (TaskState::PREEMPTED, "R+", "preempted"),
            (TaskState::SLEEPING, "S", "sleeping"),
            (TaskState::TRACED, "t", "traced"),
            (TaskState::IDLE, "I", "idle"),
            (dk, "DK", "uninterruptible, killable"),
            (TaskState::UNKNOWN, "?", "unknown"),
            (TaskState::UNKNOWN.with(TaskState::SLEEPING), "S?", "sleeping, unknown"),
        ] {
            assert_eq!(state.letters(), letters);
            assert_eq!(state.word(), word);
            assert_eq!(TaskState::from_letters(letters), Some(state));
        }
        assert_eq!(TaskState::from_letters("D|K"), Some(dk));
        assert_eq!(TaskState::from_letters("x"), Some(TaskState::DEAD));
        for bad in ["", "|", "Q", "+", "SQ"] {
            assert_eq!(TaskState::from_letters(bad), None, "{bad:?}");
        }
    }
}
