//! The terminal: what the operator sees and presses.
//!
//! The interface thread draws plain data and never sees an event; a worker thread owns the model and answers
//! requests over bounded channels. [`actions`] is the table of all there is to press, [`keymap`] says which keys;
//! [`update`] changes the [`state`], [`render`] draws it, and neither does any input or output.

pub mod actions;
pub mod answers;
pub mod app;
mod asking;
mod bounds;
pub mod cursor;
pub mod deeds;
pub mod fuzzy;
mod grouping;
pub mod history;
pub mod input;
pub mod keeper;
pub mod keymap;
pub mod keys;
pub mod labels;
pub mod pace;
pub mod pen;
pub mod prompt;
mod querying;
pub mod render;
pub mod screens;
mod shelf;
pub mod state;
pub mod stored;
mod table;
pub mod terminal;
pub mod theme;
pub mod update;
pub mod widgets;
pub mod words;
pub mod worker;

#[cfg(test)]
mod demo;
#[cfg(test)]
mod tests;
