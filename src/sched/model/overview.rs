//! The first screen: CPU lanes and the thread table over a window.

use super::super::event::ThreadNow;
use super::super::findings::{self, Thresholds};
use super::super::fold::{Upid, Utid};
use super::super::latency::Latencies;
use super::super::occupancy::NOBODY;
use super::super::summary::{CpuRow, LatencyStats, OccupancyCell, Overview, StateTimes, ThreadRow, Window};
use super::Model;
use super::lists::{Middle, ThreadList};
use super::piece::{Kind, Piece};
use crate::names::NameId;

/// Slices of a lane's cell that are counted one by one to find who had most of it; more are left to the cells.
const COUNTED: usize = 64;

/// Edges of equal cells of a window, shared by all bars.
#[derive(Debug)]
pub(super) struct Edges {
    window: Window,
    ends: Vec<u64>,
}

impl Edges {
    pub fn new(window: Window, cells: usize) -> Self {
        Edges { window, ends: (0..cells).map(|i| window.cell(i, cells).to).collect() }
    }

    /// Adds a stretch to the cells it covers; `at` remembers the cell of the stretch before.
    fn add(&self, bar: &mut [StateTimes], at: &mut usize, start: u64, end: u64, state: ThreadNow) {
        let mut start = start.max(self.window.from);
        let end = end.min(self.window.to);
        while start < end && *at < bar.len() {
            let stop = self.ends[*at];
            if start >= stop {
                *at += 1;
                continue;
            }
            bar[*at].add(state, end.min(stop) - start);
            start = end.min(stop);
        }
    }
}

/// What counting a row carries from piece to piece.
#[derive(Debug, Default)]
struct Count {
    bar: Vec<StateTimes>,
    /// Cell of the bar that the last piece ended in.
    cell: usize,
    any: bool,
    last_cpu: Option<u32>,
    longest_blocked: u64,
}

impl Model {
    /// Everything the first screen shows, over `window`: lanes of `cells` cells, thread bars of `bar` cells.
    pub fn overview(&self, window: Window, cells: usize, bar: usize, thresholds: &Thresholds) -> Overview {
        let mut threads = self.thread_rows(window, bar);
        self.add_ran_instead(&mut threads, window);
        let cpus: Vec<CpuRow> = self.cpus().into_iter().map(|cpu| self.cpu_row(cpu, window, cells, &threads)).collect();
        let events_per_s = cpus.iter().map(|c| c.events_per_s).sum();
        let findings = findings::detect(self, window, &threads, &cpus, thresholds);
        Overview {
            window: Some(window),
            valid_from: self.valid_from(),
            cpus,
            threads,
            findings,
            events_per_s,
            losses: self.losses(window),
            gaps: self.gaps(window),
        }
    }

    /// Moves an overview on to a later window of the same length: lanes, losses and what each thread does now are counted
    /// anew, the sums of its thread table and its findings stay those of the window before. Costs a small part of
    /// [`Model::overview`], which looks at every interval.
    pub fn move_on(&self, data: &mut Overview, window: Window, cells: usize) {
        for row in &mut data.threads {
            row.now = self.state_at(row.utid, window.to.saturating_sub(1));
        }
        data.cpus = self.cpus().into_iter().map(|cpu| self.cpu_row(cpu, window, cells, &data.threads)).collect();
        data.events_per_s = data.cpus.iter().map(|c| c.events_per_s).sum();
        (data.window, data.valid_from) = (Some(window), self.valid_from());
        (data.losses, data.gaps) = (self.losses(window), self.gaps(window));
    }

    /// The CPU lanes alone, without who is ready at the window's end: cheap, for redrawing while the window moves.
    pub fn lanes(&self, window: Window, cells: usize) -> Vec<CpuRow> {
        self.cpus().into_iter().map(|cpu| self.cpu_row(cpu, window, cells, &[])).collect()
    }

