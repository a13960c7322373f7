//! `dashcam keys`: the key bindings in effect.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Globals, look};
use crate::tui::keymap::markdown_table;

/// List the key bindings
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Keymap file or the name of a shipped one (default, vim)
    #[arg(long, value_name = "NAME|FILE")]
    pub keymap: Option<String>,
    /// The default keys as the README's table
    #[arg(long, hide = true)]
    pub markdown: bool,
}

/// Runs the command. What it prints is itself a keymap file.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let text = if args.markdown {
        markdown_table()
    } else {
        look::keymap(&globals.load_config()?, args.keymap.as_deref())?.to_string()
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
