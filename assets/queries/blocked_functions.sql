-- In which kernel functions threads were blocked in D
-- The function is there when the recorder took stacks (blocked = "uninterruptible" in its configuration).
SELECT coalesce(s.blocked_function, '(not recorded)') AS blocked_in, t.name AS thread, count(*) AS times,
    sum(s.dur) / 1e6 AS total_ms, max(s.dur) / 1e6 AS longest_ms, sum(s.io_wait) AS io_waits
FROM thread_state s JOIN thread t USING (utid)
WHERE s.state GLOB 'D*' AND s.dur >= 0
GROUP BY 1, s.utid ORDER BY total_ms DESC LIMIT 30;
