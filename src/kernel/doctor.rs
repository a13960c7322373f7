//! What this machine allows a recorder, as data: each check with what was found and the one command that mends it.
//!
//! Looks only: mounts nothing, makes no instance, writes nothing. Putting checks into a listing is the face's work.

mod checks;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::counters::{PerfOpen, SystemPerf};
use super::instance::Machine;
use super::procfs::Proc;
use super::tracefs::HostView;

pub use checks::examine;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// As it should be.
    Ok,
    /// Works, with less.
    Limited,
    /// Does not work.
    Missing,
}

impl State {
    /// `ok`, `limited`, `missing`.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What, e.g. `tracefs`. Stable: scripts key on it.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, in words. May quote the machine's own bytes: print it through `names::printable`.
    pub found: String,
    /// What mends it: a command where one does. `None` when there is nothing to mend, or nothing that can be.
    pub mend: Option<String>,
}

/// What the recorder would be told; plain numbers, since this layer knows no configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Where tracefs is; `None`: find it.
    pub tracefs: Option<PathBuf>,
    /// Categories and `group/name`.
    pub events: Vec<String>,
    /// Ring buffers of all CPUs together, bytes.
    pub buffer_total: u64,
    /// Largest share of RAM for them, 0..=1.
    pub buffer_ram_share: f64,
    /// Bytes of a sub-buffer, where the kernel lets choose.
    pub sub_buffer: u64,
    /// Store directory.
    pub store: PathBuf,
    /// Segments are kept this long, …
    pub keep_time: Duration,
    /// … up to this many bytes, …
    pub keep_bytes: u64,
    /// … and this share of the disk stays free, 0..=1.
    pub keep_free: f64,
    /// Bytes a second of the recordings so far, if there are any.
    pub bytes_per_s: Option<f64>,
}

/// Space of a file system, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// In all.
    pub total: u64,
    /// That this user can still fill.
    pub free: u64,
}

/// The machine as far as the checks look at it. Every field can be made up in a test.
pub struct Host {
    /// Mounts, lockdown, user namespace, uid.
    pub view: HostView,
    /// RAM, online CPUs, kernel release.
    pub machine: Machine,
    /// procfs.
    pub proc: Proc,
    /// Effective capabilities, bit by number (capability.h).
    pub capabilities: u64,
    /// The store's file system, or that of its nearest parent that exists.
    pub disk: Option<Disk>,
    /// This user can write to the store, or make it.
    pub store_writable: bool,
    /// Opens hardware counters.
    pub perf: Box<dyn PerfOpen>,
}

impl Host {
    /// This machine, with a store at `store`.
    pub fn read(store: &Path) -> Host {
        let exists = store.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
        let stat = nix::sys::statvfs::statvfs(exists).ok();
        Host {
            view: HostView::read(),
            machine: Machine::read(),
            proc: Proc::system(),
            capabilities: effective_capabilities(),
            disk: stat.map(|s| Disk {
                total: s.blocks().saturating_mul(s.fragment_size()),
                free: s.blocks_available().saturating_mul(s.fragment_size()),
            }),
            store_writable: writable(exists),
            perf: Box::new(SystemPerf),
        }
    }
}

/// True if this process, with its rights as they are, may write there.
fn writable(path: &Path) -> bool {
    nix::unistd::eaccess(path, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// CapEff of /proc/self/status; 0 if it is not told.
fn effective_capabilities() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = text.lines().find_map(|l| l.strip_prefix("CapEff:"));
    hex.and_then(|h| u64::from_str_radix(h.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
