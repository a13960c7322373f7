//! `sched`, `thread_state` and `thread` of a real recording (hackbench on two busy CPUs), row by row against a fold written
//! here for that alone: a few maps, no lists, nothing of `sched::fold` but its written rules.
#![allow(clippy::unwrap_used)]

mod hackbench_support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use dashcam::feed;
use dashcam::query::Engine;
use dashcam::query::load::{Kept, Request, load};
use dashcam::sched::event::{Event, EventKind};
use dashcam::sched::summary::Window;
use dashcam::store::Store;
use rusqlite::types::Value;

/// What a thread is in, and since when.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    ts: u64,
    state: String,
    cpu: Option<u32>,
    /// Who woke it, and whether in an interrupt.
    woken: Option<(i32, bool)>,
}

#[derive(Default)]
struct Independent {
    running: BTreeMap<u32, i32>,
    open: BTreeMap<i32, Open>,
    /// A wake-up of a thread that still ran: when, by whom, in an interrupt.
    pending: BTreeMap<i32, (u64, i32, bool)>,
    /// Begin and priority of who runs on each CPU, once it is known when it came.
    since: BTreeMap<u32, (u64, i32)>,
    tids: BTreeSet<i32>,
    sched: Vec<String>,
    states: Vec<String>,
}

impl Independent {
    fn close(&mut self, tid: i32, end: Option<u64>) {
        let Some(o) = self.open.remove(&tid) else { return };
        let dur = end.map_or(-1, |end| end as i64 - o.ts as i64);
        let (waker, irq) = o.woken.map_or((None, None), |(tid, irq)| (Some(tid), Some(i64::from(irq))));
        self.states.push(format!("{} {dur} {:?} {tid} {} {waker:?} {irq:?}", o.ts, o.cpu, o.state));
    }

    fn switch(&mut self, e: &Event) {
        let EventKind::Switch(s) = e.kind else { return };
        self.tids.insert(s.next_tid);
        if let Some(prev) = self.running.insert(e.cpu, s.next_tid) {
            let state = s.prev_state.letters().into_owned();
            if let Some((from, prio)) = self.since.remove(&e.cpu) {
                self.sched.push(format!("{from} {} {} {prev} {state} {prio}", e.ts - from, e.cpu));
            }
            if prev != 0 {
                self.close(prev, Some(e.ts));
                // Woken within 50 µs before it left ready: it had begun to sleep, nobody pushed it off.
                let raced = self.pending.get(&prev).filter(|p| state == "R" && e.ts - p.0 <= 50_000);
                let woken = raced.map(|p| (p.1, p.2));
                if state.starts_with('R') {
                    self.pending.remove(&prev);
                }
                self.open.insert(prev, Open { ts: e.ts, state, cpu: None, woken });
            }
            self.since.insert(e.cpu, (e.ts, s.next_prio));
        }
        let next = s.next_tid;
        if next == 0 || !self.since.contains_key(&e.cpu) {
            return;
        }
        // It ran before, was woken meanwhile and by nobody since: it never slept.
        if let (Some(p), Some(o)) = (self.pending.remove(&next), self.open.get_mut(&next))
            && !o.state.starts_with('R')
        {
            (o.state, o.woken) = ("R".into(), Some((p.1, p.2)));
        }
        self.close(next, Some(e.ts));
        self.open.insert(next, Open { ts: e.ts, state: "Running".into(), cpu: Some(e.cpu), woken: None });
    }

    fn waking(&mut self, e: &Event) {
        let EventKind::Waking(w) = e.kind else { return };
        // Before a CPU's first switch nobody knows who wakes.
        let Some(&waker) = self.running.get(&e.cpu) else { return };
        self.tids.insert(w.tid);
        let irq = e.flags & 0x18 != 0;
        match self.open.get(&w.tid).map(|o| o.state.as_str()) {
            Some("Running") => drop(self.pending.insert(w.tid, (e.ts, waker, irq))),
            // `sched_waking` is written for sleeping threads only: one that waits since it was woken ran unseen meanwhile.
            Some("R") if self.open[&w.tid].woken.is_some() => {
                let ts = self.open[&w.tid].ts;
                self.close(w.tid, Some(ts));
                self.open.insert(w.tid, Open { ts: e.ts, state: "R".into(), cpu: None, woken: Some((waker, irq)) });
            }
            Some(state) if state.starts_with('R') => {}
            _ => {
                self.close(w.tid, Some(e.ts));
                self.pending.remove(&w.tid);
                self.open.insert(w.tid, Open { ts: e.ts, state: "R".into(), cpu: None, woken: Some((waker, irq)) });
            }
        }
    }

    fn end(&mut self) {
        for (cpu, (from, prio)) in std::mem::take(&mut self.since) {
            self.sched.push(format!("{from} -1 {cpu} {} NULL {prio}", self.running[&cpu]));
        }
        for tid in self.tids.clone() {
            self.close(tid, None);
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(n) => n.to_string(),
        Value::Text(t) => t.clone(),
        other => panic!("{other:?}"),
    }
}

fn assert_same(what: &str, mut ours: Vec<String>, mut theirs: Vec<String>) {
    ours.sort();
    theirs.sort();
    let differ = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    assert_eq!(differ.map(|n| (&ours[n], &theirs[n])), None, "{what}: row of the table, row of the independent fold");
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

#[test]
fn sched_thread_state_and_thread_agree_row_by_row() {
    let (events, names) = hackbench_support::events();
    let mut independent = Independent::default();
    for e in &events {
        independent.switch(e);
        independent.waking(e);
    }
    independent.end();
    assert!(independent.sched.len() > 20_000 && independent.states.len() > 40_000, "a recording worth comparing");

    let dir = tempfile::tempdir().unwrap();
    let whole = Window { from: events[0].ts, to: events.last().unwrap().ts + 1 };
    let store = Store::create(dir.path()).unwrap();
    hackbench_support::segment(&store, &events, &names, whole, 5000);
    let request =
        Request { paths: vec![dir.path().to_owned()], window: None, kept: Kept::default(), ..Request::default() };
    let survey = feed::survey(&request.paths).unwrap();
    let loaded = load(&request, &survey, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut engine = Engine::open(Arc::new(loaded.columns)).unwrap();
    let mut rows = |sql: &str| engine.answer(sql, None).unwrap().rows;

    let sched = "SELECT s.ts, s.dur, s.cpu, t.tid, s.end_state, s.priority FROM sched s JOIN thread t USING (utid)";
    let ours = rows(sched).iter().map(|r| r.iter().map(text).collect::<Vec<_>>().join(" ")).collect();
    assert_same("sched", ours, independent.sched);

    let number = |v: &Value| if let Value::Integer(n) = v { Some(*n) } else { None };
    let states = "SELECT s.ts, s.dur, s.cpu, t.tid, s.state, w.tid, s.irq_context FROM thread_state s JOIN thread t USING (utid) \
                  LEFT JOIN thread w ON w.utid = s.waker_utid";
    let row = |r: &Vec<Value>| {
        let (cpu, waker, irq) = (number(&r[2]), number(&r[5]), number(&r[6]));
        format!("{} {} {cpu:?} {} {} {waker:?} {irq:?}", text(&r[0]), text(&r[1]), text(&r[3]), text(&r[4]))
    };
    assert_same("thread_state", rows(states).iter().map(row).collect(), independent.states);

    let ours = rows("SELECT tid FROM thread").iter().map(|r| text(&r[0])).collect();
    independent.tids.insert(0);
    assert_same("thread", ours, independent.tids.iter().map(ToString::to_string).collect());
}
