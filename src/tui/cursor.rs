//! Where on the time line the screens stand: Live, Paused, or Replay. One type for live view and looking back.
//!
//! A cursor is plain arithmetic on CLOCK_BOOTTIME nanoseconds; what data exists is told to it, never asked by it.

use crate::sched::summary::Window;

/// Which window is on view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The window ends at the newest data and moves with it.
    Live,
    /// Frozen where live was when it was paused.
    Paused {
        /// End of the window.
        at: u64,
    },
    /// Anywhere in the past.
    Replay {
        /// End of the window.
        at: u64,
    },
}

/// A window of a chosen length and where its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Where.
    pub mode: Mode,
    /// Length of the window, ns; never 0.
    pub span: u64,
}

/// The shortest window: a microsecond.
pub const MIN_SPAN: u64 = 1_000;

impl Cursor {
    /// On now.
    pub fn live(span: u64) -> Cursor {
        Cursor { mode: Mode::Live, span: span.max(MIN_SPAN) }
    }

    /// On a window of the past.
    pub fn on(window: Window) -> Cursor {
        Cursor { mode: Mode::Replay { at: window.to }, span: window.to.saturating_sub(window.from).max(MIN_SPAN) }
    }

    /// The window, when the newest data ends at `edge`.
    pub fn window(&self, edge: u64) -> Window {
        let to = match self.mode {
            Mode::Live => edge,
            Mode::Paused { at } | Mode::Replay { at } => at,
        };
        Window { from: to.saturating_sub(self.span), to }
    }

    /// True when it moves with the data.
    pub fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Freezes live at `edge`; a frozen one goes on live, unless there is no live (`live` false).
    pub fn toggle_pause(&mut self, edge: u64, live: bool) {
        self.mode = match self.mode {
            Mode::Live => Mode::Paused { at: edge },
            _ if live => Mode::Live,
            stays => stays,
        };
    }

    /// Moves by `by` ns (negative: back) within `extent`; stepping back from live is pausing.
    pub fn step(&mut self, by: i64, edge: u64, extent: Window) {
        let end = self.window(edge).to;
        let moved = if by < 0 { end.saturating_sub(by.unsigned_abs()) } else { end.saturating_add(by.unsigned_abs()) };
        let earliest = extent.from.saturating_add(self.span.min(extent.to.saturating_sub(extent.from)));
        self.mode = match self.mode {
            Mode::Live if by > 0 => Mode::Live,
            _ => Mode::Replay { at: moved.clamp(earliest.min(extent.to), extent.to.max(earliest)) },
        };
    }

    /// Puts `at` in the middle of the window.
    pub fn center(&mut self, at: u64) {
        self.mode = Mode::Replay { at: at.saturating_add(self.span / 2) };
    }

    /// Changes the length to `num/den` of what it was, keeping `keep` where it is on screen.
    pub fn zoom(&mut self, num: u64, den: u64, keep: u64, edge: u64, longest: u64) {
        let window = self.window(edge);
        let keep = keep.clamp(window.from, window.to);
        let span = (u128::from(self.span) * u128::from(num) / u128::from(den.max(1))) as u64;
        let span = span.clamp(MIN_SPAN, longest.max(MIN_SPAN));
        let before = u128::from(keep - window.from) * u128::from(span) / u128::from(self.span.max(1));
        let to = keep.saturating_sub(before as u64).saturating_add(span);
        self.span = span;
        if !self.is_live() {
            self.mode = Mode::Replay { at: to };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const ALL: Window = Window { from: 100 * S, to: 1000 * S };

    #[test]
    fn live_moves_paused_stays_and_goes_on() {
        let mut c = Cursor::live(10 * S);
        assert_eq!(c.window(1000 * S), Window { from: 990 * S, to: 1000 * S });
        c.toggle_pause(1000 * S, true);
        assert_eq!(c.window(1005 * S), Window { from: 990 * S, to: 1000 * S });
        c.toggle_pause(1005 * S, true);
        assert_eq!(c.window(1005 * S).to, 1005 * S);
    }

    #[test]
    fn without_a_live_source_a_pause_stays_where_it_is() {
        let mut c = Cursor::on(Window { from: 200 * S, to: 210 * S });
        c.toggle_pause(1000 * S, false);
        assert_eq!(c.mode, Mode::Replay { at: 210 * S });
    }

    #[test]
    fn steps_stay_within_what_there_is() {
        let mut c = Cursor::live(10 * S);
        c.step(-(S as i64), 1000 * S, ALL);
        assert_eq!(c.mode, Mode::Replay { at: 999 * S });
        c.step(-(5000 * S as i64), 1000 * S, ALL);
        assert_eq!(c.window(0).from, 100 * S);
        c.step(5000 * S as i64, 1000 * S, ALL);
        assert_eq!(c.window(0).to, 1000 * S);
    }

    #[test]
    fn zoom_keeps_the_instant_under_the_eye() {
        let mut c = Cursor::on(Window { from: 200 * S, to: 240 * S });
        c.zoom(1, 2, 210 * S, 0, 3600 * S);
        // A quarter in stays a quarter in: 20 s long, from 205 s.
        assert_eq!(c.window(0), Window { from: 205 * S, to: 225 * S });
        c.zoom(2, 1, 210 * S, 0, 3600 * S);
        assert_eq!(c.window(0), Window { from: 200 * S, to: 240 * S });
        c.zoom(1, 1_000_000_000, 210 * S, 0, 3600 * S);
        assert_eq!(c.span, MIN_SPAN);
    }

    proptest! {
        #[test]
        fn no_arithmetic_breaks(span: u64, at: u64, by: i64, edge: u64, from: u64, to: u64, keep: u64, n in 0u64..9, d in 0u64..9) {
            let mut c = Cursor { mode: Mode::Replay { at }, span: span.max(MIN_SPAN) };
            c.step(by, edge, Window { from: from.min(to), to: from.max(to) });
            c.zoom(n, d, keep, edge, span);
            c.center(keep);
            let w = c.window(edge);
            prop_assert!(w.from <= w.to && c.span >= MIN_SPAN);
        }
    }
}
