//! The screens: each says how it is laid out (which `update` needs as well, for scrolling and clicks) and draws itself.

pub mod columns;
pub mod compare;
pub mod cpu;
pub mod details;
pub mod help;
pub mod overview;
pub mod query;
pub mod segments;
pub mod snapshots;
pub mod thread;
pub mod thread_table;
pub mod timeline;
