//! Waits of a thread: ready (after a wake-up or pushed off) and blocked, with who was behind them.

use super::super::event::ThreadNow;
use super::super::fold::Utid;
use super::super::summary::{Span, SpanDetail, TrackId, Wait, Window};
use super::super::threads::IDLE;
use super::Model;
use super::lists::Slice;
use super::piece::{Kind, Piece};
use crate::names::NameId;
use rustc_hash::FxHashMap;

impl Model {
    /// The wait a thread was in at `ts`; `None` if it ran or nothing is known.
    pub fn wait_at(&self, utid: Utid, ts: u64) -> Option<Wait> {
        let piece = self.piece_at(utid, ts).filter(|p| p.kind != Kind::Running)?;
        Some(self.wait_of(utid, &piece))
    }

    /// All waits of a thread that overlap the window, in time order.
    pub fn waits(&self, utid: Utid, window: Window) -> Vec<Wait> {
        let waits = self.pieces(utid, window).filter(|p| p.kind != Kind::Running);
        waits.map(|p| self.wait_of(utid, &p)).collect()
    }

    /// The longest wait for the CPU (after a wake-up or pushed off) that overlaps the window.
    pub fn worst_wait(&self, utid: Utid, window: Window) -> Option<Wait> {
        let ready = self.pieces(utid, window).filter(|p| p.is_ready() && p.end_known());
        let worst = ready.max_by_key(|p| (self.end_of(utid, p) - p.start, std::cmp::Reverse(p.start)))?;
        Some(self.wait_of(utid, &worst))
    }

    /// The interval of a track at `ts`, or `step` intervals later (negative: earlier), with all about it.
    pub fn span_at(&self, track: TrackId, ts: u64, step: i32) -> Option<SpanDetail> {
        match track {
            TrackId::Thread(utid) | TrackId::Marks(utid) => {
                let piece = self.step_piece(utid, ts, step)?;
                Some(self.detail_of(utid, &piece))
            }
            TrackId::Cpu(cpu) => {
                let slice = self.step_slice(cpu, ts, step)?;
                match self.piece_at(slice.utid, slice.start).filter(|p| p.row == slice.row) {
                    Some(piece) => Some(self.detail_of(slice.utid, &piece)),
                    None => Some(self.detail_of_idle(cpu, &slice)),
                }
            }
        }
    }

    pub(super) fn span_of(&self, utid: Utid, piece: &Piece) -> Span {
        Span {
            start: piece.start,
            end: self.ended(utid, piece),
            utid,
            state: piece.now(),
            end_state: piece.end_state(),
            function: piece.function(),
            row: piece.row,
        }
    }

    pub(super) fn wait_of(&self, utid: Utid, piece: &Piece) -> Wait {
        let end = self.end_of(utid, piece);
        let cpu = self.wait_cpu(utid, piece);
        Wait {
            utid,
            state: piece.now(),
            start: piece.start,
            dur: (!piece.is_open()).then_some(end - piece.start),
            cpu,
            waker: match piece.kind {
                Kind::Blocked => self.after(utid, piece).and_then(|next| next.waker()),
                _ => piece.waker(),
            },
            preemptor: piece.preemptor(),
            function: piece.function(),
            meanwhile: match cpu {
                Some(cpu) if piece.is_ready() => self.meanwhile(cpu, Window { from: piece.start, to: end }),
                _ => Vec::new(),
            },
        }
    }

    /// For which CPU a ready thread waited. A wake-up tells only where it ran last (`sched_waking` is written before a
    /// CPU is chosen), so where it then ran is the better answer; one pushed off waits where it was.
    pub(super) fn wait_cpu(&self, utid: Utid, piece: &Piece) -> Option<u32> {
        let ran = match piece.kind {
            Kind::Runnable => self.after(utid, piece).filter(|n| n.kind == Kind::Running).and_then(|n| n.cpu()),
            _ => None,
        };
        ran.or(piece.cpu())
    }

    /// The interval that follows at once.
    pub(super) fn after(&self, utid: Utid, piece: &Piece) -> Option<Piece> {
        if piece.is_open() {
            return None;
        }
        let list = &self.kept.threads.get(utid as usize)?.pieces;
        let at = list.partition_point(|p| p.row <= piece.row && p.start <= piece.end);
        let next = list.get(at).copied();
        next.or_else(|| self.open_piece(utid)).filter(|n| n.start == piece.end)
    }

    /// Who ran on a CPU in a window, with ns each, who ran longest first. (Waits of one thread do not overlap: all of them
    /// together cost no more than one look at every slice.)
    pub(super) fn meanwhile(&self, cpu: u32, window: Window) -> Vec<(Utid, u64)> {
        let mut by: FxHashMap<Utid, u64> = FxHashMap::default();
        for slice in self.slices(cpu, window) {
            *by.entry(slice.utid).or_default() += window.overlap(slice.start, slice.end);
        }
        let mut out: Vec<(Utid, u64)> = by.into_iter().filter(|(_, ns)| *ns > 0).collect();
        out.sort_unstable_by_key(|&(utid, ns)| (std::cmp::Reverse(ns), utid));
        out
    }

