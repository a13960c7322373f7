//! `dashcam doctor`: what this machine allows.
//!
//! Exit code 0 whatever is found: looking worked. A script reads the states from `--json`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::Globals;
use crate::kernel::doctor::{Check, Host, State, examine};
use crate::names::printable;
use crate::store::Store;
use crate::store::catalog::Catalog;

/// Say what this machine allows, and the one command that mends each lack
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
    let mut wanted = globals.load_config()?.doctor(store.clone(), bytes_per_s(&store));
    wanted.tracefs.clone_from(&globals.tracefs);
    let checks = examine(&wanted, &Host::read(&store));
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", object(&checks))?;
    } else {
        out.write_all(page(&checks).as_bytes())?;
        drop(out);
        eprintln!("{}", verdict(&checks));
    }
    Ok(ExitCode::SUCCESS)
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

fn verdict(checks: &[Check]) -> String {
    let count = |state| checks.iter().filter(|c| c.state == state).count();
    match (count(State::Missing), count(State::Limited)) {
        (0, 0) => "everything is as it should be".into(),
        (0, limited) => format!("recording works; {limited} of {} are limited", checks.len()),
        (missing, _) => format!("{missing} of {} are missing: see → for what mends each", checks.len()),
    }
}

fn object(checks: &[Check]) -> Value {
    let one = |c: &Check| json!({ "name": c.name, "state": c.state.word(), "found": c.found, "mend": c.mend });
    json!({ "checks": checks.iter().map(one).collect::<Vec<_>>() })
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
        assert_eq!(verdict(&checks()), "1 of 2 are missing: see → for what mends each");
        assert_eq!(verdict(&checks()[..1]), "everything is as it should be");
    }

    #[test]
    fn json_says_the_same() {
        let told = object(&checks());
        assert_eq!(told["checks"][1]["state"], "missing");
        assert_eq!(told["checks"][0]["mend"], Value::Null);
    }

    #[test]
    fn without_a_store_there_is_no_rate() {
        assert_eq!(bytes_per_s(Path::new("/nonexistent")), None);
    }
}
