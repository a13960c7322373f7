//! Sends each word to the screens once, and again when it changed.
//!
//! Keeps what was sent of the generation on view, and which kernel ids the thread numbers of the last two generations stood
//! for, so that a question asked in the words of the last one is still understood.

use super::history::View;
use super::labels::{NewLabels, ThreadLabel};
use crate::names::{NameId, printable};
use crate::sched::event::Tid;
use crate::sched::fold::{Upid, Utid};
use rustc_hash::{FxHashMap, FxHashSet};

/// See the module.
#[derive(Debug, Default)]
pub struct Speaker {
    generation: u64,
    names: FxHashSet<NameId>,
    /// Name, process name.
    threads: FxHashMap<Utid, (NameId, NameId)>,
    processes: FxHashMap<Upid, NameId>,
    /// Kernel ids of thread numbers, by generation: this one and the one before.
    tids: [(u64, FxHashMap<Utid, Tid>); 2],
    out: NewLabels,
}

impl Speaker {
    /// From here on words are those of this generation.
    pub fn turn_to(&mut self, generation: u64) {
        if self.generation == generation {
            return;
        }
        self.generation = generation;
        self.names.clear();
        self.threads.clear();
        self.processes.clear();
        self.tids.swap(0, 1);
        self.tids[0] = (generation, FxHashMap::default());
        self.out = NewLabels { reset: true, generation, ..NewLabels::default() };
    }

    /// A thread number of a question's generation in the numbers of the view; `None` when it is not there.
    pub fn translate(&self, utid: Utid, generation: u64, view: &View<'_>) -> Option<Utid> {
        if generation == view.generation || utid == 0 {
            return Some(utid);
        }
        let (_, tids) = self.tids.iter().find(|(g, _)| *g == generation)?;
        view.model.threads().utid_of(*tids.get(&utid)?)
    }

    /// An interned text.
    pub fn name(&mut self, id: NameId, view: &View<'_>) {
        if !id.is_empty() && self.names.insert(id) {
            self.out.names.push((id, printable(view.names.bytes(id)).into()));
        }
    }

    /// A text that is no name of the table, under an id no table gives out.
    pub fn extra(&mut self, id: NameId, text: &str) {
        if self.names.insert(id) {
            self.out.names.push((id, printable(text.as_bytes()).into()));
        }
    }

    /// A thread.
    pub fn thread(&mut self, utid: Utid, view: &View<'_>) {
        if utid == 0 {
            return;
        }
        let threads = view.model.threads();
        let Some(life) = threads.get(utid) else { return };
        let process = life.upid.map_or(NameId::EMPTY, |u| threads.process_name(u));
        let name = if life.name().is_empty() { threads.shown_name(utid, u64::MAX) } else { life.name() };
        if self.threads.insert(utid, (name, process)) == Some((name, process)) {
            return;
        }
        let pid = life.upid.and_then(|u| threads.process(u)).map(|p| p.pid);
        let label = ThreadLabel::new(life.tid, pid, view.names.bytes(name), view.names.bytes(process));
        self.tids[0].1.insert(utid, life.tid);
        self.out.threads.push((utid, label));
    }

    /// A process.
    pub fn process(&mut self, upid: Upid, view: &View<'_>) {
        let name = view.model.threads().process_name(upid);
        if self.processes.insert(upid, name) != Some(name) {
            self.out.processes.push((upid, printable(view.names.bytes(name)).into()));
        }
    }

    /// What is new since the last answer.
    pub fn take(&mut self) -> NewLabels {
        let generation = self.generation;
        std::mem::replace(&mut self.out, NewLabels { generation, ..NewLabels::default() })
    }
}
