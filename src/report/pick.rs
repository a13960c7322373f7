//! Which threads and CPUs an answer is about.

use std::collections::BTreeMap;

use crate::names::printable;
use crate::query::Columns;
use crate::query::columns::UNFINISHED;
use crate::sched::fold::Utid;
use crate::sched::summary::Window;

/// What was asked for; everything given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Thread name, or tid.
    pub thread: Option<String>,
    /// Process name or command line, or pid.
    pub process: Option<String>,
    /// Cgroup path.
    pub cgroup: Option<String>,
    /// A role of the configuration.
    pub role: Option<String>,
    /// One CPU.
    pub cpu: Option<u32>,
    /// Leave the recorder's own threads out.
    pub hide_own: bool,
}

/// The threads that a filter picks, and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    threads: Vec<bool>,
    /// Everything was asked for.
    pub all: bool,
    /// One CPU only.
    pub cpu: Option<u32>,
    /// The time.
    pub window: Window,
}

/// Name patterns by role.
pub type Roles = BTreeMap<String, Vec<String>>;

impl Filter {
    /// What is wrong with the patterns, in words that name the flag.
    pub fn check(&self) -> Result<(), String> {
        for (flag, pattern) in [("--thread", &self.thread), ("--process", &self.process), ("--cgroup", &self.cgroup)] {
            let wrong = pattern.as_deref().and_then(wrong_with);
            if let (Some(pattern), Some(why)) = (pattern, wrong) {
                return Err(format!("{flag} \"{}\": {why}", printable(pattern.as_bytes())));
            }
        }
        Ok(())
    }

    /// Looks through all threads. An unknown role is an error that names the known ones.
    pub fn pick(&self, c: &Columns, roles: &Roles) -> Result<Picked, String> {
        let role = match &self.role {
            Some(name) => Some(roles.get(name).ok_or_else(|| {
                let known: Vec<&str> = roles.keys().map(String::as_str).collect();
                let known = match known.as_slice() {
                    [] => "it has none (live.roles)".to_owned(),
                    some => format!("there are: {}", some.join(", ")),
                };
                format!("there is no role \"{name}\" in the configuration; {known}")
            })?),
            None => None,
        };
        let threads =
            (0..c.facts.threads.len() as u32).map(|utid| self.takes(c, utid, role.map(Vec::as_slice))).collect();
        let all = self.thread.is_none() && self.process.is_none() && self.cgroup.is_none() && self.role.is_none();
        let window = c.window.unwrap_or(Window { from: 0, to: 0 });
        Ok(Picked { threads, all: all && !self.hide_own, cpu: self.cpu, window })
    }

    fn takes(&self, c: &Columns, utid: Utid, role: Option<&[String]>) -> bool {
        let Some(t) = c.facts.threads.get(utid as usize) else { return false };
        let name = c.names.bytes(t.name);
        let process = c.facts.process_of(utid);
        let bytes = |id| c.names.bytes(id);
        let process_fits = |pattern: &String| {
            process.is_some_and(|p| {
                glob(pattern, bytes(p.name)) || glob(pattern, bytes(p.cmdline)) || pattern == &p.pid.to_string()
            })
        };
        !(self.hide_own && t.own)
            && self.thread.as_ref().is_none_or(|p| glob(p, name) || p == &t.tid.to_string())
            && self.process.as_ref().is_none_or(process_fits)
            && self.cgroup.as_ref().is_none_or(|p| process.is_some_and(|q| glob(p, bytes(q.cgroup))))
            && role.is_none_or(|patterns| patterns.iter().any(|p| glob(p, name)))
    }
}

impl Picked {
    /// Everything in the loaded time.
    pub fn everything(c: &Columns) -> Picked {
        let window = c.window.unwrap_or(Window { from: 0, to: 0 });
        Picked { threads: vec![true; c.facts.threads.len()], all: true, cpu: None, window }
    }

    /// Whether this thread is asked for.
    pub fn has(&self, utid: Utid) -> bool {
        self.threads.get(utid as usize).copied().unwrap_or(false)
    }

    /// The threads asked for, the idle thread never.
    pub fn threads(&self) -> impl Iterator<Item = Utid> + '_ {
        (1..self.threads.len() as u32).filter(|utid| self.has(*utid))
    }

    /// Whether a row on `cpu` is asked for.
    pub fn has_cpu(&self, cpu: Option<u32>) -> bool {
        self.cpu.is_none() || cpu == self.cpu
    }

    /// Length of the time asked for, ns.
    pub fn span(&self) -> u64 {
        self.window.to.saturating_sub(self.window.from)
    }

    /// If row `row` is a whole wait that ended in the window: its length. What had not ended, or was cut by a loss, has
    /// no length that is known.
    pub fn ended(&self, c: &Columns, row: u32) -> Option<u64> {
        let dur = c.states.dur(row);
        let end = c.states.ts(row).checked_add(u64::try_from(dur).ok()?)?;
        let inside = end >= self.window.from && end <= self.window.to;
        (dur != UNFINISHED && c.states.end_known(row) && inside).then_some(dur as u64)
    }
}

