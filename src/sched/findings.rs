//! Detectors: what looks like trouble in a window, each with its numbers and the stretch that shows it best.
//!
//! A detector only counts; the faces put the numbers in words. Every finding names a threshold of [`Thresholds`] that it
//! passed. Findings come most important first: warnings before notes, larger shares first. Of sampled data only sums are
//! known: what needs to know when something happened finds nothing there.

use super::fold::Utid;
use super::model::Model;
use super::summary::{CpuRow, Finding, FindingKind, Severity, ThreadRow, Window};

/// From where on something is a finding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A thread was ready but not running for this share of the window, 0..=1.
    pub starving: f64,
    /// One thread had this share of a CPU while others were ready there, 0..=1.
    pub monopolised: f64,
    /// A thread was pushed off its CPU this often per second.
    pub pushed_off_per_s: f64,
    /// A thread was in D for this long at a stretch, ns.
    pub blocked: u64,
    /// A CPU was idle for this long while a thread was ready on another, ns.
    pub idle_while_ready: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            starving: 0.10,
            monopolised: 0.90,
            pushed_off_per_s: 100.0,
            blocked: 100_000_000,
            idle_while_ready: 100_000_000,
        }
    }
}

/// Findings of each kind at most.
const OF_A_KIND: usize = 8;

/// Others must have been ready for this share of the window before a busy CPU counts as monopolised.
const READY_BESIDE: f64 = 0.05;

/// Waits shorter than this do not speak of a CPU left idle: moving a thread there takes time too.
const WORTH_MOVING: u64 = 500_000;

/// Of one thread's waits so many, the longest, are compared with what other CPUs did meanwhile.
const LONGEST_WAITS: usize = 64;

/// Runs all detectors over what the model found in `window`.
pub fn detect(
    model: &Model,
    window: Window,
    threads: &[ThreadRow],
    cpus: &[CpuRow],
    thresholds: &Thresholds,
) -> Vec<Finding> {
    if window.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(f64, Finding)> = Vec::new();
    let mut add = |mut of_a_kind: Vec<(f64, Finding)>| {
        of_a_kind.sort_by(|a, b| b.0.total_cmp(&a.0));
        of_a_kind.truncate(OF_A_KIND);
        found.append(&mut of_a_kind);
    };
    let others: Vec<&ThreadRow> = threads.iter().filter(|t| !t.own).collect();
    add(starving(model, window, &others, thresholds));
    add(monopolised(model, window, cpus, thresholds));
    add(pushed_off(model, window, &others, thresholds));
    add(blocked(model, window, &others, thresholds));
    add(idle_while_ready(model, window, &others, cpus, thresholds));
    add(lost(model, window));
    found.sort_by(|a, b| b.1.severity.cmp(&a.1.severity).then(b.0.total_cmp(&a.0)));
    found.into_iter().map(|f| f.1).collect()
}

/// The rows that weigh most by `weight`, of those that weigh anything.
fn heaviest<'a>(rows: &[&'a ThreadRow], weight: impl Fn(&ThreadRow) -> Option<f64>) -> Vec<(f64, &'a ThreadRow)> {
    let mut heavy: Vec<(f64, &ThreadRow)> = rows.iter().filter_map(|r| Some((weight(r)?, *r))).collect();
    heavy.sort_by(|a, b| b.0.total_cmp(&a.0));
    heavy.truncate(OF_A_KIND);
    heavy
}

fn starving(model: &Model, window: Window, rows: &[&ThreadRow], t: &Thresholds) -> Vec<(f64, Finding)> {
    let share = |r: &ThreadRow| r.times.ready() as f64 / window.len() as f64;
    let found = heaviest(rows, |r| Some(share(r)).filter(|s| *s > t.starving)).into_iter().map(|(share, r)| {
        let kind = FindingKind::Starving { utid: r.utid, share, latency: r.latency, instead: r.ran_instead };
        (share, Finding { severity: Severity::Warning, kind, at: worst(model, r.utid, window) })
    });
    found.collect()
}

fn monopolised(model: &Model, window: Window, cpus: &[CpuRow], t: &Thresholds) -> Vec<(f64, Finding)> {
    let mut found = Vec::new();
    for row in cpus.iter().filter(|c| c.busy.is_some_and(|b| b >= t.monopolised)) {
        let Some(user) = model.main_user(row.cpu, window) else { continue };
        let share = user.ran as f64 / user.known.max(1) as f64;
        if share >= t.monopolised && user.ready_ns as f64 >= READY_BESIDE * window.len() as f64 {
            let kind = FindingKind::Monopolised { cpu: row.cpu, utid: user.utid, share, ready_ns: user.ready_ns };
            found.push((share, Finding { severity: Severity::Warning, kind, at: user.longest }));
        }
    }
    found
}

