//! The floors of the crate are one-way: no module names one that stands above it (DESIGN: "each importing only
//! from floors below it"). Rust does not check this inside one crate, so this does, on the source text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each top-level module may import, besides itself.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    let base = vec!["names", "time", "units"];
    let plus = |more: &[&'static str]| base.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    BTreeMap::from([
        ("names", vec![]),
        ("memory", vec!["units"]),
        ("units", vec!["names"]),
        ("time", vec!["names", "units"]),
        ("sched", base.clone()),
        ("kernel", plus(&["sched"])),
        ("perfetto", plus(&["sched"])),
        ("store", plus(&["sched", "perfetto"])),
        ("feed", plus(&["memory", "sched", "perfetto", "store"])),
        ("recorder", plus(&["sched", "kernel", "perfetto", "store"])),
        ("config", plus(&["sched", "kernel", "perfetto", "store", "feed", "recorder"])),
        ("query", plus(&["sched", "perfetto", "store", "feed"])),
        ("report", plus(&["sched", "perfetto", "store", "feed", "query"])),
        ("export", plus(&["sched", "perfetto", "store", "feed"])),
        ("tui", plus(&["memory", "sched", "perfetto", "store", "feed", "query", "report", "export"])),
        (
            "cli",
            plus(&[
                "memory", "sched", "kernel", "perfetto", "store", "feed", "recorder", "config", "query", "report",
                "export", "tui",
            ]),
        ),
    ])
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Top-level modules that a line of source names through `crate::`, including `use crate::{a, b::c};`.
fn named_modules(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        if at > 0 && text.as_bytes()[at - 1] == b'$' {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        let word =
            |s: &str| s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut start = 0;
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => {
                        found.push(word(&group[start..i]));
                        start = i + 1;
                    }
                    _ => {}
                }
                if depth == 0 {
                    found.push(word(&group[start..i]));
                    break;
                }
            }
        } else {
            found.push(word(rest));
        }
    }
    found
}

fn violations(module: &str, text: &str, allowed: &BTreeMap<&str, Vec<&str>>) -> Vec<String> {
    // Comments and doc links may name anything; only code counts.
    let code: String = text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    named_modules(&code)
        .into_iter()
        .filter(|named| {
            named != module && allowed.contains_key(named.as_str()) && !allowed[module].contains(&named.as_str())
        })
        .collect()
}

#[test]
fn no_module_imports_from_a_floor_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed = allowed();
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 20, "the source tree was found");
    let mut bad = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).expect("below src");
        let first = relative.components().next().expect("has a name").as_os_str().to_string_lossy().to_string();
        let module = first.trim_end_matches(".rs").to_string();
        if module == "main" || module == "lib" {
            continue;
        }
        assert!(
            allowed.contains_key(module.as_str()),
            "src/{first} is on no floor: add it here and to ARCHITECTURE.md"
        );
        let text = fs::read_to_string(&file).expect("readable source");
        for named in violations(&module, &text, &allowed) {
            bad.push(format!("src/{} names crate::{named}", relative.display()));
        }
    }
    bad.dedup();
    assert!(bad.is_empty(), "imports that go upwards:\n  {}", bad.join("\n  "));
}

#[test]
fn the_check_sees_single_and_grouped_imports() {
    let allowed = allowed();
    assert_eq!(violations("sched", "use crate::kernel::page;", &allowed), ["kernel"]);
    assert_eq!(violations("sched", "use crate::{names::NameId, store::{a, b}, tui};", &allowed), ["store", "tui"]);
    assert_eq!(violations("recorder", "fn f() { crate::tui::run() }", &allowed), ["tui"]);
    assert!(violations("sched", "// crate::kernel tells\nuse crate::names::NameId;", &allowed).is_empty());
}
