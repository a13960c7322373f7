//! Lays files over the default and turns the result into [`Config`].
//!
//! Each file is laid over what came before, key by key (lists are replaced as a whole), and the result is read again. What
//! came before was valid, so a mistake is always the new file's, and its place is the place in that file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check;
use super::error::{ConfigError, Problem};
use super::schema::Config;
use super::suggest::did_you_mean;

/// The default, word for word.
pub const DEFAULT: &str = include_str!("../../configs/default.toml");

/// Shipped configurations by name, as `--config NAME` takes them.
pub const PRESETS: &[(&str, &str)] = &[
    ("default", DEFAULT),
    ("ai-training", include_str!("../../configs/ai-training.toml")),
    ("minimal", include_str!("../../configs/minimal.toml")),
    ("io", include_str!("../../configs/io.toml")),
];

/// Tables whose keys are the user's own names.
const FREE_TABLES: &[&str] = &["live.roles"];

/// One file's text and the name it is called by in messages.
#[derive(Debug, Clone)]
pub struct Source {
    /// File name or preset name.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The default with `file` (a path, or the name of one of [`PRESETS`]) laid over it.
///
/// # Errors
/// A file that cannot be read, and every mistake in it with its line.
pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
    let Some(path) = file else {
        return load_sources(&[]);
    };
    let preset = path.to_str().and_then(|name| PRESETS.iter().find(|(n, _)| *n == name));
    if let (Some((name, text)), false) = (preset, path.exists()) {
        return load_sources(&[Source { name: (*name).into(), text: (*text).into() }]);
    }
    let text = read_text(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    load_sources(&[Source { name: path.display().to_string(), text }])
}

/// Reads a file that people write.
///
/// # Errors
/// Of reading it; what is larger than 16 MiB is no such file (a device never ends).
pub fn read_text(path: &Path) -> io::Result<String> {
    const MOST: u64 = 16 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 16 MiB, or has no end"));
    }
    Ok(text)
}

/// The default with each source laid over it in turn.
///
/// # Errors
/// The mistakes of the first source that has any.
pub fn load_sources(sources: &[Source]) -> Result<Config, ConfigError> {
    let default = Source { name: "configs/default.toml".into(), text: DEFAULT.into() };
    let mut table = DeTable::new();
    let mut config = None;
    for source in std::iter::once(&default).chain(sources) {
        let wrong = |problems| ConfigError::Wrong(problems);
        let overlay = parse(source).map_err(|p| wrong(vec![p]))?;
        let mut problems = Vec::new();
        unknown_keys(&overlay, known_keys(), "", source, &mut problems);
        if !problems.is_empty() {
            problems.sort_by_key(|p| p.line);
            return Err(wrong(problems));
        }
        lay_over(&mut table, &overlay);
        let read = read(&table, &overlay, source).map_err(|p| wrong(vec![p]))?;
        for (keys, what) in check::check(&read) {
            let span = keys.iter().find_map(|key| span_of(&overlay, key));
            let line = span.map(|s| line_of(&source.text, s.start));
            problems.push(Problem { file: source.name.clone(), line, what: format!("{}: {what}", keys[0]) });
        }
        problems.sort_by_key(|p| p.line);
        if !problems.is_empty() {
            return Err(wrong(problems));
        }
        config = Some(read);
    }
    // The chain above begins with the default, so there always is a last one.
    config.ok_or(ConfigError::Wrong(Vec::new()))
}

fn parse(source: &Source) -> Result<DeTable<'_>, Problem> {
    DeTable::parse(&source.text).map(Spanned::into_inner).map_err(|e| {
        let line = e.span().map(|s| line_of(&source.text, s.start));
        Problem { file: source.name.clone(), line, what: e.message().replace('\n', "; ") }
    })
}

fn read(table: &DeTable<'_>, overlay: &DeTable<'_>, source: &Source) -> Result<Config, Problem> {
    let whole = Spanned::new(0..0, table.clone());
    Config::deserialize(toml::Deserializer::from(whole)).map_err(|e| {
        let span = e.span();
        let key = span.clone().and_then(|s| key_at(overlay, &s, ""));
        let what = e.message().replace('\n', "; ").replace("invalid type: map", "invalid type: table");
        Problem {
            file: source.name.clone(),
            line: span.map(|s| line_of(&source.text, s.start)),
            what: key.map_or(what.clone(), |key| format!("{key}: {what}")),
        }
    })
}

/// Line of a byte offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

/// Tables are merged key by key; everything else is replaced.
fn lay_over<'a>(base: &mut DeTable<'a>, over: &DeTable<'a>) {
    for (key, value) in over {
        if let (Some(old), DeValue::Table(new)) = (base.get_mut(key.get_ref().as_ref()), value.get_ref())
            && let DeValue::Table(old) = old.get_mut()
        {
            lay_over(old, new);
            continue;
        }
        // Removed first: an insert alone keeps the old key, whose place is in another file.
        base.remove(key.get_ref().as_ref());
        base.insert(key.clone(), value.clone());
    }
}

