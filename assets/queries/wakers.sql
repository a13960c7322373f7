-- Who wakes whom
-- Pairs by number of wake-ups; interrupts stand for themselves.
SELECT CASE WHEN s.irq_context THEN '(interrupt)' ELSE w.name END AS waker, t.name AS wakee, count(*) AS wakeups,
    sum(s.dur) FILTER (WHERE s.dur >= 0) / 1e6 AS then_waited_ms
FROM thread_state s JOIN thread t USING (utid) LEFT JOIN thread w ON w.utid = s.waker_utid
WHERE s.state = 'R' AND (s.waker_utid IS NOT NULL OR s.irq_context)
GROUP BY CASE WHEN s.irq_context THEN -1 ELSE s.waker_utid END, s.utid ORDER BY wakeups DESC LIMIT 30;
