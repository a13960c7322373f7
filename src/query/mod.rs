//! SQL over recorded scheduling history, with Perfetto's tables and conventions.
//!
//! [`columns`] keeps what the fold found, column by column; [`engine`] shows those columns to SQLite as
//! virtual tables, so nothing is copied; [`perfetto_sql`] accepts the SQL dialect people paste from
//! Perfetto's documentation; [`output`] prints rows. Nothing here reads a file or knows what a
//! segment is: the feed pushes into [`builder::Builder`], and what a state *means* is `sched::fold`'s alone.

pub mod builder;
pub mod column;
pub mod columns;
pub mod engine;
pub mod error;
pub mod facts;
pub mod functions;
mod intersect;
pub mod library;
pub mod load;
mod numbering;
pub mod output;
pub mod perfetto_sql;
pub mod postings;
pub mod reach;
pub mod rehearsal;
mod span_join;
pub mod states;
mod table_function;
pub mod tables;
#[cfg(test)]
pub mod testing;
pub mod vtab;

pub use builder::{Builder, Keep};
pub use columns::Columns;
pub use engine::Engine;
pub use error::QueryError;
