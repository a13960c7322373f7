//! How long control groups were kept from running by their CPU limit (`cpu.max`, `cpu.cfs_quota_us`).
//!
//! Only groups with a limit are sampled. The tree is walked now and then, within bounds; between walks only the
//! files found are read.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Sample;

/// Folders looked at in one walk; a node with more groups than this is sampled in part.
const MAX_FOLDERS: usize = 4_000;
const MAX_DEPTH: usize = 12;
/// Groups sampled at most.
const MAX_GROUPS: usize = 500;
/// Rounds between two walks.
const WALK_EVERY: u32 = 30;

/// Groups with a CPU limit and where their numbers are.
#[derive(Debug)]
pub(super) struct Throttled {
    root: PathBuf,
    /// Path within the tree, and its cpu.stat.
    groups: Vec<(Vec<u8>, PathBuf)>,
    rounds_to_walk: u32,
}

impl Throttled {
    pub(super) fn new(root: PathBuf) -> Self {
        Throttled { root, groups: Vec::new(), rounds_to_walk: 0 }
    }

    /// Samples of every group with a limit. No groups is no error, no cgroup tree is.
    pub(super) fn sample(&mut self, out: &mut Vec<Sample>) -> Result<(), String> {
        if self.rounds_to_walk == 0 {
            let tree = self.tree().ok_or_else(|| {
                format!(
                    "{}: no cpu.stat; mount a cgroup2 tree there (mount -t cgroup2 none /sys/fs/cgroup)",
                    self.root.display()
                )
            })?;
            self.groups = limited(&tree);
            self.rounds_to_walk = WALK_EVERY;
        }
        self.rounds_to_walk -= 1;
        for (path, file) in &self.groups {
            // A group that was removed since the walk is not there any more.
            let Ok(text) = super::text(file) else { continue };
            let Some(stat) = parse(&text) else { continue };
            let name = |what: &str| [b"cgroup.", what.as_bytes(), b":", path].concat();
            out.push(Sample::new(name("throttled_ns"), stat.throttled_ns as f64));
            out.push(Sample::new(name("throttled_periods"), stat.throttled_periods as f64));
        }
        Ok(())
    }

    /// The tree that has the cpu controller: unified, or one of version 1's.
    fn tree(&self) -> Option<PathBuf> {
        let v1 = ["cpu,cpuacct", "cpu"].map(|name| self.root.join(name));
        let has_cpu = |dir: &PathBuf| dir.join("cpu.stat").is_file();
        v1.into_iter().chain([self.root.clone(), self.root.join("unified")]).find(has_cpu)
    }
}

/// Groups below `tree` that have counted periods, that is, have a limit; breadth first, so that what is cut is deep.
fn limited(tree: &Path) -> Vec<(Vec<u8>, PathBuf)> {
    let mut found = Vec::new();
    let mut level = vec![tree.to_path_buf()];
    let mut folders = 0;
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for dir in level {
            folders += 1;
            if folders > MAX_FOLDERS || found.len() == MAX_GROUPS {
                return found;
            }
            let file = dir.join("cpu.stat");
            if super::text(&file).ok().and_then(|t| parse(&t)).is_some_and(|s| s.periods > 0)
                && let Ok(below) = dir.strip_prefix(tree)
            {
                found.push(([b"/", below.as_os_str().as_bytes()].concat(), file));
            }
            let children = fs::read_dir(&dir).into_iter().flatten().flatten();
            // Not through links: they lead out of the tree, or round in it.
            next.extend(children.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
        level = next;
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuStat {
    periods: u64,
    throttled_periods: u64,
    throttled_ns: u64,
}

/// `nr_periods`, `nr_throttled` and `throttled_usec` (version 2) or `throttled_time` in ns (version 1); `None` where the group
/// has no such lines (no limit can be set there).
fn parse(text: &str) -> Option<CpuStat> {
    let value =
        |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    let throttled_ns = value("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| value("throttled_time"))?;
    Some(CpuStat { periods: value("nr_periods")?, throttled_periods: value("nr_throttled")?, throttled_ns })
}
