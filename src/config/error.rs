//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use crate::names::printable;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}; name another with --config", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds mistakes: all that were found, in the order of the lines.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}

/// One mistake. Prints as `FILE:LINE: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File as it was named.
    pub file: String,
    /// Line, from 1; `None` when no single line is to blame.
    pub line: Option<usize>,
    /// What is wrong and what is allowed.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Both may quote the file's own bytes.
        let (file, what) = (printable(self.file.as_bytes()), printable(self.what.as_bytes()));
        match self.line {
            Some(line) => write!(f, "{file}:{line}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}
