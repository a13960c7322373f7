//! Wait chains: who released a wait, and what *they* had been waiting for, back to a thread that ran, an interrupt,
//! a timer or I/O.
//!
//! For a sleep: the waker, and what the waker did during that sleep. The stretches in which the waker itself waited are
//! followed the same way; what it ran is the end of that branch. For a wait for the CPU: who ran on that CPU instead. A
//! link's share is its part of the wait first asked about. Chains are cut at [`MAX_DEPTH`] and at [`MAX_LINKS`].

use super::super::event::ThreadNow;
use super::super::fold::Utid;
use super::super::summary::{Link, Share, WaitedOn, Window};
use super::super::threads::IDLE;
use super::Model;
use super::detail::ranked_of;
use super::piece::{Kind, Piece};
use rustc_hash::FxHashMap;

/// Links of one chain at most.
const MAX_LINKS: usize = 64;
/// How deep a chain goes at most.
const MAX_DEPTH: u16 = 8;
/// Parts below this share of the asked wait are not followed.
const SMALL: f64 = 0.02;
/// Sleeps of a range whose chains are followed for [`WaitedOn::roots`], the longest ones.
const CHAINS: usize = 256;

impl Model {
    /// The chain of the wait that `utid` was in at `ts`: depth 0 is the wait itself, each further link explains part of the
    /// nearest link before it that is one less deep. Empty if it ran or nothing is known.
    pub fn chain(&self, utid: Utid, ts: u64) -> Vec<Link> {
        let Some(piece) = self.piece_at(utid, ts).filter(|p| p.kind != Kind::Running) else { return Vec::new() };
        let window = Window { from: piece.start, to: self.end_of(utid, &piece) };
        let mut walk = Walk { model: self, total: window.len().max(1), links: Vec::new() };
        walk.wait(utid, &piece, window, 0);
        walk.links
    }

    /// What a thread spent its waiting on within the window.
    pub fn waited_on(&self, utid: Utid, window: Window) -> WaitedOn {
        let mut total = 0;
        let mut wakers: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut preemptors: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut sleeps: Vec<(u64, Piece)> = Vec::new();
        for piece in self.pieces(utid, window).filter(|p| p.kind != Kind::Running) {
            let ns = window.overlap(piece.start, self.end_of(utid, &piece));
            total += ns;
            match piece.kind {
                Kind::Preempted => {
                    if let Some(by) = piece.preemptor() {
                        *preemptors.entry(Some(by)).or_default() += ns;
                    }
                }
                Kind::Blocked => {
                    if let Some(waker) = self.after(utid, &piece).and_then(|next| next.waker()) {
                        *wakers.entry(waker).or_default() += ns;
                    }
                    sleeps.push((ns, piece));
                }
                _ => {}
            }
        }
        sleeps.sort_unstable_by_key(|s| std::cmp::Reverse(s.0));
        let roots = self.roots(utid, window, &sleeps[..sleeps.len().min(CHAINS)]);
        WaitedOn {
            total,
            wakers: ranked_of(wakers, total),
            functions: self.blocked_functions(utid, window),
            preemptors: ranked_of(preemptors, total),
            ran_instead: self.ran_instead(utid, window).0,
            roots,
        }
    }

    /// Which running threads the sleeps' chains lead to, by the time each explains.
    fn roots(&self, utid: Utid, window: Window, sleeps: &[(u64, Piece)]) -> Vec<Share> {
        let mut by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut total = 0;
        for (ns, piece) in sleeps {
            let part = Window { from: piece.start.max(window.from), to: self.end_of(utid, piece).min(window.to) };
            total += ns;
            let mut walk = Walk { model: self, total: part.len().max(1), links: Vec::new() };
            walk.wait(utid, piece, part, 0);
            for link in walk.links.iter().filter(|l| l.depth > 0 && (l.utid.is_none() || l.state == ThreadNow::Running))
            {
                *by.entry(link.utid).or_default() += (link.share * part.len() as f64) as u64;
            }
        }
        by.retain(|_, ns| *ns > 0);
        ranked_of(by, total)
    }
}

struct Walk<'a> {
    model: &'a Model,
    total: u64,
    links: Vec<Link>,
}

impl Walk<'_> {
    /// A wait and what explains it within `window`.
    fn wait(&mut self, utid: Utid, piece: &Piece, window: Window, depth: u16) {
        let share = window.len() as f64 / self.total as f64;
        if depth > MAX_DEPTH || self.links.len() >= MAX_LINKS || (depth > 0 && share < SMALL) {
            return;
        }
        self.links.push(Link {
            depth,
            utid: Some(utid),
            state: piece.now(),
            window,
            share,
            preemptor: piece.preemptor(),
            function: piece.function(),
        });
        if piece.kind != Kind::Blocked {
            self.instead(utid, piece, window, depth + 1);
            return;
        }
        // Only a waking recorded right at its end explains a sleep.
        match self.model.after(utid, piece).and_then(|next| next.waker()) {
            None => {}
            Some(None) => self.push(None, ThreadNow::Unknown, window, depth + 1),
            Some(Some(waker)) => self.did(waker, window, depth + 1),
        }
    }

    /// What `utid` did during `window`: ran (all of it in one link) and its own waits, followed, the longest first.
    fn did(&mut self, utid: Utid, window: Window, depth: u16) {
        let mut ran = 0;
        let mut last_run = window.to;
        let mut waits: Vec<(Window, Piece)> = Vec::new();
        for piece in self.model.pieces(utid, window) {
            let part =
                Window { from: piece.start.max(window.from), to: self.model.end_of(utid, &piece).min(window.to) };
            if piece.kind == Kind::Running {
                ran += part.len();
                last_run = part.from;
            } else if !part.is_empty() {
                waits.push((part, piece));
            }
        }
        if ran > 0 || waits.is_empty() {
            self.push_share(Some(utid), ThreadNow::Running, Window { from: last_run, to: window.to }, ran, depth);
        }
        waits.sort_by_key(|w| (std::cmp::Reverse(w.0.len()), w.0.from));
        for (part, piece) in waits.iter().take(4) {
            self.wait(utid, piece, *part, depth);
        }
    }

    /// Who ran on the CPU that a ready thread waited for.
    fn instead(&mut self, utid: Utid, piece: &Piece, window: Window, depth: u16) {
        let Some(cpu) = self.model.wait_cpu(utid, piece) else { return };
        let mut by: Vec<(Utid, u64, Window)> = Vec::new();
        for slice in self.model.slices(cpu, window) {
            let part = Window { from: slice.start.max(window.from), to: slice.end.min(window.to) };
            if slice.utid == IDLE || slice.utid == utid || part.is_empty() {
                continue;
            }
            match by.iter_mut().find(|b| b.0 == slice.utid) {
                Some(known) => known.1 += part.len(),
                None => by.push((slice.utid, part.len(), part)),
            }
        }
        by.sort_by_key(|b| std::cmp::Reverse(b.1));
        for (who, ns, part) in by.into_iter().take(4) {
            self.push_share(Some(who), ThreadNow::Running, part, ns, depth);
        }
    }

    fn push(&mut self, utid: Option<Utid>, state: ThreadNow, window: Window, depth: u16) {
        self.push_share(utid, state, window, window.len(), depth);
    }

    fn push_share(&mut self, utid: Option<Utid>, state: ThreadNow, window: Window, ns: u64, depth: u16) {
        if self.links.len() < MAX_LINKS {
            let share = ns as f64 / self.total as f64;
            self.links.push(Link { depth, utid, state, window, share, preemptor: None, function: Default::default() });
        }
    }
}
