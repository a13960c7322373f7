#![allow(clippy::unwrap_used)]

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

/// Only a broken server takes this long.
const LONG: Duration = Duration::from_secs(60);

/// Serves until `n` requests came, answering each with `reply`.
fn serve(mut server: Server, n: usize, reply: Reply) -> thread::JoinHandle<Vec<Request>> {
    thread::spawn(move || {
        let mut seen = Vec::new();
        while seen.len() < n {
            for (id, request) in server.turn(Instant::now()) {
                seen.push(request);
                server.answer(id, &reply, Instant::now());
            }
            thread::sleep(Duration::from_millis(1));
        }
        server.finish(PATIENCE);
        seen
    })
}

#[test]
fn the_socket_belongs_to_the_group_that_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let own = nix::unistd::Group::from_gid(nix::unistd::getegid()).unwrap().unwrap();
    let access = Access { mode: 0o600, group: Some(own.name) };
    let first = Server::bind(&path, &access).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let access = Access { mode: 0o660, group: Some("no-such-group-here".into()) };
    let error = Server::bind(&path, &access).err().unwrap().to_string();
    assert_eq!(error, "there is no group no-such-group-here (control.group)");
    drop(first);
    let server = Server::bind(&path, &Access::default()).unwrap();
    server.open_to(&Access { mode: 0o640, group: None }).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "changed while it listens");
}

#[test]
fn a_request_gets_its_reply_and_the_socket_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let server = Server::bind(&path, &Access::default()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let thread = serve(server, 1, Reply::Done {});
    let request = Request::Mark { text: "step 1\n\"x\"".into() };
    assert_eq!(ask(&path, &request, LONG).unwrap(), Reply::Done {});
    assert_eq!(thread.join().unwrap(), [request]);
    assert!(!path.exists(), "the socket goes with the server");
    assert!(matches!(ask(&path, &Request::Stop {}, LONG), Err(AskError::NotRunning(_))));
}

#[test]
fn an_error_reply_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let thread = serve(Server::bind(&path, &Access::default()).unwrap(), 1, Reply::Error { error: "disk full".into() });
    let e = ask(&path, &Request::Rotate {}, LONG).unwrap_err();
    assert_eq!(e.to_string(), "disk full");
    thread.join().unwrap();
}

#[test]
fn who_does_not_answer_is_told_with_why_if_its_process_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    // Listens, and never looks.
    let _server = Server::bind(&path, &Access::default()).unwrap();
    let said = |patience| ask(&path, &Request::Status {}, patience).unwrap_err().to_string();
    let late = format!("the recorder at {} did not answer within ", path.display());
    assert!(said(Duration::from_millis(50)).starts_with(&late));
    assert!(said(Duration::from_millis(50)).ends_with("; it may be busy: try again, or see its log"));
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id() as i32;
    fs::write(dir.path().join("dashcam.pid"), format!("{pid}\n")).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
    let begin = Instant::now();
    let words = said(LONG);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(words, format!("{late}2 s: process {pid} is stopped (kill -CONT {pid})"));
    assert!(begin.elapsed() < LONG, "there is nothing to wait for");
}

#[test]
fn a_path_longer_than_an_address_works() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(120));
    fs::create_dir(&deep).unwrap();
    let path = deep.join("control.sock");
    let thread = serve(Server::bind(&path, &Access::default()).unwrap(), 1, Reply::Done {});
    assert_eq!(ask(&path, &Request::Stop {}, LONG).unwrap(), Reply::Done {});
    thread.join().unwrap();
}

#[test]
fn hostile_clients_are_answered_or_dropped_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::bind(&path, &Access::default()).unwrap();
    let now = Instant::now();
    let mut long = UnixStream::connect(&path).unwrap();
    long.write_all(&[b'x'; MAX_LINE + 1]).unwrap();
    let mut garbage = UnixStream::connect(&path).unwrap();
    garbage.write_all(b"{\"do\":\"format_disk\"}\n").unwrap();
    let mut extra = UnixStream::connect(&path).unwrap();
    extra.write_all(b"{\"do\":\"snapshot\",\"output\":\"/etc/passwd\"}\n").unwrap();
    let silent = UnixStream::connect(&path).unwrap();
    assert_eq!(server.turn(now), []);
    for (mut stream, want) in [(long, "at most"), (garbage, "format_disk"), (extra, "output")] {
        let mut reply = String::new();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // A reset after the reply is fine: the server does not read the rest of an overlong line.
        let _ = stream.read_to_string(&mut reply);
        assert!(reply.contains("error") && reply.contains(want), "{reply}");
    }
    assert_eq!(server.clients.len(), 1, "the silent one is still there");
    assert_eq!(server.turn(now + PATIENCE), []);
    assert_eq!(server.clients.len(), 0, "and is dropped when its time is over");
    drop(silent);
}

#[test]
fn two_hundred_silent_clients_keep_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let server = Server::bind(&path, &Access::default()).unwrap();
    let thread = serve(server, 1, Reply::Done {});
    // More than there are places for, and none of them ever says a word.
    let silent: Vec<_> = (0..200).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert_eq!(ask(&path, &Request::Rotate {}, LONG).unwrap(), Reply::Done {});
    assert_eq!(thread.join().unwrap(), [Request::Rotate {}]);
    drop(silent);
}

#[test]
fn the_one_silent_for_longest_makes_place_and_never_one_who_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::bind(&path, &Access::default()).unwrap();
    let now = Instant::now();
    let connect = || UnixStream::connect(&path).unwrap();
    let mut asked = connect();
    asked.write_all(b"{\"do\":\"status\"}\n").unwrap();
    let mut first_silent = connect();
    let silent: Vec<_> = (2..MAX_CLIENTS).map(|_| connect()).collect();
    let requests = server.turn(now);
    assert_eq!(requests.iter().map(|r| &r.1).collect::<Vec<_>>(), [&Request::Status {}]);
    assert_eq!((server.clients.len(), server.fds().count()), (MAX_CLIENTS, MAX_CLIENTS), "all but the one who waits");
    let mut late = connect();
    late.write_all(b"{\"do\":\"rotate\"}\n").unwrap();
    assert_eq!(server.turn(now).iter().map(|r| &r.1).collect::<Vec<_>>(), [&Request::Rotate {}]);
    assert_eq!(server.clients.len(), MAX_CLIENTS);
    assert_eq!(first_silent.read(&mut [0; 8]).unwrap(), 0, "it was let go");
    server.answer(requests[0].0, &Reply::Done {}, now);
    let mut reply = String::new();
    asked.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "{\"reply\":\"done\"}\n", "whoever asked keeps its place");
    drop(silent);
    server.turn(now);
    assert_eq!(server.clients.len(), 1, "the late one waits for its answer");
}

#[test]
fn while_all_wait_for_an_answer_others_queue() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::bind(&path, &Access::default()).unwrap();
    let now = Instant::now();
    let ask = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"do\":\"rotate\"}\n").unwrap();
        stream
    };
    let _held: Vec<_> = (0..MAX_CLIENTS + 1).map(|_| ask()).collect();
    let requests = server.turn(now);
    assert_eq!(requests.len(), MAX_CLIENTS);
    assert_eq!(server.fds().count(), 0, "the listener is not polled while nobody can be let in");
    server.answer(requests[7].0, &Reply::Done {}, now);
    assert_eq!(server.turn(now).len(), 1);
}
