//! Finding tracefs: by file-system type, wherever it is mounted, and saying why it cannot be used.
//!
//! Mounts it when root and it is nowhere. Changes nothing else: [`super::instance`] does.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::controls::{Controls, RealControls};

/// Why tracefs cannot be used, with the mend.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// Kernel lockdown forbids it even to root.
    #[error(
        "kernel lockdown is in {mode} mode, which forbids tracing even to root; \
         boot with lockdown=integrity (or without Secure Boot's lockdown) to record"
    )]
    Lockdown {
        /// The active mode.
        mode: String,
    },
    /// root here is not root of the host.
    #[error("this runs in a user namespace (a rootless container), whose root may not trace; run dashcam on the host")]
    UserNamespace,
    /// No rights to the files.
    #[error("no rights to {path}; run as root: sudo dashcam …")]
    NoRights {
        /// What could not be used.
        path: PathBuf,
    },
    /// root without the capabilities of root, or a security module.
    #[error(
        "even root may not use {path} here: a container without CAP_SYS_ADMIN, or a security module (SELinux, AppArmor); \
         run dashcam on the host, or the container with --privileged"
    )]
    NoCapability {
        /// What could not be used.
        path: PathBuf,
    },
    /// The kernel has no tracefs.
    #[error(
        "this kernel has no tracefs (built without CONFIG_FTRACE and CONFIG_EVENT_TRACING); another kernel is needed"
    )]
    NotInKernel,
    /// It is not mounted.
    #[error("tracefs is not mounted; run: {command}")]
    NotMounted {
        /// What mounts it.
        command: String,
    },
    /// A file system of the right type without events in it.
    #[error(
        "{path} holds no `events`: the kernel was built without CONFIG_EVENT_TRACING, or the mount is hidden; try: {command}"
    )]
    Empty {
        /// The mount.
        path: PathBuf,
        /// What may help.
        command: String,
    },
    /// A path given by the user that is no tracefs.
    #[error("{path} is no tracefs (it has no `events` folder); leave the path out to have it found")]
    NotTracefs {
        /// As given.
        path: PathBuf,
    },
    /// Mounting failed.
    #[error("tracefs could not be mounted at {path}: {source}; try: {command}")]
    Mount {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// The same by hand.
        command: String,
    },
}

/// How tracefs was found; shown by `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowFound {
    /// A mounted tracefs.
    Mounted,
    /// Below debugfs.
    Debugfs,
    /// The path was given.
    Given,
    /// It was mounted just now by this process.
    MountedNow,
}

impl fmt::Display for HowFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HowFound::Mounted => "mounted",
            HowFound::Debugfs => "below debugfs",
            HowFound::Given => "path given",
            HowFound::MountedNow => "mounted by dashcam",
        })
    }
}

/// What the system says that matters to finding tracefs; plain text, so that tests can say it too.
#[derive(Debug, Clone)]
pub struct HostView {
    /// `/proc/self/mountinfo`.
    pub mountinfo: String,
    /// `/proc/filesystems`; `None` if unreadable.
    pub filesystems: Option<String>,
    /// `/proc/self/uid_map`; `None` where user namespaces do not exist.
    pub uid_map: Option<String>,
    /// `/sys/kernel/security/lockdown`; `None` if absent: no lockdown.
    pub lockdown: Option<String>,
    /// Effective uid 0.
    pub root: bool,
    /// Where it is mounted if nowhere.
    pub mount_at: PathBuf,
}

impl HostView {
    /// Asks this machine.
    pub fn read() -> HostView {
        HostView {
            mountinfo: fs::read("/proc/self/mountinfo")
                .map(|b| String::from_utf8_lossy(&b).into_owned())
                .unwrap_or_default(),
            filesystems: fs::read_to_string("/proc/filesystems").ok(),
            uid_map: fs::read_to_string("/proc/self/uid_map").ok(),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown").ok(),
            root: nix::unistd::geteuid().is_root(),
            mount_at: PathBuf::from("/sys/kernel/tracing"),
        }
    }

