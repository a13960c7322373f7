//! ftrace text, as the kernel's own `trace` file has it: for grep, awk and every tool that reads systraces.
//!
//! One line an event, `task-tid (tgid) [cpu] flags seconds.nanoseconds: event: fields`, with fields in the order and
//! form of the kernel's `print fmt` as far as they are recorded. Missing events are lines of the kernel's form,
//! `CPU:0 [LOST 12 EVENTS]`, without the number when nobody counted them. Names are made safe.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::{Entry, Target};
use crate::names::{NameId, NameTable, printable};
use crate::sched::event::{BlockRequest, BlockStage, Event, EventKind, Loss, Tid, Wake};
use crate::sched::fields::{Field, SOFTIRQS, each_field, event_name};
use crate::sched::fold::Utid;
use crate::sched::state::TaskState;
use crate::sched::threads::{IDLE, Threads};

const HEADER: &str = "# tracer: nop
#
#                                      _-----=> irqs-off
#                                     / _----=> need-resched
#                                    | / _---=> hardirq/softirq
#           TASK-PID    (TGID)  CPU#  |||     TIMESTAMP  FUNCTION
#              | |         |      |   |||         |         |
";

/// Writes ftrace text.
pub struct Text<W> {
    out: W,
    begun: bool,
    line: String,
}

impl<W: Write> Text<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        Text { out, begun: false, line: String::new() }
    }

    /// Gives the output back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.out.write_all(HEADER.as_bytes())?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, emitter: Option<Utid>, names: &Names<'_>) -> io::Result<()> {
        let left = match event.kind {
            EventKind::Switch(s) => s.prev_tid.and_then(|tid| names.threads.utid_of(tid)),
            _ => None,
        };
        let emitter = emitter.or(left);
        let line = &mut self.line;
        line.clear();
        let task = emitter.and_then(|utid| names.threads.get(utid).map(|t| (utid, t)));
        let (comm, tid) = match task {
            Some((IDLE, _)) => ("<idle>".to_owned(), 0),
            Some((utid, thread)) => (names.text(names.threads.shown_name(utid, event.ts)), thread.tid),
            None => (String::new(), event.emitter.unwrap_or(-1)),
        };
        let comm = if comm.is_empty() { "<...>" } else { &comm };
        let tgid = task.and_then(|(utid, _)| names.threads.owner(utid)).map(|p| p.pid);
        let tid = if tid < 0 { "?".to_owned() } else { tid.to_string() };
        let tgid = tgid.map_or_else(|| "-----".to_owned(), |pid| format!("{pid:5}"));
        let (s, ns) = (event.ts / 1_000_000_000, event.ts % 1_000_000_000);
        // Writing to a String cannot fail.
        let _ = write!(line, "{comm:>16}-{tid:<7} ({tgid}) [{:03}] {} {s:5}.{ns:09}: ", event.cpu, flags(event.flags));
        fields(line, event, emitter, names);
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }
}

