//! What a stretch amounts to, all CPUs and threads together: the figures that a footer gives of a segment, for one that has
//! none yet. The same numbers as [`super::super::seconds`] gathers while a segment is folded.

use super::super::fold::Utid;
use super::super::summary::{StretchFigures, Window};
use super::Model;

const SECOND: u64 = 1_000_000_000;
/// A stretch that began this long before what the model keeps is still told whole: the first events of a segment come
/// a little after its begin.
const SLACK: u64 = SECOND;

impl Model {
    /// Occupancy, most threads ready at once, and the longest wait that ended in the window; `None` where the model does not
    /// reach back to its begin.
    pub fn stretch(&self, window: Window) -> Option<StretchFigures> {
        let from = self.bounds()?.from.max(self.valid_from());
        if from > window.from.saturating_add(SLACK) {
            return None;
        }
        let cpus = self.cpus();
        let (busy, known) = cpus.iter().fold((0, 0), |(busy, known), cpu| {
            let (b, k) = self.busy_known(*cpu, window);
            (busy + b, known + k)
        });
        let waits_known = !self.folder.sampled();
        Some(StretchFigures {
            busy: (known > 0).then(|| (busy as f64 / known as f64) as f32),
            ready: waits_known.then(|| self.most_ready(&cpus, window)),
            worst: if waits_known { self.longest_wait(window) } else { None },
        })
    }

    /// The peaks of all CPUs in one second together, of the second in which that is the most.
    fn most_ready(&self, cpus: &[u32], window: Window) -> u32 {
        let seconds = (window.from / SECOND..window.to.div_ceil(SECOND)).map(|s| (s * SECOND, (s + 1) * SECOND));
        let ready = |cpu: &u32, (from, to)| {
            let kept = self.kept.cpus.get(*cpu as usize);
            kept.map_or(0, |kept| kept.cells.sum(from, to, self.edge()).0.ready_max)
        };
        seconds.map(|second| cpus.iter().map(|cpu| ready(cpu, second)).sum()).max().unwrap_or(0)
    }

    fn longest_wait(&self, window: Window) -> Option<(u64, Utid)> {
        let mut longest: Option<(u64, Utid)> = None;
        for utid in self.lived_in(window) {
            let Some(list) = self.kept.threads.get(utid as usize) else { continue };
            let (from, to) = list.range(window);
            let middle = list.middle(from, to);
            let (until, resume) = middle.map_or((to, to), |m| (m.from, m.to));
            let edges = list.pieces.range(from..until).chain(list.pieces.range(resume..to));
            let waits = edges.filter(|p| p.is_ready() && p.ended_within(window) && p.end_known());
            let most = waits.map(|p| p.end - p.start).chain(middle.map(|m| m.worst_wait.0)).max().unwrap_or(0);
            if most > longest.map_or(0, |l| l.0) {
                longest = Some((most, utid));
            }
        }
        longest
    }
}
