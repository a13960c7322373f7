//! A program on a pseudo-terminal, and the screen it drew.
//!
//! Waiting is always for something to be seen, with a deadline that only a broken program meets.

#![allow(clippy::unwrap_used, dead_code, missing_docs, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

pub const DEADLINE: Duration = Duration::from_secs(90);

/// A program on a pseudo-terminal, and the screen it drew.
pub struct Session {
    pub child: Box<dyn Child + Send + Sync>,
    /// `None` once the terminal was taken away.
    pub master: Option<Box<dyn MasterPty + Send>>,
    pub writer: Option<Box<dyn Write + Send>>,
    pub screen: Arc<Mutex<vt100::Parser>>,
}

impl Session {
    pub fn start(mut command: CommandBuilder, rows: u16, cols: u16) -> Session {
        let pty = native_pty_system().openpty(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
        command.cwd("/");
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        command.env("TZ", "UTC");
        command.env_remove("NO_COLOR");
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 0)));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let parser = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                parser.lock().unwrap().process(&bytes[..n]);
            }
        });
        let writer = pty.master.take_writer().unwrap();
        Session { child, master: Some(pty.master), writer: Some(writer), screen }
    }

    pub fn keys(&mut self, text: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is as wanted.
    pub fn wait(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if wanted(self.screen.lock().unwrap().screen()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("never saw {what}; the screen is:\n{}", self.text());
    }

    pub fn sees(&self, text: &str) {
        self.wait(text, |s| s.contents().contains(text));
    }

    /// The same of a text that may be broken over lines.
    pub fn says(&self, text: &str) {
        self.wait(text, |s| s.contents().replace('\n', "").contains(text));
    }

    /// Waits for the end; gives the exit code. The last bytes may still be on their way to the screen: wait for what they show.
    pub fn ended(&mut self) -> u32 {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end; the screen is:\n{}", self.text());
    }

    pub fn signal(&self, signal: i32) {
        let pid = self.child.process_id().unwrap() as i32;
        // SAFETY: kill has no memory effects; the process is our own child, not yet waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// The terminal is as it was before: main screen, cursor, no mouse, no bracketed paste.
    pub fn is_given_back(&self) {
        self.wait("the terminal given back", |s| {
            !s.alternate_screen()
                && !s.hide_cursor()
                && !s.bracketed_paste()
                && s.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