/// Shell-like patterns: `*` any text, `?` any one byte or character, `[a-z]`, `[^a-z]`; the whole name must match, case
/// counts. Names are bytes, so `?` takes one whole UTF-8 character where the name has one.
pub fn glob(pattern: &str, name: &[u8]) -> bool {
    let text = String::from_utf8_lossy(name);
    let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where the last star stood, and how far the text had been eaten then: going back there is the only retry needed.
    let (mut pi, mut ti, mut star) = (0, 0, None);
    while ti < t.len() {
        match one(&p[pi..], t[ti]) {
            Some(0) => {
                star = Some((pi, ti));
                pi += 1;
            }
            Some(used) => {
                pi += used;
                ti += 1;
            }
            None => match star {
                Some((at, eaten)) => {
                    pi = at + 1;
                    ti = eaten + 1;
                    star = Some((at, eaten + 1));
                }
                None => return false,
            },
        }
    }
    p[pi..].iter().all(|c| *c == '*')
}

/// Why a pattern is none that anybody means.
fn wrong_with(pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        return Some("an empty pattern matches nothing; leave it out, or write * for all".to_owned());
    }
    let p: Vec<char> = pattern.chars().collect();
    let mut at = 0;
    while at < p.len() {
        if p[at] != '[' {
            at += 1;
            continue;
        }
        let Some((negated, set)) = set(&p[at + 1..]) else {
            return Some("a [ has no ] behind it; write [a-z] for one of these, or [[] for a [ itself".to_owned());
        };
        if let Some(range) = set.windows(3).find(|r| r[1] == '-' && r[0] > r[2]) {
            let [from, _, to] = range else { continue };
            return Some(format!("the range {from}-{to} runs backwards; write {to}-{from}"));
        }
        at += set.len() + 2 + usize::from(negated);
    }
    None
}

/// The set that begins behind a `[`, and whether it is of those that do not match; `None`: it never ends.
fn set(rest: &[char]) -> Option<(bool, &[char])> {
    let (negated, set) = match rest {
        ['^' | '!', set @ ..] => (true, set),
        set => (false, set),
    };
    // A ] that stands first belongs to the set.
    let end = set.iter().skip(1).position(|x| *x == ']').map(|n| n + 1)?;
    Some((negated, &set[..end]))
}

/// How many pattern characters match `c`: 0 for a star, `None` for no match.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['*', ..] => Some(0),
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let Some((negated, set)) = set(rest) else { return (c == '[').then_some(1) };
            let end = set.len();
            let mut found = false;
            let mut n = 0;
            while n < end {
                if n + 2 < end && set[n + 1] == '-' {
                    found |= (set[n]..=set[n + 2]).contains(&c);
                    n += 3;
                } else {
                    found |= set[n] == c;
                    n += 1;
                }
            }
            (found != negated).then_some(end + 2 + usize::from(negated))
        }
        [x, ..] => (*x == c).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*DataLoader*", "pt_DataLoader:0", true),
            ("pt_loader:?", "pt_loader:0", true),
            ("pt_loader:?", "pt_loader:10", false),
            ("kworker/[0-3]:*", "kworker/2:1H", true),
            ("[^a]*", "abc", false),
            ("[^a]*", "bbc", true),
            ("[]x]", "]", true),
            ("a[", "a[", true),
            ("*a*b*", "xxaxxbx", true),
            ("*ab", "aab", true),
            ("", "", true),
            ("*", "", true),
            ("Abc", "abc", false),
            ("数?", "数据", true),
        ] {
            assert_eq!(glob(pattern, name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_that_nobody_means_are_told() {
        let said = |pattern: &str| Filter { thread: Some(pattern.to_owned()), ..Filter::default() }.check().err();
        for (pattern, why) in [
            ("", "--thread \"\": an empty pattern matches nothing"),
            ("[", "--thread \"[\": a [ has no ] behind it"),
            ("a[]", "a [ has no ] behind it"),
            ("[^]", "a [ has no ] behind it"),
            ("[z-a", "a [ has no ] behind it"),
            ("x[bz-a]", "the range z-a runs backwards; write a-z"),
        ] {
            assert!(said(pattern).is_some_and(|said| said.contains(why)), "{pattern}: {:?}", said(pattern));
        }
        for fine in ["*", "[[]", "[]]", "[^a-z]x", "[a-]", "a]", "kworker/[0-3]:*", "數"] {
            assert_eq!(said(fine), None, "{fine}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_a_name_matches_itself_between_stars(name in "[a-z\\[\\]*?]{0,12}", pattern in "[a-c\\[\\]^!*?-]{0,12}") {
            glob(&pattern, name.as_bytes());
            let plain: String = name.chars().filter(|c| c.is_alphabetic()).collect();
            let surrounded = format!("*{plain}*");
            prop_assert!(glob(&surrounded, plain.as_bytes()));
        }
    }
}
