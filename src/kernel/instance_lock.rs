//! One recorder per instance: a lock on the instance's folder, and the name of who holds it.
//!
//! flock on the folder itself, so that it works wherever tracefs is and dies with its process.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::names::printable;

/// A process that uses the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: i32,
    /// Its name, printable.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.name)
    }
}

/// What trying to lock gave.
pub enum Locked {
    /// It is ours now.
    Ours(Flock<File>),
    /// Someone else has it, by name if it can be found out.
    Taken(Option<Holder>),
    /// The folder vanished or was made anew meanwhile.
    Gone,
}

/// Tries to lock the folder of an instance.
pub fn lock(dir: &Path) -> io::Result<Locked> {
    let file = match File::open(dir) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Locked::Gone),
        Err(error) => return Err(error),
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        // The lock is on the inode: make sure that the name still means it.
        Ok(lock) => match (lock.metadata(), fs::metadata(dir)) {
            (Ok(ours), Ok(named)) if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) => Ok(Locked::Ours(lock)),
            _ => Ok(Locked::Gone),
        },
        Err((file, nix::Error::EWOULDBLOCK)) => {
            let meta = file.metadata()?;
            let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
            Ok(Locked::Taken(lock_owner(&locks, meta.dev(), meta.ino()).map(holder)))
        }
        Err((_, error)) => Err(error.into()),
    }
}

/// The pid that holds a flock on this inode, by the text of `/proc/locks`.
fn lock_owner(locks: &str, dev: u64, ino: u64) -> Option<i32> {
    let id = format!("{:02x}:{:02x}:{ino}", nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let kind = words.next()?;
        let pid = words.nth(2)?;
        (kind == "FLOCK" && words.next()? == id).then(|| pid.parse().ok())?
    })
}

/// A process other than this one with a file open below `dir`, if any can be seen.
pub fn user_of(dir: &Path) -> Option<Holder> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    for process in processes {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|n| *n != own).and_then(|n| n.parse().ok()) else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        if files.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir))) {
            return Some(holder(pid));
        }
    }
    None
}

fn holder(pid: i32) -> Holder {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Holder { pid, name: printable(comm.trim_ascii_end()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn case_79_a_second_one_is_refused_and_the_first_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let Locked::Ours(first) = lock(dir.path()).unwrap() else { panic!("free folder") };
        let Locked::Taken(Some(holder)) = lock(dir.path()).unwrap() else { panic!("held folder") };
        assert_eq!(holder.pid, std::process::id() as i32);
        drop(first);
        assert!(matches!(lock(dir.path()).unwrap(), Locked::Ours(_)));
        assert!(matches!(lock(&dir.path().join("none")).unwrap(), Locked::Gone));
    }

    #[test]
    fn finds_the_owner_among_other_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:0d:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:0d:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:0d:77 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 14 00:0d:77 0 EOF\n";
        assert_eq!(lock_owner(locks, nix::sys::stat::makedev(0, 0xd), 77), Some(13));
        assert_eq!(lock_owner("", 0, 0), None);
        assert_eq!(lock_owner("\n1:\nx FLOCK\n", 0, 0), None);
    }
}