    /// The active lockdown mode (`none`, `integrity`, `confidentiality`); `none` if the kernel has no lockdown.
    pub fn lockdown_mode(&self) -> &str {
        let text = self.lockdown.as_deref().unwrap_or_default();
        text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(mode, _)| mode)
    }

    /// True unless uid 0 here is uid 0 of the host. The initial namespace maps everything onto itself.
    pub fn in_user_namespace(&self) -> bool {
        let Some(map) = &self.uid_map else { return false };
        let whole: Vec<&str> = map.split_ascii_whitespace().collect();
        whole != ["0", "0", "4294967295"]
    }

    /// Why the system said no (EPERM or EACCES) for `path`.
    pub fn denied(&self, path: &Path) -> TracefsError {
        let path = path.to_owned();
        match self.forbidden() {
            Some(reason) => reason,
            None if self.root => TracefsError::NoCapability { path },
            None => TracefsError::NoRights { path },
        }
    }

    fn forbidden(&self) -> Option<TracefsError> {
        // LOCKDOWN_TRACEFS belongs to the confidentiality set (include/linux/security.h); integrity allows it.
        if self.lockdown_mode() == "confidentiality" {
            return Some(TracefsError::Lockdown { mode: "confidentiality".to_owned() });
        }
        self.in_user_namespace().then_some(TracefsError::UserNamespace)
    }

    /// The command that mounts tracefs.
    pub fn mount_command(&self) -> String {
        format!("sudo mount -t tracefs tracefs {}", self.mount_at.display())
    }

    /// Roots of mounted tracefs and debugfs, in the order to try: tracefs first.
    fn candidates(&self) -> Vec<(PathBuf, HowFound)> {
        let mounts: Vec<_> = self.mountinfo.lines().filter_map(mount).collect();
        let tracefs =
            mounts.iter().filter(|(_, kind)| *kind == "tracefs").map(|(at, _)| (at.clone(), HowFound::Mounted));
        let debugfs = mounts.iter().filter(|(_, kind)| *kind == "debugfs");
        tracefs.chain(debugfs.map(|(at, _)| (at.join("tracing"), HowFound::Debugfs))).collect()
    }
}

/// Mount point and type of a line of mountinfo, if it shows the file system from its root (proc_pid_mountinfo(5)).
fn mount(line: &str) -> Option<(PathBuf, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    // A bind mount of one instance holds `events` too, but is not tracefs as a whole.
    (root == "/").then_some((PathBuf::from(unescape(at)), right.split(' ').next()?))
}

/// Octal escapes of mountinfo (`\040` for a space).
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'\\').then(|| tail.get(..3)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) => {
                out.push(value);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A usable tracefs.
#[derive(Clone)]
pub struct Tracefs {
    root: PathBuf,
    how: HowFound,
    view: HostView,
    controls: Arc<dyn Controls>,
}

impl fmt::Debug for Tracefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracefs").field("root", &self.root).field("how", &self.how).finish_non_exhaustive()
    }
}

impl Tracefs {
    /// Finds this machine's tracefs, at `custom` or by type; mounts it if it is nowhere and this is root.
    pub fn open(custom: Option<&Path>) -> Result<Tracefs, TracefsError> {
        let view = HostView::read();
        match Tracefs::find(&view, custom) {
            Err(TracefsError::NotMounted { .. }) if view.root => Tracefs::mount(&view, mount_tracefs),
            found => found,
        }
    }

