//! The store's folder: what lies where, with which rights, and how much of the disk it takes.
//!
//! `segments/` and `snapshots/` (0750), `recorder.lock`, and `sequence`, the last number given. Knows no
//! file's content.

use super::error::StoreError;
use super::name::{NO_SEQUENCE, SegmentName, misnamed};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Rights of the folders: the recorder's user, and the group that may look.
const DIR_MODE: u32 = 0o750;
/// Rights of segments and snapshots.
pub const FILE_MODE: u32 = 0o640;

/// A store's folder. Cheap to clone; holds no file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// A file of the store, by name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Where.
    pub path: PathBuf,
    /// What its name says.
    pub name: SegmentName,
}

/// What the store takes and what the disk has left, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Taken by finished segments and the growing one (blocks really allocated).
    pub segments: u64,
    /// Taken by snapshots.
    pub snapshots: u64,
    /// Free for an unprivileged writer on that file system.
    pub free: u64,
    /// Size of that file system.
    pub total: u64,
}

impl Store {
    /// The store that is, or could be, at `root`; looks at nothing.
    pub(super) fn at(root: &Path) -> Self {
        Store { root: root.to_owned() }
    }

    /// Opens `root`, making it and its folders where they lack.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        let store = Store::at(root);
        for dir in [root.to_owned(), store.segments_dir(), store.snapshots_dir()] {
            let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(&dir);
            made.map_err(|e| match StoreError::io("make folder", &dir, e) {
                StoreError::Io { path, source, .. } => StoreError::NoFolder { path, source },
                full => full,
            })?;
        }
        Ok(store)
    }

    /// Opens an existing store for reading; makes nothing.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Store::at(root);
        match fs::metadata(store.segments_dir()) {
            Ok(m) if m.is_dir() => Ok(store),
            Ok(_) => Err(StoreError::NoStore { path: root.to_owned() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.kind() == io::ErrorKind::NotADirectory => {
                let path = root.to_owned();
                let there = fs::symlink_metadata(root).is_ok();
                Err(if there { StoreError::NoStore { path } } else { StoreError::Missing { path } })
            }
            Err(e) => {
                // A file in a folder that is closed to this user cannot be told from a store.
                let hidden = fs::symlink_metadata(root).is_err();
                Err(StoreError::io("open", &if hidden { root.to_owned() } else { store.segments_dir() }, e))
            }
        }
    }

    /// The store's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where segments are.
    pub fn segments_dir(&self) -> PathBuf {
        self.root.join("segments")
    }

    /// Where snapshots are.
    pub fn snapshots_dir(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// The lock file of the one recorder.
    pub fn lock_path(&self) -> PathBuf {
        self.root.join("recorder.lock")
    }

    /// Segments by sequence number, growing ones included. Files that are not ours are left out.
    pub fn segments(&self) -> Result<Vec<StoredFile>, StoreError> {
        list(&self.segments_dir())
    }

    /// Snapshots by sequence number, half-written ones (`.part`) included; none when the folder lacks.
    pub fn snapshots(&self) -> Result<Vec<StoredFile>, StoreError> {
        list(&self.snapshots_dir())
    }

    /// Recorded files that are left out since no recorder gave them their names, each with why; none in a folder that cannot
    /// be listed, which is told elsewhere.
    pub fn misnamed(&self) -> Vec<(PathBuf, &'static str)> {
        let dirs = [self.segments_dir(), self.snapshots_dir()];
        let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().filter_map(Result::ok);
        let mut found: Vec<(PathBuf, &'static str)> =
            entries.filter_map(|e| Some((e.path(), misnamed(&e.file_name().to_string_lossy())?))).collect();
        found.sort();
        found
    }

    /// What is really on disk now.
    pub fn disk_usage(&self) -> Result<DiskUsage, StoreError> {
        let stat = nix::sys::statvfs::statvfs(&self.root)
            .map_err(|e| StoreError::io("ask free space of", &self.root, e.into()))?;
        Ok(DiskUsage {
            segments: self.segments()?.iter().map(|f| bytes_on_disk(&f.path)).sum(),
            snapshots: self.snapshots()?.iter().map(|f| bytes_on_disk(&f.path)).sum(),
            free: stat.blocks_available().saturating_mul(stat.fragment_size()),
            total: stat.blocks().saturating_mul(stat.fragment_size()),
        })
    }

    /// A number that no file of this store has had. Works from several processes at once; survives the deletion
    /// of every file through the `sequence` file, and the loss of that file through the names that are left.
    pub fn next_sequence(&self) -> Result<u64, StoreError> {
        let path = self.root.join("sequence");
        let io = |what| move |e: io::Error| StoreError::io(what, &self.root.join("sequence"), e);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
        let file = match file {
            Ok(file) => file,
            // A full disk cannot even hold the new state file; the names still tell.
            Err(e) if e.kind() == io::ErrorKind::StorageFull => return Ok(self.highest_in_names()? + 1),
            Err(e) => return Err(StoreError::io("write to", &path, e)),
        };
        let locked = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive)
            .map_err(|(_, e)| StoreError::io("lock", &path, e.into()))?;
        let noted = read_number(&locked).map_err(io("read"))?;
        let next = noted.unwrap_or(0).max(self.highest_in_names()?) + 1;
        match write_number(&locked, next) {
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Ok(next),
            other => other.map(|()| next).map_err(io("write")),
        }
    }

    fn highest_in_names(&self) -> Result<u64, StoreError> {
        // One far off that somebody else gave must not use up what is left.
        let counted = |f: &&StoredFile| f.name.sequence < NO_SEQUENCE / 2;
        let last = |files: Vec<StoredFile>| files.iter().rfind(counted).map_or(0, |f| f.name.sequence);
        Ok(last(self.segments()?).max(last(self.snapshots()?)))
    }
}

/// Twenty digits and a newline, always the same length: a crash cannot leave a longer old tail behind a shorter number.
fn write_number(mut file: &File, number: u64) -> io::Result<()> {
    use std::io::{Seek, Write};
    file.rewind()?;
    file.write_all(format!("{number:020}\n").as_bytes())
}

fn read_number(file: &File) -> io::Result<Option<u64>> {
    use std::io::Read;
    let mut text = String::new();
    // Garbage counts as lost: the names are asked anyway.
    match file.take(64).read_to_string(&mut text) {
        Ok(_) => Ok(text.trim().parse().ok().filter(|&n: &u64| n < NO_SEQUENCE)),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(e) => Err(e),
    }
}

fn list(dir: &Path) -> Result<Vec<StoredFile>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", dir, e)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io("list", dir, e))?;
        if let Some(name) = entry.file_name().to_str().and_then(SegmentName::parse) {
            files.push(StoredFile { path: entry.path(), name });
        }
    }
    files.sort_by_key(|f| (f.name.sequence, f.name.part));
    Ok(files)
}

