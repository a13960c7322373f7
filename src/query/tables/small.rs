//! The short tables: bounds, CPUs, tracks, clocks, metadata, loss, files. Real (in-memory) SQLite tables.

use rusqlite::{Connection, params};

use crate::query::columns::{Columns, Track};
use crate::sched::event::Loss;

/// Views and empty tables that need no data.
const PRELUDE: &str = include_str!("prelude.sql");

/// Creates and fills them all.
pub fn create(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN")?;
    conn.execute_batch(PRELUDE)?;
    bounds(conn, c)?;
    cpus(conn, c)?;
    tracks(conn, c)?;
    clocks(conn, c)?;
    metadata(conn, c)?;
    stats(conn, c)?;
    files(conn, c)?;
    cgroups(conn, c)?;
    conn.execute_batch("COMMIT")
}

fn bounds(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    if let Some(w) = c.window {
        conn.execute("INSERT INTO trace_bounds VALUES (?1, ?2)", params![w.from as i64, w.to as i64])?;
    }
    for gap in &c.facts.gaps {
        conn.execute(
            "INSERT INTO gap VALUES (?1, ?2)",
            params![gap.from as i64, gap.to.saturating_sub(gap.from) as i64],
        )?;
    }
    let mut insert = conn.prepare("INSERT INTO loss VALUES (?1, ?2, ?3, ?4)")?;
    for l in &c.facts.losses {
        let ts = (l.from != 0).then_some(l.from as i64);
        let dur = ts.map(|_| l.to.saturating_sub(l.from) as i64);
        insert.execute(params![l.cpu, ts, dur, l.count.map(|n| n as i64)])?;
    }
    Ok(())
}

fn cpus(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("INSERT INTO cpu(id, ucpu, cpu, cluster_id, node, package, core, online) VALUES (?1, ?1, ?1, ?2, ?3, ?2, ?4, ?5)")?;
    let mut known: Vec<u32> = Vec::new();
    for cpu in &c.facts.cpus {
        known.push(cpu.cpu);
        insert.execute(params![cpu.cpu, cpu.package, cpu.node, cpu.core, cpu.online])?;
    }
    for (cpu, _) in (0u32..).zip(&c.cpus_seen).filter(|(_, seen)| **seen) {
        if !known.contains(&cpu) {
            insert.execute(params![cpu, None::<u32>, None::<u32>, None::<u32>, true])?;
        }
    }
    Ok(())
}

