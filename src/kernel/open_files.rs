//! The limit on open files: one is needed per CPU, and 256 CPUs are not rare.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limit is too low and could not be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} open files are needed (one per CPU and some more) but RLIMIT_NOFILE is {limit} and cannot be raised; \
     run: ulimit -n {needed} (systemd: LimitNOFILE={needed})"
)]
pub struct TooFewFiles {
    /// How many are needed.
    pub needed: u64,
    /// The hard limit.
    pub limit: u64,
}

/// Files beside the per-CPU ones: segment, sockets, procfs, libraries.
const OTHERS: u64 = 128;

/// What to set the limits to.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Enough,
    Raise { soft: u64, hard: u64 },
}

fn plan(needed: u64, soft: u64, hard: u64) -> Plan {
    if soft >= needed { Plan::Enough } else { Plan::Raise { soft: needed.max(soft), hard: hard.max(needed) } }
}

/// Makes sure that `per_cpu` more files can be open, raising the soft limit, and the hard one if root may.
pub fn ensure(per_cpu: u64) -> Result<(), TooFewFiles> {
    let needed = per_cpu.saturating_add(OTHERS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    match plan(needed, soft, hard) {
        Plan::Enough => Ok(()),
        Plan::Raise { soft, hard: new_hard } => {
            tracing::debug!(soft, "raising RLIMIT_NOFILE");
            setrlimit(Resource::RLIMIT_NOFILE, soft, new_hard).map_err(|_| TooFewFiles { needed, limit: hard })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_18_the_limit_is_raised_or_named() {
        assert_eq!(plan(1024 + OTHERS, 4096, 4096), Plan::Enough);
        assert_eq!(plan(1152, 256, 4096), Plan::Raise { soft: 1152, hard: 4096 });
        assert_eq!(plan(1152, 256, 256), Plan::Raise { soft: 1152, hard: 1152 });
        let text = TooFewFiles { needed: 1152, limit: 256 }.to_string();
        assert!(text.contains("RLIMIT_NOFILE is 256") && text.contains("ulimit -n 1152"), "{text}");
    }
}
