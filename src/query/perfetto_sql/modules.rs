//! Modules that `INCLUDE PERFETTO MODULE` can name: those whose views we provide, and what they need.
//!
//! View and column names are Perfetto's (its `src/trace_processor/perfetto_sql/stdlib`); the SQL is ours.

/// Name and script of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// Its dotted name.
    pub name: &'static str,
    /// What including it runs; empty if everything in it is always there.
    pub script: &'static str,
}

/// All modules, by name.
pub const MODULES: [Module; 14] = [
    Module { name: "prelude", script: "" },
    Module { name: "intervals.intersect", script: include_str!("modules/intervals_intersect.sql") },
    Module { name: "intervals.overlap", script: include_str!("modules/intervals_overlap.sql") },
    Module { name: "sched.latency", script: include_str!("modules/latency.sql") },
    Module { name: "sched.runnable", script: include_str!("modules/runnable.sql") },
    Module { name: "sched.states", script: include_str!("modules/states.sql") },
    Module { name: "sched.thread_executing_span", script: include_str!("modules/thread_executing_span.sql") },
    Module { name: "sched.thread_level_parallelism", script: include_str!("modules/thread_level_parallelism.sql") },
    Module { name: "sched.time_in_state", script: include_str!("modules/time_in_state.sql") },
    Module { name: "sched.with_context", script: include_str!("modules/with_context.sql") },
    Module { name: "linux.cpu.frequency", script: include_str!("modules/cpu_frequency.sql") },
    Module { name: "linux.cpu.idle", script: include_str!("modules/cpu_idle.sql") },
    Module { name: "slices.with_context", script: include_str!("modules/slices_with_context.sql") },
    Module { name: "time.conversion", script: "" },
];

/// The modules that `name` names: one, or with `*` all below a prefix. `None` if there is none.
pub fn find(name: &str) -> Option<Vec<&'static Module>> {
    let name = name.to_ascii_lowercase();
    let found: Vec<&Module> = match name.strip_suffix('*') {
        Some(prefix) if prefix.is_empty() || prefix.ends_with('.') => {
            MODULES.iter().filter(|m| m.name.starts_with(prefix)).collect()
        }
        Some(_) => Vec::new(),
        None if name.starts_with("prelude.") => MODULES.iter().filter(|m| m.name == "prelude").collect(),
        None => MODULES.iter().filter(|m| m.name == name).collect(),
    };
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wildcards() {
        let names = |n| find(n).map(|l| l.iter().map(|m| m.name).collect::<Vec<_>>());
        assert_eq!(names("SCHED.States"), Some(vec!["sched.states"]));
        assert_eq!(names("sched.*").map(|l| l.len()), Some(7));
        assert_eq!(names("prelude.after_eof.views"), Some(vec!["prelude"]));
        assert_eq!(names("android.binder"), None);
        assert_eq!(names("sch*"), None);
    }
}
