//! Where scheduling comes from: our tracefs instance, or procfs where that cannot be had.
//!
//! What the two have in common for the rest of the recorder: what they are called, what the operator must know, where
//! markers go, how they end. Their capture paths are put together in [`super::setup`].

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::clock;
use super::sampling::FULL_RATE;
use super::settings::{self, Blocked, Capture};
use crate::kernel::cpu_reader::{CpuReader, ReadOutcome};
use crate::kernel::instance::{self, Instance, InstanceError};
use crate::kernel::tracefs::TracefsError;
use crate::sched::marks::{self, Marker};
use crate::store::footer::Mark;

/// Markers that may wait for the next look at procfs.
const MARKS: usize = 1024;

/// See the module.
pub(super) enum Origin {
    /// The kernel's ring buffers.
    Ftrace(Arc<Instance>),
    /// Looks at procfs.
    Proc {
        /// Why it is not ftrace, and the mend; `None`: it was asked for.
        why: Option<String>,
        /// Markers on their way to the next look.
        marks: (Sender<Mark>, Receiver<Mark>),
    },
}

impl Origin {
    /// Sets up what the settings ask for, and opens the ring buffers (none where procfs is sampled). Nothing is recorded
    /// yet.
    ///
    /// # Errors
    /// Without ftrace only if the settings insist on it, or if what stands in the way is a mistake in them.
    pub(super) fn open(capture: &Capture) -> Result<(Origin, Vec<CpuReader>), InstanceError> {
        Origin::choose(capture, || Instance::open(&instance_settings(capture)))
    }

    fn choose(
        capture: &Capture,
        open: impl FnOnce() -> Result<Instance, InstanceError>,
    ) -> Result<(Origin, Vec<CpuReader>), InstanceError> {
        match capture.source {
            settings::Source::Proc => return Ok((Origin::sampling(None), Vec::new())),
            settings::Source::Auto | settings::Source::Ftrace => {}
        }
        // An instance whose buffers may not be read is of no use: it is removed again, and procfs takes its place.
        let opened = open().and_then(|instance| {
            let readers = readable(&instance)?;
            Ok((Origin::Ftrace(Arc::new(instance)), readers))
        });
        match opened {
            Err(error) if capture.source == settings::Source::Auto && is_the_machines(&error) => {
                let why = error.to_string();
                tracing::warn!("sampling /proc at {FULL_RATE} Hz instead of tracing: {why}");
                Ok((Origin::sampling(Some(why)), Vec::new()))
            }
            opened => opened,
        }
    }

    fn sampling(why: Option<String>) -> Origin {
        Origin::Proc { why, marks: bounded(MARKS) }
    }

