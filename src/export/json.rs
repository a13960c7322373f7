//! Chrome's trace-event JSON: opens in chrome://tracing, Speedscope, Perfetto's UI and anything that reads JSON.
//!
//! An object with `traceEvents`; times are microseconds with fractions, on CLOCK_BOOTTIME. Process `-1`, "CPUs", has a
//! track per CPU with a complete event (`X`) for each running stretch of a thread (arguments: tid, prio, end_state).
//! Each thread has a track with one for every stretch of its states, by name (`Running`, `R`, `R+`, `S`, `D`; blocked
//! function, waker, preemptor as arguments). Marks are instants, counters are `C`. A loss is an instant of global scope
//! on its CPU named `LOST 12 EVENTS` or `LOST EVENTS`, a gap one of the name `GAP`; `otherData.lost_events` counts.

use std::io::{self, Write};

use super::{Entry, Target};
use crate::names::NameTable;
use crate::sched::event::{Event, EventKind, Loss, ThreadNow};
use crate::sched::fold::{Interval, Utid};
use crate::sched::threads::{IDLE, Threads};
use serde_json::{Value, json};

/// The made-up process that the CPUs' tracks belong to.
const CPUS: i64 = -1;

/// Writes Chrome's JSON.
pub struct Json<W> {
    out: W,
    begun: bool,
    first: bool,
    known: u64,
    unknown: u64,
    host: String,
    last: u64,
}

fn us(ns: u64) -> Value {
    // A double holds whole nanoseconds up to 52 days of microseconds with three decimals.
    json!(ns as f64 / 1000.0)
}

impl<W: Write> Json<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        Json { out, begun: false, first: true, known: 0, unknown: 0, host: String::new(), last: 0 }
    }

    /// Gives the output back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        }
        Ok(())
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }

    fn interval(&mut self, i: &Interval, threads: &Threads, names: &NameTable) -> io::Result<()> {
        let name = |utid: Utid| shown(utid, i.start, threads, names);
        let tid_of = |utid: Utid| threads.get(utid).map_or(0, |t| t.tid);
        let end = i.end.unwrap_or(self.last.max(i.start));
        let dur = us(end.saturating_sub(i.start));
        let mut args = json!({});
        let mut arg = |key: &str, value: Value| args[key] = value;
        if i.end.is_none() {
            arg("unfinished", json!(true));
        }
        if !i.end_known {
            arg("end", json!("not known: events were lost"));
        }
        if let (ThreadNow::Running, Some(cpu)) = (i.state, i.cpu)
            && i.utid != IDLE
        {
            let mut on_cpu = args.clone();
            on_cpu["tid"] = json!(tid_of(i.utid));
            on_cpu["prio"] = json!(i.prio);
            on_cpu["end_state"] = json!(i.end_state.map(|s| s.letters().into_owned()));
            let name = name(i.utid);
            let slice = json!({"ph": "X", "pid": CPUS, "tid": cpu, "ts": us(i.start), "dur": dur, "name": name, "args": on_cpu});
            self.put(&slice)?;
        }
        if i.utid == IDLE {
            return Ok(());
        }
        let mut arg = |key: &str, value: Value| args[key] = value;
        let state = match i.state {
            ThreadNow::Running => "Running".into(),
            ThreadNow::Runnable => "R".into(),
            ThreadNow::Preempted => i.left.letters(),
            ThreadNow::Blocked(state) => state.letters(),
            ThreadNow::Unknown => return Ok(()),
        };
        if let Some(cpu) = i.cpu {
            arg("cpu", json!(cpu));
        }
        if !i.function.is_empty() {
            arg("blocked_function", json!(names.text(i.function)));
        }
        if let Some(io) = i.io_wait {
            arg("io_wait", json!(io));
        }
        if i.from_interrupt == Some(true) {
            arg("woken_from", json!("interrupt"));
        } else if let Some((waker, _)) = i.waker {
            arg("waker", json!(format!("{} [{}]", name(waker), tid_of(waker))));
        }
        if let Some(by) = i.preemptor {
            arg("preemptor", json!(format!("{} [{}]", name(by), tid_of(by))));
        }
        let pid = threads.owner(i.utid).map_or_else(|| tid_of(i.utid), |p| p.pid);
        self.put(&json!({"ph": "X", "pid": pid, "tid": tid_of(i.utid), "ts": us(i.start), "dur": dur, "name": state, "args": args}))
    }

    fn event(&mut self, event: &Event, emitter: Option<Utid>, threads: &Threads, names: &NameTable) -> io::Result<()> {
        let (ts, cpu) = (us(event.ts), event.cpu);
        match event.kind {
            EventKind::Print { text } => {
                let tid = emitter.and_then(|u| threads.get(u)).map_or(0, |t| t.tid);
                let pid = emitter.and_then(|u| threads.owner(u)).map_or(tid, |p| p.pid);
                self.put(&json!({"ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": ts, "name": names.text(text)}))
            }
            EventKind::Frequency { cpu, khz } => {
                self.put(&json!({"ph": "C", "pid": CPUS, "ts": ts, "name": format!("cpu {cpu} frequency"), "args": {"kHz": khz}}))
            }
            EventKind::IrqEntry { irq, name } => {
                let args = json!({"irq": irq});
                self.put(&json!({"ph": "i", "s": "t", "pid": CPUS, "tid": cpu, "ts": ts, "name": names.text(name), "args": args}))
            }
            _ => Ok(()),
        }
    }

    fn loss(&mut self, loss: &Loss) -> io::Result<()> {
        let name = match loss.count {
            Some(n) => {
                self.known = self.known.saturating_add(n);
                format!("LOST {n} EVENTS")
            }
            None => {
                self.unknown += 1;
                "LOST EVENTS".to_owned()
            }
        };
        let ts = if loss.from > 0 { loss.from } else { loss.to };
        let args = json!({"cpu": loss.cpu, "from": us(loss.from), "to": us(loss.to), "count": loss.count});
        self.put(&json!({"ph": "i", "s": "g", "pid": CPUS, "tid": loss.cpu, "ts": us(ts), "name": name, "args": args}))
    }
}