    /// Finds tracefs as `view` tells, without mounting anything.
    pub fn find(view: &HostView, custom: Option<&Path>) -> Result<Tracefs, TracefsError> {
        let make = |root: PathBuf, how| Tracefs { root, how, view: view.clone(), controls: Arc::new(RealControls) };
        let candidates = match custom {
            // A debugfs given as such is as good.
            Some(path) => vec![(path.to_owned(), HowFound::Given), (path.join("tracing"), HowFound::Given)],
            None => view.candidates(),
        };
        let (mut denied, mut empty) = (None, None);
        for (root, how) in candidates {
            match fs::metadata(root.join("events")) {
                Ok(found) if found.is_dir() => return Ok(make(root, how)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = denied.or(Some(root)),
                _ if how == HowFound::Mounted => empty = empty.or(Some(root)),
                _ => {}
            }
        }
        if let Some(path) = denied {
            return Err(view.denied(&path));
        }
        if let Some(path) = custom {
            return Err(TracefsError::NotTracefs { path: path.to_owned() });
        }
        if let Some(reason) = view.forbidden() {
            return Err(reason);
        }
        if view.filesystems.as_ref().is_some_and(|text| !text.split_ascii_whitespace().any(|w| w == "tracefs")) {
            return Err(TracefsError::NotInKernel);
        }
        Err(match empty {
            Some(path) => TracefsError::Empty { path, command: view.mount_command() },
            None => TracefsError::NotMounted { command: view.mount_command() },
        })
    }

    /// Mounts tracefs at `view.mount_at` through `mounter` and takes it.
    pub fn mount(view: &HostView, mounter: impl FnOnce(&Path) -> io::Result<()>) -> Result<Tracefs, TracefsError> {
        let path = view.mount_at.clone();
        mounter(&path).map_err(|source| TracefsError::Mount {
            path: path.clone(),
            source,
            command: view.mount_command(),
        })?;
        tracing::info!(path = %path.display(), "tracefs was not mounted; mounted it");
        let mut found = Tracefs::find(view, Some(&path))?;
        found.how = HowFound::MountedNow;
        Ok(found)
    }

    /// A tree whose changes go through `controls` (tests).
    #[doc(hidden)]
    pub fn with_controls(root: PathBuf, view: HostView, controls: Arc<dyn Controls>) -> Tracefs {
        Tracefs { root, how: HowFound::Given, view, controls }
    }

    /// Its top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How it was found.
    pub fn how(&self) -> HowFound {
        self.how
    }

    /// What the system said when it was looked for.
    pub fn view(&self) -> &HostView {
        &self.view
    }

    pub(super) fn controls(&self) -> &dyn Controls {
        &*self.controls
    }
}

fn mount_tracefs(path: &Path) -> io::Result<()> {
    use nix::mount::{MsFlags, mount};
    mount(Some("tracefs"), path, Some("tracefs"), MsFlags::empty(), None::<&str>).map_err(io::Error::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A host of root with these mounts (`type`, folder below `dir`), each with `events` if the flag says so.
    fn host(dir: &TempDir, mounts: &[(&str, &str, bool)]) -> HostView {
        let mut mountinfo = "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n".to_owned();
        for (kind, at, events) in mounts {
            let at = dir.path().join(at);
            let inner = if *kind == "debugfs" { at.join("tracing") } else { at.clone() };
            fs::create_dir_all(if *events { inner.join("events") } else { inner }).unwrap();
            let shown = at.display().to_string().replace(' ', "\\040");
            mountinfo += &format!("42 23 0:13 / {shown} rw,nosuid shared:9 - {kind} {kind} rw\n");
        }
        HostView {
            mountinfo,
            filesystems: Some("nodev\tsysfs\nnodev\ttracefs\n\text4\n".to_owned()),
            uid_map: Some("         0          0 4294967295\n".to_owned()),
            lockdown: None,
            root: true,
            mount_at: dir.path().join("at"),
        }
    }

    fn reason(view: &HostView) -> String {
        Tracefs::find(view, None).unwrap_err().to_string()
    }

    #[test]
    fn case_87_found_by_type_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let view = host(&dir, &[("tmpfs", "sys/kernel/tracing", true), ("tracefs", "odd place", true)]);
        let found = Tracefs::find(&view, None).unwrap();
        assert_eq!(found.root(), dir.path().join("odd place"));
        assert_eq!(found.how(), HowFound::Mounted);
    }

    #[test]
    fn case_87_below_debugfs_and_past_an_empty_mount() {
        let dir = tempfile::tempdir().unwrap();
        let view = host(&dir, &[("debugfs", "debug", true), ("tracefs", "empty", false)]);
        let found = Tracefs::find(&view, None).unwrap();
        assert_eq!(found.root(), dir.path().join("debug/tracing"));
        assert_eq!(found.how(), HowFound::Debugfs);
    }

    #[test]
    fn case_87_a_bind_mount_of_one_instance_is_not_tracefs() {
        let dir = tempfile::tempdir().unwrap();
        let mut view = host(&dir, &[("tracefs", "instance", true)]);
        view.mountinfo = view.mountinfo.replace("0:13 / ", "0:13 /instances/x ");
        assert!(matches!(Tracefs::find(&view, None), Err(TracefsError::NotMounted { .. })));
    }

    #[test]
    fn case_87_a_given_path_is_taken_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let view = host(&dir, &[]);
        fs::create_dir_all(dir.path().join("mine/events")).unwrap();
        let mine = dir.path().join("mine");
        assert_eq!(Tracefs::find(&view, Some(&mine)).unwrap().how(), HowFound::Given);
        assert!(matches!(Tracefs::find(&view, Some(dir.path())), Err(TracefsError::NotTracefs { .. })));
        fs::create_dir_all(dir.path().join("debug/tracing/events")).unwrap();
        let debug = dir.path().join("debug");
        assert_eq!(Tracefs::find(&view, Some(&debug)).unwrap().root(), debug.join("tracing"));
    }