fn pushed_off(model: &Model, window: Window, rows: &[&ThreadRow], t: &Thresholds) -> Vec<(f64, Finding)> {
    let per_s = |r: &ThreadRow| r.involuntary as f64 * 1e9 / window.len() as f64;
    // Being pushed off often need not hurt: it weighs by the time it cost.
    let weight = |r: &ThreadRow| r.times.preempted as f64 / window.len() as f64;
    let often = |r: &ThreadRow| (per_s(r) > t.pushed_off_per_s).then(|| weight(r));
    let found = heaviest(rows, often).into_iter().map(|(weight, r)| {
        let by = model.preemptors(r.utid, window).first().and_then(|s| Some((s.utid?, s.share)));
        let kind = FindingKind::PushedOff { utid: r.utid, per_s: per_s(r), by };
        (weight, Finding { severity: Severity::Note, kind, at: worst(model, r.utid, window) })
    });
    found.collect()
}

fn blocked(model: &Model, window: Window, rows: &[&ThreadRow], t: &Thresholds) -> Vec<(f64, Finding)> {
    let long = |r: &ThreadRow| (r.blocked_max >= t.blocked.max(1)).then(|| r.blocked_max as f64 / window.len() as f64);
    let found = heaviest(rows, long).into_iter().map(|(weight, r)| {
        let (at, count) = model.long_blocks(r.utid, window, t.blocked);
        let (utid, longest, function) = (r.utid, r.blocked_max, r.blocked_function);
        let kind = FindingKind::LongBlocked { utid, longest, count, function };
        (weight, Finding { severity: Severity::Warning, kind, at })
    });
    found.collect()
}

fn idle_while_ready(
    model: &Model,
    window: Window,
    rows: &[&ThreadRow],
    cpus: &[CpuRow],
    t: &Thresholds,
) -> Vec<(f64, Finding)> {
    let mut waiting: Vec<&&ThreadRow> = rows.iter().filter(|r| r.times.ready() >= t.idle_while_ready.max(1)).collect();
    waiting.sort_by_key(|r| std::cmp::Reverse(r.times.ready()));
    let mut found = Vec::new();
    if model.sampled() {
        return found;
    }
    for row in waiting.into_iter().take(OF_A_KIND) {
        let mut waits: Vec<(u32, Window)> = model.ready_stretches(row.utid, window, WORTH_MOVING);
        waits.sort_by_key(|w| std::cmp::Reverse(w.1.len()));
        waits.truncate(LONGEST_WAITS);
        let mut best: Option<(u64, u32, u32, Window)> = None;
        for cpu in cpus.iter().filter(|c| c.online).map(|c| c.cpu) {
            let elsewhere = waits.iter().filter(|w| w.0 != cpu);
            let idle: Vec<(u64, &(u32, Window))> = elsewhere.map(|w| (model.idle_ns(cpu, w.1), w)).collect();
            let total: u64 = idle.iter().map(|i| i.0).sum();
            let longest = idle.iter().max_by_key(|i| i.0).map(|i| i.1);
            if let Some(&(ready_cpu, at)) = longest
                && best.is_none_or(|b| total > b.0)
            {
                best = Some((total, cpu, ready_cpu, at));
            }
        }
        if let Some((idle_ns, cpu, ready_cpu, at)) = best.filter(|b| b.0 >= t.idle_while_ready.max(1)) {
            let kind = FindingKind::IdleWhileReady { cpu, idle_ns, utid: row.utid, ready_cpu };
            found.push((idle_ns as f64 / window.len() as f64, Finding { severity: Severity::Note, kind, at }));
        }
    }
    found
}

fn lost(model: &Model, window: Window) -> Vec<(f64, Finding)> {
    let mut found: Vec<(f64, Finding)> = Vec::new();
    for loss in model.losses(window) {
        let from = if loss.from > 0 { loss.from } else { loss.to };
        let at = Window { from, to: loss.to.max(from + 1) };
        let ns = loss.to.saturating_sub(from);
        let same = |f: &&mut (f64, Finding)| matches!(f.1.kind, FindingKind::Lost { cpu, .. } if cpu == loss.cpu);
        if let Some((weight, finding)) = found.iter_mut().find(same)
            && let FindingKind::Lost { count, ns: sum, .. } = &mut finding.kind
        {
            *count = count.zip(loss.count).map(|(a, b)| a.saturating_add(b));
            *sum += ns;
            if at.len() > finding.at.len() {
                finding.at = at;
            }
            *weight = *sum as f64 / window.len() as f64;
            continue;
        }
        let kind = FindingKind::Lost { cpu: loss.cpu, count: loss.count, ns };
        // Loss makes every other number doubtful: it comes before notes however short it was.
        found.push((ns as f64 / window.len() as f64, Finding { severity: Severity::Warning, kind, at }));
    }
    found
}

fn worst(model: &Model, utid: Utid, window: Window) -> Window {
    match model.worst_wait(utid, window).filter(|_| !model.sampled()) {
        Some(wait) => {
            Window { from: wait.start, to: wait.start + wait.dur.unwrap_or(window.to.saturating_sub(wait.start)) }
        }
        None => window,
    }
}
