//! Who ran while a thread was ready: what every table of waiting threads and every finding of starvation names.

use super::super::fold::Utid;
use super::super::summary::{Instead, Share, ThreadRow, Window};
use super::super::threads::IDLE;
use super::Model;
use super::detail::ranked_of;
use super::lists::{Slice, gallop};
use super::piece::{Kind, Piece};
use rustc_hash::FxHashMap;

/// In a table it is looked up for threads that waited at least this part of the window: of others nobody asks, and looking
/// it up is most of what a table costs.
const INSTEAD_PART: u64 = 200;
/// For so many of them, those that waited most.
const INSTEAD_FOR: usize = 128;
/// Of more waits than these it is an estimate …
const INSTEAD_WAITS: u64 = 2048;
/// … from so many of each length (powers of two), spread evenly. Three waits of a second are nothing among a hundred thousand of
/// a microsecond by count, and nearly all of the time.
const INSTEAD_ALIKE: u64 = 256;
/// From so many stretches of CPUs, for one thread and for all of them together.
const INSTEAD_EACH: usize = 1 << 14;
const INSTEAD_ALL: usize = 1 << 17;
/// Stretches of a CPU looked at to tell who ran instead, on the thread's own screen.
pub(super) const ALL_STRETCHES: usize = 1 << 20;

/// Lengths of waits by powers of two, ns.
const LENGTHS: usize = 65;

fn length_class(ns: u64) -> usize {
    (u64::BITS - ns.leading_zeros()) as usize
}

/// Of the waits of each length, one in so many is looked at.
type Every = [u64; LENGTHS];
/// All of them.
pub(super) const ALL_WAITS: Every = [1; LENGTHS];

impl Model {
    /// Fills in who ran instead, for the rows of a table.
    pub(super) fn add_ran_instead(&self, rows: &mut [ThreadRow], window: Window) {
        let mut order: Vec<usize> =
            (0..rows.len()).filter(|&i| rows[i].times.ready() > window.len() / INSTEAD_PART).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(rows[i].times.ready()));
        let mut all = INSTEAD_ALL;
        for &i in order.iter().take(INSTEAD_FOR) {
            let budget = all.min(INSTEAD_EACH);
            let every = self.every_for(rows[i].utid, window);
            let (who, left) = self.ran_instead_every(&every, rows[i].utid, window, budget);
            all -= budget - left;
            rows[i].ran_instead = most_of(&who, every != ALL_WAITS || left == 0);
        }
    }

    /// Who ran on its CPU while a thread was ready, by share of that waiting time; without the idle thread and itself.
    /// Nobody is named where the data was sampled: who ran in which part of a look is not known.
    pub fn ran_instead(&self, utid: Utid, window: Window) -> Vec<Share> {
        self.ran_instead_every(&ALL_WAITS, utid, window, ALL_STRETCHES).0
    }

    /// Which waits to look at so that a table stays cheap.
    fn every_for(&self, utid: Utid, window: Window) -> Every {
        let mut alike = [0; LENGTHS];
        let Some(list) = self.kept.threads.get(utid as usize) else { return ALL_WAITS };
        let (first, behind) = list.range(window);
        for piece in list.pieces.range(first..behind).filter(|p| p.is_ready()) {
            alike[length_class(self.within(utid, piece, window).len())] += 1;
        }
        if alike.iter().sum::<u64>() <= INSTEAD_WAITS {
            ALL_WAITS
        } else {
            alike.map(|n| n.div_ceil(INSTEAD_ALIKE).max(1))
        }
    }

    /// The part of a stretch that is in the window.
    fn within(&self, utid: Utid, piece: &Piece, window: Window) -> Window {
        Window { from: piece.start.max(window.from), to: self.end_of(utid, piece).min(window.to) }
    }

    /// The same from some of the waits, looking at `budget` stretches of CPUs at most; also what is left of the budget.
    pub(super) fn ran_instead_every(
        &self,
        every: &Every,
        utid: Utid,
        window: Window,
        budget: usize,
    ) -> (Vec<Share>, usize) {
        let mut by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let (mut total, mut left) = (0, budget);
        if self.sampled() {
            return (Vec::new(), budget);
        }
        let Some(list) = self.kept.threads.get(utid as usize) else { return (Vec::new(), budget) };
        let (first, behind) = list.range(window);
        let open = self.open_piece(utid).filter(|p| p.start < window.to);
        let pieces = (first..).zip(list.pieces.range(first..behind).chain(&open));
        let mut near = FxHashMap::default();
        let mut met = [0; LENGTHS];
        for (at, piece) in pieces.filter(|(_, p)| p.is_ready()) {
            let wait = self.within(utid, piece, window);
            // Each that is looked at stands for so many of its length.
            let class = length_class(wait.len());
            let stands_for = every[class];
            met[class] += 1;
            if (met[class] - 1) % stands_for != 0 {
                continue;
            }
            let Some(cpu) = self.wait_cpu_before(utid, piece, list.pieces.get(at + 1)) else { continue };
            if left == 0 {
                break;
            }
            total += wait.len() * stands_for;
            for slice in self.slices_near(cpu, wait, &mut near) {
                left = left.saturating_sub(1);
                if slice.utid != utid {
                    *by.entry(Some(slice.utid)).or_default() += wait.overlap(slice.start, slice.end) * stands_for;
                }
            }
        }
        by.retain(|who, ns| *ns > 0 && *who != Some(IDLE));
        (ranked_of(by, total), left)
    }

    /// [`Model::wait_cpu`] for who has the interval that comes next at hand.
    fn wait_cpu_before(&self, utid: Utid, piece: &Piece, next: Option<&Piece>) -> Option<u32> {
        match next.filter(|_| piece.kind == Kind::Runnable) {
            Some(next) if next.kind == Kind::Running && next.start == piece.end => next.cpu().or(piece.cpu()),
            Some(_) => piece.cpu(),
            None => self.wait_cpu(utid, piece),
        }
    }

    /// [`Model::slices`] for who asks for one window after the other: looks on from where it was on that CPU.
    fn slices_near(
        &self,
        cpu: u32,
        window: Window,
        near: &mut FxHashMap<u32, usize>,
    ) -> impl Iterator<Item = Slice> + '_ {
        let list = self.kept.cpus.get(cpu as usize).map(|c| &c.list.slices);
        let from = list.map_or(0, |list| match near.get(&cpu) {
            Some(&at) => gallop(list, at, |s| s.end <= window.from),
            None => list.partition_point(|s| s.end <= window.from),
        });
        near.insert(cpu, from);
        let closed = list.into_iter().flat_map(move |list| list.range(from..));
        // What runs now is after all of them.
        let reaches = list.and_then(|list| list.back()).is_none_or(|last| last.end < window.to);
        let open = if reaches { self.open_slice(cpu) } else { None };
        let open = open.filter(|s| s.start < window.to && s.end > window.from);
        closed.copied().take_while(move |s| s.start < window.to).chain(open)
    }
}

/// The first of those who ran instead.
pub(super) fn most_of(who: &[Share], estimated: bool) -> Option<Instead> {
    let first = who.first()?;
    Some(Instead { utid: first.utid?, share: first.share, estimated })
}
