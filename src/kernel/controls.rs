//! The few ways in which tracefs is changed: write a control file, make an instance, remove it.
//!
//! A trait, so that tests can refuse, delay and count (`kernel::testing::FakeTracefs`); the real one is
//! [`RealControls`]. Reading needs no trait: a folder of plain files reads like tracefs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// The whole text of a control file.
///
/// The first read must be large: `events/header_page` gives its text to the first read only, however small
/// (kernel/trace/trace_events.c), and `fs::read_to_string` begins with 32 bytes.
pub fn read_text(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut bytes = vec![0; 8 * 1024];
    let mut len = 0;
    loop {
        match file.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if len == bytes.len() {
            bytes.resize(len * 2, 0);
        }
    }
    bytes.truncate(len);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Changes tracefs.
pub trait Controls: Send + Sync {
    /// Replaces the file's value.
    fn write(&self, file: &Path, value: &str) -> io::Result<()>;
    /// Adds a line to a file that holds a list (`trigger`), leaving what is there.
    fn append(&self, file: &Path, value: &str) -> io::Result<()>;
    /// Makes `instances/NAME`.
    fn create_instance(&self, dir: &Path) -> io::Result<()>;
    /// Removes `instances/NAME`; EBUSY while a file in it is open for reading.
    fn remove_instance(&self, dir: &Path) -> io::Result<()>;
}

/// The real kernel. Never creates a file: tracefs answers EPERM to that, which would read as lack of rights.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealControls;

impl Controls for RealControls {
    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        OpenOptions::new().write(true).truncate(true).open(file)?.write_all(value.as_bytes())
    }

    fn append(&self, file: &Path, value: &str) -> io::Result<()> {
        OpenOptions::new().append(true).open(file)?.write_all(value.as_bytes())
    }

    fn create_instance(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    fn remove_instance(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }
}
