//! Names that are not UTF-8, in strings that must be.
//!
//! Perfetto's names are protobuf strings, so they must be valid UTF-8, while a thread's name is any bytes but
//! NUL. A name that is not UTF-8 is written with `\xNN` for each byte that is not part of a character, and with
//! `\x5c` for each backslash, in it and in any name that itself contains `\x`. That form is readable anywhere,
//! different names stay different, and the packet says (`DashcamPacket.escaped_names`) that it can be undone.

use std::borrow::Cow;

/// True when `name` cannot stand as it is in a string field.
pub(super) fn needs_escape(name: &[u8]) -> bool {
    // Short ASCII names without a backslash are nearly all names.
    if name.is_ascii() && !name.contains(&b'\\') {
        return false;
    }
    std::str::from_utf8(name).is_err() || name.windows(2).any(|w| w == b"\\x")
}

/// `name` as bytes that are valid UTF-8, and whether it had to be escaped. The inverse is [`unescape`].
pub(super) fn escape(name: &[u8]) -> (Cow<'_, [u8]>, bool) {
    if !needs_escape(name) {
        return (Cow::Borrowed(name), false);
    }
    let mut out = String::with_capacity(name.len() * 4);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' { out.push_str("\\x5c") } else { out.push(c) }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    (Cow::Owned(out.into_bytes()), true)
}

/// The bytes that [`escape`] was given. `\x` without two hex digits stays as it is.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.windows(2).any(|w| w == b"\\x") {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        match rest {
            [b'\\', b'x', a, b, after @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                out.push(hex(*a) << 4 | hex(*b));
                rest = after;
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    Cow::Owned(out)
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_43_names_that_are_not_utf8_stay_readable_and_distinct() {
        let escaped = |name| {
            let (text, escaped) = escape(name);
            (std::str::from_utf8(&text).unwrap().to_owned(), escaped)
        };
        assert_eq!(escaped(b"caf\xe9"), ("caf\\xe9".into(), true));
        assert_eq!(escaped(br"caf\xe9"), (r"caf\x5cxe9".into(), true));
        assert_eq!(escaped(br"a\b"), (r"a\b".into(), false), "a backslash alone means nothing");
        assert_eq!(escaped(b"\xff\\"), (r"\xff\x5c".into(), true));
        assert_eq!(escaped("数据\u{1b}[2J".as_bytes()), ("数据\u{1b}[2J".into(), false));
        assert_eq!(unescape(br"a\xzz\x4"), Cow::Borrowed(br"a\xzz\x4".as_slice()));
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x'), Just(b'5')], 0..24)) {
            let (text, escaped) = escape(&name);
            prop_assert_eq!(escaped, needs_escape(&name));
            if escaped {
                prop_assert_eq!(unescape(&text).into_owned(), name);
            } else {
                prop_assert_eq!(&*text, name.as_slice());
                // In a packet where another name was escaped this one must survive being unescaped.
                prop_assert_eq!(unescape(&text).into_owned(), name);
            }
        }
    }
}
