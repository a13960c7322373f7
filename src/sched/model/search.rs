//! Searching the time line: the next or previous interval or marker of some kind.

use super::super::event::ThreadNow;
use super::super::fold::Utid;
use super::super::summary::Window;
use super::Model;
use super::piece::Piece;
use crate::names::NameTable;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchFor {
    /// An interval of a thread whose name or tid matches the glob (`*`, `?`); without either it may stand anywhere in
    /// the name.
    Thread(String),
    /// An interval in this state (any sleeping state for `Blocked` of the same flags), of the thread given if any.
    State(ThreadNow, Option<Utid>),
    /// A wait (ready, pushed off or D) longer than this many ns.
    WaitOver(u64),
    /// A marker that contains this text (empty: any).
    Mark(String),
}

/// Where it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The thread, if one is known (markers may have none).
    pub utid: Option<Utid>,
    /// Begin and (so far) end of the interval or marker.
    pub at: Window,
}

impl Model {
    /// The nearest hit that begins after `from` (`forward`) or before it.
    pub fn search(&self, what: &SearchFor, from: u64, forward: bool, names: &NameTable) -> Option<Hit> {
        match what {
            SearchFor::Mark(text) => self.search_marks(text, from, forward, names),
            SearchFor::Thread(glob) => {
                let threads = self.threads();
                let wanted = |utid: Utid| {
                    let Some(life) = threads.get(utid) else { return false };
                    let name_fits = life.names().iter().any(|n| matches_name(glob, names.bytes(n.1)));
                    name_fits || life.tid.to_string() == *glob
                };
                self.search_pieces(from, forward, wanted, |_, _| true)
            }
            SearchFor::State(state, None) => self.search_pieces(from, forward, |_| true, |p, _| p.now() == *state),
            SearchFor::State(state, Some(utid)) => {
                self.search_pieces(from, forward, |u| u == *utid, |p, _| p.now() == *state)
            }
            SearchFor::WaitOver(ns) => self.search_pieces(
                from,
                forward,
                |_| true,
                |p, end| (p.is_ready() || p.is_uninterruptible()) && end - p.start > *ns,
            ),
        }
    }

    fn search_pieces(
        &self,
        from: u64,
        forward: bool,
        wanted: impl Fn(Utid) -> bool,
        fits: impl Fn(&Piece, u64) -> bool,
    ) -> Option<Hit> {
        let mut best: Option<Hit> = None;
        for utid in (1..self.kept.threads.len() as Utid).filter(|&u| wanted(u)) {
            // Nothing beyond the best found so far can be nearer.
            let limit = best.map(|b| b.at.from);
            let hit = |p: &Piece| Hit { utid: Some(utid), at: Window { from: p.start, to: self.end_of(utid, p) } };
            let fit = |p: &&Piece| fits(p, self.end_of(utid, p));
            let list = &self.kept.threads[utid as usize].pieces;
            let open = self.open_piece(utid).filter(|p| fits(p, self.end_of(utid, p)));
            let found = if forward {
                let at = list.partition_point(|p| p.start <= from);
                let near = list.range(at..).take_while(|p| limit.is_none_or(|l| p.start < l));
                near.clone()
                    .find(fit)
                    .map(hit)
                    .or_else(|| open.filter(|p| p.start > from && limit.is_none_or(|l| p.start < l)).as_ref().map(hit))
            } else {
                let open = open.filter(|p| p.start < from && limit.is_none_or(|l| p.start > l));
                open.as_ref().map(hit).or_else(|| {
                    let at = list.partition_point(|p| p.start < from);
                    let near = list.range(..at).rev().take_while(|p| limit.is_none_or(|l| p.start > l));
                    near.clone().find(fit).map(hit)
                })
            };
            best = found.or(best);
        }
        best
    }

    fn search_marks(&self, text: &str, from: u64, forward: bool, names: &NameTable) -> Option<Hit> {
        let all = Window { from: 0, to: u64::MAX };
        let contains = |name: &[u8]| text.is_empty() || name.windows(text.len()).any(|w| w == text.as_bytes());
        let mut marks = self.marks(all, names).into_iter().filter(|m| contains(&m.name));
        let mark = if forward { marks.find(|m| m.start > from) } else { marks.take_while(|m| m.start < from).last() }?;
        Some(Hit { utid: mark.utid, at: Window { from: mark.start, to: mark.end.unwrap_or(self.edge()) } })
    }
}

/// Whether a name fits a pattern: a glob when it has `*` or `?`, else anywhere in the name.
fn matches_name(pattern: &str, name: &[u8]) -> bool {
    if pattern.contains(['*', '?']) {
        return glob(pattern.as_bytes(), name);
    }
    !pattern.is_empty() && name.windows(pattern.len()).any(|w| w == pattern.as_bytes())
}

/// `*` stands for any bytes, `?` for one. Linear in both: only the last `*` is ever tried again.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == b'?' || pattern[p] == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("*loader*", "pt_loader:0", true),
            ("pt_loader:?", "pt_loader:0", true),
            ("pt_loader:?", "pt_loader:10", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxbc", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
        assert!(matches_name("load", b"pt_loader"));
        assert!(!matches_name("", b"pt_loader"));
    }
}
