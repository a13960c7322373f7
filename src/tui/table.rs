//! The live overview: lanes move with each refresh, the thread table and the findings are counted once a second.
//!
//! Counting looks at every interval of the window, which at four times a second would be most of what the screen costs, for
//! numbers that nobody can read that fast. Where counting takes long it is done less often still. Never used for a window
//! that stands still: that is always counted.

use super::answers::Grouping;
use super::grouping;
use super::history::View;
use super::words::Speaker;
use super::worker::Settings;
use crate::sched::summary::{Overview, ThreadRow, Window};
use std::time::{Duration, Instant};

/// The table is counted again after this long,
const AGAIN: Duration = Duration::from_secs(1);
/// or after so many times what counting took: it never takes more than an eightieth of a CPU,
const SHARE: u32 = 80;
/// but for when the recording has gone on this much further, ns: by then it must be new, and a viewer that was stopped for a
/// while counts at once.
const FURTHER: u64 = 3_000_000_000;

/// A table that was counted, to be shown for a while.
#[derive(Debug)]
pub struct Table {
    group: Grouping,
    generation: u64,
    counted_for: Window,
    counted_at: Instant,
    took: Duration,
    /// With a row for each thread.
    data: Overview,
    /// Rows put together by `group`; empty where each thread has its own.
    grouped: Vec<ThreadRow>,
}

impl Table {
    /// Counts everything over `window`.
    pub fn count(
        view: &View<'_>,
        window: Window,
        cells: u16,
        group: Grouping,
        settings: &Settings,
        speaker: &mut Speaker,
    ) -> Table {
        let counted_at = Instant::now();
        let data = view.model.overview(window, usize::from(cells), 0, &settings.thresholds);
        let grouped = match group {
            Grouping::Thread => Vec::new(),
            _ => grouping::grouped(&data.threads, window, group, &settings.roles, view, speaker),
        };
        let took = counted_at.elapsed();
        Table { group, generation: view.generation, counted_for: window, counted_at, took, data, grouped }
    }

    /// True while it may be shown for this later window.
    pub fn serves(&self, view: &View<'_>, window: Window, group: Grouping, now: Instant) -> bool {
        let further = window.to.checked_sub(self.counted_for.to);
        self.group == group
            && self.generation == view.generation
            && self.counted_for.len() == window.len()
            && further.is_some_and(|ns| ns < FURTHER)
            && now.saturating_duration_since(self.counted_at) < AGAIN.max(self.took * SHARE)
    }

    /// Moves lanes and present states on.
    pub fn move_on(&mut self, view: &View<'_>, window: Window, cells: u16) {
        view.model.move_on(&mut self.data, window, usize::from(cells));
    }

    /// Each thread's row, the lanes and the findings.
    pub fn data(&self) -> &Overview {
        &self.data
    }

    /// What the screen draws.
    pub fn shown(&self) -> Overview {
        let mut shown = self.data.clone();
        if self.group != Grouping::Thread {
            shown.threads = self.grouped.clone();
        }
        shown
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameTable;
    use crate::sched::event::ThreadNow;
    use crate::sched::fold::Consumer;
    use crate::sched::model::{Limits, Model};
    use crate::sched::testing::{R, S, switch};

    const MS: u64 = 1_000_000;

    /// Thread 7 runs from 10 to 30 ms and from 110 ms on.
    fn model() -> Model {
        let mut model = Model::new(Limits::default());
        for item in [
            switch(0, 0, 9, S, 0),
            switch(10 * MS, 0, 0, R, 7),
            switch(30 * MS, 0, 7, S, 0),
            switch(110 * MS, 0, 0, R, 7),
            switch(130 * MS, 0, 7, R, 9),
        ] {
            model.item(&item);
        }
        model
    }

    #[test]
    fn lanes_and_states_move_on_and_sums_stay_until_they_are_counted_again() {
        let (model, names) = (model(), NameTable::new());
        let view = View { model: &model, names: &names, generation: 1 };
        let settings = Settings::default();
        let mut speaker = Speaker::default();
        let (before, after) = (Window { from: 0, to: 100 * MS }, Window { from: 20 * MS, to: 120 * MS });
        let mut table = Table::count(&view, before, 10, Grouping::Thread, &settings, &mut speaker);
        let seven = |data: &Overview| {
            let row = data.threads.iter().find(|row| row.tid == 7).unwrap();
            (row.now, row.times.running)
        };
        assert_eq!(seven(table.data()), (ThreadNow::Blocked(S), 20 * MS));

        let now = table.counted_at + Duration::from_millis(999);
        assert!(table.serves(&view, after, Grouping::Thread, now));
        table.move_on(&view, after, 10);
        let moved = table.shown();
        assert_eq!(seven(&moved), (ThreadNow::Running, 20 * MS));
        assert_eq!((moved.window, &moved.cpus[0].cells), (Some(after), &model.lanes(after, 10)[0].cells));

        let later = table.counted_at + Duration::from_millis(1000).max(table.took * SHARE);
        assert!(!table.serves(&view, after, Grouping::Thread, later), "it is time to count");
        assert!(!table.serves(&view, after, Grouping::Process, now), "grouped otherwise");
        assert!(!table.serves(&view, Window { from: 0, to: 120 * MS }, Grouping::Thread, now), "longer");
        assert!(!table.serves(&view, Window { from: 0, to: 99 * MS }, Grouping::Thread, now), "earlier");
        assert!(!table.serves(&View { generation: 2, ..view }, after, Grouping::Thread, now), "another model");
    }
}
