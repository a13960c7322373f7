-- The longest waits for a CPU, and who caused them
-- For each: when, how long, after a wake-up (by whom) or pushed off (by whom), and on which CPU.
SELECT w.ts, w.dur / 1e6 AS wait_ms, t.tid, t.name AS thread, w.kind, w.cpu,
    pre.name AS pushed_off_by, CASE WHEN w.irq_context THEN 'interrupt' ELSE waker.name END AS woken_by
FROM wait w JOIN thread t USING (utid)
LEFT JOIN thread pre ON pre.utid = w.preemptor_utid LEFT JOIN thread waker ON waker.utid = w.waker_utid
WHERE w.kind IN ('wakeup', 'preempted') AND w.dur >= 0 AND w.end_known
ORDER BY w.dur DESC LIMIT 20;
