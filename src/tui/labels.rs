//! The words behind the numbers: names of threads, processes and everything interned, safe to draw.
//!
//! The worker sends each word once and again when it changed; the screens look words up here. Every text in a
//! [`Labels`] has been through `names::printable`, which is why the constructors take bytes.

use super::pen;
use crate::names::{NameId, printable};
use crate::sched::event::Tid;
use crate::sched::fold::{Upid, Utid};
use rustc_hash::FxHashMap;

/// Who a thread is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadLabel {
    /// Kernel id.
    pub tid: Tid,
    /// Process id, if known.
    pub pid: Option<Tid>,
    name: Box<str>,
    process: Box<str>,
}

impl ThreadLabel {
    /// From the bytes the kernel gave; an empty process name means not known.
    pub fn new(tid: Tid, pid: Option<Tid>, name: &[u8], process: &[u8]) -> ThreadLabel {
        ThreadLabel { tid, pid, name: printable(name).into(), process: printable(process).into() }
    }

    /// Its own name, or its number.
    pub fn name(&self) -> String {
        if self.name.is_empty() { format!("tid {}", self.tid) } else { self.name.to_string() }
    }

    /// Its process's name; empty when not known.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// `process · thread`, or just the name where they are the same.
    pub fn full(&self) -> String {
        if self.process.is_empty() || self.process == self.name {
            self.name()
        } else {
            format!("{} · {}", self.process, self.name())
        }
    }
}

/// What changed since the last answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewLabels {
    /// Ids were given out anew (another trace was loaded): forget everything before.
    pub reset: bool,
    /// Whose ids these are.
    pub generation: u64,
    /// Interned names, made safe.
    pub names: Vec<(NameId, Box<str>)>,
    /// Threads.
    pub threads: Vec<(Utid, ThreadLabel)>,
    /// Processes by life, made safe.
    pub processes: Vec<(Upid, Box<str>)>,
}

/// All words known on the screen's side.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    generation: u64,
    names: FxHashMap<NameId, Box<str>>,
    threads: FxHashMap<Utid, ThreadLabel>,
    processes: FxHashMap<Upid, Box<str>>,
}

impl Labels {
    /// Takes in what changed.
    pub fn learn(&mut self, new: NewLabels) {
        if new.reset {
            *self = Labels::default();
        }
        self.generation = new.generation;
        self.names.extend(new.names);
        self.threads.extend(new.threads);
        self.processes.extend(new.processes);
    }

    /// Whose ids are understood.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The thread with this kernel id, if one is known.
    pub fn by_tid(&self, tid: Tid) -> Option<Utid> {
        self.threads.iter().find(|(_, label)| label.tid == tid).map(|(utid, _)| *utid)
    }

    /// An interned text; empty when not known.
    pub fn text(&self, id: NameId) -> &str {
        self.names.get(&id).map_or("", |t| t)
    }

    /// A thread, if known. The idle thread of all CPUs has no label.
    pub fn get(&self, utid: Utid) -> Option<&ThreadLabel> {
        self.threads.get(&utid)
    }

    /// A thread's own name; `idle` for the idle thread.
    pub fn thread(&self, utid: Utid) -> String {
        match (utid, self.threads.get(&utid)) {
            (0, _) => "idle".into(),
            (_, Some(label)) => label.name(),
            (_, None) => "?".into(),
        }
    }

    /// `process · thread`.
    pub fn full(&self, utid: Utid) -> String {
        match (utid, self.threads.get(&utid)) {
            (0, _) => "idle".into(),
            (_, Some(label)) => label.full(),
            (_, None) => "?".into(),
        }
    }

    /// `name [tid]`.
    pub fn with_tid(&self, utid: Utid) -> String {
        match (utid, self.threads.get(&utid)) {
            (0, _) => "idle".into(),
            (_, Some(label)) => format!("{} [{}]", label.name(), label.tid),
            (_, None) => "?".into(),
        }
    }

    /// `name [tid]` in at most `room` columns: the name is cut, the number stays, since it alone tells threads of one name
    /// apart. Where not even four columns of the name are left it is the name that is shown.
    pub fn with_tid_in(&self, utid: Utid, room: u16) -> String {
        let (Some(label), true) = (self.threads.get(&utid), utid != 0) else { return self.with_tid(utid) };
        let (name, tid) = (label.name(), format!(" [{}]", label.tid));
        let left = room.saturating_sub(pen::width(&tid));
        match pen::width(&name) {
            wide if wide <= left => name + &tid,
            _ if left < 4 => name,
            _ => pen::cut(&name, left) + &tid,
        }
    }

    /// A waker: `None` is an interrupt or timer.
    pub fn waker(&self, waker: Option<Utid>) -> String {
        waker.map_or_else(|| "interrupt".into(), |utid| self.with_tid(utid))
    }

    /// Name of the process a thread belongs to, for its colour; the thread's own name when not known.
    pub fn process_of(&self, utid: Utid) -> &str {
        match self.threads.get(&utid) {
            Some(label) if !label.process.is_empty() => &label.process,
            Some(label) => &label.name,
            None => "",
        }
    }

    /// A process's name.
    pub fn process(&self, upid: Upid) -> &str {
        self.processes.get(&upid).map_or("", |t| t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_safe_and_replaced_on_reset() {
        let mut labels = Labels::default();
        let new = |reset| NewLabels {
            reset,
            threads: vec![(1, ThreadLabel::new(7, None, b"\x1b[2J", b""))],
            ..NewLabels::default()
        };
        labels.learn(new(false));
        assert_eq!(labels.thread(1), "\\x1b[2J");
        assert_eq!(labels.with_tid(1), "\\x1b[2J [7]");
        assert_eq!((labels.thread(0), labels.thread(2)), ("idle".into(), "?".into()));
        labels.learn(NewLabels { reset: true, ..NewLabels::default() });
        assert_eq!(labels.thread(1), "?");
    }

    #[test]
    fn a_cut_name_keeps_its_number() {
        let mut labels = Labels::default();
        let label = ThreadLabel::new(48213, None, b"DataLoader_worker", b"");
        labels.learn(NewLabels { threads: vec![(1, label)], ..NewLabels::default() });
        assert_eq!(labels.with_tid_in(1, 40), "DataLoader_worker [48213]");
        assert_eq!(labels.with_tid_in(1, 25), "DataLoader_worker [48213]");
        assert_eq!(labels.with_tid_in(1, 24), "DataLoader_work… [48213]");
        assert_eq!(labels.with_tid_in(1, 12), "Dat… [48213]");
        assert_eq!(labels.with_tid_in(1, 11), "DataLoader_worker", "then the pen cuts it");
        assert_eq!((labels.with_tid_in(0, 3), labels.with_tid_in(9, 3)), ("idle".into(), "?".into()));
    }

    #[test]
    fn a_process_named_like_its_thread_is_said_once() {
        assert_eq!(ThreadLabel::new(1, Some(1), b"sh", b"sh").full(), "sh");
        assert_eq!(ThreadLabel::new(2, Some(1), b"pt_loader:0", b"train.py").full(), "train.py · pt_loader:0");
        assert_eq!(ThreadLabel::new(3, None, b"", b"").full(), "tid 3");
    }
}
