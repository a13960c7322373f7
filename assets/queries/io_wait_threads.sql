-- Threads that go into D most often
-- D is uninterruptible sleep, most of the time a disk.
SELECT t.name AS thread_name, t.tid, count(DISTINCT s.id) AS slices,
    sum(CASE WHEN s.thread_state = 'D' THEN 1 ELSE 0 END) AS uninterruptible_count
FROM sched s JOIN thread t ON s.utid = t.utid
GROUP BY t.utid HAVING uninterruptible_count > 0 ORDER BY uninterruptible_count DESC LIMIT 20;
