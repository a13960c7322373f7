//! The dialect of Perfetto's documentation, turned into what SQLite understands.
//!
//! Statements pass through unchanged unless they say `PERFETTO` or call a macro. What has no counterpart is
//! refused by name; nothing is silently ignored. Running the statements is [`super::engine`]'s work.

pub mod macros;
pub mod modules;
pub mod rewrite;
pub mod statement;
pub mod token;

pub use macros::{Body, Macro, Macros};
pub use rewrite::Rewritten;
pub use statement::{Function, Returns, Statement, read_statement, split};
