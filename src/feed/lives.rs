//! Which number every life of a thread and process has in all that was recorded, known from the ends of the segments.
//!
//! Lives are numbered as they are met, so what a stretch that is read alone calls 7 would be another thread than 7 in the
//! whole. The recorder therefore tells at the end of each segment, in one place, everything in it that begins, names or
//! ends lives. Told in order, that numbers all lives of a day without a single frame of events being read. The few files
//! that do not say it (the growing one, those of a recorder that died) are read for it whole.

use std::path::PathBuf;

use rustc_hash::FxHashMap;

use super::FeedError;
use super::frames::{Job, OurFile, Part, read_in_order};
use super::load::Sources;
use crate::names::NameTable;
use crate::perfetto::decode::{self, Decoder};
use crate::sched::event::{EventKind, Item, ProcessFact, ThreadFact, Tid};
use crate::sched::fold::{Upid, Utid};
use crate::sched::threads::{IDLE, ProcessLife, ThreadLife, Threads};
use crate::store::index::FrameKind;

/// Of so many files that say who lived, one may not: reading those whole must stay the lesser part.
const WHOLE_OF: usize = 4;
/// Bytes of all files' lives together. A day of a host with ten new processes a second has half of that.
const MOST: usize = 256 << 20;
/// procfs rounds the start of a thread down to 10 ms; it may be met earlier than it is said to have begun, ns.
const ROUNDED: u64 = 20_000_000;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Lives {
    /// All lives, with their last names.
    pub threads: Threads,
    /// Owner of their names.
    pub names: NameTable,
    /// By tid: from when on (ns on CLOCK_BOOTTIME) it was whose.
    tenants: FxHashMap<Tid, Vec<(u64, Utid)>>,
}

impl Lives {
    /// Reads who lived in what `paths` hold; `None` if the files do not say it.
    ///
    /// # Errors
    /// As [`super::load`].
    pub fn read(paths: &[PathBuf]) -> Result<Option<Lives>, FeedError> {
        let sources = Sources::open(paths)?;
        let files = &sources.ours;
        let parts: Vec<(usize, &Part)> =
            (0..).zip(files).flat_map(|(file, f)| f.parts.iter().map(move |p| (file, p))).collect();
        // What is told of one time twice would begin lives again that had begun.
        let apart = parts.windows(2).all(|pair| pair[0].1.window.to <= pair[1].1.window.from);
        if !sources.foreign.is_empty() || !apart {
            return Ok(None);
        }
        let Some(told) = ends(files, &parts)? else { return Ok(None) };
        let mut lives = Lives::default();
        let mut end = 0;
        for ((file, part), told) in parts.iter().zip(told) {
            let frames = match &told {
                None => &part.frames[..],
                // Where a recorder began anew, its first head says who was there.
                Some(_) if part.window.from > end => part.frames.get(..1).unwrap_or_default(),
                Some(_) => &[],
            };
            end = part.window.to;
            let mut reading = Reading::default();
            let jobs: Vec<Job> = frames.iter().map(|entry| Job { file: *file, entry: entry.clone() }).collect();
            if !jobs.is_empty() {
                read_in_order(files, &jobs, |(_, packets)| {
                    // What cannot be read is told when the rows are read.
                    packets.iter().for_each(|packets| reading.take(packets, &mut lives.names));
                    true
                })?;
            }
            told.iter().for_each(|packets| reading.take(packets, &mut lives.names));
            reading.items.sort_by_key(|item| item.0);
            reading.items.iter().for_each(|(_, item)| lives.apply(item));
        }
        lives.tenants.values_mut().for_each(|t| t.sort_by_key(|t| t.0));
        Ok(Some(lives))
    }

    /// Whose `tid` was at `at` (ns on CLOCK_BOOTTIME).
    pub fn utid(&self, tid: Tid, at: u64) -> Option<Utid> {
        if tid == 0 {
            return Some(IDLE);
        }
        let tenants = self.tenants.get(&tid)?;
        let after = tenants.partition_point(|t| t.0 <= at);
        let utid = match after.checked_sub(1) {
            Some(last) => tenants[last].1,
            None => tenants.first().filter(|t| t.0 <= at.saturating_add(ROUNDED))?.1,
        };
        let life = self.threads.get(utid)?;
        life.end.is_none_or(|end| at <= end).then_some(utid)
    }

