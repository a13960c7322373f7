//! The dense grid: up to 1,024 CPUs in a few lines, a block per NUMA node.
//!
//! A CPU is a block of its occupancy over the window's last cells, coloured by what ran; a yellow mark beside it says
//! that threads are ready there. The line below the grid, drawn by the screen, names the CPU under the cursor.

use super::lanes;
use crate::sched::summary::CpuRow;
use crate::tui::labels::Labels;
use crate::tui::pen::Pen;
use crate::tui::theme::Tone;

/// Columns before the first CPU of a line: `n0   128 `.
const LABEL: u16 = 9;

/// Where each CPU stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridPlan {
    /// Columns a CPU takes: block and mark (2), or the block alone (1).
    pub cell: u16,
    /// CPUs on a full line.
    pub per_line: usize,
    /// First and one-after-last index of each line; a node begins a new line.
    pub lines: Vec<(usize, usize)>,
}

/// Plans the grid for `cpus` within `width` columns and about `height` lines.
pub fn plan(cpus: &[CpuRow], width: u16, height: u16) -> GridPlan {
    let room = width.saturating_sub(LABEL).max(1);
    let with = |cell: u16| {
        let fit = usize::from(room / cell).max(1);
        // Whole groups of eight read better than a ragged number.
        let per_line = if fit >= 8 { fit / 8 * 8 } else { fit };
        let mut lines: Vec<(usize, usize)> = Vec::new();
        for (i, cpu) in cpus.iter().enumerate() {
            match lines.last_mut() {
                Some((from, to)) if cpus[*from].node == cpu.node && *to - *from < per_line => *to = i + 1,
                _ => lines.push((i, i + 1)),
            }
        }
        GridPlan { cell, per_line, lines }
    };
    let roomy = with(2);
    if roomy.lines.len() <= usize::from(height) { roomy } else { with(1) }
}

impl GridPlan {
    /// The CPU index at a cell of the grid.
    pub fn at(&self, x: u16, y: u16) -> Option<usize> {
        let (from, to) = *self.lines.get(usize::from(y))?;
        let index = from + usize::from(x.checked_sub(LABEL)? / self.cell);
        (index < to).then_some(index)
    }
}

/// Draws the lines from `top` on.
pub fn draw(pen: &mut Pen<'_>, plan: &GridPlan, cpus: &[CpuRow], top: usize, cursor: Option<usize>, labels: &Labels) {
    let mut node_before = None;
    for (y, (from, to)) in plan.lines.iter().skip(top).take(usize::from(pen.h())).enumerate() {
        let y = u16::try_from(y).unwrap_or(0);
        let Some(first) = cpus.get(*from) else { continue };
        if node_before != Some(first.node) {
            pen.say(0, y, 4, &format!("n{}", first.node), Tone::Title);
            node_before = Some(first.node);
        }
        let style = pen.theme.style(Tone::Dim);
        pen.right(LABEL - 1, y, 5, &first.cpu.to_string(), style);
        for (i, cpu) in cpus.iter().enumerate().take(*to).skip(*from) {
            let x = LABEL + u16::try_from(i - from).unwrap_or(u16::MAX).saturating_mul(plan.cell);
            draw_cpu(pen, x, y, cpu, plan.cell, labels);
            if cursor == Some(i) {
                pen.tint(x, y, 1, Tone::Cursor);
            }
        }
    }
}

fn draw_cpu(pen: &mut Pen<'_>, x: u16, y: u16, cpu: &CpuRow, cell: u16, labels: &Labels) {
    if !cpu.online {
        let style = pen.theme.style(Tone::Unknown);
        pen.cell(x, y, '×', style);
        return;
    }
    // The last quarter of the window: fresh, yet not one slot's noise.
    let recent = &cpu.cells[cpu.cells.len() - cpu.cells.len().div_ceil(4).min(cpu.cells.len())..];
    let known: Vec<f32> = recent.iter().filter_map(|c| c.busy).collect();
    let mut shown = recent.last().copied().unwrap_or_default();
    shown.busy = (!known.is_empty()).then(|| known.iter().sum::<f32>() / known.len() as f32);
    shown.loss = recent.iter().any(|c| c.loss);
    shown.top = shown.top.or_else(|| recent.iter().rev().find_map(|c| c.top));
    let (glyph, style) = lanes::cell(&shown, false, labels, pen.theme);
    pen.cell(x, y, glyph, style);
    if cell > 1 && cpu.ready_now > 0 {
        let mark = char::from_digit(cpu.ready_now.min(9), 10).unwrap_or('9');
        let style = pen.theme.style(Tone::Ready);
        pen.cell(x + 1, y, mark, style);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cpus(n: u32, per_node: u32) -> Vec<CpuRow> {
        (0..n).map(|cpu| CpuRow { cpu, online: true, node: cpu / per_node, ..CpuRow::default() }).collect()
    }

    #[test]
    fn a_node_begins_a_new_line() {
        let p = plan(&cpus(128, 64), 120, 10);
        // (120 - 9) / 2 = 55, whole eights: 48.
        assert_eq!((p.cell, p.per_line), (2, 48));
        assert_eq!(p.lines, [(0, 48), (48, 64), (64, 112), (112, 128)]);
    }

    #[test]
    fn a_thousand_cpus_fit_into_a_few_lines() {
        let p = plan(&cpus(1024, 128), 200, 12);
        assert_eq!((p.cell, p.per_line), (1, 184));
        assert_eq!(p.lines.len(), 8);
    }

    #[test]
    fn every_cpu_is_found_where_it_stands() {
        let rows = cpus(300, 100);
        let p = plan(&rows, 90, 4);
        let mut seen = Vec::new();
        for y in 0..20 {
            for x in 0..90 {
                if let Some(i) = p.at(x, y)
                    && !seen.contains(&i)
                {
                    seen.push(i);
                }
            }
        }
        assert_eq!(seen, (0..300).collect::<Vec<_>>());
    }
}
