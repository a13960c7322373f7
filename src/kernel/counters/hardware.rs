//! Cycles and instructions of each CPU, counted by the processor, read through perf_event_open(2).
//!
//! Most virtual machines have none; then opening says so once, in words. Counting costs nothing between reads: no
//! sampling, no interrupts.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use super::Sample;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Clock cycles while not halted.
    Cycles,
    /// Instructions that completed.
    Instructions,
}

impl Event {
    const ALL: [Event; 2] = [Event::Cycles, Event::Instructions];

    /// PERF_COUNT_HW_* (include/uapi/linux/perf_event.h).
    fn config(self) -> u64 {
        match self {
            Event::Cycles => 0,
            Event::Instructions => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Event::Cycles => "cpu.cycles",
            Event::Instructions => "cpu.instructions",
        }
    }
}

/// Why there are no hardware counters, and what mends it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAvailable {
    /// The processor, or the hypervisor, offers none (ENOENT, EOPNOTSUPP, ENODEV).
    #[error(
        "this machine has no hardware counters, as is usual in virtual machines; enable the guest's PMU on the host"
    )]
    NoPmu,
    /// This user may not (EACCES, EPERM).
    #[error("no right to count per CPU; run as root, give CAP_PERFMON, or: sysctl -w kernel.perf_event_paranoid=0")]
    Denied,
    /// A kernel without CONFIG_PERF_EVENTS (ENOSYS).
    #[error("the kernel has no perf events; it needs CONFIG_PERF_EVENTS")]
    NoSupport,
    /// Anything else.
    #[error("perf_event_open: {0}")]
    Other(String),
}

/// Opens one counter. The kernel in earnest, a file in tests.
pub trait PerfOpen {
    /// A descriptor that reads three u64: value, time enabled, time running.
    ///
    /// # Errors
    /// What perf_event_open(2) says.
    fn open(&self, event: Event, cpu: u32) -> io::Result<OwnedFd>;
}

/// perf_event_open of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemPerf;

/// struct perf_event_attr as of its first version (PERF_ATTR_SIZE_VER0), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING.
const READ_FORMAT_TIMES: u64 = 1 | 2;
/// PERF_FLAG_FD_CLOEXEC.
const FLAG_CLOEXEC: libc::c_ulong = 8;

impl PerfOpen for SystemPerf {
    fn open(&self, event: Event, cpu: u32) -> io::Result<OwnedFd> {
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // kind 0 is PERF_TYPE_HARDWARE.
        let attr = PerfEventAttr {
            size: size_of::<PerfEventAttr>() as u32,
            config: event.config(),
            read_format: READ_FORMAT_TIMES,
            ..PerfEventAttr::default()
        };
        // SAFETY: attr is a whole perf_event_attr of the size it says and outlives the call; pid -1 with a CPU counts
        // everything on that CPU; no group (-1).
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, FLAG_CLOEXEC) };
        match i32::try_from(fd) {
            // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Open counters, two per CPU.
#[derive(Debug)]
pub struct Hardware {
    open: Vec<(Event, u32, File)>,
}

impl Hardware {
    /// Opens both counters on each CPU; a CPU that is offline is left out.
    ///
    /// # Errors
    /// The reason, when none can be opened.
    pub fn open(cpus: &[u32], with: &(impl PerfOpen + ?Sized)) -> Result<Self, NotAvailable> {
        let mut open = Vec::new();
        let mut why = None;
        for &cpu in cpus {
            for event in Event::ALL {
                match with.open(event, cpu) {
                    Ok(fd) => open.push((event, cpu, File::from(fd))),
                    Err(e) => why = why.or(Some(not_available(&e))),
                }
            }
        }
        if open.is_empty() { Err(why.unwrap_or(NotAvailable::NoPmu)) } else { Ok(Hardware { open }) }
    }

    /// The sums so far. A counter that shared its register with others is scaled up by the share of time it had it.
    pub fn sample(&self, out: &mut Vec<Sample>) {
        for (event, cpu, file) in &self.open {
            let mut bytes = [0u8; 24];
            if (&*file).read_exact(&mut bytes).is_err() {
                continue;
            }
            let word = |i: usize| {
                let mut one = [0u8; 8];
                one.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
                u64::from_ne_bytes(one)
            };
            let (value, enabled, running) = (word(0), word(1), word(2));
            // Never scheduled onto a register: not known, which is not zero.
            if running == 0 {
                continue;
            }
            let scaled = value as f64 * (enabled as f64 / running as f64);
            out.push(Sample { name: event.name().into(), cpu: Some(*cpu), value: scaled });
        }
    }
}

fn not_available(e: &io::Error) -> NotAvailable {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => NotAvailable::NoPmu,
        Some(libc::EACCES | libc::EPERM) => NotAvailable::Denied,
        Some(libc::ENOSYS) => NotAvailable::NoSupport,
        _ => NotAvailable::Other(e.to_string()),
    }
}
