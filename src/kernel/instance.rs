//! Our own tracefs instance: made, set up, guarded, and removed again on every way out.
//!
//! Touches `instances/NAME` only. The top level's controls and other instances are never written. What a
//! SIGKILL left behind is found locked by nobody, emptied and made anew.

mod errors;
mod settings;

pub use errors::{InstanceError, Note};
pub use settings::{Blocked, Machine, NAME_PREFIX, Settings, TraceClock};

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::Flock;

use super::budget::{Budget, Shares, Wanted};
use super::controls::read_text;
use super::cpu_reader::CpuReader;
use super::events::{EventTable, expand, read_format};
use super::instance_lock::{Locked, lock, user_of};
use super::open_files;
use super::page::PageLayout;
use super::prev_state::layout_of;
use super::stats::CpuStats;
use super::tracefs::Tracefs;
use crate::sched::state::StateLayout;

/// A guarded instance. Dropping it stops it and removes it; [`Instance::close`] does the same and tells.
///
/// Readers must be dropped first: the kernel keeps an instance that is being read.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    name: String,
    dir: PathBuf,
    _lock: Flock<File>,
    layout: PageLayout,
    clock: TraceClock,
    events: EventTable,
    notes: Vec<Note>,
    machine: Machine,
    state_layout: StateLayout,
    percent: bool,
    copy_marker: bool,
    closed: bool,
}

impl Instance {
    /// Finds tracefs, makes the instance and sets it up. Nothing is recorded before [`Instance::start`].
    pub fn open(settings: &Settings) -> Result<Instance, InstanceError> {
        let tracefs = Tracefs::open(settings.tracefs.as_deref())?;
        Instance::open_in(tracefs, settings, Machine::read())
    }

    /// The same in a tracefs already found.
    pub fn open_in(tracefs: Tracefs, settings: &Settings, machine: Machine) -> Result<Instance, InstanceError> {
        let wanted = expand(&settings.events)?;
        let name = settings.name.clone();
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !plain || !name.starts_with(NAME_PREFIX) || name.len() > 64 {
            return Err(InstanceError::BadName { name });
        }
        let dir = tracefs.root().join("instances").join(&name);
        let lock = claim(&tracefs, &dir, &name)?;
        // From here on dropping `instance` removes it again.
        let mut instance = Instance {
            tracefs,
            name,
            dir,
            _lock: lock,
            layout: PageLayout::USUAL,
            clock: TraceClock::Global,
            events: EventTable::new(),
            notes: Vec::new(),
            state_layout: StateLayout::for_release(&machine.release),
            machine,
            percent: false,
            copy_marker: false,
            closed: false,
        };
        instance.write("tracing_on", "0")?;
        instance.choose_clock(&settings.clocks)?;
        instance.size_buffers(settings)?;
        instance.enable_events(&wanted)?;
        instance.record_stacks(settings.blocked);
        let marks = instance.events.find("ftrace", "print").is_some();
        instance.offer_marker_copy(settings.copy_trace_marker && marks);
        for note in &instance.notes {
            tracing::warn!("{note}");
        }
        Ok(instance)
    }

    /// Lets events in.
    pub fn start(&self) -> Result<(), InstanceError> {
        self.write("tracing_on", "1")?;
        // Last: with the option set and tracing off, every writer of the top level's trace_marker gets EBADF.
        if self.copy_marker { self.write("options/copy_trace_marker", "1") } else { Ok(()) }
    }

    /// Lets no more events in; what is in the buffers can still be read. Safe to call again.
    pub fn stop(&self) -> Result<(), InstanceError> {
        let copy = if self.copy_marker { self.write("options/copy_trace_marker", "0") } else { Ok(()) };
        self.write("tracing_on", "0").and(copy)
    }

    /// One reader per CPU that has a buffer, ascending ids, offline ones included (they may come).
    pub fn readers(&self) -> Result<Vec<CpuReader>, InstanceError> {
        let cpus = self.cpus()?;
        open_files::ensure(cpus.len() as u64)?;
        let offline: Vec<u32> = cpus.iter().copied().filter(|cpu| !self.machine.online.contains(cpu)).collect();
        if !offline.is_empty() {
            tracing::info!(cpus = ?offline, "CPUs that are offline; recorded as soon as they come");
        }
        let open = |cpu: u32| {
            let path = self.dir.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            CpuReader::open(&path, cpu, self.layout.sub_buffer_size())
        };
        Ok(cpus.into_iter().map(open).collect::<Result<_, _>>()?)
    }

