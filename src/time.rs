//! Points in time and their grammar (`now`, `-5m`, `14:32:05.250`, RFC 3339). Knows nothing of clocks' sources.
