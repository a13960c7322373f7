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
    let segment = tmp.path().join("store/segments").read_dir().unwrap().next().unwrap().unwrap().path();
    let out = dashcam(tmp.path(), &["snapshot", "-o", segment.to_str().unwrap()]);
    assert!(out.status.code() == Some(1) && said(&out).contains("it lies in the store that is read"), "{}", said(&out));
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

#[test]
fn an_export_never_goes_over_what_it_reads() {
    let (tmp, segments) = folder();
    let at = |name: &str| tmp.path().join(name);
    let whole = fs::read(&segments[0]).unwrap();
    fs::write(at("one.pftrace.zst"), &whole).unwrap();
    symlink("one.pftrace.zst", at("link")).unwrap();
    fs::hard_link(at("one.pftrace.zst"), at("hard")).unwrap();
    fs::hard_link(&segments[0], at("hard-segment")).unwrap();
    for format in ["perfetto", "text", "json"] {
        let export = |args: &[&str]| {
            let out = dashcam(tmp.path(), &[&["export", "--format", format, "-o"], args].concat());
            assert_eq!(out.status.code(), Some(1), "{args:?}");
            said(&out)
        };
        for to in ["one.pftrace.zst", "./one.pftrace.zst", "link", "hard"] {
            let words = export(&[to, "one.pftrace.zst"]);
            assert!(words.contains("it is what is read (one.pftrace.zst); name a file elsewhere"), "{words}");
        }
        assert!(export(&["hard-segment"]).contains("it is what is read"));
        for to in [&*segments[1], "store/sequence", "store/segments/new", "store/snapshots/new"] {
            let words = export(&[to]);
            assert!(words.contains("it is what is read") || words.contains("in the store that is read"), "{words}");
        }
        assert_eq!(fs::read(at("one.pftrace.zst")).unwrap(), whole);
    }
    // Beside a store's own folders there is room.
    let out = dashcam(tmp.path(), &["export", "-o", "store/new.pftrace"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
}

#[test]
fn an_export_is_seen_when_it_is_whole_and_keeps_what_a_name_is() {
    let (tmp, segments) = folder();
    let at = |name: &str| tmp.path().join(name);
    fs::write(at("old"), b"old").unwrap();
    symlink("old", at("link")).unwrap();
    // Made here: a mistake must not cost the machine its own.
    mknod(&at("null"), SFlag::S_IFCHR, Mode::S_IRWXU, nix::sys::stat::makedev(1, 3)).unwrap();
    fs::write(at("garbage"), b"no trace at all\n".repeat(100)).unwrap();
    for format in ["perfetto", "text", "json"] {
        fs::write(at("old"), b"old").unwrap();
        let out = dashcam(tmp.path(), &["export", "--format", format, "-o", "link", "garbage"]);
        assert_eq!((out.status.code(), fs::read(at("old")).unwrap()), (Some(1), b"old".to_vec()), "{}", said(&out));
        let out = dashcam(tmp.path(), &["export", "--format", format, "-o", "link", &segments[0]]);
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink() && fs::metadata(at("old")).unwrap().len() > 100);
        let out = dashcam(tmp.path(), &["export", "--format", format, "-o", "null", &segments[0]]);
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    }
    assert!(fs::symlink_metadata(at("null")).unwrap().file_type().is_char_device());
    let names = fs::read_dir(tmp.path()).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names.filter(|n| n.to_str().unwrap().starts_with('.')).count(), 0, "nothing half-made is left");
}

#[test]
fn an_export_that_copies_frames_can_be_stopped_too() {
    use std::io::Read;
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/perfetto/training-like.pftrace.zst");
    let mut c = Command::new(env!("CARGO_BIN_EXE_dashcam"));
    c.args(["export", "-o", "-", trace]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = c.spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    // It writes, and waits for us to read.
    pipe.read_exact(&mut [0]).unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    std::io::copy(&mut pipe, &mut std::io::sink()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("stopped before it was done; the output is cut short"), "{}", said(&out));
}

#[test]
fn a_ctf_trace_goes_into_a_folder_of_its_own() {
    let (tmp, _) = folder();
    fs::create_dir(tmp.path().join("full")).unwrap();
    fs::write(tmp.path().join("full/notes"), b"mine").unwrap();
    fs::create_dir(tmp.path().join("empty")).unwrap();
    let export = |to: &str| dashcam(tmp.path(), &["export", "--format", "ctf", "-o", to]);
    for to in ["full", "store"] {
        let out = export(to);
        assert_eq!(out.status.code(), Some(1));
        assert!(to == "store" || said(&out).contains("making full: the folder is not empty"), "{}", said(&out));
    }
    for to in ["empty", "new"] {
        assert_eq!(export(to).status.code(), Some(0), "{}", said(&export(to)));
    }
    assert_eq!(fs::read_dir(tmp.path().join("full")).unwrap().count(), 1);
}
