//! `dashcam record`: the recorder, in the foreground or as a daemon.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe, setsid};

use super::{Globals, SourceArg, duration, failed, usage};
use crate::recorder::places::Places;
use crate::recorder::reread::Reread;
use crate::recorder::run::{Recorder, Reload, Serve};
use crate::recorder::settings::Settings;
use crate::recorder::signals::{self, Signals};
use crate::store::Store;
use crate::store::fresh::Fresh;
use crate::store::layout::FILE_MODE;

/// Record until stopped
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Go to the background once recording has begun
    #[arg(long)]
    pub background: bool,
    /// Stop by itself after this long, e.g. 20s
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Where scheduling comes from.
    #[command(flatten)]
    pub source: SourceArg,
}

/// Runs the command.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let places = globals.places()?;
    // Mistakes are told here, before anything goes to the background.
    globals.settings()?;
    if let Some(text) = &args.duration
        && duration(text)?.is_zero()
    {
        return Err(usage("--for 0s would record nothing: give it a length such as 20s"));
    }
    if args.background {
        return background(args, globals, &places);
    }
    record(args, globals, places, &mut || {})?;
    Ok(ExitCode::SUCCESS)
}

fn record(args: &Args, globals: &Globals, places: Places, ready: &mut dyn FnMut()) -> anyhow::Result<()> {
    signals::catch_stop();
    let signals = Signals::new().context("cannot wait for signals")?;
    let length = args.duration.as_deref().map(duration).transpose()?;
    let source = args.source;
    let told = move |globals: &Globals| {
        let mut settings = globals.settings()?;
        source.apply(&mut settings);
        Ok(settings)
    };
    let reload = reload(globals, told)?;
    let recorder = Recorder::start(told(globals)?, places)?;
    // Without a service manager this does nothing.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    ready();
    let serve = Serve { signals: Some(&signals), duration: length, reload: Some(reload), ..Serve::default() };
    recorder.serve(serve)?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    Ok(())
}

/// Reads settings and what a recorder cannot see of them again, and compares the latter with how it was at the start.
fn reload(
    globals: &Globals,
    told: impl Fn(&Globals) -> anyhow::Result<Settings> + Send + 'static,
) -> anyhow::Result<Reload> {
    let outside =
        |globals: &Globals| -> anyhow::Result<_> { Ok((globals.places()?, globals.load_config()?.log.level)) };
    let (places, level) = outside(globals)?;
    let globals = globals.clone();
    let read = move || -> anyhow::Result<Reread> {
        let (places_now, level_now) = outside(&globals)?;
        let dir = (places_now != places).then_some("store.dir");
        let log = (level_now != level).then_some("log.level");
        Ok(Reread { settings: told(&globals)?, outside: dir.into_iter().chain(log).collect() })
    };
    Ok(Box::new(move || read().map_err(|e| super::error_line(&e))))
}

/// Where a recorder in the background says what it has to say.
fn log_path(places: &Places) -> PathBuf {
    places.store.join("recorder.log")
}

/// Forks; the parent waits until the child records (or failed) and says which.
fn background(args: &Args, globals: &Globals, places: &Places) -> anyhow::Result<ExitCode> {
    let path = log_path(places);
    let mut fresh = Fresh::before(&places.store);
    fresh.with_file(&path);
    Store::create(&places.store)?;
    let log = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(&path);
    let log = log.with_context(|| format!("cannot open {}", path.display()))?;
    let (read, write) = pipe().context("cannot make a pipe")?;
    // SAFETY: no thread has been started yet, so the child is a whole process.
    match unsafe { fork() }.context("cannot go to the background")? {
        ForkResult::Parent { child } => {
            drop(write);
            let mut said = String::new();
            File::from(read).read_to_string(&mut said)?;
            match said.strip_suffix('\n') {
                Some("ready") => {
                    fresh.keep();
                    tell!("recording in the background, pid {child}; log: {}", path.display());
                    Ok(ExitCode::SUCCESS)
                }
                Some(error) => Err(failed(error)),
                None => {
                    fresh.keep();
                    Err(failed(format!("the recorder ended without a word; see {}", path.display())))
                }
            }
        }
        ForkResult::Child => {
            drop(read);
            let code = child(args, globals, places.clone(), log, write);
            std::process::exit(code);
        }
    }
}

fn child(args: &Args, globals: &Globals, places: Places, log: File, write: OwnedFd) -> i32 {
    let mut parent = Some(File::from(write));
    let mut tell = |text: &str| {
        if let Some(mut parent) = parent.take() {
            // The parent may have been killed; recording goes on.
            let _ = writeln!(parent, "{text}");
        }
    };
    let result =
        detach(&log).map_err(anyhow::Error::from).and_then(|()| record(args, globals, places, &mut || tell("ready")));
    match result {
        Ok(()) => 0,
        Err(e) => {
            let line = super::error_line(&e);
            tell!("dashcam: {line}");
            tell(&line);
            1
        }
    }
}

/// A session of its own, no terminal, words to the log.
fn detach(log: &File) -> io::Result<()> {
    setsid()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(log)?;
    std::env::set_current_dir("/")
}
