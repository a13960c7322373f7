//! This machine's time zone, as `TZ` or `/etc/localtime` say.
//!
//! `TZ` may name any file, and whoever reads it whole reads on for ever in `/dev/zero` and waits in a pipe. So what it names is
//! looked at first: only a regular file of a sensible size that begins as zone files do is read.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::names::printable;
use crate::time::Zone;

/// Largest zone file read, bytes; those there are have less than 64 KiB.
const MOST: u64 = 1 << 20;

/// The zone; UTC where [`trouble`] says why.
pub fn system() -> Zone {
    if trouble().is_some() { Zone::UTC } else { Zone::system() }
}

/// Why `TZ` says no zone, in words; looked at once.
pub fn trouble() -> Option<&'static str> {
    static TROUBLE: OnceLock<Option<String>> = OnceLock::new();
    let look = || std::env::var_os("TZ").and_then(|tz| wrong_with(&tz.to_string_lossy()));
    TROUBLE.get_or_init(look).as_deref()
}

fn wrong_with(tz: &str) -> Option<String> {
    let name = tz.strip_prefix(':').unwrap_or(tz);
    let known = |name: &str| Zone::get(name).is_ok();
    // As the library does: a rule, a name, the name at the end of a path, and only then a file.
    if tz.is_empty() || Zone::posix(tz).is_ok() || known(name) {
        return None;
    }
    if name.rfind("zoneinfo/").is_some_and(|at| known(&name[at + "zoneinfo/".len()..])) {
        return None;
    }
    let why = match zone_file(Path::new(name)) {
        Ok(()) if Zone::try_system().is_ok() => return None,
        Ok(()) => "the file is no zone file".to_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => "no such zone or file".to_owned(),
        Err(e) => e.to_string(),
    };
    Some(format!("TZ={} names no time zone: {why}; times are UTC", printable(tz.as_bytes())))
}

/// Whether a file can be read as a zone without waiting and without end.
fn zone_file(path: &Path) -> io::Result<()> {
    let wrong = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return wrong("not a regular file");
    }
    if meta.len() > MOST {
        return wrong("larger than 1 MiB");
    }
    // Files of procfs and tracefs say that they are empty, and may have no end.
    let mut start = [0; 4];
    if meta.len() < 4 || file.read_exact(&mut start).is_err() || &start != b"TZif" {
        return wrong("the file is no zone file");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_zone_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        nix::unistd::mkfifo(Path::new(&at("pipe")), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(at("text"), b"no zone at all").unwrap();
        std::fs::write(at("large"), b"TZif").unwrap();
        OpenOptions::new().write(true).open(at("large")).unwrap().set_len(2 << 30).unwrap();
        for (path, why) in [
            (at("pipe"), "not a regular file"),
            ("/dev/zero".to_owned(), "not a regular file"),
            ("/proc/self/maps".to_owned(), "the file is no zone file"),
            (at("text"), "the file is no zone file"),
            (at("large"), "larger than 1 MiB"),
            (at("none"), "no such zone or file"),
        ] {
            for tz in [path.clone(), format!(":{path}")] {
                let said = wrong_with(&tz);
                assert_eq!(said, Some(format!("TZ={tz} names no time zone: {why}; times are UTC")));
            }
        }
        for fine in ["", "UTC", "EST5EDT,M3.2.0,M11.1.0", "<+08>-8"] {
            assert_eq!(wrong_with(fine), None, "{fine}");
        }
    }
}
