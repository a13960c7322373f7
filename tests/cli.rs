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
fn the_readme_shows_every_command() {
    let readme = include_str!("../README.md");
    for command in dashcam::cli::command().get_subcommands() {
        let name = command.get_name();
        // The live screen is what `dashcam` alone shows.
        assert!(name == "live" || readme.contains(&format!("dashcam {name}")), "{name}");
    }
}

#[test]
fn flags_that_errors_name_are_in_the_help() {
    let help = String::from_utf8(dashcam().args(["record", "--help"]).output().unwrap().stdout).unwrap();
    for flag in ["--dir", "--config", "--instance", "--tracefs", "--source"] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn a_length_that_makes_no_sense_is_told_what_is_expected() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(121);
    for (args, what) in [
        (&["snapshot", "--last", "-5m"][..], "--last is a length, not a point in time: write --last 5m"),
        (&["snapshot", "--last", "5"], "--last: "),
        (&["snapshot", "--last", "0s"], "a snapshot of 0 s would keep nothing: ask for a length such as 5m"),
        (&["snapshot", "--label", &long], "the label has 121 bytes; 120 are the most"),
        (&["snapshot", "--label", "."], "the label has no letter and no digit"),
        (&["snapshot", "--label", "  "], "the label has no letter and no digit"),
        (&["snapshot", "--label", "a\nb"], "the label holds a line break"),
        (&["record", "--for", "0s"], "--for 0s would record nothing: give it a length such as 20s"),
        (&["trace", "-o", "x", "-t", "0s"], "--time 0 would record nothing"),
        (&["trace", "-o", "x", "-t", "1s", "-b", "0"], "--buffer 0 has no room for an event"),
        (&["report", "cpu", "--thread", ""], "--thread \"\": an empty pattern matches nothing"),
        (&["report", "cpu", "--process", "["], "--process \"[\": a [ has no ] behind it"),
        (&["report", "cpu", "--cgroup", "[z-a]"], "--cgroup \"[z-a]\": the range z-a runs backwards; write a-z"),
    ] {
        let out = dashcam().arg("--dir").arg(dir.path()).args(args).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && said.contains(what), "{args:?}: {said}");
    }
}

#[test]
fn systemd_takes_the_units_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let assets = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut units = Vec::new();
    for name in ["dashcam.service", "dashcam-check.service", "dashcam-check.timer"] {
        let text = std::fs::read_to_string(assets.join(name)).unwrap();
        let unit = dir.path().join(name);
        // It wants to see the program.
        std::fs::write(&unit, text.replace("/usr/bin/dashcam", env!("CARGO_BIN_EXE_dashcam"))).unwrap();
        units.push(unit);
    }
    let out = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output();
    let out = out.expect("systemd-analyze is needed (Debian package systemd)");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    // Words about units of the machine itself are not about ours.
    let ours: Vec<&str> = said.lines().filter(|l| l.contains("dashcam")).collect();
    assert!(out.status.success() && ours.is_empty(), "{said}");
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

#[test]
fn words_that_nobody_takes_are_no_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [&["report", "cpu", "/nonexistent"][..], &["query", "ATTACH 'x' AS p", "/nonexistent"]] {
        let out = dashcam().args(args).stderr(full()).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn wrong_usage_stays_that_where_nobody_takes_the_words() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [&["--badflag"][..], &["query", "--last", "0s", "SELECT 1"], &["report", "nothing"]] {
        let out = dashcam().args(args).stderr(full()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    }
    // A help page that went nowhere is none.
    assert_eq!(dashcam().arg("--help").stdout(full()).status().unwrap().code(), Some(1));
}

#[test]
fn a_start_that_is_refused_leaves_no_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("new/store");
    for more in [&[][..], &["--background"]] {
        let args = ["record", "--source", "ftrace", "--tracefs", "/nonexistent", "--for", "1s"];
        let out = dashcam().args(args).args(more).arg("--dir").arg(&store).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(1) && said.contains("/nonexistent"), "{said}");
        assert!(!dir.path().join("new").exists(), "{more:?}");
    }
}

#[test]
fn a_file_without_end_is_no_text() {
    let endless = |args: &[&str]| {
        let out = dashcam().args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        let words = String::from_utf8(out.stderr).unwrap();
        assert!(words.contains("larger than 16 MiB"), "{words}");
    };
    endless(&["--config", "/dev/zero", "status"]);
    endless(&["query", "-f", "/dev/zero"]);
    endless(&["check", "--baseline", "/dev/zero"]);
}

