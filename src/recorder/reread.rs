//! What becomes of a configuration that is read again while recording: some keys take effect at once, others wait for the
//! next start. `configs/default.toml` tells the operator which; here is the one list behind it.

use super::settings::Settings;

/// A configuration read again.
#[derive(Debug, Clone, PartialEq)]
pub struct Reread {
    /// What it says.
    pub settings: Settings,
    /// Keys outside of `settings` that changed since the start and wait for the next one.
    pub outside: Vec<&'static str>,
}

impl Reread {
    /// Keys that are not as the recorder `runs` with them, and need a restart.
    pub fn at_next_start(&self, runs: &Settings) -> Vec<&'static str> {
        let (capture, store, counters) = (&self.settings.capture, &self.settings.store, &self.settings.counters);
        let mut keys = self.outside.clone();
        let mut differs = |key, differs: bool| keys.extend(differs.then_some(key));
        differs("store.segment", store.segment != runs.store.segment);
        differs("store.sync_interval", store.sync_interval != runs.store.sync_interval);
        differs("store.compression_level", store.level != runs.store.level);
        differs("capture.source", capture.source != runs.capture.source);
        differs("capture.instance", capture.instance != runs.capture.instance);
        differs("capture.events", capture.events != runs.capture.events);
        differs("capture.buffer_total", capture.buffer_total != runs.capture.buffer_total);
        differs("capture.buffer_ram_share", capture.buffer_ram_share != runs.capture.buffer_ram_share);
        differs("capture.blocked", capture.blocked != runs.capture.blocked);
        differs("capture.copy_marker", capture.copy_marker != runs.capture.copy_marker);
        differs("capture.command_lines", capture.command_lines != runs.capture.command_lines);
        differs("counters.interval", counters.interval != runs.counters.interval);
        differs("counters.sources", counters.sources != runs.counters.sources);
        keys
    }
}

impl Settings {
    /// Takes over the keys that take effect at once, of [`Reread::at_next_start`] none. `[control]` is the server's.
    pub(super) fn adopt(&mut self, new: Settings) {
        self.snapshot_last = new.snapshot_last;
        self.triggers = new.triggers;
        self.store.max_age = new.store.max_age;
        self.store.max_bytes = new.store.max_bytes;
        self.store.min_free = new.store.min_free;
    }
}

/// How the last re-reading went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Keys that wait for the next start.
    pub waiting: Vec<&'static str>,
    /// Why it, or a part of it, was not taken over.
    pub failed: Option<String>,
}

impl Outcome {
    /// For log and status.
    pub fn warnings(&self) -> Vec<String> {
        let waiting = (!self.waiting.is_empty())
            .then(|| format!("changed in the configuration, in effect at the next start: {}", self.waiting.join(", ")));
        let failed = self.failed.iter().map(|e| format!("the configuration was read again and not taken over: {e}"));
        waiting.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Access, Source, Trigger};
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_takes_effect_at_once_waits_for_nothing() {
        let mut runs = Settings::default();
        let mut new = Settings::default();
        new.store.max_bytes = 1 << 30;
        new.store.max_age = Duration::from_secs(60);
        new.store.min_free = 0.2;
        new.snapshot_last = Duration::from_secs(7);
        new.control = Access { mode: 0o600, group: None };
        new.triggers = vec![Trigger {
            label: "t".into(),
            value: "ready".into(),
            above: 3.0,
            hold: Duration::ZERO,
            cooldown: Duration::ZERO,
            last: None,
        }];
        let reread = Reread { settings: new.clone(), outside: Vec::new() };
        assert_eq!(reread.at_next_start(&runs), [] as [&str; 0]);
        runs.adopt(new.clone());
        assert_eq!(runs, Settings { control: Access::default(), ..new });
    }

    #[test]
    fn what_needs_a_restart_is_named_and_stays_as_it_runs() {
        let runs = Settings::default();
        let mut new = Settings::default();
        new.capture.events = vec!["sched".into()];
        new.capture.source = Source::Proc;
        new.store.segment = Duration::from_secs(30);
        new.store.sync_interval = Duration::ZERO;
        let reread = Reread { settings: new.clone(), outside: vec!["store.dir", "log.level"] };
        let waiting = reread.at_next_start(&runs);
        let keys =
            ["store.dir", "log.level", "store.segment", "store.sync_interval", "capture.source", "capture.events"];
        assert_eq!(waiting, keys);
        let mut adopted = runs.clone();
        adopted.adopt(new);
        assert_eq!(adopted, runs, "so that the next look names them again");
        let told = Outcome { waiting, failed: None }.warnings();
        assert!(told[0].ends_with("at the next start: store.dir, log.level, store.segment, store.sync_interval, capture.source, capture.events"), "{told:?}");
        assert_eq!(Outcome::default().warnings(), [] as [String; 0]);
    }
}