    /// `ftrace` or `proc`.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Origin::Ftrace(_) => "ftrace",
            Origin::Proc { .. } => "proc",
        }
    }

    /// In words: `ftrace`, or `proc, sampled 20 Hz`.
    pub(super) fn describe(&self, hz: Option<u32>) -> String {
        match self {
            Origin::Ftrace(_) => self.word().to_owned(),
            Origin::Proc { .. } => format!("{}, sampled {} Hz", self.word(), hz.unwrap_or(FULL_RATE)),
        }
    }

    /// The clock that what is recorded is stamped with.
    pub(super) fn clock(&self) -> &'static str {
        match self {
            Origin::Ftrace(instance) => instance.clock().name(),
            Origin::Proc { .. } => "boot",
        }
    }

    /// Name of the tracefs instance; empty without one.
    pub(super) fn instance_name(&self) -> &str {
        match self {
            Origin::Ftrace(instance) => instance.name(),
            Origin::Proc { .. } => "",
        }
    }

    /// What is less than asked for.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Origin::Ftrace(instance) => instance.notes().iter().map(ToString::to_string).collect(),
            Origin::Proc { why, .. } => why.iter().cloned().collect(),
        }
    }

    /// The same for a screen, with the present rate of looks.
    pub(super) fn warnings(&self, hz: Option<u32>) -> Vec<String> {
        match self {
            Origin::Ftrace(_) => self.notes(),
            Origin::Proc { why, .. } => {
                why.iter().map(|why| format!("sampled {} Hz: {why}", hz.unwrap_or(FULL_RATE))).collect()
            }
        }
    }

    /// Events that are recorded, `group/name`.
    pub(super) fn events(&self) -> Vec<String> {
        match self {
            Origin::Ftrace(instance) => instance.events().iter().map(|e| e.path()).collect(),
            Origin::Proc { .. } => Vec::new(),
        }
    }

    /// Kernel stacks come in, which need symbols.
    pub(super) fn has_stacks(&self) -> bool {
        matches!(self, Origin::Ftrace(i) if i.events().find("ftrace", "kernel_stack").is_some())
    }

    /// Ring buffers of all CPUs together, KiB.
    pub(super) fn buffer_kb(&self) -> u64 {
        match self {
            Origin::Ftrace(instance) => instance.buffer_kb().unwrap_or(0),
            Origin::Proc { .. } => 0,
        }
    }

    /// Writes a user marker: through the instance's own file, or with the next look.
    pub(super) fn mark(&self, text: &str) -> Result<(), String> {
        let text = text.trim_end_matches('\n');
        let instance = match self {
            Origin::Ftrace(instance) => instance,
            Origin::Proc { marks, .. } => {
                let mark = Mark { ts: clock::boot_now(), text: text.as_bytes().to_vec() };
                return marks.0.try_send(mark).map_err(|_| "too many markers at once; try again".to_owned());
            }
        };
        if instance.events().find("ftrace", "print").is_none() {
            return Err("markers are not recorded: add \"mark\" to capture.events".into());
        }
        let path = instance.dir().join("trace_marker");
        let line = marker_line(text);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut f| io::Write::write_all(&mut f, line.as_bytes()))
            .map_err(|e| format!("cannot write to {}: {e}", path.display()))
    }

    /// No more events come in from here on.
    pub(super) fn stop(&self) -> Result<(), InstanceError> {
        match self {
            Origin::Ftrace(instance) => instance.stop(),
            Origin::Proc { .. } => Ok(()),
        }
    }

    /// Leaves the kernel as it was found.
    pub(super) fn close(self) -> Result<(), InstanceError> {
        match self {
            Origin::Ftrace(instance) => match Arc::try_unwrap(instance) {
                Ok(instance) => instance.close(),
                // Every other holder was a thread that has ended; dropping the last one closes it all the same.
                Err(_) => Ok(()),
            },
            Origin::Proc { .. } => Ok(()),
        }
    }
}

/// Opens the ring buffers and reads the first that is online once: what lets open may still refuse to read. Tracing is off
/// and the buffers are empty, so nothing is taken out of them.
fn readable(instance: &Instance) -> Result<Vec<CpuReader>, InstanceError> {
    let mut readers = instance.readers()?;
    let mut page = vec![0; instance.layout().sub_buffer_size()];
    for reader in &mut readers {
        if reader.read(&mut page)? != ReadOutcome::Offline {
            break;
        }
    }
    Ok(readers)
}

/// True where the machine, not the settings, stands in the way: then a look at procfs is what can be had.
fn is_the_machines(error: &InstanceError) -> bool {
    match error {
        InstanceError::Tracefs(TracefsError::NotTracefs { .. })
        | InstanceError::Events(_)
        | InstanceError::BadName { .. }
        | InstanceError::InUse { .. }
        | InstanceError::NoEvents { .. }
        | InstanceError::TooFewFiles(_) => false,
        InstanceError::Tracefs(_)
        | InstanceError::Read(_)
        | InstanceError::Format { .. }
        | InstanceError::Write { .. }
        | InstanceError::ReadFile { .. }
        | InstanceError::Create { .. }
        | InstanceError::Remove { .. } => true,
    }
}

fn instance_settings(capture: &Capture) -> instance::Settings {
    instance::Settings {
        name: capture.instance.clone(),
        tracefs: capture.tracefs.clone(),
        events: capture.events.clone(),
        buffer_total: capture.buffer_total,
        buffer_ram_share: capture.buffer_ram_share,
        blocked: match capture.blocked {
            Blocked::Uninterruptible => instance::Blocked::Uninterruptible,
            Blocked::All => instance::Blocked::All,
            Blocked::Off => instance::Blocked::Off,
        },
        copy_trace_marker: capture.copy_marker,
        ..instance::Settings::default()
    }
}

