#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::load::uncommented;
use super::*;
use crate::units::{Bytes, Share, Span};

fn source(text: &str) -> Source {
    Source { name: "my.toml".into(), text: text.into() }
}

fn with(text: &str) -> Result<Config, String> {
    load_sources(&[source(text)]).map_err(|e| e.to_string())
}

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/configs").join(kind);
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    found.sort();
    assert!(found.len() >= 5, "the corpus of {kind} configurations is there");
    found
}

#[test]
fn the_default_is_what_the_contract_says() {
    let c = load(None).unwrap();
    assert_eq!(c.store.segment, Span::secs(60));
    assert_eq!(c.store.keep_time, Span::secs(24 * 3600));
    assert_eq!(c.store.keep_bytes, Bytes(4 << 30));
    assert_eq!(c.store.keep_free, Share(0.05));
    assert_eq!(c.snapshot.last, Span::secs(300));
    assert_eq!(c.capture.events, ["sched", "freq", "io", "mark"]);
    assert!(c.triggers.is_empty());
    assert!(c.live.roles.is_empty());
}

#[test]
fn the_recorder_s_built_in_default_is_the_file_s() {
    assert_eq!(load(None).unwrap().recorder(), crate::recorder::settings::Settings::default());
}

#[test]
fn the_words_for_counters_are_the_kernel_layer_s() {
    let theirs: Vec<&str> = crate::kernel::counters::Source::ALL.iter().map(|(_, word)| *word).collect();
    assert_eq!(schema::CounterSource::WORDS, theirs);
}

#[test]
fn every_shipped_file_loads_and_every_preset_is_a_shipped_file() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        load(Some(&path)).unwrap_or_else(|e| panic!("{e}"));
        names.push(path.file_stem().unwrap().to_str().unwrap().into());
    }
    names.sort();
    let mut presets: Vec<&str> = PRESETS.iter().map(|(n, _)| *n).collect();
    presets.sort();
    assert_eq!(names, presets);
    for (name, _) in PRESETS {
        load(Some(Path::new(name))).unwrap();
    }
}

#[test]
fn the_examples_in_the_default_load_when_uncommented() {
    let text = uncommented(DEFAULT);
    assert_ne!(text, format!("{}\n", DEFAULT.trim_end()), "there are examples");
    let c = with(&text).unwrap();
    assert_eq!(c.triggers.len(), 1);
    assert_eq!(c.triggers[0].label.as_deref(), Some("slow to run"));
    assert_eq!(c.live.roles["loader"].0, ["*DataLoader*", "pt_loader*"]);
}

#[test]
fn every_key_has_its_documentation_right_above_it() {
    let lines: Vec<&str> = DEFAULT.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let key = line.trim_start_matches('#').split(" = ").next().unwrap_or("");
        let is_key =
            line.contains(" = ") && !line.starts_with("# ") && key.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !is_key {
            continue;
        }
        let documented = lines[..i].iter().rev().take_while(|l| !l.is_empty()).any(|l| l.starts_with("# "));
        assert!(documented, "line {}: {line}", i + 1);
    }
}

#[test]
fn a_partial_file_changes_only_what_it_says() {
    let c = with("[store]\nsegment = \"30 s\"\n\n[live.roles]\nlog = \"logship*\"\n").unwrap();
    let mut expected = load(None).unwrap();
    expected.store.segment = Span::secs(30);
    expected.live.roles.insert("log".into(), schema::Patterns(vec!["logship*".into()]));
    assert_eq!(c, expected);
}

#[test]
fn later_files_win_and_lists_are_replaced() {
    let a = source("[capture]\nevents = [\"sched\"]\ninstance = \"dashcam-a\"\n");
    let b = source("[capture]\nevents = [\"irq\"]\n");
    let c = load_sources(&[a, b]).unwrap();
    assert_eq!(c.capture.events, ["irq"]);
    assert_eq!(c.capture.instance, "dashcam-a");
}

#[test]
fn what_is_written_reads_back() {
    for (name, _) in PRESETS {
        let c = load(Some(Path::new(name))).unwrap();
        let text = toml::to_string(&c).unwrap();
        assert_eq!(with(&text).unwrap(), c, "{name}:\n{text}");
    }
}

#[test]
fn triggers_become_the_recorder_s() {
    let c = with(
        "[[triggers]]\nvalue = \"run_queue_latency\"\nabove = \"50 ms\"\n[[triggers]]\nvalue = \"psi.cpu.some.avg10\"\nabove = \"20 %\"\nlabel = \"x\"\n",
    );
    let t = c.unwrap().recorder().triggers;
    assert_eq!((t[0].above, t[0].label.as_str(), t[0].cooldown.as_secs()), (50e6, "run_queue_latency", 600));
    assert_eq!((t[1].above, t[1].label.as_str(), t[1].last), (20.0, "x", None));
}

#[test]
fn who_may_use_the_socket_is_the_recorder_s_to_know() {
    let c = with("[control]\nmode = \"0600\"\ngroup = \"adm\"\n").unwrap().recorder().control;
    assert_eq!((c.mode, c.group.as_deref()), (0o600, Some("adm")));
    assert!(!with("capture.copy_marker = false").unwrap().recorder().capture.copy_marker);
    assert!(!with("capture.command_lines = false").unwrap().recorder().capture.command_lines);
}

#[test]
fn doctor_is_asked_what_the_recorder_is_told() {
    let c = with("[store]\nkeep_bytes = \"1 GiB\"\n[capture]\nevents = [\"irq\"]\n").unwrap();
    let d = c.doctor("/x".into(), Some(7.0));
    assert_eq!((d.keep_bytes, d.events, d.bytes_per_s), (1 << 30, vec!["irq".to_string()], Some(7.0)));
    assert_eq!((d.buffer_total, d.keep_free), (64 << 20, 0.05));
}

#[test]
fn every_valid_file_of_the_corpus_loads() {
    for path in fixtures("valid") {
        load(Some(&path)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Each invalid file has beside it a `.err` with the exact message; FILE stands for its path.
#[test]
fn every_invalid_file_of_the_corpus_gives_its_exact_message() {
    let mut wrong = Vec::new();
    for path in fixtures("invalid") {
        let got = match load(Some(&path)) {
            Ok(_) => "it loads".to_string(),
            Err(e) => e.to_string().replace(&path.display().to_string(), "FILE"),
        };
        let expected = std::fs::read_to_string(path.with_extension("err")).unwrap_or_default();
        if got != expected.trim_end() {
            wrong.push(format!("{}\n  got      {got}\n  expected {}", path.display(), expected.trim_end()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let e = load(Some(Path::new("/nonexistent/x.toml"))).unwrap_err().to_string();
    assert!(e.starts_with("cannot read the configuration /nonexistent/x.toml: No such file"), "{e}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_loaded_or_refused(text in "[\\[\\]a-z_.=\"'0-9 #\n]{0,120}") {
        let _ = with(&text);
    }
}
