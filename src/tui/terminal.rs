//! The terminal as a thing that is entered and left: whatever happens, it is given back as it was.
//!
//! Left on quit, on an error, on a panic (the hook), on SIGTERM and SIGHUP (the loop ends), before a stop by Ctrl-Z. Entered
//! anew when the process goes on after a stop that it could not prepare for (SIGSTOP). A terminal that is gone is not written to again. Knows nothing of what is drawn.

use super::bounds::{Bounded, bounded};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, event, execute, terminal};
use ratatui::layout::Rect;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while the alternate screen and raw mode are on: the panic hook and the guard look here, so that it is left once.
static ENTERED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The entered terminal; dropping it leaves.
#[derive(Debug)]
pub struct Terminal {
    inner: ratatui::Terminal<Bounded<CrosstermBackend<BufWriter<Stdout>>>>,
    mouse: bool,
    /// It stopped by itself and was entered again: the SIGCONT of that is still to be heard of.
    back: bool,
}

impl Terminal {
    /// Raw mode, alternate screen, bracketed paste, the mouse if wanted.
    pub fn enter(mouse: bool) -> io::Result<Terminal> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // The message must not go to the alternate screen, where nobody will see it.
                leave();
                before(info);
            }));
        });
        enter(mouse)?;
        // One write per draw: a slow link must not get half a screen.
        let backend = CrosstermBackend::new(BufWriter::with_capacity(256 << 10, io::stdout()));
        let inner = ratatui::Terminal::new(Bounded(backend)).inspect_err(|_| leave())?;
        Ok(Terminal { inner, mouse, back: false })
    }

    /// Columns and rows that are drawn.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size().map(bounded)
    }

    /// Draws what changed since the last draw, as one synchronised update.
    ///
    /// After a panic on another thread the terminal is given back already: then nothing is drawn, and the loop will hear of
    /// that thread's end next.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !ENTERED.load(Ordering::SeqCst) {
            return Ok(());
        }
        execute_begin(&mut self.inner.backend_mut().0)?;
        self.inner.draw(render)?;
        execute_end(&mut self.inner.backend_mut().0)
    }

    /// The next draw writes every cell. (ratatui's own `clear` asks the terminal where its cursor is, and the answer would go to
    /// the thread that reads keys.)
    pub fn clear(&mut self) -> io::Result<()> {
        let (w, h) = self.size()?;
        self.inner.resize(Rect::new(0, 0, w, h))
    }

    /// Puts text into the clipboard of the terminal's user (OSC 52).
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let out = &mut self.inner.backend_mut().0;
        write!(out, "\x1b]52;c;{}\x07", base64(text.as_bytes()))?;
        Write::flush(out)
    }

    /// Leaves, stops the process as Ctrl-Z does, and enters again once it goes on.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave();
        // SAFETY: raise has no memory effects; SIGSTOP cannot be caught, so this returns after SIGCONT. TSTP would be
        // ignored by an orphaned process group, which is what a login shell's `exec dashcam` is in.
        unsafe { libc::raise(libc::SIGSTOP) };
        self.back = true;
        enter(self.mouse)?;
        self.clear()
    }

    /// After SIGCONT: whoever had the terminal meanwhile, a shell as a rule, made it cooked and drew on it, so all of it is set
    /// again. (Leaving first, since raw mode is only set where it is not believed to be on.)
    pub fn go_on(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.back) || !ENTERED.load(Ordering::SeqCst) {
            return Ok(());
        }
        leave();
        enter(self.mouse)?;
        self.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    terminal::enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    let entered = execute!(out, terminal::EnterAlternateScreen, event::EnableBracketedPaste, cursor::Hide)
        .and_then(|()| if mouse { execute!(out, event::EnableMouseCapture) } else { Ok(()) });
    entered.inspect_err(|_| leave())
}

/// Gives the terminal back; nothing to do when it was given back already. Errors have nobody to be told to.
pub fn leave() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    let _ = execute!(
        out,
        event::DisableMouseCapture,
        event::DisableBracketedPaste,
        cursor::Show,
        terminal::LeaveAlternateScreen
    );
    let _ = terminal::disable_raw_mode();
}

fn execute_begin(out: &mut impl Write) -> io::Result<()> {
    ratatui::crossterm::queue!(out, terminal::BeginSynchronizedUpdate)
}

fn execute_end(out: &mut impl Write) -> io::Result<()> {
    ratatui::crossterm::queue!(out, terminal::EndSynchronizedUpdate)?;
    out.flush()
}

/// RFC 4648, as OSC 52 wants it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let b = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let n = u32::from(b[0]) << 16 | u32::from(b[1]) << 8 | u32::from(b[2]);
        for i in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        let plain = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let coded = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (p, c) in plain.iter().zip(coded) {
            assert_eq!(base64(p.as_bytes()), c);
        }
    }

    #[test]
    fn leaving_what_was_not_entered_writes_nothing() {
        assert!(!ENTERED.load(Ordering::SeqCst));
        leave();
    }
}
