-- CPU time by process
SELECT p.pid, p.name AS process, sum(s.dur) / 1e9 AS running_s,
    100.0 * sum(s.dur) / max(1, trace_dur()) AS percent_of_one_cpu
FROM sched_clamped s JOIN process p ON s.upid = p.upid
WHERE p.pid != 0
GROUP BY p.upid ORDER BY running_s DESC LIMIT 20;
