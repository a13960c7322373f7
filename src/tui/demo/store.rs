//! The made-up store: a day of segments, what was kept of it, and its recorder.

use super::data::{EDGE, MS, REAL, S, US};
use crate::sched::summary::Window;
use crate::tui::deeds::{KeptView, MarkRow, RecorderView, SegmentRow, SnapshotRow, StoreColumn, StoreView};

pub fn store() -> StoreView {
    let n = 59;
    let from = REAL - 24 * 3600 * S;
    let columns = (0..n)
        .map(|i| StoreColumn {
            busy: (i != 20).then_some(0.2 + (i % 12) as f32 / 16.0),
            ready: (i != 20).then_some(i % 5),
            blocked: (i != 20).then_some(if i == 33 { 2 } else { 0 }),
            worst: (i != 20).then_some(if i == 33 { 48 * MS } else { 200 * US }),
            loss: i == 34,
            mark: i == 40,
            snapshot: (32..35).contains(&i),
            pending: i == 58,
            outside: false,
        })
        .collect();
    StoreView {
        from_real: from,
        to_real: REAL,
        all_real: (from, REAL),
        columns,
        worst: Some((48 * MS, REAL - 600 * S, "pt_loader:0".into())),
        segments: (0..40u64)
            .map(|i| SegmentRow {
                path: format!("/var/lib/dashcam/segments/seg-{i}.pftrace.zst").into(),
                from_real: REAL - (40 - i) * 60 * S,
                length: 60 * S,
                window: Some(Window { from: EDGE - (40 - i) * 60 * S, to: EDGE - (39 - i) * 60 * S }),
                bytes: 5_347_737,
                events: if i == 39 { 0 } else { 1_204_000 },
                // What grows has no footer that could say.
                busy: (i != 39).then_some(0.71),
                ready: (i != 39).then_some(3),
                worst: (i != 39).then(|| (48 * MS, "pt_loader:0".into())),
                lost: if i == 38 {
                    Some(Some(1204))
                } else if i == 37 {
                    Some(None)
                } else {
                    None
                },
                growing: i == 39,
                snapshots: match i {
                    36 => vec!["p99 alert".into()],
                    35 => vec!["p99 alert".into(), "".into(), "before the update".into()],
                    _ => Vec::new(),
                },
            })
            .collect(),
        bytes: 4 << 30,
        gaps: 1,
        ..StoreView::default()
    }
}

pub fn kept() -> KeptView {
    let snapshot = SnapshotRow {
        path: "/var/lib/dashcam/snapshots/20261130T060200Z-000007-p99-alert.pftrace.zst".into(),
        label: "p99 alert".into(),
        reason: "trigger: worst wait 48 ms > 20 ms".into(),
        taken_real: REAL - 35 * S,
        from_real: REAL - 335 * S,
        length: 300 * S,
        bytes: 26 << 20,
        loss: true,
        gaps: true,
        shorter: "5 m asked: nothing older was there".into(),
    };
    let mark = |s: u64, text: &str, plain| MarkRow { at_real: REAL - s * S, text: text.into(), plain };
    KeptView {
        snapshots: vec![
            snapshot.clone(),
            SnapshotRow { label: "".into(), loss: false, gaps: false, shorter: "".into(), ..snapshot },
        ],
        marks: vec![mark(7, "epoch 2", true), mark(5, "step 813", false), mark(9, "step 812", false)],
        marked: 9_680,
        marks_cut: true,
        growing: Some(EDGE - 60 * S),
        single: false,
    }
}

pub fn recorder() -> RecorderView {
    RecorderView {
        host: "gpu-07".into(),
        kernel: "6.18.44".into(),
        recording: true,
        segment: Some((42 * S, 60 * S)),
        events_per_s: 18_400.0,
        lost: Some((0, false)),
        keeps: 85_260 * S,
        bytes: (3_328_599_654, 4 << 30),
        own_cpu: Some(0.004),
        now_real: REAL,
        snapshot_last: 300 * S,
        ..RecorderView::default()
    }
}
