//! The columns of the thread table: titles, widths, what stands in a cell, and how rows are sorted by it.

use crate::names::NameId;
use crate::report::words;
use crate::sched::event::ThreadNow;
use crate::sched::state::TaskState;
use crate::sched::summary::ThreadRow;
use crate::tui::labels::Labels;
use crate::tui::pen;
use crate::tui::theme::Tone;
use crate::units::show;
use std::cmp::Ordering;

/// A column of the thread table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the titles say it")]
pub enum Column {
    Tid,
    Name,
    Now,
    States,
    Run,
    Ready,
    P50,
    P99,
    Max,
    Switches,
    Instead,
    Blocked,
    Migrations,
    Cpu,
    Waker,
    BlockedIn,
    Cgroup,
}

/// How a column is laid out.
#[derive(Debug, Clone, Copy)]
pub struct ColumnInfo {
    /// Which.
    pub column: Column,
    /// On screen and in the rule above.
    pub title: &'static str,
    /// Least width.
    pub min: u16,
    /// Greatest width (text columns grow into free room).
    pub max: u16,
    /// Numbers stand at the right.
    pub right: bool,
    /// Kept longest when there is little room: 0 first.
    pub rank: u8,
}

const fn col(column: Column, title: &'static str, min: u16, max: u16, right: bool, rank: u8) -> ColumnInfo {
    ColumnInfo { column, title, min, max, right, rank }
}

/// All columns in their order on screen.
pub const COLUMNS: [ColumnInfo; 17] = [
    col(Column::Tid, "TID", 7, 7, true, 2),
    col(Column::Name, "PROCESS · THREAD", 16, 40, false, 0),
    col(Column::Now, "NOW", 8, 8, false, 0),
    col(Column::States, "STATES", 10, 32, false, 3),
    col(Column::Run, "RUN %", 6, 6, true, 1),
    col(Column::Ready, "READY %", 8, 8, true, 1),
    col(Column::P50, "p50", 6, 6, true, 6),
    col(Column::P99, "p99", 6, 6, true, 4),
    col(Column::Max, "MAX", 6, 6, true, 2),
    col(Column::Switches, "SW/s v·i", 11, 11, true, 7),
    col(Column::Instead, "RAN INSTEAD", 15, 24, false, 5),
    col(Column::Blocked, "D %", 6, 6, true, 8),
    col(Column::Migrations, "MIGR", 6, 6, true, 10),
    col(Column::Cpu, "CPU", 4, 4, true, 9),
    col(Column::Waker, "LAST WAKER", 16, 22, false, 11),
    col(Column::BlockedIn, "BLOCKED IN", 16, 26, false, 12),
    col(Column::Cgroup, "CGROUP", 12, 40, false, 13),
];

impl Column {
    /// Its layout.
    pub fn info(self) -> &'static ColumnInfo {
        // COLUMNS stands in the order of the variants; a test holds them together.
        &COLUMNS[self as usize]
    }

    /// Its word in the rule above the table: "sort ready ▼".
    pub fn sort_word(self) -> String {
        self.info().title.trim_end_matches(" %").to_lowercase()
    }
}

/// Which columns fit into `width`, with the place and width of each; one blank stands between two.
pub fn fit(width: u16) -> Vec<(Column, u16, u16)> {
    // A name that is cut names nothing: where there is room it comes before the lesser columns.
    let least = |c: &ColumnInfo| if c.column == Column::Name && width >= 100 { c.min + 10 } else { c.min };
    let mut chosen: Vec<&ColumnInfo> = Vec::new();
    let mut used = 0u16;
    let mut by_rank: Vec<&ColumnInfo> = COLUMNS.iter().collect();
    by_rank.sort_by_key(|c| (c.rank, c.column));
    for info in by_rank {
        let more = least(info) + u16::from(!chosen.is_empty());
        if used + more > width {
            // Lower ranks must not slip in where a higher one had no room: the set of columns stays predictable.
            break;
        }
        used += more;
        chosen.push(info);
    }
    chosen.sort_by_key(|c| c.column);
    let mut free = width - used;
    let mut widths: Vec<u16> = chosen.iter().map(|c| least(c)).collect();
    // Free room goes to the name first, then to the other elastic columns from the left.
    let mut elastic: Vec<usize> = (0..chosen.len()).filter(|&i| chosen[i].max > chosen[i].min).collect();
    elastic.sort_by_key(|&i| (chosen[i].column != Column::Name, i));
    for i in elastic {
        let more = free.min(chosen[i].max - widths[i]);
        widths[i] += more;
        free -= more;
    }
    let mut x = 0;
    chosen
        .iter()
        .zip(widths)
        .map(|(c, w)| {
            let at = x;
            x += w + 1;
            (c.column, at, w)
        })
        .collect()
}

