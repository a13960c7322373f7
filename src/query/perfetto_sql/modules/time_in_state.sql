-- Where the time of each thread went. What had not ended counts up to the end of the trace, so that sums are
-- never negative (Perfetto adds its -1 as it stands).
CREATE PERFETTO TABLE sched_time_in_state_for_thread AS
SELECT utid, sum(sum(dur)) OVER (PARTITION BY utid) AS total_runtime, state, sum(dur) AS time_in_state,
    sum(dur) * 100 / max(1, sum(sum(dur)) OVER (PARTITION BY utid)) AS percentage_in_state
FROM thread_state_clamped
GROUP BY utid, state;

CREATE PERFETTO VIEW sched_thread_time_in_state AS SELECT * FROM sched_time_in_state_for_thread;

CREATE PERFETTO TABLE sched_percentage_of_time_in_state AS
SELECT utid,
    max(percentage_in_state) FILTER (WHERE state = 'Running') AS running,
    max(percentage_in_state) FILTER (WHERE state = 'R') AS runnable,
    max(percentage_in_state) FILTER (WHERE state = 'R+') AS runnable_preempted,
    max(percentage_in_state) FILTER (WHERE state = 'S') AS sleeping,
    max(percentage_in_state) FILTER (WHERE state = 'D') AS uninterruptible_sleep,
    sum(time_in_state) FILTER (WHERE state IN ('T', 't', 'X', 'Z', 'x', 'I', 'K', 'W', 'P', 'N')) * 100
        / max(1, total_runtime) AS other
FROM sched_time_in_state_for_thread
GROUP BY utid;

-- Time of one thread in each state within an interval.
CREATE PERFETTO FUNCTION sched_time_in_state_for_thread_in_interval(ts TIMESTAMP, dur DURATION, utid LONG)
RETURNS TABLE(state STRING, io_wait BOOL, blocked_function STRING, dur DURATION) AS
SELECT state, io_wait, blocked_function, sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS spent
FROM thread_state_clamped
WHERE utid = $utid AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY state, io_wait, blocked_function
ORDER BY spent DESC;

CREATE PERFETTO FUNCTION sched_time_in_state_and_cpu_for_thread_in_interval(ts TIMESTAMP, dur DURATION, utid LONG)
RETURNS TABLE(state STRING, io_wait BOOL, cpu LONG, blocked_function STRING, dur DURATION) AS
SELECT state, io_wait, cpu, blocked_function, sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS spent
FROM thread_state_clamped
WHERE utid = $utid AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY state, io_wait, cpu, blocked_function
ORDER BY spent DESC;

CREATE PERFETTO FUNCTION sched_time_in_state_for_cpu_in_interval(cpu LONG, ts TIMESTAMP, dur LONG)
RETURNS TABLE(end_state STRING, dur LONG) AS
SELECT end_state, sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS spent
FROM sched_clamped
WHERE cpu = $cpu AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY end_state;