#[test]
fn an_export_of_what_cannot_be_read_fails() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage.pftrace.zst");
    std::fs::write(&garbage, b"this is no trace at all\n".repeat(100)).unwrap();
    for format in ["text", "json"] {
        let out = dashcam().args(["export", "--format", format]).arg(&garbage).output().unwrap();
        let words = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{words}");
        assert!(words.contains("nothing could be read") && words.contains("garbage.pftrace.zst"), "{words}");
    }
}

#[test]
fn a_time_zone_without_end_is_refused_and_told_once() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/store/format-1.0.pftrace.zst");
    let listed = |tz: &str| {
        let out = dashcam().args(["segments", fixture]).env("TZ", tz).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{tz}");
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (utc, before) = listed("UTC");
    for tz in ["/dev/zero", ":/dev/zero", pipe.to_str().unwrap(), "No/Where"] {
        let (table, words) = listed(tz);
        assert_eq!(table, utc, "{tz}");
        let note = format!("dashcam: note: TZ={tz} names no time zone: ");
        assert_eq!((words.matches(&note).count(), words.lines().count()), (1, before.lines().count() + 1), "{words}");
    }
    // What is one is read.
    std::fs::copy("/usr/share/zoneinfo/Asia/Tokyo", dir.path().join("tokyo")).unwrap();
    let (table, words) = listed(dir.path().join("tokyo").to_str().unwrap());
    assert!(table.contains(" +09:00") && words == before, "{table}{words}");
}

/// In the middle of an incident.
#[test]
fn a_mistake_in_the_configuration_keeps_nobody_from_the_recorder_or_the_recording() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("dashcam")).unwrap();
    std::fs::write(home.path().join("dashcam/config.toml"), "[stor]\n").unwrap();
    let run = |args: &[&str]| {
        let out = dashcam().args(args).env("XDG_CONFIG_HOME", home.path()).output().unwrap();
        String::from_utf8(out.stderr).unwrap()
    };
    for command in [&["status"][..], &["snapshot"], &["stop"], &["segments"], &["query", "SELECT 1 FROM sched"]] {
        let said = run(command);
        assert!(said.contains("config.toml:1: unknown"), "{said}");
        assert!(said.trim_end().ends_with("; until that is mended, name the store: --dir DIR"), "{said}");
    }
    let store = home.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let said = run(&["--dir", store.to_str().unwrap(), "status"]);
    assert!(said.contains("no recorder runs on"), "{said}");
    // Who records needs the configuration as it is meant.
    assert!(run(&["--dir", store.to_str().unwrap(), "record"]).trim_end().ends_with("did you mean \"store\"?"));
}

#[test]
fn a_configuration_that_is_named_is_read_by_every_command() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.toml"), "[store\n").unwrap();
    let store = dir.path().join("store");
    for (file, what) in [("broken.toml", "broken.toml"), ("none.toml", "cannot read the configuration")] {
        let said = |args: &[&str]| {
            let out = dashcam().arg("--dir").arg(&store).arg("--config").arg(dir.path().join(file)).args(args).output();
            let out = out.unwrap();
            (out.status.code(), String::from_utf8(out.stderr).unwrap())
        };
        let recorder = said(&["record", "--for", "1s"]);
        assert!(recorder.0 == Some(1) && recorder.1.contains(what), "{recorder:?}");
        for args in [
            &["segments"][..],
            &["verify"],
            &["status"],
            &["stop"],
            &["rotate"],
            &["mark", "x"],
            &["snapshot"],
            &["query", "SELECT 1"],
            &["query", "--list"],
            &["report", "cpu"],
            &["check", "--print-metrics"],
            &["export", "-o", "x"],
            &["trace", "-t", "1s", "-o", "x"],
            &["browse"],
            &["live"],
            &["keys"],
            &["doctor"],
        ] {
            assert_eq!(said(args), recorder, "{args:?}");
        }
    }
}

#[test]
fn what_is_not_there_is_told_with_the_option_that_mends_it() {
    for args in [
        &["segments", "--dir", "/nonexistent"][..],
        &["query", "--dir", "/nonexistent", "SELECT 1"],
        &["report", "cpu", "--dir", "/nonexistent"],
        &["export", "--dir", "/nonexistent", "--format", "text"],
        &["status", "--dir", "/nonexistent"],
        &["mark", "x", "--dir", "/nonexistent"],
        &["browse", "/nonexistent"],
        &["report", "cpu", "/nonexistent"],
    ] {
        let out = dashcam().args(args).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert_eq!(said, "dashcam: /nonexistent: no such file or directory (another store: --dir DIR)\n", "{args:?}");
    }
    let out = dashcam().args(["record", "--source", "proc", "--for", "1s", "--dir", "/proc/x"]).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.starts_with("dashcam: cannot make folder /proc/x: ") && said.contains("--dir"), "{said}");
}
