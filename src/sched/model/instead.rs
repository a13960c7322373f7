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
/// So many stretches of CPUs are looked at for one row of a table, and for all of its rows together. Who waited beside more is
/// looked at …
const ROW_STRETCHES: usize = 1 << 14;
const TABLE_STRETCHES: usize = 1 << 17;
/// … at so many instants, spread evenly over the time it waited: neither its short waits, nor the short stretches beside them,
/// nor the first of either weigh more than the time they took. A share is right to a few of these.
const ROW_INSTANTS: u64 = 1 << 10;
/// The same on the thread's own screen.
const SCREEN_STRETCHES: usize = 1 << 20;
const SCREEN_INSTANTS: u64 = 1 << 14;

impl Model {
    /// Fills in who ran instead, for the rows of a table.
    pub(super) fn add_ran_instead(&self, rows: &mut [ThreadRow], window: Window) {
        let mut order: Vec<usize> =
            (0..rows.len()).filter(|&i| rows[i].times.ready() > window.len() / INSTEAD_PART).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(rows[i].times.ready()));
        let mut left = TABLE_STRETCHES;
        for &i in order.iter().take(INSTEAD_FOR) {
            let (utid, most) = (rows[i].utid, left.min(ROW_STRETCHES));
            // It waited beside one at least each time.
            let few = rows[i].latency.count <= most as u64;
            let exact = if few { self.ran_instead_beside(utid, window, most) } else { None };
            if few {
                left -= exact.as_ref().map_or(most, |e| e.1);
            }
            rows[i].ran_instead = match exact {
                Some((who, _)) => most_of(&who, false),
                None => most_of(&self.ran_instead_at(utid, window, rows[i].times.ready(), ROW_INSTANTS), true),
            };
        }
    }

    /// Who ran on its CPU while a thread was ready, by share of that waiting time; without the idle thread and itself. True
    /// with it: reckoned from some instants of very many stretches. Nobody is named where the data was sampled: who ran in
    /// which part of a look is not known.
    pub fn ran_instead(&self, utid: Utid, window: Window) -> (Vec<Share>, bool) {
        match self.ran_instead_beside(utid, window, SCREEN_STRETCHES) {
            Some((who, _)) => (who, false),
            None => {
                let ready = self.ready_on(utid, window).map(|(_, wait)| wait.len()).sum();
                (self.ran_instead_at(utid, window, ready, SCREEN_INSTANTS), true)
            }
        }
    }

    /// The same exactly, and beside how many stretches it waited; `None` if they are more than `most`.
    fn ran_instead_beside(&self, utid: Utid, window: Window, most: usize) -> Option<(Vec<Share>, usize)> {
        let mut by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut near = FxHashMap::default();
        let (mut total, mut looked) = (0, 0);
        for (cpu, wait) in self.ready_on(utid, window) {
            total += wait.len();
            for slice in self.slices_near(cpu, wait, &mut near) {
                looked += 1;
                if looked > most {
                    return None;
                }
                if slice.utid != utid {
                    *by.entry(Some(slice.utid)).or_default() += wait.overlap(slice.start, slice.end);
                }
            }
        }
        Some((without_idle(by, total), looked))
    }

    /// The same from who ran at `n` instants of the waiting time, `total` ns in all.
    fn ran_instead_at(&self, utid: Utid, window: Window, total: u64, n: u64) -> Vec<Share> {
        let Some(list) = self.kept.threads.get(utid as usize).filter(|_| !self.sampled()) else { return Vec::new() };
        let mut instants = Instants { total, n, ..Instants::default() };
        let (first, behind) = list.range(window);
        for (block, ready) in list.blocks(first, behind) {
            if let Some(ready) = ready.filter(|ready| instants.none_within(*ready)) {
                instants.waited += ready;
                continue;
            }
            for (at, piece) in (block.start..).zip(list.pieces.range(block)).filter(|(_, p)| p.is_ready()) {
                self.look_at_instants(utid, piece, list.pieces.get(at + 1), window, &mut instants);
            }
        }
        if let Some(open) = self.open_piece(utid).filter(|p| p.start < window.to && p.is_ready()) {
            self.look_at_instants(utid, &open, None, window, &mut instants);
        }
        let part = |count: u64| u128::from(count) * u128::from(total) / u128::from(instants.met.max(1));
        let by = instants.by.iter().map(|(who, count)| (*who, part(*count) as u64));
        without_idle(by.collect(), total)
    }

    /// Who ran at the instants of one wait.
    fn look_at_instants(
        &self,
        utid: Utid,
        piece: &Piece,
        next: Option<&Piece>,
        window: Window,
        instants: &mut Instants,
    ) {
        let from = piece.start.max(window.from);
        let len = self.end_of(utid, piece).min(window.to).saturating_sub(from);
        while let Some(after) = instants.next_within(len) {
            // For which CPU it waited is not always known.
            let Some(cpu) = self.wait_cpu_before(utid, piece, next) else { continue };
            let at = Window { from: from + after, to: from + after + 1 };
            let slice = self.slices_near(cpu, at, &mut instants.near).next();
            instants.met += 1;
            if let Some(slice) = slice.filter(|s| s.utid != utid) {
                *instants.by.entry(Some(slice.utid)).or_default() += 1;
            }
        }
        instants.waited += len;
    }

    /// When within the window a thread was ready, and for which CPU, as far as that is known; in time order.
    fn ready_on(&self, utid: Utid, window: Window) -> impl Iterator<Item = (u32, Window)> + '_ {
        let list = self.kept.threads.get(utid as usize).filter(|_| !self.sampled());
        let open = self.open_piece(utid).filter(|p| p.start < window.to);
        list.into_iter().flat_map(move |list| {
            let (first, behind) = list.range(window);
            let pieces = (first..).zip(list.pieces.range(first..behind).copied().chain(open));
            pieces.filter(|(_, piece)| piece.is_ready()).filter_map(move |(at, piece)| {
                let cpu = self.wait_cpu_before(utid, &piece, list.pieces.get(at + 1))?;
                let to = self.end_of(utid, &piece).min(window.to);
                Some((cpu, Window { from: piece.start.max(window.from), to }))
            })
        })
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