    #[test]
    fn case_87_nothing_mounted_and_empty_say_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let view = host(&dir, &[]);
        let command = format!("sudo mount -t tracefs tracefs {}", dir.path().join("at").display());
        assert_eq!(reason(&view), format!("tracefs is not mounted; run: {command}"));
        let view = host(&dir, &[("tracefs", "empty", false)]);
        assert!(reason(&view).ends_with(&command), "{}", reason(&view));
        assert!(matches!(Tracefs::find(&view, None), Err(TracefsError::Empty { .. })));
        let view = HostView { filesystems: Some("nodev\tsysfs\n".to_owned()), ..host(&dir, &[]) };
        assert!(matches!(Tracefs::find(&view, None), Err(TracefsError::NotInKernel)));
    }

    #[test]
    fn case_87_root_mounts_it() {
        let dir = tempfile::tempdir().unwrap();
        let view = host(&dir, &[]);
        let found = Tracefs::mount(&view, |at| fs::create_dir_all(at.join("events"))).unwrap();
        assert_eq!((found.root(), found.how()), (view.mount_at.as_path(), HowFound::MountedNow));
        let refused = Tracefs::mount(&view, |_| Err(io::Error::from_raw_os_error(libc::EPERM))).unwrap_err();
        assert!(refused.to_string().contains("sudo mount -t tracefs"), "{refused}");
    }

    #[test]
    fn case_88_lockdown_in_each_mode() {
        let dir = tempfile::tempdir().unwrap();
        for (text, mode, forbids) in [
            (Some("[none] integrity confidentiality\n"), "none", false),
            (Some("none [integrity] confidentiality\n"), "integrity", false),
            (Some("none integrity [confidentiality]\n"), "confidentiality", true),
            (None, "none", false),
        ] {
            let view = HostView { lockdown: text.map(str::to_owned), ..host(&dir, &[]) };
            assert_eq!(view.lockdown_mode(), mode);
            let denied = view.denied(Path::new("/x"));
            assert_eq!(matches!(denied, TracefsError::Lockdown { .. }), forbids, "{denied}");
            assert_eq!(reason(&view).contains("lockdown"), forbids, "{}", reason(&view));
        }
    }

    #[test]
    fn case_89_a_user_namespace_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let inside = HostView { uid_map: Some("         0     100000      65536\n".to_owned()), ..host(&dir, &[]) };
        assert!(matches!(Tracefs::find(&inside, None), Err(TracefsError::UserNamespace)));
        assert!(matches!(inside.denied(Path::new("/x")), TracefsError::UserNamespace));
        let outside = host(&dir, &[]);
        assert!(matches!(outside.denied(Path::new("/x")), TracefsError::NoCapability { .. }));
        let user = HostView { root: false, ..outside };
        assert!(matches!(user.denied(Path::new("/x")), TracefsError::NoRights { .. }));
        let none = HostView { uid_map: None, ..host(&dir, &[]) };
        assert!(!none.in_user_namespace());
    }

    #[test]
    fn strange_mountinfo_is_skipped() {
        assert_eq!(unescape("a\\040b\\"), "a b\\");
        assert_eq!(unescape("\\999\\04"), "\\999\\04");
        for line in ["", " - ", "1 2 3 - tracefs", "1 2 3 / - tracefs", "1 2 3 / /x -", "no separator"] {
            assert_eq!(mount(line), None, "{line:?}");
        }
        assert_eq!(mount("1 2 3 / /x rw - tracefs"), Some((PathBuf::from("/x"), "tracefs")));
    }
}
