//! The library of ready queries: `assets/queries/*.sql`, compiled in.
//!
//! Each file begins with a comment: its first line is the title, the rest says what the rows mean.

/// A ready query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// File name without `.sql`.
    pub name: &'static str,
    /// The whole text, comments included.
    pub sql: &'static str,
}

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(Ready { name: $name, sql: include_str!(concat!("../../assets/queries/", $name, ".sql")) }),*]
    };
}

/// All of them, by name.
pub const QUERIES: &[Ready] = library![
    "block_latency",
    "blocked_functions",
    "cpu_occupancy",
    "cpu_over_time",
    "interrupts",
    "io_wait_threads",
    "loader_running",
    "longest_block",
    "loss",
    "markers",
    "migrations",
    "preemptors",
    "process_running",
    "scheduling_latency",
    "slowest_markers",
    "states_of_threads",
    "top_running",
    "wakers",
    "worst_waits",
];

impl Ready {
    /// The first line of its comment.
    pub fn title(&self) -> &'static str {
        self.sql.lines().next().map_or("", |l| l.trim_start_matches('-').trim())
    }
}

/// The query called `name` (with or without `.sql`).
pub fn find(name: &str) -> Option<&'static Ready> {
    let name = name.strip_suffix(".sql").unwrap_or(name);
    QUERIES.iter().find(|q| q.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_the_library_and_has_a_title() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/queries");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .expect("the folder is in the repository")
            .map(|f| f.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let known: Vec<String> = QUERIES.iter().map(|q| format!("{}.sql", q.name)).collect();
        assert_eq!(files, known);
        for q in QUERIES {
            assert!(q.sql.starts_with("-- ") && q.title().len() > 10, "{}", q.name);
        }
        assert_eq!(find("loss.sql"), find("loss"));
    }
}
