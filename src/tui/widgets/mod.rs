//! Pieces that screens are put together from. Each draws plain data with a [`super::pen::Pen`] and keeps nothing.

pub mod gantt;
pub mod grid;
pub mod header;
pub mod histogram;
pub mod lanes;
pub mod popup;
pub mod states;
