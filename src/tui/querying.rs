//! Asks a ready query of a stretch of the recording, for the palette: SQL as `dashcam query` answers it, in rows to be drawn.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::types::Value;

use super::answers::{QueryView, Reply};
use super::history::Watch;
use crate::feed;
use crate::memory;
use crate::names::printable;
use crate::query::Engine;
use crate::query::library;
use crate::query::load::{Request, load};
use crate::query::rehearsal::rehearse;
use crate::sched::summary::Window;
use crate::units::show;

/// Rows kept at most.
const ROWS: usize = 500;
/// A query that takes longer is given up: nothing else is answered meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);

/// The rows of the query `name` over `within`, or why there are none.
pub fn answer(paths: &[PathBuf], name: &str, within: Window, watch: Watch<'_>) -> Reply {
    view(paths, name, within, watch).map_or_else(|why| Reply::Failed(why.into()), |view| Reply::Query(Arc::new(view)))
}

fn view(paths: &[PathBuf], name: &str, within: Window, watch: Watch<'_>) -> Result<QueryView, String> {
    let ready = library::find(name).ok_or_else(|| format!("there is no ready query {name}"))?;
    let needs = rehearse(ready.sql).map_err(|e| e.to_string())?;
    let survey = feed::survey(paths).map_err(|e| e.to_string())?;
    let request = Request { paths: paths.to_vec(), window: Some(within), kept: needs.kept, ..Request::default() };
    let mut progress = |p| if watch(p) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let loaded = load(&request, &survey, &mut progress).map_err(|e| e.to_string())?;
    if !loaded.complete {
        return Err("another query was asked meanwhile".into());
    }
    let mut engine = Engine::open(Arc::new(loaded.columns)).map_err(|e| e.to_string())?;
    if let Some(room) = memory::room() {
        engine.bound_memory(room.usable());
    }
    let begun = Instant::now();
    engine.on_progress(100_000, move || begun.elapsed() > PATIENCE);
    let answer = engine.answer(ready.sql, Some(ROWS)).map_err(|e| format!("{name}: {e}"))?;
    let numbers = |column: usize| {
        let cells = || answer.rows.iter().filter_map(|row| row.get(column));
        cells().all(|cell| !matches!(cell, Value::Text(_) | Value::Blob(_)))
    };
    Ok(QueryView {
        title: format!("{name}: {}", ready.title()),
        within,
        numeric: (0..answer.columns.len()).map(numbers).collect(),
        columns: answer.columns.iter().map(|c| printable(c.as_bytes())).collect(),
        rows: answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        cut: answer.cut,
    })
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => show::UNKNOWN.to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => format!("{x:.3}"),
        Value::Text(text) => printable(text.as_bytes()),
        Value::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::query::library::QUERIES;

    fn trace() -> Vec<PathBuf> {
        let fixture = "tests/fixtures/perfetto/training-like.pftrace.zst";
        vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(fixture)]
    }

    #[test]
    fn every_ready_query_has_an_answer() {
        let all = Window { from: 0, to: u64::MAX };
        for ready in QUERIES {
            let Reply::Query(view) = answer(&trace(), ready.name, all, &|_| false) else { panic!("{}", ready.name) };
            assert!(!view.columns.is_empty() && view.numeric.len() == view.columns.len(), "{}", ready.name);
            assert!(view.rows.iter().all(|row| row.len() == view.columns.len()), "{}", ready.name);
        }
        let Reply::Query(view) = answer(&trace(), "top_running", all, &|_| false) else { panic!() };
        assert!(view.rows.len() > 5 && view.title.starts_with("top_running: "), "{view:?}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let all = Window { from: 0, to: u64::MAX };
        assert!(matches!(answer(&trace(), "nothing", all, &|_| false), Reply::Failed(why) if why.contains("nothing")));
        assert!(matches!(answer(&["/none".into()], "loss", all, &|_| false), Reply::Failed(_)));
        assert!(matches!(answer(&trace(), "loss", all, &|_| true), Reply::Failed(_)), "stopped");
    }
}
