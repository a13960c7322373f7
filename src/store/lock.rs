//! One recorder per store: a lock the kernel drops with its owner, and a note of who that is.
//!
//! The lock is an open-file-description lock (fcntl(2)): it outlives a fork into the background, is gone after
//! SIGKILL, and can be asked about without taking it, so looking cannot make a starting recorder fail.

use super::error::StoreError;
use super::layout::{FILE_MODE, Store};
use crate::names::printable;
use crate::time::{Digits, Zone, local};
use nix::fcntl::{FcntlArg, fcntl};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;

/// Longest note read back, bytes.
const MAX_NOTE: u64 = 1024;

/// Who records into a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// Its process; 0 when the note could not be read.
    pub pid: i32,
    /// When it began, ns since 1970 (CLOCK_REALTIME); 0 when not known.
    pub started: u64,
    /// Further words for people, e.g. the tracefs instance's name.
    pub note: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("another recorder");
        }
        write!(f, "the recorder with pid {}", self.pid)?;
        if self.started > 0 {
            write!(f, ", running since {}", local(self.started, &Zone::UTC, Digits::Seconds))?;
        }
        if !self.note.is_empty() {
            write!(f, " ({})", printable(self.note.as_bytes()))?;
        }
        Ok(())
    }
}

/// Held while this process records into the store; dropping it lets the next one in.
#[derive(Debug)]
pub struct RecorderLock {
    file: File,
    store: Store,
}

impl RecorderLock {
    /// Takes the store for `holder`, or says who has it ([`StoreError::Locked`]).
    pub fn acquire(store: &Store, holder: &Holder) -> Result<Self, StoreError> {
        let path = store.lock_path();
        let io = |what| move |e| StoreError::io(what, &store.lock_path(), e);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
        let mut file = file.map_err(io("write to"))?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
            Ok(_) => {}
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => {
                let holder = read_note(&file).unwrap_or_default();
                return Err(StoreError::Locked { path: store.root().to_owned(), holder });
            }
            Err(e) => return Err(StoreError::io("lock", &path, e.into())),
        }
        // The note is for people; a full disk must not keep the recorder from starting.
        if let Err(e) = write_note(&mut file, holder)
            && e.kind() != io::ErrorKind::StorageFull
        {
            return Err(StoreError::io("write", &path, e));
        }
        Ok(RecorderLock { file, store: store.clone() })
    }

    /// Writes the note anew, e.g. after a fork changed the pid.
    pub fn renote(&mut self, holder: &Holder) -> Result<(), StoreError> {
        write_note(&mut self.file, holder).map_err(|e| StoreError::io("write", &self.store.lock_path(), e))
    }

    /// Who records into the store now, if anybody; takes nothing.
    pub fn holder(store: &Store) -> Result<Option<Holder>, StoreError> {
        let path = store.lock_path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("open", &path, e)),
        };
        let mut ask = whole_file();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut ask))
            .map_err(|e| StoreError::io("ask the lock of", &path, e.into()))?;
        let free = i32::from(ask.l_type) == libc::F_UNLCK;
        Ok(if free { None } else { Some(read_note(&file).unwrap_or_default()) })
    }
}

/// An exclusive lock on all of a file. `l_pid` must be 0 for open-file-description locks (fcntl(2)).
fn whole_file() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

fn write_note(file: &mut File, holder: &Holder) -> io::Result<()> {
    let note: String = holder.note.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n{}\n{note}\n", holder.pid, holder.started).as_bytes())
}

fn read_note(mut file: &File) -> Option<Holder> {
    file.rewind().ok()?;
    let mut text = String::new();
    file.take(MAX_NOTE).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let pid = lines.next()?.parse().ok()?;
    let started = lines.next()?.parse().ok()?;
    Some(Holder { pid, started, note: lines.next().unwrap_or("").to_owned() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn case_79_a_second_recorder_is_refused_and_told_who_the_first_is() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        assert_eq!(RecorderLock::holder(&store).unwrap(), None);
        let first = Holder { pid: 4711, started: 1_796_039_700_000_000_000, note: "instance dashcam".to_owned() };
        let lock = RecorderLock::acquire(&store, &first).unwrap();
        assert_eq!(RecorderLock::holder(&store).unwrap(), Some(first.clone()));
        let second = RecorderLock::acquire(&store, &Holder { pid: 1, ..Holder::default() });
        let text = second.unwrap_err().to_string();
        let said = "in use by the recorder with pid 4711, running since 2026-11-30 11:55:00 +00:00 (instance dashcam)";
        assert!(text.contains(said), "{text}");
        let other = tempfile::tempdir().unwrap();
        let elsewhere = Store::create(other.path()).unwrap();
        assert!(RecorderLock::acquire(&elsewhere, &first).is_ok(), "another store works");
        drop(lock);
        assert_eq!(RecorderLock::holder(&store).unwrap(), None, "the note alone holds nothing");
        assert!(RecorderLock::acquire(&store, &first).is_ok());
    }

    #[test]
    fn a_hostile_note_is_shown_without_control_codes() {
        let tmp = tempfile::tempdir().unwrap();
        let store = Store::create(tmp.path()).unwrap();
        let holder = Holder { pid: 1, started: 0, note: "a\x1b[2Jb\n9".to_owned() };
        let _lock = RecorderLock::acquire(&store, &holder).unwrap();
        let seen = RecorderLock::holder(&store).unwrap().unwrap();
        assert!(!seen.to_string().chars().any(char::is_control));
        assert_eq!(seen.note, "a [2Jb 9");
    }
}
