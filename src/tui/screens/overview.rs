//! The first screen: CPUs, findings, threads.

use super::thread_table;
use crate::report::words;
use crate::sched::summary::{CpuRow, Severity};
use crate::tui::pen::Pen;
use crate::tui::screens::columns::{self, Column};
use crate::tui::state::{Pane, State};
use crate::tui::theme::Tone;
use crate::tui::widgets::{grid, header, lanes};
use crate::units::show;

/// Where everything is, for a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// Lines of the header.
    pub header: u16,
    /// Line of the rule above the CPUs.
    pub cpu_y: u16,
    /// Lines of CPUs below it (in the dense grid one more names the CPU under the cursor).
    pub cpu_rows: u16,
    /// Lanes on one line.
    pub per_line: u16,
    /// The grid instead of lanes.
    pub dense: bool,
    /// CPUs on a line of the grid.
    pub grid_line: usize,
    /// Cells of one lane.
    pub cells: u16,
    /// Columns right of the cells of a lane.
    pub right: u16,
    /// Line of the rule above the findings.
    pub findings_y: u16,
    /// Findings shown; 0: the part is left out.
    pub findings: u16,
    /// Line of the rule above the threads; the titles are the line below.
    pub table_y: u16,
    /// Rows of the table.
    pub thread_rows: usize,
}

/// What is under the pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// A CPU, as an index.
    Cpu(usize),
    /// A finding.
    Finding(usize),
    /// A row of the table, as an index into the order.
    Thread(usize),
    /// A column's title.
    Title(Column),
}

/// Columns before the cells of a lane: the CPU's number.
const LANE_LABEL: u16 = 6;

/// Lays the screen out.
pub fn plan(state: &State) -> Plan {
    let (w, h) = state.size;
    let data = state.overview.data.as_ref();
    let cpus: &[CpuRow] = data.map_or(&[], |d| &d.cpus);
    let header = header::height(state).min(h);
    // The last line is for hints and notices.
    let body = h.saturating_sub(header + 1);
    // Largest share of the body the CPUs may have; the table keeps at least six lines with its titles.
    let most = match h {
        0..=29 => 6,
        30..=49 => 10,
        _ => h / 3,
    };
    let most = most.min(body.saturating_sub(7)).max(u16::from(body > 3));
    let n = u16::try_from(cpus.len()).unwrap_or(u16::MAX);
    let per_line = match n.div_ceil(most.max(1)) {
        0 | 1 => 1,
        2 if w >= 100 => 2,
        2..=4 if w >= 160 => 4,
        _ => 0,
    };
    let dense = state.overview.dense.unwrap_or(per_line == 0);
    let per_line = per_line.max(1);
    let mut plan = Plan { header, cpu_y: header, per_line, dense, ..Plan::default() };
    if dense {
        let grid = grid::plan(cpus, w.saturating_sub(1), most.saturating_sub(1));
        plan.grid_line = grid.per_line;
        plan.cpu_rows = u16::try_from(grid.lines.len()).unwrap_or(u16::MAX).min(most.saturating_sub(1)).max(1);
        plan.cells = 16;
    } else {
        plan.cpu_rows = n.div_ceil(per_line).clamp(1, most.max(1));
        let lane = w / per_line;
        plan.right = right_width(lane, per_line);
        plan.cells = lane.saturating_sub(LANE_LABEL + plan.right + 1).min(300);
    }
    let used = 1 + plan.cpu_rows + u16::from(dense);
    let left = body.saturating_sub(used);
    let wanted = match h {
        0..=29 => 1,
        30..=49 => 3,
        _ => 6,
    };
    let found = u16::try_from(data.map_or(0, |d| d.findings.len())).unwrap_or(u16::MAX);
    plan.findings_y = header + used;
    // "no findings" is worth a line too: it is a result. But never at the cost of the last rows.
    plan.findings = if left >= 8 { found.clamp(1, wanted) } else { 0 };
    let used = if plan.findings > 0 { plan.findings + 1 } else { 0 };
    plan.table_y = plan.findings_y + used;
    plan.thread_rows = usize::from(left.saturating_sub(used + 2));
    plan
}

