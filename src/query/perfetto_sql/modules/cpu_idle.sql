-- Idle states over time: -1 is "not idle".
CREATE PERFETTO TABLE cpu_idle_counters AS
SELECT c.id, c.track_id, c.ts,
    lead(c.ts, 1, trace_end()) OVER (PARTITION BY c.track_id ORDER BY c.ts) - c.ts AS dur,
    CASE c.value WHEN 4294967295 THEN -1 ELSE CAST(c.value AS INTEGER) END AS idle, t.cpu
FROM counter AS c
JOIN cpu_counter_track AS t ON t.id = c.track_id
WHERE t.name = 'cpuidle';
