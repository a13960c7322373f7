//! Thread states as glyphs, and bars made of them.
//!
//! With colours a state is told by colour *and* texture; without (mono, ASCII) by letter: `R` running, `r` ready, `+` pushed
//! off (R+), `D`, `.` asleep, `o` other, `?` not known, `/` lost or not recorded.

use crate::sched::event::ThreadNow;
use crate::sched::state::TaskState;
use crate::sched::summary::StateTimes;
use crate::tui::pen::Pen;
use crate::tui::theme::{Theme, Tone};

/// A state as far as drawing tells states apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the words of the field")]
pub enum Kind {
    Running,
    Ready,
    PushedOff,
    Blocked,
    Other,
    Sleeping,
    Unknown,
    Absent,
}

/// All, in the order of a stacked bar.
pub const KINDS: [Kind; 8] = [
    Kind::Running,
    Kind::Ready,
    Kind::PushedOff,
    Kind::Blocked,
    Kind::Other,
    Kind::Sleeping,
    Kind::Unknown,
    Kind::Absent,
];

impl Kind {
    /// The kind of a state.
    pub fn of(now: ThreadNow) -> Kind {
        match now {
            ThreadNow::Running => Kind::Running,
            ThreadNow::Runnable => Kind::Ready,
            ThreadNow::Preempted => Kind::PushedOff,
            ThreadNow::Unknown => Kind::Unknown,
            ThreadNow::Blocked(s) if s.contains(TaskState::IDLE) => Kind::Sleeping,
            ThreadNow::Blocked(s) if s.contains(TaskState::UNINTERRUPTIBLE) => Kind::Blocked,
            ThreadNow::Blocked(s) if s.contains(TaskState::SLEEPING) => Kind::Sleeping,
            ThreadNow::Blocked(_) => Kind::Other,
        }
    }

    /// Its tone.
    pub fn tone(self) -> Tone {
        match self {
            Kind::Running => Tone::Running,
            Kind::Ready => Tone::Ready,
            Kind::PushedOff => Tone::PushedOff,
            Kind::Blocked => Tone::Blocked,
            Kind::Other => Tone::Other,
            Kind::Sleeping => Tone::Sleeping,
            Kind::Unknown | Kind::Absent => Tone::Unknown,
        }
    }

    /// Its glyph in a theme.
    pub fn glyph(self, theme: &Theme) -> char {
        let letters = theme.mono || theme.ascii;
        match self {
            Kind::Running if letters => 'R',
            Kind::Ready if letters => 'r',
            Kind::PushedOff if letters => '+',
            Kind::Other if letters => 'o',
            Kind::Sleeping if letters => '.',
            Kind::Unknown if letters => '?',
            Kind::Running => '▇',
            Kind::Ready => '▒',
            Kind::PushedOff => '▓',
            Kind::Blocked => 'D',
            Kind::Other => 'o',
            Kind::Sleeping => '·',
            Kind::Unknown => '┄',
            // Also with letters: there is nothing to be told.
            Kind::Absent => ' ',
        }
    }

    /// In words, with the letter the field uses.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Running => "running",
            Kind::Ready => "ready (R)",
            Kind::PushedOff => "pushed off (R+)",
            Kind::Blocked => "uninterruptible (D)",
            Kind::Other => "stopped",
            Kind::Sleeping => "sleeping (S)",
            Kind::Unknown => "not known",
            Kind::Absent => "not there (yet, any more)",
        }
    }

    /// The same where there is little room, behind its glyph.
    pub fn short(self) -> &'static str {
        match self {
            Kind::Running => "run",
            Kind::Ready => "ready",
            Kind::PushedOff => "pushed off",
            Kind::Blocked => "wait",
            Kind::Other => "stopped",
            Kind::Sleeping => "sleep",
            Kind::Unknown => "not known",
            Kind::Absent => "not there",
        }
    }

    /// Its part of some times.
    pub fn part(self, times: &StateTimes) -> u64 {
        match self {
            Kind::Running => times.running,
            Kind::Ready => times.runnable,
            Kind::PushedOff => times.preempted,
            Kind::Blocked => times.uninterruptible,
            Kind::Other => times.other,
            Kind::Sleeping => times.sleeping,
            Kind::Unknown => times.unknown,
            Kind::Absent => times.absent,
        }
    }
}