fn tracks(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut insert = conn.prepare(
        "INSERT INTO track_fact(id, name, kind, type, utid, upid, cpu, unit) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let name = |id| crate::names::printable(c.names.bytes(id));
    let upid = |pid| c.facts.processes.iter().rposition(|p| p.pid == pid).map(|i| i as i64);
    for (id, track) in c.tracks.iter().enumerate() {
        let none = None::<i64>;
        match *track {
            Track::Thread(utid) => insert.execute(params![
                id,
                None::<String>,
                "slice",
                "thread_execution",
                utid,
                none,
                none,
                None::<String>
            ])?,
            Track::Process(pid, n) => insert.execute(params![
                id,
                name(n),
                "slice",
                "atrace_async_slice",
                none,
                upid(pid),
                none,
                None::<String>
            ])?,
            Track::Irq { cpu, soft } => {
                let (label, kind) = if soft { ("SoftIrq", "cpu_softirq") } else { ("Irq", "cpu_irq") };
                insert.execute(params![
                    id,
                    format!("{label} Cpu {cpu}"),
                    "slice",
                    kind,
                    none,
                    none,
                    cpu,
                    None::<String>
                ])?
            }
            Track::ProcessCounter(pid, n) => insert.execute(params![
                id,
                name(n),
                "counter",
                "atrace_counter",
                none,
                upid(pid),
                none,
                None::<String>
            ])?,
            Track::CpuCounter(cpu, n) => {
                let kind = match c.names.bytes(n) {
                    b"cpufreq" => "cpu_frequency",
                    b"cpuidle" => "cpu_idle",
                    _ => "cpu_counter",
                };
                insert.execute(params![id, name(n), "counter", kind, none, none, cpu, None::<String>])?
            }
            Track::Counter(n) => {
                insert.execute(params![id, name(n), "counter", "counter", none, none, none, None::<String>])?
            }
        };
    }
    Ok(())
}

fn clocks(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    // Clock ids of perfetto's builtin_clock.proto.
    let mut insert = conn.prepare("INSERT INTO clock_snapshot VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL)")?;
    let mut id = 0;
    for (snapshot, clock) in c.facts.clocks.iter().enumerate() {
        for (clock_id, clock_name, value) in [
            (6, "BOOTTIME", clock.boot),
            (3, "MONOTONIC", clock.mono),
            (1, "REALTIME", clock.real),
            (10, "TAI", clock.tai),
        ] {
            if value != 0 {
                insert.execute(params![id, clock.boot as i64, clock_id, clock_name, value as i64, snapshot])?;
                id += 1;
            }
        }
    }
    Ok(())
}

fn metadata(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("INSERT INTO metadata VALUES (?1, ?2, 'single', ?3, ?4)")?;
    let mut id = 0;
    let mut add = |name: &str, int: Option<i64>, text: Option<String>| {
        id += 1;
        insert.execute(params![id - 1, name, int, text]).map(drop)
    };
    for m in &c.facts.metadata {
        let text = m.text.as_ref().map(|t| String::from_utf8_lossy(t).into_owned());
        add(&m.name, m.int, text)?;
    }
    if let Some(hz) = c.facts.sampled_hz {
        add("dashcam_sampled_hz", Some(hz.into()), None)?;
    }
    if c.facts.valid_from != 0 {
        add("dashcam_valid_from_ts", Some(c.facts.valid_from as i64), None)?;
    }
    Ok(())
}

/// Sum of known losses of one CPU, and whether some were of unknown number.
fn lost(losses: &[Loss], cpu: u32) -> (u64, bool, usize) {
    let of_cpu = losses.iter().filter(|l| l.cpu == cpu);
    let known = of_cpu.clone().filter_map(|l| l.count).fold(0, u64::saturating_add);
    (known, of_cpu.clone().any(|l| l.count.is_none()), of_cpu.count())
}

fn stats(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("INSERT INTO stats VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut cpus: Vec<u32> =
        c.facts.cpus.iter().map(|cpu| cpu.cpu).chain(c.facts.losses.iter().map(|l| l.cpu)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let mut key = 0;
    let mut add = |name: &str, idx: Option<u32>, value: u64, what: &str| {
        key += 1;
        insert.execute(params![name, key, idx, "data_loss", "trace", value as i64, what]).map(drop)
    };
    for cpu in cpus {
        let (known, unknown, times) = lost(&c.facts.losses, cpu);
        add(
            "ftrace_cpu_overrun_delta",
            Some(cpu),
            known,
            "Events the kernel dropped on this CPU, as far as it counted them.",
        )?;
        add("ftrace_cpu_has_data_loss", Some(cpu), u64::from(times > 0), "Whether events of this CPU are missing.")?;
        add(
            "dashcam_loss_of_unknown_number",
            Some(cpu),
            u64::from(unknown),
            "Whether the kernel said that events are missing without saying how many.",
        )?;
    }
    for what in &c.facts.damage {
        add("dashcam_unreadable", None, 1, what)?;
    }
    if !c.facts.gaps.is_empty() {
        add("dashcam_gaps", None, c.facts.gaps.len() as u64, "Stretches without any recording; see the table gap.")?;
    }
    Ok(())
}

fn files(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut segment = conn.prepare("INSERT INTO segment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?;
    let mut snapshot = conn.prepare(
        "INSERT INTO snapshot VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    for (id, s) in c.facts.segments.iter().enumerate() {
        let (ts, dur) = (s.window.map(|w| w.from as i64), s.window.map(|w| w.len() as i64));
        let (sequence, start, bytes) = (s.sequence.map(|n| n as i64), s.start_utc.map(|n| n as i64), s.bytes as i64);
        let events = s.counts.map(|(events, _)| events as i64);
        let (lost, more) = (s.counts.map(|(_, loss)| loss.known as i64), s.counts.map(|(_, loss)| loss.unknown));
        if !s.snapshot {
            segment.execute(params![id, s.path, sequence, ts, dur, start, bytes, events, lost, more, s.whole])?;
            continue;
        }
        let note = s.note.as_ref();
        let safe = |text: &String| crate::names::printable(text.as_bytes());
        let label = note.map(|n| safe(&n.label)).filter(|l| !l.is_empty()).or_else(|| s.label.clone());
        snapshot.execute(params![
            id,
            s.path,
            sequence,
            ts,
            dur,
            start,
            bytes,
            events,
            lost,
            more,
            s.whole,
            label,
            note.map(|n| safe(&n.reason)),
            note.map(|n| safe(&n.detail)),
            note.map(|n| n.asked.from as i64),
            note.map(|n| n.asked.len() as i64),
        ])?;
    }
    Ok(())
}

fn cgroups(conn: &Connection, c: &Columns) -> rusqlite::Result<()> {
    let mut seen: Vec<(crate::names::NameId, u32, usize)> = Vec::new();
    let mut place = rustc_hash::FxHashMap::default();
    for (upid, process) in c.facts.processes.iter().enumerate().filter(|(_, p)| !p.cgroup.is_empty()) {
        let at = *place.entry(process.cgroup).or_insert_with(|| {
            seen.push((process.cgroup, 0, 0));
            seen.len() - 1
        });
        seen[at].1 += 1;
        seen[at].2 += c.threads_by_upid().of(upid as u32).len();
    }
    let mut insert = conn.prepare("INSERT INTO cgroup VALUES (?1, ?2, ?3, ?4)")?;
    for (id, (path, processes, threads)) in seen.iter().enumerate() {
        insert.execute(params![id, String::from_utf8_lossy(c.names.bytes(*path)), processes, threads])?;
    }
    Ok(())
}
