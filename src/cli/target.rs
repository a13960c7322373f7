//! Files that a command is told to write: looked at before the work begins, and put in place whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{AccessFlags, eaccess};

use super::failed;
use crate::names::printable;

/// Whether a file can be written at `path`; what stands there already will be replaced.
///
/// # Errors
/// It is a folder, or its folder lacks or takes no files from this user; or it is a device or a socket that takes no file.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let shown = shown(path);
    let there = fs::metadata(path);
    if there.as_ref().is_ok_and(fs::Metadata::is_dir) || names_a_folder(path) {
        let folder = shown.trim_end_matches('/');
        return Err(failed(format!("{shown} is a folder: name a file in it, such as {folder}/incident.pftrace.zst")));
    }
    if there.is_err() && fs::symlink_metadata(path).is_ok() {
        return Err(failed(format!(
            "cannot write {shown}: it is a symbolic link that leads nowhere; name another file"
        )));
    }
    // A pipe or /dev/null is written to as it stands.
    if let Some(meta) = there.ok().filter(|m| !m.is_file()) {
        let kind = meta.file_type();
        if kind.is_socket() || kind.is_block_device() {
            return Err(failed(format!("cannot write {shown}: it is {}; name a file", called(kind))));
        }
        return eaccess(path, AccessFlags::W_OK).with_context(|| format!("cannot write to {shown}"));
    }
    let folder = folder(&real(path)?)?;
    match fs::metadata(&folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(failed(format!("cannot write {shown}: {} is no folder", self::shown(&folder)))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = self::shown(&folder);
            return Err(failed(format!("cannot write {shown}: there is no folder {folder}; make it, or name another")));
        }
        Err(e) => return Err(e).with_context(|| format!("cannot write {shown}")),
    }
    eaccess(&folder, AccessFlags::W_OK | AccessFlags::X_OK)
        .with_context(|| format!("cannot write {shown}: its folder takes no files from you"))
}

/// The same for what is renamed into place: that would put a file where a device or a pipe was. Gives back where the file
/// goes, which is where a symbolic link leads to.
///
/// # Errors
/// Those of [`check`], and whatever is there and is no file.
pub fn file(path: &Path) -> anyhow::Result<PathBuf> {
    check(path)?;
    refuse_no_file(path)?;
    Ok(real(path)?)
}

/// Renames `from` to `to`, unless something that is no file came there meanwhile.
///
/// # Errors
/// It did, or the file system says no.
pub fn put(from: &Path, to: &Path) -> anyhow::Result<()> {
    refuse_no_file(to)?;
    fs::rename(from, to).with_context(|| format!("cannot write {}", shown(to)))
}

fn refuse_no_file(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            Err(failed(format!("cannot write {}: it is {}; name a file", shown(path), called(meta.file_type()))))
        }
        _ => Ok(()),
    }
}

/// Whether writing at `path` leaves alone what is read: the files and stores of `read`.
///
/// # Errors
/// It is one of them, under whatever name, or lies in one.
pub fn apart(path: &Path, read: &[PathBuf]) -> anyhow::Result<()> {
    let id = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let there = id(path);
    let folder = folder(&real(path)?)?.canonicalize().unwrap_or_default();
    for source in read {
        let root = source.canonicalize().unwrap_or_default();
        // New files may lie beside a store's own folders, not in them.
        let inside = |part: &str| folder.starts_with(root.join(part));
        let why = if there.is_some() && there == id(source) {
            format!("it is what is read ({})", shown(source))
        } else if source.is_dir() && (inside("segments") || inside("snapshots") || (there.is_some() && inside(""))) {
            format!("it lies in the store that is read ({})", shown(source))
        } else {
            continue;
        };
        return Err(failed(format!("cannot write {}: {why}; name a file elsewhere", shown(path))));
    }
    Ok(())
}

/// What is not a file, in words.
fn called(kind: fs::FileType) -> &'static str {
    match kind {
        k if k.is_dir() => "a folder",
        k if k.is_fifo() => "a pipe",
        k if k.is_socket() => "a socket",
        _ => "a device",
    }
}

/// Copies `from` to `to`, seen there only when it is whole.
///
/// # Errors
/// It cannot be read or written; nothing of it is left at `to` then.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if fs::metadata(to).is_ok_and(|m| !m.is_file()) {
        return fs::copy(from, to).map(drop);
    }
    let mut source = File::open(from)?;
    let mut part = Part::beside(to)?;
    io::copy(&mut source, &mut part.file)?;
    part.file.set_permissions(source.metadata()?.permissions())?;
    part.put()
}

/// A file on its way, under a name of its own beside where it goes: gone again unless it is put there.
struct Part {
    file: File,
    path: PathBuf,
    to: PathBuf,
}

