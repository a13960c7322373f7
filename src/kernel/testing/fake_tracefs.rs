//! A fake tracefs: a plain folder whose instances behave, as far as dashcam can tell, like the kernel's.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Kernel;
use crate::kernel::controls::Controls;
use crate::kernel::tracefs::{HostView, Tracefs};

/// How the fake kernel is to be.
#[derive(Debug, Clone)]
pub struct FakeOptions {
    /// Whose formats it has.
    pub kernel: Kernel,
    /// CPUs that have a buffer.
    pub cpus: Vec<u32>,
    /// Clocks it offers, besides `local`.
    pub clocks: Vec<&'static str>,
    /// It has `buffer_subbuf_size_kb` (6.8 and later).
    pub sub_buffer_choosable: bool,
    /// It has `options/copy_trace_marker`.
    pub copy_trace_marker: bool,
}

impl Default for FakeOptions {
    fn default() -> Self {
        FakeOptions {
            kernel: Kernel::V6_18,
            cpus: vec![0, 1],
            clocks: vec!["global", "mono", "boot"],
            sub_buffer_choosable: true,
            copy_trace_marker: true,
        }
    }
}

/// A fake tracefs in a folder of the caller's.
#[derive(Debug, Clone)]
pub struct FakeTracefs {
    root: PathBuf,
    kernel: Arc<FakeKernel>,
}

impl FakeTracefs {
    /// Builds the tree below `root`, an empty folder.
    pub fn build(root: &Path, options: FakeOptions) -> io::Result<FakeTracefs> {
        let kernel = FakeKernel { options, state: Mutex::default() };
        kernel.fill(root)?;
        fs::create_dir_all(root.join("instances"))?;
        Ok(FakeTracefs { root: root.to_owned(), kernel: Arc::new(kernel) })
    }

    /// The tree as the code under test gets it, seen by root of the host.
    pub fn tracefs(&self) -> Tracefs {
        let view = HostView {
            mountinfo: String::new(),
            filesystems: None,
            uid_map: None,
            lockdown: None,
            root: true,
            mount_at: self.root.clone(),
        };
        Tracefs::with_controls(self.root.clone(), view, self.kernel.clone())
    }

    /// Puts bytes into a CPU's buffer of an instance, to be read once.
    pub fn push_page(&self, instance: &str, cpu: u32, page: &[u8]) -> io::Result<()> {
        let path = self.root.join(format!("instances/{instance}/per_cpu/cpu{cpu}/trace_pipe_raw"));
        OpenOptions::new().append(true).open(path)?.write_all(page)
    }

    /// Every change so far: path below the root, and value; `mkdir` and `rmdir` stand as values too.
    pub fn changes(&self) -> Vec<(String, String)> {
        self.kernel.state().changes.clone()
    }

    /// From now on writing `value` (or anything, if `None`) to a file that ends in `suffix` fails so.
    pub fn refuse(&self, suffix: &str, value: Option<&str>, errno: i32) {
        self.kernel.state().refusals.push((suffix.to_owned(), value.map(str::to_owned), errno));
    }

    /// The next `times` attempts to remove an instance fail with EBUSY.
    pub fn busy(&self, times: usize) {
        self.kernel.state().busy = times;
    }
}

#[derive(Debug, Default)]
struct FakeState {
    changes: Vec<(String, String)>,
    refusals: Vec<(String, Option<String>, i32)>,
    busy: usize,
}

#[derive(Debug)]
struct FakeKernel {
    options: FakeOptions,
    state: Mutex<FakeState>,
}

impl FakeKernel {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that the top level and each instance have.
    fn fill(&self, dir: &Path) -> io::Result<()> {
        let put = |file: &str, text: &str| {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            fs::write(path, text)
        };
        for (file, text) in [
            ("tracing_on", "1"),
            ("buffer_size_kb", "1408"),
            ("buffer_total_size_kb", "2816"),
            ("buffer_percent", "50"),
            ("trace_marker", ""),
            ("events/enable", "0"),
        ] {
            put(file, text)?;
        }
        put("trace_clock", &self.clocks("local"))?;
        put("events/header_page", &header_page(4096))?;
        if self.options.sub_buffer_choosable {
            put("buffer_subbuf_size_kb", "4")?;
        }
        if self.options.copy_trace_marker {
            put("options/copy_trace_marker", "0")?;
        }
        for (event, format) in self.options.kernel.formats() {
            put(&format!("events/{event}/format"), format)?;
            if !event.starts_with("ftrace/") {
                put(&format!("events/{event}/enable"), "0")?;
                put(&format!("events/{event}/trigger"), "")?;
            }
        }
        for cpu in &self.options.cpus {
            put(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"), "")?;
            put(&format!("per_cpu/cpu{cpu}/stats"), "entries: 0\noverrun: 0\n")?;
        }
        Ok(())
    }

    fn clocks(&self, chosen: &str) -> String {
        let all = ["local"].into_iter().chain(self.options.clocks.iter().copied());
        all.map(|c| if c == chosen { format!("[{c}]") } else { c.to_owned() }).collect::<Vec<_>>().join(" ")
    }

    /// Notes the change, and refuses it if told so.
    fn change(&self, path: &Path, value: &str) -> io::Result<()> {
        let mut state = self.state();
        let path = path.display().to_string();
        let refused = |(suffix, what, _): &&(String, Option<String>, i32)| {
            path.ends_with(suffix.as_str()) && what.as_deref().is_none_or(|what| what == value)
        };
        if let Some((_, _, errno)) = state.refusals.iter().find(refused) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        state.changes.push((path, value.to_owned()));
        Ok(())
    }
}

impl Controls for FakeKernel {
    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        if !file.exists() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        self.change(file, value)?;
        let dir = file.parent().unwrap_or(file);
        match file.file_name().and_then(|n| n.to_str()) {
            Some("trace_clock") => fs::write(file, self.clocks(value)),
            Some("buffer_subbuf_size_kb") => {
                let size = value.parse::<usize>().unwrap_or(4) * 1024;
                fs::write(dir.join("events/header_page"), header_page(size))?;
                fs::write(file, value)
            }
            _ => fs::write(file, value),
        }
    }

    fn append(&self, file: &Path, value: &str) -> io::Result<()> {
        self.change(file, value)?;
        OpenOptions::new().append(true).open(file)?.write_all(value.as_bytes())
    }

    fn create_instance(&self, dir: &Path) -> io::Result<()> {
        if dir.exists() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        self.change(dir, "mkdir")?;
        fs::create_dir(dir)?;
        self.fill(dir)
    }

    fn remove_instance(&self, dir: &Path) -> io::Result<()> {
        {
            let mut state = self.state();
            if state.busy > 0 {
                state.busy -= 1;
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
        }
        self.change(dir, "rmdir")?;
        fs::remove_dir_all(dir)
    }
}

/// Text of `events/header_page` on a 64-bit kernel with sub-buffers of `size` bytes.
pub fn header_page(size: usize) -> String {
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:{};\tsigned:0;\n",
        size - 16
    )
}
