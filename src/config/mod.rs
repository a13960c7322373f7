//! The TOML file: its schema, how layers of it are laid over one another, and its translation into each lower
//! layer's own settings.
//!
//! `configs/default.toml` is compiled in and *is* the default; it also is the list of known keys, so that no key can
//! exist without its line of documentation there. Nothing below this module knows the file. This module opens the
//! files it is told to and nothing else; it never looks at the machine.

mod check;
mod error;
mod load;
mod lower;
pub mod schema;
mod suggest;

pub use error::{ConfigError, Problem};
pub use load::{DEFAULT, PRESETS, Source, load, load_sources, read_text};
pub use schema::Config;
pub use suggest::nearest;

#[cfg(test)]
mod tests;
