//! recover
