//! CTF 1.8 (Common Trace Format), with LTTng's event and field names: for babeltrace2 and Trace Compass.
//!
//! A folder with `metadata` and a stream file `channel0_N` per CPU, in packets of about 256 KiB at most. Fields and names
//! follow lttng-modules (its `sched_switch`, `sched_waking`, `irq_handler_entry`, `irq_softirq_entry`, `block_rq_*`,
//! `power_cpu_frequency`, … and a state dump of names at the start), so that Trace Compass takes it for a kernel trace.
//!
//! Loss is told twice. `events_discarded` of the packets counts per CPU, as LTTng does; a loss whose number nobody
//! counted adds 1 there. And an event `dashcam_loss` says from when, until when and how many, -1 for "not known";
//! `dashcam_gap` does for stretches without recording.

mod events;
mod metadata;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Entry, Target};
use crate::names::NameTable;
use crate::sched::event::{ClockSnapshot, Event, Loss, SystemFact};
use crate::sched::fold::Utid;
use crate::sched::summary::Window;
use crate::sched::threads::{IDLE, Threads};
use events::Id;

/// First bytes of every packet (CTF 1.8, 5.1).
const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of events after which a packet is closed.
const PACKET: usize = 256 << 10;
/// Bytes of packet header and context, fixed by the metadata.
const HEAD: usize = 4 + 16 + 4 + 6 * 8 + 4;

/// Writes a CTF trace.
pub struct Ctf {
    dir: PathBuf,
    uuid: [u8; 16],
    streams: BTreeMap<u32, Stream>,
    clock: Option<ClockSnapshot>,
    system: Option<SystemFact>,
    dumped: bool,
}

/// One CPU's packets.
#[derive(Debug, Default)]
struct Stream {
    events: Vec<u8>,
    begin: Option<u64>,
    last: u64,
    discarded: u64,
    sequence: u64,
}

