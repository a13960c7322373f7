//! The real binary on a real pseudo-terminal: start, walk, suspend, quit, signals, a lost terminal, a panic. Needs no root and
//! no kernel tracing: it browses the trace that Perfetto's own tracebox recorded.

#![allow(clippy::unwrap_used)]

mod pty_support;

use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize};
use pty_support::{DEADLINE, Session};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/perfetto/training-like.pftrace.zst");

fn browse(extra: &[&str]) -> Session {
    browse_as("/nonexistent", extra)
}

/// The same with a configuration directory of its own.
fn browse_as(config_home: &str, extra: &[&str]) -> Session {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dashcam"));
    command.arg("browse");
    command.args(extra);
    command.arg(TRACE);
    // Nobody's own configuration or keymap may change what is tested.
    command.env("XDG_CONFIG_HOME", config_home);
    command.env("COLORTERM", "truecolor");
    command.env("HOME", "/nonexistent");
    Session::start(command, 40, 120)
}

/// State letter of /proc/PID/stat.
fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

#[test]
fn starts_walks_and_quits() {
    let mut s = browse(&[]);
    s.sees("pt_loader:0");
    assert!(s.screen.lock().unwrap().screen().alternate_screen());
    s.keys("?");
    s.sees("keys and actions");
    s.keys("\x1b");
    s.wait("the help gone", |s| !s.contents().contains("keys and actions"));
    // The thread that waited most, why, and its worst wait on the time line.
    s.keys("\r");
    s.sees("run-queue latency");
    s.keys("x");
    s.sees("meanwhile");
    s.keys("c");
    s.sees("chain: who released it");
    // A jump to a time outside says what there is.
    s.keys("@2001-01-01 00:00\r");
    s.sees("is outside of what is here");
    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();
}

/// What is typed before the terminal is ours it makes a line feed of, where Enter was pressed.
#[test]
fn a_line_typed_ahead_is_taken() {
    let mut s = browse(&[]);
    s.keys("/perl\r");
    s.wait("a filter taken", |screen| {
        let text = screen.contents();
        text.contains("filter “perl”") && !text.contains("filter: ")
    });
    s.keys("q");
    assert_eq!(s.ended(), 0);
}

