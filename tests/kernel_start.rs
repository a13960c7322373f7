//! A start that fails, in the real kernel: nothing of it is left there. Needs root and tracefs; fails, not skips, without them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// What a recorder says that cannot start on the store in `dir`, and whether its tracefs instance is there afterwards.
fn refused(dir: &Path, instance: &str) -> (Option<i32>, String, bool) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    c.env_remove("DASHCAM_DIR").env_remove("DASHCAM_LOG").env("DASHCAM_CONFIG", dir.join("config.toml"));
    c.args(["record", "--source", "ftrace", "--for", "10s", "--instance", instance, "--dir"]).arg(dir.join("store"));
    let out = c.output().unwrap();
    let there = Path::new("/sys/kernel/tracing/instances").join(instance).exists();
    (out.status.code(), String::from_utf8(out.stderr).unwrap(), there)
}

#[test]
fn case_82_a_start_that_fails_leaves_no_instance_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let store = tmp.path().join("store");
    fs::write(tmp.path().join("config.toml"), "[control]\ngroup = \"no-such-group\"\n").unwrap();
    let instance = format!("dashcam-test-wcli-{}", std::process::id());
    let (code, said, there) = refused(tmp.path(), &instance);
    assert!(said.contains("there is no group no-such-group (control.group)"), "{said}");
    assert_eq!((code, there, store.exists()), (Some(1), false, false));
    // As late as can be: it records already when its process id cannot be written.
    fs::write(tmp.path().join("config.toml"), "").unwrap();
    fs::create_dir_all(store.join("dashcam.pid")).unwrap();
    let (code, said, there) = refused(tmp.path(), &instance);
    assert!(said.contains("dashcam.pid: Is a directory"), "{said}");
    assert_eq!((code, there), (Some(1), false));
    assert!(!store.join("control.sock").exists());
}
