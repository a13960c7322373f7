//! What the model keeps: the lists of all threads and CPUs, filled by what the fold tells.

use super::super::event::{Event, EventKind, ThreadNow};
use super::super::fold::{Interval, Sink, Upid, Utid};
use super::super::occupancy::{Cells, NOBODY};
use super::super::order::MAX_CPUS;
use super::super::threads::Threads;
use super::lists::{CpuList, ThreadList};
use super::piece::{Kind, Piece};
use crate::names::NameId;

/// One CPU's list and cells.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuKept {
    pub list: CpuList,
    pub cells: Cells,
}

/// All lists; what the fold tells.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub threads: Vec<ThreadList>,
    pub cpus: Vec<CpuKept>,
    owners: Vec<Upid>,
    /// Closed intervals of all threads.
    pub intervals: usize,
    /// When the data ended; 0 while it goes on.
    pub edge: u64,
}

impl Kept {
    pub fn set_owner(&mut self, utid: Utid, upid: Option<Upid>) {
        if let Some(owner) = self.owners.get_mut(utid as usize) {
            *owner = upid.unwrap_or(NOBODY);
        }
    }

    pub fn know_cpu(&mut self, cpu: u32) {
        self.cpu_mut(cpu);
    }

    pub fn cells_mut(&mut self, cpu: u32) -> &mut Cells {
        &mut self.cpu_mut(cpu).cells
    }

    fn cpu_mut(&mut self, cpu: u32) -> &mut CpuKept {
        let cpu = cpu.min(MAX_CPUS) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, CpuKept::default);
        }
        &mut self.cpus[cpu]
    }

    pub fn prune_before(&mut self, ts: u64, lives: &Threads) {
        for (thread, (_, life)) in self.threads.iter_mut().zip(lives.iter()) {
            let ended = life.end.is_some_and(|end| end <= ts);
            let drop = if ended { thread.pieces.len() } else { thread.pieces.partition_point(|p| p.end <= ts) };
            thread.forget(drop);
            self.intervals -= drop;
        }
        for cpu in &mut self.cpus {
            let drop = cpu.list.slices.partition_point(|s| s.end <= ts);
            cpu.list.slices.forget(drop);
            cpu.cells.prune_before(ts);
        }
    }
}

impl Sink for Kept {
    fn interval(&mut self, i: &Interval) {
        if let (ThreadNow::Running, Some(cpu)) = (i.state, i.cpu) {
            let end = i.end.unwrap_or(self.edge).max(i.start);
            let owner = self.owners.get(i.utid as usize).copied().unwrap_or(NOBODY);
            let cpu = self.cpu_mut(cpu);
            cpu.list.push(i, end);
            if i.utid != 0 {
                cpu.cells.ran(i.start, end, owner);
            }
        }
        if i.utid != 0
            && let Some(thread) = self.threads.get_mut(i.utid as usize)
        {
            thread.push(Piece::of(i));
            self.intervals += 1;
        }
    }

    fn event(&mut self, event: &Event, _emitter: Option<Utid>) {
        let cells = self.cells_mut(event.cpu);
        cells.event(event.ts);
        match event.kind {
            EventKind::IrqEntry { .. } | EventKind::SoftirqEntry { .. } => cells.irq_entry(event.ts),
            EventKind::IrqExit { .. } | EventKind::SoftirqExit { .. } => cells.irq_exit(event.ts),
            _ => {}
        }
    }

    fn new_thread(&mut self, _ts: u64, utid: Utid, _tid: i32) {
        let len = utid as usize + 1;
        if self.threads.len() < len {
            self.threads.resize_with(len, ThreadList::default);
            self.owners.resize(len, NOBODY);
        }
    }

    fn queue(&mut self, ts: u64, cpu: u32, depth: u32) {
        self.cells_mut(cpu).queue(ts, depth);
    }

    fn late_reason(&mut self, utid: Utid, row: u32, io_wait: bool, function: NameId) {
        let Some(list) = self.threads.get_mut(utid as usize) else { return };
        // It belongs to one of the last few; told later than that it is not worth a search.
        if let Some(piece) =
            list.pieces.last_chunk_mut().iter_mut().rev().take(4).find(|p| p.row == row && p.kind == Kind::Blocked)
        {
            piece.set_reason(io_wait, function);
        }
    }
}
