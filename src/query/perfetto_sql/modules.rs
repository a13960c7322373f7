//! Modules that `INCLUDE PERFETTO MODULE` can name: those whose views we provide, and what they need.
//!
//! View and column names are Perfetto's (its `src/trace_processor/perfetto_sql/stdlib`); the SQL is ours.

use super::macros::{Body, Macro};

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

/// What Perfetto has in modules that we provide, and we do not: name, and what answers the same question here.
const MISSING: [(&str, &str); 4] = [
    ("_thread_executing_span_critical_path", CHAINS),
    ("_thread_executing_span_critical_path_stack", CHAINS),
    ("_critical_path_stack", CHAINS),
    ("_critical_path_intervals", CHAINS),
];
const CHAINS: &str = "dashcam has no critical paths of sched.thread_executing_span. Its table _wakeup says who woke whom, 'dashcam report \
    wakes' sums that up, and the details of a wait on the time line follow its chain.";

/// Where a table, function or macro of that name is, if not at hand: in a module, or nowhere here though Perfetto has it.
pub fn hint(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if let Some((_, words)) = MISSING.iter().find(|m| m.0 == name) {
        return Some((*words).to_owned());
    }
    let module = MODULES.iter().find(|m| declares(m.script, &name) || (m.name, name.as_str()) == INTERSECT)?;
    Some(format!("It is in a module: say INCLUDE PERFETTO MODULE {}; before.", module.name))
}

/// True if a module's script makes a table, view, function or macro of that (lower-case) name.
fn declares(script: &str, name: &str) -> bool {
    let lower = script.to_ascii_lowercase();
    ["perfetto table ", "perfetto view ", "perfetto function ", "perfetto macro "]
        .iter()
        .flat_map(|what| lower.match_indices(what).map(|(n, _)| n + what.len()).collect::<Vec<_>>())
        .any(|n| lower[n..].strip_prefix(name).is_some_and(|r| r.starts_with([' ', '('])))
}

/// Macros of a module that no text can say, by name.
pub fn list_macros(module: &str) -> Vec<(String, Macro)> {
    if module != INTERSECT.0 {
        return Vec::new();
    }
    let parameters = ["tables", "columns"].map(str::to_owned).to_vec();
    vec![(INTERSECT.1.to_owned(), Macro { parameters, body: Body::IntervalIntersect })]
}
const INTERSECT: (&str, &str) = ("intervals.intersect", "_interval_intersect");

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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use rusqlite::types::Value;

    use super::*;
    use crate::query::columns::Columns;
    use crate::query::engine::Engine;

    #[test]
    fn names_and_wildcards() {
        let names = |n| find(n).map(|l| l.iter().map(|m| m.name).collect::<Vec<_>>());
        assert_eq!(names("SCHED.States"), Some(vec!["sched.states"]));
        assert_eq!(names("sched.*").map(|l| l.len()), Some(7));
        assert_eq!(names("prelude.after_eof.views"), Some(vec!["prelude"]));
        assert_eq!(names("android.binder"), None);
        assert_eq!(names("sch*"), None);
    }

    #[test]
    fn what_modules_of_perfettos_have_and_ours_lack_is_said() {
        let mut engine = Engine::open(Arc::new(Columns::default())).unwrap();
        let mut fails = |sql: &str| engine.answer(sql, None).unwrap_err().to_string();
        let macro_outside = fails("SELECT 1 FROM _interval_intersect!((a, b), ())");
        assert!(macro_outside.contains("say INCLUDE PERFETTO MODULE intervals.intersect; before"), "{macro_outside}");
        let paths = "INCLUDE PERFETTO MODULE sched.thread_executing_span; SELECT 1 FROM _thread_executing_span_critical_path(1, 2, 3)";
        let paths = fails(paths);
        assert!(paths.contains("no critical paths of sched.thread_executing_span"), "{paths}");
        let lists = fails("INCLUDE PERFETTO MODULE intervals.intersect; SELECT 1 FROM _interval_intersect!(a, b)");
        assert!(lists.contains("takes two lists") && lists.contains("column 60"), "{lists}");
        let words = "SELECT 1 FROM _interval_intersect!(((SELECT 'x' AS id, 'y' AS ts, 1 AS dur), (SELECT 1 AS id, 1 AS ts, 1 AS dur)), ())";
        assert!(fails(words).contains("ts and dur of intervals must be whole numbers"));
    }

    #[test]
    fn intervals_intersect_with_hostile_columns_and_texts() {
        let mut engine = Engine::open(Arc::new(Columns::default())).unwrap();
        let sql = "INCLUDE PERFETTO MODULE intervals.intersect; \
                   SELECT ts, dur, id_0, id_1, \"a b\" FROM _interval_intersect!((\
                   (SELECT '\"x\\' AS id, 5 AS ts, 10 AS dur, 'k''\"' AS \"a b\"), \
                   (SELECT 3 AS id, 7 AS ts, -1 AS dur, 'k''\"' AS \"a b\" UNION ALL SELECT 4, 14, 9223372036854775807, 'k''\"')), (\"a b\"))";
        let rows = engine.answer(sql, None).unwrap().rows;
        let text = |t: &str| Value::Text(t.into());
        assert_eq!(rows, [vec![Value::Integer(14), Value::Integer(1), text("\"x\\"), Value::Integer(4), text("k'\"")]]);
    }
}
