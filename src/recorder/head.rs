//! What stands at the begin and the end of every segment and snapshot, so that each can be read alone.

use super::names::Names;
use super::tracker::Tracker;
use crate::kernel::stats::CpuStats;
use crate::perfetto::encode::packets::{self, Phase, System};
use crate::perfetto::messages::FtraceCpuStats;
use crate::sched::event::{ClockSnapshot, CpuFact, Tid};
use crate::store::footer::{BootId, Summary, Totals};
use crate::store::probe::identity;

/// What does not change while a recorder runs.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The host.
    pub system: System,
    /// CPUs.
    pub topology: Vec<CpuFact>,
    /// CPU model, as /proc/cpuinfo has it.
    pub model: Vec<u8>,
    /// Events that are recorded, `group/name`.
    pub events: Vec<String>,
    /// This run of the kernel.
    pub boot: BootId,
    /// The recorder's version.
    pub version: String,
    /// Settings and notes worth knowing when reading the file: key, value.
    pub metadata: Vec<(String, String)>,
}

/// What a head restates about its moment.
pub struct Moment<'a> {
    /// First instant the file answers for, ns on CLOCK_BOOTTIME.
    pub start: u64,
    /// Clocks, close to it.
    pub clocks: ClockSnapshot,
    /// Ring-buffer counters.
    pub stats: &'a [(u32, CpuStats)],
    /// Threads of the recorder.
    pub own: &'a [Tid],
    /// Looks at procfs per second, where there are no events.
    pub sampled_hz: Option<u32>,
    /// What CPUs and threads are doing; `None`: copied frames tell.
    pub tracker: Option<&'a Tracker>,
}

impl World {
    /// Appends a head's packets. The clocks come first: everything else needs them.
    pub fn head(&self, moment: &Moment<'_>, names: &Names, out: &mut Vec<u8>) {
        identity(self.boot, &self.version, moment.start, out);
        packets::clocks(&moment.clocks, out);
        let system =
            System { zone_offset_minutes: moment.clocks.zone_offset_minutes.unwrap_or(0), ..self.system.clone() };
        packets::system(&system, out);
        packets::topology(&self.topology, &self.model, out);
        packets::uuid(uuid(self.boot, moment.start), out);
        let events: Vec<&str> = self.events.iter().map(String::as_str).collect();
        packets::trace_config(&events, out);
        let pairs: Vec<(&str, &[u8])> = self.metadata.iter().map(|(k, v)| (k.as_str(), v.as_bytes())).collect();
        packets::metadata(&pairs, out);
        packets::own_threads(moment.own, out);
        if let Some(hz) = moment.sampled_hz {
            packets::sampled(hz, out);
        }
        if !moment.stats.is_empty() {
            packets::ftrace_stats(Phase::Start, &counters(moment.stats), out);
        }
        names.write_tree(moment.start, out);
        if let Some(tracker) = moment.tracker {
            let (mut cpus, mut threads) = (Vec::new(), Vec::new());
            tracker.cpus_now(&mut cpus);
            tracker.threads_now(&mut threads);
            packets::state(moment.start, &cpus, &threads, out);
        }
    }

    /// Appends a tail's packets.
    pub fn tail(&self, clocks: &ClockSnapshot, stats: &[(u32, CpuStats)], out: &mut Vec<u8>) {
        packets::clocks(clocks, out);
        if !stats.is_empty() {
            packets::ftrace_stats(Phase::End, &counters(stats), out);
        }
    }

    /// A footer's totals, but for what follows from the index.
    pub fn totals(&self, start: &ClockSnapshot, from: u64, end: &ClockSnapshot, to: u64, summary: &Summary) -> Totals {
        let (busy, busiest) = summary.occupancy(to);
        Totals {
            boot: self.boot,
            host: self.system.host.clone(),
            recorder: self.version.clone(),
            start: from,
            end: to,
            valid_from: from,
            clock: *start,
            clock_end: *end,
            cpus: u32::try_from(summary.lanes.len()).unwrap_or(u32::MAX),
            busy,
            busiest,
            ..Totals::default()
        }
    }
}

/// An identity that two segments never share: the boot's own id moved by the segment's begin.
fn uuid(boot: BootId, start: u64) -> u128 {
    u128::from_be_bytes(boot.0) ^ u128::from(start)
}

fn counters(stats: &[(u32, CpuStats)]) -> Vec<FtraceCpuStats> {
    let seconds = |ns: Option<u64>| ns.map(|n| n as f64 / 1e9);
    let one = |(cpu, s): &(u32, CpuStats)| FtraceCpuStats {
        cpu: Some(u64::from(*cpu)),
        entries: Some(s.entries),
        overrun: Some(s.overrun),
        commit_overrun: Some(s.commit_overrun),
        bytes_read: Some(s.bytes),
        oldest_event_ts: seconds(s.oldest_ts),
        now_ts: seconds(s.now_ts),
        dropped_events: Some(s.dropped_events),
        read_events: Some(s.read_events),
    };
    stats.iter().map(one).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::names::NameTable;
    use crate::perfetto::decode::Decoder;
    use crate::sched::event::Item;

    #[test]
    fn a_head_places_its_file_before_anything_else() {
        let world = World {
            system: System { host: b"h".to_vec(), release: b"6.18.44".to_vec(), ..System::default() },
            boot: BootId([7; 16]),
            version: "0.1.0".into(),
            metadata: vec![("dashcam.clock".into(), "boot".into())],
            ..World::default()
        };
        let clocks = ClockSnapshot { boot: 5000, mono: 4000, real: 9000, tai: 9037, zone_offset_minutes: Some(60) };
        let moment = Moment { start: 4990, clocks, stats: &[], own: &[42], sampled_hz: Some(20), tracker: None };
        let mut out = Vec::new();
        world.head(&moment, &Names::default(), &mut out);
        let (mut table, mut items) = (NameTable::new(), Vec::new());
        Decoder::new().decode(&out, &mut table, &mut |i| items.push(i)).unwrap();
        assert!(matches!(items[0], Item::Metadata { key, .. } if table.text(key) == "dashcam.format"));
        assert!(
            items.iter().any(|i| matches!(i, Item::Clock(c) if c.real == 9000 && c.zone_offset_minutes == Some(60)))
        );
        assert!(items.iter().any(|i| matches!(i, Item::System(s) if table.text(s.release) == "6.18.44")));
        assert!(items.iter().any(|i| matches!(i, Item::OwnThread { tid: 42 })));
        assert!(items.contains(&Item::Sampled { hz: 20 }));
    }
}