/// Share of the window that `part` is, as findings have it; for a group the sum over its threads (more than 1 is possible).
/// What is not known of the window counts as neither: the bar beside it shows how much that is.
pub fn share(row: &ThreadRow, part: u64) -> Option<f64> {
    let total = row.times.total();
    (row.times.known() > 0).then(|| part as f64 * f64::from(row.members.max(1)) / total as f64)
}

/// Share of the time it was ready but not running.
pub fn ready(row: &ThreadRow) -> Option<f64> {
    share(row, row.times.ready())
}

/// A state as word and tone: what a row says about now.
pub fn state_word(now: ThreadNow) -> (&'static str, Tone) {
    match now {
        ThreadNow::Running => ("R run", Tone::Running),
        ThreadNow::Runnable => ("r ready", Tone::Ready),
        ThreadNow::Preempted => ("+ pushed", Tone::PushedOff),
        ThreadNow::Unknown => ("? –", Tone::Unknown),
        ThreadNow::Blocked(s) if s.contains(TaskState::UNINTERRUPTIBLE) => ("D wait", Tone::Blocked),
        ThreadNow::Blocked(s) if s == TaskState::SLEEPING => ("· sleep", Tone::Sleeping),
        ThreadNow::Blocked(s) if s.contains(TaskState::IDLE) => ("I idle", Tone::Sleeping),
        ThreadNow::Blocked(s) if s.contains(TaskState::STOPPED) => ("T stop", Tone::Other),
        ThreadNow::Blocked(s) if s.contains(TaskState::TRACED) => ("t traced", Tone::Other),
        ThreadNow::Blocked(s) if s.contains(TaskState::PARKED) => ("P parked", Tone::Other),
        ThreadNow::Blocked(s) if s.contains(TaskState::DEAD) || s.contains(TaskState::ZOMBIE) => {
            ("X dead", Tone::Other)
        }
        ThreadNow::Blocked(_) => ("S sleep", Tone::Sleeping),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| show::UNKNOWN.into(), |s| format!("{:.1}", (s * 100.0).clamp(0.0, 99_999.0)))
}

/// What stands in a cell of `width` columns, and its tone. (`States` is drawn, not written.)
pub fn cell(column: Column, row: &ThreadRow, labels: &Labels, seconds: f64, width: u16) -> (String, Tone) {
    let unknown = || (show::UNKNOWN.to_string(), Tone::Unknown);
    let latency = |ns: u64| if row.latency.count == 0 { unknown() } else { (show::span(ns), Tone::Text) };
    let name = |id: NameId| (labels.text(id).to_string(), Tone::Text);
    match column {
        Column::Tid if row.members > 1 => (format!("×{}", row.members), Tone::Dim),
        Column::Tid => (row.tid.to_string(), Tone::Dim),
        Column::Name => (row_name(row, labels), Tone::Text),
        Column::Now => {
            let (word, tone) = state_word(row.now);
            (word.into(), tone)
        }
        Column::States => (String::new(), Tone::Text),
        Column::Run => (percent(share(row, row.times.running)), Tone::Text),
        Column::Ready => {
            let ready = ready(row);
            let loud = ready.is_some_and(|r| r >= 0.1);
            (percent(ready), if loud { Tone::Ready } else { Tone::Text })
        }
        Column::Blocked => {
            let part = share(row, row.times.uninterruptible);
            let loud = part.is_some_and(|r| r >= 0.1);
            (percent(part), if loud { Tone::Blocked } else { Tone::Text })
        }
        Column::P50 | Column::P99 | Column::Max if row.sampled => unknown(),
        Column::P50 => latency(row.latency.p50),
        Column::P99 => latency(row.latency.p99),
        Column::Max => latency(row.latency.max),
        Column::Switches | Column::Migrations if row.sampled => unknown(),
        Column::Switches => {
            let rate = |n: u64| brief(n as f64 / seconds.max(1e-9));
            (format!("{}·{}", rate(row.voluntary), rate(row.involuntary)), Tone::Text)
        }
        Column::Migrations => (brief(row.migrations as f64), Tone::Text),
        Column::Instead => match row.ran_instead {
            Some(most) => {
                // Where both do not fit the name is cut: the share is what one compares.
                let part = words::instead_share(&most);
                let name = pen::cut(&labels.thread(most.utid), width.saturating_sub(pen::width(&part) + 1));
                (format!("{name} {part}"), Tone::Text)
            }
            None => unknown(),
        },
        Column::Cpu => row.cpu.map_or_else(unknown, |cpu| (cpu.to_string(), Tone::Text)),
        Column::Waker => row.last_waker.map_or_else(unknown, |w| (labels.waker(w), Tone::Text)),
        Column::BlockedIn if row.blocked_function.is_empty() => unknown(),
        Column::BlockedIn => name(row.blocked_function),
        Column::Cgroup => name(row.cgroup),
    }
}

