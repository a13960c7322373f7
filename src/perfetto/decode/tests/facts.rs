//! What is not an event: clocks, host, processes, state block, and the rest of our extension.

use super::*;

#[test]
fn every_fact_comes_back() {
    let mut out = Vec::new();
    let clock = ClockSnapshot {
        boot: 5,
        mono: 4,
        real: 1_796_042_030_687_175_717,
        tai: 1_796_042_067_687_175_717,
        zone_offset_minutes: Some(-180),
    };
    packets::clocks(&clock, &mut out);
    let system = packets::System {
        host: b"h\xff".to_vec(),
        release: b"4.4.1".to_vec(),
        version: b"#1".to_vec(),
        machine: b"x86_64".to_vec(),
        cpus: 2,
        ram: 1 << 40,
        page_size: 4096,
        zone_offset_minutes: -180,
        recorder: b"dashcam".to_vec(),
    };
    packets::system(&system, &mut out);
    let cpus = [
        CpuFact { cpu: 0, node: 0, package: 0, core: 0, online: true },
        CpuFact { cpu: 3000, node: 1, package: 1, core: 7, online: false },
    ];
    packets::topology(&cpus, b"Some CPU", &mut out);
    packets::state(
        9,
        &[packets::CpuNow { cpu: 1, tid: 7, prio: 120, since: 3 }],
        &[
            packets::ThreadAt {
                tid: 8,
                state: ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE),
                since: Some(4),
                cpu: Some(1),
            },
            packets::ThreadAt { tid: 9, state: ThreadNow::Preempted, since: None, cpu: None },
        ],
        &mut out,
    );
    packets::losses(&[Loss { cpu: 1, from: 1, to: 2, count: None }], &mut out);
    packets::gap(10, 20, &mut out);
    packets::own_threads(&[70, 71], &mut out);
    packets::metadata(&[("reason", b"key")], &mut out);
    let sample = |ts, name: &str, cpu, value| packets::CounterSample { ts, name: name.into(), cpu, value };
    let samples = [
        sample(3, "psi.cpu.some.avg10", None, 1.5),
        sample(3, "mem.free_bytes", None, 4096.0),
        sample(3, "mem.free_bytes", Some(1), 4096.0),
        sample(4, "psi.cpu.some.total_ns", None, 77.0),
    ];
    packets::counters(&samples, &mut out);
    packets::sampled(50, &mut out);
    packets::cpu_online(11, 1, false, &mut out);
    packets::damage(Some(1), "a page", &mut out);
    let blocked = vec![(7, 100), (8, 90), (7, u64::MAX)];
    packets::stacks(&[packets::Stack { functions: b"schedule\njbd2".to_vec(), blocked }], &mut out);
    packets::complete_through(12, &mut out);
    packets::uuid(1, &mut out);
    packets::trace_config(&["sched/sched_switch"], &mut out);
    packets::ftrace_stats(
        packets::Phase::End,
        &[m::FtraceCpuStats { cpu: Some(1), overrun: Some(6), ..Default::default() }],
        &mut out,
    );
    let (items, names) = whole(&out);
    let id = |text: &[u8]| names.find(text).unwrap();
    assert_eq!(
        items,
        [
            Item::Clock(clock),
            Item::System(SystemFact {
                host: id(b"h\xff"),
                release: id(b"4.4.1"),
                version: id(b"#1"),
                machine: id(b"x86_64"),
                cpus: 2,
                ram: 1 << 40
            }),
            Item::Cpu(cpus[0]),
            Item::Cpu(cpus[1]),
            Item::CpuState { ts: 9, cpu: 1, tid: 7, prio: 120, since: 3 },
            Item::ThreadState {
                ts: 9,
                tid: 8,
                state: ThreadNow::Blocked(TaskState::UNINTERRUPTIBLE),
                since: Some(4),
                cpu: Some(1)
            },
            Item::ThreadState { ts: 9, tid: 9, state: ThreadNow::Preempted, since: None, cpu: None },
            Item::Loss(Loss { cpu: 1, from: 1, to: 2, count: None }),
            Item::Gap { from: 10, to: 20 },
            Item::OwnThread { tid: 70 },
            Item::OwnThread { tid: 71 },
            Item::Metadata { key: id(b"reason"), value: id(b"key") },
            Item::Counter { ts: 3, name: id(b"mem.free_bytes"), cpu: None, value: 4096.0 },
            Item::Counter { ts: 3, name: id(b"psi.cpu.some.avg10"), cpu: None, value: 1.5 },
            Item::Counter { ts: 3, name: id(b"mem.free_bytes"), cpu: Some(1), value: 4096.0 },
            Item::Counter { ts: 4, name: id(b"psi.cpu.some.total_ns"), cpu: None, value: 77.0 },
            Item::Sampled { hz: 50 },
            Item::CpuOnline { ts: 11, cpu: 1, online: false },
            Item::Damage { cpu: Some(1), what: id(b"a page") },
            Item::Stack { ts: 100, tid: 7, functions: id(b"schedule\njbd2") },
            Item::Stack { ts: 90, tid: 8, functions: id(b"schedule\njbd2") },
            Item::Stack { ts: u64::MAX, tid: 7, functions: id(b"schedule\njbd2") },
            Item::CompleteThrough { ts: 12 },
            Item::Metadata { key: id(b"ftrace_stats.end.cpu1.overrun"), value: id(b"6") },
        ]
    );
}

#[test]
fn case_7_prev_state_is_read_by_the_layout_of_the_traces_kernel() {
    let mut out = Vec::new();
    packets::system(&packets::System { release: b"4.9.0-13".to_vec(), ..Default::default() }, &mut out);
    let mut b = BundleBuilder::new();
    b.switch(1, 0x1000, 1, 120, &comm("x"));
    b.finish(0, None, &mut out);
    let EventKind::Switch(s) = events(&whole(&out).0)[0].kind else { panic!() };
    assert_eq!((s.prev_state, s.prev_state_raw), (TaskState::PREEMPTED, 0x1000));
}