#[test]
fn follows_the_size_of_the_terminal() {
    let mut s = browse(&[]);
    s.sees("Threads");
    let size = PtySize { rows: 6, cols: 30, pixel_width: 0, pixel_height: 0 };
    s.screen.lock().unwrap().screen_mut().set_size(6, 30);
    s.master.as_ref().unwrap().resize(size).unwrap();
    s.sees("too small: 30×6");
    let size = PtySize { rows: 24, cols: 80, ..size };
    s.screen.lock().unwrap().screen_mut().set_size(24, 80);
    s.master.as_ref().unwrap().resize(size).unwrap();
    s.sees("PROCESS · THREAD");
    s.keys("q");
    assert_eq!(s.ended(), 0);
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_takes_it_again() {
    let mut s = browse(&[]);
    s.sees("Threads");
    s.keys("\x1a");
    s.is_given_back();
    let pid = s.child.process_id().unwrap();
    let end = Instant::now() + DEADLINE;
    while process_state(pid) != 'T' {
        assert!(Instant::now() < end, "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
    s.signal(libc::SIGCONT);
    s.wait("the screen again", |s| s.alternate_screen() && s.contents().contains("Threads"));
    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();
}

/// The modes of the terminal, as both of its ends have them.
fn modes(s: &Session) -> libc::termios {
    let fd = s.master.as_ref().unwrap().as_raw_fd().unwrap();
    // SAFETY: termios is plain data, all zeros is a value of it, and tcgetattr fills it.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(fd, &mut modes), 0);
        modes
    }
}

#[test]
fn a_stop_from_outside_is_got_over() {
    const COOKED: libc::tcflag_t = libc::ICANON | libc::ECHO;
    let mut s = browse(&[]);
    s.sees("Threads");
    assert_eq!(modes(&s).c_lflag & COOKED, 0);
    s.signal(libc::SIGSTOP);
    let pid = s.child.process_id().unwrap();
    let end = Instant::now() + DEADLINE;
    while process_state(pid) != 'T' {
        assert!(Instant::now() < end, "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
    // What a shell does to the terminal of a job that stopped.
    let cooked = libc::termios { c_lflag: modes(&s).c_lflag | COOKED, ..modes(&s) };
    // SAFETY: the descriptor is open, and termios is read only.
    assert_eq!(unsafe { libc::tcsetattr(s.master.as_ref().unwrap().as_raw_fd().unwrap(), 0, &cooked) }, 0);
    s.screen.lock().unwrap().process(b"\x1b[?1049l\x1b[?2004l\x1b[?25h\x1b[2J[1]+  Stopped");
    s.signal(libc::SIGCONT);
    s.wait("the screen again", |s| {
        s.alternate_screen() && s.bracketed_paste() && s.hide_cursor() && s.contents().contains("Threads")
    });
    assert_eq!(modes(&s).c_lflag & COOKED, 0, "keys would be echoed, and wait for a new line");
    s.keys("q");
    assert_eq!(s.ended(), 0);
    s.is_given_back();
}

#[test]
fn sigterm_and_sighup_end_it_and_give_the_terminal_back() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut s = browse(&[]);
        s.sees("Threads");
        s.signal(signal);
        assert_eq!(s.ended(), 0);
        s.is_given_back();
    }
}

#[test]
fn case_80_usr1_to_the_viewer_changes_nothing() {
    let mut s = browse(&[]);
    s.sees("Threads");
    s.signal(libc::SIGUSR1);
    s.keys("?");
    s.sees("keys and actions");
    s.keys("qq");
    assert_eq!(s.ended(), 0);
}

#[test]
fn a_lost_terminal_ends_it() {
    let mut s = browse(&[]);
    s.sees("Threads");
    s.writer = None;
    s.master = None;
    // The reader thread still holds a copy of the master; the hang-up comes as the kernel would send it.
    s.signal(libc::SIGHUP);
    s.ended();
}

#[test]
fn a_bad_keymap_stops_the_start_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys.toml");
    std::fs::write(&file, "[any]\nqiut = \"q\"\n").unwrap();
    let mut s = browse(&["--keymap", file.to_str().unwrap()]);
    assert_eq!(s.ended(), 1);
    s.says("keys.toml:2: unknown action \"qiut\"; did you mean \"quit\"?");
    assert!(!s.screen.lock().unwrap().screen().alternate_screen());
}

/// What Perfetto's own table says of a thread: ns running, ns ready, and its waits for a CPU in ascending order.
fn offline(tid: &str, end: u64) -> (u64, u64, Vec<u64>) {
    let table = include_str!("fixtures/perfetto/expected/thread_state.csv");
    let (mut ran, mut ready, mut waits) = (0, 0, Vec::new());
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').map(|f| f.trim_matches('"')).collect();
        let [ts, dur, _, of, state, ..] = fields[..] else { panic!("{line}") };
        if of != tid {
            continue;
        }
        let lasted = dur.parse::<u64>().ok();
        // -1: not over when the trace ended.
        let ns = lasted.unwrap_or_else(|| end.saturating_sub(ts.parse().unwrap()));
        match state {
            "Running" => ran += ns,
            "R" | "R+" => {
                ready += ns;
                waits.extend(lasted);
            }
            _ => {}
        }
    }
    waits.sort_unstable();
    (ran, ready, waits)
}

