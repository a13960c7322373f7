//! The thread and the CPU screen: one of them over a window, in full.

use super::super::fold::Utid;
use super::super::latency::{Latencies, Log2Histogram};
use super::super::summary::{CpuDetail, CpuRow, Share, ThreadDetail, Window};
use super::super::threads::IDLE;
use super::Model;
use super::instead::most_of;
use super::overview::Edges;
use super::piece::{Kind, Piece};
use crate::names::NameId;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Rows of each ranking.
const RANKED: usize = 64;
/// Waits listed as the worst.
const WORST: usize = 32;
/// Slices listed on the CPU screen.
const LAST_SLICES: usize = 256;

impl Model {
    /// Everything the thread screen shows; `None` for a thread that is not known.
    pub fn thread(&self, utid: Utid, window: Window, cells: usize) -> Option<ThreadDetail> {
        self.threads().get(utid)?;
        let mut scratch = Latencies::default();
        let mut row = self.thread_row(utid, window, &Edges::new(window, cells), Some(&mut scratch));
        let (mut wakeup, mut preemption) = (Latencies::default(), Latencies::default());
        let mut histogram = Log2Histogram::default();
        let mut woken_by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut worst: Vec<Piece> = Vec::new();
        let mut prio = None;
        for piece in self.pieces(utid, window) {
            prio = piece.prio().or(prio);
            if row.sampled {
                continue;
            }
            if let (Some(waker), true) = (piece.waker(), piece.start >= window.from) {
                *woken_by.entry(waker).or_default() += 1;
            }
            if piece.is_ready() {
                worst.push(piece);
            }
            if !piece.is_ready() || !piece.ended_within(window) || !piece.end_known() {
                continue;
            }
            let (ns, pushed_off) = (piece.end - piece.start, piece.kind == Kind::Preempted);
            histogram.push(ns, pushed_off);
            if pushed_off { &mut preemption } else { &mut wakeup }.push(piece.start, ns);
        }
        worst.sort_unstable_by_key(|p| (std::cmp::Reverse(self.end_of(utid, p) - p.start), p.start));
        worst.truncate(WORST);
        let (ran_instead, estimated) = self.ran_instead(utid, window);
        row.ran_instead = most_of(&ran_instead, estimated);
        Some(ThreadDetail {
            row,
            prio,
            wakeup: wakeup.stats(),
            preemption: preemption.stats(),
            histogram: histogram.counts,
            ran_instead,
            woken_by: ranked(woken_by),
            wakes: self.wakes(utid, window),
            blocked: self.blocked_functions(utid, window),
            worst: worst.iter().map(|p| self.wait_of(utid, p)).collect(),
            gaps: self.gaps(window),
        })
    }

    /// Everything the CPU screen shows; `None` for a CPU that is not known.
    pub fn cpu(&self, cpu: u32, window: Window, cells: usize) -> Option<CpuDetail> {
        let kept = self.kept.cpus.get(cpu as usize)?;
        let mut used: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        let mut switches = 0;
        for slice in self.slices(cpu, window) {
            *used.entry(Some(slice.utid)).or_default() += window.overlap(slice.start, slice.end);
            switches += u64::from(slice.start >= window.from);
        }
        let open = self.open_slice(cpu).map(|s| s.start);
        let slices = self.slices(cpu, window).rev().take(LAST_SLICES);
        let slices = slices.map(|s| self.span_of_slice(&s, open == Some(s.start))).collect();
        let (sum, covered) = kept.cells.sum(window.from, window.to, self.edge());
        Some(CpuDetail {
            row: CpuRow { ready_now: self.ready_at(cpu, window.to), ..self.cpu_row(cpu, window, cells, &[]) },
            window: Some(window),
            used_by: ranked(used),
            slices,
            irq_ns: kept.cells.irq_recorded().then_some(u64::from(sum.irq_ns)),
            ready_avg: if covered > 0 { sum.ready_ns as f64 / covered as f64 } else { 0.0 },
            switches,
            gaps: self.gaps(window),
        })
    }

    /// Whom a thread woke in the window, by count.
    pub fn wakes(&self, utid: Utid, window: Window) -> Vec<Share> {
        let mut by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        for wakee in 1..self.kept.threads.len() as Utid {
            let woken = self.pieces(wakee, window).filter(|p| p.start >= window.from && p.waker() == Some(Some(utid)));
            let count = woken.count() as u64;
            if count > 0 {
                by.insert(Some(wakee), count);
            }
        }
        ranked(by)
    }

    /// Functions a thread blocked in within the window: name, ns, count, longest stretch; most time first. Stretches of
    /// which no function is known count under EMPTY when they were in D, and not at all otherwise.
    pub fn blocked_functions(&self, utid: Utid, window: Window) -> Vec<(NameId, u64, u64, u64)> {
        let mut by: FxHashMap<NameId, (u64, u64, u64)> = FxHashMap::default();
        for piece in self.pieces(utid, window).filter(|p| p.kind == Kind::Blocked) {
            if piece.function().is_empty() && !piece.is_uninterruptible() {
                continue;
            }
            let ns = window.overlap(piece.start, self.end_of(utid, &piece));
            let entry = by.entry(piece.function()).or_default();
            *entry = (entry.0 + ns, entry.1 + 1, entry.2.max(ns));
        }
        let mut out: Vec<_> = by.into_iter().map(|(name, (ns, count, longest))| (name, ns, count, longest)).collect();
        out.sort_unstable_by_key(|e| (std::cmp::Reverse(e.1), e.0));
        out.truncate(RANKED);
        out
    }
}