impl Part {
    fn beside(to: &Path) -> io::Result<Part> {
        let to = std::path::absolute(real(to)?)?;
        let folder = to.parent().unwrap_or(Path::new("/"));
        let mut n = 0;
        loop {
            // The name says whose it is, should the process be killed; nothing that has it already is touched.
            let path = folder.join(format!(".dashcam-{}-{n}.part", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
                file => return Ok(Part { file: file?, path, to }),
            }
        }
    }

    fn put(self) -> io::Result<()> {
        fs::rename(&self.path, &self.to)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has its name by now; or what is half there is of no use, and if it cannot be deleted, its name says so.
        let _ = fs::remove_file(&self.path);
    }
}

/// What a command writes little by little: a file, seen where it was asked for only when it is whole, or what stands there
/// and is no file (a pipe, /dev/null, stdout), as it stands.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
    part: Option<Part>,
}

impl Output {
    /// Begins to write to `path`.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn create(path: &Path) -> anyhow::Result<Output> {
        let begin = || -> io::Result<(File, Option<Part>)> {
            let there = fs::metadata(path).ok();
            if there.as_ref().is_some_and(|m| !m.is_file()) {
                return Ok((OpenOptions::new().write(true).open(path)?, None));
            }
            let part = Part::beside(path)?;
            if let Some(old) = there {
                part.file.set_permissions(old.permissions())?;
            }
            Ok((part.file.try_clone()?, Some(part)))
        };
        let (file, part) = begin().with_context(|| format!("creating {}", shown(path)))?;
        Ok(Output { out: BufWriter::with_capacity(1 << 20, Box::new(file)), part })
    }

    /// Writes to stdout.
    pub fn stdout() -> Output {
        Output { out: BufWriter::with_capacity(1 << 16, Box::new(io::stdout().lock())), part: None }
    }

    /// Whether nothing of it is left unless it becomes whole.
    pub fn is_whole_or_nothing(&self) -> bool {
        self.part.is_some()
    }

    /// All is written: the file is seen from now on. Dropped without this, nothing of it is left.
    ///
    /// # Errors
    /// The rest cannot be written, or it cannot be put there.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.part.take().map_or(Ok(()), Part::put)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The file behind a symbolic link; any other path as it is.
fn real(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => fs::canonicalize(path),
        _ => Ok(path.to_owned()),
    }
}

fn names_a_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none()
}

fn folder(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("cannot write {}", shown(path)))?;
    Ok(path.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned))
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", dir.path().display());
        let said = |path: &str| super::super::error_line(&check(Path::new(path)).unwrap_err());
        assert!(check(Path::new(&at("new"))).is_ok());
        fs::write(at("old"), b"x").unwrap();
        assert!(check(Path::new(&at("old"))).is_ok(), "replaced, as it always was");
        assert!(check(Path::new("relative.pftrace.zst")).is_ok());
        assert!(check(Path::new("/dev/null")).is_ok());
        let (new, folder) = (at("no/new"), at("no"));
        assert_eq!(said(&new), format!("cannot write {new}: there is no folder {folder}; make it, or name another"));
        assert_eq!(said(&at("old/new")), format!("cannot write {}: {} is no folder", at("old/new"), at("old")));
        let name = |folder: &str| format!("is a folder: name a file in it, such as {folder}/incident.pftrace.zst");
        assert!(said(&at("")).ends_with(&name(&at("")[..at("").len() - 1])), "{}", said(&at("")));
        assert!(said(&at("absent/")).ends_with(&name(&at("absent"))), "{}", said(&at("absent/")));
        assert!(!dir.path().join("new").exists(), "looking makes nothing");
    }

    #[test]
    fn a_copy_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, b"frames").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"frames");
        assert!(copy(&dir.path().join("none"), &to).is_err());
        assert_eq!(fs::read(&to).unwrap(), b"frames", "what stood there still does");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_is_put_where_a_file_was_and_nowhere_else() {
        use nix::sys::stat::{Mode, SFlag, mknod};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let said = |name: &str| super::super::error_line(&file(&at(name)).unwrap_err());
        mknod(&at("pipe"), SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (link, to) in [("to-file", "old"), ("to-pipe", "pipe"), ("nowhere", "none"), ("loop", "loop")] {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        fs::write(at("old"), b"x").unwrap();
        assert_eq!(file(&at("new")).unwrap(), at("new"));
        assert_eq!(file(&at("to-file")).unwrap(), at("old").canonicalize().unwrap());
        for name in ["pipe", "to-pipe"] {
            assert_eq!(said(name), format!("cannot write {}: it is a pipe; name a file", at(name).display()));
        }
        assert!(said("socket").ends_with("it is a socket; name a file"));
        assert!(super::super::error_line(&file(Path::new("/dev/null")).unwrap_err()).contains("it is a device"));
        for link in ["nowhere", "loop"] {
            assert!(said(link).contains("a symbolic link that leads nowhere"), "{}", said(link));
        }
        assert!(put(&at("old"), &at("pipe")).is_err());
        // A copy goes through the link, which stays one.
        fs::write(at("from"), b"frames").unwrap();
        copy(&at("from"), &at("to-file")).unwrap();
        assert_eq!(fs::read(at("old")).unwrap(), b"frames");
        assert!(fs::symlink_metadata(at("to-file")).unwrap().is_symlink());
    }
}
