//! The configuration in each lower layer's own words.

use std::path::PathBuf;

use super::schema::{BlockedStacks, CaptureSource, Config, Limit, Trigger};
use crate::kernel::{doctor, instance};
use crate::recorder::settings;
use crate::store::frame::USUAL_LEVEL;

impl Config {
    /// What the recorder is told.
    pub fn recorder(&self) -> settings::Settings {
        settings::Settings {
            capture: settings::Capture {
                source: match self.capture.source {
                    CaptureSource::Auto => settings::Source::Auto,
                    CaptureSource::Ftrace => settings::Source::Ftrace,
                    CaptureSource::Proc => settings::Source::Proc,
                },
                instance: self.capture.instance.clone(),
                tracefs: None,
                events: self.capture.events.clone(),
                buffer_total: self.capture.buffer_total.0,
                buffer_ram_share: self.capture.buffer_ram_share.0,
                blocked: match self.capture.blocked {
                    BlockedStacks::Uninterruptible => settings::Blocked::Uninterruptible,
                    BlockedStacks::All => settings::Blocked::All,
                    BlockedStacks::Off => settings::Blocked::Off,
                },
                copy_marker: self.capture.copy_marker,
                command_lines: self.capture.command_lines,
            },
            store: settings::StoreSettings {
                segment: self.store.segment.0,
                // `check` keeps it within 1 to 19.
                level: i32::try_from(self.store.compression_level).unwrap_or(USUAL_LEVEL),
                sync_interval: self.store.sync_interval.0,
                max_age: self.store.keep_time.0,
                max_bytes: self.store.keep_bytes.0,
                min_free: self.store.keep_free.0,
            },
            snapshot_last: self.snapshot.last.0,
            counters: settings::Counters {
                interval: self.counters.interval.0,
                sources: self.counters.sources.iter().map(|s| s.word().to_string()).collect(),
            },
            triggers: self.triggers.iter().map(trigger).collect(),
            control: settings::Access {
                mode: self.control.mode.0,
                group: Some(self.control.group.clone()).filter(|name| !name.is_empty()),
            },
        }
    }

    /// What `doctor` compares the machine with: a store at `store`, recorded so far at `bytes_per_s`.
    pub fn doctor(&self, store: PathBuf, bytes_per_s: Option<f64>) -> doctor::Wanted {
        doctor::Wanted {
            tracefs: None,
            events: self.capture.events.clone(),
            buffer_total: self.capture.buffer_total.0,
            buffer_ram_share: self.capture.buffer_ram_share.0,
            sub_buffer: instance::Settings::default().sub_buffer,
            store,
            keep_time: self.store.keep_time.0,
            keep_bytes: self.store.keep_bytes.0,
            keep_free: self.store.keep_free.0,
            bytes_per_s,
        }
    }
}

fn trigger(t: &Trigger) -> settings::Trigger {
    settings::Trigger {
        label: t.label.clone().unwrap_or_else(|| t.value.clone()),
        value: t.value.clone(),
        above: match t.above {
            Limit::Span(span) => span.nanos() as f64,
            // Counters of pressure are percent in the kernel's own files.
            Limit::Share(share) => share.0 * 100.0,
            Limit::Number(n) => n,
        },
        hold: t.hold.0,
        cooldown: t.cooldown.0,
        last: t.last.map(|s| s.0),
    }
}
