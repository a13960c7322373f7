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
