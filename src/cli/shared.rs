//! What several subcommands take: global flags, windows of time, and the two kinds of error a face adds itself.

use std::fmt;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use crate::config::{self, Config, ConfigError};
use crate::kernel::zone;
use crate::names::printable;
use crate::recorder::control::{self, AskError, Reply, Request};
use crate::recorder::places::{Places, default_config};
use crate::recorder::settings::{Settings, Source};
use crate::store::{Store, StoreError};
use crate::time::Zone;
use crate::units::Span;

/// Flags that every command takes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Globals {
    /// Configuration file (default: /etc/dashcam/config.toml or $XDG_CONFIG_HOME/dashcam/config.toml, if there is one)
    #[arg(long, global = true, value_name = "FILE", env = "DASHCAM_CONFIG", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// Store directory (default: /var/lib/dashcam for root, else $XDG_STATE_HOME/dashcam)
    #[arg(long, global = true, value_name = "DIR", env = "DASHCAM_DIR", help_heading = "Global options")]
    pub dir: Option<PathBuf>,
    /// Where tracefs is (default: found by itself)
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub tracefs: Option<PathBuf>,
    /// Tracefs instance to record with; its name begins with dashcam (default: capture.instance of the configuration)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub instance: Option<String>,
}

/// Where scheduling comes from: of the two commands that record.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct SourceArg {
    /// Where scheduling comes from: ftrace (every event; needs root), proc (samples /proc; any user), or auto: ftrace if it
    /// can be had [default: of the configuration, auto]
    #[arg(long, value_name = "auto|ftrace|proc", value_parser = source)]
    pub source: Option<Source>,
}

impl SourceArg {
    /// Lays the flag over the settings.
    pub fn apply(self, settings: &mut Settings) {
        settings.capture.source = self.source.unwrap_or(settings.capture.source);
    }
}

fn source(text: &str) -> Result<Source, String> {
    match text {
        "auto" => Ok(Source::Auto),
        "ftrace" => Ok(Source::Ftrace),
        "proc" => Ok(Source::Proc),
        _ => Err("use auto, ftrace or proc".into()),
    }
}

impl Globals {
    /// The configuration: the file named, or the user's, or the system's, or the default alone.
    pub fn load_config(&self) -> anyhow::Result<Config> {
        let file = self.config.clone().or_else(default_config);
        Ok(config::load(file.as_deref())?)
    }

    /// What a recorder is told, flags applied.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = self.load_config()?.recorder();
        settings.capture.tracefs.clone_from(&self.tracefs);
        if let Some(instance) = &self.instance {
            settings.capture.instance.clone_from(instance);
        }
        Ok(settings)
    }

    /// Store and runtime directories: of `--dir`, else of the configuration, else this user's.
    pub fn places(&self) -> anyhow::Result<Places> {
        let dir = match &self.dir {
            Some(dir) => Some(std::path::absolute(dir)?),
            None => self.load_config()?.store.dir.dir(),
        };
        Ok(Places::new(dir)?)
    }

    /// The same for commands that only read, or ask the recorder: all they need of a configuration is where the store is, and
    /// a mistake in it must not keep an operator from either.
    pub fn places_to_read(&self) -> anyhow::Result<Places> {
        self.places().map_err(|e| match e.is::<ConfigError>() && self.config.is_none() {
            true => anyhow::anyhow!("{e}; until that is mended, name the store: --dir DIR"),
            false => e,
        })
    }
}

/// Asks the recorder of the store; where there is none since the store that was named is not there, that is what is told.
pub fn ask(globals: &Globals, request: &Request, patience: Duration) -> anyhow::Result<Reply> {
    let places = globals.places_to_read()?;
    control::ask(&places.socket(), request, patience).map_err(|e| match e {
        AskError::NotRunning(_) if globals.dir.is_some() && !places.store.exists() => {
            StoreError::Missing { path: places.store }.into()
        }
        e @ AskError::NotRunning(_) => match places.system_elsewhere() {
            Some(store) if globals.dir.is_none() => {
                anyhow::anyhow!("{e}; that of the system: --dir {}", store.display())
            }
            _ => e.into(),
        },
        e => e.into(),
    })
}

/// Tells which recorded files of a store are left out for their names.
pub fn tell_misnamed(store: &Store) {
    for (path, why) in store.misnamed() {
        let path = printable(path.as_os_str().as_encoded_bytes());
        tell!("dashcam: note: {path} is left out: {why}; it can be read by itself, named as a PATH");
    }
}

/// This machine's time zone; where `TZ` says none, that is told once.
pub fn zone() -> Zone {
    static TOLD: Once = Once::new();
    if let Some(why) = zone::trouble() {
        TOLD.call_once(|| tell!("dashcam: note: {why}"));
    }
    zone::system()
}

/// A duration as people write it: `20s`, `5m`.
pub fn duration(text: &str) -> anyhow::Result<Duration> {
    let span: Span = text.parse().map_err(|e: crate::units::UnitError| usage(e.to_string()))?;
    Ok(span.0)
}

/// The same of the flag `name`, for a length that counts back from now: what is meant is said where a point in time was given.
pub fn length(name: &str, text: &str) -> anyhow::Result<Duration> {
    let span: Result<Span, _> = text.trim().parse();
    span.map(|s| s.0).map_err(|e| match text.trim().strip_prefix('-') {
        Some(rest) => {
            usage(format!("{name} is a length, not a point in time: write {name} {}", printable(rest.as_bytes())))
        }
        None => usage(format!("{name}: {e}")),
    })
}

/// A stretch of time, as commands on recorded data take it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WindowArgs {
    /// Begin: now, -5m, 14:32, 14:32:05.250, "2026-11-30 14:32", RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End, in the same words; a clock time before that of --from is one of the next day, if that makes 12 hours at most
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The last stretch of the data, e.g. 5m
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    pub last: Option<String>,
}

/// Wrong usage that the parser alone cannot see: exit code 2.
#[derive(Debug)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error of exit code 2: the words given make no sense.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// An error of exit code 1 with the face's own words.
pub fn failed(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::msg(text.into())
}