    /// Ids of all CPUs that have a buffer, ascending.
    pub fn cpus(&self) -> Result<Vec<u32>, InstanceError> {
        let path = self.dir.join("per_cpu");
        let names = fs::read_dir(&path).map_err(|source| InstanceError::ReadFile { path, source })?;
        let id = |name: &str| name.strip_prefix("cpu")?.parse().ok();
        let mut cpus: Vec<u32> = names.flatten().filter_map(|e| id(e.file_name().to_str()?)).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// One CPU's counters.
    pub fn stats(&self, cpu: u32) -> Result<CpuStats, InstanceError> {
        Ok(CpuStats::parse(&self.read(&format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// Events that can occur, by id: those enabled, and `ftrace/print` and `ftrace/kernel_stack` where they come.
    pub fn events(&self) -> &EventTable {
        &self.events
    }

    /// The geometry of the sub-buffers.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// The clock of all times in the buffer.
    pub fn clock(&self) -> TraceClock {
        self.clock
    }

    /// How `prev_state` is to be read.
    pub fn state_layout(&self) -> StateLayout {
        self.state_layout
    }

    /// What is less than asked for.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where to write text that this instance shall record: the top level's file if that is copied, else its own.
    pub fn marker_path(&self) -> PathBuf {
        if self.copy_marker { self.tracefs.root().join("trace_marker") } else { self.dir.join("trace_marker") }
    }

    /// True if `cpu_reader::wait` may be given the readers (they have a fill mark).
    pub fn wakes_at_percent(&self) -> bool {
        self.percent
    }

    /// KiB of ring buffer of all CPUs, as the kernel says.
    pub fn buffer_kb(&self) -> Result<u64, InstanceError> {
        Ok(self.read("buffer_total_size_kb")?.split_ascii_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    /// Stops and removes the instance. All readers must be gone.
    pub fn close(mut self) -> Result<(), InstanceError> {
        self.shut()
    }

    fn choose_clock(&mut self, clocks: &[TraceClock]) -> Result<(), InstanceError> {
        let offered = self.read("trace_clock")?;
        let has =
            |clock: TraceClock| offered.split_ascii_whitespace().any(|w| w.trim_matches(['[', ']']) == clock.name());
        let mut refused = None;
        for &clock in clocks.iter().filter(|clock| has(**clock)) {
            match self.write("trace_clock", clock.name()) {
                Ok(()) => {
                    self.clock = clock;
                    if let Some(first) = clocks.first().filter(|first| **first != clock) {
                        self.notes.push(Note::Clock { wanted: first.name(), used: clock.name() });
                    }
                    return Ok(());
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| {
            let value = clocks.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ");
            let source = io::Error::from(io::ErrorKind::Unsupported);
            InstanceError::Write { path: self.dir.join("trace_clock"), value, source }
        }))
    }

    fn size_buffers(&mut self, settings: &Settings) -> Result<(), InstanceError> {
        let choosable = self.dir.join("buffer_subbuf_size_kb").exists();
        let wanted = Wanted {
            total: settings.buffer_total,
            ram_share: settings.buffer_ram_share,
            sub_buffer: if choosable { settings.sub_buffer } else { 0 },
        };
        let cpus = self.machine.online.len().max(1) as u32;
        let budget = Budget::share(&wanted, &Shares { ram: self.machine.ram, cpus });
        if budget.capped_by_ram {
            self.notes.push(Note::BufferCapped { total_kb: budget.total(cpus) / 1024 });
        }
        if choosable {
            // Large sub-buffers need contiguous memory: a kernel that has none left keeps the size it has.
            if let Err(error) = self.write("buffer_subbuf_size_kb", &(budget.sub_buffer / 1024).to_string()) {
                tracing::info!("sub-buffers keep their size: {error}");
            }
        }
        // One write for all CPUs: per CPU it would take seconds on large machines.
        self.write("buffer_size_kb", &budget.per_cpu_kb.to_string())?;
        if self.dir.join("buffer_percent").exists() {
            self.write("buffer_percent", &settings.wake_percent.min(100).to_string())?;
            self.percent = true;
        }
        // The instance's own, and only now: the top level's may say another size.
        let path = self.dir.join("events/header_page");
        let text = self.read("events/header_page")?;
        self.layout = PageLayout::parse(&text).map_err(|source| InstanceError::Format { path, source })?;
        Ok(())
    }

    fn enable_events(&mut self, wanted: &[(String, String)]) -> Result<(), InstanceError> {
        for (group, name) in wanted {
            let event = match read_format(&self.dir.join("events"), group, name) {
                Ok(event) => event,
                Err(error) => {
                    self.notes.push(Note::MissingEvent { event: format!("{group}/{name}"), why: error.to_string() });
                    continue;
                }
            };
            // Events of the group `ftrace` have no switch: they come with what causes them.
            if group != "ftrace" {
                self.write(&format!("events/{group}/{name}/enable"), "1")?;
            }
            self.events.insert(event);
        }
        if self.events.is_empty() {
            let missing = wanted.iter().map(|(group, name)| format!("{group}/{name}")).collect();
            return Err(InstanceError::NoEvents { missing });
        }
        if let Some(switch) = self.events.find("sched", "sched_switch") {
            match layout_of(&switch.format) {
                Some(layout) => self.state_layout = layout,
                None => self.notes.push(Note::StateLayoutGuessed { release: self.machine.release.clone() }),
            }
        }
        Ok(())
    }

    /// Asks for the kernel stack of each thread that goes to sleep.
    fn record_stacks(&mut self, blocked: Blocked) {
        if blocked == Blocked::Off || self.events.find("sched", "sched_switch").is_none() {
            return;
        }
        let mask = if blocked == Blocked::All { 3 } else { 2 };
        // Before 4.14 an idle kernel thread sleeps as TASK_UNINTERRUPTIBLE | TASK_NOLOAD: that is no wait.
        let idle = if self.state_layout == StateLayout::SINCE_4_14 { "" } else { " && prev_state != 1026" };
        let trigger = format!("stacktrace if prev_state & {mask}{idle}");
        let set = read_format(&self.dir.join("events"), "ftrace", "kernel_stack").map_err(|e| e.to_string()).and_then(
            |event| {
                let file = self.dir.join("events/sched/sched_switch/trigger");
                self.tracefs.controls().append(&file, &trigger).map_err(|e| e.to_string())?;
                Ok(event)
            },
        );
        match set {
            Ok(event) => self.events.insert(event),
            Err(why) => self.notes.push(Note::NoStacks { why }),
        }
    }

    fn offer_marker_copy(&mut self, wanted: bool) {
        if !wanted {
            return;
        }
        if self.dir.join("options/copy_trace_marker").exists() {
            self.copy_marker = true;
        } else {
            let path = self.dir.join("trace_marker").display().to_string();
            self.notes.push(Note::NoMarkerCopy { path });
        }
    }

    fn shut(&mut self) -> Result<(), InstanceError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let stopped = self.stop();
        match remove(&self.tracefs, &self.dir) {
            Ok(()) => stopped,
            Err(source) => {
                // It stays: let it at least cost nothing.
                for (file, value) in [("events/enable", "0"), ("buffer_size_kb", "1")] {
                    if let Err(error) = self.write(file, value) {
                        tracing::warn!("{error}");
                    }
                }
                Err(InstanceError::Remove { path: self.dir.clone(), source })
            }
        }
    }

    fn write(&self, file: &str, value: &str) -> Result<(), InstanceError> {
        write(&self.tracefs, &self.dir.join(file), value)
    }

    fn read(&self, file: &str) -> Result<String, InstanceError> {
        let path = self.dir.join(file);
        read_text(&path).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => self.tracefs.view().denied(&path).into(),
            _ => InstanceError::ReadFile { path, source },
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::warn!("{error}");
        }
    }
}

/// Makes the folder and locks it; what a killed recorder left under this name is removed first.
fn claim(tracefs: &Tracefs, dir: &Path, name: &str) -> Result<Flock<File>, InstanceError> {
    let in_use = |holder| InstanceError::InUse { name: name.to_owned(), holder };
    for _ in 0..CLAIM_TRIES {
        let made = match tracefs.controls().create_instance(dir) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(tracefs.view().denied(dir).into());
            }
            Err(source) => return Err(InstanceError::Create { path: dir.to_owned(), source }),
        };
        match lock(dir) {
            Ok(Locked::Ours(lock)) if made => return Ok(lock),
            Ok(Locked::Ours(_lock)) => {
                tracing::info!(instance = name, "removing what an earlier recorder left");
                // In this order, or writers of the top level's trace_marker get EBADF. Both may be missing or off.
                for option in ["options/copy_trace_marker", "tracing_on"] {
                    if dir.join(option).exists() {
                        write(tracefs, &dir.join(option), "0")?;
                    }
                }
                match remove(tracefs, dir) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(in_use(user_of(dir))),
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        return Err(InstanceError::Remove { path: dir.to_owned(), source });
                    }
                    _ => {}
                }
            }
            Ok(Locked::Taken(holder)) => return Err(in_use(holder)),
            Ok(Locked::Gone) => {}
            Err(source) => return Err(InstanceError::ReadFile { path: dir.to_owned(), source }),
        }
    }
    Err(in_use(None))
}

/// Two recorders that start at once can take turns in making and removing; one has won long before this.
const CLAIM_TRIES: u32 = 8;

/// Removes an instance, waiting up to a second for readers that are just closing.
fn remove(tracefs: &Tracefs, dir: &Path) -> io::Result<()> {
    const STEP: Duration = Duration::from_millis(20);
    for _ in 0..50 {
        match tracefs.controls().remove_instance(dir) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(STEP),
            done => return done,
        }
    }
    tracefs.controls().remove_instance(dir)
}

fn write(tracefs: &Tracefs, path: &Path, value: &str) -> Result<(), InstanceError> {
    tracefs.controls().write(path, value).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => tracefs.view().denied(path).into(),
        _ => InstanceError::Write { path: path.to_owned(), value: value.to_owned(), source },
    })
}

#[cfg(test)]
mod tests;
