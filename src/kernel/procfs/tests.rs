#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::parse::*;
use super::*;

/// A thread and its name.
type Named = (Tid, &'static [u8]);

/// A folder that looks like procfs; the first thread of each process is its leader.
fn fake(processes: &[(Tid, &[Named])]) -> (tempfile::TempDir, Proc) {
    let dir = tempfile::tempdir().unwrap();
    for (pid, threads) in processes {
        for (tid, name) in *threads {
            let mut stat = format!("{tid} (").into_bytes();
            stat.extend_from_slice(name);
            stat.extend_from_slice(
                b") S 1 1 1 0 -1 4194304 97 0 0 0 7 3 0 0 20 0 1 0 161868 3133440 362 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0",
            );
            let task = dir.path().join(format!("{pid}/task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), &stat).unwrap();
            fs::write(task.join("schedstat"), format!("{}000 500 7\n", tid)).unwrap();
            let own = dir.path().join(tid.to_string());
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("stat"), &stat).unwrap();
            let status = format!(
                "Name:\tx\nTgid:\t{pid}\nPid:\t{tid}\nPPid:\t1\nUid:\t1000\t0\t0\t0\nCpus_allowed_list:\t0-2,8\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n"
            );
            fs::write(own.join("status"), status).unwrap();
            // procfs finds threads by id but does not list them: the listing below is of processes only.
            if tid != pid {
                fs::rename(&own, dir.path().join(format!("{tid}.unlisted"))).unwrap();
            }
        }
        fs::write(dir.path().join(format!("{pid}/cmdline")), b"python3\0train.py\0--x=\x1b]52;c;!\x07\0").unwrap();
        fs::write(dir.path().join(format!("{pid}/cgroup")), "0::/kubepods/train\n").unwrap();
    }
    let proc = Proc::at(dir.path(), 100);
    (dir, proc)
}

fn name_in_stat(name: &[u8]) -> Vec<u8> {
    let mut text = b"7 (".to_vec();
    text.extend_from_slice(name);
    text.extend_from_slice(b") D 1 1 1 0 -1 4194304 97 0 0 0 7 3 0 0 -2 0 1 0 161868 3133440 362 1");
    let s = stat(&text).unwrap();
    assert_eq!((s.tid, s.state, s.ppid, s.start_ticks, s.prio, s.cpu), (7, b'D', 1, 161868, 98, None));
    s.comm
}

#[test]
fn cases_40_to_43_names_with_anything_in_them() {
    for name in [&b"(sd-pam)"[..], b"a) R 1 (b", b"new\nline", b"\xff\xfe not utf8", b"\x1b[2J", b") S 9 9", b""] {
        assert_eq!(name_in_stat(name), name);
    }
}

#[test]
fn names_are_those_that_events_have() {
    let named = |comm: &[u8], flags| Stat { comm: comm.into(), flags, ..Stat::default() }.event_name().to_vec();
    assert_eq!(named(b"kworker/0:1-events", PF_KTHREAD | 0x20), b"kworker/0:1");
    assert_eq!(named(b"kworker/u8:2+flush-259:0", PF_KTHREAD | 0x20), b"kworker/u8:2");
    assert_eq!(named(b"kworker/R-kblockd", PF_KTHREAD | 0x20), b"kworker/R-kbloc");
    assert_eq!(named(b"a-b:c-d", 0), b"a-b:c-d", "only workers have something appended");
}

#[test]
fn stat_that_is_cut_short_is_refused() {
    for text in [&b""[..], b"7", b"7 (x", b"x (y) S 1", b"7 (x) S", b") 7 (", b"7 (x) SS 1 1"] {
        assert!(stat(text).is_err(), "{text:?}");
    }
}

#[test]
fn cmdlines() {
    assert_eq!(cmdline(b"a\0b c\0\0"), vec![b"a".to_vec(), b"b c".to_vec()]);
    assert_eq!(cmdline(b"nginx: worker process"), vec![b"nginx: worker process".to_vec()]);
    assert_eq!(cmdline(b"a\0\0b\0"), vec![b"a".to_vec(), vec![], b"b".to_vec()], "an empty argument stays");
    assert!(cmdline(b"").is_empty() && cmdline(b"\0\0").is_empty());
    assert_eq!(cmdline(&[b'x', 0].repeat(5000)).len(), 256);
}

#[test]
fn cgroups_of_both_versions() {
    assert_eq!(cgroup_path(b"0::/user.slice/x:y.scope\n"), b"/user.slice/x:y.scope");
    assert_eq!(cgroup_path(b"9:name=systemd:/a\n2:cpu,cpuacct:/kube/pod1\n0::/\n"), b"/kube/pod1");
    assert_eq!(cgroup_path(b"4:memory:/api/9\n1:cpu:/\n0::/\n"), b"/api/9", "the root tells nothing");
    assert_eq!(cgroup_path(b"0::/gone (deleted)\n"), b"/gone");
    assert_eq!(cgroup_path(b"0::/\n"), b"/");
    assert_eq!(cgroup_path(b"nonsense"), b"");
}

#[test]
fn everything_about_one_process() {
    let (_dir, proc) = fake(&[(500, &[(500, b"leader"), (501, b"loader:0")])]);
    let p = proc.process(500).unwrap();
    assert_eq!((p.name.as_slice(), p.ppid, p.uid, p.kernel), (&b"leader"[..], 1, Some(1000), false));
    assert_eq!(p.cmdline[2], b"--x=\x1b]52;c;!\x07", "bytes are kept as they are");
    let without = proc.clone().with_command_lines(false).process(p.pid).unwrap();
    assert_eq!((without.cmdline.len(), &without.name, &without.cgroup), (0, &p.name, &p.cgroup));
    assert_eq!(p.cgroup, b"/kubepods/train");
    assert_eq!(p.start, 1_618_680_000_000, "161868 ticks of 10 ms");
    let t = proc.thread(500, 501).unwrap();
    assert_eq!((t.name.as_slice(), t.pid, t.state, t.cpu, t.prio), (&b"loader:0"[..], 500, b'S', Some(1), 120));
    let s = proc.status(500).unwrap();
    assert_eq!((s.allowed_cpus, s.voluntary, s.involuntary), (Some(vec![0, 1, 2, 8]), Some(5), Some(6)));
    assert_eq!(proc.schedstat(500, 501).unwrap(), Schedstat { run_ns: 501_000, wait_ns: 500, slices: 7 });
}

#[test]
fn case_50_owner_and_process_of_a_thread_whose_leader_sleeps() {
    let (dir, proc) = fake(&[(500, &[(500, b"leader"), (501, b"loader:0")])]);
    fs::rename(dir.path().join("501.unlisted"), dir.path().join("501")).unwrap();
    let (t, p) = proc.read_one(501, |_| false).unwrap();
    assert_eq!((t.pid, t.name.as_slice()), (500, &b"loader:0"[..]));
    let p = p.unwrap();
    assert_eq!((p.pid, p.name.as_slice(), p.uid), (500, &b"leader"[..], Some(1000)));
    let (_, p) = proc.read_one(501, |pid| pid == 500).unwrap();
    assert!(p.is_none(), "a known process is not read again");
}

#[test]
fn cases_52_and_54_a_scan_is_bounded_and_one_that_is_gone_spoils_nothing() {
    let (dir, proc) =
        fake(&[(10, &[(10, b"a"), (11, b"a1"), (12, b"a2")]), (20, &[(20, b"b")]), (30, &[(30, b"c"), (31, b"c1")])]);
    let mut scan = Scan::new(proc).unwrap();
    // 20 ends before its turn; 31's folder is there but its file is not any more.
    fs::remove_dir_all(dir.path().join("20")).unwrap();
    fs::remove_file(dir.path().join("30/task/31/stat")).unwrap();
    let mut all = Batch::default();
    let mut steps = 0;
    while let Some(b) = scan.next_batch(6) {
        assert!(b.processes.len() <= 2 && b.threads.len() <= 6, "{b:?}");
        all.processes.extend(b.processes);
        all.threads.extend(b.threads);
        all.gone += b.gone;
        all.unreadable += b.unreadable;
        steps += 1;
    }
    assert_eq!(all.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [10, 30]);
    assert_eq!(
        all.threads.iter().map(|t| (t.pid, t.tid)).collect::<Vec<_>>(),
        [(10, 10), (10, 11), (10, 12), (30, 30)]
    );
    assert_eq!((all.gone, all.unreadable), (2, 0));
    assert!(steps >= 3, "19 files, 6 a step: {steps}");
}

#[test]
fn a_file_of_another_kind_is_told_not_taken() {
    let (dir, proc) = fake(&[(10, &[(10, b"a")])]);
    fs::write(dir.path().join("10/task/10/stat"), "rubbish").unwrap();
    assert!(matches!(proc.thread(10, 10), Err(ReadError::Malformed { .. })));
    fs::write(dir.path().join("10/task/10/stat"), "").unwrap();
    assert!(matches!(proc.thread(10, 10), Err(ReadError::Gone)), "an empty file is one whose owner just ended");
    assert!(matches!(proc.thread(10, 99), Err(ReadError::Gone)));
}

#[test]
fn a_real_thread_with_a_hostile_name() {
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        fs::write("/proc/thread-self/comm", b"a) R 1 (\xff\n").unwrap();
        tell.send(nix::unistd::gettid().as_raw()).unwrap();
        let _ = stopped.recv();
    });
    let tid = told.recv().unwrap();
    let (t, p) = Proc::system().read_one(tid, |_| false).unwrap();
    assert_eq!(t.name, b"a) R 1 (\xff\n");
    assert_eq!(p.unwrap().pid, Tid::try_from(std::process::id()).unwrap());
    let usage = Proc::system().own_usage().unwrap();
    assert!(usage.threads.iter().any(|t| t.tid == tid) && usage.rss > 0 && usage.cpu_ns > 0);
    drop(stop);
    thread.join().unwrap();
}

#[test]
fn the_whole_machine_scans() {
    let mut scan = Scan::new(Proc::system()).unwrap();
    let (mut own, mut kernel) = (false, false);
    let me = Tid::try_from(std::process::id()).unwrap();
    while let Some(b) = scan.next_batch(64) {
        own |= b.processes.iter().any(|p| p.pid == me && !p.cmdline.is_empty() && p.start > 0);
        kernel |= b.processes.iter().any(|p| p.kernel && p.cmdline.is_empty());
    }
    assert!(own);
    // kthreadd is there unless this is a process namespace of its own.
    assert!(kernel || Proc::system().process(2).is_err());
}

proptest! {
    #[test]
    fn any_bytes_parse_or_are_refused(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = stat(&text);
        let _ = status(&text);
        let _ = schedstat(&text);
        let _ = cmdline(&text);
        let _ = cgroup_path(&text);
    }

    #[test]
    fn any_name_survives(name in proptest::collection::vec(1u8.., 0..16)) {
        prop_assert_eq!(name_in_stat(&name), name);
    }
}
