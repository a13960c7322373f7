//! Which CPUs there are and where they sit, from sysfs under any root folder.
//!
//! CPU ids can be sparse (`0-3,8,10-11`) and pass 1,024: everything is keyed by id, nothing is counted up to a number.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sched::event::CpuFact;

/// A CPU list that is not one, or sysfs that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// Not in the kernel's list format.
    #[error("\"{text}\" is no list of CPUs such as 0-3,8,10-11: {why}")]
    List {
        /// The text, printable.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A file of sysfs cannot be read.
    #[error("{path}: {source}; is sysfs mounted? (mount -t sysfs sysfs /sys)")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Highest CPU id taken for real; CONFIG_NR_CPUS ends at 8,192 on x86-64.
const MAX_CPU: u32 = 65_535;

/// `0-3,8,10-11` as ids, ascending, each once. Empty text is an empty list; `0-9:2/4`-style groups are taken as well.
///
/// # Errors
/// Anything else, and ids beyond 65,535.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, TopologyError> {
    let wrong = |why| {
        let shown: String = text.chars().take(80).collect();
        TopologyError::List { text: crate::names::printable(shown.as_bytes()), why }
    };
    let number = |t: &str| {
        let digits = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| t.parse::<u32>().ok()).flatten().filter(|n| *n <= MAX_CPU)
    };
    let mut ids = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        // "first-last:used/group" (lib/bitmap-str.c): of every `group` ids the first `used`.
        let (range, group) = part.split_once(':').map_or((part, None), |(r, g)| (r, Some(g)));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = number(first).zip(number(last)).filter(|(a, b)| a <= b);
        let (first, last) = ends.ok_or_else(|| wrong("an id is no number, beyond 65535, or a range runs backwards"))?;
        let pattern = group.map(|g| g.split_once('/').and_then(|(used, of)| number(used).zip(number(of))));
        match pattern {
            None => ids.extend(first..=last),
            Some(Some((used, of))) if of > 0 && used <= of => {
                ids.extend((first..=last).filter(|i| (i - first) % of < used))
            }
            Some(_) => return Err(wrong("a group is not used/size")),
        }
        // Each list names an id once, so more ids than there can be CPUs is an attack on our memory.
        if ids.len() > MAX_CPU as usize + 1 {
            return Err(wrong("it names more CPUs than there can be"));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Ids as the kernel prints them: `0-3,8,10-11`.
pub fn format_cpu_list(ids: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &id in ids {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => parts.push((id, id)),
        }
    }
    let show = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

/// Where one CPU sits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpu {
    /// Its id.
    pub cpu: u32,
    /// NUMA node.
    pub node: u32,
    /// Socket.
    pub package: u32,
    /// Core within the socket.
    pub core: u32,
    /// CPUs that share the core (SMT), itself included.
    pub siblings: Vec<u32>,
    /// Online when it was read.
    pub online: bool,
    /// Highest frequency, kHz, where the machine says.
    pub max_khz: Option<u32>,
}

/// All CPUs, by id: every one that is present, whether on- or offline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// The CPUs, ascending.
    pub cpus: Vec<Cpu>,
    /// Ids the kernel has room for; more than are present on machines with hot-plug.
    pub possible: Vec<u32>,
}

impl Topology {
    /// Reads `root`/devices/system; `root` is normally `/sys`. A CPU whose place is not told (offline CPUs hide theirs)
    /// sits on node 0, socket 0, and on a core of its own.
    ///
    /// # Errors
    /// When the list of online CPUs cannot be read.
    pub fn read(root: &Path) -> Result<Self, TopologyError> {
        let dir = root.join("devices/system/cpu");
        let online = list(&dir.join("online"))?;
        let present = list(&dir.join("present")).unwrap_or_else(|_| online.clone());
        let possible = list(&dir.join("possible")).unwrap_or_else(|_| present.clone());
        let nodes = nodes(&root.join("devices/system/node"));
        let mut ids: Vec<u32> = present.iter().chain(&online).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let cpus = ids
            .into_iter()
            .map(|cpu| {
                let own = dir.join(format!("cpu{cpu}"));
                let num = |name: &str| number(&own.join("topology").join(name));
                let siblings = list(&own.join("topology/thread_siblings_list")).ok().filter(|s| s.contains(&cpu));
                Cpu {
                    cpu,
                    node: nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(n, _)| *n),
                    package: num("physical_package_id").unwrap_or(0),
                    core: num("core_id").unwrap_or(cpu),
                    siblings: siblings.unwrap_or_else(|| vec![cpu]),
                    online: online.binary_search(&cpu).is_ok(),
                    max_khz: number(&own.join("cpufreq/cpuinfo_max_freq")),
                }
            })
            .collect();
        Ok(Topology { cpus, possible })
    }

    /// Ids of the CPUs that are online.
    pub fn online(&self) -> Vec<u32> {
        self.cpus.iter().filter(|c| c.online).map(|c| c.cpu).collect()
    }

    /// The same in the domain's words.
    pub fn facts(&self) -> Vec<CpuFact> {
        self.cpus
            .iter()
            .map(|c| CpuFact { cpu: c.cpu, node: c.node, package: c.package, core: c.core, online: c.online })
            .collect()
    }
}

