//! How much memory this process may still take: of the machine, of its control groups, of its own address space.
//!
//! A recording of a day may be larger than the memory of the host under watch, and a small file may unpack to more than
//! any memory. Whoever fills memory with either asks here now and then, and stops in time: the host's own work must not
//! be what the kernel kills.

use std::fs;
use std::path::{Path, PathBuf};

use crate::units::show;

/// What there is of one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that may still be taken.
    pub left: u64,
    /// Of so many.
    pub total: u64,
    /// Whose they are, in words.
    pub whose: &'static str,
}

impl Room {
    /// Bytes that are left to others: a twentieth, at least 32 MiB and at most 2 GiB.
    pub fn reserve(&self) -> u64 {
        (self.total / 20).clamp(32 << 20, 2 << 30)
    }

    /// Bytes that may be taken without touching the reserve.
    pub fn usable(&self) -> u64 {
        self.left.saturating_sub(self.reserve())
    }
}

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of the {} of {} are free", show::bytes(self.left), show::bytes(self.total), self.whose)
    }
}

/// The tightest room there is now; `None` where nothing tells.
pub fn room() -> Option<Room> {
    at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// The same, once less than the reserve is left of it.
pub fn shortage() -> Option<Room> {
    room().filter(|room| room.usable() == 0)
}

fn at(proc: &Path, cgroups: &Path) -> Option<Room> {
    let machine = fs::read_to_string(proc.join("meminfo")).ok().and_then(|text| of_machine(&text));
    let own = fs::read_to_string(proc.join("self/cgroup")).ok();
    let group = own.as_deref().and_then(path_in).and_then(|path| of_groups(cgroups, &path));
    let limits = fs::read_to_string(proc.join("self/limits")).ok();
    let status = fs::read_to_string(proc.join("self/status")).ok();
    let own = limits.zip(status).and_then(|(limits, status)| of_process(&limits, &status));
    [machine, group, own].into_iter().flatten().min_by_key(Room::usable)
}

/// The number behind `key`, in kB as procfs has it.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

fn of_machine(meminfo: &str) -> Option<Room> {
    let (left, total) = (kilobytes(meminfo, "MemAvailable")?, kilobytes(meminfo, "MemTotal")?);
    Some(Room { left, total, whose: "this machine" })
}

/// The soft limit of the address space (`ulimit -v`), if there is one.
fn of_process(limits: &str, status: &str) -> Option<Room> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let total: u64 = line.split_whitespace().next()?.parse().ok()?;
    let left = total.saturating_sub(kilobytes(status, "VmSize")?);
    Some(Room { left, total, whose: "this process (ulimit -v)" })
}

/// This process's group in the unified hierarchy, without the leading slash.
fn path_in(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(path))
}

/// The tightest of the group and those that it is in.
fn of_groups(root: &Path, own: &Path) -> Option<Room> {
    own.ancestors().filter_map(|group| of_group(&root.join(group))).min_by_key(Room::usable)
}

fn of_group(dir: &Path) -> Option<Room> {
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max": no limit.
    let total = number("memory.max")?;
    let used = number("memory.current")?;
    // Pages of files are counted, and given back when they are wanted.
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let of = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let files = of("inactive_file").saturating_add(of("active_file"));
    let left = total.saturating_sub(used.saturating_sub(files));
    Some(Room { left, total, whose: "its control group (memory.max)" })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn machine(total_kb: u64, left_kb: u64) -> String {
        format!("MemTotal:       {total_kb} kB\nMemFree:        1 kB\nMemAvailable:   {left_kb} kB\n")
    }

    #[test]
    fn a_twentieth_is_left_to_others_within_bounds() {
        let reserve = |total| Room { left: 0, total, whose: "" }.reserve();
        assert_eq!(reserve(24 * GIB), 24 * GIB / 20);
        assert_eq!(reserve(100 * MIB), 32 * MIB);
        assert_eq!(reserve(1024 * GIB), 2 * GIB);
        let room = Room { left: 40 * MIB, total: 100 * MIB, whose: "x" };
        assert_eq!((room.usable(), Room { left: 31 * MIB, ..room }.usable()), (8 * MIB, 0));
        assert_eq!(room.to_string(), "40 MiB of the 100 MiB of x are free");
    }

    #[test]
    fn the_tightest_of_machine_group_and_process_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, groups) = (dir.path().join("proc"), dir.path().join("cg"));
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::create_dir_all(groups.join("pods/mine")).unwrap();
        assert_eq!(at(&proc, &groups), None, "nothing tells");
        fs::write(proc.join("meminfo"), machine(8 << 20, 4 << 20)).unwrap();
        let all = Room { left: 4 * GIB, total: 8 * GIB, whose: "this machine" };
        assert_eq!(at(&proc, &groups), Some(all));
        // The group itself has no limit, the one around it has.
        fs::write(proc.join("self/cgroup"), "1:name=old:/elsewhere\n0::/pods/mine\n").unwrap();
        fs::write(groups.join("pods/mine/memory.max"), "max\n").unwrap();
        fs::write(groups.join("pods/memory.max"), format!("{}\n", GIB)).unwrap();
        fs::write(groups.join("pods/memory.current"), format!("{}\n", 900 * MIB)).unwrap();
        let stat = format!("anon 1\ninactive_file {}\nactive_file {}\n", 100 * MIB, 200 * MIB);
        fs::write(groups.join("pods/memory.stat"), stat).unwrap();
        let pod = Room { left: 424 * MIB, total: GIB, whose: "its control group (memory.max)" };
        assert_eq!(at(&proc, &groups), Some(pod));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax address space         209715200            unlimited            bytes\n";
        fs::write(proc.join("self/limits"), limits).unwrap();
        fs::write(proc.join("self/status"), "VmSize:\t  102400 kB\n").unwrap();
        let own = Room { left: 100 * MIB, total: 200 * MIB, whose: "this process (ulimit -v)" };
        assert_eq!(at(&proc, &groups), Some(own));
        let unlimited = "Max address space         unlimited            unlimited            bytes\n";
        fs::write(proc.join("self/limits"), unlimited).unwrap();
        assert_eq!(at(&proc, &groups), Some(pod));
    }
}
