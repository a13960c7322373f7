//! `dashcam live`: the terminal UI on now. Attaches to the running recorder, or records by itself until it is left.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::look::Look;
use super::{Globals, SourceArg, error_line, screen};
use crate::names::printable;
use crate::recorder::control::{self, AskError, Reply, Request};
use crate::recorder::embedded::Embedded;
use crate::recorder::places::Places;
use crate::recorder::status::Status;
use crate::sched::summary::Window;
use crate::tui::app;
use crate::tui::cursor::Cursor;
use crate::tui::deeds::RecorderView;
use crate::tui::history::History;
use crate::tui::keeper::Recorder;
use crate::tui::state::Screen;

/// How long the recorder may take to say how it is doing; the header is asked for again a second later.
const STATUS: Duration = Duration::from_millis(800);
/// A snapshot takes a fraction of a second; one on a disk that is full or dying may not.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watch the scheduler live (starts a recorder if none runs)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Keys and colours.
    #[command(flatten)]
    pub look: Look,
    /// Where scheduling comes from.
    #[command(flatten)]
    pub source: SourceArg,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let config = globals.load_config()?;
    let places = globals.places()?;
    let span = config.live.window.nanos();
    let start = screen::start(&config, &args.look, Cursor::live(span), true, Screen::Overview)?;
    let mut settings = globals.settings()?;
    args.source.apply(&mut settings);
    let snapshot_last = u64::try_from(settings.snapshot_last.as_nanos()).unwrap_or(u64::MAX);
    let level = settings.store.level;
    let embedded = match control::ask(&places.socket(), &Request::Status {}, STATUS) {
        Err(AskError::NotRunning(_)) => Some(Embedded::start(settings, places.clone())?),
        // A recorder is there; that it does not answer us now is the header's to say.
        _ => None,
    };
    let history = History::live(&places.store, span)?;
    let (host, kernel) = machine();
    let link = Link { places, snapshot_last, level, embedded: embedded.is_some(), host, kernel };
    let ended = app::run(start, history, screen::settings(&config), Box::new(link), screen::options(&config));
    // Stopped before anything is said, so that what it says stands below.
    if let Some(recorder) = embedded {
        recorder.stop()?;
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

fn machine() -> (String, String) {
    let name = nix::sys::utsname::uname().ok();
    let text = |t: Option<&std::ffi::OsStr>| t.map_or(String::new(), |t| printable(t.as_encoded_bytes()));
    (text(name.as_ref().map(|n| n.nodename())), text(name.as_ref().map(|n| n.release())))
}

/// The recorder behind its socket, wherever it runs.
struct Link {
    places: Places,
    snapshot_last: u64,
    level: i32,
    embedded: bool,
    host: String,
    kernel: String,
}

impl Link {
    fn ask(&self, request: &Request, patience: Duration) -> Result<Reply, String> {
        control::ask(&self.places.socket(), request, patience).map_err(|e| error_line(&e.into()))
    }
}

impl Recorder for Link {
    fn view(&mut self) -> RecorderView {
        let base = RecorderView {
            host: self.host.as_str().into(),
            kernel: self.kernel.as_str().into(),
            place: printable(self.places.store.as_os_str().as_encoded_bytes()).into(),
            embedded: self.embedded,
            now_real: now_real(),
            snapshot_last: self.snapshot_last,
            ..RecorderView::default()
        };
        match self.ask(&Request::Status {}, STATUS) {
            Ok(Reply::Status(status)) => told(base, &status),
            Ok(_) => base,
            Err(why) => RecorderView { warnings: vec![why.into()], ..base },
        }
    }

    fn snapshot(&mut self, last: Option<u64>, label: &str) -> Result<String, String> {
        let label = (!label.is_empty()).then(|| label.to_string());
        match self.ask(&Request::Snapshot { last_ns: last, label, why: "key".into() }, PATIENCE)? {
            Reply::Snapshot { path, .. } => Ok(printable(path.as_os_str().as_encoded_bytes())),
            _ => Err("the recorder gave another answer than a snapshot".into()),
        }
    }

    fn keep(&mut self, window: Window, label: &str) -> Result<String, String> {
        screen::keep(&self.places.store, window, label, self.level)
    }

    fn mark(&mut self, text: &str) -> Result<(), String> {
        self.ask(&Request::Mark { text: text.into() }, STATUS).map(drop)
    }

    fn store(&self) -> Option<PathBuf> {
        Some(self.places.store.clone())
    }
}

fn now_real() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A recorder's status in the header's words.
fn told(base: RecorderView, status: &Status) -> RecorderView {
    let segment = status.segment.as_ref().map(|s| {
        (status.now.saturating_sub(s.from).min(s.until.saturating_sub(s.from)), s.until.saturating_sub(s.from))
    });
    RecorderView {
        recording: status.segment.is_some(),
        segment,
        events_per_s: status.events_per_s,
        lost: Some(status.lost_total()),
        keeps: (status.kept.forecast_s.max(0.0) * 1e9) as u64,
        bytes: (status.kept.bytes, status.kept.max_bytes),
        own_cpu: Some(status.own_cpu),
        sampled_hz: status.sampled_hz,
        warnings: status.warnings.iter().map(|w| printable(w.as_bytes()).into()).collect(),
        ..base
    }
}
