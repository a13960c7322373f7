#!/usr/bin/env python3
"""Writes a trace as another Perfetto producer might, on stdout, built with Perfetto's own protos.

usage: foreign.py compact|full|mixed|shuffled|unknown|sequences|zlib|zstd|late-system
All variants tell the same story (see `STORY`), so all must decode to the same slices.
"""
import random
import sys
import zlib

import zstandard
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

NAMES = {0: "swapper", 7: "loader:0", 8: "loader:1", 9: "shipper"}
PRIOS = {0: 120, 7: 120, 8: 130, 9: 98}


def story():
    """Per CPU: (ts, next tid, state in which the one before leaves); and wakings (ts, cpu, tid, target cpu)."""
    random.seed(4)
    switches, wakings = {0: [], 1: []}, []
    for cpu in (0, 1):
        ts = 1_000_000_000 + cpu * 333
        for i in range(200):
            ts += random.randrange(500, 4_000_000)
            tid = [0, 7 + cpu, 9][random.randrange(3)] if i else 0
            switches[cpu].append((ts, tid, random.choice([0, 1, 2, 0x100])))
            if tid:
                wakings.append((ts - 400, cpu, tid, cpu))
    return switches, wakings


SWITCHES, WAKINGS = story()


def bundle(packet, cpu, first, last, full):
    """Events number `first` to `last` of a CPU: as columns, or as full events (`full` is a function of the number)."""
    out = packet.ftrace_events
    out.cpu = cpu
    compact = out.compact_sched
    table, before_switch, before_waking = {}, 0, 0

    def name(tid):
        return table.setdefault(NAMES[tid], len(table))

    rows = [("switch", ts, i) for i, (ts, _, _) in enumerate(SWITCHES[cpu]) if first <= i < last]
    low = rows[0][1]
    high = SWITCHES[cpu][last][0] if last < len(SWITCHES[cpu]) else 1 << 62
    rows += [("waking", w[0], i) for i, w in enumerate(WAKINGS) if w[1] == cpu and low <= w[0] < high]
    for kind, ts, i in sorted(rows, key=lambda r: (r[1], r[0] != "waking")):
        if kind == "switch":
            _, tid, state = SWITCHES[cpu][i]
            prev = SWITCHES[cpu][i - 1][1] if i else 0
            if full(i):
                event = out.event.add(timestamp=ts, pid=prev)
                event.sched_switch.prev_comm, event.sched_switch.next_comm = NAMES[prev], NAMES[tid]
                event.sched_switch.prev_pid, event.sched_switch.next_pid = prev, tid
                event.sched_switch.prev_prio, event.sched_switch.next_prio = PRIOS[prev], PRIOS[tid]
                event.sched_switch.prev_state = state
            else:
                compact.switch_timestamp.append(ts - before_switch)
                compact.switch_prev_state.append(state)
                compact.switch_next_pid.append(tid)
                compact.switch_next_prio.append(PRIOS[tid])
                compact.switch_next_comm_index.append(name(tid))
                before_switch = ts
        else:
            _, _, tid, target = WAKINGS[i]
            if full(i):
                event = out.event.add(timestamp=ts, pid=0, common_flags=16)
                waking = event.sched_waking
                waking.comm, waking.pid, waking.prio, waking.target_cpu, waking.success = NAMES[tid], tid, PRIOS[tid], target, 1
            else:
                compact.waking_timestamp.append(ts - before_waking)
                compact.waking_pid.append(tid)
                compact.waking_target_cpu.append(target)
                compact.waking_prio.append(PRIOS[tid])
                compact.waking_comm_index.append(name(tid))
                compact.waking_common_flags.append(16)
                before_waking = ts
    compact.intern_table.extend(table)
    if not table:
        out.ClearField("compact_sched")


def system(packet):
    packet.system_info.utsname.sysname = "Linux"
    packet.system_info.utsname.release = "6.1.0-foreign"
    packet.system_info.num_cpus = 2


def tree(packet):
    packet.process_tree.processes.add(pid=7, ppid=1, cmdline=["python3", "train.py"], uid=1000)
    packet.process_tree.threads.add(tid=8, tgid=7, name="loader:1")


def build(variant):
    builder = TraceProtoBuilder()
    full = {"full": lambda i: True, "mixed": lambda i: i % 3 == 0}.get(variant, lambda i: False)
    makers = [system, tree]
    for first in range(0, 200, 50):
        for cpu in (0, 1):
            makers.append(lambda p, cpu=cpu, first=first: bundle(p, cpu, first, first + 50, full))
    if variant == "shuffled":
        # Bundles of one CPU stay in order; everything else is anywhere, one CPU wholly before the other.
        makers = makers[3::2] + [makers[1]] + makers[2::2] + [makers[0]]
    if variant == "late-system":
        makers = makers[1:] + makers[:1]
    for i, make in enumerate(makers):
        packet = builder.add_packet()
        make(packet)
        packet.trusted_packet_sequence_id = 1 + (i % 3 if variant == "sequences" else 0)
    trace = protos.Trace()
    trace.ParseFromString(builder.serialize())
    return trace


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def with_unknown_fields(trace):
    """Adds fields nobody knows, of every wire type, to packets, bundles and events."""
    junk = varint(1999 << 3) + b"\x07" + varint(1998 << 3 | 2) + b"\x03abc" + varint(1997 << 3 | 1) + b"12345678" + varint(1996 << 3 | 5) + b"1234"
    out = b""
    for packet in trace.packet:
        if packet.HasField("ftrace_events"):
            packet.ftrace_events.MergeFromString(junk)
            packet.ftrace_events.compact_sched.MergeFromString(junk)
        data = junk + packet.SerializeToString() + junk
        out += b"\x0a" + varint(len(data)) + data
    return out


def compressed(trace, variant):
    out = protos.Trace()
    for i in range(0, len(trace.packet), 4):
        inner = protos.Trace(packet=trace.packet[i : i + 4]).SerializeToString()
        if variant == "zlib":
            out.packet.add(compressed_packets=zlib.compress(inner))
        else:
            out.packet.add(zstd_compressed_packets=zstandard.ZstdCompressor().compress(inner))
    return out.SerializeToString()


def main(variant):
    trace = build(variant)
    if variant == "unknown":
        data = with_unknown_fields(trace)
    elif variant in ("zlib", "zstd"):
        data = compressed(trace, variant)
    else:
        data = trace.SerializeToString()
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    main(sys.argv[1])
