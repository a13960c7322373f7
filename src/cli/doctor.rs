//! `dashcam doctor`: what this machine allows.
//!
//! Exit code 0 where a recorder would record, with less than everything maybe, and 1 where it could not. A script that
//! wants to know more reads the states from `--json`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::Globals;
use crate::kernel::doctor::{Check, Host, State, examine};
use crate::names::printable;
use crate::recorder::settings::Source;
use crate::store::Store;
use crate::store::catalog::Catalog;

/// Say what this machine allows, and the one command that mends each lack
///
/// Exit code 0: a recorder would record, maybe with less than everything. 1: it could not record at all.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Segments at the end of the store from which the rate of recording is told.
const RATE_FROM: usize = 30;

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let store = globals.places()?.store;
    let config = globals.load_config()?;
    let source = config.recorder().capture.source;
    let mut wanted = config.doctor(store.clone(), bytes_per_s(&store));
    wanted.tracefs.clone_from(&globals.tracefs);
    let checks = examine(&wanted, &Host::read(&store));
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", object(&checks, source))?;
    } else {
        out.write_all(page(&checks).as_bytes())?;
        drop(out);
        tell!("{}", verdict(&checks, source));
    }
    Ok(if records(&checks, source).is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How fast the newest finished segments grew; `None` without a store.
fn bytes_per_s(store: &Path) -> Option<f64> {
    let catalog = Catalog::open(&Store::open(store).ok()?).ok()?;
    let finished = (0..catalog.segments().len()).rev().filter(|i| !catalog.segments()[*i].is_growing());
    let (mut bytes, mut ns) = (0.0, 0.0);
    for i in finished.take(RATE_FROM) {
        let Some(window) = catalog.window(i) else { continue };
        bytes += catalog.segments()[i].bytes as f64;
        ns += window.to.saturating_sub(window.from) as f64;
    }
    (ns > 0.0).then(|| bytes / ns * 1e9)
}

/// A line per check, and below it what mends it.
fn page(checks: &[Check]) -> String {
    let name_width = checks.iter().map(|c| c.name.width()).max().unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let found = printable(check.found.as_bytes());
        out.push_str(&format!("{:<8} {:<name_width$}  {found}\n", check.state.word(), check.name));
        if let Some(mend) = &check.mend {
            out.push_str(&format!("{:<8} {:<name_width$}  → {}\n", "", "", printable(mend.as_bytes())));
        }
    }
    out
}

/// Checks without which the kernel gives no events.
const FOR_FTRACE: [&str; 7] = ["kernel", "tracefs", "rights", "lockdown", "user namespace", "clock", "events"];

/// Where a recorder told to record from `source` would get scheduling from here; `None`: it could not record.
fn records(checks: &[Check], source: Source) -> Option<&'static str> {
    let missing = |name: &str| checks.iter().any(|c| c.name == name && c.state == State::Missing);
    if missing("disk") {
        return None;
    }
    let ftrace = !FOR_FTRACE.iter().any(|name| missing(name));
    match source {
        Source::Auto | Source::Ftrace if ftrace => Some("ftrace"),
        Source::Ftrace => None,
        Source::Auto | Source::Proc => Some("proc"),
    }
}

fn verdict(checks: &[Check], source: Source) -> String {
    let count = |state| checks.iter().filter(|c| c.state == state).count();
    let all = checks.len();
    let lacks = match (count(State::Missing), count(State::Limited)) {
        (0, 0) => return "everything is as it should be".into(),
        (0, limited) => format!("{limited} of {all} are limited"),
        (missing, _) => format!("{missing} of {all} are missing: see → for what mends each"),
    };
    match records(checks, source) {
        Some("proc") => format!("recording works by sampling /proc; {lacks}"),
        Some(_) => format!("recording works; {lacks}"),
        None => format!("nothing can be recorded; {lacks}"),
    }
}

/// `records` is `ftrace`, `proc`, or null where nothing can be recorded.
fn object(checks: &[Check], source: Source) -> Value {
    let one = |c: &Check| json!({ "name": c.name, "state": c.state.word(), "found": c.found, "mend": c.mend });
    json!({ "records": records(checks, source), "checks": checks.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<Check> {
        let check = |name, state, found: &str, mend: Option<&str>| Check {
            name,
            state,
            found: found.into(),
            mend: mend.map(str::to_owned),
        };
        vec![
            check("kernel", State::Ok, "6.18.44", None),
            check("user namespace", State::Missing, "a\x1b[2Jb", Some("run it on the host")),
        ]
    }

    #[test]
    fn each_check_has_a_line_and_its_mend_below() {
        let lines = "\
ok       kernel          6.18.44
missing  user namespace  a\\x1b[2Jb
                         → run it on the host
";
        assert_eq!(page(&checks()), lines);
        let verdict = |checks: &[Check]| verdict(checks, Source::Auto);
        assert_eq!(
            verdict(&checks()),
            "recording works by sampling /proc; 1 of 2 are missing: see → for what mends each"
        );
        assert_eq!(verdict(&checks()[..1]), "everything is as it should be");
    }

    #[test]
    fn json_says_the_same() {
        let told = object(&checks(), Source::Auto);
        assert_eq!(told["records"], "proc");
        assert_eq!(told["checks"][1]["state"], "missing");
        assert_eq!(told["checks"][0]["mend"], Value::Null);
    }

    #[test]
    fn nothing_can_be_recorded_without_a_disk_or_without_the_source_that_is_insisted_on() {
        let check = |name, state| Check { name, state, found: String::new(), mend: None };
        let fine = [check("tracefs", State::Ok), check("disk", State::Limited)];
        let untraced = [check("tracefs", State::Missing), check("disk", State::Ok)];
        let full = [check("tracefs", State::Ok), check("disk", State::Missing)];
        let told = |source| [&fine, &untraced, &full].map(|checks| records(checks, source));
        assert_eq!(told(Source::Auto), [Some("ftrace"), Some("proc"), None]);
        assert_eq!(told(Source::Ftrace), [Some("ftrace"), None, None]);
        assert_eq!(told(Source::Proc), [Some("proc"), Some("proc"), None]);
        assert!(verdict(&full, Source::Auto).starts_with("nothing can be recorded; 1 of 2"));
    }

    #[test]
    fn without_a_store_there_is_no_rate() {
        assert_eq!(bytes_per_s(Path::new("/nonexistent")), None);
    }
}