/// Instants in the middle of each `n`-th part of a waiting time, and who ran then.
#[derive(Debug, Default)]
struct Instants {
    /// The waiting time, ns.
    total: u64,
    n: u64,
    /// Those passed.
    passed: u64,
    /// Waiting time passed, ns.
    waited: u64,
    /// Those at which the CPU was known.
    met: u64,
    by: FxHashMap<Option<Utid>, u64>,
    near: FxHashMap<u32, usize>,
}

impl Instants {
    fn next(&self) -> u64 {
        (u128::from(self.total) * u128::from(2 * self.passed + 1) / u128::from(2 * self.n)) as u64
    }

    /// No instant is in the next `ns` of waiting time.
    fn none_within(&self, ns: u64) -> bool {
        self.passed >= self.n || self.next() >= self.waited.saturating_add(ns)
    }

    /// Goes on to the next instant, if it is in the next `ns` of waiting time: how far in.
    fn next_within(&mut self, ns: u64) -> Option<u64> {
        if self.none_within(ns) {
            return None;
        }
        let after = self.next().saturating_sub(self.waited);
        self.passed += 1;
        Some(after)
    }
}

fn without_idle(mut by: FxHashMap<Option<Utid>, u64>, total: u64) -> Vec<Share> {
    by.retain(|who, ns| *ns > 0 && *who != Some(IDLE));
    ranked_of(by, total)
}

/// The first of those who ran instead.
pub(super) fn most_of(who: &[Share], estimated: bool) -> Option<Instead> {
    let first = who.first()?;
    Some(Instead { utid: first.utid?, share: first.share, estimated })
}
