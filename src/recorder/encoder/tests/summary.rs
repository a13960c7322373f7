//! The recorder's own summary against the fold's, over a made-up machine: one definition of every number.

use std::collections::BTreeMap;

use super::*;
use crate::sched::fold::{Consumer, Folding};
use crate::sched::order::TimeOrder;
use crate::sched::seconds::Seconds;

const CPUS: u32 = 4;
const THREADS: i32 = 14;
const END: u64 = 3_500_000_000;

/// A scheduler in which threads run, sleep, block in D, are pushed off, woken on any CPU, and moved between queues.
struct Machine {
    random: u64,
    running: Vec<i32>,
    queues: Vec<Vec<i32>>,
    asleep: Vec<i32>,
    pages: Vec<Vec<PageWriter>>,
}

impl Machine {
    fn random(&mut self, below: usize) -> usize {
        // xorshift64, of Marsaglia's "Xorshift RNGs".
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    fn write(&mut self, cpu: usize, ts: u64, record: &[u8]) {
        if let Some(page) = self.pages[cpu].last_mut()
            && page.data(ts, record)
        {
            return;
        }
        let mut page = PageWriter::new(PageLayout::USUAL, ts);
        assert!(page.data(ts, record));
        self.pages[cpu].push(page);
    }

    fn step(&mut self, ts: u64) {
        let cpu = self.random(CPUS as usize);
        let ran = self.running[cpu];
        if self.random(10) < 4 && !self.asleep.is_empty() {
            let woken = self.random(self.asleep.len());
            let (woken, target) = (self.asleep.swap_remove(woken), self.random(CPUS as usize));
            self.queues[target].push(woken);
            return self.write(cpu, ts, &waking(ran, woken, target as i32));
        }
        let mut from = cpu;
        if self.queues[from].is_empty() || self.random(10) < 2 {
            from = self.random(CPUS as usize);
        }
        let next = if self.queues[from].is_empty() { 0 } else { self.queues[from].remove(0) };
        // S, D, R+ in the layout since 4.14; idle always leaves in R.
        let state = if ran == 0 { 0 } else { [1, 1, 1, 2, 0x100][self.random(5)] };
        match (ran, state) {
            _ if ran == next => return,
            (_, 0x100) if next == 0 => return,
            (0, _) => {}
            (_, 0x100) => self.queues[cpu].push(ran),
            _ => self.asleep.push(ran),
        }
        self.running[cpu] = next;
        self.write(cpu, ts, &switch(ran, state, next));
    }

    fn run(seed: u64) -> Vec<Vec<PageWriter>> {
        let mut machine = Machine {
            random: seed,
            running: vec![0; CPUS as usize],
            queues: vec![Vec::new(); CPUS as usize],
            asleep: (1..=THREADS).collect(),
            pages: vec![Vec::new(); CPUS as usize],
        };
        let mut ts = 1_000;
        while ts < END {
            machine.step(ts);
            ts += 1 + machine.random(200_000) as u64;
        }
        machine.pages
    }
}

#[test]
fn every_number_of_the_summary_is_that_of_the_fold() {
    for seed in [1, 0x2545_f491_4f6c_dd1d, 77_777] {
        let (mut e, _hints) = encoder(&[0, 1, 2, 3]);
        for (cpu, pages) in (0..).zip(Machine::run(seed)) {
            for page in pages {
                e.add_page(Page { cpu, bytes: page.finish(), stats: None });
            }
        }
        let (mut decoder, mut names) = (Decoder::new(), NameTable::new());
        let (mut order, mut folding) = (TimeOrder::default(), Folding::new(Seconds::new()));
        let (mut reached, mut raw) = (0, Vec::new());
        while reached < END {
            reached = e.run(reached, END.min(reached + 90_000_000));
            e.close_frame(reached, &mut raw);
            decoder.decode(&raw, &mut names, &mut |item| order.push(item, &mut |item| folding.item(item))).unwrap();
        }
        order.flush(&mut |item| folding.item(item));
        let seconds = folding.sink.take_before(END, &folding.folder);
        let expected: BTreeMap<_, _> = seconds.iter().map(|s| ((s.cpu, s.start / 1_000_000_000), s)).collect();
        assert_eq!(expected.len(), 16, "four CPUs, four seconds");
        assert_eq!(e.counts().untraced, 0);

        let (summary, worst) = e.tracker().take_summary(END);
        for lane in &summary.lanes {
            for (second, cell) in (0..).zip(&lane.cells) {
                let s = expected[&(lane.cpu, second)];
                let place = format!("seed {seed}, CPU {}, second {second}", lane.cpu);
                let busy = s.busy_ns as f64 / s.known_ns as f64;
                assert!((f64::from(cell.busy.unwrap()) - busy).abs() < 1e-6, "{place}: busy {:?}, {busy}", cell.busy);
                assert_eq!((cell.ready, cell.blocked), (s.ready_max, s.blocked_max), "{place}: ready, in D");
                assert_eq!(cell.worst_wait, s.worst_wait, "{place}: worst wait");
            }
        }
        let longest = seconds.iter().max_by_key(|s| s.worst_wait).unwrap();
        let worst = worst.unwrap();
        assert_eq!((worst.dur, worst.at, worst.tid), (longest.worst_wait, longest.worst_at, longest.worst_tid));
    }
}