/// How many of `width` cells each state gets, in [`KINDS`] order; the sum is `width` (0 when there is no time at all).
/// States that mean trouble are never rounded away: from a thousandth of the time on they have a cell.
pub fn stacked(times: &StateTimes, width: u16) -> [u16; 8] {
    let mut cells = [0u16; 8];
    let total = u128::from(times.total());
    if total == 0 || width == 0 {
        return cells;
    }
    let scaled = KINDS.map(|k| u128::from(k.part(times)) * u128::from(width));
    for (cell, s) in cells.iter_mut().zip(scaled) {
        *cell = u16::try_from(s / total).unwrap_or(0);
    }
    let mut rest: Vec<usize> = (0..KINDS.len()).collect();
    rest.sort_by_key(|&i| std::cmp::Reverse(scaled[i] % total));
    let missing = width - cells.iter().sum::<u16>();
    for &i in rest.iter().take(usize::from(missing)) {
        cells[i] += 1;
    }
    for (i, kind) in KINDS.iter().enumerate() {
        let trouble = matches!(kind, Kind::Ready | Kind::PushedOff | Kind::Blocked);
        let seen = u128::from(kind.part(times)) * 1000 >= total;
        if trouble && cells[i] == 0 && seen {
            // The largest gives up a cell.
            let largest = (0..KINDS.len()).max_by_key(|&j| cells[j]).unwrap_or(0);
            if cells[largest] > 1 {
                cells[largest] -= 1;
                cells[i] = 1;
            }
        }
    }
    cells
}

/// A stacked bar: how the window's time is shared out.
pub fn draw_stacked(pen: &mut Pen<'_>, x: u16, y: u16, width: u16, times: &StateTimes) {
    let mut at = x;
    for (kind, n) in KINDS.iter().zip(stacked(times, width)) {
        let style = pen.theme.style(kind.tone());
        let glyph = kind.glyph(pen.theme);
        pen.fill(at, y, n, glyph, style);
        at += n;
    }
}

/// Columns over time, over the whole pen: each shares its lines out among the states, running at the bottom. With one line
/// a column shows what took most of it.
pub fn draw_over_time(pen: &mut Pen<'_>, cells: &[StateTimes]) {
    let rows = pen.h();
    for (x, times) in cells.iter().enumerate().take(usize::from(pen.w())) {
        let x = u16::try_from(x).unwrap_or(u16::MAX);
        for (y, kind) in column(times, rows).into_iter().enumerate() {
            let y = rows - 1 - u16::try_from(y).unwrap_or(0).min(rows - 1);
            let style = pen.theme.style(kind.tone());
            let glyph = kind.glyph(pen.theme);
            pen.cell(x, y, glyph, style);
        }
    }
}

/// The states of a column of `rows` lines, from the bottom.
fn column(times: &StateTimes, rows: u16) -> Vec<Kind> {
    if rows <= 1 || times.total() == 0 {
        return vec![dominant(times); usize::from(rows)];
    }
    let shares = KINDS.iter().zip(stacked(times, rows));
    shares.flat_map(|(kind, n)| std::iter::repeat_n(*kind, usize::from(n))).collect()
}

/// The state that took most of some time; unknown when nothing is known.
pub fn dominant(times: &StateTimes) -> Kind {
    // Of equals the first in KINDS order wins: running before ready before … before sleep.
    let mut best = Kind::Unknown;
    let mut most = 0;
    for kind in KINDS {
        if kind.part(times) > most {
            most = kind.part(times);
            best = kind;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_become_cells() {
        let times = StateTimes { running: 412, runnable: 31, preempted: 182, sleeping: 375, ..StateTimes::default() };
        assert_eq!(stacked(&times, 20), [8, 1, 4, 0, 0, 7, 0, 0]);
        assert_eq!(stacked(&StateTimes::default(), 20), [0; 8]);
    }

    #[test]
    fn a_column_shows_every_state_that_has_a_line_of_it() {
        use Kind::*;
        let half = StateTimes { running: 50, preempted: 50, ..StateTimes::default() };
        assert_eq!(column(&half, 4), [Running, Running, PushedOff, PushedOff]);
        assert_eq!(column(&half, 1), [Running], "of equals the first");
        let little = StateTimes { running: 5, preempted: 90, sleeping: 5, ..StateTimes::default() };
        assert_eq!(column(&little, 4), [PushedOff; 4]);
        assert_eq!(column(&StateTimes::default(), 2), [Unknown, Unknown]);
        assert!(column(&half, 0).is_empty());
    }

    #[test]
    fn a_little_trouble_stays_visible() {
        let times = StateTimes { running: 10_000, uninterruptible: 20, ..StateTimes::default() };
        assert_eq!(stacked(&times, 10), [9, 0, 0, 1, 0, 0, 0, 0]);
        let times = StateTimes { running: 100_000, uninterruptible: 20, ..StateTimes::default() };
        assert_eq!(stacked(&times, 10)[3], 0, "a fifth of a thousandth is not worth a cell");
    }

    proptest! {
        #[test]
        fn cells_add_up(v in proptest::array::uniform8(0u64..u64::MAX / 9), width in 0u16..300) {
            let times = StateTimes { running: v[0], runnable: v[1], preempted: v[2], sleeping: v[3], uninterruptible: v[4], other: v[5], unknown: v[6], absent: v[7] };
            let sum: u16 = stacked(&times, width).iter().sum();
            prop_assert_eq!(sum, if times.total() == 0 { 0 } else { width });
        }
    }
}
