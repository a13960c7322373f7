-- Where the time of each thread went
-- Percent of the time it lived in each state: running, ready after a wake-up, pushed off (R+, or R without a waker: it left
-- the CPU while ready to run), sleeping (S, I), D.
WITH spent AS (
    SELECT utid, sum(dur) AS known, sum(dur) FILTER (WHERE state = 'Running') AS running,
        sum(dur) FILTER (WHERE state = 'R' AND waker_utid IS NOT NULL) AS ready,
        sum(dur) FILTER (WHERE state = 'R+' OR state = 'R' AND waker_utid IS NULL) AS pushed_off,
        sum(dur) FILTER (WHERE state IN ('S', 'I')) AS sleeping,
        sum(dur) FILTER (WHERE state GLOB 'D*') AS d
    FROM thread_state_clamped GROUP BY utid
)
SELECT t.tid, t.name AS thread, p.name AS process,
    round(100.0 * running / known, 1) AS running, round(100.0 * ready / known, 1) AS ready,
    round(100.0 * pushed_off / known, 1) AS pushed_off, round(100.0 * sleeping / known, 1) AS sleeping,
    round(100.0 * d / known, 1) AS d
FROM spent JOIN thread t USING (utid) LEFT JOIN process p USING (upid)
WHERE known > 0
ORDER BY coalesce(ready, 0) + coalesce(pushed_off, 0) DESC LIMIT 30;
