//! Which keys do what: a trie per context, read from TOML, strict.
//!
//! A keymap file that is wrong stops the start with `file:line`, the key and the nearest valid name; it never
//! falls back silently. This module reads text only: opening the file is the caller's.

use super::actions::{Action, Context, default_keymap_toml};
use super::keys::{Key, sequence_text};
use std::collections::BTreeMap;
use std::fmt;

/// Why a keymap file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {what}")]
pub struct KeymapError {
    /// The file, as the user named it.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and how to mend it.
    pub what: String,
}

/// One key sequence in one context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Where.
    pub context: Context,
    /// Keys, one after another; never empty.
    pub keys: Vec<Key>,
    /// What they do.
    pub action: Action,
}

/// What a sequence of keys means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This.
    Action(Action),
    /// More keys must come.
    Pending,
    /// Nothing.
    Nothing,
}

#[derive(Debug, Clone)]
enum Node {
    Leaf(Action),
    Branch(BTreeMap<Key, Node>),
}

/// The keys in effect.
#[derive(Debug, Clone)]
pub struct Keymap {
    bindings: Vec<Binding>,
    tries: BTreeMap<Context, Node>,
}

impl Default for Keymap {
    /// The keys of the action table, which are those of `keymaps/default.toml`.
    fn default() -> Self {
        let mut bindings = Vec::new();
        for info in super::actions::ACTIONS {
            for (context, keys) in info.keys {
                for text in *keys {
                    // The table's keys are constants, and a test parses every one of them.
                    let keys = Key::parse_sequence(text).unwrap_or_default();
                    bindings.push(Binding { context: *context, keys, action: info.action });
                }
            }
        }
        Keymap::build(bindings)
    }
}

impl Keymap {
    /// The default keys with a file's changes on top. A key that the file gives to another action moves there; two
    /// actions on one key within the file are refused.
    pub fn with_file(text: &str, origin: &str) -> Result<Keymap, KeymapError> {
        let file = parse(text, origin)?;
        let base = if file.inherit { Keymap::default().bindings } else { Vec::new() };
        let mut bindings: Vec<Binding> = base
            .into_iter()
            .filter(|b| !file.mentions.contains(&(b.context, b.action)))
            .filter(|b| !file.bindings.iter().any(|(n, _)| n.context == b.context && overlap(&n.keys, &b.keys)))
            .collect();
        bindings.extend(file.bindings.into_iter().map(|(b, _)| b));
        Ok(Keymap::build(bindings))
    }

    fn build(bindings: Vec<Binding>) -> Keymap {
        let mut tries: BTreeMap<Context, Node> = BTreeMap::new();
        for b in &bindings {
            let root = tries.entry(b.context).or_insert_with(|| Node::Branch(BTreeMap::new()));
            insert(root, &b.keys, b.action);
        }
        Keymap { bindings, tries }
    }

    /// What `keys`, pressed one after another in `context`, mean.
    pub fn look_up(&self, context: Context, keys: &[Key]) -> Found {
        match self.walk(context, keys) {
            Found::Nothing if !matches!(context, Context::Prompt | Context::Any) => self.walk(Context::Any, keys),
            found => found,
        }
    }

    fn walk(&self, context: Context, keys: &[Key]) -> Found {
        let Some(mut node) = self.tries.get(&context) else { return Found::Nothing };
        for key in keys {
            let Node::Branch(next) = node else { return Found::Nothing };
            let Some(child) = next.get(key) else { return Found::Nothing };
            node = child;
        }
        match node {
            Node::Leaf(action) => Found::Action(*action),
            Node::Branch(_) => Found::Pending,
        }
    }

    /// All bindings.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The keys of `action` as one would press them in `context`, as text, first choice first.
    pub fn keys_of(&self, action: Action, context: Context) -> Vec<String> {
        let of = |c: Context| self.bindings.iter().filter(move |b| b.action == action && b.context == c);
        let mut texts: Vec<String> = of(context).map(|b| sequence_text(&b.keys)).collect();
        if context != Context::Any && context != Context::Prompt {
            let general = of(Context::Any).filter(|b| self.look_up(context, &b.keys) == Found::Action(action));
            texts.extend(general.map(|b| sequence_text(&b.keys)));
        }
        texts
    }

    /// The first key of `action` in `context`, for hints; empty when it has none.
    pub fn hint(&self, action: Action, context: Context) -> String {
        self.keys_of(action, context).into_iter().next().unwrap_or_default()
    }
}

/// True when one sequence equals or begins the other: then one of them could never be typed.
fn overlap(a: &[Key], b: &[Key]) -> bool {
    let n = a.len().min(b.len());
    a[..n] == b[..n]
}

fn insert(node: &mut Node, keys: &[Key], action: Action) {
    let Some((first, rest)) = keys.split_first() else { return };
    let Node::Branch(next) = node else { return };
    if rest.is_empty() {
        next.insert(*first, Node::Leaf(action));
    } else {
        insert(next.entry(*first).or_insert_with(|| Node::Branch(BTreeMap::new())), rest, action);
    }
}

