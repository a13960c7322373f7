//! Sampled values: memory, pressure, disks, load, CPU throttling of control groups, hardware counters.
//!
//! Each sample is a name and a number; the name ends in its unit where it has one. Sums count since boot and only
//! grow. What the machine does not have is told once, with the mend, and then left alone. Reads any root folder; decides
//! nothing about how often.

mod cgroup;
mod hardware;
mod parse;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use hardware::{Event as HardwareEvent, Hardware, NotAvailable, PerfOpen, SystemPerf};

/// One value of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What it is, e.g. `mem.available_bytes`, `psi.cpu.some.avg10`, `disk.vda.read_bytes`,
    /// `cgroup.throttled_ns:/kubepods/train`. Bytes, since paths of control groups are.
    pub name: Vec<u8>,
    /// The CPU it is about.
    pub cpu: Option<u32>,
    /// Its value.
    pub value: f64,
}

impl Sample {
    fn new(name: impl Into<Vec<u8>>, value: f64) -> Self {
        Sample { name: name.into(), cpu: None, value }
    }
}

/// Where values come from; the words of `counters.sources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// `/proc/meminfo`.
    Memory,
    /// `/proc/pressure`.
    Psi,
    /// `/proc/diskstats`.
    Disk,
    /// `/proc/loadavg`.
    Load,
    /// `cpu.stat` of control groups that have a CPU limit.
    Cgroup,
    /// Cycles and instructions of each CPU, through perf_event_open.
    Hardware,
}

impl Source {
    /// All of them with their words.
    pub const ALL: [(Source, &'static str); 6] = [
        (Source::Memory, "memory"),
        (Source::Psi, "psi"),
        (Source::Disk, "disk"),
        (Source::Load, "load"),
        (Source::Cgroup, "cgroup"),
        (Source::Hardware, "hardware"),
    ];

    /// The source of that word.
    pub fn from_word(word: &str) -> Option<Source> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(s, _)| *s)
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(s, _)| *s == self).map_or("", |(_, w)| w)
    }
}

/// A source this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub source: Source,
    /// Why, and what mends it.
    pub why: String,
}

/// What one round gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// The values.
    pub samples: Vec<Sample>,
    /// Sources found missing in this round for the first time.
    pub missing: Vec<Missing>,
}

/// Reads the chosen sources, round by round.
pub struct Counters {
    proc: PathBuf,
    sys: PathBuf,
    sources: Vec<Source>,
    cgroups: cgroup::Throttled,
    hardware: Option<Hardware>,
    perf: Box<dyn PerfOpen + Send>,
    cpus: Vec<u32>,
}

impl Counters {
    /// The machine's own, for these sources and (hardware) these CPUs.
    pub fn system(sources: &[Source], cpus: &[u32]) -> Self {
        Self::at("/proc", "/sys", sources, cpus, Box::new(SystemPerf))
    }

    /// Any folders laid out like procfs and sysfs, and any way to open hardware counters.
    pub fn at(
        proc: impl Into<PathBuf>,
        sys: impl Into<PathBuf>,
        sources: &[Source],
        cpus: &[u32],
        perf: Box<dyn PerfOpen + Send>,
    ) -> Self {
        let sys = sys.into();
        Counters {
            proc: proc.into(),
            cgroups: cgroup::Throttled::new(sys.join("fs/cgroup")),
            sys,
            sources: sources.to_vec(),
            hardware: None,
            perf,
            cpus: cpus.to_vec(),
        }
    }

    /// Reads every source that is there. One that is missing is told of and not tried again.
    pub fn round(&mut self) -> Round {
        let mut round = Round::default();
        for source in self.sources.clone() {
            if let Err(why) = self.read(source, &mut round.samples) {
                self.sources.retain(|s| *s != source);
                round.missing.push(Missing { source, why });
            }
        }
        round
    }

    fn read(&mut self, source: Source, out: &mut Vec<Sample>) -> Result<(), String> {
        match source {
            Source::Memory => parse::meminfo(&text(&self.proc.join("meminfo"))?, out),
            Source::Load => parse::loadavg(&text(&self.proc.join("loadavg"))?, out),
            Source::Disk => {
                let disks = text(&self.proc.join("diskstats"))?;
                let sys = self.sys.join("block");
                parse::diskstats(&disks, |name| !sys.is_dir() || sys.join(name).is_dir(), out);
            }
            Source::Psi => {
                const MEND: &str =
                    "the kernel needs CONFIG_PSI, and psi=1 on its command line where it is off by default";
                for what in ["cpu", "memory", "io"] {
                    let pressure = text(&self.proc.join("pressure").join(what)).map_err(|e| format!("{e}; {MEND}"))?;
                    parse::pressure(what, &pressure, out);
                }
            }
            Source::Cgroup => self.cgroups.sample(out)?,
            Source::Hardware => {
                let hardware = match &self.hardware {
                    Some(open) => open,
                    None => self.hardware.insert(Hardware::open(&self.cpus, &*self.perf).map_err(|e| e.to_string())?),
                };
                hardware.sample(out);
            }
        }
        Ok(())
    }
}

/// A small text file of the kernel; bytes that are not UTF-8 are replaced, what is beyond 1 MiB is cut.
fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(1 << 20).read_to_end(&mut bytes));
    read.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
