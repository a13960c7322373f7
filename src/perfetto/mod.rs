//! perfetto
