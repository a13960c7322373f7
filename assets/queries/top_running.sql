-- Who used the CPUs most
-- Threads by time on a CPU. The unfinished count up to the end of the data.
SELECT t.tid, t.name AS thread, p.name AS process, sum(s.dur) / 1e6 AS running_ms,
    100.0 * sum(s.dur) / max(1, trace_dur()) AS percent_of_one_cpu, count(*) AS slices
FROM sched_clamped s JOIN thread t USING (utid) LEFT JOIN process p USING (upid)
WHERE NOT t.is_idle
GROUP BY utid ORDER BY running_ms DESC LIMIT 20;
