-- CPU frequency over time; the last value of each CPU lasts to the end of the trace.
CREATE PERFETTO TABLE cpu_frequency_counters AS
SELECT c.id, c.track_id, c.ts,
    lead(c.ts, 1, trace_end()) OVER (PARTITION BY c.track_id ORDER BY c.ts) - c.ts AS dur,
    CAST(c.value AS INTEGER) AS freq, t.cpu AS ucpu, t.cpu
FROM counter AS c
JOIN cpu_counter_track AS t ON t.id = c.track_id
WHERE t.name = 'cpufreq';
