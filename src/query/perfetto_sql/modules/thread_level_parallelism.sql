-- How many threads were ready, or in D, or running, over time.
CREATE PERFETTO VIEW _sched_steps AS
SELECT ts, state, 1 AS step FROM thread_state_clamped
UNION ALL
SELECT ts + dur, state, -1 FROM thread_state_clamped WHERE ts + dur < trace_end();

CREATE PERFETTO TABLE sched_runnable_thread_count AS
SELECT ts, sum(sum(step)) OVER (ORDER BY ts) AS runnable_thread_count
FROM _sched_steps WHERE state IN ('R', 'R+') GROUP BY ts ORDER BY ts;

CREATE PERFETTO TABLE sched_uninterruptible_sleep_thread_count AS
SELECT ts, sum(sum(step)) OVER (ORDER BY ts) AS uninterruptible_sleep_thread_count
FROM _sched_steps WHERE state GLOB 'D*' GROUP BY ts ORDER BY ts;

CREATE PERFETTO TABLE sched_active_cpu_count AS
SELECT ts, sum(sum(step)) OVER (ORDER BY ts) AS active_cpu_count
FROM _sched_steps WHERE state = 'Running' GROUP BY ts ORDER BY ts;
