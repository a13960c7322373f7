//! User markers: `trace_marker` text in atrace form, folded into slices, instants and counters.
//!
//! The grammar is the one atrace and Perfetto use: `B|pid|name`, `E|pid`, `I|pid|name`, `C|pid|name|value`,
//! `S|pid|name|cookie`, `F|pid|name|cookie`, `G|pid|track|name|cookie`, `H|pid|track|cookie`,
//! `N|pid|track|name`. A begin and its end belong to the thread that wrote them. Any other text is an instant.

use crate::sched::event::Tid;

/// One marker text, taken apart; the parts are bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark<'a> {
    /// A slice of the writing thread begins.
    Begin {
        /// Its name.
        name: &'a [u8],
    },
    /// The innermost open slice of the writing thread ends.
    End,
    /// A slice of a process begins that any of its threads may end.
    AsyncBegin {
        /// Whose.
        pid: Tid,
        /// Track, for `G`.
        track: Option<&'a [u8]>,
        /// Its name.
        name: &'a [u8],
        /// Tells slices of the same name apart.
        cookie: i64,
    },
    /// It ends.
    AsyncEnd {
        /// Whose.
        pid: Tid,
        /// Track, for `H`.
        track: Option<&'a [u8]>,
        /// Name, for `F`.
        name: &'a [u8],
        /// Tells slices of the same name apart.
        cookie: i64,
    },
    /// One moment.
    Instant {
        /// What.
        name: &'a [u8],
    },
    /// A counter has a new value.
    Counter {
        /// Whose.
        pid: Tid,
        /// Which.
        name: &'a [u8],
        /// Value.
        value: f64,
    },
}

/// Reads one marker text. Never fails: text of no known form is an instant of that name.
pub fn parse(text: &[u8]) -> Mark<'_> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    atrace(text).unwrap_or(Mark::Instant { name: text })
}

fn atrace(text: &[u8]) -> Option<Mark<'_>> {
    let (&kind, rest) = text.split_first()?;
    if kind == b'E' && (rest.is_empty() || rest[0] == b'|') {
        return Some(Mark::End);
    }
    let rest = rest.strip_prefix(b"|")?;
    let (pid, rest) = cut(rest)?;
    let pid = number(pid)?;
    match kind {
        b'B' => Some(Mark::Begin { name: rest }),
        b'I' => Some(Mark::Instant { name: rest }),
        b'N' => Some(Mark::Instant { name: cut(rest)?.1 }),
        b'C' => {
            let (name, value) = cut(rest)?;
            let value = std::str::from_utf8(value.split(|b| *b == b'|').next()?).ok()?.trim().parse().ok()?;
            Some(Mark::Counter { pid: pid as Tid, name, value })
        }
        b'S' => {
            let (name, cookie) = cut(rest)?;
            Some(Mark::AsyncBegin { pid: pid as Tid, track: None, name, cookie: number(cookie)? })
        }
        b'F' => {
            let (name, cookie) = cut(rest)?;
            Some(Mark::AsyncEnd { pid: pid as Tid, track: None, name, cookie: number(cookie)? })
        }
        b'G' => {
            let (track, rest) = cut(rest)?;
            let (name, cookie) = cut(rest)?;
            Some(Mark::AsyncBegin { pid: pid as Tid, track: Some(track), name, cookie: number(cookie)? })
        }
        b'H' => {
            let (track, cookie) = cut(rest)?;
            // Older writers repeat the name before the cookie.
            let cookie = cookie.rsplit(|b| *b == b'|').next()?;
            Some(Mark::AsyncEnd { pid: pid as Tid, track: Some(track), name: b"", cookie: number(cookie)? })
        }
        _ => None,
    }
}

fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|b| *b == b'|')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn number(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn atrace_forms() {
        assert_eq!(parse(b"B|12|step 0\n"), Mark::Begin { name: b"step 0" });
        assert_eq!(parse(b"B|12|a|b"), Mark::Begin { name: b"a|b" }, "a name may hold the separator");
        assert_eq!(parse(b"E|12"), Mark::End);
        assert_eq!(parse(b"E"), Mark::End);
        assert_eq!(parse(b"C|12|queue|3.5"), Mark::Counter { pid: 12, name: b"queue", value: 3.5 });
        assert_eq!(parse(b"S|12|load|7"), Mark::AsyncBegin { pid: 12, track: None, name: b"load", cookie: 7 });
        assert_eq!(
            parse(b"G|12|io|load|7"),
            Mark::AsyncBegin { pid: 12, track: Some(b"io"), name: b"load", cookie: 7 }
        );
        assert_eq!(parse(b"H|12|io|7"), Mark::AsyncEnd { pid: 12, track: Some(b"io"), name: b"", cookie: 7 });
    }

    #[test]
    fn anything_else_is_an_instant_of_that_text() {
        for text in [&b"dataloader_start"[..], b"", b"B|x|y", b"C|1|n|nan?", b"Epoch|1|2", b"\xff|\xff"] {
            assert_eq!(parse(text), Mark::Instant { name: text });
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
