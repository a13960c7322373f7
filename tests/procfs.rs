//! Real processes in the real procfs. In a program of its own: the unit tests start no process, since a child that is being
//! made holds for an instant every lock and every open file of theirs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use dashcam::kernel::procfs::{Proc, ReadError};

#[test]
fn case_42_a_real_process_with_a_hostile_command_line() {
    let mut child = Command::new("/bin/sleep").arg0("evil \x1b[2J)\n(").arg("60").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // `spawn` returns when the child has given up our memory, in the middle of its exec: for an instant after that its
    // command line is still empty (begin_new_exec lets the parent of a vfork go, load_elf_binary sets mm->arg_end later).
    let end = Instant::now() + Duration::from_secs(60);
    let p = loop {
        let p = Proc::system().process(pid);
        if p.as_ref().is_ok_and(|p| !p.cmdline.is_empty()) || Instant::now() > end {
            break p;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let p = p.unwrap();
    assert_eq!(p.cmdline, vec![b"evil \x1b[2J)\n(".to_vec(), b"60".to_vec()]);
    assert_eq!(p.ppid, i32::try_from(std::process::id()).unwrap());
    assert!(!p.kernel);
    assert!(matches!(Proc::system().process(pid), Err(ReadError::Gone)));
}
