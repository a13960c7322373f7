//! What the configuration file holds, as it holds it. Each field's meaning stands in `configs/default.toml`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::suggest::did_you_mean;
use crate::units::{Bytes, Share, Span, UnitError};

/// The whole configuration, all layers applied and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
pub struct Config {
    /// Files.
    pub store: Store,
    /// What is taken from the kernel.
    pub capture: Capture,
    /// Snapshots on request.
    pub snapshot: Snapshot,
    /// Snapshots by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// Sampled values.
    pub counters: Counters,
    /// The terminal UI.
    pub live: Live,
    /// The control socket.
    pub control: Control,
    /// The log.
    pub log: Log,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Store {
    pub dir: Auto,
    pub segment: Span,
    pub keep_time: Span,
    pub keep_bytes: Bytes,
    pub keep_free: Share,
    pub sync_interval: Span,
    pub compression_level: i64,
}

/// `[capture]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Capture {
    pub source: CaptureSource,
    pub instance: String,
    pub events: Vec<String>,
    pub buffer_total: Bytes,
    pub buffer_ram_share: Share,
    pub blocked: BlockedStacks,
    pub copy_marker: bool,
    pub command_lines: bool,
}

/// `[snapshot]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Snapshot {
    pub last: Span,
}

/// One of `[[triggers]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Trigger {
    pub value: String,
    pub above: Limit,
    #[serde(default)]
    pub hold: Span,
    #[serde(default = "ten_minutes")]
    pub cooldown: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

fn ten_minutes() -> Span {
    Span::secs(600)
}

/// `[counters]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Counters {
    pub interval: Span,
    pub sources: Vec<CounterSource>,
}

/// `[live]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Live {
    pub window: Span,
    pub refresh_hz: i64,
    pub theme: String,
    pub keymap: String,
    pub osc52: bool,
    #[serde(default)]
    pub roles: BTreeMap<String, Patterns>,
    pub findings: Findings,
}

/// `[live.findings]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Findings {
    pub starving: Share,
    pub monopolised: Share,
    pub pushed_off_per_s: i64,
    pub blocked: Span,
    pub idle_while_ready: Span,
}

/// `[control]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Control {
    pub mode: Mode,
    pub group: String,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table of keys")]
#[allow(missing_docs, reason = "configs/default.toml documents every key, and a test holds it to that")]
pub struct Log {
    pub level: LogLevel,
}

/// A directory, or `"auto"`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Auto {
    /// The usual place for this user.
    #[default]
    Auto,
    /// This one.
    Dir(PathBuf),
}

impl Auto {
    /// The directory, if one is named.
    pub fn dir(&self) -> Option<PathBuf> {
        match self {
            Auto::Auto => None,
            Auto::Dir(dir) => Some(dir.clone()),
        }
    }
}

impl Serialize for Auto {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Auto::Auto => s.serialize_str("auto"),
            Auto::Dir(dir) => s.serialize_str(&dir.to_string_lossy()),
        }
    }
}

impl<'de> Deserialize<'de> for Auto {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, "\"auto\" or an absolute path", |text| match text {
            "auto" => Ok(Auto::Auto),
            path if path.starts_with('/') => Ok(Auto::Dir(path.into())),
            _ => Err(format!("\"{text}\" is neither \"auto\" nor an absolute path")),
        })
    }
}

/// A limit in the unit of the value it is for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Limit {
    /// For times.
    Span(Span),
    /// For shares.
    Share(Share),
    /// For everything else.
    Number(f64),
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl de::Visitor<'_> for Any {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration (\"50 ms\"), a share (\"20 %\") or a number")
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<Limit, E> {
                if v.contains('%') {
                    return v.parse().map(Limit::Share).map_err(E::custom);
                }
                v.parse().map(Limit::Span).map_err(|e: UnitError| E::custom(e))
            }

            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Limit, E> {
                Ok(Limit::Number(v as f64))
            }

            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Limit, E> {
                Ok(Limit::Number(v as f64))
            }

            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Limit, E> {
                Ok(Limit::Number(v))
            }
        }
        d.deserialize_any(Any)
    }
}

/// Name patterns of a role: one or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Patterns(pub Vec<String>);

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> de::Visitor<'de> for OneOrMore {
            type Value = Patterns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name pattern or a list of them")
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<Patterns, E> {
                Ok(Patterns(vec![v.to_string()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Patterns, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element::<String>()? {
                    all.push(one);
                }
                Ok(Patterns(all))
            }
        }
        d.deserialize_any(OneOrMore)
    }
}

/// Reads a value from text. A visitor, not `String::deserialize` and then a parse: only so does a mistake inside a list
/// keep its own line.
fn from_text<'de, D, T>(d: D, expected: &'static str, parse: fn(&str) -> Result<T, String>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct Text<T>(&'static str, fn(&str) -> Result<T, String>);
    impl<T> de::Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
            (self.1)(v).map_err(E::custom)
        }
    }
    d.deserialize_str(Text(expected, parse))
}

/// Permission bits, written in octal as chmod takes them: `"0660"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, "a file mode in quotes, such as \"0660\"", |text| {
            let octal = (3..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            match u32::from_str_radix(text, 8) {
                Ok(mode) if octal && mode <= 0o777 => Ok(Mode(mode)),
                _ => Err(format!("\"{text}\" is not a file mode: write octal digits, as in \"0660\"")),
            }
        })
    }
}

/// An enum that is written as one of a few words; a wrong word is told the right ones.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// Every word, in the order of the documentation.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(wrong_word(text, $what, Self::WORDS)),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                from_text(d, concat!("a ", $what, " in quotes"), str::parse)
            }
        }
    };
}

/// `"ftrase" is not a source: use auto, ftrace or proc; did you mean "ftrace"?`
pub(super) fn wrong_word(text: &str, what: &str, words: &[&str]) -> String {
    let text = crate::names::printable(text.chars().take(60).collect::<String>().as_bytes());
    let list = match words {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => words.concat(),
    };
    format!("\"{text}\" is not a {what}: use {list}{}", did_you_mean(&text, words.iter().copied()))
}

words!(
    /// Where events come from.
    CaptureSource, "source",
    /// ftrace if it can be had, else sampling.
    Auto = "auto",
    /// The kernel's ring buffers.
    Ftrace = "ftrace",
    /// Sampling of /proc.
    Proc = "proc",
);

words!(
    /// Which blocked threads get their kernel stack looked at.
    BlockedStacks, "choice of blocked threads",
    /// Those in D state.
    Uninterruptible = "uninterruptible",
    /// Those in any sleep.
    All = "all",
    /// None.
    Off = "off",
);

words!(
    /// Where counters are read.
    CounterSource, "counter source",
    /// /proc/meminfo.
    Memory = "memory",
    /// /proc/pressure.
    Psi = "psi",
    /// /proc/diskstats.
    Disk = "disk",
    /// /proc/loadavg.
    Load = "load",
    /// cpu.stat of control groups.
    Cgroup = "cgroup",
    /// The processor's own counters.
    Hardware = "hardware",
);

words!(
    /// How much is logged.
    LogLevel, "log level",
    /// What stopped us.
    Error = "error",
    /// What is worse than it should be.
    Warn = "warn",
    /// Starts, stops, snapshots.
    Info = "info",
    /// Decisions.
    Debug = "debug",
    /// Everything.
    Trace = "trace",
);