/// `process · thread` of a row, from its own names (they are those of the window, which may be older than the labels).
pub fn row_name(row: &ThreadRow, labels: &Labels) -> String {
    let (process, name) = (labels.text(row.process), labels.text(row.name));
    match (process, name) {
        ("", "") => labels.full(row.utid),
        ("", name) => name.to_string(),
        (process, "") => process.to_string(),
        (process, name) if process == name => name.to_string(),
        (process, name) => format!("{process} · {name}"),
    }
}

/// A rate in at most 5 columns: `812`, `1.1k`, `18k`, `1.2M`.
pub fn brief(n: f64) -> String {
    let n = if n.is_finite() && n > 0.0 { n } else { 0.0 };
    for (unit, name) in [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")] {
        let v = n / unit;
        if unit > 1.0 && v < 9.95 {
            return format!("{v:.1}{name}");
        }
        if v < 999.5 {
            return format!("{v:.0}{name}");
        }
    }
    ">999T".into()
}

/// What a row is sorted by.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum SortKey {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Its cell has no value.
    Nothing,
}

/// The sort key of a row.
pub fn sort_key(column: Column, row: &ThreadRow, labels: &Labels) -> SortKey {
    let number = |n: Option<f64>| n.map_or(SortKey::Nothing, SortKey::Number);
    let text = |text: String| if text.is_empty() { SortKey::Nothing } else { SortKey::Text(text) };
    let counted = |n: u64| number((row.latency.count > 0 && !row.sampled).then_some(n as f64));
    let seen = |n: u64| number((!row.sampled).then_some(n as f64));
    match column {
        Column::Tid => SortKey::Number(f64::from(row.tid)),
        Column::Name => SortKey::Text(row_name(row, labels).to_lowercase()),
        Column::Now => number(match row.now {
            ThreadNow::Preempted => Some(5.0),
            ThreadNow::Runnable => Some(4.0),
            ThreadNow::Blocked(s) if s.contains(TaskState::UNINTERRUPTIBLE) => Some(3.0),
            ThreadNow::Running => Some(2.0),
            ThreadNow::Blocked(_) => Some(1.0),
            ThreadNow::Unknown => None,
        }),
        Column::States | Column::Run => number(share(row, row.times.running)),
        Column::Ready => number(ready(row)),
        Column::Blocked => number(share(row, row.times.uninterruptible)),
        Column::P50 => counted(row.latency.p50),
        Column::P99 => counted(row.latency.p99),
        Column::Max => counted(row.latency.max),
        Column::Switches => seen(row.voluntary + row.involuntary),
        Column::Migrations => seen(row.migrations),
        Column::Instead => number(row.ran_instead.map(|most| most.share)),
        Column::Cpu => number(row.cpu.map(f64::from)),
        Column::Waker => text(row.last_waker.map_or(String::new(), |w| labels.waker(w))),
        Column::BlockedIn => number((!row.blocked_function.is_empty()).then_some(row.blocked_max as f64)),
        Column::Cgroup => text(labels.text(row.cgroup).to_string()),
    }
}

/// Orders two keys, the largest first or the smallest; those without a value are last either way, for nobody looks for them.
pub fn compare(a: &SortKey, b: &SortKey, descending: bool) -> Ordering {
    match (a, b) {
        (SortKey::Nothing, SortKey::Nothing) => Ordering::Equal,
        (SortKey::Nothing, _) => Ordering::Greater,
        (_, SortKey::Nothing) => Ordering::Less,
        _ => {
            let ascending = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if descending { ascending.reverse() } else { ascending }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_variants() {
        for (i, info) in COLUMNS.iter().enumerate() {
            assert_eq!(info.column as usize, i);
            assert!(pen::width(info.title) <= info.min, "{} is wider than its column", info.title);
        }
    }

    #[test]
    fn columns_never_overlap_nor_leave_the_width() {
        for width in 0..=500u16 {
            let columns = fit(width);
            let mut end = 0;
            for (i, (_, x, w)) in columns.iter().enumerate() {
                assert!(i == 0 || *x == end + 1, "at {width}");
                end = x + w;
            }
            assert!(end <= width, "at {width}");
        }
        assert!(fit(80).iter().any(|(c, ..)| *c == Column::Ready));
        assert_eq!(fit(330).len(), COLUMNS.len());
    }

    #[test]
    fn rates_are_brief() {
        for (n, text) in [(812.0, "812"), (1_100.0, "1.1k"), (18_400.0, "18k"), (999.6, "1.0k"), (f64::NAN, "0")] {
            assert_eq!(brief(n), text);
        }
    }
}
