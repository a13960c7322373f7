-- The basics of thread_executing_span: ready stretches with a waker, sleeps, and what each wake-up ended.
-- The critical-path macros that Perfetto builds on them are not here.
CREATE PERFETTO TABLE _runnable_state AS
SELECT id, ts, dur, state, utid, waker_id, waker_utid,
    CASE WHEN coalesce(irq_context, 0) = 0 THEN coalesce(io_wait, 0) ELSE 1 END AS is_irq
FROM thread_state
WHERE dur != -1 AND waker_id IS NOT NULL;

CREATE PERFETTO TABLE _sleep_state AS
SELECT id, ts, dur, state, blocked_function, utid
FROM thread_state
WHERE dur != -1 AND state IN ('S', 'D', 'I');

CREATE PERFETTO TABLE _thread_end_ts AS
SELECT max(ts) + dur AS end_ts, utid FROM thread_state WHERE dur != -1 GROUP BY utid;

CREATE INDEX _sleep_state_end ON _sleep_state(utid, ts + dur);

CREATE PERFETTO TABLE _wakeup AS
SELECT s.state, s.blocked_function, r.id, r.ts, r.utid, r.waker_id, r.waker_utid, s.ts AS prev_end_ts, r.is_irq,
    e.end_ts AS thread_end_ts
FROM _runnable_state AS r
LEFT JOIN _sleep_state AS s ON s.utid = r.utid AND s.ts + s.dur = r.ts
LEFT JOIN _thread_end_ts AS e ON e.utid = r.utid;
