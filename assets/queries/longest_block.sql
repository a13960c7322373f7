-- The longest time each thread was blocked
-- From the switch-out in S or D to the wake-up that ended it, and on to the next run.
WITH blocked AS (
    SELECT id, utid, ts, dur, state, blocked_function, lead(ts + dur) OVER thread AS runs_at,
        lead(state) OVER thread AS next_state
    FROM thread_state WINDOW thread AS (PARTITION BY utid ORDER BY ts, id)
)
SELECT t.tid, t.name AS thread, b.state, b.blocked_function, max(b.dur) / 1e6 AS blocked_ms, b.ts AS since,
    iif(b.next_state GLOB 'R*', (b.runs_at - b.ts) / 1e6, b.dur / 1e6) AS until_it_ran_ms
FROM blocked b JOIN thread t USING (utid)
WHERE b.state IN ('S', 'D', 'DK') AND b.dur >= 0
GROUP BY b.utid ORDER BY blocked_ms DESC LIMIT 30;
