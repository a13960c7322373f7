//! Where the time of each thread went.

use super::pick::Picked;
use super::table::{Cell, Table, process_name, thread_name};
use crate::query::Columns;
use crate::query::columns::Kind;
use crate::sched::fold::Utid;
use crate::sched::state::TaskState;
use crate::sched::summary::StateTimes;

/// One thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Who.
    pub utid: Utid,
    /// Times within the window.
    pub times: StateTimes,
    /// Switches out in a sleeping state.
    pub voluntary: u64,
    /// Switches out while runnable.
    pub involuntary: u64,
    /// Times it went on on another CPU.
    pub migrations: u64,
}

/// Threads by the time they were ready and did not run.
pub fn rows(c: &Columns, picked: &Picked) -> Vec<Row> {
    let mut out: Vec<Row> = picked.threads().filter_map(|utid| row(c, picked, utid)).collect();
    out.sort_by_key(|r| std::cmp::Reverse((r.times.runnable + r.times.preempted, r.times.running)));
    out
}

fn row(c: &Columns, picked: &Picked, utid: Utid) -> Option<Row> {
    let mut t = StateTimes::default();
    let (mut voluntary, mut involuntary, mut migrations, mut last_cpu) = (0, 0, 0, None);
    for &row in c.states_by_utid().of(utid) {
        let ns = c.clamped(row, picked.window);
        let inside = picked.window.from <= c.states.ts(row) && c.states.ts(row) < picked.window.to;
        match c.states.kind(row) {
            Kind::Running => {
                let cpu = c.states.cpu(row);
                migrations += u64::from(inside && last_cpu.is_some() && last_cpu != cpu);
                last_cpu = cpu;
                if picked.has_cpu(cpu) {
                    t.running += ns;
                }
            }
            Kind::Runnable => t.runnable += ns,
            Kind::Preempted => {
                t.preempted += ns;
                involuntary += u64::from(inside);
            }
            Kind::Blocked => {
                voluntary += u64::from(inside);
                match c.states.left(row) {
                    Some(s) if s.contains(TaskState::UNINTERRUPTIBLE) => t.uninterruptible += ns,
                    Some(TaskState::SLEEPING | TaskState::IDLE) => t.sleeping += ns,
                    _ => t.other += ns,
                }
            }
            Kind::Absent | Kind::Unknown => {}
        }
    }
    t.fill(picked.span(), c.lived(utid, picked.window));
    (t.known() > 0).then_some(Row { utid, times: t, voluntary, involuntary, migrations })
}

/// For people. Shares are of the time asked for, as on the screens.
pub fn table(rows: &[Row], c: &Columns, limit: usize) -> Table {
    let mut t = Table::new(
        "states",
        "Where the time went",
        &[
            ("thread", "THREAD"),
            ("process", "PROCESS"),
            ("running", "RUNNING"),
            ("ready", "READY"),
            ("pushed_off", "PUSHED OFF"),
            ("sleeping", "SLEEPING"),
            ("d", "D"),
            ("other", "OTHER"),
            ("unknown", "UNKNOWN"),
            ("running_ns", "RAN FOR"),
            ("voluntary", "SLEPT"),
            ("involuntary", "PUSHED"),
            ("migrations", "MOVED"),
        ],
    );
    for row in rows {
        let s = &row.times;
        let share = |ns: u64| Cell::Share(ns as f64 / s.total().max(1) as f64);
        t.rows.push(vec![
            Cell::Text(thread_name(c, row.utid)),
            process_name(c, row.utid),
            share(s.running),
            share(s.runnable),
            share(s.preempted),
            share(s.sleeping),
            share(s.uninterruptible),
            share(s.other),
            share(s.unknown),
            Cell::Ns(s.running),
            Cell::Count(row.voluntary),
            Cell::Count(row.involuntary),
            Cell::Count(row.migrations),
        ]);
    }
    t.cut(limit);
    t
}
