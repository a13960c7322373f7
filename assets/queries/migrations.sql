-- Threads that change CPUs most
WITH places AS (
    SELECT utid, cpu, lag(cpu) OVER (PARTITION BY utid ORDER BY ts) AS before FROM sched WHERE utid != 0
)
SELECT t.tid, t.name AS thread, sum(cpu != before) AS migrations, count(*) AS slices, count(DISTINCT cpu) AS cpus
FROM places JOIN thread t USING (utid)
GROUP BY utid HAVING migrations > 0 ORDER BY migrations DESC LIMIT 20;