fn shown(utid: Utid, ts: u64, threads: &Threads, names: &NameTable) -> String {
    if utid == IDLE {
        return "idle".to_owned();
    }
    let name = names.text(threads.shown_name(utid, ts));
    if name.is_empty() { format!("[{}]", threads.get(utid).map_or(0, |t| t.tid)) } else { name }
}

impl<W: Write> Target for Json<W> {
    fn write(&mut self, entries: &[Entry], threads: &Threads, names: &NameTable) -> io::Result<()> {
        self.begin()?;
        for entry in entries {
            match entry {
                Entry::Event(event, emitter) => {
                    self.last = self.last.max(event.ts);
                    self.event(event, *emitter, threads, names)?;
                }
                Entry::Interval(interval) => self.interval(interval, threads, names)?,
                Entry::Loss(loss) => self.loss(loss)?,
                Entry::Gap(gap) => {
                    let args = json!({"from": us(gap.from), "to": us(gap.to)});
                    self.put(&json!({"ph": "i", "s": "g", "pid": CPUS, "tid": 0, "ts": us(gap.from), "name": "GAP", "args": args}))?;
                }
                Entry::Counter(ts, name, cpu, value) => {
                    let name = cpu.map_or_else(|| names.text(*name), |cpu| format!("cpu {cpu} {}", names.text(*name)));
                    self.put(&json!({"ph": "C", "pid": CPUS, "ts": us(*ts), "name": name, "args": {"value": value}}))?;
                }
                Entry::System(system) => self.host = names.text(system.host),
                Entry::Clock(_) => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, threads: &Threads, names: &NameTable) -> io::Result<()> {
        self.begin()?;
        self.put(&json!({"ph": "M", "pid": CPUS, "name": "process_name", "args": {"name": "CPUs"}}))?;
        for (upid, process) in threads.processes().skip(1) {
            let name = names.text(threads.process_name(upid));
            self.put(&json!({"ph": "M", "pid": process.pid, "name": "process_name", "args": {"name": name}}))?;
        }
        for (utid, thread) in threads.iter().skip(1) {
            let pid = threads.owner(utid).map_or(thread.tid, |p| p.pid);
            let name = shown(utid, u64::MAX, threads, names);
            self.put(
                &json!({"ph": "M", "pid": pid, "tid": thread.tid, "name": "thread_name", "args": {"name": name}}),
            )?;
        }
        let other = json!({"host": self.host, "clock": "CLOCK_BOOTTIME", "lost_events": self.known, "losses_of_unknown_number": self.unknown});
        writeln!(self.out, "\n],\"otherData\":{other}}}")?;
        self.out.flush()
    }
}
