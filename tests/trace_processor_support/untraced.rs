//! Switches that the kernel left out, as they show in the trace processor's rows.

use std::collections::{BTreeMap, BTreeSet};

/// A row of `sched`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sched {
    pub cpu: i64,
    pub ts: i64,
    pub dur: i64,
    pub tid: i64,
    pub end_state: Option<String>,
    pub priority: Option<i64>,
}

/// A stretch on a CPU of which the kernel left out a switch. The trace processor lets the row of the thread that came
/// before it stand without end; or to the event that tells of another thread, where our files have a switch that stands in
/// for the one left out. For us its row ends with the last event that shows it to run.
#[derive(Debug)]
pub struct Dark {
    pub cpu: i64,
    pub from: i64,
    pub to: i64,
    pub tid: i64,
}

/// All of them, by CPU and begin: on one CPU they follow each other.
pub struct Darkness(pub BTreeMap<(i64, i64), Dark>);

impl Darkness {
    /// Told from the trace processor's rows; with it the instant from which each CPU had a switch. At the end of a trace
    /// no later row tells: there it is that our row of the same thread has an end.
    pub fn of(theirs: &BTreeSet<Sched>, own: &BTreeSet<Sched>) -> (Darkness, i64) {
        // Of those that begin at one instant, the last has the others behind it: who is seen to run only when it leaves ran for
        // no time.
        let mut rows: Vec<&Sched> = theirs.iter().collect();
        rows.sort_by_key(|r| (r.cpu, r.ts, r.dur != 0));
        let pairs = rows.windows(2).filter(|w| w[0].cpu == w[1].cpu && w[0].dur < 0);
        let between = pairs.map(|w| Dark { cpu: w[0].cpu, from: w[0].ts, to: w[1].ts, tid: w[0].tid });
        let lasts = rows.iter().enumerate().filter(|(i, r)| rows.get(i + 1).is_none_or(|next| next.cpu != r.cpu));
        let ended: BTreeSet<(i64, i64)> = own.iter().filter(|o| o.dur >= 0).map(|o| (o.cpu, o.ts)).collect();
        let at_the_end = lasts.filter(|(_, r)| r.dur < 0 && ended.contains(&(r.cpu, r.ts)));
        let at_the_end = at_the_end.map(|(_, r)| Dark { cpu: r.cpu, from: r.ts, to: i64::MAX, tid: r.tid });
        let ended_unseen = own.iter().filter(|o| o.dur >= 0 && o.end_state.is_none());
        let stood_in = ended_unseen.filter_map(|o| {
            let same =
                theirs.range(Sched { dur: i64::MIN, tid: i64::MIN, end_state: None, priority: None, ..o.clone() }..);
            let same = same.take_while(|t| (t.cpu, t.ts) == (o.cpu, o.ts)).find(|t| t.tid == o.tid && t.dur >= 0)?;
            Some(Dark { cpu: o.cpu, from: o.ts, to: same.ts + same.dur, tid: o.tid })
        });
        let dark = between.chain(at_the_end).chain(stood_in);
        let mut firsts: BTreeMap<i64, i64> = BTreeMap::new();
        for row in &rows {
            firsts.entry(row.cpu).or_insert(row.ts);
        }
        (Darkness(dark.map(|d| ((d.cpu, d.from), d)).collect()), firsts.into_values().max().unwrap())
    }

    /// The one on a CPU that holds the instant.
    pub fn at(&self, cpu: i64, ts: i64) -> Option<&Dark> {
        let (_, last) = self.0.range((cpu, 0)..=(cpu, ts)).next_back()?;
        (ts <= last.to).then_some(last)
    }

    /// The instant lies in one, on whatever CPU.
    pub fn anywhere(&self, ts: i64) -> bool {
        let mut cpu = -1;
        while let Some((&(next, _), _)) = self.0.range((cpu + 1, 0)..).next() {
            if self.at(next, ts).is_some() {
                return true;
            }
            cpu = next;
        }
        false
    }
}
