//! The terminal: what the operator sees and presses.
//!
//! The interface thread draws plain data and never sees an event; a worker thread owns the model and answers
//! requests over bounded channels. [`actions`] is the table of all there is to press, [`keymap`] says which keys.

pub mod actions;
pub mod figures;
pub mod keymap;
pub mod keys;
pub mod pen;
pub mod theme;