fn list(path: &Path) -> Result<Vec<u32>, TopologyError> {
    let text = fs::read_to_string(path).map_err(|source| TopologyError::Read { path: path.into(), source })?;
    parse_cpu_list(&text)
}

/// A file that holds one number; `None` also for the -1 that firmware without a table gives.
fn number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// NUMA nodes and their CPUs; none on kernels without NUMA.
fn nodes(dir: &Path) -> Vec<(u32, Vec<u32>)> {
    let ids = list(&dir.join("online")).unwrap_or_default();
    ids.into_iter().filter_map(|n| Some((n, list(&dir.join(format!("node{n}/cpulist"))).ok()?))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_19_sparse_lists_keep_their_ids() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("").unwrap(), Vec::<u32>::new());
        assert_eq!(parse_cpu_list("0-7:1/4").unwrap(), [0, 4]);
        assert_eq!(parse_cpu_list("1500").unwrap(), [1500]);
        assert_eq!(format_cpu_list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(format_cpu_list(&[]), "");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["x", "3-1", "-1", "0-4294967295", "1-", "0-7:3/2", "0-7:1/0", "+1", "\u{1b}[2J"] {
            let e = parse_cpu_list(bad).unwrap_err().to_string();
            assert!(e.contains("no list of CPUs") && !e.contains('\u{1b}'), "{bad}: {e}");
        }
        let many = vec!["0-65535"; 100_000].join(",");
        assert!(parse_cpu_list(&many).is_err(), "memory stays bounded");
    }

    fn fake() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join("devices/system").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("cpu/online", "0-1,8\n");
        put("cpu/present", "0-1,8-9\n");
        put("cpu/possible", "0-15\n");
        put("node/online", "0,2\n");
        put("node/node0/cpulist", "0-1\n");
        put("node/node2/cpulist", "8\n");
        for (cpu, package, core, siblings) in [(0, 0, 0, "0-1"), (1, 0, 0, "0-1"), (8, 1, 4, "8")] {
            put(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{package}\n"));
            put(&format!("cpu/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
            put(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &format!("{siblings}\n"));
        }
        put("cpu/cpu8/cpufreq/cpuinfo_max_freq", "3700000\n");
        dir
    }

    #[test]
    fn case_19_cpus_are_keyed_by_id_and_offline_ones_are_there() {
        let dir = fake();
        let t = Topology::read(dir.path()).unwrap();
        assert_eq!(t.online(), [0, 1, 8]);
        assert_eq!(t.possible.len(), 16);
        let fact = |cpu, node, package, core, online| CpuFact { cpu, node, package, core, online };
        assert_eq!(
            t.facts(),
            [fact(0, 0, 0, 0, true), fact(1, 0, 0, 0, true), fact(8, 2, 1, 4, true), fact(9, 0, 0, 9, false)]
        );
        assert_eq!(t.cpus[1].siblings, [0, 1]);
        assert_eq!((t.cpus[2].max_khz, t.cpus[3].max_khz), (Some(3_700_000), None));
    }

    #[test]
    fn no_sysfs_is_told_with_its_mend() {
        let e = Topology::read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(e.contains("/nonexistent/devices/system/cpu/online") && e.contains("mount -t sysfs"), "{e}");
    }

    #[test]
    fn this_machine_has_the_cpus_it_runs_on() {
        let t = Topology::read(Path::new("/sys")).unwrap();
        let mine = nix::sched::sched_getcpu().unwrap() as u32;
        assert!(t.online().contains(&mine));
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_not(text in "\\PC{0,60}") {
            let _ = parse_cpu_list(&text);
        }

        #[test]
        fn lists_print_and_read_back(mut ids in proptest::collection::vec(0u32..3000, 0..40)) {
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(parse_cpu_list(&format_cpu_list(&ids)).unwrap(), ids);
        }
    }
}
