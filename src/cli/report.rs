//! `dashcam report`: ready answers.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::reading::{Source, Stop};
use super::screen::settings;
use super::{Globals, usage, zone};
use crate::kernel::topology::format_cpu_list;
use crate::query::Keep;
use crate::query::load::Kept;
use crate::report::findings::Detector;
use crate::report::pick::{Filter, Roles};
use crate::report::table::Clocks;
use crate::report::{Kind, make};
use crate::sched::model::Model;

/// Ready answers: cpu latency states blocked preempt wakes io summary
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which: cpu, latency, states, blocked, preempt, wakes, io, summary
    #[arg(value_name = "REPORT", value_parser = ["cpu", "latency", "states", "blocked", "preempt", "wakes", "io", "summary"])]
    pub report: String,
    /// Which stretch of time
    #[command(flatten)]
    pub window: super::WindowArgs,
    /// Only threads whose name matches (* ? [a-z], as in a shell), or with this tid
    #[arg(long, value_name = "GLOB")]
    pub thread: Option<String>,
    /// Only threads of processes whose name or command line matches, or with this pid
    #[arg(long, value_name = "GLOB")]
    pub process: Option<String>,
    /// Only threads of cgroups whose path matches
    #[arg(long, value_name = "GLOB")]
    pub cgroup: Option<String>,
    /// Only threads of this role (live.roles in the configuration)
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// Only what happened on this CPU
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Leave the recorder's own threads out
    #[arg(long)]
    pub hide_own: bool,
    /// Rows of a table at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// One JSON object per row
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Markdown, for a ticket
    #[arg(long)]
    pub markdown: bool,
    /// What to read (default: the store)
    #[arg(value_name = "PATH")]
    pub path: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let kind = Kind::of(&args.report).ok_or_else(|| usage(format!("{} is no report", args.report)))?;
    let roles = if args.role.is_some() { roles(globals)? } else { Roles::new() };
    let thresholds = match kind {
        Kind::Summary => Some(settings(&globals.load_config()?).thresholds),
        _ => None,
    };
    let filter = Filter {
        thread: args.thread.clone(),
        process: args.process.clone(),
        cgroup: args.cgroup.clone(),
        role: args.role.clone(),
        cpu: args.cpu,
        hide_own: args.hide_own,
    };
    filter.check().map_err(usage)?;
    let stop = Stop::on_interrupt()?;
    let source = Source::find(&args.path, &args.window, globals, &stop)?;
    let keep = if matches!(kind, Kind::Io | Kind::Summary) { Keep::Block } else { Keep::Nothing };
    let mut model = thresholds.map(|_| Model::default());
    let loaded = source.load_beside(Kept::states(keep), model.as_mut(), &stop)?;
    let picked = filter.pick(&loaded.columns, &roles).map_err(usage)?;
    if !picked.all && picked.threads().next().is_none() {
        tell!("dashcam: note: none of the threads in this time is one that was asked for");
    }
    let cpus = &loaded.columns.cpus_seen;
    if let Some(cpu) = args.cpu.filter(|cpu| cpus.get(*cpu as usize) != Some(&true)) {
        let seen: Vec<u32> = (0..).zip(cpus).filter(|(_, seen)| **seen).map(|(cpu, _)| cpu).collect();
        let seen = format_cpu_list(&seen);
        tell!("dashcam: note: nothing happened on CPU {cpu} in this data; it has CPU {seen}");
    }
    let clocks = Clocks { map: loaded.clocks, zone: zone() };
    let detector = model.as_ref().zip(thresholds).map(|(model, thresholds)| Detector { model, thresholds });
    let tables = make(kind, &loaded.columns, &picked, args.limit.max(1), detector);
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (n, table) in tables.iter().enumerate() {
        if args.json {
            for row in table.json_lines(&clocks) {
                writeln!(out, "{}", safe_json(&row))?;
            }
        } else {
            let text = if args.markdown { table.markdown(&clocks) } else { table.text(&clocks) };
            write!(out, "{}{text}", if n > 0 { "\n" } else { "" })?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A JSON value in one line in which nothing can move a cursor.
pub fn safe_json(value: &serde_json::Value) -> String {
    use crate::query::output::json_string;
    match value {
        serde_json::Value::Object(map) => {
            let one = |(k, v): (&String, &serde_json::Value)| format!("{}:{}", json_string(k.as_bytes()), safe_json(v));
            format!("{{{}}}", map.iter().map(one).collect::<Vec<_>>().join(","))
        }
        serde_json::Value::Array(list) => format!("[{}]", list.iter().map(safe_json).collect::<Vec<_>>().join(",")),
        serde_json::Value::String(text) => json_string(text.as_bytes()),
        other => other.to_string(),
    }
}

/// Roles of the configuration.
fn roles(globals: &Globals) -> anyhow::Result<Roles> {
    let config = globals.load_config()?;
    Ok(config.live.roles.iter().map(|(name, patterns)| (name.clone(), patterns.0.clone())).collect::<BTreeMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_43_json_lines_hold_no_control_codes() {
        let value = serde_json::json!({"a\x1b": ["\u{9b}2J", 1, null], "b": 1.5});
        assert_eq!(safe_json(&value), "{\"a\\u001b\":[\"\\u009b2J\",1,null],\"b\":1.5}");
    }
}
