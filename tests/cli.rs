//! The command line from outside: exit codes, closed pipes, signals at the start of a process's life.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::process::{Command, Stdio};

fn dashcam() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    c.env_remove("DASHCAM_DIR").env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_LOG");
    c
}

#[test]
fn help_and_version_go_to_stdout_and_are_success() {
    for flag in ["--help", "--version"] {
        let out = dashcam().arg(flag).output().unwrap();
        assert_eq!(out.status.code(), Some(0));
        assert!(out.stderr.is_empty());
        assert!(String::from_utf8(out.stdout).unwrap().contains("dashcam"));
    }
}

#[test]
fn wrong_usage_is_exit_2_on_stderr() {
    for args in [&["--no-such"][..], &["no-such"], &["trace"], &["snapshot", "--last"]] {
        let out = dashcam().args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(out.stdout.is_empty() && !out.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn every_command_of_the_help_page_has_its_own() {
    let help = String::from_utf8(dashcam().arg("--help").output().unwrap().stdout).unwrap();
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = list.lines().filter_map(|l| l.strip_prefix("  ")?.split_whitespace().next()).collect();
    assert!(names.len() >= 19, "{names:?}");
    for name in names {
        let out = dashcam().args([name, "--help"]).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child =
        dashcam().args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    assert_eq!(err, "");
}

#[test]
fn man_pages_and_completions_come_from_the_flag_table() {
    let man = String::from_utf8(dashcam().arg("man").output().unwrap().stdout).unwrap();
    assert!(man.contains(".TH dashcam"), "{man}");
    let dir = tempfile::tempdir().unwrap();
    assert!(dashcam().args(["man", "--out-dir"]).arg(dir.path()).status().unwrap().success());
    let page = std::fs::read_to_string(dir.path().join("dashcam-snapshot.1")).unwrap();
    assert!(page.contains("label"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let out = dashcam().args(["completions", shell]).output().unwrap();
        assert!(String::from_utf8(out.stdout).unwrap().contains("snapshot"), "{shell}");
    }
}
