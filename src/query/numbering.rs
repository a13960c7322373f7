//! Gives every life the utid and upid it has in all that was recorded, whatever part of that was read.
//!
//! The fold numbers lives as it meets them. Where the files say who lived when ([`Lives`]), each of them is looked up by
//! its tid and an instant at which it lived.

use super::columns::{Columns, NONE};
use super::facts::{Facts, Thread};
use super::reach::Rows;
use crate::feed::Lives;
use crate::names::NameTable;
use crate::sched::event::Tid;
use crate::sched::fold::Utid;
use crate::sched::threads::Threads;

/// When a life was met (ns on CLOCK_BOOTTIME), and its tid then.
pub(super) type Met = (u64, Tid);

/// The utid of life `local` of what was read; `None` if the files do not say that it lived.
pub(super) fn utid(lives: &Lives, threads: &Threads, met: &[Met], local: Utid) -> Option<Utid> {
    let (at, tid) = *met.get(local as usize)?;
    lives.utid(tid, threads.get(local)?.start.unwrap_or(at))
}

/// Numbers for all lives of what was read.
pub(super) struct Numbering<'a> {
    lives: &'a Lives,
    threads: &'a Threads,
    /// By the fold's utid.
    pub utids: Vec<Utid>,
    /// Lives, by the fold's utid, that the files do not say lived: they follow after all others.
    pub strangers: Vec<Utid>,
}

impl<'a> Numbering<'a> {
    /// Looks all lives up.
    pub fn new(lives: &'a Lives, threads: &'a Threads, met: &[Met]) -> Numbering<'a> {
        let mut strangers: Vec<Utid> = Vec::new();
        let known = lives.threads.len();
        let number = |local: Utid| {
            utid(lives, threads, met, local).unwrap_or_else(|| {
                strangers.push(local);
                (known + strangers.len() - 1) as Utid
            })
        };
        let utids = (0..threads.len() as Utid).map(number).collect();
        Numbering { lives, threads, utids, strangers }
    }

    /// All lives of all that was recorded, named as they were at `until` (ns on CLOCK_BOOTTIME), and then the strangers.
    /// With `met_only` the others are kept out of sight.
    pub fn facts(&self, names: &mut NameTable, until: u64, met_only: bool) -> Facts {
        let mut facts = Facts::of_lives(&self.lives.threads, names, until);
        for &local in &self.strangers {
            let life = self.threads.get(local);
            let (tid, name) = life.map_or((0, Default::default()), |l| (l.tid, l.name_at(until)));
            let process = life.and_then(|l| self.threads.process(l.upid?));
            let upid = process.and_then(|p| self.lives.threads.upid_of(p.pid));
            facts.threads.push(Thread { tid, name, upid, ..Thread::default() });
        }
        if met_only {
            facts.threads.iter_mut().for_each(|t| t.unmet = true);
            facts.processes.iter_mut().for_each(|p| p.unmet = true);
            for &utid in &self.utids {
                let Some(thread) = facts.threads.get_mut(utid as usize) else { continue };
                thread.unmet = false;
                if let Some(process) = thread.upid.and_then(|upid| facts.processes.get_mut(upid as usize)) {
                    process.unmet = false;
                }
            }
        }
        facts
    }
}

/// True if a row that is asked for is of a stranger, or names one: has a thread that is not one of the `known` first.
pub(super) fn names_strangers(columns: &Columns, rows: &Rows, known: usize) -> bool {
    let (states, window) = (&columns.states, rows.window);
    let asked = |row: &u32| rows.utids.as_ref().is_none_or(|utids| utids.contains(&states.utid(*row)));
    let mut named = (states.first_at(window.from)..states.first_at(window.to)).filter(asked).flat_map(|row| {
        let utid = Some(states.utid(row)).filter(|utid| *utid != NONE);
        [utid, states.waker(row), states.preemptor(row)].into_iter().flatten()
    });
    named.any(|utid| utid as usize >= known)
}
