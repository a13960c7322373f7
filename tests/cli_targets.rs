//! What commands write to, from outside: what stands there already is replaced only where that is meant.
#![allow(clippy::unwrap_used)]

mod store_support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use dashcam::store::Store;
use nix::sys::stat::{Mode, SFlag, mknod};
use store_support::{Plan, record_row};

fn dashcam(dir: &Path, args: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    c.env_remove("DASHCAM_CONFIG").env_remove("DASHCAM_LOG").env("DASHCAM_DIR", dir.join("store")).current_dir(dir);
    c.args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

/// A folder with a store of two segments in it, and their paths.
fn folder() -> (tempfile::TempDir, Vec<String>) {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::create(&tmp.path().join("store")).unwrap();
    record_row(&store, Plan::default(), 2);
    let paths = store.segments().unwrap().into_iter().map(|f| f.path.to_str().unwrap().to_owned());
    (tmp, paths.collect())
}

#[test]
fn a_trace_is_never_put_in_place_of_what_is_no_file() {
    let (tmp, _) = folder();
    let at = |name: &str| tmp.path().join(name);
    mknod(&at("pipe"), SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
    symlink("pipe", at("to-pipe")).unwrap();
    symlink("none", at("nowhere")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (name, why) in [
        ("pipe", "it is a pipe"),
        ("to-pipe", "it is a pipe"),
        ("socket", "it is a socket"),
        ("nowhere", "it is a symbolic link that leads nowhere"),
    ] {
        // Refused before the kernel is asked for anything: there is no such tracefs.
        let out = dashcam(tmp.path(), &["trace", "-t", "1s", "--tracefs", "/nonexistent", "-o", name]);
        assert_eq!(out.status.code(), Some(1), "{name}");
        assert!(said(&out).contains(why), "{}", said(&out));
    }
    assert!(fs::symlink_metadata(at("pipe")).unwrap().file_type().is_fifo());
    assert!(fs::symlink_metadata(at("to-pipe")).unwrap().is_symlink());
}

#[test]
fn a_snapshot_without_a_recorder_goes_through_links_and_into_pipes() {
    let (tmp, _) = folder();
    let at = |name: &str| tmp.path().join(name);
    fs::write(at("old"), b"x").unwrap();
    symlink("old", at("link")).unwrap();
    let out = dashcam(tmp.path(), &["snapshot", "-o", "link"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink() && fs::metadata(at("old")).unwrap().len() > 100);
    mknod(&at("pipe"), SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
    let reader = std::thread::spawn({
        let pipe = at("pipe");
        move || fs::read(pipe).unwrap()
    });
    let out = dashcam(tmp.path(), &["snapshot", "-o", "pipe"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(fs::symlink_metadata(at("pipe")).unwrap().file_type().is_fifo(), "still a pipe");
    assert!(reader.join().unwrap().len() > 100);
}