impl Model {
    /// How many threads were ready on a CPU just before `ts`.
    fn ready_at(&self, cpu: u32, ts: u64) -> u32 {
        let at = ts.saturating_sub(1);
        let threads = 1..self.kept.threads.len() as Utid;
        threads.filter_map(|u| self.piece_at(u, at)).filter(|p| p.is_ready() && p.cpu() == Some(cpu)).count() as u32
    }
}

/// Who used most of a CPU, and of how much.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct MainUser {
    /// Who.
    pub utid: Utid,
    /// For how long it ran, ns.
    pub ran: u64,
    /// For how long it is known who ran, ns.
    pub known: u64,
    /// For how long others were ready there meanwhile, ns each.
    pub ready_ns: u64,
    /// The longest it ran at a stretch, within the window.
    pub longest: Window,
}

/// What the detectors count.
impl Model {
    /// Who used most of a CPU.
    pub(in super::super) fn main_user(&self, cpu: u32, window: Window) -> Option<MainUser> {
        let mut by: FxHashMap<Utid, (u64, Window)> = FxHashMap::default();
        let mut known = 0;
        for slice in self.slices(cpu, window) {
            let at = Window { from: slice.start.max(window.from), to: slice.end.min(window.to) };
            let (ran, longest) = by.entry(slice.utid).or_insert((0, at));
            *ran += at.len();
            known += at.len();
            if at.len() > longest.len() {
                *longest = at;
            }
        }
        let (utid, (ran, longest)) = by.into_iter().filter(|b| b.0 != IDLE).max_by_key(|b| (b.1.0, b.0))?;
        let ready_ns = self.kept.cpus.get(cpu as usize)?.cells.sum(window.from, window.to, self.edge()).0.ready_ns;
        Some(MainUser { utid, ran, known, ready_ns, longest })
    }

    /// Who pushed a thread off, by how often.
    pub fn preemptors(&self, utid: Utid, window: Window) -> Vec<Share> {
        let mut by: FxHashMap<Option<Utid>, u64> = FxHashMap::default();
        for piece in self.pieces(utid, window).filter(|p| p.start >= window.from) {
            if let Some(preemptor) = piece.preemptor() {
                *by.entry(Some(preemptor)).or_default() += 1;
            }
        }
        ranked(by)
    }

    /// The longest D stretch and how many lasted at least `ns` within the window.
    pub(in super::super) fn long_blocks(&self, utid: Utid, window: Window, ns: u64) -> (Window, u64) {
        let mut longest = Window { from: window.from, to: window.from };
        let mut count = 0;
        for piece in self.pieces(utid, window).filter(Piece::is_uninterruptible) {
            let end = self.end_of(utid, &piece);
            count += u64::from(window.overlap(piece.start, end) >= ns);
            if end - piece.start > longest.len() {
                longest = Window { from: piece.start, to: end };
            }
        }
        (longest, count)
    }

    /// Stretches of at least `ns` in which a thread was ready, with the CPU it waited for.
    pub(in super::super) fn ready_stretches(&self, utid: Utid, window: Window, ns: u64) -> Vec<(u32, Window)> {
        let ready = self.pieces(utid, window).filter(Piece::is_ready);
        let stretches = ready.filter_map(|piece| {
            let to = self.end_of(utid, &piece).min(window.to);
            let part = Window { from: piece.start.max(window.from), to };
            if part.len() >= ns { Some((self.wait_cpu(utid, &piece)?, part)) } else { None }
        });
        stretches.collect()
    }

    /// How long a CPU is known to have been idle within the window, ns.
    pub(in super::super) fn idle_ns(&self, cpu: u32, window: Window) -> u64 {
        let (busy, known) = self.busy_known(cpu, window);
        known - busy
    }
}

/// Shares of their own sum, most first.
pub(super) fn ranked(by: FxHashMap<Option<Utid>, u64>) -> Vec<Share> {
    let total = by.values().sum();
    ranked_of(by, total)
}

/// Shares of `total`, most first; equal ones by utid.
pub(super) fn ranked_of<K: Into<Option<Utid>> + Hash>(by: FxHashMap<K, u64>, total: u64) -> Vec<Share> {
    let share = |amount: u64| if total > 0 { amount as f64 / total as f64 } else { 0.0 };
    let mut out: Vec<Share> =
        by.into_iter().map(|(utid, amount)| Share { utid: utid.into(), share: share(amount), amount }).collect();
    out.sort_unstable_by_key(|s| (std::cmp::Reverse(s.amount), s.utid));
    out.truncate(RANKED);
    out
}
