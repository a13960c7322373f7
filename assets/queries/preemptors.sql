-- Who pushes whom off the CPU
-- Pairs by the time the first was kept waiting after the second was put in its place.
SELECT t.name AS pushed_off, t.tid, pre.name AS by_thread, pre.tid AS by_tid, count(*) AS times,
    sum(w.dur) / 1e6 AS waited_ms, max(w.dur) / 1e6 AS longest_ms
FROM wait w JOIN thread t USING (utid) JOIN thread pre ON pre.utid = w.preemptor_utid
WHERE w.kind = 'preempted' AND w.dur >= 0
GROUP BY w.utid, w.preemptor_utid ORDER BY waited_ms DESC LIMIT 20;
