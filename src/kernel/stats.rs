//! Per-CPU counters of the ring buffer: `per_cpu/cpuN/stats`.

/// One CPU's counters since the instance was made or its buffer resized. Lines that a kernel lacks count 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStats {
    /// Events in the buffer that nobody has read.
    pub entries: u64,
    /// Events overwritten before they were read: the loss.
    pub overrun: u64,
    /// Events lost because an interrupted writer filled the buffer on top.
    pub commit_overrun: u64,
    /// Bytes not read yet.
    pub bytes: u64,
    /// Events dropped because the buffer was full (only without `overwrite`).
    pub dropped_events: u64,
    /// Events read.
    pub read_events: u64,
    /// Time of the oldest unread event, ns of the instance's clock (µs exact); `None` if empty or not in seconds.
    pub oldest_ts: Option<u64>,
    /// The instance's clock now, ns (µs exact); `None` if the clock does not count in seconds.
    pub now_ts: Option<u64>,
}

impl CpuStats {
    /// Parses the file's text. Unknown lines are skipped.
    pub fn parse(text: &str) -> CpuStats {
        let mut stats = CpuStats::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let number = || value.parse().unwrap_or(0);
            match name.trim() {
                "entries" => stats.entries = number(),
                "overrun" => stats.overrun = number(),
                "commit overrun" => stats.commit_overrun = number(),
                "bytes" => stats.bytes = number(),
                "dropped events" => stats.dropped_events = number(),
                "read events" => stats.read_events = number(),
                "oldest event ts" => stats.oldest_ts = seconds(value).filter(|ts| *ts != 0),
                "now ts" => stats.now_ts = seconds(value),
                _ => {}
            }
        }
        stats
    }

    /// All events that were lost, whatever the way.
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped_events)
    }
}

/// `899.856676` as ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let micros: u64 = micros.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_6_18_file() {
        let text = "entries: 80\noverrun: 7\ncommit overrun: 2\nbytes: 5676\noldest event ts:   899.856676\n\
                    now ts:   900.859628\ndropped events: 1\nread events: 12\n";
        let stats = CpuStats::parse(text);
        assert_eq!((stats.entries, stats.overrun, stats.commit_overrun), (80, 7, 2));
        assert_eq!((stats.bytes, stats.dropped_events, stats.read_events), (5676, 1, 12));
        assert_eq!(stats.oldest_ts, Some(899_856_676_000));
        assert_eq!(stats.now_ts, Some(900_859_628_000));
        assert_eq!(stats.lost(), 10);
    }

    #[test]
    fn strange_text_is_no_number() {
        assert_eq!(
            CpuStats::parse("entries: x\noverrun\nnow ts: 12345\noldest event ts: 0.000000\n:\n"),
            CpuStats::default()
        );
        assert_eq!(CpuStats::parse("now ts: 99999999999999.000000").now_ts, None);
    }
}
