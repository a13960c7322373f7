-- CPU occupancy second by second
-- Slices are counted in the second in which they begin.
SELECT (s.ts - trace_start()) / 1000000000 AS second, abs_time_str(min(s.ts)) AS since,
    round(100.0 * sum(s.dur) / 1e9, 1) AS busy_percent_of_one_cpu, count(*) AS slices
FROM sched_clamped s WHERE s.utid != 0 GROUP BY 1 ORDER BY 1;