impl<W: Write> Target for Text<W> {
    fn write(&mut self, entries: &[Entry], threads: &Threads, names: &NameTable) -> io::Result<()> {
        self.begin()?;
        let names = Names { threads, names };
        for entry in entries {
            match entry {
                Entry::Event(event, emitter) => self.event(event, *emitter, &names)?,
                Entry::Loss(loss) => writeln!(self.out, "{}", lost(loss))?,
                Entry::Gap(gap) => {
                    let s = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
                    writeln!(self.out, "# nothing was recorded from {} to {}", s(gap.from), s(gap.to))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Threads, _: &NameTable) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}

/// The kernel's words (kernel/trace/trace.c, print_trace_line).
fn lost(loss: &Loss) -> String {
    match loss.count {
        Some(n) => format!("CPU:{} [LOST {n} EVENTS]", loss.cpu),
        None => format!("CPU:{} [LOST EVENTS]", loss.cpu),
    }
}

/// irqs-off, need-resched, interrupt context; what is not recorded is a dot.
fn flags(flags: u8) -> String {
    let irqs = if flags & 0x01 != 0 { 'd' } else { '.' };
    let resched = if flags & 0x04 != 0 { 'N' } else { '.' };
    let context = match (flags & 0x08 != 0, flags & 0x10 != 0) {
        (true, true) => 'H',
        (true, false) => 'h',
        (false, true) => 's',
        (false, false) => '.',
    };
    [irqs, resched, context].iter().collect()
}

struct Names<'a> {
    threads: &'a Threads,
    names: &'a NameTable,
}

impl Names<'_> {
    fn text(&self, id: NameId) -> String {
        self.names.text(id)
    }

    /// The name of the life that has `tid` now; the emitter's at that moment.
    fn comm(&self, tid: Tid, ts: u64, emitter: Option<Utid>) -> String {
        let is_emitter = |utid: &Utid| self.threads.get(*utid).is_some_and(|t| t.tid == tid);
        let utid = emitter.filter(is_emitter).or_else(|| self.threads.utid_of(tid));
        match utid {
            Some(IDLE) => "swapper".to_owned(),
            Some(utid) => self.text(self.threads.shown_name(utid, ts)),
            None => String::new(),
        }
    }
}

/// The state as sched_switch prints it: `S`, `D|K`, `R+`.
fn state(state: TaskState) -> String {
    let letters = state.letters();
    let (body, plus) = letters.strip_suffix('+').map_or((letters.as_ref(), ""), |body| (body, "+"));
    let parts: Vec<String> = body.chars().map(String::from).collect();
    format!("{}{plus}", parts.join("|"))
}

fn fields(line: &mut String, event: &Event, emitter: Option<Utid>, names: &Names<'_>) {
    let ts = event.ts;
    let name = event_name(&event.kind).unwrap_or("");
    // Writing to a String cannot fail.
    let _ = match event.kind {
        EventKind::Switch(s) => {
            let left = s.prev_tid.or_else(|| names.threads.get(emitter?).map(|t| t.tid));
            let prev = match left {
                Some(tid) => format!("prev_comm={} prev_pid={tid} ", names.comm(tid, ts, emitter)),
                None => String::new(),
            };
            let prio = s.prev_prio.map_or_else(String::new, |p| format!("prev_prio={p} "));
            let next = if s.next_tid == 0 { "swapper".to_owned() } else { names.text(s.next_comm) };
            write!(
                line,
                "{name}: {prev}{prio}prev_state={} ==> next_comm={next} next_pid={} next_prio={}",
                state(s.prev_state),
                s.next_tid,
                s.next_prio
            )
        }
        EventKind::Waking(Wake { tid, prio, comm, target_cpu })
        | EventKind::Wakeup(Wake { tid, prio, comm, target_cpu })
        | EventKind::WakeupNew(Wake { tid, prio, comm, target_cpu }) => {
            let comm = names.text(comm);
            write!(line, "{name}: comm={comm} pid={tid} prio={prio} target_cpu={target_cpu:03}")
        }
        EventKind::NewTask { tid, comm, clone_flags } => {
            write!(line, "{name}: pid={tid} comm={} clone_flags={clone_flags:x}", names.text(comm))
        }
        EventKind::BlockedReason { tid, io_wait, function } => {
            write!(line, "{name}: pid={tid} iowait={} caller={}", u8::from(io_wait), names.text(function))
        }
        EventKind::SoftirqEntry { vec } | EventKind::SoftirqExit { vec } => {
            write!(line, "{name}: vec={vec} [action={}]", SOFTIRQS.get(vec as usize).unwrap_or(&"?"))
        }
        EventKind::Block(r) => block(line, name, &r, names),
        EventKind::Print { text } => write!(line, "tracing_mark_write: {}", names.text(text)),
        EventKind::Other { name } => write!(line, "{}:", names.text(name)),
        _ => {
            line.push_str(name);
            line.push(':');
            each_field(
                event,
                |tid| names.threads.utid_of(tid).map_or(NameId::EMPTY, |utid| names.threads.shown_name(utid, ts)),
                |key, value| {
                    let _ = match value {
                        Field::Int(n) => write!(line, " {key}={n}"),
                        Field::Name(id) => write!(line, " {key}={}", printable(names.names.bytes(id))),
                        Field::Word(word) => write!(line, " {key}={word}"),
                    };
                },
            );
            Ok(())
        }
    };
}

fn block(line: &mut String, name: &str, r: &BlockRequest, names: &Names<'_>) -> std::fmt::Result {
    // dev_t inside the kernel: 12 bits of major above 20 of minor (include/linux/kdev_t.h).
    let (major, minor) = (r.dev >> 20, r.dev & 0xf_ffff);
    write!(line, "{name}: {major},{minor} {} {} + {}", names.text(r.rwbs), r.sector, r.sectors)?;
    if r.stage == BlockStage::Complete { write!(line, " [{}]", r.error) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_flags_as_the_kernel_prints_them() {
        assert_eq!(state(TaskState::UNINTERRUPTIBLE.with(TaskState::WAKE_KILL)), "D|K");
        assert_eq!(state(TaskState::PREEMPTED), "R+");
        assert_eq!([flags(0), flags(0x01 | 0x08), flags(0x14), flags(0x18)], ["...", "d.h", ".Ns", "..H"]);
    }

    #[test]
    fn case_99_a_loss_says_how_many_or_that_nobody_counted() {
        let loss = |count| Loss { cpu: 3, from: 1, to: 2, count };
        assert_eq!(lost(&loss(Some(12))), "CPU:3 [LOST 12 EVENTS]");
        assert_eq!(lost(&loss(None)), "CPU:3 [LOST EVENTS]");
    }
}
