#!/usr/bin/env python3
"""The independent judge of our traces: reads a plain (decompressed) trace on stdin with Perfetto's own protos.

usage: judge.py counts|sched|names|events < TRACE
  counts  one "what<TAB>number" a line: packets by field, full events by kind, compact rows
  sched   compact rows as CSV: kind,ts,cpu,then the columns, names looked up in the bundle's table
  names   processes and threads of the process tree, clocks, kernel release
  events  every full event: kind, ts, cpu, pid, flags and its fields as text protos write them
"""
import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos


def load():
    trace = protos.Trace()
    trace.ParseFromString(sys.stdin.buffer.read())
    return trace


def event_kind(event):
    return next(f.name for f, _ in event.ListFields() if f.message_type)


def counts(trace):
    counter = Counter()
    for packet in trace.packet:
        for field, _ in packet.ListFields():
            counter["packet." + field.name] += 1
        bundle = packet.ftrace_events
        counter["compact.switch"] += len(bundle.compact_sched.switch_timestamp)
        counter["compact.waking"] += len(bundle.compact_sched.waking_timestamp)
        counter["lost_events"] += bundle.lost_events
        for event in bundle.event:
            counter["event." + event_kind(event)] += 1
    for name, number in sorted(counter.items()):
        print(f"{name}\t{number}")


def sched(trace):
    for packet in trace.packet:
        bundle = packet.ftrace_events
        compact = bundle.compact_sched
        table = list(compact.intern_table)
        columns = [compact.switch_prev_state, compact.switch_next_pid, compact.switch_next_prio, compact.switch_next_comm_index]
        assert all(len(c) == len(compact.switch_timestamp) for c in columns)
        ts = 0
        for delta, state, pid, prio, comm in zip(compact.switch_timestamp, *columns):
            ts += delta
            print(f"switch,{ts},{bundle.cpu},{state},{pid},{prio},{table[comm]!r}")
        columns = [compact.waking_pid, compact.waking_target_cpu, compact.waking_prio, compact.waking_comm_index, compact.waking_common_flags]
        assert all(len(c) == len(compact.waking_timestamp) for c in columns)
        ts = 0
        for delta, pid, cpu, prio, comm, flags in zip(compact.waking_timestamp, *columns):
            ts += delta
            print(f"waking,{ts},{bundle.cpu},{pid},{cpu},{prio},{table[comm]!r},{flags}")


def names(trace):
    for packet in trace.packet:
        for p in packet.process_tree.processes:
            print(f"process\t{p.pid}\t{p.ppid}\t{list(p.cmdline)}\t{p.uid}\t{p.is_kthread}")
        for t in packet.process_tree.threads:
            print(f"thread\t{t.tid}\t{t.tgid}\t{t.name!r}")
        if packet.HasField("clock_snapshot"):
            print("clocks\t" + " ".join(f"{c.clock_id}={c.timestamp}" for c in packet.clock_snapshot.clocks))
        if packet.HasField("system_info"):
            info = packet.system_info
            print(f"system\t{info.utsname.sysname} {info.utsname.release} {info.utsname.machine}\t{info.num_cpus}\t{info.timezone_off_mins}")
        if packet.HasField("cpu_info"):
            print("cpus\t" + " ".join(repr(c.processor) for c in packet.cpu_info.cpus))
        if packet.HasField("trace_config"):
            for source in packet.trace_config.data_sources:
                print(f"config\t{source.config.name}\t{list(source.config.ftrace_config.ftrace_events)}\t{source.config.ftrace_config.compact_sched.enabled}")
        if packet.HasField("ftrace_stats"):
            stats = packet.ftrace_stats
            print(f"stats\t{stats.phase}\t" + " ".join(f"{c.cpu}:{c.overrun}" for c in stats.cpu_stats))
        if packet.HasField("sys_stats"):
            memory = " ".join(f"{protos.MeminfoCounters.Name(v.key)}={v.value}kB" for v in packet.sys_stats.meminfo)
            pressure = " ".join(f"{protos.SysStats.PsiSample.PsiResource.Name(v.resource)}={v.total_ns}ns" for v in packet.sys_stats.psi)
            print(f"counters\t{packet.timestamp}\t{memory}\t{pressure}")
        if packet.HasField("trace_uuid"):
            print(f"uuid\t{packet.trace_uuid.msb}\t{packet.trace_uuid.lsb}")


def events(trace):
    symbols = {}
    for packet in trace.packet:
        if packet.sequence_flags & 1:
            symbols.clear()
        for symbol in packet.interned_data.kernel_symbols:
            symbols[symbol.iid] = symbol.str.decode()
        bundle = packet.ftrace_events
        for event in bundle.event:
            kind = event_kind(event)
            message = getattr(event, kind)
            if kind == "generic":
                value = lambda f: getattr(f, next(x.name for x, _ in f.ListFields() if x.name.endswith("_value")))
                text = f"{message.event_name} " + " ".join(f"{f.name}={value(f)!r}" for f in message.field)
            else:
                text = " ".join(f"{f.name}={list(v) if f.is_repeated else v!r}" for f, v in message.ListFields())
            if kind == "sched_blocked_reason":
                text += f" [{symbols.get(message.caller)}]"
            print(f"{kind}\t{event.timestamp}\t{bundle.cpu}\t{event.pid}\t{event.common_flags}\t{text}")


if __name__ == "__main__":
    {"counts": counts, "sched": sched, "names": names, "events": events}[sys.argv[1]](load())