/// Columns right of a lane: busy, ready, who runs, since when.
fn right_width(lane: u16, per_line: u16) -> u16 {
    match (per_line, lane) {
        (2.., _) => 12,
        (_, 150..) => 54,
        (_, 110..) => 44,
        (_, 70..) => 32,
        (_, 40..) => 12,
        _ => 0,
    }
}

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let plan = plan(state);
    let w = pen.w();
    header::draw(state, &mut pen.part(0, 0, w, plan.header));
    draw_cpus(state, &plan, pen);
    if plan.findings > 0 {
        draw_findings(state, &plan, pen);
    }
    let rows = u16::try_from(plan.thread_rows).unwrap_or(0) + 2;
    let room = pen.h().saturating_sub(plan.table_y + 1);
    thread_table::draw(state, &mut pen.part(0, plan.table_y, w, rows.min(room)));
}

fn focus_mark(state: &State, pane: Pane, title: &str) -> String {
    if state.overview.focus == pane && pane != Pane::Threads { format!("▶ {title}") } else { title.to_string() }
}

fn draw_cpus(state: &State, plan: &Plan, pen: &mut Pen<'_>) {
    let w = pen.w();
    let window = state.window();
    let title = focus_mark(state, Pane::Cpus, "CPU occupancy");
    let cell = show::span(window.len() / u64::from(plan.cells.max(1)));
    let scale = format!("last {}, a cell is {cell}", show::span_words(window.len()));
    let Some(data) = &state.overview.data else {
        pen.rule(plan.cpu_y, &[&title]);
        pen.say(1, plan.cpu_y + 1, w, "reading …", Tone::Dim);
        return;
    };
    let first = state.overview.cpu_top * usize::from(plan.per_line);
    let shown = usize::from(plan.cpu_rows) * usize::from(plan.per_line);
    if plan.dense {
        let many = format!("{} CPUs", data.cpus.len());
        pen.rule(plan.cpu_y, &[&title, &many, "a number: threads ready there"]);
        draw_grid(state, plan, pen);
        return;
    }
    let part = if data.cpus.len() > shown {
        format!("{}–{} of {}", first + 1, (first + shown).min(data.cpus.len()), data.cpus.len())
    } else {
        String::new()
    };
    pen.rule(plan.cpu_y, &[&title, &scale, &part]);
    if plan.per_line == 1 && plan.right >= 32 {
        let right = w.saturating_sub(plan.right);
        pen.say(right, plan.cpu_y, plan.right, "  busy ready  running now ", Tone::Dim);
    }
    let data_window = data.window.unwrap_or(window);
    let lane = w / plan.per_line;
    for (i, cpu) in data.cpus.iter().enumerate().skip(first).take(shown) {
        let y = plan.cpu_y + 1 + u16::try_from((i - first) / usize::from(plan.per_line)).unwrap_or(0);
        let x = lane * u16::try_from(i % usize::from(plan.per_line)).unwrap_or(0);
        let gaps = lanes::gap_cells(data_window, &data.gaps, cpu.cells.len());
        draw_lane(state, plan, &mut pen.part(x, y, lane, 1), cpu, &gaps);
        if state.overview.focus == Pane::Cpus && state.overview.cpu == i {
            pen.tint(x, y, LANE_LABEL - 1, Tone::Selected);
        }
    }
}