    fn apply(&mut self, item: &Item) {
        match item {
            Item::Process(fact) => {
                self.threads.process_fact(fact);
                self.settle(fact.pid, fact.start.unwrap_or(fact.ts));
            }
            Item::Thread(fact) => {
                self.threads.thread_fact(fact);
                self.settle(fact.tid, fact.start.unwrap_or(fact.ts));
            }
            Item::OwnThread { tid } if self.threads.utid_of(*tid).is_some() => {
                self.threads.own_thread(*tid);
            }
            Item::Event(event) => match event.kind {
                EventKind::NewTask { tid, comm, clone_flags } => {
                    let creator = event.emitter.map(|by| self.threads.ensure(by));
                    event.emitter.iter().for_each(|by| self.settle(*by, event.ts));
                    self.threads.new_task(event.ts, tid, comm, clone_flags, creator);
                    self.settle(tid, event.ts);
                }
                EventKind::Rename { tid, comm } => {
                    self.threads.rename(event.ts, tid, comm);
                    self.settle(tid, event.ts);
                }
                EventKind::Exec { tid, old_tid, .. } => {
                    self.threads.exec(event.ts, tid, old_tid);
                    self.settle(tid, event.ts);
                }
                EventKind::Exit { tid } => self.threads.exit(tid),
                EventKind::Free { tid } => drop(self.threads.free(event.ts, tid)),
                _ => {}
            },
            _ => {}
        }
    }

    /// Notes whose `tid` is now, and was from `from` on.
    fn settle(&mut self, tid: Tid, from: u64) {
        let Some(utid) = self.threads.utid_of(tid) else { return };
        match self.tenants.entry(tid).or_default().as_mut_slice() {
            // Told now to have begun earlier than when it was first heard of.
            [.., before, last] if last.1 == utid => last.0 = last.0.min(from).max(before.0),
            [last] if last.1 == utid => last.0 = last.0.min(from),
            _ => self.tenants.entry(tid).or_default().push((from, utid)),
        }
    }
}

/// What the ends of all parts say of who lived; `None` if too few say it, or too much to be worth it.
fn ends(files: &[OurFile], parts: &[(usize, &Part)]) -> Result<Option<Vec<Option<Vec<u8>>>>, FeedError> {
    let (mut jobs, mut places) = (Vec::new(), Vec::new());
    for (place, (file, part)) in parts.iter().enumerate().filter(|(_, (_, part))| part.indexed) {
        if let Some(entry) = part.frames.last().filter(|f| f.facts.kind == FrameKind::Tail) {
            jobs.push(Job { file: *file, entry: entry.clone() });
            places.push(place);
        }
    }
    let mut told: Vec<Option<Vec<u8>>> = vec![None; parts.len()];
    let mut bytes = 0;
    read_in_order(files, &jobs, |(i, packets)| {
        let lives = packets.ok().and_then(|p| decode::lives(&p));
        bytes += lives.as_ref().map_or(0, Vec::len);
        told[places[i]] = lives;
        bytes <= MOST
    })?;
    let silent = told.iter().filter(|t| t.is_none()).count();
    let few = silent * WHOLE_OF > told.len() - silent;
    Ok((bytes <= MOST && !few).then_some(told))
}

/// What of one file is about lives.
#[derive(Debug, Default)]
pub(super) struct Reading {
    decoder: Decoder,
    items: Vec<(u64, Item)>,
}

impl Reading {
    /// What the end of a segment says.
    pub fn take_lives(&mut self, tail: &[u8], names: &mut NameTable) {
        if let Some(packets) = decode::lives(tail) {
            self.take(&packets, names);
        }
    }

    /// Everybody who was born since `from` and lived at `until` (ns on CLOCK_BOOTTIME), as facts of that instant.
    pub fn born(mut self, from: u64, until: u64) -> Vec<Item> {
        self.items.sort_by_key(|item| item.0);
        let mut lives = Lives::default();
        self.items.iter().filter(|item| item.0 < until).for_each(|(_, item)| lives.apply(item));
        let (threads, new) = (&lives.threads, |start: Option<u64>| start.filter(|s| (from..until).contains(s)));
        let pid = |upid: Option<Upid>| upid.and_then(|u| threads.process(u)).map(|p| p.pid);
        let process = |p: &ProcessLife| {
            Item::Process(ProcessFact {
                pid: p.pid,
                ppid: pid(p.parent),
                cmdline: p.cmdline.to_vec(),
                name: p.name,
                uid: p.uid,
                cgroup: p.cgroup,
                start: p.start,
                kernel: p.kernel,
                ts: until,
            })
        };
        let thread = |t: &ThreadLife| {
            let (tid, name, start) = (t.tid, t.name(), t.start);
            Item::Thread(ThreadFact { tid, pid: pid(t.upid).unwrap_or(0), name, start, ts: until })
        };
        let processes = threads.processes().map(|p| p.1).filter(|p| p.end.is_none() && new(p.start).is_some());
        let people = threads.iter().map(|t| t.1).filter(|t| t.end.is_none() && new(t.start).is_some());
        processes.map(process).chain(people.map(thread)).collect()
    }

    /// What these packets say.
    pub fn take(&mut self, packets: &[u8], names: &mut NameTable) {
        let items = &mut self.items;
        // What cannot be read is told when the rows are read.
        drop(self.decoder.decode(packets, names, &mut |item| {
            if let Some(ts) = of_lives(&item) {
                items.push((ts, item));
            }
        }));
    }
}

