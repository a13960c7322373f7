//! What `live` and `browse` share: the configuration in the terminal's own words, and what can
//! be done to a store without its recorder.

use std::path::{Path, PathBuf};

use super::look::{self, Look};
use super::{failed, zone};
use crate::config::Config;
use crate::recorder::{clock, snapshots};
use crate::sched::findings::Thresholds;
use crate::sched::summary::Window;
use crate::store::catalog::Catalog;
use crate::store::{Store, snapshot};
use crate::tui::app::Options;
use crate::tui::cursor::Cursor;
use crate::tui::state::{Screen, Start};
use crate::tui::theme::{Depth, locale_is_utf8};
use crate::tui::worker::Settings;

/// How the terminal interface begins.
pub fn start(config: &Config, flags: &Look, cursor: Cursor, has_live: bool, screen: Screen) -> anyhow::Result<Start> {
    use std::io::IsTerminal;
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(failed(
            "the screen needs a terminal; for scripts there are 'report', 'query' and 'segments --json'",
        ));
    }
    let env = |name: &str| std::env::var(name).ok();
    let (no_color, colorterm, term) = (env("NO_COLOR"), env("COLORTERM"), env("TERM"));
    let depth = Depth::detect(no_color.as_deref(), colorterm.as_deref(), term.as_deref());
    let (all, ctype, lang) = (env("LC_ALL"), env("LC_CTYPE"), env("LANG"));
    let ascii = !locale_is_utf8(all.as_deref(), ctype.as_deref(), lang.as_deref());
    let theme = look::theme(config, flags.theme.as_deref(), depth, ascii)?;
    let keymap = look::keymap(config, flags.keymap.as_deref())?;
    Ok(Start { cursor, has_live, screen, keymap, theme, depth, zone: zone(), may_copy: config.live.osc52 })
}

/// Thresholds and roles for the worker.
pub fn settings(config: &Config) -> Settings {
    let f = &config.live.findings;
    let thresholds = Thresholds {
        starving: f.starving.0,
        monopolised: f.monopolised.0,
        pushed_off_per_s: f.pushed_off_per_s as f64,
        blocked: f.blocked.nanos(),
        idle_while_ready: f.idle_while_ready.nanos(),
    };
    let roles = config.live.roles.iter().map(|(name, patterns)| (name.clone(), patterns.0.clone())).collect();
    Settings { thresholds, roles }
}

/// Pace and mouse.
pub fn options(config: &Config) -> Options {
    Options { refresh_hz: config.live.refresh_hz as f64, mouse: true }
}

/// Keeps a range of a store as a snapshot, from what is on disk; gives the path.
pub fn keep(store: &Path, window: Window, label: &str, level: i32) -> Result<String, String> {
    let keep = || -> anyhow::Result<PathBuf> {
        let label = label.trim();
        snapshots::sensible(None, Some(label).filter(|l| !l.is_empty())).map_err(failed)?;
        let store = Store::open(store)?;
        let catalog = Catalog::open(&store)?;
        let boot = catalog.newest_boot().ok_or_else(|| failed("nothing is recorded here yet"))?;
        let request = snapshot::Request {
            boot,
            window,
            reason: "key".into(),
            detail: "a range chosen on screen".into(),
            label: if label.is_empty() { "range".into() } else { label.into() },
            requested_at: clock::boot_now(),
        };
        let plan = snapshot::plan(&catalog, None, request)?;
        let head = plan.first_head()?;
        let taken = plan.write(&store, &head, level)?;
        Ok(taken.file.path.clone())
    };
    match keep() {
        Ok(path) => Ok(crate::names::printable(path.as_os_str().as_encoded_bytes())),
        Err(e) => Err(super::error_line(&e)),
    }
}