fn draw_lane(state: &State, plan: &Plan, pen: &mut Pen<'_>, cpu: &CpuRow, gaps: &[bool]) {
    let style = pen.theme.style(Tone::Text);
    pen.right(LANE_LABEL - 1, 0, LANE_LABEL - 1, &cpu.cpu.to_string(), style);
    let x = LANE_LABEL;
    if !cpu.online {
        pen.say(x, 0, plan.cells, "offline", Tone::Dim);
        return;
    }
    lanes::draw(pen, x, 0, plan.cells, &cpu.cells, gaps, &state.labels);
    let right = x + plan.cells;
    if plan.right < 12 {
        return;
    }
    let busy = cpu.busy.map_or(show::UNKNOWN.to_string(), |b| format!("{:.0} %", b * 100.0));
    pen.right(right + 6, 0, 5, &busy, style);
    let tone = if cpu.ready_now > 0 { Tone::Ready } else { Tone::Dim };
    let style = pen.theme.style(tone);
    pen.right(right + 11, 0, 4, &cpu.ready_now.to_string(), style);
    if plan.right < 32 {
        return;
    }
    let irq_room = if plan.right >= 54 { 10 } else { 0 };
    let room = plan.right - 13 - irq_room;
    match cpu.running {
        None => {
            pen.say(right + 13, 0, room, show::UNKNOWN, Tone::Unknown);
        }
        Some((0, _)) => {
            pen.say(right + 13, 0, room, "idle", Tone::Dim);
        }
        Some((utid, since)) => {
            let style = pen.theme.process(state.labels.process_of(utid));
            let to = state.overview.data.as_ref().and_then(|d| d.window).map_or(since, |w| w.to);
            let name = if room > 24 { state.labels.full(utid) } else { state.labels.thread(utid) };
            pen.text(right + 13, 0, room.saturating_sub(8), &name, style);
            let style = pen.theme.style(Tone::Dim);
            pen.right(right + plan.right - irq_room, 0, 6, &show::span(to.saturating_sub(since)), style);
        }
    }
    if let Some(irq) = irq_share(cpu).filter(|_| irq_room > 0) {
        let style = pen.theme.style(Tone::Dim);
        pen.right(right + plan.right, 0, irq_room, &format!("irq {}", show::percent_whole(irq)), style);
    }
}

