//! `dashcam completions`: completion scripts, made from the flag table.

use std::io::{self, Write};
use std::process::ExitCode;

/// Print a completion script for a shell
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// bash, elvish, fish, powershell, zsh
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Built in memory: the generator panics when its output pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "dashcam", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
