//! Which events are recorded: categories as atrace and tracebox name them, and the table of parsed formats.

use std::path::Path;

use super::controls::read_text;
use super::format::{EventFormat, FormatError};

/// Categories and their events (`group/name`). Events a kernel lacks are reported, not fatal.
pub const CATEGORIES: [(&str, &[&str]); 8] = [
    (
        "sched",
        &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup_new",
            "task/task_newtask",
            "task/task_rename",
            "sched/sched_process_exec",
            "sched/sched_process_exit",
            "sched/sched_process_free",
        ],
    ),
    ("freq", &["power/cpu_frequency"]),
    ("idle", &["power/cpu_idle"]),
    ("irq", &["irq/irq_handler_entry", "irq/irq_handler_exit", "irq/softirq_entry", "irq/softirq_exit"]),
    ("io", &["block/block_rq_insert", "block/block_rq_issue", "block/block_rq_complete"]),
    (
        "mem",
        &[
            "vmscan/mm_vmscan_direct_reclaim_begin",
            "vmscan/mm_vmscan_direct_reclaim_end",
            "vmscan/mm_vmscan_kswapd_wake",
            "vmscan/mm_vmscan_kswapd_sleep",
            "compaction/mm_compaction_begin",
            "compaction/mm_compaction_end",
            "oom/mark_victim",
        ],
    ),
    ("mark", &["ftrace/print"]),
    ("syscall", &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"]),
];

/// A word of the `events` setting that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is neither a category (sched freq idle irq io mem mark syscall) nor an event in the form group/name",
    crate::names::printable(.0.as_bytes())
)]
pub struct UnknownWord(pub String);

/// Expands categories and `group/name` (also `group:name`) into distinct `(group, name)`, in the order given.
pub fn expand(words: &[String]) -> Result<Vec<(String, String)>, UnknownWord> {
    let mut out: Vec<(String, String)> = Vec::new();
    for word in words {
        let listed = CATEGORIES.iter().find(|(name, _)| name == word).map(|(_, events)| *events);
        let single = [word.as_str()];
        for event in listed.unwrap_or(&single) {
            let pair = event.split_once(['/', ':']).filter(|(group, name)| plain(group) && plain(name));
            let (group, name) = pair.ok_or_else(|| UnknownWord(word.clone()))?;
            let pair = (group.to_owned(), name.to_owned());
            if !out.contains(&pair) {
                out.push(pair);
            }
        }
    }
    Ok(out)
}

/// Event and group names are C identifiers; this also keeps `..` and `/` out of paths.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// One event that can occur in the buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedEvent {
    /// Its group, e.g. `sched`.
    pub group: String,
    /// Its layout and id.
    pub format: EventFormat,
}

impl TracedEvent {
    /// `group/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.group, self.format.name)
    }
}

/// Events by the id that stands in their records.
#[derive(Debug, Clone, Default)]
pub struct EventTable {
    events: Vec<TracedEvent>,
    by_id: Vec<u16>,
}

const NO_EVENT: u16 = u16::MAX;

impl EventTable {
    /// An empty table.
    pub fn new() -> EventTable {
        EventTable::default()
    }

    /// Adds an event; one with the same id is replaced.
    pub fn insert(&mut self, event: TracedEvent) {
        let id = usize::from(event.format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, NO_EVENT);
        }
        match self.events.get_mut(usize::from(self.by_id[id])) {
            Some(place) => *place = event,
            None => {
                self.by_id[id] = u16::try_from(self.events.len()).unwrap_or(NO_EVENT);
                self.events.push(event);
            }
        }
    }

    /// The event of a record's id.
    #[inline]
    pub fn get(&self, id: u16) -> Option<&TracedEvent> {
        self.events.get(usize::from(*self.by_id.get(usize::from(id))?))
    }

    /// The event `group/name`.
    pub fn find(&self, group: &str, name: &str) -> Option<&TracedEvent> {
        self.events.iter().find(|e| e.group == group && e.format.name == name)
    }

    /// All events, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &TracedEvent> {
        self.events.iter()
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// Why an event cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not in this kernel, or unreadable.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A format that is not understood.
    #[error("{0}")]
    Format(#[from] FormatError),
}

/// Reads `GROUP/NAME/format` below `events`.
pub fn read_format(events: &Path, group: &str, name: &str) -> Result<TracedEvent, EventError> {
    let text = read_text(&events.join(group).join(name).join("format"))?;
    Ok(TracedEvent { group: group.to_owned(), format: EventFormat::parse(&text)? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::Kernel;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn categories_and_single_events_expand_once() {
        let events = expand(&words(&["sched", "sched/sched_switch", "power:cpu_idle", "idle"])).unwrap();
        assert_eq!(events.len(), 9);
        assert_eq!(events[0], ("sched".to_owned(), "sched_switch".to_owned()));
        assert_eq!(events[8], ("power".to_owned(), "cpu_idle".to_owned()));
    }

    #[test]
    fn nonsense_and_paths_are_refused_by_name() {
        for bad in ["shed", "", "../x", "a/..", "a/b/c", "sched/", "a/\u{1b}[2J"] {
            assert_eq!(expand(&words(&[bad])), Err(UnknownWord(bad.to_owned())), "{bad}");
        }
        assert!(!UnknownWord("\u{1b}[2J".to_owned()).to_string().contains('\u{1b}'));
    }

    #[test]
    fn table_finds_by_id_and_by_name() {
        let mut table = EventTable::new();
        for text in [Kernel::V6_18.sched_switch(), Kernel::V6_18.sched_waking()] {
            table.insert(TracedEvent { group: "sched".to_owned(), format: EventFormat::parse(text).unwrap() });
        }
        assert_eq!(table.get(372).unwrap().path(), "sched/sched_switch");
        assert_eq!(table.get(375).unwrap().format.name, "sched_waking");
        assert!(table.get(373).is_none() && table.get(u16::MAX).is_none());
        assert_eq!(table.find("sched", "sched_waking").unwrap().format.id, 375);
        let again = table.get(372).unwrap().clone();
        table.insert(again);
        assert_eq!(table.len(), 2);
    }
}
