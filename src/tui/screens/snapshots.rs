//! Snapshots and marks: what was kept, why, how big, where.

use crate::store::footer::MAX_MARKS;
use crate::time::{self, Digits};
use crate::tui::actions::{Action, Context};
use crate::tui::deeds::SnapshotRow;
use crate::tui::pen::Pen;
use crate::tui::state::State;
use crate::tui::theme::Tone;
use crate::tui::widgets::header;
use crate::units::show;

/// Draws it.
pub fn draw(state: &State, pen: &mut Pen<'_>) {
    let (w, h) = (pen.w(), pen.h().saturating_sub(1));
    let top = header::height(state).min(h);
    header::draw(state, &mut pen.part(0, 0, w, top));
    let mut pen = pen.part(0, top, w, h.saturating_sub(top));
    let view = &state.snapshots.kept;
    let n = match view.snapshots.len() {
        1 => "1 snapshot".to_string(),
        n => format!("{} snapshots", show::grouped(n as u64)),
    };
    let bytes: u64 = view.snapshots.iter().map(|s| s.bytes).sum();
    let listed = show::grouped(view.marks.len() as u64);
    let marks = match view.marks.len() {
        _ if view.marks_cut => format!("{listed} of {} marks", show::grouped(view.marked)),
        1 => "1 mark".to_string(),
        _ => format!("{listed} marks"),
    };
    let growing = if view.growing.is_some() && w >= 110 { "without those of the growing segment" } else { "" };
    pen.rule(0, &["Snapshots and marks", &n, &show::bytes(bytes), &marks, growing]);
    let search = state.keymap.hint(Action::Search, Context::Timeline);
    if view.snapshots.is_empty() && view.marks.is_empty() {
        let text = if view.marks_cut {
            format!("no footer lists the marks; all stand on the time line ({search} #TEXT)")
        } else if state.snapshots.loaded && view.single {
            "a single file is open, neither a snapshot nor with marks in its footer".to_string()
        } else if state.snapshots.loaded {
            format!(
                "nothing kept yet: {} keeps the last minutes, {} marks a moment",
                state.hint(Action::Snapshot),
                state.hint(Action::Mark)
            )
        } else {
            "reading …".to_string()
        };
        pen.say(1, 1, w, &text, Tone::Dim);
        return;
    }
    let mut first = 1;
    if view.marks_cut {
        let text = format!("a footer holds {MAX_MARKS} marks at most; all stand on the time line ({search} #TEXT)");
        pen.say(1, first, w.saturating_sub(1), &text, Tone::Dim);
        first += 1;
    }
    let top = state.snapshots.top;
    let rows = usize::from(pen.h().saturating_sub(first));
    let total = view.snapshots.len() + view.marks.len();
    for i in (top..total).take(rows) {
        let y = first + u16::try_from(i - top).unwrap_or(0);
        if let Some(snapshot) = view.snapshots.get(i) {
            draw_snapshot(state, snapshot, &mut pen, y);
        } else if let Some(mark) = view.marks.get(i - view.snapshots.len()) {
            let at = time::local(mark.at_real, &state.zone, Digits::Seconds);
            let begin = if mark.plain { "" } else { "begin " };
            pen.pieces(
                1,
                y,
                w.saturating_sub(1),
                &[
                    ("▌ ", Tone::Mark),
                    (&at, Tone::Dim),
                    ("  ", Tone::Text),
                    (begin, Tone::Dim),
                    (&mark.text, Tone::Text),
                ],
            );
        }
        if i == state.snapshots.row {
            pen.tint(0, y, w, Tone::Selected);
        }
    }
}

fn draw_snapshot(state: &State, snapshot: &SnapshotRow, pen: &mut Pen<'_>, y: u16) {
    let w = pen.w();
    let at = time::local(snapshot.taken_real, &state.zone, Digits::Seconds);
    let length = format!("{:>7} {:>8}  ", show::span_words(snapshot.length), show::bytes(snapshot.bytes));
    // A label nobody gave repeats the reason.
    let label = if snapshot.label.is_empty() || snapshot.label == snapshot.reason {
        String::new()
    } else {
        format!("“{}” ", snapshot.label)
    };
    let holes = match (snapshot.loss, snapshot.gaps) {
        (true, true) => "with loss and gaps  ",
        (true, false) => "with loss  ",
        (false, true) => "with gaps  ",
        (false, false) => "",
    };
    let shorter = if snapshot.shorter.is_empty() { String::new() } else { format!("({})  ", snapshot.shorter) };
    let reason = format!("{}  ", snapshot.reason);
    pen.pieces(
        1,
        y,
        w.saturating_sub(1),
        &[
            ("● ", Tone::Mark),
            (&at, Tone::Dim),
            ("  ", Tone::Text),
            (&length, Tone::Text),
            (&label, Tone::Strong),
            (&reason, Tone::Text),
            (&shorter, Tone::Dim),
            (holes, Tone::Loss),
            (&snapshot.path, Tone::Dim),
        ],
    );
}
