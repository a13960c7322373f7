-- How busy each CPU was
-- Percent of the time in which it is known who ran.
SELECT s.cpu, round(100.0 * sum(s.dur) FILTER (WHERE s.utid != 0) / max(1, sum(s.dur)), 1) AS busy_percent,
    count(*) FILTER (WHERE s.utid != 0) AS slices, count(DISTINCT s.utid) AS threads
FROM sched_clamped s GROUP BY s.cpu ORDER BY s.cpu;