struct File {
    inherit: bool,
    /// Each with its line.
    bindings: Vec<(Binding, usize)>,
    mentions: Vec<(Context, Action)>,
}

fn parse(text: &str, origin: &str) -> Result<File, KeymapError> {
    let fail = |span: Option<std::ops::Range<usize>>, what: String| KeymapError {
        origin: origin.to_string(),
        line: line_of(text, span.map_or(0, |s| s.start)),
        what,
    };
    let document = toml_edit::Document::parse(text).map_err(|e| fail(e.span(), e.message().trim().to_string()))?;
    let mut file = File { inherit: true, bindings: Vec::new(), mentions: Vec::new() };
    for (name, item) in document.iter() {
        let span = || document.key(name).and_then(|k| k.span()).or_else(|| item.span());
        if name == "inherit" {
            file.inherit = match item.as_str() {
                Some("default") => true,
                Some("none") => false,
                _ => return Err(fail(item.span(), "inherit is \"default\" or \"none\"".into())),
            };
            continue;
        }
        let Some(context) = Context::parse(name) else {
            return Err(fail(span(), unknown("context", name, Context::ALL.iter().map(|c| c.name()))));
        };
        let Some(table) = item.as_table_like() else {
            return Err(fail(span(), format!("{name} is a table: [{name}]")));
        };
        for (action_name, value) in table.iter() {
            let span = || table.key(action_name).and_then(|k| k.span()).or_else(|| value.span());
            let Some(action) = Action::parse(action_name) else {
                let names = super::actions::ACTIONS.iter().map(|a| a.name);
                return Err(fail(span(), unknown("action", action_name, names)));
            };
            file.mentions.push((context, action));
            for (keys, span) in key_list(value).map_err(|what| fail(value.span(), format!("{action_name}: {what}")))? {
                let keys =
                    Key::parse_sequence(keys).map_err(|what| fail(span.clone(), format!("{action_name}: {what}")))?;
                let line = line_of(text, span.as_ref().map_or(0, |s| s.start));
                if let Some((other, at)) =
                    file.bindings.iter().find(|(b, _)| b.context == context && overlap(&b.keys, &keys))
                {
                    let (new, old) = (sequence_text(&keys), sequence_text(&other.keys));
                    let name = other.action.name();
                    let what = format!(
                        "{action_name}: {new:?} collides with {old:?} of {name} (line {at}) in [{}]; give one of them another key",
                        context.name()
                    );
                    return Err(fail(span, what));
                }
                file.bindings.push((Binding { context, keys, action }, line));
            }
        }
    }
    Ok(file)
}

type Spanned<'a> = (&'a str, Option<std::ops::Range<usize>>);

/// A key text or a list of them.
fn key_list(value: &toml_edit::Item) -> Result<Vec<Spanned<'_>>, String> {
    const WANTED: &str = "wants a key (\"q\") or a list of keys ([\"q\", \"ctrl-c\"])";
    if let Some(text) = value.as_str() {
        return Ok(vec![(text, value.span())]);
    }
    let list = value.as_array().ok_or(WANTED)?;
    list.iter().map(|v| v.as_str().map(|t| (t, v.span())).ok_or_else(|| WANTED.to_string())).collect()
}

/// Line of a byte offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// "unknown action "qiut"; did you mean "quit"?"
pub(super) fn unknown<'a>(kind: &str, name: &str, valid: impl Iterator<Item = &'a str>) -> String {
    let shown = crate::names::printable(name.as_bytes());
    let nearest = valid.map(|v| (distance(name, v), v)).min();
    match nearest {
        Some((d, v)) if d <= 2.max(name.chars().count() / 2) => {
            format!("unknown {kind} \"{shown}\"; did you mean \"{v}\"?")
        }
        _ => format!("unknown {kind} \"{shown}\"; `dashcam keys` lists all"),
    }
}