/// Share of the lane's time spent in interrupts, when they are recorded.
fn irq_share(cpu: &CpuRow) -> Option<f64> {
    let known: Vec<f64> = cpu.cells.iter().filter_map(|c| c.irq).map(f64::from).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn draw_grid(state: &State, plan: &Plan, pen: &mut Pen<'_>) {
    let Some(data) = &state.overview.data else { return };
    let w = pen.w();
    let grid = grid::plan(&data.cpus, w.saturating_sub(1), plan.cpu_rows);
    let line = grid.lines.iter().position(|(from, to)| (*from..*to).contains(&state.overview.cpu)).unwrap_or(0);
    let top = grid_top(line, usize::from(plan.cpu_rows), grid.lines.len());
    let cursor = (state.overview.focus == Pane::Cpus).then_some(state.overview.cpu);
    let mut area = pen.part(1, plan.cpu_y + 1, w.saturating_sub(1), plan.cpu_rows);
    grid::draw(&mut area, &grid, &data.cpus, top, cursor, &state.labels);
    if let Some(cpu) = data.cpus.get(state.overview.cpu) {
        let runs = match cpu.running {
            None => "not known".to_string(),
            Some((utid, _)) => state.labels.full(utid),
        };
        let busy = cpu.busy.map_or(show::UNKNOWN.to_string(), show::percent);
        let text = format!("CPU {} · node {} · busy {busy} · {} ready · {runs}", cpu.cpu, cpu.node, cpu.ready_now);
        pen.say(1, plan.cpu_y + 1 + plan.cpu_rows, w.saturating_sub(1), &text, Tone::Dim);
    }
}

/// First line of the grid shown so that `line` is.
fn grid_top(line: usize, rows: usize, lines: usize) -> usize {
    line.saturating_sub(rows / 2).min(lines.saturating_sub(rows))
}

fn draw_findings(state: &State, plan: &Plan, pen: &mut Pen<'_>) {
    let w = pen.w();
    let Some(data) = &state.overview.data else {
        pen.rule(plan.findings_y, &["Findings"]);
        return;
    };
    let more = data.findings.len().saturating_sub(usize::from(plan.findings));
    let more = if more > 0 { format!("{} more", show::grouped(more as u64)) } else { String::new() };
    pen.rule(plan.findings_y, &[&focus_mark(state, Pane::Findings, "Findings"), &more]);
    if data.findings.is_empty() {
        pen.say(1, plan.findings_y + 1, w, "nothing stands out in this window", Tone::Dim);
        return;
    }
    let window = data.window.unwrap_or_else(|| state.window()).len();
    let rows = usize::from(plan.findings);
    let top = if state.overview.focus == Pane::Findings { state.overview.finding.saturating_sub(rows - 1) } else { 0 };
    for (i, finding) in data.findings.iter().enumerate().skip(top).take(rows) {
        let y = plan.findings_y + 1 + u16::try_from(i - top).unwrap_or(0);
        let (mark, tone) = match finding.severity {
            Severity::Warning => ("!", Tone::Strong),
            Severity::Note => ("·", Tone::Dim),
        };
        let loss = matches!(finding.kind, crate::sched::summary::FindingKind::Lost { .. });
        let text = words::finding(finding, window, &state.labels);
        let number = format!("{:>2} ", i + 1);
        pen.pieces(
            0,
            y,
            w,
            &[
                (&number, Tone::Dim),
                (mark, tone),
                (" ", Tone::Text),
                (&text, if loss { Tone::Loss } else { Tone::Text }),
            ],
        );
        if state.overview.focus == Pane::Findings && state.overview.finding == i {
            pen.tint(0, y, w, Tone::Selected);
        }
    }
}

impl words::Words for crate::tui::labels::Labels {
    fn thread(&self, utid: crate::sched::fold::Utid) -> String {
        crate::tui::labels::Labels::thread(self, utid)
    }
    fn text(&self, id: crate::names::NameId) -> String {
        crate::tui::labels::Labels::text(self, id).to_string()
    }
}

/// What is under the pointer.
pub fn hit(state: &State, x: u16, y: u16) -> Option<Hit> {
    let plan = plan(state);
    let data = state.overview.data.as_ref()?;
    let within = |from: u16, n: u16| y >= from && y < from.saturating_add(n);
    if within(plan.cpu_y + 1, plan.cpu_rows) {
        let line = usize::from(y - plan.cpu_y - 1);
        let at = if plan.dense {
            let grid = grid::plan(&data.cpus, state.size.0.saturating_sub(1), plan.cpu_rows);
            let here = grid.lines.iter().position(|(a, b)| (*a..*b).contains(&state.overview.cpu)).unwrap_or(0);
            let top = grid_top(here, usize::from(plan.cpu_rows), grid.lines.len());
            grid.at(x.checked_sub(1)?, y - plan.cpu_y - 1 + u16::try_from(top).ok()?)?
        } else {
            let lane = (state.size.0 / plan.per_line).max(1);
            let column = usize::from((x / lane).min(plan.per_line - 1));
            (state.overview.cpu_top + line) * usize::from(plan.per_line) + column
        };
        return (at < data.cpus.len()).then_some(Hit::Cpu(at));
    }
    if plan.findings > 0 && within(plan.findings_y + 1, plan.findings) {
        let at = usize::from(y - plan.findings_y - 1);
        return (at < data.findings.len()).then_some(Hit::Finding(at));
    }
    if y == plan.table_y + 1 {
        let x = x.checked_sub(1)?;
        return columns::fit(state.size.0.saturating_sub(1))
            .into_iter()
            .find(|(_, at, w)| (*at..at + w).contains(&x))
            .map(|(c, ..)| Hit::Title(c));
    }
    let first = plan.table_y + 2;
    if within(first, u16::try_from(plan.thread_rows).unwrap_or(0)) {
        let row = state.overview.top + usize::from(y - first);
        return (row < state.overview.order.len()).then_some(Hit::Thread(row));
    }
    None
}
