//! The tables: which columns each has, in Perfetto's names and order, and where a cell comes from.
//!
//! Columns that Perfetto does not have are `HIDDEN` (usable by name, absent from `SELECT *`) or stand in
//! tables of our own (`wait`, `segment`, `snapshot`, `cgroup`, `loss`, `gap`). Tables with a row per event are
//! virtual; the short ones are filled in by [`small`].

pub mod events;
pub mod people;
pub mod sched;
pub mod slices;
pub mod small;
