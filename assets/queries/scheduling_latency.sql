-- Run-queue latency of each thread
-- How long threads were ready before they ran: after wake-ups and after being pushed off, together.
SELECT t.tid, t.name AS thread, p.name AS process, count(*) AS waits,
    percentile(w.dur, 50) / 1e3 AS p50_us, percentile(w.dur, 95) / 1e3 AS p95_us, percentile(w.dur, 99) / 1e3 AS p99_us,
    max(w.dur) / 1e3 AS max_us, w.ts AS max_at
FROM wait w JOIN thread t USING (utid) LEFT JOIN process p ON p.upid = t.upid
WHERE w.kind IN ('wakeup', 'preempted') AND w.dur >= 0 AND w.end_known
GROUP BY w.utid ORDER BY max(w.dur) DESC LIMIT 30;