    fn step_piece(&self, utid: Utid, ts: u64, step: i32) -> Option<Piece> {
        let list = &self.kept.threads.get(utid as usize)?.pieces;
        let open = self.open_piece(utid);
        let at = list.partition_point(|p| p.end <= ts) as i64 + i64::from(step);
        let at = usize::try_from(at).ok()?;
        if at < list.len() { list.get(at).copied() } else { open.filter(|_| at == list.len()) }
    }

    fn step_slice(&self, cpu: u32, ts: u64, step: i32) -> Option<Slice> {
        let list = &self.kept.cpus.get(cpu as usize)?.list.slices;
        let at = list.partition_point(|s| s.end <= ts) as i64 + i64::from(step);
        let at = usize::try_from(at).ok()?;
        if at < list.len() { list.get(at).copied() } else { self.open_slice(cpu).filter(|_| at == list.len()) }
    }

    fn detail_of(&self, utid: Utid, piece: &Piece) -> SpanDetail {
        let end = self.end_of(utid, piece);
        let wait = (piece.kind != Kind::Running).then(|| self.wait_of(utid, piece));
        let (before, next) = match (piece.kind, piece.cpu()) {
            (Kind::Running, Some(cpu)) => self.neighbours(cpu, piece.start, end),
            _ => (None, None),
        };
        let ready = match piece.kind {
            Kind::Running => self.before(utid, piece).filter(Piece::is_ready),
            _ => None,
        };
        let (waker, woken_at) = match (&wait, &ready) {
            (Some(wait), _) if piece.kind == Kind::Blocked => (wait.waker, end),
            (Some(wait), _) => (wait.waker, piece.start),
            (None, Some(ready)) => (ready.waker(), ready.start),
            (None, None) => (None, 0),
        };
        SpanDetail {
            span: self.span_of(utid, piece),
            cpu: wait.as_ref().and_then(|w| w.cpu).or(piece.cpu()),
            prio: piece.prio(),
            before,
            next,
            waker_state: waker.flatten().map(|w| self.state_at(w, woken_at)),
            waker,
            latency: ready.map(|r| r.end - r.start),
            io_wait: piece.io_wait(),
            end_known: piece.end_known(),
            stack: self.stack_of(utid, piece),
            wait,
        }
    }

    /// The kernel stack a thread blocked with, if it is recorded: the kernel notes it right after the switch that ended the
    /// run before.
    fn stack_of(&self, utid: Utid, piece: &Piece) -> NameId {
        const SOON: u64 = 10_000_000;
        let Some(tid) = self.threads().get(utid).map(|t| t.tid).filter(|_| piece.kind == Kind::Blocked) else {
            return NameId::EMPTY;
        };
        let until = piece.end.min(piece.start.saturating_add(SOON));
        let from = self.stacks.partition_point(|s| s.0 < piece.start);
        let soon = self.stacks.range(from..).take_while(|s| s.0 <= until);
        soon.filter(|s| s.1 == tid).map(|s| s.2).next().unwrap_or(NameId::EMPTY)
    }

    fn detail_of_idle(&self, cpu: u32, slice: &Slice) -> SpanDetail {
        let open = self.open_slice(cpu).is_some_and(|o| o.start == slice.start);
        let (before, next) = self.neighbours(cpu, slice.start, slice.end);
        SpanDetail {
            span: self.span_of_slice(slice, open),
            cpu: Some(cpu),
            prio: None,
            wait: None,
            before,
            next,
            waker: None,
            waker_state: None,
            latency: None,
            io_wait: None,
            end_known: true,
            stack: NameId::EMPTY,
        }
    }

    pub(super) fn span_of_slice(&self, slice: &Slice, open: bool) -> Span {
        let piece = if slice.utid == IDLE { None } else { self.piece_at(slice.utid, slice.start) };
        Span {
            start: slice.start,
            end: (!open).then_some(slice.end),
            utid: slice.utid,
            state: ThreadNow::Running,
            end_state: piece.and_then(|p| p.end_state()),
            function: Default::default(),
            row: slice.row,
        }
    }

    fn before(&self, utid: Utid, piece: &Piece) -> Option<Piece> {
        let list = &self.kept.threads.get(utid as usize)?.pieces;
        let at = list.partition_point(|p| p.row < piece.row && p.start <= piece.start);
        list.get(at.checked_sub(1)?).copied().filter(|p| p.end == piece.start)
    }

    fn neighbours(&self, cpu: u32, start: u64, end: u64) -> (Option<Utid>, Option<Utid>) {
        let Some(kept) = self.kept.cpus.get(cpu as usize) else { return (None, None) };
        let list = &kept.list.slices;
        let at = list.partition_point(|s| s.end <= start);
        let before = at.checked_sub(1).and_then(|i| list.get(i)).filter(|s| s.end == start);
        let next = list.get(list.partition_point(|s| s.start < end.max(start + 1)));
        let next = next.copied().or_else(|| self.open_slice(cpu)).filter(|s| s.start == end);
        (before.map(|s| s.utid), next.map(|s| s.utid))
    }
}