/// Edit distance (Levenshtein), bounded by the lengths of two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The effective map as a keymap file prints it: what `dashcam keys` shows.
impl fmt::Display for Keymap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in Context::ALL {
            writeln!(f, "[{}]  # {}", context.name(), context.doc())?;
            for info in super::actions::ACTIONS {
                let here: Vec<String> = self
                    .bindings
                    .iter()
                    .filter(|b| b.context == context && b.action == info.action)
                    .map(|b| format!("{:?}", sequence_text(&b.keys)))
                    .collect();
                if !here.is_empty() {
                    writeln!(f, "{:<35} # {}", format!("{} = [{}]", info.name, here.join(", ")), info.doc)?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The README's table of keys: one row per action, its default keys by context.
pub fn markdown_table() -> String {
    use std::fmt::Write as _;
    let map = Keymap::default();
    let mut out = String::from("| key | where | action | does |\n|---|---|---|---|\n");
    for context in Context::ALL {
        for info in super::actions::ACTIONS.iter().filter(|i| i.keys.iter().any(|(c, _)| *c == context)) {
            let keys: Vec<String> = map
                .bindings
                .iter()
                .filter(|b| b.context == context && b.action == info.action)
                .map(|b| format!("`{}`", sequence_text(&b.keys)))
                .collect();
            let _ = writeln!(out, "| {} | {} | `{}` | {} |", keys.join(" "), context.name(), info.name, info.doc);
        }
    }
    out
}

/// The compiled-in keymap files by name, for `--keymap NAME`.
pub fn shipped(name: &str) -> Option<String> {
    match name {
        "default" => Some(default_keymap_toml()),
        "vim" => Some(include_str!("../../keymaps/vim.toml").to_string()),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tui::actions::ACTIONS;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<Key> {
        Key::parse_sequence(text).unwrap()
    }

    #[test]
    fn the_table_itself_is_a_valid_file_that_covers_every_action() {
        let map = Keymap::with_file(&default_keymap_toml(), "default.toml").unwrap();
        assert_eq!(map.bindings().len(), Keymap::default().bindings().len());
        for info in ACTIONS {
            for (context, texts) in info.keys {
                for text in *texts {
                    assert_eq!(map.look_up(*context, &keys(text)), Found::Action(info.action), "{text} in {context:?}");
                }
            }
        }
    }

    #[test]
    fn contexts_come_before_any_and_sequences_wait() {
        let map = Keymap::default();
        assert_eq!(map.look_up(Context::Overview, &keys("g")), Found::Action(Action::Group));
        assert_eq!(map.look_up(Context::Timeline, &keys("g")), Found::Action(Action::GotoTime));
        assert_eq!(map.look_up(Context::Timeline, &keys("q")), Found::Action(Action::Quit));
        assert_eq!(map.look_up(Context::Timeline, &keys("z")), Found::Pending);
        assert_eq!(map.look_up(Context::Timeline, &keys("z i")), Found::Action(Action::ZoomIn));
        assert_eq!(map.look_up(Context::Timeline, &keys("z x")), Found::Nothing);
        assert_eq!(map.look_up(Context::Prompt, &keys("q")), Found::Nothing, "in a prompt plain keys are text");
    }

    #[test]
    fn a_file_moves_keys_and_unbinds() {
        let map = Keymap::with_file("[any]\nquit = \"Q\"\nhelp = [\"q\"]\nmark = []\n", "k.toml").unwrap();
        assert_eq!(map.look_up(Context::Any, &keys("Q")), Found::Action(Action::Quit));
        assert_eq!(map.look_up(Context::Any, &keys("q")), Found::Action(Action::Help));
        assert_eq!(map.look_up(Context::Any, &keys("ctrl-c")), Found::Nothing);
        assert_eq!(map.look_up(Context::Any, &keys("m")), Found::Nothing);
        let map = Keymap::with_file("inherit = \"none\"\n[any]\nquit = \"x\"\n", "k.toml").unwrap();
        assert_eq!(map.bindings().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        let error = |text: &str| Keymap::with_file(text, "k.toml").unwrap_err().to_string();
        assert_eq!(error("[any]\nqiut = \"q\"\n"), "k.toml:2: unknown action \"qiut\"; did you mean \"quit\"?");
        assert_eq!(error("\n\n[overwiev]\n"), "k.toml:3: unknown context \"overwiev\"; did you mean \"overview\"?");
        let clash = error("[any]\nquit = \"q\"\nhelp = [\"h\",\n  \"q\"]\n");
        assert!(clash.starts_with("k.toml:4: help: \"q\" collides with \"q\" of quit (line 2) in [any]"), "{clash}");
        let prefix = error("[timeline]\nzoom-in = \"z i\"\nzoom-out = \"z\"\n");
        assert!(prefix.starts_with("k.toml:3: zoom-out: \"z\" collides with \"z i\""), "{prefix}");
        assert!(error("[any]\nquit = \"ctrl-\"\n").starts_with("k.toml:2: quit: \"ctrl-\" is no key"));
        assert!(error("[any]\nquit = 3\n").starts_with("k.toml:2: quit: wants a key"));
        assert!(error("[any\n").starts_with("k.toml:1: "));
        assert!(error("[any]\n\"\\u001b[2J\" = \"q\"\n").contains("\\x1b[2J"), "names in errors are made safe");
    }

    #[test]
    fn shipped_files_are_valid() {
        for name in ["default", "vim"] {
            Keymap::with_file(&shipped(name).unwrap(), name).unwrap();
        }
        let vim = Keymap::with_file(&shipped("vim").unwrap(), "vim").unwrap();
        assert_eq!(vim.look_up(Context::Overview, &keys("g g")), Found::Action(Action::First));
    }

    #[test]
    fn distances() {
        assert_eq!(distance("quit", "quit"), 0);
        assert_eq!(distance("qiut", "quit"), 2);
        assert_eq!(distance("", "abc"), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "(\\[[a-z]{0,9}\\]\n|[a-z-]{1,9} = \"[a-z -]{0,6}\"\n|.{0,20}\n){0,6}") {
            let _ = Keymap::with_file(&text, "fuzz");
        }
    }
}