    /// The thread table: every thread that lived in the window, unsorted, without the idle threads.
    pub fn thread_rows(&self, window: Window, bar: usize) -> Vec<ThreadRow> {
        let edges = Edges::new(window, bar);
        let mut scratch = Latencies::default();
        self.lived_in(window).map(|utid| self.thread_row(utid, window, &edges, Some(&mut scratch))).collect()
    }

    /// The same without latencies, which take by far the most time to work out: for putting threads in order.
    pub fn thread_times(&self, window: Window) -> Vec<ThreadRow> {
        let edges = Edges::new(window, 0);
        self.lived_in(window).map(|utid| self.thread_row(utid, window, &edges, None)).collect()
    }

    pub(super) fn lived_in(&self, window: Window) -> impl Iterator<Item = Utid> + '_ {
        let within = self.threads().iter().skip(1).filter(move |(_, life)| {
            life.end.is_none_or(|end| end > window.from) && life.start.is_none_or(|start| start < window.to)
        });
        within.map(|(utid, _)| utid)
    }

    /// Run-queue latency of several threads together over `window`: exact percentiles of all their waits.
    pub fn latency_of(&self, utids: &[Utid], window: Window) -> LatencyStats {
        let mut waits = Latencies::default();
        // Sampling has the sums of waits, but not where one ends and the next begins.
        let known = if self.folder.sampled() { &[] } else { utids };
        for list in known.iter().filter_map(|utid| self.kept.threads.get(*utid as usize)) {
            let (from, to) = list.range(window);
            let middle = list.middle(from, to);
            let (until, resume) = middle.map_or((to, to), |m| (m.from, m.to));
            let edges = list.pieces.range(from..until).chain(list.pieces.range(resume..to));
            for piece in edges.filter(|p| p.is_ready() && p.ended_within(window) && p.end_known()) {
                waits.push(piece.start, piece.end - piece.start);
            }
            if let Some(middle) = middle {
                waits.extend(list.waits(&middle), middle.worst_wait);
            }
        }
        waits.stats()
    }

    /// `waits` is where this thread's waits are gathered; without it the row has no latencies.
    pub(super) fn thread_row(
        &self,
        utid: Utid,
        window: Window,
        edges: &Edges,
        mut waits: Option<&mut Latencies>,
    ) -> ThreadRow {
        let mut row = self.blank_row(utid, window);
        let mut count = Count { bar: vec![StateTimes::default(); edges.ends.len()], ..Count::default() };
        if let Some(waits) = waits.as_deref_mut() {
            waits.clear();
        }
        let open = self.open_piece(utid).filter(|p| p.start < window.to);
        if let Some(list) = self.kept.threads.get(utid as usize) {
            let (from, to) = list.range(window);
            // A bar needs every piece; without one, whole blocks are read from their sums.
            let middle = if edges.ends.is_empty() { list.middle(from, to) } else { None };
            let (until, resume) = middle.map_or((to, to), |m| (m.from, m.to));
            for piece in list.pieces.range(from..until) {
                self.count(&mut row, &mut count, piece, window, edges, waits.as_deref_mut());
            }
            if let Some(middle) = middle {
                self.count_middle(&mut row, &mut count, list, &middle, waits.as_deref_mut());
            }
            for piece in list.pieces.range(resume..to) {
                self.count(&mut row, &mut count, piece, window, edges, waits.as_deref_mut());
            }
        }
        if let Some(piece) = open {
            self.count(&mut row, &mut count, &piece, window, edges, waits.as_deref_mut());
        }
        row.cpu = count.last_cpu.or_else(|| self.folder.last_cpu(utid));
        row.times.fill(window.len(), self.lived(utid, window));
        if count.any {
            let mut bar = count.bar;
            for (i, cell) in bar.iter_mut().enumerate() {
                let of = window.cell(i, edges.ends.len());
                cell.fill(of.len(), self.lived(utid, of));
            }
            row.bar = bar;
        }
        // Sampling has the sums of waits, but not where one ends and the next begins.
        row.latency = match waits {
            Some(waits) if !row.sampled => waits.stats(),
            _ => LatencyStats::default(),
        };
        row
    }

    fn count(
        &self,
        row: &mut ThreadRow,
        count: &mut Count,
        piece: &Piece,
        window: Window,
        edges: &Edges,
        waits: Option<&mut Latencies>,
    ) {
        let (end, state) = (self.end_of(row.utid, piece), piece.now());
        count.any = true;
        row.times.add(state, window.overlap(piece.start, end));
        edges.add(&mut count.bar, &mut count.cell, piece.start, end, state);
        let ended = piece.ended_within(window);
        match piece.kind {
            Kind::Running => {
                if ended && let Some(voluntary) = piece.left_voluntarily() {
                    *(if voluntary { &mut row.voluntary } else { &mut row.involuntary }) += 1;
                }
                let before = count.last_cpu.or_else(|| self.cpu_before(row.utid, piece));
                if piece.start >= window.from && before.is_some() && before != piece.cpu() {
                    row.migrations += 1;
                }
                count.last_cpu = piece.cpu();
            }
            Kind::Runnable | Kind::Preempted => {
                if let Some(waits) = waits.filter(|_| ended && piece.end_known()) {
                    waits.push(piece.start, piece.end - piece.start);
                }
                row.last_waker = piece.waker().or(row.last_waker);
            }
            Kind::Blocked if piece.is_uninterruptible() => {
                row.blocked_max = row.blocked_max.max(window.overlap(piece.start, end));
                if end - piece.start > count.longest_blocked {
                    count.longest_blocked = end - piece.start;
                    row.blocked_function = piece.function();
                }
            }
            Kind::Blocked => {}
        }
    }

    /// The same for whole blocks of pieces, from their sums.
    fn count_middle(
        &self,
        row: &mut ThreadRow,
        count: &mut Count,
        list: &ThreadList,
        middle: &Middle,
        waits: Option<&mut Latencies>,
    ) {
        count.any = true;
        row.times.merge(&middle.sums.times);
        row.voluntary += middle.sums.voluntary;
        row.involuntary += middle.sums.involuntary;
        row.migrations += middle.sums.migrations;
        if let Some(waits) = waits {
            waits.extend(list.waits(middle), middle.worst_wait);
        }
        if let Some((ns, at)) = middle.worst_block {
            row.blocked_max = row.blocked_max.max(ns);
            if ns > count.longest_blocked {
                count.longest_blocked = ns;
                row.blocked_function = list.pieces.get(at).map_or(NameId::EMPTY, Piece::function);
            }
        }
        let mut back = list.pieces.range(middle.from..middle.to).rev();
        row.last_waker = back.find_map(Piece::waker).or(row.last_waker);
        let mut back = list.pieces.range(middle.from..middle.to).rev();
        count.last_cpu = back.find(|p| p.kind == Kind::Running).and_then(Piece::cpu).or(count.last_cpu);
    }

    /// The CPU of the running stretch before this one. A thread whose runs the kernel left out has moved all the same.
    fn cpu_before(&self, utid: Utid, piece: &Piece) -> Option<u32> {
        let list = &self.kept.threads.get(utid as usize)?.pieces;
        let at = list.partition_point(|p| p.row < piece.row && p.start <= piece.start);
        list.range(..at).rev().find(|p| p.kind == Kind::Running)?.cpu()
    }

    fn blank_row(&self, utid: Utid, window: Window) -> ThreadRow {
        let threads = self.threads();
        let life = threads.get(utid);
        let upid = life.and_then(|l| l.upid);
        let process = upid.and_then(|u| threads.process(u));
        ThreadRow {
            utid,
            tid: life.map_or(0, |l| l.tid),
            pid: process.map(|p| p.pid),
            upid,
            name: threads.shown_name(utid, window.to),
            process: upid.map_or(NameId::EMPTY, |u| threads.process_name(u)),
            cgroup: process.map_or(NameId::EMPTY, |p| p.cgroup),
            cmdline: process.map(|p| p.cmdline.clone()).unwrap_or_default(),
            members: 1,
            now: self.state_at(utid, window.to.saturating_sub(1)),
            cpu: None,
            times: StateTimes::default(),
            bar: Vec::new(),
            latency: Default::default(),
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            ran_instead: None,
            last_waker: None,
            blocked_function: NameId::EMPTY,
            blocked_max: 0,
            own: life.is_some_and(|l| l.own),
            sampled: self.folder.sampled(),
        }
    }

    /// One lane. `threads` are the rows of the same window (for who is ready at its end).
    pub(super) fn cpu_row(&self, cpu: u32, window: Window, cells: usize, threads: &[ThreadRow]) -> CpuRow {
        let (busy, known) = self.busy_known(cpu, window);
        let kept = self.kept.cpus.get(cpu as usize);
        let (sum, covered) = kept.map(|k| k.cells.sum(window.from, window.to, self.edge())).unwrap_or_default();
        let place = self.topology.iter().find(|c| c.cpu == cpu);
        let losses = self.losses(window);
        let mine = || losses.iter().filter(|l| l.cpu == cpu);
        let seen = self.folder.covered_since(cpu).is_some();
        let last = window.to.min(self.edge()).saturating_sub(1);
        CpuRow {
            cpu,
            online: if seen { self.folder.online(cpu) } else { place.is_some_and(|p| p.online) },
            node: place.map_or(0, |p| p.node),
            busy: share(busy, known),
            cells: (0..cells).map(|i| self.cell(cpu, window.cell(i, cells))).collect(),
            ready_now: threads.iter().filter(|t| t.now.is_ready() && t.cpu == Some(cpu)).count() as u32,
            running: self.slices(cpu, Window { from: last, to: last + 1 }).last().map(|s| (s.utid, s.start)),
            events_per_s: if covered > 0 { f64::from(sum.events) * 1e9 / covered as f64 } else { 0.0 },
            lost: mine().map(|l| l.count).reduce(|a, b| a.zip(b).map(|(a, b)| a.saturating_add(b))),
        }
    }

    fn cell(&self, cpu: u32, cell: Window) -> OccupancyCell {
        let (busy, known) = self.busy_known(cpu, cell);
        let Some(kept) = self.kept.cpus.get(cpu as usize) else { return OccupancyCell::default() };
        let (sum, covered) = kept.cells.sum(cell.from, cell.to, self.edge());
        let loss =
            self.losses.iter().any(|l| l.cpu == cpu && l.to.max(l.from) >= cell.from && l.from.min(l.to) < cell.to);
        OccupancyCell {
            busy: share(busy, known).map(|b| b as f32),
            top: if busy == 0 { None } else { self.top_of(cpu, cell, sum.top) },
            ready_max: sum.ready_max.min(u32::from(u16::MAX)) as u16,
            loss,
            irq: (kept.cells.irq_recorded() && covered > 0).then(|| (f64::from(sum.irq_ns) / covered as f64) as f32),
        }
    }

    /// Which process had most of the busy time of a cell: counted when there is little to count.
    fn top_of(&self, cpu: u32, cell: Window, from_cells: u32) -> Option<Upid> {
        let mut by: Vec<(Option<Upid>, u64)> = Vec::new();
        for (n, slice) in self.slices(cpu, cell).enumerate() {
            if n >= COUNTED {
                return (from_cells != NOBODY).then_some(from_cells);
            }
            if slice.utid == 0 {
                continue;
            }
            let owner = self.threads().get(slice.utid).and_then(|t| t.upid);
            let ns = cell.overlap(slice.start, slice.end);
            match by.iter_mut().find(|b| b.0 == owner) {
                Some(b) => b.1 += ns,
                None => by.push((owner, ns)),
            }
        }
        by.into_iter().max_by_key(|b| b.1)?.0
    }
}

pub(super) fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