/// Bytes a file takes on disk (0 once it is gone). `st_blocks` counts 512-byte units whatever the block size (stat(2)).
pub fn bytes_on_disk(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |m| m.blocks().saturating_mul(512))
}

/// Opens a recorded file for reading. Anything but a regular file is refused at once: a FIFO that somebody left in the
/// store must not hold up everybody who lists it. A growing segment that got its final name since it was listed is
/// found under that.
pub fn open_recorded(path: &Path) -> io::Result<File> {
    let open = |path: &Path| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.extension().is_some_and(|x| x == "part") => {
            open(&path.with_extension(""))?
        }
        other => other?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// False for what stands under a segment's name and is no file: nobody will ever write there. A file that is gone since it
/// was listed may have got its final name.
pub(super) fn may_be_file(path: &Path) -> bool {
    fs::metadata(path).map_or_else(|_| fs::symlink_metadata(path).is_err(), |meta| meta.is_file())
}

/// Makes a rename or a new name in `dir` survive a power cut.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync folder", dir, e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_fifo_is_refused_at_once_and_a_finished_segment_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(open_recorded(&fifo).unwrap_err().to_string(), "not a regular file");
        assert!(open_recorded(Path::new("/dev/zero")).is_err());
        fs::write(dir.path().join("a.pftrace.zst"), b"x").unwrap();
        assert!(open_recorded(&dir.path().join("a.pftrace.zst.part")).is_ok(), "renamed since it was listed");
        let gone = open_recorded(&dir.path().join("b.pftrace.zst.part")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn folders_are_made_with_the_rights_of_the_design() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("a/b");
        assert!(matches!(Store::open(&root), Err(StoreError::Missing { .. })));
        assert!(matches!(Store::open(tmp.path()), Err(StoreError::NoStore { .. })));
        let store = Store::create(&root).unwrap();
        let mode = fs::metadata(store.segments_dir()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !0o750, 0, "never more than 0750, whatever the umask");
        assert_eq!(Store::open(&root).unwrap(), store);
        assert_eq!(Store::create(&root).unwrap(), store, "making it again changes nothing");
    }

    #[test]
    fn sequence_numbers_are_never_reused() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        assert_eq!(store.next_sequence().unwrap(), 1);
        assert_eq!(store.next_sequence().unwrap(), 2);
        // The state file is lost: names of segments and snapshots still tell.
        fs::remove_file(tmp.path().join("sequence")).unwrap();
        fs::write(store.segments_dir().join("20261130T115500Z-000007.pftrace.zst"), b"").unwrap();
        fs::write(store.snapshots_dir().join("20261130T115500Z-000009-x.pftrace.zst.part"), b"").unwrap();
        assert_eq!(store.next_sequence().unwrap(), 10);
        for far in [u64::MAX, u64::MAX / 2 - 1] {
            fs::write(store.segments_dir().join(format!("20261130T115500Z-{far}.pftrace.zst")), b"").unwrap();
        }
        // Every file is deleted: the state file still tells.
        fs::remove_file(store.segments_dir().join("20261130T115500Z-000007.pftrace.zst")).unwrap();
        fs::remove_file(store.snapshots_dir().join("20261130T115500Z-000009-x.pftrace.zst.part")).unwrap();
        assert_eq!(store.next_sequence().unwrap(), 11);
        // Garbage in it is the same as losing it.
        fs::write(tmp.path().join("sequence"), b"\xff\xfe\x00 12").unwrap();
        assert_eq!(store.next_sequence().unwrap(), 1);
    }

    #[test]
    fn files_list_by_number_and_foreign_files_are_left_out() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        for name in
            ["20261130T125500Z-000003.pftrace.zst", "20261130T135500Z-000002.pftrace.zst", "core", "x.pftrace.zst"]
        {
            fs::write(store.segments_dir().join(name), b"x").unwrap();
        }
        let numbers: Vec<u64> = store.segments().unwrap().iter().map(|f| f.name.sequence).collect();
        assert_eq!(numbers, [2, 3], "by number, not by the wall clock in the name");
    }
}
