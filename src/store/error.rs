//! What can go wrong with files, in words that name the file, the cause and the mend.

use super::footer::FormatVersion;
use super::lock::Holder;
use crate::names::printable;
use crate::units::show::span_words;
use nix::unistd::{Gid, Group, Uid, User, geteuid};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Everything the store reports. Paths are shown with control characters escaped.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {what} {}: {source}", shown(path))]
    Io {
        /// The verb: "open", "write", "rename", …
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This user may not read it.
    #[error("cannot {what} {}: permission denied: {mend}", shown(path))]
    Denied {
        /// The verb: "open", "read", "list".
        what: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// Who may, and what to do.
        mend: String,
    },
    /// The disk (or the quota) is full. The file was cut back to its last whole frame; writing can be tried again.
    #[error(
        "no space left while writing {}: free some space, delete snapshots, or lower store.keep_bytes",
        shown(path)
    )]
    NoSpace {
        /// The file being written.
        path: PathBuf,
    },
    /// Part of a file is not what was written.
    #[error("{}: {damage}", shown(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and what.
        damage: Damage,
    },
    /// The file was written by a later dashcam whose format this one cannot know.
    #[error(
        "{}: format {found} is newer than this dashcam reads ({}.x): use a newer dashcam",
        shown(path),
        FormatVersion::CURRENT.major
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: FormatVersion,
    },
    /// Another recorder writes into this store.
    #[error("{} is in use by {holder}: stop that recorder, or record elsewhere with --dir", shown(path))]
    Locked {
        /// The store.
        path: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// A store cannot be made there.
    #[error("cannot make folder {}: {source}; record elsewhere with --dir", shown(path))]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is nothing of that name.
    #[error("{}: no such file or directory (another store: --dir DIR)", shown(path))]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// There is no store here.
    #[error("{} is not a dashcam store: it has no segments/ folder; name another with --dir", shown(path))]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// The asked window holds nothing.
    #[error(
        "{} holds nothing of the {} asked for; `dashcam segments` lists what there is",
        shown(path),
        span_words(to.saturating_sub(*from))
    )]
    EmptyWindow {
        /// The store.
        path: PathBuf,
        /// Asked begin, ns on CLOCK_BOOTTIME.
        from: u64,
        /// Asked end, ns on CLOCK_BOOTTIME.
        to: u64,
    },
}

impl StoreError {
    /// The answer of a system call that was to read `path`.
    pub fn reading(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return StoreError::Missing { path: path.to_owned() };
        }
        Self::io("read", path, source)
    }

    /// Wraps the answer of a system call; a full disk or quota becomes [`StoreError::NoSpace`].
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        let denied = source.kind() == io::ErrorKind::PermissionDenied && matches!(what, "open" | "read" | "list");
        match source.kind() {
            _ if denied && !geteuid().is_root() => {
                StoreError::Denied { what, path: path.to_owned(), mend: who_may(path) }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::NoSpace { path: path.to_owned() },
            _ => StoreError::Io { what, path: path.to_owned(), source },
        }
    }

    pub(super) fn damaged(path: &Path, offset: u64, kind: DamageKind) -> Self {
        StoreError::Damaged { path: path.to_owned(), damage: Damage { offset, kind } }
    }

    /// True when trying again later can succeed without anybody changing the request.
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::NoSpace { .. })
    }

    /// True when what was to be opened, or the folder it is in, is not there.
    pub fn is_missing(&self) -> bool {
        match self {
            StoreError::Missing { .. } => true,
            StoreError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Where a file stops being whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {kind}")]
pub struct Damage {
    /// Byte offset in the file of the first zstd frame that is not whole.
    pub offset: u64,
    /// What is wrong there.
    pub kind: DamageKind,
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// The file ends inside a zstd frame.
    #[error("the file ends inside a zstd frame")]
    Cut,
    /// No zstd frame starts here.
    #[error("no zstd frame starts here")]
    NotAFrame,
    /// The zstd frame does not decompress.
    #[error("the zstd frame does not decompress")]
    Corrupt,
    /// The content does not match the checksum.
    #[error("wrong checksum")]
    Checksum,
    /// The frame claims more content than the limit, or there are too many frames.
    #[error("more than {} MiB in one zstd frame, or too many frames", super::frame::MAX_RAW >> 20)]
    TooLarge,
    /// The footer contradicts itself or the file.
    #[error("the footer does not fit the file")]
    Footer,
    /// The footer tells a number that the frames do not bear out.
    #[error("the footer says {footer} {what}, the frames hold {found}")]
    Disagrees {
        /// Of what: "events", "lost events", …
        what: &'static str,
        /// As the footer has it.
        footer: u64,
        /// Recounted.
        found: u64,
    },
    /// A finished file without a footer.
    #[error("the footer is missing, so the file was cut off here, or dashcam did not write it")]
    NoFooter,
    /// A finished file of no bytes.
    #[error("the file is empty")]
    Empty,
}

/// Who may read `path`, as far as this user can see, and how to become one of them.
fn who_may(path: &Path) -> String {
    // Of what lies in a closed folder nothing can be seen: then the folder is what denies.
    let seen = path.ancestors().find_map(|p| Some((p, fs::metadata(p).ok()?)));
    let Some((path, meta)) = seen else { return "use sudo".to_owned() };
    let user = User::from_uid(Uid::from_raw(meta.uid())).ok().flatten();
    let user = user.map_or_else(|| format!("user {}", meta.uid()), |u| u.name);
    let group = Group::from_gid(Gid::from_raw(meta.gid())).ok().flatten();
    let group = group.map_or_else(|| meta.gid().to_string(), |g| g.name);
    let needed = if meta.is_dir() { 0o050 } else { 0o040 };
    let (user, group) = (printable(user.as_bytes()), printable(group.as_bytes()));
    let path = shown(path);
    match meta.mode() & needed == needed && meta.gid() != 0 {
        true => format!("{path} is for {user} and the group {group}: use sudo, or join that group"),
        false => format!("{path} is for {user} alone: use sudo, or have it given to a group of yours"),
    }
}

/// A path as text that is safe on a terminal.
pub(super) fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_may_read_is_told_by_the_nearest_that_can_be_seen() {
        let dir = tempfile::tempdir().unwrap();
        let meta = fs::metadata(dir.path()).unwrap();
        let user = User::from_uid(Uid::from_raw(meta.uid())).unwrap().map(|u| u.name);
        let user = user.unwrap_or_else(|| format!("user {}", meta.uid()));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let shown = dir.path().display();
        let said = who_may(&dir.path().join("segments/x"));
        assert_eq!(said, format!("{shown} is for {user} alone: use sudo, or have it given to a group of yours"));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let group = Group::from_gid(Gid::from_raw(meta.gid())).unwrap().map(|g| g.name);
        let group = group.unwrap_or_else(|| meta.gid().to_string());
        let expected = match meta.gid() {
            0 => said, // root's own group is nobody else
            _ => format!("{shown} is for {user} and the group {group}: use sudo, or join that group"),
        };
        assert_eq!(who_may(dir.path()), expected);
    }
}
