//! Why there is no instance, and what one lacks. Each says what, why, and the mend.

use std::io;
use std::path::PathBuf;

use crate::kernel::cpu_reader::ReadError;
use crate::kernel::events::UnknownWord;
use crate::kernel::format::FormatError;
use crate::kernel::instance_lock::Holder;
use crate::kernel::open_files::TooFewFiles;
use crate::kernel::tracefs::TracefsError;
use crate::names::printable;

/// Why there is no instance.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message speaks for the fields")]
pub enum InstanceError {
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error(transparent)]
    Events(#[from] UnknownWord),
    #[error(transparent)]
    TooFewFiles(#[from] TooFewFiles),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("tracefs instance `{}` cannot be used: the name must begin with `dashcam`, then letters, digits, - or _", printable(.name.as_bytes()))]
    BadName { name: String },
    #[error("tracefs instance `{name}` is in use by {}; stop it, or record under another instance name", named(.holder))]
    InUse { name: String, holder: Option<Holder> },
    #[error("none of the events asked for exists in this kernel: {}", .missing.join(" "))]
    NoEvents { missing: Vec<String> },
    #[error("{path}: {source}; dashcam does not know this kernel's tracefs")]
    Format { path: PathBuf, source: FormatError },
    #[error("tracefs: `{value}` could not be written to {path}: {source}")]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("tracefs: {path} could not be read: {source}")]
    ReadFile { path: PathBuf, source: io::Error },
    #[error(
        "tracefs instance {path} could not be made: {source}; the kernel needs CONFIG_TRACING and tracefs instances (3.10 or later)"
    )]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "tracefs instance {path} could not be removed: {source}; when nothing reads it any more: sudo rmdir {path}"
    )]
    Remove { path: PathBuf, source: io::Error },
}

fn named(holder: &Option<Holder>) -> String {
    holder.as_ref().map_or_else(|| "another process".to_owned(), Holder::to_string)
}

/// Something that is less than asked for and does not stop the recording; shown by status and doctor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message speaks for the fields")]
pub enum Note {
    #[error("clock {wanted} is refused by this kernel; {used} is used instead")]
    Clock { wanted: &'static str, used: &'static str },
    #[error("event {event} is not recorded: {why}")]
    MissingEvent { event: String, why: String },
    #[error("blocked functions are not recorded: the kernel refuses a stacktrace trigger on sched_switch ({why})")]
    NoStacks { why: String },
    #[error(
        "markers written to the top level's trace_marker are not seen (no options/copy_trace_marker before 6.12); write them to {path}"
    )]
    NoMarkerCopy { path: String },
    #[error("ring buffers are cut to {total_kb} KiB in all, the largest share of RAM allowed")]
    BufferCapped { total_kb: u64 },
    #[error("prev_state's layout is not in sched_switch's format; taken from the kernel release {release}")]
    StateLayoutGuessed { release: String },
}
