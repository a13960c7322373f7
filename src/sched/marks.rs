//! User markers: the text that programs write to `trace_marker`, in the form atrace gave it.
//!
//! `B|pid|name` begins a slice of the writing thread and `E|pid` (or `E`) ends its innermost; `C|pid|name|value` is a
//! counter; `I|pid|name` an instant; `S|pid|name|cookie` and `F|pid|name|cookie` begin and end an asynchronous slice.
//! Anything else is plain text: an instant. Texts are bytes of unknown origin; nothing here makes them safe to show.

/// What one marker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant's line speaks for its fields")]
pub enum Marker<'a> {
    /// A slice of the writing thread begins.
    Begin { name: &'a [u8] },
    /// The innermost slice of the writing thread ends.
    End,
    /// A counter of a process has a new value.
    Counter { pid: i32, name: &'a [u8], value: &'a [u8] },
    /// An asynchronous slice begins.
    AsyncBegin { pid: i32, name: &'a [u8], cookie: i64 },
    /// An asynchronous slice ends.
    AsyncEnd { pid: i32, name: &'a [u8], cookie: i64 },
    /// A moment.
    Instant { name: &'a [u8] },
}

/// Reads one marker.
pub fn parse(text: &[u8]) -> Marker<'_> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text == b"E" || text.starts_with(b"E|") {
        return Marker::End;
    }
    structured(text).unwrap_or(Marker::Instant { name: text })
}

fn structured(text: &[u8]) -> Option<Marker<'_>> {
    let [letter, b'|', rest @ ..] = text else { return None };
    let bar = rest.iter().position(|&b| b == b'|')?;
    let (pid, name) = (number(&rest[..bar])?, &rest[bar + 1..]);
    let pid = i32::try_from(pid).ok()?;
    match letter {
        b'B' => Some(Marker::Begin { name }),
        b'I' => Some(Marker::Instant { name }),
        b'C' => {
            // The value stands last; names may hold bars of their own. Some writers add a category after it.
            let (name, value) = split_last(name)?;
            Some(Marker::Counter { pid, name, value })
        }
        b'S' | b'F' => {
            let (name, cookie) = split_last(name)?;
            let cookie = number(cookie)?;
            Some(match letter {
                b'S' => Marker::AsyncBegin { pid, name, cookie },
                _ => Marker::AsyncEnd { pid, name, cookie },
            })
        }
        _ => None,
    }
}

fn split_last(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let bar = text.iter().rposition(|&b| b == b'|')?;
    Some((&text[..bar], &text[bar + 1..]))
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_of_atrace() {
        assert_eq!(parse(b"B|12|step 1|a\n"), Marker::Begin { name: b"step 1|a" });
        assert_eq!(parse(b"E|12\n"), Marker::End);
        assert_eq!(parse(b"E"), Marker::End);
        assert_eq!(parse(b"C|7|queue|3"), Marker::Counter { pid: 7, name: b"queue", value: b"3" });
        assert_eq!(parse(b"I|7|now"), Marker::Instant { name: b"now" });
        assert_eq!(parse(b"S|7|load|99"), Marker::AsyncBegin { pid: 7, name: b"load", cookie: 99 });
        assert_eq!(parse(b"F|7|load|-1"), Marker::AsyncEnd { pid: 7, name: b"load", cookie: -1 });
    }

    #[test]
    fn what_only_looks_like_one_is_plain_text() {
        for text in [&b"B|x|name"[..], b"B|1", b"Excellent", b"", b"|", b"\xff\xfe", b"S|1|no cookie"] {
            assert_eq!(parse(text), Marker::Instant { name: text });
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&text);
            let mut begin = b"B|1|".to_vec();
            begin.extend(&text);
            let name = text.strip_suffix(b"\n").unwrap_or(&text);
            prop_assert_eq!(parse(&begin), Marker::Begin { name });
        }
    }
}