impl Ctf {
    /// Writes into `dir`, which is made; it must not hold a trace already.
    ///
    /// # Errors
    /// The folder cannot be made, or holds something: readers take every file in it for a stream of this trace.
    pub fn create(dir: &Path, uuid: [u8; 16]) -> io::Result<Ctf> {
        fs::create_dir_all(dir)?;
        if fs::read_dir(dir)?.next().is_some() {
            let text = "the folder is not empty; name a new one, or an empty one";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Ok(Ctf { dir: dir.to_owned(), uuid, streams: BTreeMap::new(), clock: None, system: None, dumped: false })
    }

    /// An event record: number, time, fields. Within a stream time never falls.
    fn record(&mut self, cpu: u32, ts: u64, id: Id, fields: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let stream = self.streams.entry(cpu).or_default();
        let ts = ts.max(stream.last);
        stream.begin.get_or_insert(ts);
        stream.last = ts;
        stream.events.extend_from_slice(&(id as u16).to_le_bytes());
        stream.events.extend_from_slice(&ts.to_le_bytes());
        fields(&mut stream.events);
        if stream.events.len() >= PACKET { self.flush(cpu) } else { Ok(()) }
    }

    /// Closes the packet of `cpu`, if it has one.
    fn flush(&mut self, cpu: u32) -> io::Result<()> {
        let Some(stream) = self.streams.get_mut(&cpu) else { return Ok(()) };
        let Some(begin) = stream.begin.take() else { return Ok(()) };
        let bits = ((HEAD + stream.events.len()) as u64) * 8;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&self.uuid);
        head.extend_from_slice(&0u32.to_le_bytes());
        for field in [begin, stream.last, bits, bits, stream.sequence, stream.discarded] {
            head.extend_from_slice(&field.to_le_bytes());
        }
        head.extend_from_slice(&cpu.to_le_bytes());
        stream.sequence += 1;
        // Opened anew for each packet: a host may have more CPUs than this process may have files.
        let path = self.dir.join(format!("channel0_{cpu}"));
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&head)?;
        file.write_all(&stream.events)?;
        stream.events.clear();
        Ok(())
    }

    fn event(&mut self, event: &Event, emitter: Option<Utid>, threads: &Threads, names: &NameTable) -> io::Result<()> {
        let Some(id) = events::id(&event.kind) else { return Ok(()) };
        if !std::mem::replace(&mut self.dumped, true) {
            self.dump(event.cpu, event.ts, threads, names)?;
        }
        self.record(event.cpu, event.ts, id, |out| events::fields(out, event, emitter, threads, names))
    }

    /// LTTng's state dump: who is who when the trace begins.
    fn dump(&mut self, cpu: u32, ts: u64, threads: &Threads, names: &NameTable) -> io::Result<()> {
        self.record(cpu, ts, Id::StatedumpStart, |_| {})?;
        for (utid, thread) in threads.iter().filter(|(utid, _)| *utid != IDLE) {
            let owner = threads.owner(utid);
            let pid = owner.map_or(thread.tid, |p| p.pid);
            let parent = owner.and_then(|p| threads.process(p.parent?)).map_or(0, |p| p.pid);
            let kernel = owner.is_some_and(|p| p.kernel);
            let name = names.bytes(threads.shown_name(utid, ts));
            self.record(cpu, ts, Id::StatedumpProcess, |out| {
                for n in [thread.tid, pid, parent] {
                    out.extend_from_slice(&n.to_le_bytes());
                }
                events::comm(out, name);
                // lttng-statedump: type 0 is a user thread, 1 a kernel thread; mode, submode and status 0 are "unknown".
                for n in [i32::from(kernel), 0, 0, 0] {
                    out.extend_from_slice(&n.to_le_bytes());
                }
                out.extend_from_slice(&u32::MAX.to_le_bytes());
            })?;
        }
        self.record(cpu, ts, Id::StatedumpEnd, |_| {})
    }

    fn loss(&mut self, loss: &Loss) -> io::Result<()> {
        // The packet before ends here, so that readers place the loss between the two.
        self.flush(loss.cpu)?;
        let stream = self.streams.entry(loss.cpu).or_default();
        stream.discarded = stream.discarded.saturating_add(loss.count.unwrap_or(1).max(1));
        let count = loss.count.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let ts = loss.to.max(loss.from);
        self.record(loss.cpu, ts, Id::Loss, |out| {
            out.extend_from_slice(&loss.from.to_le_bytes());
            out.extend_from_slice(&loss.to.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
        })
    }

    fn gap(&mut self, gap: &Window) -> io::Result<()> {
        let cpus: Vec<u32> = self.streams.keys().copied().collect();
        for &cpu in &cpus {
            self.flush(cpu)?;
        }
        let cpu = cpus.first().copied().unwrap_or(0);
        self.record(cpu, gap.to, Id::Gap, |out| {
            out.extend_from_slice(&gap.from.to_le_bytes());
            out.extend_from_slice(&gap.to.to_le_bytes());
        })
    }
}

impl Target for Ctf {
    fn write(&mut self, entries: &[Entry], threads: &Threads, names: &NameTable) -> io::Result<()> {
        for entry in entries {
            match entry {
                Entry::Event(event, emitter) => self.event(event, *emitter, threads, names)?,
                Entry::Loss(loss) => self.loss(loss)?,
                Entry::Gap(gap) => self.gap(gap)?,
                Entry::Clock(clock) if clock.real > 0 => {
                    self.clock.get_or_insert(*clock);
                }
                Entry::System(system) => {
                    self.system.get_or_insert_with(|| system.clone());
                }
                Entry::Clock(_) | Entry::Interval(_) | Entry::Counter(..) => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Threads, names: &NameTable) -> io::Result<()> {
        let cpus: Vec<u32> = self.streams.keys().copied().collect();
        for cpu in cpus {
            self.flush(cpu)?;
        }
        let text = metadata::metadata(&self.uuid, self.clock.as_ref(), self.system.as_ref(), names);
        File::create(self.dir.join("metadata"))?.write_all(text.as_bytes())
    }
}