/// The known keys: a leaf, or a table of them.
#[derive(Debug)]
enum Known {
    Leaf,
    Free,
    Table(BTreeMap<String, Known>),
}

/// Taken from the default file with its examples uncommented, so that a key without documentation is no key.
fn known_keys() -> &'static BTreeMap<String, Known> {
    static KNOWN: OnceLock<BTreeMap<String, Known>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let text = uncommented(DEFAULT);
        // A test loads exactly this text; if it were not TOML, no key would be known and every start would say so.
        DeTable::parse(&text).map(|t| shape(t.get_ref(), "")).unwrap_or_default()
    })
}

fn shape(table: &DeTable<'_>, path: &str) -> BTreeMap<String, Known> {
    let known = |path: &str, value: &DeValue<'_>| match value {
        _ if FREE_TABLES.contains(&path) => Known::Free,
        DeValue::Table(t) => Known::Table(shape(t, path)),
        DeValue::Array(a) => match a.iter().next().map(Spanned::get_ref) {
            Some(DeValue::Table(t)) => Known::Table(shape(t, path)),
            _ => Known::Leaf,
        },
        _ => Known::Leaf,
    };
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), known(&join(path, key.get_ref()), value.get_ref())))
        .collect()
}

/// The text with every commented-out example (`#key = …`, `#[table]`: no space after the #) made live.
pub(super) fn uncommented(text: &str) -> String {
    let live = |line: &str| {
        let rest = line.strip_prefix('#').filter(|r| r.starts_with(|c: char| c.is_ascii_lowercase() || c == '['));
        rest.unwrap_or(line).to_string() + "\n"
    };
    text.lines().map(live).collect()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

fn unknown_keys(
    table: &DeTable<'_>,
    known: &BTreeMap<String, Known>,
    path: &str,
    source: &Source,
    out: &mut Vec<Problem>,
) {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        match (known.get(name), value.get_ref()) {
            (None, _) => {
                let what = unknown(name, known, path);
                out.push(Problem {
                    file: source.name.clone(),
                    line: Some(line_of(&source.text, key.span().start)),
                    what,
                });
            }
            (Some(Known::Table(inner)), DeValue::Table(t)) => unknown_keys(t, inner, &join(path, name), source, out),
            (Some(Known::Table(inner)), DeValue::Array(a)) => {
                for item in a.iter() {
                    if let DeValue::Table(t) = item.get_ref() {
                        unknown_keys(t, inner, &join(path, name), source, out);
                    }
                }
            }
            (Some(_), _) => {}
        }
    }
}

/// What to say of a key nobody knows: the nearest one here, or its home if it stands in the wrong table.
fn unknown(name: &str, here: &BTreeMap<String, Known>, path: &str) -> String {
    let shown = crate::names::printable(name.chars().take(60).collect::<String>().as_bytes());
    let near = did_you_mean(name, here.keys().map(String::as_str));
    if !near.is_empty() {
        return format!("unknown key \"{shown}\"{near}");
    }
    if let Some(home) = home_of(name, known_keys(), "") {
        return format!("unknown key \"{shown}\" here; it belongs in [{home}]");
    }
    let place = if path.is_empty() { "at the top level".into() } else { format!("in [{path}]") };
    let all: Vec<&str> = here.keys().map(String::as_str).collect();
    format!("unknown key \"{shown}\" {place}; known are {}", all.join(", "))
}

fn home_of(name: &str, known: &BTreeMap<String, Known>, path: &str) -> Option<String> {
    known.iter().find_map(|(key, inner)| match inner {
        Known::Table(t) if t.contains_key(name) => Some(join(path, key)),
        Known::Table(t) => home_of(name, t, &join(path, key)),
        _ => None,
    })
}

/// Dotted path of the innermost key whose value holds `span`.
fn key_at(table: &DeTable<'_>, span: &Range<usize>, path: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let path = join(path, key.get_ref());
        let inner = match value.get_ref() {
            DeValue::Table(t) => key_at(t, span, &path),
            DeValue::Array(a) => a.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(t) => key_at(t, span, &path),
                _ => None,
            }),
            _ => None,
        };
        let v = value.span();
        inner.or_else(|| (v.start <= span.start && span.end <= v.end).then_some(path))
    })
}

/// Where the value of a dotted key stands in a file; `triggers.1.above` counts list entries from 0.
fn span_of(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
    let value = table.get(first)?;
    match (value.get_ref(), rest) {
        (DeValue::Table(t), Some(rest)) => span_of(t, rest),
        (DeValue::Array(a), Some(rest)) => {
            let (index, rest) = rest.split_once('.').map_or((rest, None), |(a, b)| (a, Some(b)));
            let item = a.get(index.parse::<usize>().ok()?)?;
            match (item.get_ref(), rest) {
                (DeValue::Table(t), Some(rest)) => span_of(t, rest).or_else(|| Some(item.span())),
                _ => Some(item.span()),
            }
        }
        _ => Some(value.span()),
    }
}
