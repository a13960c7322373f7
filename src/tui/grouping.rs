//! Threads put together by process, cgroup or role: one row each, sums of what can be summed.
//!
//! Percentiles of several threads cannot be made from their percentiles: the model counts those of a group anew, from all
//! waits of its threads.

use super::answers::Grouping;
use super::history::View;
use super::words::Speaker;
use crate::names::NameId;
use crate::sched::event::ThreadNow;
use crate::sched::fold::Utid;
use crate::sched::model::glob;
use crate::sched::summary::{ThreadRow, Window};
use crate::tui::widgets::states::Kind;
use rustc_hash::FxHashMap;

/// Ids for names of roles, counted down from the top: no table gives these out.
const ROLE_NAMES: u32 = u32::MAX - 1;

/// What a row is put under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Process(Option<u32>, NameId),
    Cgroup(NameId),
    Role(Option<usize>),
}

/// One row for each group; `rows` are those of `window`.
pub fn grouped(
    rows: &[ThreadRow],
    window: Window,
    by: Grouping,
    roles: &[(String, Vec<String>)],
    view: &View<'_>,
    speaker: &mut Speaker,
) -> Vec<ThreadRow> {
    let mut groups: FxHashMap<Key, usize> = FxHashMap::default();
    let mut out: Vec<ThreadRow> = Vec::new();
    let mut members: Vec<Vec<Utid>> = Vec::new();
    for row in rows {
        let key = match by {
            Grouping::Thread => return rows.to_vec(),
            // Threads whose process is not known stay apart by name.
            Grouping::Process => Key::Process(row.upid, if row.upid.is_some() { NameId::EMPTY } else { row.name }),
            Grouping::Cgroup => Key::Cgroup(row.cgroup),
            Grouping::Role => Key::Role(role_of(view.names.bytes(row.name), roles)),
        };
        match groups.get(&key) {
            Some(&at) => {
                join(&mut out[at], row);
                members[at].push(row.utid);
            }
            None => {
                groups.insert(key, out.len());
                out.push(first_of(row, key, roles, speaker));
                members.push(vec![row.utid]);
            }
        }
    }
    for (group, members) in out.iter_mut().zip(&members).filter(|(_, m)| m.len() > 1) {
        group.latency = view.model.latency_of(members, window);
    }
    out
}

/// The first role one of whose patterns fits.
fn role_of(name: &[u8], roles: &[(String, Vec<String>)]) -> Option<usize> {
    roles.iter().position(|(_, patterns)| patterns.iter().any(|p| glob(p.as_bytes(), name)))
}

fn first_of(row: &ThreadRow, key: Key, roles: &[(String, Vec<String>)], speaker: &mut Speaker) -> ThreadRow {
    let mut group = row.clone();
    match key {
        Key::Process(Some(_), _) => group.name = NameId::EMPTY,
        Key::Process(None, _) => {}
        Key::Cgroup(path) => (group.process, group.name) = (NameId::EMPTY, path),
        Key::Role(role) => {
            let at = role.map_or(0, |r| u32::try_from(r + 1).unwrap_or(0));
            let id = NameId(ROLE_NAMES - at);
            speaker.extra(id, role.map_or("(no role)", |r| &roles[r].0));
            (group.process, group.name) = (NameId::EMPTY, id);
        }
    }
    group
}

/// Adds a thread to a group. The group's thread is its busiest member, its state the most telling one.
fn join(group: &mut ThreadRow, row: &ThreadRow) {
    if row.times.running > group.times.running / u64::from(group.members.max(1)) {
        (group.utid, group.tid, group.cpu) = (row.utid, row.tid, row.cpu);
    }
    group.members += 1;
    if telling(row.now) > telling(group.now) {
        group.now = row.now;
    }
    group.times.merge(&row.times);
    group.voluntary += row.voluntary;
    group.involuntary += row.involuntary;
    group.migrations += row.migrations;
    if row.blocked_max > group.blocked_max {
        (group.blocked_max, group.blocked_function) = (row.blocked_max, row.blocked_function);
    }
    // One waker or one who ran instead does not speak for the others.
    group.ran_instead = None;
    group.last_waker = None;
    group.own &= row.own;
    group.sampled |= row.sampled;
}

fn telling(now: ThreadNow) -> u8 {
    match Kind::of(now) {
        Kind::PushedOff => 6,
        Kind::Ready => 5,
        Kind::Blocked => 4,
        Kind::Running => 3,
        Kind::Other => 2,
        Kind::Sleeping => 1,
        Kind::Unknown | Kind::Absent => 0,
    }
}
