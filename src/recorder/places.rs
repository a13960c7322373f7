//! Where things are: the store, and the runtime files of the recorder that writes to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directories one recorder uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Segments and snapshots.
    pub store: PathBuf,
    /// Control socket and pid file.
    pub runtime: PathBuf,
}

/// Name of the file that holds the recorder's process id, beside its socket.
pub(super) const PID_FILE: &str = "dashcam.pid";

/// Root's default store, and where its recorder is asked.
const SYSTEM_STORE: &str = "/var/lib/dashcam";
const SYSTEM_RUNTIME: &str = "/run/dashcam";

/// No directory can be named for this user.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell where to keep recordings: neither XDG_STATE_HOME nor HOME is set; give --dir DIR")]
pub struct NoPlace;

impl Places {
    /// The places for a store at `dir`, or the default ones of this user.
    ///
    /// The default store has its runtime files in `/run/dashcam` (root) or `$XDG_RUNTIME_DIR/dashcam`. Any other store
    /// keeps them in itself: so two recorders on two stores never meet, and whoever knows the store finds its recorder.
    /// The system's store has its recorder in `/run/dashcam` for whoever names it, or `control.group` would open the
    /// socket to users who never find it.
    pub fn new(dir: Option<PathBuf>) -> Result<Places, NoPlace> {
        let root = nix::unistd::geteuid().is_root();
        let system = root || Path::new(SYSTEM_RUNTIME).is_dir();
        Places::resolve(dir, root, system, |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    /// `system`: the system's runtime directory is there, or may be made.
    fn resolve(
        dir: Option<PathBuf>,
        root: bool,
        system: bool,
        env: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Places, NoPlace> {
        if system && dir.as_deref() == Some(Path::new(SYSTEM_STORE)) {
            return Ok(Places { store: SYSTEM_STORE.into(), runtime: SYSTEM_RUNTIME.into() });
        }
        let default = if root {
            Some(PathBuf::from(SYSTEM_STORE))
        } else {
            let state = env("XDG_STATE_HOME").or_else(|| env("HOME").map(|h| h.join(".local/state")));
            state.map(|s| s.join("dashcam"))
        };
        let store = match dir {
            Some(dir) if default.as_ref() != Some(&dir) => {
                return Ok(Places { runtime: dir.clone(), store: dir });
            }
            _ => default.ok_or(NoPlace)?,
        };
        let runtime = match (root, env("XDG_RUNTIME_DIR")) {
            (true, _) => PathBuf::from(SYSTEM_RUNTIME),
            (false, Some(run)) => run.join("dashcam"),
            (false, None) => store.clone(),
        };
        Ok(Places { store, runtime })
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("control.sock")
    }

    /// The file that holds the recorder's process id while it runs.
    pub fn pid_file(&self) -> PathBuf {
        self.runtime.join(PID_FILE)
    }

    /// Where the system's recorder is to be found, if this is not its place and one runs.
    pub fn system_elsewhere(&self) -> Option<&'static Path> {
        let runs = self.runtime != Path::new(SYSTEM_RUNTIME) && Path::new(SYSTEM_RUNTIME).join("control.sock").exists();
        runs.then_some(Path::new(SYSTEM_STORE))
    }

    /// Makes the folder of the runtime files where it lacks.
    pub(super) fn make_runtime(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.runtime)
    }

    /// The pid, visible only when whole: whoever reads the file meets a recorder that is ready.
    pub(super) fn write_pid(&self) -> io::Result<()> {
        let (path, new) = (self.pid_file(), self.pid_file().with_extension("pid.new"));
        let written = fs::write(&new, format!("{}\n", std::process::id())).and_then(|()| fs::rename(&new, &path));
        match written {
            // A full disk must not keep the recorder from running.
            Err(e) if e.kind() != io::ErrorKind::StorageFull => Err(e),
            _ => Ok(()),
        }
    }
}

/// The configuration file used when none is named: the user's, else the system's, if there is one.
pub fn default_config() -> Option<PathBuf> {
    let home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|h| Path::new(&h).join(".config")));
    let user = home.map(|h| h.join("dashcam/config.toml"));
    user.into_iter().chain([PathBuf::from("/etc/dashcam/config.toml")]).find(|p| p.is_file())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn env<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<PathBuf> + 'a {
        move |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v))
    }

    #[test]
    fn roots_defaults_are_the_system_directories() {
        let p = Places::resolve(None, true, true, env(&[])).unwrap();
        assert_eq!(p.store, Path::new("/var/lib/dashcam"));
        assert_eq!(p.pid_file(), Path::new("/run/dashcam/dashcam.pid"));
        assert_eq!(Places::resolve(Some("/var/lib/dashcam".into()), true, true, env(&[])).unwrap(), p);
    }

    #[test]
    fn a_user_has_the_xdg_directories() {
        let p = Places::resolve(None, false, true, env(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/run/user/7")])).unwrap();
        assert_eq!(p.store, Path::new("/h/.local/state/dashcam"));
        assert_eq!(p.socket(), Path::new("/run/user/7/dashcam/control.sock"));
        assert!(Places::resolve(None, false, true, env(&[])).is_err());
    }

    #[test]
    fn whoever_names_the_systems_store_finds_its_recorder() {
        let vars = env(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/run/user/7")]);
        let p = Places::resolve(Some("/var/lib/dashcam".into()), false, true, &vars).unwrap();
        assert_eq!(p.store, Path::new("/var/lib/dashcam"));
        assert_eq!(p.socket(), Path::new("/run/dashcam/control.sock"));
        // Where root never recorded, a user's recorder can have that folder for itself.
        let p = Places::resolve(Some("/var/lib/dashcam".into()), false, false, &vars).unwrap();
        assert_eq!(p.socket(), Path::new("/var/lib/dashcam/control.sock"));
    }

    #[test]
    fn case_79_another_store_keeps_its_own_runtime_files() {
        let p = Places::resolve(Some("/data/dc".into()), true, true, env(&[])).unwrap();
        assert_eq!(p.socket(), Path::new("/data/dc/control.sock"));
    }
}
