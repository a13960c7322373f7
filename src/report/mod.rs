//! Ready answers in plain words and numbers.

pub mod words;
