//! Files that a command is told to write: looked at before the work begins, and put in place whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{AccessFlags, eaccess};

use super::failed;
use crate::names::printable;

/// Whether a file can be written at `path`; what stands there already will be replaced.
///
/// # Errors
/// It is a folder, or its folder lacks or takes no files from this user.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let shown = shown(path);
    let there = fs::metadata(path);
    if there.as_ref().is_ok_and(fs::Metadata::is_dir) || names_a_folder(path) {
        let folder = shown.trim_end_matches('/');
        return Err(failed(format!("{shown} is a folder: name a file in it, such as {folder}/incident.pftrace.zst")));
    }
    // A pipe or /dev/null is written to as it stands.
    if there.as_ref().is_ok_and(|m| !m.is_file()) {
        return eaccess(path, AccessFlags::W_OK).with_context(|| format!("cannot write to {shown}"));
    }
    let folder = folder(path)?;
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

/// Copies `from` to `to`, seen there only when it is whole.
///
/// # Errors
/// It cannot be read or written; nothing of it is left at `to` then.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if fs::metadata(to).is_ok_and(|m| !m.is_file()) {
        return fs::copy(from, to).map(drop);
    }
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::copy(from, &part).and_then(|_| fs::rename(&part, to)).inspect_err(|_| {
        // What is half there is of no use; if it cannot be deleted either, its name says so.
        let _ = fs::remove_file(&part);
    })
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
}
