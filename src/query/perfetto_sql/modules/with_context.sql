-- Slices with the names of their thread and process.
CREATE PERFETTO VIEW sched_with_thread_process AS
SELECT s.id, s.ts, s.dur, s.utid, t.name AS thread_name, t.upid, p.name AS process_name, s.cpu, s.end_state, s.priority
FROM sched AS s
JOIN thread AS t ON t.utid = s.utid
LEFT JOIN process AS p ON p.upid = t.upid;
