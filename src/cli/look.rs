//! Keys and colours of the screens: shipped ones by name, the user's own files, and the flags that choose.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::usage;
use crate::config::Config;
use crate::names::printable;
use crate::tui::keymap::{Keymap, shipped};
use crate::tui::theme::{Depth, SHIPPED, Theme};

/// What `live` and `browse` take.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Look {
    /// Keymap file or the name of a shipped one (default, vim)
    #[arg(long, value_name = "NAME|FILE")]
    pub keymap: Option<String>,
    /// Theme file, the name of one in $XDG_CONFIG_HOME/dashcam/themes, or of a shipped one (dark, light, colour-blind, 16-colour, mono)
    #[arg(long, value_name = "NAME|FILE")]
    pub theme: Option<String>,
}

/// The keymap that the flag, else the configuration, else the user's own file says.
pub fn keymap(config: &Config, flag: Option<&str>) -> anyhow::Result<Keymap> {
    let name = flag.unwrap_or(&config.live.keymap);
    let own = own_file("keymap.toml").filter(|path| flag.is_none() && name == "default" && path.exists());
    if let Some(path) = own {
        return keymap_file(&path);
    }
    if let (Some(text), false) = (shipped(name), Path::new(name).exists()) {
        return Ok(Keymap::with_file(&text, name)?);
    }
    if !Path::new(name).exists() {
        let shown = printable(name.as_bytes());
        return Err(usage(format!("no keymap {shown}: neither a file nor one of the shipped ones (default, vim)")));
    }
    keymap_file(Path::new(name))
}

fn keymap_file(path: &Path) -> anyhow::Result<Keymap> {
    let text = crate::config::read_text(path).with_context(|| format!("cannot read the keymap {}", shown(path)))?;
    Ok(Keymap::with_file(&text, &shown(path))?)
}

/// The theme that the flag, else the configuration says: a file, one of the user's own by name, or a shipped one.
pub fn theme(config: &Config, flag: Option<&str>, depth: Depth, ascii: bool) -> anyhow::Result<Theme> {
    let name = flag.unwrap_or(&config.live.theme);
    if let Some(path) = theme_file(name) {
        let text =
            crate::config::read_text(&path).with_context(|| format!("cannot read the theme {}", shown(&path)))?;
        let called = path.file_stem().map_or_else(|| name.to_string(), |stem| printable(stem.as_encoded_bytes()));
        return Ok(Theme::own(&text, &shown(&path), &called, depth, ascii)?);
    }
    Theme::shipped(name, depth, ascii).ok_or_else(|| {
        let place = own_file("themes").map_or(String::new(), |dir| format!(" nor one in {}", shown(&dir)));
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let name = printable(name.as_bytes());
        usage(format!("no theme {name}: neither a file{place} nor one of the shipped ones ({})", names.join(", ")))
    })
}

/// The file of a name: the user's own comes before a shipped one, and a path is a path.
fn theme_file(name: &str) -> Option<PathBuf> {
    if name.contains('/') || name.ends_with(".toml") {
        return Some(PathBuf::from(name));
    }
    own_file("themes").map(|dir| dir.join(format!("{name}.toml"))).filter(|path| path.exists())
}

/// A file of the user's own configuration.
fn own_file(name: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|h| h.join(".config")))?;
    Some(base.join("dashcam").join(name))
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
}