/// When it was, if it tells of a life.
fn of_lives(item: &Item) -> Option<u64> {
    match item {
        Item::Process(fact) => Some(fact.ts),
        Item::Thread(fact) => Some(fact.ts),
        // Who they are is told by then.
        Item::OwnThread { .. } => Some(u64::MAX),
        Item::Event(event) => matches!(
            event.kind,
            EventKind::NewTask { .. }
                | EventKind::Rename { .. }
                | EventKind::Exec { .. }
                | EventKind::Exit { .. }
                | EventKind::Free { .. }
        )
        .then_some(event.ts),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameId;
    use crate::sched::event::Event;
    use proptest::prelude::*;

    fn event(ts: u64, kind: EventKind) -> Item {
        Item::Event(Event { ts, cpu: 0, emitter: Some(1), flags: 0, kind })
    }

    fn thread(tid: Tid, start: u64, ts: u64) -> Item {
        Item::Thread(ThreadFact { tid, pid: tid, name: NameId::EMPTY, start: Some(start), ts })
    }

    fn lives(items: &[Item]) -> Lives {
        let mut lives = Lives::default();
        items.iter().for_each(|item| lives.apply(item));
        lives.tenants.values_mut().for_each(|t| t.sort_by_key(|t| t.0));
        lives
    }

    #[test]
    fn a_tid_is_whose_it_was_at_the_time() {
        const S: u64 = 1_000_000_000;
        let born = |ts, tid| event(ts, EventKind::NewTask { tid, comm: NameId::EMPTY, clone_flags: 0 });
        let all = lives(&[
            thread(7, 5 * S, 0),
            event(20 * S, EventKind::Exit { tid: 7 }),
            event(21 * S, EventKind::Free { tid: 7 }),
            born(30 * S, 7),
            // First heard of as the creator of another, told later to have begun long before.
            event(40 * S, EventKind::NewTask { tid: 9, comm: NameId::EMPTY, clone_flags: 0 }),
            thread(1, 2 * S, 50 * S),
            // A thread that is not the leader execs: its life goes on under the leader's tid.
            event(60 * S, EventKind::Exec { tid: 9, old_tid: 7, filename: NameId::EMPTY }),
        ]);
        let old = all.utid(7, 10 * S).unwrap();
        let new = all.utid(7, 30 * S).unwrap();
        assert_ne!(old, new);
        assert_eq!(all.utid(7, 21 * S), Some(old));
        assert_eq!(all.utid(7, 25 * S), None, "nobody's between two lives");
        assert_eq!(all.utid(7, 5 * S - 9_000_000), Some(old), "procfs rounds starts");
        assert_eq!(all.utid(7, 4 * S), None);
        assert_eq!(all.utid(1, 3 * S), all.utid(1, 45 * S));
        assert_eq!(all.utid(9, 61 * S), Some(new));
        assert_ne!(all.utid(9, 50 * S), Some(new));
        assert_eq!(all.utid(0, 1), Some(IDLE));
        assert_eq!(all.utid(77, 1), None);
    }

    proptest! {
        /// Whatever a damaged or hostile file says, nothing panics, and who was born lives then, once.
        #[test]
        fn anything_may_be_said_of_lives(
            said in prop::collection::vec((0u8..7, -2i32..6, -2i32..6, 0u64..40), 0..60),
            bytes in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let items: Vec<Item> = said.iter().map(|&(what, tid, other, ts)| match what {
                0 => event(ts, EventKind::NewTask { tid, comm: NameId::EMPTY, clone_flags: u64::from(other > 1) << 16 }),
                1 => event(ts, EventKind::Exec { tid, old_tid: other, filename: NameId::EMPTY }),
                2 => event(ts, EventKind::Exit { tid }),
                3 => event(ts, EventKind::Free { tid }),
                4 => Item::Process(ProcessFact { pid: tid, ppid: Some(other), start: Some(ts), ..ProcessFact::default() }),
                5 => Item::OwnThread { tid },
                _ => thread(tid, ts / 2, ts),
            }).collect();
            let all = lives(&items);
            for tid in -3..7 {
                for at in 0..42 {
                    if let Some(utid) = all.utid(tid, at) {
                        prop_assert!((utid as usize) < all.threads.len());
                    }
                }
            }
            let mut reading = Reading::default();
            reading.take(&bytes, &mut NameTable::new());
            reading.take_lives(&bytes, &mut NameTable::new());
            reading.items.extend(items.iter().filter_map(|item| Some((of_lives(item)?, item.clone()))));
            let born = reading.born(3, 30);
            let mut tids: Vec<Tid> = born.iter().filter_map(|i| if let Item::Thread(t) = i { Some(t.tid) } else { None }).collect();
            tids.sort_unstable();
            let number = tids.len();
            tids.dedup();
            prop_assert_eq!(number, tids.len(), "{:?}", born);
        }
    }
}