/// The figures of a row as drawn, against sums, counts and nearest ranks of the table that trace_processor made.
#[test]
fn the_figures_drawn_are_those_computed_offline() {
    use dashcam::units::show;
    let all = dashcam::tui::history::History::browse(vec![TRACE.into()]).unwrap().extent();
    let mut s = browse(&[]);
    s.sees("Threads");
    let mut compared = 0;
    // Threads of which the kernel left nothing out: where it did, we say nothing of the wait, Perfetto lets it last on.
    for name in ["pt_loader:0", "perl", "kworker/u8:0", "kworker/0:1H"] {
        let tid = include_str!("fixtures/perfetto/expected/thread.csv")
            .lines()
            .find_map(|l| l.split_once(',').filter(|(_, rest)| rest.starts_with(&format!("\"{name}\""))))
            .map(|(tid, _)| tid)
            .unwrap();
        s.keys(&format!("/{tid}\r"));
        let row_of = |text: &str| {
            let words = |l: &str| l.split_whitespace().map(str::to_string).collect::<Vec<_>>();
            text.lines().map(words).find(|row| row.first().is_some_and(|word| word == tid))
        };
        // Once it is no longer being typed: the escape must not be read in one with the next "/", which would be Alt-/.
        let filtered = format!("filter “{tid}”");
        s.wait(name, |screen| {
            let text = screen.contents();
            row_of(&text).is_some() && text.contains(&filtered) && !text.contains("filter: ")
        });
        let row = row_of(&s.text()).unwrap();
        let (ran, ready, waits) = offline(tid, all.to);
        let percent = |ns: u64| format!("{:.1}", ns as f64 * 100.0 / all.len() as f64);
        let rank = |percent: usize| show::span(waits[(waits.len() * percent).div_ceil(100).max(1) - 1]);
        let figures = [percent(ran), percent(ready), rank(50), rank(99), show::span(*waits.last().unwrap())].join(" ");
        assert!(row.join(" ").contains(&figures), "{name}: {figures} is not in {}", row.join(" "));
        compared += waits.len();
        s.keys("\x1b");
        s.wait("all threads", |screen| !screen.contents().contains("filter “"));
    }
    assert!(compared > 200, "{compared} waits");
    s.keys("q");
    assert_eq!(s.ended(), 0);
}

/// True when a cell on screen has this colour.
fn shows_colour(screen: &vt100::Screen, wanted: vt100::Color) -> bool {
    let (rows, columns) = screen.size();
    (0..rows).any(|y| (0..columns).any(|x| screen.cell(y, x).is_some_and(|cell| cell.fgcolor() == wanted)))
}

#[test]
fn a_theme_of_ones_own_is_taken_from_flag_and_configuration_and_refused_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let themes = home.path().join("dashcam/themes");
    std::fs::create_dir_all(&themes).unwrap();
    std::fs::write(themes.join("mine.toml"), "base = \"light\"\nrunning = \"#010203\"\n").unwrap();
    std::fs::write(themes.join("bad.toml"), "base = \"light\"\nruning = \"#010203\"\n").unwrap();
    let home_text = home.path().to_str().unwrap();
    let mine = vt100::Color::Rgb(1, 2, 3);
    let mut s = browse_as(home_text, &["--theme", "mine"]);
    s.wait("the own colour of running threads", |screen| shows_colour(screen, mine));
    // Through the shipped ones and back to it.
    s.keys("T");
    s.wait("another theme", |screen| screen.contents().contains("theme dark") && !shows_colour(screen, mine));
    s.keys("TTTTT");
    s.wait("the own theme again", |screen| shows_colour(screen, mine));
    s.keys("q");
    assert_eq!(s.ended(), 0);

    std::fs::write(home.path().join("dashcam/config.toml"), "live.theme = \"mine\"\n").unwrap();
    let mut s = browse_as(home_text, &[]);
    s.wait("the theme of the configuration", |screen| shows_colour(screen, mine));
    s.keys("q");
    assert_eq!(s.ended(), 0);

    let mut s = browse_as(home_text, &["--theme", "bad"]);
    assert_eq!(s.ended(), 1);
    s.says("bad.toml:2: unknown tone \"runing\"; did you mean \"running\"?");
    let mut s = browse_as(home_text, &["--theme", "absent"]);
    assert_eq!(s.ended(), 2);
    s.says("no theme absent: neither a file nor one in");
    s.says("colour-blind");
}

#[test]
fn case_93_a_panic_gives_the_terminal_back_and_says_so() {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["--exact", "panics_on_screen", "--ignored", "--nocapture"]);
    command.env("DASHCAM_TEST_PANIC", "1");
    let mut s = Session::start(command, 40, 120);
    assert_ne!(s.ended(), 0);
    s.is_given_back();
    s.sees("a bug, on purpose");
}

/// Not a test by itself: what the one above runs on a terminal.
#[test]
#[ignore = "run by case_93 on a pseudo-terminal"]
fn panics_on_screen() {
    if std::env::var_os("DASHCAM_TEST_PANIC").is_none() {
        return;
    }
    let mut terminal = dashcam::tui::terminal::Terminal::enter(true).unwrap();
    terminal
        .draw(|frame| {
            frame.buffer_mut()[(0, 0)].set_char('x');
        })
        .unwrap();
    panic!("a bug, on purpose");
}