/// What is written for a marker: plain words as an instant in atrace's form, which Perfetto's UI shows, too.
fn marker_line(text: &str) -> String {
    match marks::parse(text.as_bytes()) {
        Marker::Instant { name } if name == text.as_bytes() => format!("I|{}|{text}\n", std::process::id()),
        _ => format!("{text}\n"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::kernel::testing::{FakeOptions, FakeTracefs};
    use crate::recorder::settings::Settings;

    #[test]
    fn sampling_that_was_asked_for_is_no_warning_and_sampling_instead_says_why() {
        let capture = Capture { source: settings::Source::Proc, ..Settings::default().capture };
        let (origin, readers) = Origin::open(&capture).unwrap();
        assert!(readers.is_empty());
        assert_eq!((origin.describe(Some(10)), origin.warnings(Some(10))), ("proc, sampled 10 Hz".into(), vec![]));
        let origin = Origin::sampling(Some("no rights to /x; run as root: sudo dashcam …".into()));
        assert_eq!(origin.warnings(None), ["sampled 20 Hz: no rights to /x; run as root: sudo dashcam …"]);
    }

    #[test]
    fn a_mistake_in_the_settings_is_told_and_not_covered_up() {
        let dir = tempfile::tempdir().unwrap();
        let capture = Capture { tracefs: Some(dir.path().to_owned()), ..Settings::default().capture };
        assert_eq!(capture.source, settings::Source::Auto);
        let error = Origin::open(&capture).err().unwrap();
        assert!(error.to_string().contains("is no tracefs"), "{error}");
        assert!(is_the_machines(&InstanceError::Tracefs(TracefsError::UserNamespace)));
        assert!(!is_the_machines(&InstanceError::InUse { name: "dashcam".into(), holder: None }));
    }

    /// An instance in a fake tracefs; `spoil` is shown the ring-buffer file of its CPU 0.
    fn fake(spoil: impl FnOnce(&std::path::Path)) -> (tempfile::TempDir, FakeTracefs, Result<Instance, InstanceError>) {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeTracefs::build(dir.path(), FakeOptions::default()).unwrap();
        let machine = instance::Machine { ram: 1 << 30, online: vec![0, 1], release: "6.18.0".into() };
        let opened = Instance::open_in(fake.tracefs(), &instance::Settings::default(), machine);
        spoil(&dir.path().join("instances/dashcam/per_cpu/cpu0/trace_pipe_raw"));
        (dir, fake, opened)
    }

    #[test]
    fn ring_buffers_that_may_not_be_opened_or_read_leave_sampling_and_no_instance() {
        // Opening fails, as where a security module says no.
        let refuse_open = |file: &std::path::Path| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink(file, file).unwrap();
        };
        // Opening works and reading fails: a folder can be opened, and answers EISDIR.
        let refuse_read = |file: &std::path::Path| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        };
        for refuse in [&refuse_open as &dyn Fn(&std::path::Path), &refuse_read] {
            for source in [settings::Source::Auto, settings::Source::Ftrace] {
                let (_dir, tracefs, opened) = fake(refuse);
                let capture = Capture { source, ..Settings::default().capture };
                let chosen = Origin::choose(&capture, || opened);
                let last = tracefs.changes().pop().unwrap();
                assert!(last.0.ends_with("instances/dashcam") && last.1 == "rmdir", "{last:?}");
                if source == settings::Source::Ftrace {
                    let error = chosen.err().unwrap().to_string();
                    assert!(error.contains("cpu 0: the ring buffer cannot be read"), "{error}");
                    continue;
                }
                let (origin, readers) = chosen.unwrap();
                assert_eq!((origin.word(), readers.len()), ("proc", 0));
                assert!(
                    origin.warnings(None)[0].contains("the ring buffer cannot be read"),
                    "{:?}",
                    origin.warnings(None)
                );
            }
        }
        let (_dir, _tracefs, opened) = fake(|_| {});
        let (origin, readers) = Origin::choose(&Settings::default().capture, || opened).unwrap();
        assert_eq!((origin.word(), readers.len()), ("ftrace", 2));
    }

    #[test]
    fn plain_words_become_an_instant_and_atraces_forms_stay() {
        let line = marker_line("step 1|a");
        assert_eq!(line, format!("I|{}|step 1|a\n", std::process::id()));
        assert_eq!(marks::parse(line.as_bytes()), Marker::Instant { name: b"step 1|a" });
        for text in ["B|12|step", "E|12", "C|12|queue|3", "I|12|now"] {
            assert_eq!(marker_line(text), format!("{text}\n"));
        }
    }

    #[test]
    fn markers_wait_for_the_next_look_and_never_without_bound() {
        let origin = Origin::sampling(None);
        origin.mark("step 1\n").unwrap();
        let Origin::Proc { marks, .. } = &origin else { panic!("not sampled") };
        assert_eq!(marks.1.try_recv().unwrap().text, b"step 1");
        (0..MARKS).for_each(|_| origin.mark("x").unwrap());
        assert!(origin.mark("x").unwrap_err().contains("too many"));
    }
}
