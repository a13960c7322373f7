//! What the recorder asks this machine once, at its start.

use std::fs;
use std::path::Path;

use nix::sys::utsname::uname;

use super::head::World;
use super::origin::Origin;
use super::settings::{self, Settings};
use crate::kernel::counters;
use crate::kernel::topology::Topology;
use crate::perfetto::encode::packets::System;
use crate::store::footer::BootId;

/// The host, its CPUs, and what is recorded of it.
pub(super) fn world(settings: &Settings, origin: &Origin) -> World {
    let topology = Topology::read(Path::new("/sys")).map(|t| t.facts()).unwrap_or_default();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut metadata = vec![
        ("dashcam.source".to_owned(), origin.word().to_owned()),
        ("dashcam.clock".to_owned(), origin.clock().to_owned()),
        ("dashcam.instance".to_owned(), origin.instance_name().to_owned()),
        ("dashcam.settings".to_owned(), format!("{settings:?}")),
    ];
    metadata.extend(origin.notes().into_iter().map(|n| ("dashcam.note".to_owned(), n)));
    World {
        system: system(topology.len()),
        topology,
        model: cpu_model(),
        events: origin.events(),
        boot: BootId::parse(&boot),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        metadata,
    }
}

/// The counters that the settings name, and how often.
pub fn counters(settings: &settings::Counters) -> (counters::Counters, std::time::Duration) {
    let sources: Vec<counters::Source> =
        settings.sources.iter().filter_map(|word| counters::Source::from_word(word)).collect();
    let cpus = Topology::read(Path::new("/sys")).map(|t| t.online()).unwrap_or_default();
    (counters::Counters::system(&sources, &cpus), settings.interval)
}

fn system(cpus: usize) -> System {
    use std::os::unix::ffi::OsStrExt;
    let recorder = format!("dashcam {}", env!("CARGO_PKG_VERSION")).into_bytes();
    let ram = nix::sys::sysinfo::sysinfo().map_or(0, |i| i.ram_total());
    let page_size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let page_size = u32::try_from(page_size).unwrap_or(4096);
    let base = System { cpus, ram, page_size, recorder, ..System::default() };
    match uname() {
        Ok(u) => System {
            host: u.nodename().as_bytes().to_vec(),
            release: u.release().as_bytes().to_vec(),
            version: u.version().as_bytes().to_vec(),
            machine: u.machine().as_bytes().to_vec(),
            ..base
        },
        Err(_) => base,
    }
}

/// `model name` of /proc/cpuinfo (x86); empty on machines that call it otherwise.
fn cpu_model() -> Vec<u8> {
    let text = fs::read("/proc/cpuinfo").unwrap_or_default();
    let line = text.split(|&b| b == b'\n').find(|l| l.starts_with(b"model name"));
    let value = line.and_then(|l| l.iter().position(|&b| b == b':').map(|at| l[at + 1..].trim_ascii().to_vec()));
    value.unwrap_or_default()
}
