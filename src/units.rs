//! Sizes and durations as people write them (`"4 GiB"`, `"60s"`, `"4.1 ms"`), both ways. Knows nothing else.
