//! Snapshot requests, wherever they come from, meet here: they wait, are merged, and each gets the path.
//!
//! The first request is served at once. Those that come within [`REST`] of the last snapshot wait for its end and share
//! one: a burst from an alert that fires on fifty series makes two files, not fifty.

use std::time::{Duration, Instant};

use super::control::ClientId;

/// Between two snapshots.
const REST: Duration = Duration::from_secs(1);

/// Longest label, bytes: it goes into names, footers and lists.
pub const MAX_LABEL: usize = 120;

/// Whether a request can be served at all.
///
/// # Errors
/// What is wrong with it, in words.
pub fn sensible(last_ns: Option<u64>, label: Option<&str>) -> Result<(), String> {
    if last_ns == Some(0) {
        return Err("a snapshot of 0 s would keep nothing: ask for a length such as 5m".into());
    }
    label.map_or(Ok(()), |label| label_fits(label).map_err(|fault| format!("the label {fault}")))
}

/// The rule for labels: one line of at most [`MAX_LABEL`] bytes with a letter or a digit in it.
///
/// # Errors
/// What is wrong with `label` and what to do, as the end of a sentence that begins with it.
pub fn label_fits(label: &str) -> Result<(), String> {
    match label.len() {
        ..=MAX_LABEL => {}
        n => return Err(format!("has {n} bytes; {MAX_LABEL} are the most")),
    }
    // Other control characters harm nobody: names have none, and lists show them escaped.
    if label.contains(['\n', '\r', '\x0b', '\x0c', '\u{85}', '\u{2028}', '\u{2029}']) {
        return Err("holds a line break: write it on one line".into());
    }
    if !label.chars().any(char::is_alphanumeric) {
        return Err("has no letter and no digit: give it a word, or leave it out".into());
    }
    Ok(())
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Who waits for the answer.
    pub client: Option<ClientId>,
    /// How much to keep, ns.
    pub last_ns: u64,
    /// For the file name.
    pub label: String,
    /// `command`, `key`, `signal`, `trigger`.
    pub reason: String,
    /// Further words.
    pub detail: String,
    /// When, ns on CLOCK_BOOTTIME.
    pub at: u64,
}

/// Requests that are served by one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    /// Who waits.
    pub clients: Vec<ClientId>,
    /// The longest that was asked.
    pub last_ns: u64,
    /// The first label given.
    pub label: String,
    /// Who asked first.
    pub reason: String,
    /// What all said.
    pub detail: String,
    /// When the first asked, ns on CLOCK_BOOTTIME.
    pub at: u64,
}

/// Requests that wait.
#[derive(Debug, Default)]
pub struct Waiting {
    asked: Vec<Asked>,
    last: Option<Instant>,
}

impl Waiting {
    /// One more.
    pub fn push(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    /// True if somebody waits.
    pub fn any(&self) -> bool {
        !self.asked.is_empty()
    }

    /// How long until the next may be taken; zero: now. `None` if nobody waits.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        self.any().then(|| self.last.map_or(Duration::ZERO, |l| (l + REST).saturating_duration_since(now)))
    }

    /// All that wait, as one.
    pub fn take(&mut self) -> Option<Merged> {
        let all = std::mem::take(&mut self.asked);
        let first = all.first()?;
        let mut merged = Merged { reason: first.reason.clone(), at: first.at, ..Merged::default() };
        let mut details: Vec<String> = Vec::new();
        for asked in &all {
            merged.clients.extend(asked.client);
            merged.last_ns = merged.last_ns.max(asked.last_ns);
            if merged.label.is_empty() {
                merged.label.clone_from(&asked.label);
            } else if !asked.label.is_empty() && asked.label != merged.label {
                details.push(format!("also asked as {}", asked.label));
            }
            if !asked.detail.is_empty() {
                details.push(asked.detail.clone());
            }
        }
        details.dedup();
        // A burst of different words must not make a footer of megabytes.
        details.truncate(16);
        merged.detail = details.join("; ");
        if all.len() > 1 {
            let more = format!("{} requests", all.len());
            merged.detail = if merged.detail.is_empty() { more } else { format!("{}; {more}", merged.detail) };
        }
        if merged.label.is_empty() {
            merged.label.clone_from(&merged.reason);
        }
        Some(merged)
    }

    /// One was taken: the next waits.
    pub fn taken(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn case_71_a_burst_of_fifty_makes_two() {
        let mut waiting = Waiting::default();
        let start = Instant::now();
        let mut taken = Vec::new();
        for i in 0..50u64 {
            let now = start + Duration::from_millis(20 * i);
            waiting.push(Asked { last_ns: i, reason: "command".into(), ..Asked::default() });
            if waiting.due_in(now) == Some(Duration::ZERO) {
                taken.push(waiting.take().unwrap());
                waiting.taken(now);
            }
        }
        assert_eq!(waiting.due_in(start + Duration::from_millis(990)), Some(Duration::from_millis(10)));
        taken.push(waiting.take().unwrap());
        assert_eq!(taken.iter().map(|m| m.last_ns).collect::<Vec<_>>(), [0, 49]);
        assert_eq!(taken[1].detail, "49 requests");
        assert_eq!(waiting.due_in(start), None);
    }

    #[test]
    fn what_cannot_be_served_is_refused_in_words() {
        assert_eq!(sensible(None, None), Ok(()));
        assert_eq!(sensible(Some(1), Some(&"x".repeat(MAX_LABEL))), Ok(()));
        assert_eq!(sensible(None, Some("p99 > 5 ms, 慢い")), Ok(()));
        let fault = |label: &str| sensible(None, Some(label)).unwrap_err();
        assert_eq!(fault(&"é".repeat(61)), "the label has 122 bytes; 120 are the most");
        for empty in ["", ".", "..", "   ", "-", "_ /"] {
            assert_eq!(fault(empty), "the label has no letter and no digit: give it a word, or leave it out");
        }
        for broken in ["a\nb", "a\r", "\u{85}a", "a\u{2028}b"] {
            assert_eq!(fault(broken), "the label holds a line break: write it on one line");
        }
        assert_eq!(sensible(None, Some("p99 \x1b[2J")), Ok(()));
        assert!(sensible(Some(0), None).unwrap_err().contains("would keep nothing"));
    }

    #[test]
    fn labels_and_reasons_are_kept() {
        let mut waiting = Waiting::default();
        waiting.push(Asked { reason: "signal".into(), at: 5, ..Asked::default() });
        assert_eq!(waiting.take().unwrap().label, "signal");
        for label in ["", "p99", "oom"] {
            waiting.push(Asked { label: label.into(), reason: "key".into(), ..Asked::default() });
        }
        let merged = waiting.take().unwrap();
        assert_eq!((merged.label.as_str(), merged.detail.as_str()), ("p99", "also asked as oom; 3 requests"));
    }
}
