//! The `dashcam` binary: arguments in, exit code out.

use std::process::ExitCode;

/// Runs before `main`, as early as a program can: a USR1 that an alert hook sends right after exec must not kill.
#[used]
#[unsafe(link_section = ".init_array")]
static TAKE_SIGNALS_OVER: extern "C" fn() = dashcam::recorder::signals::take_over;

fn main() -> ExitCode {
    dashcam::cli::main()
}
